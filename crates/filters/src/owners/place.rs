//! Where the slots of a feature lie.

use super::line::{Slot, SlotLine};
use crate::Fingerprint;
use crate::hash::{MULTIPLIER_A, mix, reduce};
use crate::lines::Line;

/// The number of lines of a table, and how it grew.
///
/// A table that grew consists of `factor` interleaved tables of `base` lines: line `factor * i + j` is line `i` of the j-th. A
/// feature's home among all lines selects its table. So both lines of a feature are among the copies of the lines that it had
/// before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// An even number, so that a feature's lines always differ.
    pub(super) base: usize,
    pub(super) factor: usize,
}

impl Shape {
    /// A table of `lines` lines that never grew.
    pub(super) const fn new(lines: usize) -> Self {
        Self { base: lines, factor: 1 }
    }

    /// The other line of a slot in `line`. Applying it twice gives `line` again.
    #[inline(always)]
    pub(super) fn other_line(&self, line: usize, check: u8) -> usize {
        let (inner, which) = (line / self.factor, line % self.factor);
        self.factor * other_line(inner, check, self.base) + which
    }
}

/// Where a feature may lie, and its check.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) lines: [usize; 2],
    pub(super) check: u8,
}

impl Place {
    #[inline(always)]
    pub(super) fn of(feature: &Fingerprint, shape: Shape) -> Self {
        // Both halves of the fingerprint, because whoever stores "the lowest 48" leaves only one of them random.
        let word = feature.high() ^ feature.low();
        let Shape { base, factor } = shape;
        let inner = reduce(word, base as u64) as usize;
        let home = reduce(word, (base * factor) as u64) as usize;
        let check = word as u8;
        // The result of `Shape::other_line` without its division: `home` is one of the copies of `inner`.
        let other = factor * other_line(inner, check, base) + (home - factor * inner);
        Self { lines: [home, other], check }
    }
}

/// The other line of a slot in `line` of a table that never grew, computed from the slot alone. Applying it twice gives `line`
/// again.
///
/// The two lines add up to an odd number that depends on the check, modulo an even one, and so differ.
#[inline(always)]
fn other_line(line: usize, check: u8, lines: usize) -> usize {
    let spread = mix(u64::from(check) + 1, MULTIPLIER_A);
    let sum = 2 * reduce(spread, lines as u64 / 2) as usize + 1;
    if line <= sum { sum - line } else { sum + lines - line }
}

/// All slots that have the feature's check, in either of its lines.
#[inline(always)]
pub(super) fn slots_with_check<const BITS: u32>(lines: &[Line], place: Place) -> impl Iterator<Item = Slot> {
    let pair = place.lines.map(|line| SlotLine::of(&lines[line]));
    let [first, second] = pair.map(|line| line.with_check(place.check));
    // One loop over both lines: in which of them a slot lies is no branch that could be learnt.
    first.then(second).map(move |(second, i)| pair[usize::from(second)].slot::<BITS>(i))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_keys;

    #[test]
    fn a_feature_lies_among_the_copies_of_its_former_lines() {
        for (base, factor, more) in [(2, 2, 2), (10, 3, 2), (98, 5, 7), (6_144, 32, 4)] {
            let (before, after) = (Shape { base, factor }, Shape { base, factor: factor * more });
            for feature in test_keys(0, 2_000) {
                let (old, new) = (Place::of(&feature, before), Place::of(&feature, after));
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
