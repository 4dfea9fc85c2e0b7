//! The bulk book, as in DCC: the number of recipients of each message within the window.
//!
//! A report contains a number of recipients (*targets*), and the answer contains the totals before and after the
//! report. Counts are approximate (`bruit_filters::ring::CountsRing`): never too low, rarely too high. A total that has
//! reached [`MANY`] stays there as long as the generations that contributed to it are live.

use std::collections::BTreeMap;

use bruit_filters::Fingerprint;
use bruit_filters::ring::CountsRing;

use crate::exchange::Origin;
use crate::generations::{EndedGeneration, Ring, retire_oldest, turn};
use crate::spam::{empty_like, empty_ring};

/// "Many", the highest total, as encoded in DCC's protocol.
pub const MANY: u32 = 0x00ff_fff0;

/// Name of the ring, also used in [`crate::RingStatus`].
pub(crate) const RECIPIENTS: &str = "counts of recipients";

/// Recipients by signature and generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkBook {
    pub(crate) counts: CountsRing,
    /// Recipients counted by all other nodes of the cluster, in one ring; `None` if there are no other nodes.
    pub(crate) nodes: Option<CountsRing>,
    /// The ring that will replace `nodes`. It is built while a server is being forgotten.
    pub(crate) rebuilt: Option<CountsRing>,
    /// Recipients counted by origins that have rings of their own: peers, and origins that counted before all nodes
    /// shared a ring.
    pub(crate) others: BTreeMap<Origin, OriginCounts>,
}

/// Recipients counted by another server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OriginCounts {
    /// Maximum count accepted from this server for each signature.
    pub(crate) cap: u32,
    pub(crate) ring: CountsRing,
}

/// The answer to a report of recipients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BulkTotals {
    /// Total before the report.
    pub previous: u32,
    /// Total including the report.
    pub current: u32,
}

impl BulkBook {
    pub(crate) fn new(mut counts: CountsRing) -> Self {
        retire_oldest(&mut [&mut counts]);
        Self { counts, nodes: None, rebuilt: None, others: BTreeMap::new() }
    }

    /// Advances towards `epoch`, clearing at most `lines` lines of each ring. Returns whether `epoch` is reached, and
    /// the generation that ended, if any.
    pub(crate) fn turn(&mut self, epoch: u64, lines: usize) -> (bool, Option<EndedGeneration>) {
        let is_behind = self.counts.epoch() < epoch;
        let ending = if is_behind { EndedGeneration::next(RECIPIENTS, &self.counts) } else { None };
        let mut rings: Vec<&mut dyn Ring> = vec![&mut self.counts];
        rings.extend(self.nodes.iter_mut().chain(&mut self.rebuilt).map(|ring| ring as &mut dyn Ring));
        rings.extend(self.others.values_mut().map(|counted| &mut counted.ring as &mut dyn Ring));
        let turned = turn(&mut rings, epoch, lines);
        (turned.arrived, ending.filter(|_| turned.advanced))
    }

    /// Returns true if [`turn`](Self::turn) would change anything.
    pub(crate) fn has_to_turn(&self, epoch: u64) -> bool {
        let others = self.others.values().map(|counted| &counted.ring);
        let is_expired = [&self.counts].into_iter().chain(&self.nodes).chain(others).all(CountsRing::is_expired);
        self.counts.epoch() < epoch || !is_expired
    }

    /// Returns the recipients counted by this server alone.
    pub(crate) fn own_count(&self, fingerprint: &Fingerprint) -> u32 {
        self.counts.count(fingerprint)
    }

    /// Returns the ring of recipients counted by this server.
    #[must_use]
    pub const fn recipients(&self) -> &CountsRing {
        &self.counts
    }

    /// Returns the ring of recipients counted by the other nodes of the cluster.
    #[must_use]
    pub const fn recipients_of_nodes(&self) -> Option<&CountsRing> {
        self.nodes.as_ref()
    }

    /// Returns the ring of recipients counted by a server, if that server has a ring of its own.
    #[must_use]
    pub fn recipients_of(&self, origin: &Origin) -> Option<&CountsRing> {
        self.others.get(origin).map(|counted| &counted.ring)
    }

