//! Generations that are sent in parts: what comes back, and what is refused.

use bruit_filters::file::FileError;
use bruit_filters::ring::{CountsRing, LANE_PART_BYTES_MAX, LaneError, LaneParts, MembershipRing, StagedRing};
use bruit_filters::snapshot::Snapshot;
use bruit_filters::{Fingerprint, FingerprintKey, KeyId};
use proptest::collection::vec;
use proptest::prelude::*;

/// The current epoch of the rings here; the one before it is sent as well.
const EPOCH: u64 = 20;

fn keys(start: u64, count: u64) -> Vec<Fingerprint> {
    let key = FingerprintKey::narrow([6; 16]);
    (start..start + count).map(|i| key.fingerprint(&i.to_le_bytes())).collect()
}

/// The parts of a generation.
fn parts(ring: &impl LaneParts, epoch: u64) -> Vec<Vec<u8>> {
    let part = |part| {
        let mut bytes = Vec::new();
        ring.lane_bytes(epoch, part, &mut bytes).unwrap();
        assert!(bytes.len() <= LANE_PART_BYTES_MAX, "{} bytes", bytes.len());
        bytes
    };
    (0..ring.lane_parts()).map(part).collect()
}

/// Puts the last two generations of `from` into `to`.
fn send<R: LaneParts>(from: &R, to: &mut R) {
    for epoch in [EPOCH - 1, EPOCH] {
        for (part, bytes) in parts(from, epoch).iter().enumerate() {
            to.merge_lane(epoch, part, bytes).unwrap();
        }
    }
}

fn membership(lines: usize) -> MembershipRing {
    MembershipRing::new(lines, 64, KeyId(1), EPOCH)
}

fn staged(lines: usize) -> StagedRing {
    StagedRing::new(lines, KeyId(1), EPOCH)
}

fn counts(lines: usize) -> CountsRing {
    CountsRing::new(lines, KeyId(1), EPOCH)
}

/// A ring of counts with many and with large ones in two generations.
fn filled_counts(lines: usize, count: u64, heavy: u64) -> CountsRing {
    let mut ring = counts(lines);
    for (epoch, start) in [(EPOCH - 1, 0), (EPOCH, 1 << 40)] {
        for key in keys(start, count) {
            ring.insert_many_at(epoch, &key, 1 + (key.high() % 9) as u32).unwrap();
        }
        for key in keys(start, heavy) {
            ring.insert_many_at(epoch, &key, key.high() as u32 >> (key.high() % 32)).unwrap();
        }
    }
    ring
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn all_parts_of_a_lane_in_an_empty_ring_give_the_same_lane(
        lines in prop_oneof![1..20usize, 4_090..4_100usize, 8_000..9_000usize],
        count in prop_oneof![0..50u64, 1_000..40_000u64],
        heavy in 0..800u64,
    ) {
        let (older, newer) = (keys(0, count), keys(1 << 40, count));
        let mut ring = membership(lines);
        ring.insert_batch_at(EPOCH - 1, &older).unwrap();
        ring.insert_batch(&newer);
        let mut copy = membership(lines);
        send(&ring, &mut copy);
        prop_assert!(copy == ring, "membership");

        let mut ring = staged(lines);
        ring.insert_batch_at(EPOCH - 1, &older).unwrap();
        ring.insert_batch(&newer);
        let mut copy = staged(lines);
        send(&ring, &mut copy);
        prop_assert!(copy == ring, "staged");

        let ring = filled_counts(lines, count, heavy);
        let mut copy = counts(lines);
        send(&ring, &mut copy);
        prop_assert!(copy == ring, "counts");
    }

    #[test]
    fn any_bytes_are_refused_and_change_nothing_or_leave_a_ring_that_works(
        kind in 0..3u8, part in 0..4usize, bytes in vec(any::<u8>(), 0..80),
    ) {
        match kind {
            0 => try_bytes(membership(20), part, &bytes, |ring| ring.insert_batch(&keys(0, 50))),
            1 => try_bytes(staged(20), part, &bytes, |ring| ring.insert_batch(&keys(0, 50))),
            _ => try_bytes(filled_counts(20, 0, 20), part, &bytes, |ring| ring.insert_many(&keys(7, 1)[0], 90)),
        }
    }

    #[test]
    fn a_damaged_part_is_refused_and_changes_nothing_or_leaves_a_ring_that_works(bit: usize, part in 0..2usize) {
        let ring = filled_counts(100, 200, 40);
        let mut bytes = parts(&ring, EPOCH).swap_remove(part);
        let bit = bit % (8 * bytes.len());
        bytes[bit / 8] ^= 1 << (bit % 8);
        try_bytes(counts(100), part, &bytes, |ring| ring.insert_many(&keys(7, 1)[0], 90));
        for cut in 0..bytes.len() {
            let mut empty = counts(100);
            let refused = empty.merge_lane(EPOCH, part, &bytes[..cut]);
            prop_assert!(refused.is_err() && empty == counts(100), "cut at {}", cut);
        }
    }
}

