//! The records of two rings of counts added, so that no count gets too low.
//!
//! As in one-line counts: a record of the sum is the sum of what each side can say of its key at most, which is the key's
//! own record there, else the "any" record of its first slot, else the lesser of its two cells in its first line. Keys
//! that pass 15 only in the sum have a first slot that does; it gets an "any" record.

use super::counts::{CELL_TOP, CountsRing, slot};
use super::lanes::LANES;
use super::records::{OWN_TAG, Record, any_of, sort_for_room};
use crate::counting::row_merge::add_nibbles;
use crate::lines::Line;

/// For each lane in `live`, the records after both rings have been added cell by cell, and what a key without one may
/// have beyond the top of its cells.
pub(super) fn merged_records(sides: [&CountsRing; 2], live: u8) -> Vec<(usize, u32, Vec<Record>)> {
    let mut passing = passing_slots(sides, live);
    let lanes = (0..LANES as usize).filter(|lane| live >> lane & 1 == 1);
    let unlisted = |lane| sides.map(|side| side.records.unlisted()[lane]).into_iter().fold(0, u32::saturating_add);
    lanes.map(|lane| (lane, unlisted(lane), lane_records(sides, lane, std::mem::take(&mut passing[lane])))).collect()
}

/// For each lane, line and tag of the "any" records of slots in which keys may pass 15 only now.
fn passing_slots(sides: [&CountsRing; 2], live: u8) -> [Vec<(u32, u16)>; LANES as usize] {
    let mut passing: [Vec<(u32, u16)>; LANES as usize] = Default::default();
    for (index, (ours, theirs)) in sides[0].lines.iter().zip(sides[1].lines.iter()).enumerate() {
        let mut overflowed = [0; 8];
        for (overflowed, (&a, &b)) in overflowed.iter_mut().zip(ours.0.iter().zip(&theirs.0)) {
            *overflowed = add_nibbles(a, b).1;
        }
        // A key has one of the first eight slots, in words 0 to 3, and one of the last eight.
        let either = |words: &[u64]| words.iter().fold(0, |all, word| all | word | word >> 32) as u32;
        let both = either(&overflowed[..4]) & either(&overflowed[4..]);
        for lane in (0..LANES as usize).filter(|lane| both >> (4 * lane) & 15 != 0 && live >> lane & 1 == 1) {
            let slots = (0..8u16).filter(|&s| slot(&[Line(overflowed)], (0, s.into())) >> (4 * lane) & 15 != 0);
            passing[lane].extend(slots.map(|slot| (index as u32, slot)));
        }
    }
    passing
}

fn lane_records(sides: [&CountsRing; 2], lane: usize, passing: Vec<(u32, u16)>) -> Vec<Record> {
    let mut places = passing;
    for side in sides {
        places.extend(side.records.iter(lane).map(|(line, _, tag)| (line, tag)));
    }
    places.sort_unstable();
    places.dedup();
    let sum = |(line, tag)| sides.map(|side| bound(side, lane, line, tag)).into_iter().fold(0, u32::saturating_add);
    let mut records: Vec<Record> = places.into_iter().map(|place| (place.0, sum(place), place.1)).collect();
    sort_for_room(&mut records);
    records
}

/// The highest count that a key with `tag` in `line` can have on one side.
fn bound(side: &CountsRing, lane: usize, line: u32, tag: u16) -> u32 {
    let record = |tag| side.records.get(lane, line, tag);
    record(tag).or_else(|| record(any_of(tag))).unwrap_or_else(|| {
        let cell = |slot_index| slot(&side.lines, (line as usize, slot_index)) >> (4 * lane) & CELL_TOP;
        let (first, second) = first_slots(tag);
        // An "any" tag knows the first slot only.
        let least = if tag & OWN_TAG == 0 { cell(first) } else { cell(first).min(cell(second)) };
        if least == CELL_TOP { side.records.without_record(lane) } else { least }
    })
}

/// The slots in its first line of the key with an own `tag`, or of any key with that first slot.
const fn first_slots(tag: u16) -> (usize, usize) {
    (tag as usize & 7, 8 + (tag as usize >> 3 & 7))
}
