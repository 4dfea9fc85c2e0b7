//! Features of an owner's text, each with the part of the text in which it occurred.

use crate::Fingerprint;

/// Number of parts of a text: quarters.
pub const PARTS: usize = 4;

/// A feature of an owner's text, to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Feature {
    /// Fingerprint of the feature.
    pub fingerprint: Fingerprint,
    /// Part of the text in which it occurred.
    pub part: Part,
}

/// A quarter of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part(u8);

impl Part {
    /// Returns the quarter with this number, from 0 to 3.
    #[must_use]
    pub const fn new(number: u8) -> Option<Self> {
        if (number as usize) < PARTS { Some(Self(number)) } else { None }
    }

    /// Returns the quarter that contains position `index` of a text of `length`. Positions past the end count as the
    /// last position.
    ///
    /// ```
    /// use bruit_filters::owners::Part;
    ///
    /// let quarters: Vec<usize> = (0..9).map(|word| Part::of(word, 9).index()).collect();
    /// assert_eq!(quarters, [0, 0, 0, 1, 1, 2, 2, 3, 3]);
    /// ```
    #[must_use]
    pub const fn of(index: usize, length: usize) -> Self {
        if index >= length {
            return Self::from_bits(u8::MAX);
        }
        // Computed in 128 bits, so that no position overflows.
        Self((index as u128 * PARTS as u128 / length as u128) as u8)
    }

    /// Returns the index of this quarter in the counts of [`Votes`](super::Votes) and [`Added`](super::Added). The
    /// index is below [`PARTS`].
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the quarter stored in the low two bits of `bits`.
    #[inline(always)]
    pub(super) const fn from_bits(bits: u8) -> Self {
        Self(bits & 3)
    }

    /// Returns the quarter as a number of two bits.
    #[inline(always)]
    pub(super) const fn bits(self) -> u8 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_lies_in_one_of_four_parts_and_they_are_even() {
        for length in 1..200 {
            let mut positions = [0; PARTS];
            (0..length).for_each(|index| positions[Part::of(index, length).index()] += 1);
            assert!(positions.iter().all(|&n| n == length / 4 || n == length.div_ceil(4)), "{positions:?} of {length}");
            assert!((1..length).all(|index| Part::of(index - 1, length) <= Part::of(index, length)));
        }
    }

    #[test]
    fn positions_past_the_end_and_huge_ones_have_a_part() {
        let last = Part::new(3).unwrap();
        for (index, length) in [(0, 0), (9, 9), (usize::MAX, 1), (usize::MAX - 1, usize::MAX)] {
            assert_eq!(Part::of(index, length), last, "{index} of {length}");
        }
        assert_eq!(Part::of(0, usize::MAX), Part::default());
        assert_eq!(Part::new(4), None);
    }
}
