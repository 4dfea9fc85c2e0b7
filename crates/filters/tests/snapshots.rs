//! Requirements for the snapshots of every structure. A snapshot contains the state at its beginning, regardless of
//! later changes. The restored structure equals the original and behaves the same. Damaged bytes never cause a panic.

use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
use bruit_filters::owners::{Feature, Owner, OwnerTable, Part, Votes};
use bruit_filters::ring::{CountsRing, MembershipRing, StagedRing};
use bruit_filters::snapshot::{RestoreError, Snapshot};
use bruit_filters::{Fingerprint, FingerprintKey, KeyId};
use proptest::collection::vec;
use proptest::prelude::*;

/// A limit larger than all structures of these tests.
const LIMIT_BYTES: u64 = 1 << 20;
const KEY_ID: KeyId = KeyId(9);

/// A change, described by a few numbers. Every structure interprets them in its own way.
#[derive(Clone, Copy, Debug)]
struct Change {
    /// Kind of change.
    what: u8,
    /// First key.
    start: u64,
    /// Number of keys, lines or insertions.
    amount: usize,
}

fn changes(most: usize) -> impl Strategy<Value = Vec<Change>> {
    let change = (any::<u8>(), 0..400u64, 0..60usize).prop_map(|(what, start, amount)| Change { what, start, amount });
    vec(change, 0..most)
}

fn keys(start: u64, count: usize) -> Vec<Fingerprint> {
    let key = FingerprintKey::new([5; 16]);
    (start..start + count as u64).map(|i| key.fingerprint(&i.to_le_bytes())).collect()
}

/// A structure with a snapshot, and all ways to change it.
trait Subject: Snapshot + Clone + PartialEq + std::fmt::Debug {
    fn empty() -> Self;

    fn change(&mut self, change: Change);

    /// Calls all methods that do not change the structure.
    fn ask(&self);
}

impl Subject for OneLineFilter {
    fn empty() -> Self {
        Self::new(23, 7, 50, KEY_ID).unwrap()
    }

    fn change(&mut self, Change { what, start, amount }: Change) {
        match what % 8 {
            0 => {
                let mut other = self.clone();
                other.insert_batch(&keys(start, amount));
                self.merge(&other).unwrap();
            }
            1 => keys(start, amount).iter().for_each(|key| self.insert(key)),
            _ => self.insert_batch(&keys(start, amount)),
        }
    }

    fn ask(&self) {
        assert!(self.estimated_keys() >= 0.0);
        self.contains_batch(&keys(0, 50), &mut [false; 50]);
    }
}

/// Changes a membership ring. Both kinds have the same methods.
macro_rules! change_ring {
    ($ring:expr, $change:expr) => {{
        let (ring, Change { what, start, amount }) = ($ring, $change);
        match what % 16 {
            0 => ring.advance(),
            1..=4 => _ = ring.expire(amount / 8),
            5 => {
                let mut other = ring.clone();
                other.insert_batch(&keys(start, amount));
                ring.merge(&other).unwrap();
            }
            6 | 7 => _ = ring.insert_batch_at(ring.epoch().saturating_sub(start % 9), &keys(start, amount)),
            8 => keys(start, amount).iter().for_each(|key| ring.insert(key)),
            _ => ring.insert_batch(&keys(start, amount)),
        }
    }};
}

impl Subject for MembershipRing {
    fn empty() -> Self {
        Self::new(29, 64, KEY_ID, 3).unwrap()
    }

    fn change(&mut self, change: Change) {
        change_ring!(self, change);
    }

    fn ask(&self) {
        assert!((0.0..=1.0).contains(&self.estimated_rate()) && self.fill(self.epoch()).unwrap() <= 1.0);
        keys(0, 50).iter().for_each(|key| _ = self.check(key));
    }
}

impl Subject for StagedRing {
    fn empty() -> Self {
        Self::new(17, KEY_ID, 3).unwrap()
    }

    fn change(&mut self, change: Change) {
        change_ring!(self, change);
    }

    fn ask(&self) {
        assert!((0.0..=1.0).contains(&self.estimated_rate()) && self.fill(self.epoch()).unwrap() <= 1.0);
        keys(0, 50).iter().for_each(|key| _ = self.check(key));
    }
}

impl Subject for CountsRing {
    fn empty() -> Self {
        Self::new(19, KEY_ID, 3).unwrap()
    }

    fn change(&mut self, Change { what, start, amount }: Change) {
        match what % 16 {
            0 => self.advance(),
            1..=4 => _ = self.expire(amount / 8),
            5..=8 => {
                let epoch = self.epoch().saturating_sub(start % 9);
                keys(start, amount).iter().for_each(|key| _ = self.insert_many_at(epoch, key, start as u32));
            }
            9 => keys(start, amount).iter().for_each(|key| self.insert_many(key, u32::MAX / 3)),
            10 => keys(start, amount).iter().for_each(|key| self.insert(key)),
            _ => self.insert_batch(&keys(start, amount)),
        }
    }