/// Merges `bytes`; what comes of it can be used, sent, kept and restored.
fn try_bytes<R>(empty: R, part: usize, bytes: &[u8], change: impl Fn(&mut R))
where
    R: LaneParts + Snapshot + Clone + PartialEq,
{
    let mut ring = empty.clone();
    if ring.merge_lane(EPOCH, part, bytes).is_err() {
        assert!(ring == empty, "what is refused changes nothing");
        return;
    }
    let mut copy = empty;
    send(&ring, &mut copy);
    assert!(copy == ring, "it can be sent on");
    change(&mut ring);
    let mut snapshot = Vec::new();
    ring.begin_snapshot(&mut snapshot);
    while !ring.continue_snapshot(1000, &mut snapshot) {}
    assert!(R::restore(&mut &*snapshot, 1 << 20).unwrap() == ring, "it can be kept");
}

#[test]
fn membership_joins_what_is_there_and_counts_replace_it() {
    let (ours, theirs) = (keys(0, 300), keys(200, 300));
    let filled = |batches: &[&[Fingerprint]]| {
        let mut ring = staged(100);
        batches.iter().for_each(|keys| ring.insert_batch(keys));
        ring
    };
    let mut ring = filled(&[&ours]);
    send(&filled(&[&theirs]), &mut ring);
    assert!(ring == filled(&[&ours, &theirs]));
    send(&filled(&[&theirs]), &mut ring);
    assert!(ring == filled(&[&ours, &theirs]), "once more changes nothing");

    let ring = filled_counts(100, 300, 70);
    let mut other = filled_counts(100, 500, 10);
    other.insert_many_at(EPOCH - 2, &ours[0], 700).unwrap();
    let mut before = ring.clone();
    before.insert_many_at(EPOCH - 2, &ours[0], 700).unwrap();
    send(&ring, &mut other);
    assert!(other == before, "other generations keep what they have");
}

#[test]
fn records_of_many_lines_come_in_several_parts() {
    // 50,000 lines have 625 lines of records in each lane, 512 to a part.
    let ring = filled_counts(50_000, 20_000, 3_000);
    assert!(ring.records(EPOCH).unwrap().0 > 2_000);
    assert_eq!(ring.lane_parts(), 13 + 2);
    let mut copy = filled_counts(50_000, 0, 2_900);
    send(&ring, &mut copy);
    assert!(copy == ring);
}

#[test]
fn a_full_lane_takes_its_words_and_a_byte_a_part_and_an_empty_one_a_byte() {
    let mut ring = membership(5_000);
    assert_eq!(parts(&ring, EPOCH), [[0], [0]]);
    ring.insert_batch(&keys(0, 60_000));
    assert_eq!(parts(&ring, EPOCH).iter().map(Vec::len).collect::<Vec<_>>(), [1 + 4_096 * 8, 1 + 904 * 8]);
    let mut few = membership(5_000);
    few.insert_batch(&keys(0, 100));
    let bytes: usize = parts(&few, EPOCH).iter().map(Vec::len).sum();
    assert!(bytes < 100 * 15, "{bytes} bytes for 800 bits of 320,000");
}

#[test]
fn parts_and_epochs_that_are_not_there_are_refused() {
    let mut ring = staged(4_097);
    assert_eq!(ring.lane_parts(), 4);
    assert!(ring.lane_bytes(EPOCH, 3, &mut Vec::new()).is_ok());
    for refused in [ring.lane_bytes(EPOCH, 4, &mut Vec::new()), ring.merge_lane(EPOCH, 4, &[0])] {
        assert!(matches!(refused, Err(LaneError::NoSuchPart { part: 4, parts: 4 })));
    }
    for epoch in [EPOCH + 1, EPOCH - 8] {
        assert!(matches!(ring.lane_bytes(epoch, 0, &mut Vec::new()), Err(LaneError::NotLive(_))));
        assert!(matches!(ring.merge_lane(epoch, 0, &[0]), Err(LaneError::NotLive(_))));
    }
    assert!(matches!(ring.merge_lane(EPOCH, 0, &[0, 0]), Err(LaneError::Malformed(FileError::TrailingBytes))));
}

#[test]
fn a_running_snapshot_is_of_the_ring_before_the_merge() {
    let (mut ring, mut expected) = (filled_counts(100, 100, 30), Vec::new());
    let mut before = ring.clone();
    before.begin_snapshot(&mut expected);
    while !before.continue_snapshot(1_000, &mut expected) {}
    let mut snapshot = Vec::new();
    ring.begin_snapshot(&mut snapshot);
    send(&filled_counts(100, 400, 60), &mut ring);
    while !ring.continue_snapshot(1_000, &mut snapshot) {}
    assert!(snapshot == expected);
}
