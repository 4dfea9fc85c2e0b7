//! No bytes of a summary update do harm, and those that are read are written the same again.
#![no_main]

use bruit_filters::FingerprintKey;
use bruit_filters::hash::FingerprintHash;
use bruit_filters::summary::{Published, Update};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(update) = Update::decode(input) else { return };
    assert_eq!(update.encode(), input);
    let hash = FingerprintHash::new(1000, 4, 40, FingerprintKey::new([1; 16]).id());
    let mut copy = Published::new(hash).expect("a sound shape");
    let before = copy.clone();
    if copy.apply(&update).is_err() {
        assert!(copy == before, "a refused update changes nothing");
    }
});