    fn ask(&self) {
        assert!((0.0..=1.0).contains(&self.estimated_rate()) && self.records(self.epoch()).is_ok());
        self.count_batch(&keys(0, 50), &mut [0; 50]);
    }
}

/// Changes an owner table, with or without parts.
fn change_table<const BITS: u32>(table: &mut OwnerTable<BITS>, Change { what, start, amount }: Change) {
    let features = |start, amount| -> Vec<_> {
        let keys = keys(start, amount).into_iter().enumerate();
        keys.map(|(i, fingerprint)| Feature { fingerprint, part: Part::of(i, amount) }).collect()
    };
    let recent = Owner::from_number(table.live().end.number().saturating_sub(start % 10));
    match what % 8 {
        0 => _ = table.remove(&keys(start, amount), recent),
        1 => table.expire_before(recent),
        2 => _ = table.extend(recent, &features(start, amount), 20),
        _ => _ = table.add(&features(start * 7, amount), 48),
    }
}

fn ask_table<const BITS: u32>(table: &OwnerTable<BITS>) {
    table.votes(&keys(0, 200), &mut Votes::new());
    assert!((0.0..=1.0).contains(&table.load()));
}

impl Subject for OwnerTable {
    fn empty() -> Self {
        Self::with_bytes(30 * 64).unwrap()
    }

    fn change(&mut self, change: Change) {
        change_table(self, change);
    }

    fn ask(&self) {
        ask_table(self);
    }
}

impl Subject for OwnerTable<22> {
    fn empty() -> Self {
        Self::without_parts(30 * 64).unwrap()
    }

    fn change(&mut self, change: Change) {
        change_table(self, change);
    }

    fn ask(&self) {
        ask_table(self);
    }
}

fn filled<S: Subject>(changes: &[Change]) -> S {
    let mut subject = S::empty();
    changes.iter().for_each(|&change| subject.change(change));
    subject
}

fn snapshot<S: Subject>(subject: &mut S) -> Vec<u8> {
    let mut bytes = Vec::new();
    subject.begin_snapshot(&mut bytes);
    assert!(subject.continue_snapshot(usize::MAX, &mut bytes));
    bytes
}

/// Asserts that a snapshot contains the state before the changes `meanwhile`, which occur between its steps of `step`
/// lines.
fn assert_snapshot_is_the_beginning<S: Subject>(before: &[Change], meanwhile: &[Change], step: usize) {
    let mut subject = filled::<S>(before);
    let beginning = subject.clone();
    let mut bytes = Vec::new();
    subject.begin_snapshot(&mut bytes);
    for change in meanwhile {
        subject.change(*change);
        subject.continue_snapshot(step, &mut bytes);
    }
    while !subject.continue_snapshot(step + 1, &mut bytes) {}
    assert_eq!(subject.logged_lines(), 0);
    let mut input = &bytes[..];
    let mut restored = S::restore(&mut input, LIMIT_BYTES).unwrap();
    assert!(input.is_empty(), "all bytes were read");
    assert_eq!(restored, beginning);
    // The restored structure behaves like the original afterwards, and writing the snapshot did not affect the
    // original.
    meanwhile.iter().for_each(|&change| restored.change(change));
    assert_eq!(restored, subject);
    let undisturbed = meanwhile.iter().fold(beginning, |mut subject, &change| {
        subject.change(change);
        subject
    });
    assert_eq!(subject, undisturbed);
}

