//! Bytes are decoded as an offer or rejected. Decoded heads encode to the same bytes, except for their signature.

use std::sync::LazyLock;

use bruit_engine::exchange::Relation;
use bruit_engine::realm::RealmId;
use bruit_federation::coordinator::judge::{Known, offered};
use bruit_federation::heads::{HEADS_BYTES_MAX, HEADS_MAX, Heads};
use bruit_federation::keys::{NodeKey, SIGNATURE_BYTES};

/// The key with which the seeds were signed, so that their signatures are valid.
static KEY: LazyLock<NodeKey> = LazyLock::new(|| NodeKey::generate([1; 32]));
const REALM: RealmId = RealmId([3; 16]);

pub(crate) fn fuzz(bytes: &[u8]) {
    let read = Heads::read_all(bytes);
    let whole: usize = read.iter().flatten().map(|heads| heads.bytes().len()).sum();
    assert!(whole <= bytes.len());
    for heads in read.into_iter().flatten() {
        let (unsigned, signed) = (heads.unverified(), heads.bytes());
        assert!(signed.len() <= HEADS_BYTES_MAX && unsigned.chains().count() <= HEADS_MAX);
        let body = signed.len() - SIGNATURE_BYTES;
        let again = unsigned.sign(&KEY);
        assert_eq!(again[..body], signed[..body]);
        let is_ours = unsigned.realm() == REALM && unsigned.origin().key == *KEY.public().as_bytes();
        // Verified heads are remembered, so each input needs new ones.
        let known = Known::new([(KEY.public(), Relation::Cluster)]);
        assert_eq!(offered(&again, REALM, &known).0.len(), usize::from(is_ours));
    }
}