    /// Returns the ring for the recipients that another node counts in a generation.
    pub(crate) fn node_ring(&self, origin: &Origin, epoch: u64) -> Option<&CountsRing> {
        let own = self.others.get(origin).filter(|counted| counted.cap == MANY).map(|counted| &counted.ring);
        own.filter(|ring| holds(ring, epoch)).or(self.nodes.as_ref())
    }

    /// Adds recipients counted by another node to the ring that [`node_ring`](Self::node_ring) returns.
    pub(crate) fn count_of_node(&mut self, origin: &Origin, epoch: u64, fingerprint: &Fingerprint, amount: u32) {
        let own = self.others.get_mut(origin).filter(|counted| counted.cap == MANY).map(|counted| &mut counted.ring);
        if let Some(ring) = own.filter(|ring| holds(ring, epoch)).or(self.nodes.as_mut()) {
            // This cannot fail: the caller has checked that the generation is live.
            let _ = ring.insert_many_at(epoch, fingerprint, amount);
        }
        let own = self.others.get(origin).filter(|counted| counted.cap == MANY);
        if own.is_none_or(|counted| !holds(&counted.ring, epoch)) {
            self.recount(epoch, fingerprint, amount);
        }
    }

    /// Adds recipients counted by another node to the ring that is being rebuilt.
    pub(crate) fn recount(&mut self, epoch: u64, fingerprint: &Fingerprint, amount: u32) {
        if let Some(ring) = &mut self.rebuilt {
            // Ignore errors: the generation may have ended meanwhile.
            let _ = ring.insert_many_at(epoch, fingerprint, amount);
        }
    }

    /// Starts to rebuild the ring of recipients counted by other nodes.
    pub(crate) fn begin_recipients(&mut self) {
        self.rebuilt = Some(empty_like(&self.counts));
    }

    /// Replaces the ring of recipients counted by other nodes with the rebuilt ring.
    pub(crate) fn replace_recipients(&mut self) {
        if let Some(ring) = self.rebuilt.take() {
            self.nodes = Some(ring);
        }
    }

    /// Creates the ring for the counts of other nodes, unless it exists. The new ring is as large as our own.
    pub(crate) fn admit_nodes(&mut self) {
        self.nodes.get_or_insert_with(|| empty_like(&self.counts));
    }

    /// Returns the recipients counted in the generation of `epoch`, or 0 if it is not live.
    #[must_use]
    pub fn total_in(&self, epoch: u64, fingerprint: &Fingerprint) -> u32 {
        let of = |ring: &CountsRing| ring.count_in(fingerprint, epoch).unwrap_or(0);
        let nodes = self.nodes.as_ref().map_or(0, of);
        of(&self.counts).saturating_add(nodes).saturating_add(self.believed(of)).min(MANY)
    }

    /// Sums the counts of other servers. The incarnations of a server together contribute at most the server's cap.
    fn believed(&self, of: impl Fn(&CountsRing) -> u32) -> u32 {
        let (mut sum, mut server, mut counted_by) = (0_u32, None, 0_u32);
        for (origin, counted) in &self.others {
            // Incarnations of one server are adjacent.
            let before = if server == Some(origin.key) { counted_by } else { 0 };
            let now = before.saturating_add(of(&counted.ring)).min(counted.cap);
            sum = sum.saturating_add(now.saturating_sub(before));
            (server, counted_by) = (Some(origin.key), now);
        }
        sum
    }

    /// Returns true if every server has a single incarnation, so that the cap applies to each ring separately.
    fn has_single_incarnations(&self) -> bool {
        self.others.keys().zip(self.others.keys().skip(1)).all(|(one, next)| one.key != next.key)
    }

    /// Adds recipients counted by a server that has a ring of its own.
    pub(crate) fn count_of(&mut self, origin: &Origin, epoch: u64, fingerprint: &Fingerprint, amount: u32) {
        if let Some(counted) = self.others.get_mut(origin) {
            // This cannot fail: the caller has checked that the generation is live.
            let _ = counted.ring.insert_many_at(epoch, fingerprint, amount);
        }
    }