/// Asserts that no prefix can be restored, and that a structure restored from damaged bytes is usable.
fn assert_damage_is_harmless<S: Subject>(before: &[Change], damage: &[(usize, u8)], after: &[Change]) {
    let bytes = snapshot(&mut filled::<S>(before));
    for length in 0..bytes.len() {
        let error = S::restore(&mut &bytes[..length], LIMIT_BYTES).unwrap_err();
        assert!(matches!(error, RestoreError::Truncated), "{length} bytes: {error:?}");
    }
    for &(at, byte) in damage {
        // Half of the damage is in the head, where it has the greatest effect.
        let at = if at % 2 == 0 { at % 200.min(bytes.len()) } else { at % bytes.len() };
        let mut bytes = bytes.clone();
        bytes[at] ^= byte;
        let Ok(mut restored) = S::restore(&mut &bytes[..], LIMIT_BYTES) else { continue };
        after.iter().for_each(|&change| restored.change(change));
        restored.ask();
        snapshot(&mut restored);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_snapshot_is_the_state_at_its_beginning(
        before in changes(40), meanwhile in changes(25), step in 0..4usize,
    ) {
        assert_snapshot_is_the_beginning::<OneLineFilter>(&before, &meanwhile, step);
        assert_snapshot_is_the_beginning::<MembershipRing>(&before, &meanwhile, step);
        assert_snapshot_is_the_beginning::<StagedRing>(&before, &meanwhile, step);
        assert_snapshot_is_the_beginning::<CountsRing>(&before, &meanwhile, step);
        assert_snapshot_is_the_beginning::<OwnerTable>(&before, &meanwhile, step);
        assert_snapshot_is_the_beginning::<OwnerTable<22>>(&before, &meanwhile, step);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn damaged_snapshots_are_refused_or_can_be_worked_with(
        before in changes(40), damage in vec((any::<usize>(), 1..=255u8), 300), after in changes(25),
    ) {
        assert_damage_is_harmless::<OneLineFilter>(&before, &damage, &after);
        assert_damage_is_harmless::<MembershipRing>(&before, &damage, &after);
        assert_damage_is_harmless::<StagedRing>(&before, &damage, &after);
        assert_damage_is_harmless::<CountsRing>(&before, &damage, &after);
        assert_damage_is_harmless::<OwnerTable>(&before, &damage, &after);
        assert_damage_is_harmless::<OwnerTable<22>>(&before, &damage, &after);
    }
}

/// The bytes are a format shared between programs: changing them requires a new version.
fn assert_bytes<S: Subject>(head_bytes: usize, total_lines: usize) {
    let mut subject = filled::<S>(&[Change { what: 7, start: 1, amount: 50 }]);
    let bytes = snapshot(&mut subject);
    assert_eq!(bytes.len(), head_bytes + 64 * total_lines);
    assert_eq!(bytes[..7], *b"brsnap\x01");
    let exact = 64 * total_lines as u64;
    assert_eq!(S::restore(&mut &bytes[..], exact).unwrap(), subject);
    let error = S::restore(&mut &bytes[..], exact - 1).unwrap_err();
    assert!(matches!(error, RestoreError::TooLarge { .. }), "{error:?}");
}

#[test]
fn a_snapshot_is_a_head_and_all_lines_and_takes_no_more_memory_than_allowed() {
    assert_bytes::<OneLineFilter>(8 + 4 * 8, 23);
    assert_bytes::<MembershipRing>(8 + 5 * 8, 29);
    assert_bytes::<StagedRing>(8 + 4 * 8, 2 * 17);
    assert_bytes::<CountsRing>(8 + 20 * 8, 19 + 128);
    assert_bytes::<OwnerTable>(8 + 7 * 8, 30);
    assert_bytes::<OwnerTable<22>>(8 + 7 * 8, 30);
}

#[test]
fn huge_sizes_are_refused_before_anything_is_allocated() {
    let mut bytes = snapshot(&mut MembershipRing::empty());
    for lines in [u64::MAX, 1 << 58, (LIMIT_BYTES / 64) + 1] {
        bytes[8..16].copy_from_slice(&lines.to_le_bytes());
        let error = MembershipRing::restore(&mut &bytes[..], LIMIT_BYTES).unwrap_err();
        assert!(matches!(error, RestoreError::TooLarge { .. }), "{error:?}");
    }
}

#[test]
fn a_snapshot_of_another_structure_is_rejected_by_name() {
    let ring = snapshot(&mut MembershipRing::empty());
    let refused = |bytes: &[u8]| StagedRing::restore(&mut &*bytes, LIMIT_BYTES).unwrap_err().to_string();
    assert_eq!(refused(&ring), "snapshot of kind 2, expected kind 3");
    assert_eq!(refused(&[b"brsnap\x03\x03", &ring[8..]].concat()), "unsupported snapshot version 3");
    assert_eq!(refused(b"bruit filter"), "not a snapshot of a filter");
    let parted = snapshot(&mut OwnerTable::<20>::empty());
    let error = OwnerTable::<22>::restore(&mut &parted[..], LIMIT_BYTES).unwrap_err().to_string();
    assert_eq!(error, "the number of tag bits has the invalid value 20");
}

#[test]
fn only_lines_that_change_before_their_turn_are_kept_twice() {
    let mut ring = MembershipRing::new(1000, 64, KEY_ID, 0).unwrap();
    let mut bytes = Vec::new();
    ring.begin_snapshot(&mut bytes);
    assert_eq!(ring.logged_lines(), 0);
    ring.insert_batch(&keys(0, 100));
    ring.insert_batch(&keys(0, 100));
    let logged = ring.logged_lines();
    assert!((150..=200).contains(&logged), "{logged} of 200");
    ring.continue_snapshot(500, &mut bytes);
    assert!((logged / 3..logged * 2 / 3).contains(&ring.logged_lines()), "half of the lines are written");
    ring.expire(500);
    assert!(ring.logged_lines() < logged, "the expired lines were already written");
    ring.cancel_snapshot();
    assert_eq!(ring.logged_lines(), 0);
    assert!(ring.continue_snapshot(1, &mut bytes), "there is nothing left to write");
}

#[test]
fn a_snapshot_that_begins_anew_is_of_the_new_beginning() {
    let mut ring = CountsRing::empty();
    ring.begin_snapshot(&mut Vec::new());
    ring.insert_batch(&keys(0, 100));
    ring.continue_snapshot(7, &mut Vec::new());
    let bytes = snapshot(&mut ring);
    assert_eq!(CountsRing::restore(&mut &bytes[..], LIMIT_BYTES).unwrap(), ring);
}
