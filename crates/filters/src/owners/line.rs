//! A line of the table: 17 slots in 64 bytes.
//!
//! ```text
//! byte   0..17   check of each slot
//!       17..51   low 16 bits of each tag, little-endian
//!       51..59   high 4 bits of the tags, slots 0 to 7 in the low nibbles, 8 to 15 in the high ones
//!       59       low nibble: high 4 bits of the tag of slot 16; high nibble: parts of slots 0 and 1
//!       60..64   parts of slots 2 to 16, four to a byte, lowest bits first; the highest two bits of byte 63 are zero
//! ```
//!
//! In a table without parts, the bits of the parts are the highest two bits of the tags.
//!
//! The checks are contiguous, because a lookup compares all of them and then reads tags and parts of the few slots that
//! match. Neither the high bits of a tag nor a part cross a byte boundary, and computing their position takes two or
//! three operations.

use bytemuck::{Pod, Zeroable};

use super::feature::Part;
use super::numbering::TAG_BITS;
use crate::kernels::bytes::equal_to;
use crate::lines::Line;

/// Number of slots in a line.
pub(crate) const SLOTS: usize = 17;
/// Number of slots whose high tag bits are in the low nibbles of eight bytes. The same number of slots uses the high
/// nibbles.
const HALF: usize = SLOTS / 2;
/// Bit of [`SlotLine::packed`] at which the parts begin.
const PARTS_FROM: usize = 4 * SLOTS;

/// Tag of a slot that was never written or has been erased.
pub(super) const EMPTY_TAG: u32 = 0;

/// The content of a slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    /// The owner's number modulo 2^20, or 2^22 in a table without parts.
    pub(super) tag: u32,
    /// Eight bits of the feature's fingerprint.
    pub(super) check: u8,
    /// Part of the owner's text in which the feature occurred. In a table without parts, it is always the first part.
    pub(super) part: Part,
}

/// A line interpreted as slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct SlotLine {
    checks: [u8; SLOTS],
    tags_low: [[u8; 2]; SLOTS],
    /// High bits of the tags, then parts.
    packed: [u8; 13],
}

impl SlotLine {
    #[inline(always)]
    pub(super) fn of(line: &Line) -> &Self {
        bytemuck::cast_ref(line)
    }

    #[inline(always)]
    pub(super) fn of_mut(line: &mut Line) -> &mut Self {
        bytemuck::cast_mut(line)
    }

    /// Returns the tag of slot `i`, which has `BITS` bits.
    #[inline(always)]
    pub(super) fn tag<const BITS: u32>(&self, i: usize) -> u32 {
        let (byte, shift) = tag_high_at(i);
        let high = self.packed[byte] >> shift & 0xf;
        let tag = u32::from(u16::from_le_bytes(self.tags_low[i])) | u32::from(high) << 16;
        if BITS == TAG_BITS { tag } else { tag | u32::from(self.part(i).bits()) << TAG_BITS }
    }

    /// Returns the part of slot `i`.
    #[inline(always)]
    fn part(&self, i: usize) -> Part {
        let (byte, shift) = part_at(i);
        Part::from_bits(self.packed[byte] >> shift)
    }

    #[inline(always)]
    pub(super) fn slot<const BITS: u32>(&self, i: usize) -> Slot {
        let part = if BITS == TAG_BITS { self.part(i) } else { Part::default() };
        Slot { tag: self.tag::<BITS>(i), check: self.checks[i], part }
    }

    #[inline(always)]
    pub(super) fn set<const BITS: u32>(&mut self, i: usize, slot: Slot) {
        self.checks[i] = slot.check;
        self.tags_low[i] = (slot.tag as u16).to_le_bytes();
        let (byte, shift) = tag_high_at(i);
        self.packed[byte] = self.packed[byte] & !(0xf << shift) | ((slot.tag >> 16) as u8 & 0xf) << shift;
        let (byte, shift) = part_at(i);
        let last_bits = if BITS == TAG_BITS { slot.part.bits() } else { (slot.tag >> TAG_BITS) as u8 };
        self.packed[byte] = self.packed[byte] & !(3 << shift) | last_bits << shift;
    }

    /// Writes `slot` at index `i` and returns the previous content.
    pub(super) fn replace<const BITS: u32>(&mut self, i: usize, slot: Slot) -> Slot {
        let before = self.slot::<BITS>(i);
        self.set::<BITS>(i, slot);
        before
    }

    /// Returns the slots whose tag satisfies `is`.
    #[inline(always)]
    pub(super) fn with_tag<const BITS: u32>(&self, is: impl Fn(u32) -> bool) -> SlotSet {
        // Compares eight slots at a time. Each answer is a byte instead of a bit, so that the compiler vectorises the
        // loop.
        let mut answers = [0; SLOTS];
        for (eight, answers) in answers.chunks_mut(HALF).enumerate() {
            let answer = |i: usize| u8::from(is(self.tag::<BITS>(HALF * eight + i)));
            answers.iter_mut().enumerate().for_each(|(i, place)| *place = answer(i));
        }
        SlotSet::equal(&answers, 1)
    }

    /// Returns the slots whose check is `check`, including empty and expired ones.
    #[inline(always)]
    pub(super) fn with_check(&self, check: u8) -> SlotSet {
        SlotSet::equal(&self.checks, check)
    }
}

/// Returns the byte of [`SlotLine::packed`] with the high tag bits of slot `i`, and their shift within it.
#[inline(always)]
const fn tag_high_at(i: usize) -> (usize, usize) {
    (i % HALF + i / (2 * HALF) * HALF, i / HALF % 2 * 4)
}

