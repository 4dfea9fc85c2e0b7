//! Summary updates cause no panic, and decoded updates encode to the same bytes.

use bruit_filters::FingerprintKey;
use bruit_filters::hash::FingerprintHash;
use bruit_structures::summary::{Published, Update};

pub(crate) fn fuzz(input: &[u8]) {
    let Ok(update) = Update::decode(input) else { return };
    assert_eq!(update.encode(), input);
    let hash = FingerprintHash::new(1000, 4, 40, FingerprintKey::new([1; 16]).id()).unwrap();
    let mut copy = Published::new(hash).expect("the shape is valid");
    let before = copy.clone();
    if copy.apply(&update).is_err() {
        assert!(copy == before, "a rejected update changes nothing");
    }
}
