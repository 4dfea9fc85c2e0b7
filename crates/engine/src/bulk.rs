//! The bulk book, DCC's idea: how many recipients a message had, over the window.
//!
//! A report names a number of targets and is answered with the totals before and after it. Counts are refined
//! (`bruit_filters::ring::CountsRing`): never too low, rarely too high. [`MANY`] absorbs: a signature that reached it, or was
//! reported with it, stays there as long as the generations that made it so are live.

use bruit_filters::Fingerprint;
use bruit_filters::ring::CountsRing;

use crate::generations::{retire_oldest, turn};

/// "Many": more than anyone counts, and the highest total there is. The number is that of DCC's wire.
pub const MANY: u32 = 0x00ff_fff0;

/// Recipients by signature and generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkBook {
    pub(crate) counts: CountsRing,
}

/// What a report of recipients is answered with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkTotals {
    /// The total before the report.
    pub previous: u32,
    /// The total with it.
    pub current: u32,
}

impl BulkBook {
    pub(crate) fn new(mut counts: CountsRing) -> Self {
        retire_oldest(&mut [&mut counts]);
        Self { counts }
    }

    /// Moves towards `epoch`, clearing at most `lines` lines; returns whether it is reached.
    pub(crate) fn turn(&mut self, epoch: u64, lines: usize) -> bool {
        turn(&mut [&mut self.counts], epoch, lines).arrived
    }

    /// Counts `targets` more recipients, at most [`MANY`].
    pub fn report(&mut self, fingerprint: &Fingerprint, targets: u32) -> BulkTotals {
        let previous = self.total(fingerprint);
        // Also past "many": what was counted before may expire earlier than this.
        self.counts.insert_many(fingerprint, targets.min(MANY));
        BulkTotals { previous, current: self.total(fingerprint) }
    }

    /// The recipients over the window, at most [`MANY`].
    #[must_use]
    pub fn total(&self, fingerprint: &Fingerprint) -> u32 {
        self.counts.count(fingerprint).min(MANY)
    }

    /// Writes the total of `fingerprints[i]` to `totals[i]`.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn totals(&self, fingerprints: &[Fingerprint], totals: &mut [u32]) {
        self.counts.count_batch(fingerprints, totals);
        totals.iter_mut().for_each(|total| *total = (*total).min(MANY));
    }
}
