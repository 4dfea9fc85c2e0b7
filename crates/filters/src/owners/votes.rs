//! What a look-up found: votes per owner and part.

use super::feature::{PARTS, Part};
use super::numbering::{Numbering, Owner};

const PART_BITS: u32 = PARTS.ilog2();

/// Votes per owner and part of its text, in memory that the next look-up uses again.
///
/// It grows to the most votes a look-up ever had and allocates nothing from then on.
#[derive(Clone, Debug, Default)]
pub struct Votes {
    /// One entry per vote while they come in: the owner's place in the numbering, and the part in the low two bits.
    pub(super) ballots: Vec<u32>,
    pub(super) counted: Vec<(Owner, [u32; PARTS])>,
}

impl Votes {
    /// No votes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The owners with at least one vote and how many each has for every part of its text, oldest owner first.
    pub fn iter(&self) -> impl Iterator<Item = (Owner, [u32; PARTS])> {
        self.counted.iter().copied()
    }

    /// The votes for every part of `owner`'s text.
    #[must_use]
    pub fn of(&self, owner: Owner) -> [u32; PARTS] {
        self.counted.binary_search_by_key(&owner, |&(owner, _)| owner).map_or([0; PARTS], |i| self.counted[i].1)
    }

    pub(super) fn clear(&mut self) {
        self.ballots.clear();
        self.counted.clear();
    }

    /// One vote for the owner at `place` of the numbering, which takes 22 bits at most.
    #[inline(always)]
    pub(super) fn cast(&mut self, place: u32, part: Part) {
        self.ballots.push(place << PART_BITS | u32::from(part.bits()));
    }

    /// Adds the votes up. Sorting is cheap beside the look-ups, and no choice of features makes it slow.
    pub(super) fn count<const BITS: u32>(&mut self, numbering: &Numbering<BITS>) {
        // By owner only, for which fewer values differ; equal parts need not lie together.
        self.ballots.sort_unstable_by_key(|ballot| ballot >> PART_BITS);
        for run in self.ballots.chunk_by(|a, b| a == b) {
            let owner = numbering.owner_at(run[0] >> PART_BITS);
            let part = run[0] as usize % PARTS;
            // All four counts as one value: to write one of them and read all soon after would stall.
            let more: [u32; PARTS] = std::array::from_fn(|i| if i == part { run.len() as u32 } else { 0 });
            match self.counted.last_mut() {
                Some((last, counts)) if *last == owner => *counts = std::array::from_fn(|i| counts[i] + more[i]),
                _ => self.counted.push((owner, more)),
            }
        }
    }
}
