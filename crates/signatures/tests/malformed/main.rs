//! Tests with malformed messages. No scheme may panic or be slow, and no result may change unnoticed.

mod hostile;
mod pieces;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use bruit_signatures::bruit::{Explanation, Features};
use bruit_signatures::message::Message;
use bruit_signatures::pyzor::{Version, predigest};
use bruit_signatures::reading::Reading;
use bruit_signatures::{Context, Wanted, sign};

/// Environment variable that makes the test rewrite the expected signatures.
const UPDATE: &str = "BRUIT_UPDATE";

fn testdata(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/malformed").join(name)
}

/// Returns the messages with their names.
fn messages() -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(testdata("")).unwrap().map(|entry| entry.unwrap());
    let mut messages: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), entry.path()))
        .filter(|(name, _)| name.ends_with(".eml"))
        .map(|(name, path)| (name, fs::read(path).unwrap()))
        .collect();
    messages.sort();
    messages
}

/// Formats everything computed from a message, one item per line.
fn lines(name: &str, message: &[u8]) -> String {
    let mut out = String::new();
    let signed = sign(message, &Wanted::ALL, &Context::default());
    for signature in &signed.signatures {
        let part = signature.part().map_or_else(|| "-".to_owned(), |part| part.to_string());
        writeln!(out, "{name} {} {part} {signature}", signature.scheme()).unwrap();
    }
    let features = signed.features.unwrap();
    writeln!(out, "{name} bruit - {}", shown(&features)).unwrap();
    out
}

/// Summarises the features, which are too many to list: how many there are of each kind, and one hash of all of them.
fn shown(features: &Features) -> String {
    let sum = features.all().fold(0u64, |sum, feature| sum.rotate_left(1) ^ feature);
    let whole = features.whole.map_or_else(|| "-".to_owned(), |whole| format!("{whole:016x}"));
    format!("pairs {} links {} {sum:016x} whole {whole}", features.pairs.len(), features.links.len())
}

#[test]
fn signatures_are_those_on_record() {
    let found: String = messages().iter().map(|(name, message)| lines(name, message)).collect();
    let path = testdata("expected.txt");
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&path, &found).unwrap();
    }
    let expected = fs::read_to_string(path).unwrap();
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected, "if this change is intended, see testdata/malformed/README.md");
    }
    assert_eq!(
        found.lines().count(),
        expected.lines().count(),
        "if this change is intended, see testdata/malformed/README.md"
    );
}

#[test]
fn every_message_is_described() {
    let readme = fs::read_to_string(testdata("README.md")).unwrap();
    let described: Vec<&str> =
        readme.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`')).map(|(name, _)| name).collect();
    let names: Vec<String> = messages().into_iter().map(|(name, _)| name).collect();
    assert_eq!(described, names);
}

#[test]
fn no_form_of_a_message_breaks_a_scheme() {
    for (_, message) in messages() {
        for sixteenth in 0..=16 {
            try_all(&message[..message.len() * sixteenth / 16]);
        }
        try_all(&message.iter().rev().copied().collect::<Vec<_>>());
        try_all(&message.repeat(2));
    }
}

fn try_all(message: &[u8]) {
    sign(message, &Wanted::ALL, &Context::default());
    Explanation::of(&Reading::of(&Message::read(message)));
    predigest(message, Version::V1_0);
    predigest(message, Version::V1_1);
}