/// Returns the byte of [`SlotLine::packed`] with the part of slot `i`, and its shift within it.
#[inline(always)]
const fn part_at(i: usize) -> (usize, usize) {
    let bit = PARTS_FROM + 2 * i;
    (bit / 8, bit % 8)
}

/// A set of slots of a line, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotSet(u32);

impl SlotSet {
    #[inline(always)]
    fn equal(bytes: &[u8; SLOTS], byte: u8) -> Self {
        let (first, last) = bytes.split_first_chunk::<16>().expect("17 bytes");
        Self(equal_to(*first, byte) | u32::from(last[0] == byte) << 16)
    }

    #[inline(always)]
    pub(super) fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Iterates over the slots of this line and then over `others` of a second line. The flag is true for slots of the
    /// second line.
    #[inline(always)]
    pub(super) fn then(self, others: Self) -> impl Iterator<Item = (bool, usize)> {
        let mut left = u64::from(self.0) | u64::from(others.0) << 32;
        std::iter::from_fn(move || {
            let place = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some((place >= 32, place as usize % 32))
        })
    }

    /// Returns the first slot of the set.
    #[inline(always)]
    pub(super) fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }
}

impl Iterator for SlotSet {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        let first = self.first()?;
        self.0 &= self.0 - 1;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::super::numbering::WIDE_TAG_BITS;
    use super::*;
    use crate::hash::{MULTIPLIER_A, mix};

    fn slots<const BITS: u32>(seed: u64) -> [Slot; SLOTS] {
        std::array::from_fn(|i| {
            let word = mix(seed << 8 | i as u64 | 1 << 40, MULTIPLIER_A);
            slot::<BITS>((word >> 42) as u32, word as u8 & 7, (word >> 8) as u8)
        })
    }

    /// Returns a slot reduced to the bits that a table with tags of `BITS` bits can store.
    fn slot<const BITS: u32>(tag: u32, check: u8, part: u8) -> Slot {
        let part = if BITS == TAG_BITS { Part::from_bits(part) } else { Part::default() };
        Slot { tag: tag & ((1 << BITS) - 1), check, part }
    }

    fn slots_are_read_as_written<const BITS: u32>() {
        let mut line = Line::default();
        for seed in 0..50 {
            let slots = slots::<BITS>(seed);
            let view = SlotLine::of_mut(&mut line);
            slots.iter().enumerate().for_each(|(i, &slot)| view.set::<BITS>(i, slot));
            assert!(slots.iter().enumerate().all(|(i, &slot)| view.slot::<BITS>(i) == slot));
            assert_eq!(view.packed[12] >> 6, 0);
            let full = slot::<BITS>(u32::MAX, 255, 3);
            for i in 0..SLOTS {
                assert_eq!(view.replace::<BITS>(i, full), slots[i]);
                assert!((0..SLOTS).all(|j| view.slot::<BITS>(j) == if j == i { full } else { slots[j] }));
                view.set::<BITS>(i, slots[i]);
            }
        }
    }

    #[test]
    fn slots_are_read_as_written_and_leave_the_last_bits_alone() {
        slots_are_read_as_written::<TAG_BITS>();
        slots_are_read_as_written::<WIDE_TAG_BITS>();
    }

    #[test]
    fn a_line_has_the_documented_bytes() {
        let mut line = Line::default();
        let mut set = |i, tag, check, part| {
            SlotLine::of_mut(&mut line).set::<TAG_BITS>(i, Slot { tag, check, part: Part::from_bits(part) });
        };
        set(0, 0xa_bcde, 0x11, 1);
        set(1, 0x0_0000, 0x00, 2);
        set(2, 0x0_0000, 0x00, 3);
        set(15, 0x1_2345, 0x22, 1);
        set(16, 0x6_789a, 0x33, 2);
        let bytes: &[u8; 64] = bytemuck::cast_ref(&line);
        let checks = [(0, 0x11), (15, 0x22), (16, 0x33)];
        let tags_low = [(17, 0xde), (18, 0xbc), (47, 0x45), (48, 0x23), (49, 0x9a), (50, 0x78)];
        let packed = [(51, 0x0a), (58, 0x10), (59, 0b1001_0110), (60, 0b11), (63, 0b0010_0100)];
        let written = [&checks[..], &tags_low, &packed].concat();
        let expected: [u8; 64] =
            std::array::from_fn(|i| written.iter().find(|(at, _)| *at == i).map_or(0, |&(_, byte)| byte));
        assert_eq!(*bytes, expected);
    }

    #[test]
    fn slot_sets_contain_the_matching_slots() {
        let mut line = Line::default();
        let slots = slots::<TAG_BITS>(99);
        slots.iter().enumerate().for_each(|(i, &slot)| SlotLine::of_mut(&mut line).set::<TAG_BITS>(i, slot));
        let view = SlotLine::of(&line);
        let filtered = |is: &dyn Fn(&Slot) -> bool| -> Vec<usize> { (0..SLOTS).filter(|&i| is(&slots[i])).collect() };
        for check in 0..=8 {
            let found = view.with_check(check);
            assert_eq!(found.collect::<Vec<_>>(), filtered(&|slot| slot.check == check));
            assert_eq!(found.len() as usize, found.count());
        }
        assert_eq!(
            view.with_tag::<TAG_BITS>(|tag| tag % 3 == 0).collect::<Vec<_>>(),
            filtered(&|slot| slot.tag % 3 == 0)
        );
        assert_eq!(SlotSet::default().first(), None);
    }
}
