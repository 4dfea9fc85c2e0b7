//! Packets in, estimates out.

use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
use bruit_filters::space_code::{Arrival, Estimate, Estimator, MultiResolutionFilter, Shape};
use bruit_filters::{Fingerprint, FingerprintKey};

use super::Key;
use super::errors::{Band, Compared, bands};
use super::exact::Exact;
use super::leaders::Leaders;
use super::saved::{self, MergeError, Name, SavedError};
use crate::random::Random;

/// The least memory to count in.
pub const MEMORY_BYTES_MIN: u64 = 64 * 1024;

/// The part of the memory that is for names: one in so many.
const LEADERS_SHARE: u64 = 8;

/// Arrivals that go to the filter together.
const BATCH: usize = 256;

/// How to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What filter and names may take together; [`MEMORY_BYTES_MIN`] at least.
    pub memory_bytes: u64,
    /// The longest identity that will be counted, which decides how many names there is room for.
    pub identity_bytes_max: usize,
    /// The filter's groups, resolutions and hash functions.
    pub shape: Shape,
    /// How many flows to count exactly as well; 0 for none.
    pub exact_flows: usize,
}

/// Counts packets by flow.
#[derive(Debug)]
pub struct FlowCounter {
    key: FingerprintKey,
    random: Random,
    filter: MultiResolutionFilter<OneLineFilter>,
    leaders: Leaders,
    exact: Option<Exact>,
    waiting: Vec<Arrival>,
    packets: u64,
}

/// Memory in bytes, by what it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The bits from which packets are estimated.
    pub filter: u64,
    /// The names of flows that were seen often.
    pub leaders: u64,
    /// The exact counts.
    pub exact: u64,
}

/// What is known of one flow.
#[derive(Clone, Debug)]
pub struct FlowEstimate {
    /// Which.
    pub identity: Vec<u8>,
    /// Its packets, by the filter.
    pub estimate: Estimate,
    /// Its packets, by exact count.
    pub exact: Option<u64>,
}

impl FlowCounter {
    /// Counts nothing yet. `secret` is the key under which flows are hashed, `seed` decides what is sampled: both random, so
    /// that nobody can make traffic that is miscounted.
    #[must_use]
    pub fn new(settings: &Settings, secret: [u8; 16], seed: u64) -> Self {
        let memory_bytes = settings.memory_bytes.max(MEMORY_BYTES_MIN);
        let names_bytes = memory_bytes / LEADERS_SHARE;
        let leaders = Leaders::new(Leaders::fitting(names_bytes, settings.identity_bytes_max));
        let filter_bytes = memory_bytes - (leaders.planned_bytes(settings.identity_bytes_max) as u64).min(names_bytes);
        let key = FingerprintKey::new(secret);
        Self {
            filter: MultiResolutionFilter::with_bytes(filter_bytes, settings.shape, key.id()),
            key,
            random: Random::new(seed),
            leaders,
            exact: (settings.exact_flows > 0).then(|| Exact::new(settings.exact_flows)),
            waiting: Vec::with_capacity(BATCH),
            packets: 0,
        }
    }

    /// Counts one packet, or message, of a flow.
    pub fn count(&mut self, identity: &[u8]) {
        let key = self.key.fingerprint(identity);
        self.packets += 1;
        // Two draws: were they one, every packet that is admitted to the list would choose the same group.
        let (admission, draw) = (self.random.next(), self.random.next());
        self.leaders.count(identity, key.high(), admission);
        if let Some(exact) = &mut self.exact {
            exact.count(identity, key);
        }
        self.waiting.push(Arrival { key, draw });
        if self.waiting.len() == BATCH {
            self.insert_waiting();
        }
    }

    fn insert_waiting(&mut self) {
        self.filter.insert_batch(&self.waiting);
        self.waiting.clear();
    }

    /// A counter as it was saved.
    pub(super) fn restored(
        key: FingerprintKey,
        seed: u64,
        filter: MultiResolutionFilter<OneLineFilter>,
        capacity: usize,
        names: &[Name],
        packets: u64,
    ) -> Self {
        let named =
            names.iter().map(|(identity, packets)| (identity.clone(), key.fingerprint(identity).high(), *packets));
        let leaders = Leaders::restored(capacity, named);
        let (random, waiting) = (Random::new(seed), Vec::with_capacity(BATCH));
        Self { key, random, filter, leaders, exact: None, waiting, packets }
    }

    /// The bytes of all but the exact counts, with the fields by which it counts. [`SavedFlows`](super::SavedFlows) reads them.
    ///
    /// # Errors
    /// [`SavedError::Filter`] if a filter has a shape that no file has.
    pub fn encode(&mut self, key: Key) -> Result<Vec<u8>, SavedError> {
        saved::encode(key, self)
    }

    /// Adds what another has counted by the same fields. Exact counts are left as they are.
    ///
    /// # Errors
    /// [`MergeError`] if it was made under another key, or with filters of another shape; nothing has changed then.
    pub fn merge(&mut self, other: &mut Self) -> Result<(), MergeError> {
        if self.key != other.key {
            return Err(MergeError::Secret);
        }
        self.insert_waiting();
        other.insert_waiting();
        self.filter.merge(&other.filter)?;
        let lists = [&self.leaders, &other.leaders];
        let named = lists
            .into_iter()
            .flat_map(|leaders| leaders.iter())
            .map(|leader| (leader.identity.to_vec(), self.key.fingerprint(leader.identity).high(), leader.packets));
        self.leaders = Leaders::restored(self.leaders.capacity(), named);
        self.packets = self.packets.saturating_add(other.packets);
        Ok(())
    }

