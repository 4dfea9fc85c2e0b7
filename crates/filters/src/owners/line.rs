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
//! The checks lie together because a look-up compares all of them and then reads the tags and parts of the few that are
//! equal. No field of these crosses a byte, and where it lies takes two or three operations on the slot's number.

use bytemuck::{Pod, Zeroable};

use super::feature::Part;
use crate::kernels::bytes::equal_to;
use crate::lines::Line;

/// Slots of a line.
pub(crate) const SLOTS: usize = 17;
/// Slots whose tags have their high bits in the low nibbles of eight bytes; as many have them in the high nibbles.
const HALF: usize = SLOTS / 2;
/// The bit of [`SlotLine::packed`] at which the parts begin.
const PARTS_FROM: usize = 4 * SLOTS;

/// The tag of a slot that was never written, or was erased.
pub(super) const EMPTY_TAG: u32 = 0;

/// What a slot holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    /// The owner's number in 20 bits.
    pub(super) tag: u32,
    /// Eight bits of the feature.
    pub(super) check: u8,
    /// Where in the owner's text the feature came from.
    pub(super) part: Part,
}

/// A line seen as slots.
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

    /// The tag of slot `i`.
    #[inline(always)]
    pub(super) fn tag(&self, i: usize) -> u32 {
        let (byte, shift) = tag_high_at(i);
        let high = self.packed[byte] >> shift & 0xf;
        u32::from(u16::from_le_bytes(self.tags_low[i])) | u32::from(high) << 16
    }

    /// The part of slot `i`.
    #[inline(always)]
    fn part(&self, i: usize) -> Part {
        let (byte, shift) = part_at(i);
        Part::from_bits(self.packed[byte] >> shift)
    }

    #[inline(always)]
    pub(super) fn slot(&self, i: usize) -> Slot {
        Slot { tag: self.tag(i), check: self.checks[i], part: self.part(i) }
    }

    #[inline(always)]
    pub(super) fn set(&mut self, i: usize, slot: Slot) {
        self.checks[i] = slot.check;
        self.tags_low[i] = (slot.tag as u16).to_le_bytes();
        let (byte, shift) = tag_high_at(i);
        self.packed[byte] = self.packed[byte] & !(0xf << shift) | ((slot.tag >> 16) as u8) << shift;
        let (byte, shift) = part_at(i);
        self.packed[byte] = self.packed[byte] & !(3 << shift) | slot.part.bits() << shift;
    }

    /// Puts `slot` in place `i` and returns what was there.
    pub(super) fn replace(&mut self, i: usize, slot: Slot) -> Slot {
        let before = self.slot(i);
        self.set(i, slot);
        before
    }

    /// The slots for which `is` holds of their tag.
    #[inline(always)]
    pub(super) fn with_tag(&self, is: impl Fn(u32) -> bool) -> SlotSet {
        // Eight of them at a time, and a byte each instead of a bit: so the compiler works on several tags at once.
        let mut answers = [0; SLOTS];
        for (eight, answers) in answers.chunks_mut(HALF).enumerate() {
            let answer = |i: usize| u8::from(is(self.tag(HALF * eight + i)));
            answers.iter_mut().enumerate().for_each(|(i, place)| *place = answer(i));
        }
        SlotSet::equal(&answers, 1)
    }

    /// The slots whose check is `check`, empty and expired ones included.
    #[inline(always)]
    pub(super) fn with_check(&self, check: u8) -> SlotSet {
        SlotSet::equal(&self.checks, check)
    }
}

/// The byte of [`SlotLine::packed`] with the high bits of slot `i`'s tag, and how far up they lie.
#[inline(always)]
const fn tag_high_at(i: usize) -> (usize, usize) {
    (i % HALF + i / (2 * HALF) * HALF, i / HALF % 2 * 4)
}

/// The byte of [`SlotLine::packed`] with the part of slot `i`, and how far up it lies.
#[inline(always)]
const fn part_at(i: usize) -> (usize, usize) {
    let bit = PARTS_FROM + 2 * i;
    (bit / 8, bit % 8)
}

/// Some of the slots of a line, a bit each.
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

    /// These of one line and then `others` of a second one, with whether it is the second.
    #[inline(always)]
    pub(super) fn then(self, others: Self) -> impl Iterator<Item = (bool, usize)> {
        let mut left = u64::from(self.0) | u64::from(others.0) << 32;
        std::iter::from_fn(move || {
            let place = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some((place >= 32, place as usize % 32))
        })
    }

    /// The first of them.
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
    use super::*;
    use crate::hash::{MULTIPLIER_A, mix};

    fn slots(seed: u64) -> [Slot; SLOTS] {
        std::array::from_fn(|i| {
            let word = mix(seed << 8 | i as u64 | 1 << 40, MULTIPLIER_A);
            Slot { tag: (word >> 44) as u32, check: word as u8 & 7, part: Part::from_bits((word >> 8) as u8) }
        })
    }

    #[test]
    fn slots_are_read_as_written_and_leave_the_last_bits_alone() {
        let mut line = Line::default();
        for seed in 0..50 {
            let slots = slots(seed);
            let view = SlotLine::of_mut(&mut line);
            slots.iter().enumerate().for_each(|(i, &slot)| view.set(i, slot));
            assert!(slots.iter().enumerate().all(|(i, &slot)| view.slot(i) == slot));
            assert_eq!(view.packed[12] >> 6, 0);
            let full = Slot { tag: 0xf_ffff, check: 255, part: Part::from_bits(3) };
            for i in 0..SLOTS {
                assert_eq!(view.replace(i, full), slots[i]);
                assert!((0..SLOTS).all(|j| view.slot(j) == if j == i { full } else { slots[j] }));
                view.set(i, slots[i]);
            }
        }
    }

    #[test]
    fn a_line_has_the_documented_bytes() {
        let mut line = Line::default();
        let mut set = |i, tag, check, part| {
            SlotLine::of_mut(&mut line).set(i, Slot { tag, check, part: Part::from_bits(part) });
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
    fn sets_name_the_slots_that_are_alike() {
        let mut line = Line::default();
        let slots = slots(99);
        slots.iter().enumerate().for_each(|(i, &slot)| SlotLine::of_mut(&mut line).set(i, slot));
        let view = SlotLine::of(&line);
        let filtered = |is: &dyn Fn(&Slot) -> bool| -> Vec<usize> { (0..SLOTS).filter(|&i| is(&slots[i])).collect() };
        for check in 0..=8 {
            let found = view.with_check(check);
            assert_eq!(found.collect::<Vec<_>>(), filtered(&|slot| slot.check == check));
            assert_eq!(found.len() as usize, found.count());
        }
        assert_eq!(view.with_tag(|tag| tag % 3 == 0).collect::<Vec<_>>(), filtered(&|slot| slot.tag % 3 == 0));
        assert_eq!(SlotSet::default().first(), None);
    }
}
