//! The assignment of lanes to epochs, and the progress of clearing the outgoing lane.

use std::ops::Range;

use crate::Mismatch;
use crate::mismatch::ensure_equal;
use crate::snapshot::RestoreError;
use crate::snapshot::head::{NUMBER_MAX, within};

/// Number of generations of a ring: the current one and seven older ones.
pub const GENERATIONS: u32 = 8;

/// Number of lanes of a line, one per generation.
pub(crate) const LANES: u64 = GENERATIONS as u64;

/// The error returned for an epoch that the ring does not contain, because it has expired or has not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("epoch {epoch} is not live: the ring holds epochs {oldest} to {current}")]
pub struct NotLive {
    /// Requested epoch.
    pub epoch: u64,
    /// Oldest live epoch.
    pub oldest: u64,
    /// Current epoch.
    pub current: u64,
}

/// The state of the ring's lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lanes {
    epoch: u64,
    /// Number of lines in which the oldest generation is cleared. The generation is live only while this is 0.
    cleared: usize,
}

impl Lanes {
    /// Creates the lanes of an empty ring whose current epoch is `epoch`.
    pub(crate) const fn new(epoch: u64) -> Self {
        Self { epoch, cleared: 0 }
    }

    /// Restores the lanes of a ring of `lines` lines from their [`fields`](Self::fields).
    pub(crate) fn restore([epoch, cleared]: [u64; 2], lines: usize) -> Result<Self, RestoreError> {
        let epoch = within("the current epoch", epoch, ..=NUMBER_MAX)?;
        let cleared = within("the number of cleared lines", cleared, ..=lines as u64)?;
        Ok(Self { epoch, cleared: cleared as usize })
    }

    /// Returns the fields to write to a snapshot.
    pub(crate) const fn fields(&self) -> [u64; 2] {
        [self.epoch, self.cleared as u64]
    }

    pub(crate) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the number of lines in which the oldest generation is cleared.
    pub(crate) const fn cleared(&self) -> usize {
        self.cleared
    }

    /// Returns true if the generation in `lane` is live.
    pub(crate) const fn is_live(&self, lane: usize) -> bool {
        self.live() >> lane & 1 == 1
    }

    /// Returns the oldest epoch that can be live.
    pub(crate) const fn oldest(&self) -> u64 {
        let expiring = (self.cleared > 0) as u64;
        self.epoch.saturating_sub(LANES - 1 - expiring)
    }

    /// Returns the lane of the current epoch.
    pub(crate) const fn current(&self) -> usize {
        (self.epoch % LANES) as usize
    }

    /// Returns the lane of the oldest generation, which the next epoch will use.
    pub(crate) const fn outgoing(&self) -> usize {
        ((self.epoch + 1) % LANES) as usize
    }

    /// Returns the lane of a live epoch.
    pub(crate) fn lane_of(&self, epoch: u64) -> Result<usize, NotLive> {
        if (self.oldest()..=self.epoch).contains(&epoch) {
            Ok((epoch % LANES) as usize)
        } else {
            Err(NotLive { epoch, oldest: self.oldest(), current: self.epoch })
        }
    }

    /// Returns the live lanes, one bit each.
    pub(crate) const fn live(&self) -> u8 {
        if self.cleared == 0 { u8::MAX } else { !(1 << self.outgoing()) }
    }

    /// Returns up to `limit` lines in which to clear the oldest generation next, and counts them as cleared.
    pub(crate) fn next_step(&mut self, limit: usize, lines: usize) -> Range<usize> {
        let start = self.cleared;
        self.cleared = start.saturating_add(limit).min(lines);
        start..self.cleared
    }

    /// Returns true if the oldest generation is cleared.
    pub(crate) const fn is_clear(&self, lines: usize) -> bool {
        self.cleared == lines
    }

    /// Begins the next epoch in the cleared lane.
    pub(crate) fn advance(&mut self) {
        self.epoch += 1;
        self.cleared = 0;
    }

    /// Begins `epoch` in a ring whose lanes are all clear.
    pub(crate) fn begin(&mut self, epoch: u64) {
        *self = Self::new(epoch);
    }

    /// Adapts the state to a ring in which each line was repeated `factor` times.
    pub(crate) const fn grow(&mut self, factor: usize) {
        self.cleared *= factor;
    }

    pub(crate) fn ensure_same(&self, other: &Self) -> Result<(), Mismatch> {
        ensure_equal("the current epoch", &self.epoch, &other.epoch)
    }

    /// Converts a set of lanes to a set of ages.
    pub(crate) const fn generations(&self, lanes: u8) -> Generations {
        // Rotates the current lane to the top bit, then reverses the bits, so that age 0 is the lowest bit.
        Generations((lanes & self.live()).rotate_left(7 - self.current() as u32).reverse_bits())
    }
}

/// A set of live generations by age, where 0 is the current one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Generations(u8);

impl Generations {
    /// Returns true if the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if the set contains the generation `age` epochs before the current one.
    #[must_use]
    pub const fn contains(self, age: u32) -> bool {
        age < 8 && self.0 >> age & 1 == 1
    }

    /// Returns the age of the newest generation in the set: the number of epochs since the key was last inserted.
    #[must_use]
    pub const fn newest(self) -> Option<u32> {
        if self.is_empty() { None } else { Some(self.0.trailing_zeros()) }
    }

    /// Returns the age of the oldest generation in the set: the number of epochs since the key was first inserted.
    #[must_use]
    pub const fn oldest(self) -> Option<u32> {
        if self.is_empty() { None } else { Some(7 - self.0.leading_zeros()) }
    }

    /// Returns the intersection of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the ages in the set, newest first.
    pub fn ages(self) -> impl Iterator<Item = u32> {
        (0..8).filter(move |&age| self.contains(age))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_become_ages() {
        for epoch in 0..20 {
            let mut lanes = Lanes::new(epoch);
            for age in 0..LANES.min(epoch + 1) {
                let lane = lanes.lane_of(epoch - age).unwrap();
                let generations = lanes.generations(1 << lane);
                assert_eq!(generations.ages().collect::<Vec<_>>(), [age as u32]);
                assert_eq!((generations.newest(), generations.oldest()), (Some(age as u32), Some(age as u32)));
            }
            lanes.next_step(1, 10);
            assert!(lanes.generations(1 << lanes.outgoing()).is_empty());
        }
    }

    #[test]
    fn epochs_outside_the_window_are_refused() {
        let mut lanes = Lanes::new(20);
        assert_eq!(lanes.lane_of(12), Err(NotLive { epoch: 12, oldest: 13, current: 20 }));
        assert_eq!(lanes.lane_of(21), Err(NotLive { epoch: 21, oldest: 13, current: 20 }));
        assert!(lanes.lane_of(13).is_ok());
        lanes.next_step(1, 10);
        assert_eq!(lanes.lane_of(13), Err(NotLive { epoch: 13, oldest: 14, current: 20 }));
    }
}
