//! Compares the API's types with its description.

use std::collections::BTreeSet;

use bruit_protocols::http::{
    AccountDay, AccountEntry, AccountHistory, AccountName, AccountPage, AccountPatch, AccountTrust, Checked,
    CheckedSignature, Claimed, ClockAccepted, Condition, Counted, Done, Evidence, Explained, ExplainedSignature,
    Generation, GenerationClaims, GenerationRecipients, History, HistorySlot, LearnAnswer, NamedSignature, NewAccount,
    NewPeer, Outline, PeerName, PeerStatus, Peers, Problem, Ready, Recovery, RefusedSegments, RequestCount, Ring,
    SignInLink, SignatureReporter, Site, Sites, Stats, Store, Subject, Table, Text, TrustPolicy, Whitelist,
    WhitelistEntry,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::router::OPENAPI;

fn document() -> Value {
    serde_json::from_str(OPENAPI).unwrap()
}

fn keys(value: &Value) -> BTreeSet<String> {
    value.as_object().map(|object| object.keys().cloned().collect()).unwrap_or_default()
}

/// Asserts that the example of a type is valid and complete, and that the description has the same fields as the type.
fn assert_described<T: DeserializeOwned + Serialize>(document: &Value, name: &str) {
    let schema = &document["components"]["schemas"][name];
    let read: T = serde_json::from_value(schema["example"].clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let written = serde_json::to_value(read).unwrap();
    assert_eq!(written, schema["example"], "{name}: every field of the example is known");
    assert_eq!(keys(&written), keys(&schema["properties"]), "{name}");
    let required = schema["required"].as_array().unwrap();
    assert!(required.iter().all(|field| schema["properties"].get(field.as_str().unwrap()).is_some()), "{name}");
    assert_required::<T>(schema, required, name);
}

/// Asserts that `required` lists exactly the required fields.
fn assert_required<T: DeserializeOwned>(schema: &Value, required: &[Value], name: &str) {
    for field in keys(&schema["properties"]) {
        let mut example = schema["example"].clone();
        example.as_object_mut().unwrap().remove(&field);
        let is_required = required.iter().any(|required| *required == *field);
        assert_eq!(serde_json::from_value::<T>(example).is_err(), is_required, "{name}.{field}");
    }
}

#[test]
fn every_field_of_every_type_is_described_and_its_example_is_read() {
    let document = document();
    macro_rules! described {
        ($($name:ident)*) => {{
            $(assert_described::<$name>(&document, stringify!($name));)*
            [$(stringify!($name)),*]
        }};
    }
    let names = described!(
        Subject NamedSignature Outline Text Checked CheckedSignature Claimed Counted LearnAnswer Explained
        ExplainedSignature GenerationClaims GenerationRecipients Evidence SignatureReporter Stats Ring Generation
        Table Store Recovery RequestCount AccountPage AccountEntry AccountTrust AccountHistory AccountDay NewAccount
        AccountPatch AccountName TrustPolicy Whitelist Done Problem Peers PeerName NewPeer PeerStatus RefusedSegments
        Condition Ready ClockAccepted History HistorySlot Sites Site SignInLink
    );
    let entry = &document["components"]["schemas"]["WhitelistEntry"];
    assert!(serde_json::from_value::<WhitelistEntry>(entry["example"].clone()).is_ok());
    let all: BTreeSet<String> = names.into_iter().chain(["WhitelistEntry"]).map(str::to_owned).collect();
    assert_eq!(keys(&document["components"]["schemas"]), all, "every described type exists");
}

#[test]
fn every_reference_leads_somewhere() {
    fn collect(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("$ref").and_then(Value::as_str).map(str::to_owned));
                object.values().for_each(|value| collect(value, found));
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
            _ => {}
        }
    }
    let (document, mut found) = (document(), Vec::new());
    collect(&document, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn the_description_has_the_paths_of_the_router_and_no_others() {
    let source = [include_str!("router.rs"), include_str!("administration.rs")].concat();
    let routes = source.split(".route(").skip(1).map(|rest| rest.split(")\n").next().unwrap());
    let routes: BTreeSet<(String, BTreeSet<String>)> = routes
        .map(|route| {
            let path = route.split('"').nth(1).unwrap().to_owned();
            let methods =
                ["get", "post", "patch", "delete"].into_iter().filter(|method| route.contains(&format!("{method}(")));
            (path, methods.map(str::to_owned).collect())
        })
        .collect();
    let paths = document()["paths"].as_object().unwrap().clone();
    let described = paths.into_iter().map(|(path, methods)| (path, keys(&methods))).collect();
    assert_eq!(routes, described);
}