    /// An empty counter that can be merged with this one.
    #[must_use]
    pub fn empty_like(&self, seed: u64) -> Self {
        let lines = |resolution: &bruit_filters::space_code::SpaceCodeFilter<OneLineFilter>| {
            let mut filter = resolution.filter().clone();
            filter.clear();
            filter
        };
        let filters: Vec<_> = self.filter.resolutions().iter().map(lines).collect();
        let filter = MultiResolutionFilter::new(filters, self.filter.groups());
        Self::restored(self.key.clone(), seed, filter, self.leaders.capacity(), &[], 0)
    }

    /// All that is saved.
    pub(super) fn parts(&mut self) -> Parts<'_> {
        self.insert_waiting();
        Parts { key: &self.key, filter: &self.filter, leaders: &self.leaders, packets: self.packets }
    }

    /// Everything that was counted, to be asked.
    pub fn counted(&mut self) -> Counted<'_> {
        self.insert_waiting();
        Counted { counter: self, estimator: self.filter.estimator() }
    }
}

/// What of a counter is saved.
pub(super) struct Parts<'c> {
    pub(super) key: &'c FingerprintKey,
    pub(super) filter: &'c MultiResolutionFilter<OneLineFilter>,
    pub(super) leaders: &'c Leaders,
    pub(super) packets: u64,
}

/// A counter at rest.
#[derive(Debug)]
pub struct Counted<'c> {
    counter: &'c FlowCounter,
    estimator: Estimator<'c, OneLineFilter>,
}

impl Counted<'_> {
    /// The largest flows by estimate, of those whose names are known.
    #[must_use]
    pub fn top(&self, flows: usize) -> Vec<FlowEstimate> {
        let mut all: Vec<_> = self.counter.leaders.iter().map(|leader| self.flow(leader.identity)).collect();
        all.sort_by(|a, b| {
            let by_size = b.estimate.likely.total_cmp(&a.estimate.likely);
            by_size.then_with(|| b.exact.cmp(&a.exact)).then_with(|| a.identity.cmp(&b.identity))
        });
        all.truncate(flows);
        all
    }

    /// What is known of one flow.
    #[must_use]
    pub fn flow(&self, identity: &[u8]) -> FlowEstimate {
        let fingerprint = self.counter.key.fingerprint(identity);
        FlowEstimate {
            identity: identity.to_vec(),
            estimate: self.estimate(&fingerprint),
            exact: self.counter.exact.as_ref().and_then(|exact| exact.packets(&fingerprint)),
        }
    }

    /// An estimate for a flow that exists: it has a packet at least, and there are no more packets than all.
    fn estimate(&self, fingerprint: &Fingerprint) -> Estimate {
        let estimate = self.estimator.estimate(fingerprint);
        let within = |packets: f64| packets.clamp(1.0, self.counter.packets.max(1) as f64);
        Estimate {
            likely: within(estimate.likely),
            mean: within(estimate.mean),
            low: within(estimate.low),
            high: within(estimate.high),
            ..estimate
        }
    }

    /// How wrong the estimates are, by the size of flows, over all that were counted exactly. If [`Exact`] was full, these are
    /// the flows that came first, among which large ones are more frequent than among all.
    #[must_use]
    pub fn errors(&self) -> Vec<Band> {
        let flows = self.counter.exact.iter().flat_map(Exact::iter);
        bands(flows.map(|(_, fingerprint, truth)| {
            let estimate = self.estimate(&fingerprint);
            let is_covered = (estimate.low..=estimate.high).contains(&(truth as f64));
            Compared { truth, estimate: estimate.likely, is_covered }
        }))
    }

    /// All packets.
    #[must_use]
    pub const fn packets(&self) -> u64 {
        self.counter.packets
    }

    /// The exact counts, if they were wanted.
    #[must_use]
    pub const fn exact(&self) -> Option<&Exact> {
        self.counter.exact.as_ref()
    }

    /// How much memory is in use.
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory {
            filter: self.counter.filter.bits() / 8,
            leaders: self.counter.leaders.bytes() as u64,
            exact: self.counter.exact.as_ref().map_or(0, |exact| exact.bytes() as u64),
        }
    }

    /// The share of bits that are set in the filter that sees every packet. Above a half, more memory makes estimates better.
    #[must_use]
    pub fn fill(&self) -> f64 {
        self.counter.filter.resolutions().first().map_or(0.0, |resolution| resolution.filter().fill())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn packets_that_are_admitted_to_the_list_choose_any_group() {
        let settings = Settings { memory_bytes: 0, identity_bytes_max: 4, shape: Shape::default(), exact_flows: 0 };
        let mut counter = FlowCounter::new(&settings, [3; 16], 5);
        // More flows than there are names, of so many packets each that one of another is admitted in some forty.
        (0..100u32).flat_map(|flow| [flow; 40]).for_each(|flow| counter.count(&flow.to_le_bytes()));
        let mut groups = BTreeSet::new();
        for flow in 1000..5000u32 {
            counter.count(&flow.to_le_bytes());
            let is_admitted = counter.leaders.iter().any(|leader| leader.identity == flow.to_le_bytes());
            groups.extend(counter.waiting.last().filter(|_| is_admitted).map(|arrival| arrival.draw >> 59));
        }
        assert!(groups.len() > 16, "{groups:?}");
    }
}
