//! Where the slots of a feature lie.

use super::line::{Slot, SlotLine};
use crate::Fingerprint;
use crate::hash::{MULTIPLIER_A, mix, reduce};
use crate::lines::Line;

/// Where a feature may lie, and its check.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) lines: [usize; 2],
    pub(super) check: u8,
}

impl Place {
    #[inline(always)]
    pub(super) fn of(feature: &Fingerprint, lines: usize) -> Self {
        // Both halves of the fingerprint, because whoever stores "the lowest 48" leaves only one of them random.
        let word = feature.high() ^ feature.low();
        let home = reduce(word, lines as u64) as usize;
        let check = word as u8;
        Self { lines: [home, other_line(home, check, lines)], check }
    }
}

/// The other line of a slot in `line`, found from what the slot knows; twice is back again.
///
/// The two lines add up to an odd number that depends on the check, modulo an even one, and so differ.
#[inline(always)]
pub(super) fn other_line(line: usize, check: u8, lines: usize) -> usize {
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
