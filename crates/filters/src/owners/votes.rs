//! What a look-up found: votes per owner.

use super::numbering::{Numbering, Owner};

/// Votes per owner, in memory that the next look-up uses again.
///
/// It grows to the most votes a look-up ever had and allocates nothing from then on.
#[derive(Clone, Debug, Default)]
pub struct Votes {
    /// One entry per vote while they come in.
    pub(super) places: Vec<u32>,
    pub(super) counted: Vec<(Owner, u32)>,
}

impl Votes {
    /// No votes yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The owners with at least one vote and how many each has, oldest owner first.
    pub fn iter(&self) -> impl Iterator<Item = (Owner, u32)> {
        self.counted.iter().copied()
    }

    /// The votes for `owner`.
    #[must_use]
    pub fn of(&self, owner: Owner) -> u32 {
        self.counted.binary_search_by_key(&owner, |&(owner, _)| owner).map_or(0, |i| self.counted[i].1)
    }

    pub(super) fn clear(&mut self) {
        self.places.clear();
        self.counted.clear();
    }

    /// One vote for the owner at `place` of the numbering.
    #[inline(always)]
    pub(super) fn cast(&mut self, place: u32) {
        self.places.push(place);
    }

    /// Adds the votes up. Sorting is cheap beside the look-ups, and no choice of features makes it slow.
    pub(super) fn count(&mut self, numbering: &Numbering) {
        self.places.sort_unstable();
        let runs = self.places.chunk_by(|a, b| a == b);
        self.counted.extend(runs.map(|run| (numbering.owner_at(run[0]), run.len() as u32)));
    }
}
