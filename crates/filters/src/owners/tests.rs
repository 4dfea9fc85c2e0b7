//! Tests of the slots, which the public interface does not expose.

use super::feature::{Feature, Part};
use super::line::SlotLine;
use super::numbering::{OWNERS_LIVE_MAX, Owner, TAG_BITS, sweep_owners};
use super::place::FeaturePlace;
use super::table::OwnerTable;
use super::votes::Votes;
use crate::lines::LINE_BYTES;
use crate::{Fingerprint, test_keys};

const FEATURES: u64 = 48;

fn fingerprints_of(owner: u64) -> Vec<Fingerprint> {
    test_keys(owner * FEATURES, FEATURES)
}

fn features_of(owner: u64) -> Vec<Feature> {
    let fingerprints = fingerprints_of(owner).into_iter().enumerate();
    fingerprints.map(|(i, fingerprint)| Feature { fingerprint, part: Part::of(i, FEATURES as usize) }).collect()
}

/// Asserts that every live slot belongs to a feature of its owner: the slot lies in a line of that feature, and has its
/// check and part. `features` returns the features of an owner. Returns the number of live slots.
fn assert_slots_are_their_owners(table: &OwnerTable, features: impl Fn(Owner) -> Vec<Feature>) -> usize {
    let lines = &table.lines;
    let mut live = 0;
    for (at, line) in lines.iter().enumerate() {
        let line = SlotLine::of(line);
        for i in line.with_tag::<TAG_BITS>(|tag| table.numbering.is_live_tag(tag)) {
            let slot = line.slot::<TAG_BITS>(i);
            let owner = table.numbering.owner_at(table.numbering.place_of(slot.tag).unwrap());
            let mut places = features(owner).into_iter().map(|feature| {
                let place = FeaturePlace::of(&feature.fingerprint, table.shape);
                (place.check, feature.part, place.lines)
            });
            assert!(
                places.any(|(check, part, lines)| (check, part) == (slot.check, slot.part) && lines.contains(&at)),
                "{slot:?} in line {at} is not a slot of {owner:?}"
            );
            live += 1;
        }
    }
    live
}

/// The hardest case for the sweep. Each new owner sweeps only one line, which is just enough to sweep the whole table
/// in one round of tags. No other writes erase slots.
#[test]
fn a_tag_that_returns_finds_no_slot_of_its_former_owner() {
    const LINES: usize = sweep_owners(TAG_BITS) as usize;
    const OWNERS: u64 = 8000;
    let mut table = OwnerTable::with_bytes(LINES * LINE_BYTES).unwrap();
    // Owners are added for two rounds of tags. Only the first of them have features.
    let features = |owner: Owner| if owner.number() <= OWNERS { features_of(owner.number()) } else { Vec::new() };
    let mut stored = 0;
    for number in 1..(2 << 20) {
        let candidates = if number <= OWNERS { features_of(number) } else { Vec::new() };
        stored += table.add(&candidates, FEATURES as usize).stored_total();
        let last_returned = (1 << 20) + OWNERS;
        if [OWNERS, OWNERS_LIVE_MAX, last_returned, (2 << 20) - 2].contains(&number) || number == (1 << 20) + OWNERS / 2
        {
            let live = assert_slots_are_their_owners(&table, features);
            assert_eq!(live, if number <= OWNERS_LIVE_MAX { stored } else { 0 }, "after {number} owners");
        }
    }
}

#[test]
fn slots_stay_with_their_owners_while_they_move_expire_and_are_lost() {
    let mut table = OwnerTable::with_bytes(60 * LINE_BYTES).unwrap();
    for number in 1..3000 {
        table.add(&features_of(number), FEATURES as usize);
        if number % 7 == 0 {
            table.expire_before(Owner::from_number(number - number % 40));
        }
        if number % 11 == 0 {
            table.remove(&fingerprints_of(number - 2), Owner::from_number(number - 2));
        }
        assert_slots_are_their_owners(&table, |owner| features_of(owner.number()));
    }
    assert!(table.kicks() > 1000 && table.evictions() > 1000, "{} {}", table.kicks(), table.evictions());
}

/// Tables with the same history must have the same bytes on every processor.
#[test]
fn a_history_has_one_outcome_in_bytes() {
    let mut table = OwnerTable::with_bytes(100 * LINE_BYTES).unwrap();
    for number in 1..50 {
        table.add(&features_of(number), FEATURES as usize);
    }
    table.remove(&fingerprints_of(20), Owner::from_number(20));
    table.expire_before(Owner::from_number(4));
    table.add(&features_of(50), FEATURES as usize);
    let bytes: &[u8] = bytemuck::cast_slice(&table.lines);
    assert_eq!((crc32fast::hash(bytes), table.kicks(), table.evictions()), (1_738_251_078, 21_222, 648));
}

#[test]
fn look_ups_allocate_nothing_once_the_votes_have_grown() {
    let mut table = OwnerTable::with_capacity(10_000).unwrap();
    (0..200).for_each(|owner| _ = table.add(&features_of(owner), FEATURES as usize));
    let mut votes = Votes::new();
    table.votes(&test_keys(0, 5000), &mut votes);
    let capacities = |votes: &Votes| (votes.ballots.capacity(), votes.counted.capacity());
    let before = capacities(&votes);
    for start in 0..100 {
        table.votes(&test_keys(start * 100, 4000), &mut votes);
        assert_eq!(capacities(&votes), before);
    }
}
