//! A line of the table: 18 slots in 64 bytes.
//!
//! ```text
//! byte   0..18   check of each slot
//!       18..54   low 16 bits of each tag, little-endian
//!       54..63   high 4 bits of the tags, slots 0 to 8 in the low nibbles, 9 to 17 in the high ones
//!       63       zero
//! ```
//!
//! The checks lie together because a look-up compares all of them and then reads the tags of the few that are equal.

use bytemuck::{Pod, Zeroable};

use crate::kernels::bytes::equal_to;
use crate::lines::Line;

/// Slots of a line.
pub(crate) const SLOTS: usize = 18;
/// Slots whose tags have their high bits in low nibbles.
const HALF: usize = SLOTS / 2;

/// The tag of a slot that was never written, or was erased.
pub(super) const EMPTY_TAG: u32 = 0;

/// What a slot holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slot {
    /// The owner's number in 20 bits.
    pub(super) tag: u32,
    /// Eight bits of the feature.
    pub(super) check: u8,
}

/// A line seen as slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct SlotLine {
    checks: [u8; SLOTS],
    tags_low: [[u8; 2]; SLOTS],
    tags_high: [u8; HALF],
    unused: u8,
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
        let high = self.tags_high[i % HALF] >> (i / HALF * 4) & 0xf;
        u32::from(u16::from_le_bytes(self.tags_low[i])) | u32::from(high) << 16
    }

    #[inline(always)]
    pub(super) fn slot(&self, i: usize) -> Slot {
        Slot { tag: self.tag(i), check: self.checks[i] }
    }

    #[inline(always)]
    pub(super) fn set(&mut self, i: usize, slot: Slot) {
        self.checks[i] = slot.check;
        self.tags_low[i] = (slot.tag as u16).to_le_bytes();
        let shift = i / HALF * 4;
        let pair = &mut self.tags_high[i % HALF];
        *pair = *pair & !(0xf << shift) | ((slot.tag >> 16) as u8) << shift;
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
        // Half of them at a time, and a byte each instead of a bit: so the compiler works on several tags at once.
        let mut answers = [0; SLOTS];
        let (low, high) = answers.split_at_mut(HALF);
        low.iter_mut().enumerate().for_each(|(i, answer)| *answer = u8::from(is(self.tag(i))));
        high.iter_mut().enumerate().for_each(|(i, answer)| *answer = u8::from(is(self.tag(HALF + i))));
        SlotSet::equal(&answers, 1)
    }

    /// The slots whose check is `check`, empty and expired ones included.
    #[inline(always)]
    pub(super) fn with_check(&self, check: u8) -> SlotSet {
        SlotSet::equal(&self.checks, check)
    }
}

/// Some of the slots of a line, a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotSet(u32);

impl SlotSet {
    #[inline(always)]
    fn equal(bytes: &[u8; SLOTS], byte: u8) -> Self {
        let (first, last) = bytes.split_first_chunk::<16>().expect("18 bytes");
        let last = u32::from(last[0] == byte) | u32::from(last[1] == byte) << 1;
        Self(equal_to(*first, byte) | last << 16)
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
            Slot { tag: (word >> 44) as u32, check: word as u8 & 7 }
        })
    }

    #[test]
    fn slots_are_read_as_written_and_leave_the_last_byte_alone() {
        let mut line = Line::default();
        for seed in 0..50 {
            let slots = slots(seed);
            let view = SlotLine::of_mut(&mut line);
            slots.iter().enumerate().for_each(|(i, &slot)| view.set(i, slot));
            assert!(slots.iter().enumerate().all(|(i, &slot)| view.slot(i) == slot));
            assert_eq!(view.unused, 0);
            assert_eq!(view.replace(17, Slot { tag: 0xf_ffff, check: 255 }), slots[17]);
            assert_eq!((view.slot(16), view.slot(17).tag), (slots[16], 0xf_ffff));
        }
    }

    #[test]
    fn a_line_has_the_documented_bytes() {
        let mut line = Line::default();
        SlotLine::of_mut(&mut line).set(0, Slot { tag: 0xa_bcde, check: 0x11 });
        SlotLine::of_mut(&mut line).set(17, Slot { tag: 0x1_2345, check: 0x22 });
        let bytes: &[u8; 64] = bytemuck::cast_ref(&line);
        let written = [(0, 0x11), (17, 0x22), (18, 0xde), (19, 0xbc), (52, 0x45), (53, 0x23), (54, 0x0a), (62, 0x10)];
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
