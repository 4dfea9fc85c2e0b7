//! Known answers for individual steps of the original client.

use std::path::Path;

use serde_json::Value;

use super::ephemeral::Drand48;
use super::{domains, hosts, html, razor64, whiplash};

/// Returns the list named `name` in `testdata/razor/primitives.json`.
fn answers(name: &str) -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/razor/primitives.json");
    let all: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let answers = all[name].as_array().cloned().unwrap_or_else(|| vec![all[name].clone()]);
    assert!(!answers.is_empty() && !answers[0].is_null(), "no answers for {name}");
    answers
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

fn from_hex(digits: &str) -> Vec<u8> {
    digits.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn razor64_has_the_known_spellings() {
    for answer in answers("hex_to_razor64") {
        let [digits, expected] = texts(&answer)[..] else { panic!("not a pair: {answer}") };
        assert_eq!(razor64::encode(&from_hex(digits)), expected);
    }
}

#[test]
fn random_numbers_are_the_known_ones() {
    for (name, numbers) in [("drand48", "first10"), ("drand48_max", "first3")] {
        for answer in answers(name) {
            let mut random = Drand48::new(u32::try_from(answer["seed"].as_u64().unwrap()).unwrap());
            for number in texts(&answer[numbers]) {
                assert_eq!(random.below(1.0), number.parse::<f64>().unwrap());
            }
        }
    }
}

#[test]
fn hosts_have_their_known_domains() {
    for answer in answers("canonical_domain") {
        let [host, expected] = texts(&answer)[..] else { panic!("not a pair: {answer}") };
        assert_eq!(domains::registered(host), expected, "{host}");
    }
}

#[test]
fn html_is_known_and_stripped() {
    for answer in answers("dehtml") {
        let part = answer["in"].as_str().unwrap();
        let is_html = html::is_html(part.as_bytes());
        assert_eq!(is_html, answer["is_html"] == 1, "{part}");
        let stripped = if is_html { html::strip(part.as_bytes()) } else { part.into() };
        assert_eq!(stripped, answer["out"].as_str().unwrap().as_bytes(), "{part}");
    }
}

#[test]
fn links_have_their_known_signatures() {
    for answer in answers("whiplash") {
        let text = answer["text"].as_str().unwrap().as_bytes();
        assert_eq!(answer["length"], text.len());
        assert_eq!(hosts::hosts(text), texts(&answer["hosts"]));
        let signatures = whiplash::sign(text);
        let digits = texts(&answer["hex"]).iter().map(|digits| from_hex(digits)).collect::<Vec<_>>();
        assert_eq!(signatures.iter().map(|signature| signature.0.to_vec()).collect::<Vec<_>>(), digits);
        assert_eq!(signatures.iter().map(ToString::to_string).collect::<Vec<_>>(), texts(&answer["sig"]));
    }
}