    /// Returns the recipients that a server with a ring of its own counted in a live generation.
    pub(crate) fn counted_by(&self, origin: &Origin, epoch: u64, fingerprint: &Fingerprint) -> u32 {
        let counted = self.others.get(origin).and_then(|counted| counted.ring.count_in(fingerprint, epoch).ok());
        counted.unwrap_or(0)
    }

    /// Starts a new ring for our own counts. The counts of the origin `before`, which had another key, stay in the old
    /// ring.
    pub(crate) fn begin_incarnation(&mut self, before: Origin) {
        let fresh = empty_like(&self.counts);
        let ring = std::mem::replace(&mut self.counts, fresh);
        self.others.insert(before, OriginCounts { cap: MANY, ring });
    }

    /// Creates a ring for the counts of another server, with one line for every `part` lines of our own ring. If the
    /// server already has a ring, changes its cap.
    pub(crate) fn admit_origin(&mut self, origin: Origin, cap: u32, part: u64) {
        if let Some(counted) = self.others.get_mut(&origin) {
            counted.cap = cap;
            return;
        }
        let lines = usize::try_from((self.counts.lines() / part).max(1)).expect("a ring is in memory");
        self.others.insert(origin, OriginCounts { cap, ring: empty_ring(&self.counts, lines) });
    }

    /// Grows our own ring and the rings of other servers by a factor.
    pub(crate) fn grow(&mut self, factor: usize) {
        self.counts.grow(factor);
        self.nodes.iter_mut().for_each(|ring| ring.grow(factor));
        self.others.values_mut().for_each(|counted| counted.ring.grow(factor));
    }

    /// Adds `targets` recipients, at most [`MANY`].
    pub fn report(&mut self, fingerprint: &Fingerprint, targets: u32) -> BulkTotals {
        let previous = self.total(fingerprint);
        // Count even if the total is already "many": the earlier counts may expire before the new ones.
        self.counts.insert_many(fingerprint, targets.min(MANY));
        BulkTotals { previous, current: self.total(fingerprint) }
    }

    /// Returns the recipients over the window, at most [`MANY`].
    #[must_use]
    pub fn total(&self, fingerprint: &Fingerprint) -> u32 {
        let of = |ring: &CountsRing| ring.count(fingerprint);
        let nodes = self.nodes.as_ref().map_or(0, of);
        of(&self.counts).saturating_add(nodes).saturating_add(self.believed(of)).min(MANY)
    }

    /// Writes the total of `fingerprints[i]` to `totals[i]`.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn totals(&self, fingerprints: &[Fingerprint], totals: &mut [u32]) {
        if !self.has_single_incarnations() {
            let all = fingerprints.iter().zip(totals);
            return all.for_each(|(fingerprint, total)| *total = self.total(fingerprint));
        }
        self.counts.count_batch(fingerprints, totals);
        let others = self.others.values().map(|counted| (&counted.ring, counted.cap));
        for (ring, cap) in self.nodes.iter().map(|ring| (ring, MANY)).chain(others) {
            add_batch(ring, cap, fingerprints, totals);
        }
        totals.iter_mut().for_each(|total| *total = (*total).min(MANY));
    }
}

/// Returns true if a ring has counts of this generation.
pub(crate) fn holds(ring: &CountsRing, epoch: u64) -> bool {
    ring.keys(epoch).is_ok_and(|keys| keys > 0)
}

/// Adds the counts of a ring, each up to `cap`, to the totals. Looks up a few signatures at a time to avoid allocating.
fn add_batch(ring: &CountsRing, cap: u32, fingerprints: &[Fingerprint], totals: &mut [u32]) {
    let mut counts = [0; 64];
    for (fingerprints, totals) in fingerprints.chunks(counts.len()).zip(totals.chunks_mut(counts.len())) {
        let counts = &mut counts[..fingerprints.len()];
        ring.count_batch(fingerprints, counts);
        for (total, count) in totals.iter_mut().zip(counts) {
            *total = total.saturating_add((*count).min(cap));
        }
    }
}
