//! Bytes are decoded as a log of segments or rejected. A decoded segment encodes to the same bytes, except for its
//! signature. No segment with an invalid signature or invalid entries is accepted.

use std::sync::LazyLock;

use bruit_engine::exchange::{Relation, count_entries};
use bruit_engine::realm::RealmId;
use bruit_federation::coordinator::judge::{Known, Want, accept};
use bruit_federation::keys::{NodeKey, SIGNATURE_BYTES};
use bruit_federation::segment::{SEGMENT_BYTES_MAX, Segment, UnverifiedSegment, split};

/// The key with which the seeds were signed, so that their signatures are valid.
static KEY: LazyLock<NodeKey> = LazyLock::new(|| NodeKey::generate([1; 32]));
static KNOWN: LazyLock<Known> = LazyLock::new(|| Known::new([(KEY.public(), Relation::Cluster)]));
const REALM: RealmId = RealmId([3; 16]);

pub(crate) fn fuzz(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((first, behind))) = split(rest) {
        assert!(first.len() <= SEGMENT_BYTES_MAX && first.len() + behind.len() == rest.len());
        let unverified = UnverifiedSegment::decode(first).expect("a split segment is complete");
        let body = first.len() - SIGNATURE_BYTES;
        assert_eq!(unverified.segment().sign(&KEY)[..body], first[..body]);
        rest = behind;
    }
    sign_again(bytes);
}

/// Signs a mutated segment again, to reach the code that runs after the signature is verified.
fn sign_again(bytes: &[u8]) {
    let Ok(Some((first, _))) = split(bytes) else { return };
    let Ok(unverified) = UnverifiedSegment::decode(first) else { return };
    let mut chain = unverified.segment().chain;
    chain.origin.key = *KEY.public().as_bytes();
    let segment = Segment { realm: REALM, chain, ..*unverified.segment() };
    let log = segment.sign(&KEY);
    let from = bruit_engine::exchange::Frontier {
        sequence: segment.sequence - 1,
        hash: segment.previous,
        ..Default::default()
    };
    let to = bruit_engine::exchange::Frontier { sequence: segment.sequence, ..from };
    let (received, rejected) = accept(&log, &Want { chain, from, to }, REALM, &KNOWN);
    let found = count_entries(chain.book, segment.encoding, segment.payload);
    if found == Ok(segment.entries as usize) {
        assert!(rejected.is_none() && received.len() == 1 && received[0].payload == segment.payload);
    } else {
        assert!(received.is_empty() && rejected.is_some_and(|rejected| rejected.name() == "payload"));
    }
}
