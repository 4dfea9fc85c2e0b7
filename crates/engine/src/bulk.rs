//! The bulk book, DCC's idea: how many recipients a message had, over the window.
//!
//! A report names a number of targets and is answered with the totals before and after it. Counts are refined
//! (`bruit_filters::ring::CountsRing`): never too low, rarely too high. [`MANY`] absorbs: a signature that reached it, or was
//! reported with it, stays there as long as the generations that made it so are live.

use std::collections::BTreeMap;

use bruit_filters::Fingerprint;
use bruit_filters::ring::CountsRing;

use crate::exchange::Origin;
use crate::generations::{Ended, Ring, retire_oldest, turn};
use crate::spam::{empty_like, empty_ring};

/// "Many": more than anyone counts, and the highest total there is. The number is that of DCC's wire.
pub const MANY: u32 = 0x00ff_fff0;

/// The name of the ring, the same as in [`crate::RingStatus`].
pub(crate) const RECIPIENTS: &str = "counts of recipients";

/// Recipients by signature and generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkBook {
    pub(crate) counts: CountsRing,
    /// What other servers counted.
    pub(crate) others: BTreeMap<Origin, Counted>,
}

/// What another server counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// How much of it is believed, for each signature.
    pub(crate) cap: u32,
    pub(crate) ring: CountsRing,
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
        Self { counts, others: BTreeMap::new() }
    }

    /// Moves towards `epoch`, clearing at most `lines` lines. Returns whether it arrived, and the generation that ended.
    pub(crate) fn turn(&mut self, epoch: u64, lines: usize) -> (bool, Option<Ended>) {
        let is_behind = self.counts.epoch() < epoch;
        let ending = if is_behind { Ended::next(RECIPIENTS, &self.counts) } else { None };
        let mut rings: Vec<&mut dyn Ring> = vec![&mut self.counts];
        rings.extend(self.others.values_mut().map(|counted| &mut counted.ring as &mut dyn Ring));
        let turned = turn(&mut rings, epoch, lines);
        (turned.arrived, ending.filter(|_| turned.advanced))
    }

    /// Returns true if [`turn`](Self::turn) would change anything.
    pub(crate) fn has_to_turn(&self, epoch: u64) -> bool {
        let is_expired = self.counts.is_expired() && self.others.values().all(|counted| counted.ring.is_expired());
        self.counts.epoch() < epoch || !is_expired
    }

    /// What was counted here, without what other servers say.
    pub(crate) fn own_count(&self, fingerprint: &Fingerprint) -> u32 {
        self.counts.count(fingerprint)
    }

    /// The ring of recipients that were counted here.
    #[must_use]
    pub const fn recipients(&self) -> &CountsRing {
        &self.counts
    }

    /// The ring of recipients that another server counted.
    #[must_use]
    pub fn recipients_of(&self, origin: &Origin) -> Option<&CountsRing> {
        self.others.get(origin).map(|counted| &counted.ring)
    }

    /// The recipients in the generation of a live epoch; none in another.
    #[must_use]
    pub fn total_in(&self, epoch: u64, fingerprint: &Fingerprint) -> u32 {
        let of = |ring: &CountsRing| ring.count_in(fingerprint, epoch).unwrap_or(0);
        of(&self.counts).saturating_add(self.believed(of)).min(MANY)
    }

    /// What is believed of what other servers counted: all lives of one together up to its cap.
    fn believed(&self, of: impl Fn(&CountsRing) -> u32) -> u32 {
        let (mut sum, mut server, mut counted_by) = (0_u32, None, 0_u32);
        for (origin, counted) in &self.others {
            // Lives of one server lie side by side.
            let before = if server == Some(origin.key) { counted_by } else { 0 };
            let now = before.saturating_add(of(&counted.ring)).min(counted.cap);
            sum = sum.saturating_add(now.saturating_sub(before));
            (server, counted_by) = (Some(origin.key), now);
        }
        sum
    }

    /// Whether each server has one life, so that each ring has a cap of its own.
    fn has_single_lives(&self) -> bool {
        self.others.keys().zip(self.others.keys().skip(1)).all(|(one, next)| one.key != next.key)
    }

    /// Counts what another server counted.
    pub(crate) fn count_of(&mut self, origin: &Origin, epoch: u64, fingerprint: &Fingerprint, amount: u32) {
        if let Some(counted) = self.others.get_mut(origin) {
            // Generations that are not live are sorted out before.
            let _ = counted.ring.insert_many_at(epoch, fingerprint, amount);
        }
    }

    /// What another server counted in the generation of a live epoch.
    pub(crate) fn counted_by(&self, origin: &Origin, epoch: u64, fingerprint: &Fingerprint) -> u32 {
        let counted = self.others.get(origin).and_then(|counted| counted.ring.count_in(fingerprint, epoch).ok());
        counted.unwrap_or(0)
    }

    /// Begins a new ring for what we count ourselves; what we counted as `before` is kept as that of another node.
    pub(crate) fn begin_incarnation(&mut self, before: Origin) {
        let fresh = empty_like(&self.counts);
        let ring = std::mem::replace(&mut self.counts, fresh);
        self.others.insert(before, Counted { cap: MANY, ring });
    }

    /// Makes room for what another server counts, a ring of one in `part` of our own lines; or changes its cap.
    pub(crate) fn admit_origin(&mut self, origin: Origin, cap: u32, part: u64) {
        if let Some(counted) = self.others.get_mut(&origin) {
            counted.cap = cap;
            return;
        }
        let lines = usize::try_from((self.counts.lines() / part).max(1)).expect("a ring is in memory");
        self.others.insert(origin, Counted { cap, ring: empty_ring(&self.counts, lines) });
    }

    /// Grows the rings by a factor, those of other servers as much as our own.
    pub(crate) fn grow(&mut self, factor: usize) {
        self.counts.grow(factor);
        self.others.values_mut().for_each(|counted| counted.ring.grow(factor));
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
        let of = |ring: &CountsRing| ring.count(fingerprint);
        of(&self.counts).saturating_add(self.believed(of)).min(MANY)
    }

    /// Writes the total of `fingerprints[i]` to `totals[i]`.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn totals(&self, fingerprints: &[Fingerprint], totals: &mut [u32]) {
        if !self.has_single_lives() {
            let all = fingerprints.iter().zip(totals);
            return all.for_each(|(fingerprint, total)| *total = self.total(fingerprint));
        }
        self.counts.count_batch(fingerprints, totals);
        for counted in self.others.values() {
            add_batch(counted, fingerprints, totals);
        }
        totals.iter_mut().for_each(|total| *total = (*total).min(MANY));
    }
}

/// Adds what another server counted, some signatures at a time so that nothing is allocated.
fn add_batch(counted: &Counted, fingerprints: &[Fingerprint], totals: &mut [u32]) {
    let mut counts = [0; 64];
    for (fingerprints, totals) in fingerprints.chunks(counts.len()).zip(totals.chunks_mut(counts.len())) {
        let counts = &mut counts[..fingerprints.len()];
        counted.ring.count_batch(fingerprints, counts);
        for (total, count) in totals.iter_mut().zip(counts) {
            *total = total.saturating_add((*count).min(counted.cap));
        }
    }
}
