//! The two lines that can hold the slots of a feature.

use super::line::{Slot, SlotLine};
use crate::Fingerprint;
use crate::hash::{MULTIPLIER_A, mix, reduce};
use crate::lines::Line;

/// The number of lines of a table, and its growth.
///
/// A table that grew consists of `factor` interleaved tables of `base` lines: line `factor * i + j` is line `i` of
/// table `j`. The home line of a feature, computed from the total number of lines, selects the interleaved table. Each
/// line of a feature is therefore a copy of one of the two lines that it had before the table grew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableShape {
    /// Number of lines before any growth. Always even, so that the two lines of a feature differ.
    pub(super) base: usize,
    pub(super) factor: usize,
}

impl TableShape {
    /// Creates the shape of a table of `lines` lines that never grew.
    pub(super) const fn new(lines: usize) -> Self {
        Self { base: lines, factor: 1 }
    }

    /// Returns the second of the two lines that can hold a slot, if the first is `line`. Applying the function twice
    /// returns `line`.
    #[inline(always)]
    pub(super) fn other_line(&self, line: usize, check: u8) -> usize {
        let (inner, which) = (line / self.factor, line % self.factor);
        self.factor * other_line(inner, check, self.base) + which
    }
}

/// The two lines of a feature, and its check.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FeaturePlace {
    pub(super) lines: [usize; 2],
    pub(super) check: u8,
}

impl FeaturePlace {
    #[inline(always)]
    pub(super) fn of(feature: &Fingerprint, shape: TableShape) -> Self {
        // Both halves of the fingerprint are used, because a caller may store only the features with the lowest values,
        // whose high halves are not random.
        let word = feature.high() ^ feature.low();
        let TableShape { base, factor } = shape;
        let inner = reduce(word, base as u64) as usize;
        let home = reduce(word, (base * factor) as u64) as usize;
        let check = word as u8;
        // This gives the same result as `TableShape::other_line` without a division, because `home` is one of the copies of
        // `inner`.
        let other = factor * other_line(inner, check, base) + (home - factor * inner);
        Self { lines: [home, other], check }
    }
}

/// Returns the second of the two lines that can hold a slot, if the first is `line`, in a table that never grew. The
/// result is computed from the slot alone. Applying the function twice returns `line`.
///
/// The sum of the two lines, modulo the even number of lines, is an odd number that depends on the check. So the two
/// lines differ.
#[inline(always)]
fn other_line(line: usize, check: u8, lines: usize) -> usize {
    let spread = mix(u64::from(check) + 1, MULTIPLIER_A);
    let sum = 2 * reduce(spread, lines as u64 / 2) as usize + 1;
    if line <= sum { sum - line } else { sum + lines - line }
}

/// Returns all slots with the feature's check in either of its lines.
#[inline(always)]
pub(super) fn slots_with_check<const BITS: u32>(lines: &[Line], place: FeaturePlace) -> impl Iterator<Item = Slot> {
    let pair = place.lines.map(|line| SlotLine::of(&lines[line]));
    let [first, second] = pair.map(|line| line.with_check(place.check));
    // One loop covers the slots of both lines, because a branch on the line of a slot would be unpredictable.
    first.then(second).map(move |(second, i)| pair[usize::from(second)].slot::<BITS>(i))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_keys;

    #[test]
    fn a_feature_lies_among_the_copies_of_its_former_lines() {
        for (base, factor, more) in [(2, 2, 2), (10, 3, 2), (98, 5, 7), (6_144, 32, 4)] {
            let (before, after) = (TableShape { base, factor }, TableShape { base, factor: factor * more });
            for feature in test_keys(0, 2_000) {
                let (old, new) = (FeaturePlace::of(&feature, before), FeaturePlace::of(&feature, after));
                assert_eq!(new.lines.map(|line| line / more), old.lines);
                let [home, other] = new.lines;
                assert_eq!((after.other_line(home, new.check), after.other_line(other, new.check)), (other, home));
            }
        }
    }

    #[test]
    fn the_other_line_of_the_other_line_is_the_first_and_never_the_same() {
        for lines in [2, 4, 6, 10, 98, 1000, 1 << 20, 3 * ((1 << 31) + 1)] {
            for check in 0..=255 {
                for line in (0..lines).step_by(lines / 50 + 1).chain([lines - 1]) {
                    let other = other_line(line, check, lines);
                    assert!(other < lines && other != line, "{line} of {lines} and {check}: {other}");
                    assert_eq!(other_line(other, check, lines), line);
                }
            }
        }
    }
}
