//! Features of good mail: the second filter of Yan and Cho's paper, applied to texts.
//!
//! A feature is good if it occurred in two different good messages or in one revoked message. There are two generations
//! of filters. The current generation learns, and the features of the previous one are still good, so that features are
//! forgotten gradually.

use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
use bruit_filters::sizing::{Goal, Layout, MembershipPlan};
use bruit_filters::{Fingerprint, KeyId, OutOfMemory};

use crate::budget::{multiple, part};
use crate::engine::resize::{StructurePreview, preview_lines};
use crate::memory::failed_allocation;

/// Maximum number of features learnt from a good message.
pub const GOOD_FEATURES: u64 = 512;

/// False-positive rate of a full filter. A text has many features, so it does little harm if one feature is wrongly
/// considered good.
const GOOD_RATE: f64 = 0.01;

/// Maximum space used by a message in one filter: 10 bits for each of its features.
pub(crate) const BYTES_PER_MESSAGE: u64 = GOOD_FEATURES * 10 / 8;

/// Error for a good message that cannot be learnt, because the filters of good mail are full. If full filters learnt
/// more features, too many other features would seem good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoodIsFull;

/// Features known from good mail, which do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Good {
    /// Both generations. Their indexes are fixed, because a running snapshot refers to them by index.
    pub(crate) generations: [Generation; 2],
    /// Index of the generation that learns.
    pub(crate) current: usize,
    /// Maximum number of good messages that a generation can learn.
    pub(crate) capacity: u64,
}

/// The filters of one generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) good: OneLineFilter,
    /// Features that occurred in at least one good message, and a combined fingerprint of each message that was learnt.
    pub(crate) seen: OneLineFilter,
    /// Number of messages that can still be learnt.
    pub(crate) left: u64,
}

/// Returns the plan of a filter for `messages` messages.
fn plan(messages: u64) -> MembershipPlan {
    let features = messages.saturating_mul(GOOD_FEATURES).max(1);
    MembershipPlan::new(Layout::OneLine, features, Goal::Rate(GOOD_RATE)).expect("a rate that one line can achieve")
}

/// Returns the number of messages that fit in a filter of `bits` bits, in proportion to the filter planned for
/// `messages`.
fn capacity(messages: u64, bits: u64) -> u64 {
    part(messages, bits, plan(messages).cells)
}

/// Returns a combined fingerprint of `features`, independent of their order.
pub(crate) fn sum(features: &[Fingerprint]) -> Fingerprint {
    features.iter().fold(Fingerprint::default(), |sum, next| {
        Fingerprint::new(sum.high().wrapping_add(next.high()), sum.low().wrapping_add(next.low()))
    })
}

/// Returns true if these features use up the capacity for a whole message, false if they use none. For n features, the
/// result is true with probability n / [`GOOD_FEATURES`], so the capacity used is right on average. The result depends
/// only on the features, so all nodes agree.
fn takes_room(features: &[Fingerprint]) -> bool {
    sum(features).high() % GOOD_FEATURES < features.len() as u64
}

impl Generation {
    fn new(messages: u64, key_id: KeyId) -> Result<Self, OutOfMemory> {
        let filter = || OneLineFilter::from_plan(&plan(messages), key_id).map_err(failed_allocation);
        Ok(Self { good: filter()?, seen: filter()?, left: messages })
    }
}

impl Good {
    /// Allocates memory for `messages` good messages per generation.
    pub(crate) fn new(messages: u64, key_id: KeyId) -> Result<Self, OutOfMemory> {
        let generation = || Generation::new(messages, key_id);
        Ok(Self { generations: [generation()?, generation()?], current: 0, capacity: messages })
    }

    /// Grows the filters by a whole factor: the largest that keeps them within the size for `messages` messages.
    ///
    /// All learnt features are kept, and the remaining capacity grows by the same factor.
    pub(crate) fn resize(&mut self, messages: u64) {
        let factor = multiple(self.bits(), plan(messages).cells);
        let (before, after) = (self.capacity, capacity(messages, self.bits() * factor));
        for generation in &mut self.generations {
            generation.good.grow(factor as usize);
            generation.seen.grow(factor as usize);
            let learnt = (before - generation.left).saturating_mul(factor);
            generation.left = after.saturating_sub(learnt);
        }
        self.capacity = after;
    }

    /// Returns the changes that [`resize`](Self::resize) would make.
    pub(crate) fn preview_resize(&self, messages: u64) -> StructurePreview {
        let planned = plan(messages).cells;
        let then = capacity(messages, self.bits() * multiple(self.bits(), planned));
        let (bytes, planned) = (self.bytes(), planned / 8 * 4);
        preview_lines("good mail", "messages in a generation", bytes, planned, (self.capacity, then))
    }

    /// Returns true if these filters are no larger than filters for `messages` messages.
    pub(crate) fn fits(&self, messages: u64) -> bool {
        self.bits() <= plan(messages).cells
    }

