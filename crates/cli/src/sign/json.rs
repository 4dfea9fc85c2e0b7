//! Signatures as JSON, one object per message.

use bruit_signatures::bruit::Features;
use bruit_signatures::url::Link;
use bruit_signatures::{Scheme, Signature, Signed};
use serde_json::{Value, json};

use super::explain::Explained;
use bruit_console::mailbox::Message;

pub(super) fn of(message: &Message<'_>, signed: &Signed, explained: Option<&Explained>) -> Value {
    let mut links = signed.links.iter();
    let signatures = signed.signatures.iter().map(|signature| {
        let link = (signature.scheme() == Scheme::Url).then(|| links.next()).flatten();
        signature_json(signature, link)
    });
    let mut value = json!({
        "file": message.file.to_string_lossy(),
        "signatures": signatures.collect::<Vec<_>>(),
    });
    if let Some(number) = message.number {
        value["message"] = json!(number);
    }
    if let Some(features) = &signed.features {
        value["features"] = features_json(features);
    }
    if let Some(explained) = explained {
        value["explanation"] = explained.json();
    }
    value
}

fn signature_json(signature: &Signature, link: Option<&Link>) -> Value {
    // Other JSON output calls this field `value`. The name `signature` is kept for programs that already read it.
    let text = signature.to_string();
    let mut value = json!({ "scheme": signature.scheme().name(), "value": text, "signature": text });
    if let Some(part) = signature.part() {
        value["part"] = json!(part);
    }
    if let Some(link) = link {
        value["link"] = json!(link.to_string());
    }
    value
}

/// Formats 64-bit numbers as strings, because many JSON parsers keep only 53 bits of a number.
fn features_json(features: &Features) -> Value {
    let digits = |features: &[u64]| features.iter().map(|feature| format!("{feature:016x}")).collect::<Vec<_>>();
    json!({
        "pairs": digits(&features.pairs),
        "links": digits(&features.links),
        "whole": features.whole.map(|whole| format!("{whole:016x}")),
    })
}
