//! Decoded flow counters can be queried and merged. Parsing lists of fields and values does not panic.

use bruit_forensics::flows::{Identity, Key, SavedFlows};

pub(crate) fn fuzz(input: &[u8]) {
    let Some((&choice, input)) = input.split_first() else { return };
    if choice % 2 == 0 { counters(input) } else { fields(input) }
}

/// Appends a valid checksum, and decodes the counters.
fn counters(input: &[u8]) {
    let bytes = [input, &crc32fast::hash(input).to_le_bytes()].concat();
    let Ok(mut saved) = SavedFlows::decode(&bytes, 1) else { return };
    let key = saved.key;
    for flow in saved.counter.counted().top(3) {
        std::hint::black_box(key.describe(&flow.identity));
    }
    let mut again = SavedFlows::decode(&saved.encode().expect("the counters are valid"), 1)
        .expect("encoded counters can be decoded");
    saved.merge(&mut again).expect("a counter can be merged with itself");
}

fn fields(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (key, values) = text.split_once(' ').unwrap_or((text, ""));
    let Ok(key) = key.parse::<Key>() else { return };
    assert_eq!(key.to_string().parse(), Ok(key));
    if let Ok(identity) = Identity::parse(key, values) {
        assert!(identity.as_bytes().len() <= key.identity_bytes_max());
        std::hint::black_box(key.describe(identity.as_bytes()));
    }
}
