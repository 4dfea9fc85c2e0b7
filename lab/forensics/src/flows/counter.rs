//! Counts packets by flow and estimates the counts.

use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
use bruit_filters::{Fingerprint, FingerprintKey};
use bruit_structures::space_code::{Arrival, Estimate, Estimator, MultiResolutionFilter, Shape};

use super::Key;
use super::errors::{Band, Comparison, bands};
use super::exact::Exact;
use super::leaders::Leaders;
use super::saved::{self, MergeError, Name, SavedError};
use crate::random::Random;

/// Minimum memory.
pub const MEMORY_BYTES_MIN: u64 = 64 * 1024;

/// The names may use the total memory divided by this number.
const LEADERS_SHARE: u64 = 8;

/// Number of arrivals added to the filter at once.
const BATCH: usize = 256;

/// Settings of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Memory limit for the filter and the names together; at least [`MEMORY_BYTES_MIN`].
    pub memory_bytes: u64,
    /// Maximum length of an identity. It determines how many names fit.
    pub identity_bytes_max: usize,
    /// Groups, resolutions and hash functions of the filter.
    pub shape: Shape,
    /// Maximum number of flows that are also counted exactly; 0 disables exact counts.
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

/// Memory use in bytes, by purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Memory of the filter that estimates packets.
    pub filter: u64,
    /// Memory of the names of frequent flows.
    pub leaders: u64,
    /// Memory of the exact counts.
    pub exact: u64,
}

/// Counts of one flow.
#[derive(Clone, Debug)]
pub struct FlowEstimate {
    /// Identity of the flow.
    pub identity: Vec<u8>,
    /// Estimated number of packets.
    pub estimate: Estimate,
    /// Exact number of packets, if the flow was counted exactly.
    pub exact: Option<u64>,
}

impl FlowCounter {
    /// Creates an empty counter. `secret` is the key for hashing flows; `seed` determines the sampling. Both must be
    /// random. Otherwise, attackers could craft traffic that is miscounted.
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
        // Draw twice. With a single draw, all packets that are admitted to the list would choose the same group.
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

    /// Rebuilds a saved counter.
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

    /// Encodes the counter and the fields of its key, without the exact counts. [`SavedFlows`](super::SavedFlows)
    /// decodes the result.
    ///
    /// # Errors
    /// [`SavedError::Filter`] if the shape of a filter cannot be stored.
    pub fn encode(&mut self, key: Key) -> Result<Vec<u8>, SavedError> {
        saved::encode(key, self)
    }

    /// Adds the counts of another counter with the same key fields. Exact counts are unchanged.
    ///
    /// # Errors
    /// [`MergeError`] if the other counter has a different secret or differently shaped filters. In that case, nothing
    /// is changed.
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

    /// Returns an empty counter that can be merged with this one.
    #[must_use]
    pub fn empty_like(&self, seed: u64) -> Self {
        let lines = |resolution: &bruit_structures::space_code::SpaceCodeFilter<OneLineFilter>| {
            let mut filter = resolution.filter().clone();
            filter.clear();
            filter
        };
        let filters: Vec<_> = self.filter.resolutions().iter().map(lines).collect();
        let filter = MultiResolutionFilter::new(filters, self.filter.groups());
        Self::restored(self.key.clone(), seed, filter, self.leaders.capacity(), &[], 0)
    }

    /// Returns the parts of the counter to be saved.
    pub(super) fn parts(&mut self) -> Parts<'_> {
        self.insert_waiting();
        Parts { key: &self.key, filter: &self.filter, leaders: &self.leaders, packets: self.packets }
    }

    /// Flushes pending arrivals and returns a view for queries.
    pub fn counted(&mut self) -> CounterView<'_> {
        self.insert_waiting();
        CounterView { counter: self, estimator: self.filter.estimator() }
    }
}

/// The saved parts of a counter.
pub(super) struct Parts<'c> {
    pub(super) key: &'c FingerprintKey,
    pub(super) filter: &'c MultiResolutionFilter<OneLineFilter>,
    pub(super) leaders: &'c Leaders,
    pub(super) packets: u64,
}

/// A view of a counter without pending arrivals.
#[derive(Debug)]
pub struct CounterView<'c> {
    counter: &'c FlowCounter,
    estimator: Estimator<'c, OneLineFilter>,
}

impl CounterView<'_> {
    /// Returns the flows with the largest estimates. Only flows whose names are known can be returned.
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

    /// Returns the counts of one flow.
    #[must_use]
    pub fn flow(&self, identity: &[u8]) -> FlowEstimate {
        let fingerprint = self.counter.key.fingerprint(identity);
        FlowEstimate {
            identity: identity.to_vec(),
            estimate: self.estimate(&fingerprint),
            exact: self.counter.exact.as_ref().and_then(|exact| exact.packets(&fingerprint)),
        }
    }

    /// Returns an estimate for a flow that is known to exist. It is at least 1, and at most the number of all packets.
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

    /// Returns the errors of the estimates by flow size, over all flows that were counted exactly. If [`Exact`] was
    /// full, these are the flows that arrived first, and large flows are overrepresented.
    #[must_use]
    pub fn errors(&self) -> Vec<Band> {
        let flows = self.counter.exact.iter().flat_map(Exact::iter);
        bands(flows.map(|(_, fingerprint, truth)| {
            let estimate = self.estimate(&fingerprint);
            let is_covered = (estimate.low..=estimate.high).contains(&(truth as f64));
            Comparison { truth, estimate: estimate.likely, is_covered }
        }))
    }

    /// Returns the total number of packets.
    #[must_use]
    pub const fn packets(&self) -> u64 {
        self.counter.packets
    }

    /// Returns the exact counts, if enabled.
    #[must_use]
    pub const fn exact(&self) -> Option<&Exact> {
        self.counter.exact.as_ref()
    }

    /// Returns the memory in use.
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory {
            filter: self.counter.filter.bits() / 8,
            leaders: self.counter.leaders.bytes() as u64,
            exact: self.counter.exact.as_ref().map_or(0, |exact| exact.bytes() as u64),
        }
    }

    /// Returns the fraction of set bits in the filter that receives every packet. Above one half, more memory would
    /// improve the estimates.
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
        // There are more flows than the list of names has room for. Each has so many packets that the list admits about
        // one in forty packets of a new flow.
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
