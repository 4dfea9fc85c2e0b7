//! Parts of lanes are refused and change nothing, or leave a ring that works; lanes that are sent arrive.
#![no_main]

use bruit_filters::ring::{CountsRing, LaneParts, MembershipRing, StagedRing};
use bruit_filters::snapshot::Snapshot;
use bruit_filters::{Fingerprint, FingerprintKey};
use libfuzzer_sys::fuzz_target;

const EPOCH: u64 = 20;

fuzz_target!(|input: &[u8]| {
    let [shape, part, rest @ ..] = input else { return };
    let key_id = key().id();
    let lines = [3, 50, 5000][usize::from(shape >> 4) % 3];
    let is_sent = shape & 8 != 0;
    match shape % 3 {
        0 => run(MembershipRing::new(lines, 64, key_id, EPOCH), is_sent, *part, rest, |ring, keys| {
            ring.insert_batch(keys);
        }),
        1 => run(StagedRing::new(lines, key_id, EPOCH), is_sent, *part, rest, |ring, keys| ring.insert_batch(keys)),
        _ => run(CountsRing::new(lines, key_id, EPOCH), is_sent, *part, rest, |ring, keys| {
            keys.iter().for_each(|key| ring.insert_many(key, key.high() as u32 >> (key.high() % 32)));
        }),
    }
});

fn run<R>(empty: R, is_sent: bool, part: u8, rest: &[u8], insert: impl Fn(&mut R, &[Fingerprint]))
where
    R: LaneParts + Snapshot + Clone + PartialEq,
{
    let mut ring = empty.clone();
    if is_sent {
        let keys: Vec<_> = rest.as_chunks::<2>().0.iter().map(|name| key().fingerprint(name)).collect();
        insert(&mut ring, &keys);
    } else if ring.merge_lane(EPOCH, part.into(), rest).is_err() {
        assert!(ring == empty, "what is refused changes nothing");
        return;
    }
    let mut copy = empty;
    for part in 0..ring.lane_parts() {
        let mut bytes = Vec::new();
        ring.lane_bytes(EPOCH, part, &mut bytes).expect("the epoch is live");
        copy.merge_lane(EPOCH, part, &bytes).expect("a part fits a ring of the size");
    }
    assert!(copy == ring, "all parts give the lane");
    insert(&mut ring, &[key().fingerprint(b"one"), key().fingerprint(b"more")]);
    let mut bytes = Vec::new();
    ring.begin_snapshot(&mut bytes);
    while !ring.continue_snapshot(1000, &mut bytes) {}
    assert!(R::restore(&mut &*bytes, 1 << 20).expect("a ring can be kept") == ring);
}

fn key() -> FingerprintKey {
    FingerprintKey::narrow([1; 16])
}
