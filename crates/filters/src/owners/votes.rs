//! The result of a lookup: votes per owner and part.

use super::feature::{PARTS, Part};
use super::numbering::{Numbering, Owner};

const PART_BITS: u32 = PARTS.ilog2();

/// Votes per owner and part of its text. The next lookup reuses the memory.
///
/// The memory grows to the largest number of votes in any lookup so far.
#[derive(Clone, Debug, Default)]
pub struct Votes {
    /// One entry per vote during a lookup: the owner's place in the numbering, and the part in the low two bits.
    pub(super) ballots: Vec<u32>,
    pub(super) counted: Vec<(Owner, [u32; PARTS])>,
}

impl Votes {
    /// Creates an empty set of votes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the owners that have at least one vote, oldest first. Each item has the owner's votes for each part of
    /// its text.
    pub fn iter(&self) -> impl Iterator<Item = (Owner, [u32; PARTS])> {
        self.counted.iter().copied()
    }

    /// Returns the votes for each part of `owner`'s text.
    #[must_use]
    pub fn of(&self, owner: Owner) -> [u32; PARTS] {
        self.counted.binary_search_by_key(&owner, |&(owner, _)| owner).map_or([0; PARTS], |i| self.counted[i].1)
    }

    pub(super) fn clear(&mut self) {
        self.ballots.clear();
        self.counted.clear();
    }

    /// Adds one vote for the owner at `place` in the numbering. A place has at most 22 bits.
    #[inline(always)]
    pub(super) fn cast(&mut self, place: u32, part: Part) {
        self.ballots.push(place << PART_BITS | u32::from(part.bits()));
    }

    /// Counts the votes. Sorting is cheap compared with the lookups, and no choice of features makes sorting slow.
    pub(super) fn count<const BITS: u32>(&mut self, numbering: &Numbering<BITS>) {
        // Sorts by owner only, because there are fewer distinct values and equal parts need not be adjacent.
        self.ballots.sort_unstable_by_key(|ballot| ballot >> PART_BITS);
        for run in self.ballots.chunk_by(|a, b| a == b) {
            let owner = numbering.owner_at(run[0] >> PART_BITS);
            let part = run[0] as usize % PARTS;
            // Adds all four counts as one value, because writing one count and reading all four soon after would stall
            // the processor.
            let more: [u32; PARTS] = std::array::from_fn(|i| if i == part { run.len() as u32 } else { 0 });
            match self.counted.last_mut() {
                Some((last, counts)) if *last == owner => *counts = std::array::from_fn(|i| counts[i] + more[i]),
                _ => self.counted.push((owner, more)),
            }
        }
    }
}
