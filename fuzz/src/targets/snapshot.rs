//! A restored snapshot is written back with the same bytes, and the restored structure can be used.

use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
use bruit_filters::owners::{Feature, Owner, OwnerTable, Part, Votes};
use bruit_filters::ring::{CountsRing, MembershipRing, StagedRing};
use bruit_filters::snapshot::Snapshot;
use bruit_filters::{Fingerprint, FingerprintKey};

/// Maximum size of the lines to restore.
const LIMIT_BYTES: u64 = 1 << 20;
/// Number of lines of a structure that are written at a time.
const STEP_LINES: usize = 7;

pub(crate) fn fuzz(bytes: &[u8]) {
    restored(bytes, |filter: &mut OneLineFilter| filter.insert_batch(&keys()));
    restored(bytes, |ring: &mut MembershipRing| {
        ring.insert_batch(&keys());
        ring.expire(3);
        ring.advance();
        ring.insert_batch(&keys());
        assert!(keys().iter().all(|key| ring.check(key).contains(1)));
        assert!((0.0..=1.0).contains(&ring.estimated_rate()));
    });
    restored(bytes, |ring: &mut StagedRing| {
        ring.insert_batch(&keys());
        ring.expire(3);
        ring.advance();
        assert!(keys().iter().all(|key| ring.check(key).contains(1)));
    });
    restored(bytes, count);
    restored(bytes, own::<20>);
    restored(bytes, own::<22>);
}

/// If the bytes are valid, restores a structure, and uses it while it is being written again.
fn restored<S: Snapshot>(mut bytes: &[u8], work: impl FnOnce(&mut S)) {
    let before = bytes;
    let Ok(mut structure) = S::restore(&mut bytes, LIMIT_BYTES) else { return };
    let mut again = Vec::new();
    structure.begin_snapshot(&mut again);
    structure.continue_snapshot(STEP_LINES, &mut again);
    work(&mut structure);
    while !structure.continue_snapshot(STEP_LINES, &mut again) {}
    assert_eq!(structure.logged_lines(), 0);
    let read = before.len() - bytes.len();
    assert_eq!(again.len(), read, "as many bytes are written as were read");
    // The restored structure may have cleared more lines of an expiring generation than the snapshot.
    if before[7] != 4 {
        assert_eq!(again, before[..read], "equal contents have equal bytes");
    }
}

fn keys() -> Vec<Fingerprint> {
    let key = FingerprintKey::new([1; 16]);
    (0..40u8).map(|i| key.fingerprint(&[i])).collect()
}

fn count(ring: &mut CountsRing) {
    keys().iter().for_each(|key| ring.insert_many(key, 20));
    let mut found = [0; 40];
    ring.count_batch(&keys(), &mut found);
    ring.expire(3);
    (0..8).for_each(|_| ring.advance());
    ring.insert_batch(&keys());
    assert!(keys().iter().all(|key| ring.count(key) >= 1));
}

fn own<const BITS: u32>(table: &mut OwnerTable<BITS>) {
    let features: Vec<_> =
        keys().iter().enumerate().map(|(i, &fingerprint)| Feature { fingerprint, part: Part::of(i, 40) }).collect();
    let owner = table.add(&features, 32).owner;
    let mut votes = Votes::new();
    table.votes(&keys(), &mut votes);
    table.remove(&keys(), owner);
    table.expire_before(Owner::from_number(owner.number() + 1));
    table.add(&features, 32);
}