    /// Recomputes the capacity after the filters were replaced by restored ones. Returns false if their sizes differ.
    pub(crate) fn recount(&mut self) -> bool {
        let bits = self.bits();
        self.capacity = capacity(self.capacity, bits);
        for generation in &mut self.generations {
            generation.left = generation.left.min(self.capacity);
        }
        self.filters().all(|filter| filter.bits() == bits)
    }

    /// Returns the size of each filter in bits.
    fn bits(&self) -> u64 {
        self.generations[0].good.bits()
    }

    fn filters(&self) -> impl Iterator<Item = &OneLineFilter> {
        self.generations.iter().flat_map(|generation| [&generation.good, &generation.seen])
    }

    /// Starts a generation. The filters of the older generation are cleared and reused.
    pub(crate) fn turn(&mut self) {
        self.current = 1 - self.current;
        let capacity = self.capacity;
        let current = self.current();
        current.good.clear();
        current.seen.clear();
        current.left = capacity;
    }

    /// Checks that one more good message can be learnt.
    pub(crate) const fn ensure_room(&self) -> Result<(), GoodIsFull> {
        if self.generations[self.current].left == 0 { Err(GoodIsFull) } else { Ok(()) }
    }

    /// Learns the features of a good message. They must be distinct and sorted.
    pub(crate) fn learn(&mut self, features: &[Fingerprint]) -> Result<(), GoodIsFull> {
        self.ensure_room()?;
        let message = sum(features);
        if self.has_seen(&message) {
            return Ok(());
        }
        self.current().seen.insert(&message);
        for feature in features {
            if self.has_seen(feature) {
                self.current().good.insert(feature);
            } else {
                self.current().seen.insert(feature);
            }
        }
        self.current().left -= 1;
        Ok(())
    }

    /// Marks all these features as good.
    pub(crate) fn learn_all(&mut self, features: &[Fingerprint]) -> Result<(), GoodIsFull> {
        self.ensure_room()?;
        self.current().good.insert_batch(features);
        self.current().left -= u64::from(takes_room(features));
        Ok(())
    }

    pub(crate) fn contains(&self, feature: &Fingerprint) -> bool {
        self.generations.iter().any(|generation| generation.good.contains(feature))
    }

    /// Returns true if a feature stays good for the rest of the current generation and the next.
    pub(crate) fn is_learnt(&self, feature: &Fingerprint) -> bool {
        self.generations[self.current].good.contains(feature)
    }

    /// Returns the number of messages that the current generation has learnt, and the maximum.
    pub(crate) const fn fill(&self) -> (u64, u64) {
        (self.capacity.saturating_sub(self.generations[self.current].left), self.capacity)
    }

    /// Removes good features from `features`.
    pub(crate) fn retain_others(&self, features: &mut Vec<Fingerprint>, is_good: &mut Vec<bool>) {
        for generation in &self.generations {
            is_good.clear();
            is_good.resize(features.len(), false);
            generation.good.contains_batch(features, is_good);
            let mut is_good = is_good.iter();
            features.retain(|_| !is_good.next().is_some_and(|&is_good| is_good));
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.filters().map(|filter| filter.bits() / 8).sum()
    }

    const fn current(&mut self) -> &mut Generation {
        &mut self.generations[self.current]
    }

    fn has_seen(&self, fingerprint: &Fingerprint) -> bool {
        self.generations.iter().any(|generation| generation.seen.contains(fingerprint))
    }
}

#[cfg(test)]
mod tests {
    use bruit_filters::FingerprintKey;

    use super::*;

    #[test]
    fn the_room_for_features_is_proportional_to_their_number() {
        let key = FingerprintKey::narrow([1; 16]);
        let features = |first: u64, count: u64| -> Vec<_> {
            (first..first + count).map(|feature| key.fingerprint(&feature.to_le_bytes())).collect()
        };
        for count in [1, 16, 128, 512] {
            let calls = 50_000 / count;
            let mut good = Good::new(1_000, key.id()).unwrap();
            (0..calls).for_each(|call| good.learn_all(&features(call * count, count)).unwrap());
            let (used, _) = good.fill();
            assert!(
                (80..=116).contains(&used),
                "50,000 features, {count} at a time, used the capacity of {used} messages"
            );
        }
    }

    #[test]
    fn features_stay_good_for_one_more_generation() {
        let key = FingerprintKey::new([1; 16]);
        let features = |n: u8| vec![key.fingerprint(b"shared"), key.fingerprint(&[n])];
        let shared = features(0)[0];
        let mut good = Good::new(10, key.id()).unwrap();
        good.learn(&features(1)).unwrap();
        good.turn();
        good.learn(&features(2)).unwrap();
        assert!(good.contains(&shared), "seen in one message of each generation");
        good.turn();
        assert!(good.contains(&shared));
        good.turn();
        assert!(!good.contains(&shared));
    }
}
