//! What good mail says, feature by feature: the paper's second filter, for texts.
//!
//! A feature is good if two different good messages had it, or a revoked one did. Two generations of filters: the current
//! one learns, the one before still counts, so nothing is forgotten at once and everything in the end.

use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
use bruit_filters::sizing::{Goal, Layout, MembershipPlan};
use bruit_filters::{Fingerprint, KeyId, OutOfMemory};

use crate::budget::{multiple, part};
use crate::engine::resize::{ResizedStructure, preview_lines};

/// At most this many features of a good message are learnt.
pub const GOOD_FEATURES: u64 = 512;

/// The false positive rate of a filter when it is full: a feature wrongly taken for good is one of many.
const GOOD_RATE: f64 = 0.01;

/// What a message takes in one filter at most: 10 bits for each of its features.
pub(crate) const BYTES_PER_MESSAGE: u64 = GOOD_FEATURES * 10 / 8;

/// The filters of good mail are full: more would make them say of every feature that it is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GoodIsFull;

/// Features that do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Good {
    /// Two, which stay where they are: a running snapshot names them by their place.
    pub(crate) generations: [Generation; 2],
    /// Which of them learns.
    pub(crate) current: usize,
    /// Good messages that a generation can learn.
    pub(crate) capacity: u64,
}

/// The filters of one generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) good: OneLineFilter,
    /// Features that were seen once, and which messages those were.
    pub(crate) seen: OneLineFilter,
    /// How many more messages can be learnt.
    pub(crate) left: u64,
}

/// A filter for `messages` messages.
fn plan(messages: u64) -> MembershipPlan {
    let features = messages.saturating_mul(GOOD_FEATURES).max(1);
    MembershipPlan::new(Layout::OneLine, features, Goal::Rate(GOOD_RATE)).expect("a rate one line can have")
}

/// The number of messages that a filter of `bits` bits has room for, in proportion to the planned filter for `messages`.
fn capacity(messages: u64, bits: u64) -> u64 {
    part(messages, bits, plan(messages).cells)
}

/// A fingerprint of all of these, in whatever order.
pub(crate) fn sum(features: &[Fingerprint]) -> Fingerprint {
    features.iter().fold(Fingerprint::default(), |sum, next| {
        Fingerprint::new(sum.high().wrapping_add(next.high()), sum.low().wrapping_add(next.low()))
    })
}

/// Whether these features take the room of a message: those of n out of [`GOOD_FEATURES`] in n cases out of as many. Which
/// cases these are depends on nothing but the features, so all nodes agree.
fn takes_room(features: &[Fingerprint]) -> bool {
    sum(features).high() % GOOD_FEATURES < features.len() as u64
}

impl Generation {
    fn new(messages: u64, key_id: KeyId) -> Result<Self, OutOfMemory> {
        let filter = || OneLineFilter::try_from_plan(&plan(messages), key_id);
        Ok(Self { good: filter()?, seen: filter()?, left: messages })
    }
}

impl Good {
    /// Room for `messages` good messages per generation.
    pub(crate) fn new(messages: u64, key_id: KeyId) -> Result<Self, OutOfMemory> {
        let generation = || Generation::new(messages, key_id);
        Ok(Self { generations: [generation()?, generation()?], current: 0, capacity: messages })
    }

    /// Grows the filters by the largest whole factor that a filter for `messages` messages allows.
    ///
    /// Everything learnt stays, and the room for more grows by the same factor.
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

    /// The changes that [`resize`](Self::resize) would make.
    pub(crate) fn preview_resize(&self, messages: u64) -> ResizedStructure {
        let planned = plan(messages).cells;
        let then = capacity(messages, self.bits() * multiple(self.bits(), planned));
        let (bytes, planned) = (self.bytes(), planned / 8 * 4);
        preview_lines("good mail", "messages in a generation", bytes, planned, (self.capacity, then))
    }

    /// Returns true if filters for `messages` messages are at least as large as these.
    pub(crate) fn fits(&self, messages: u64) -> bool {
        self.bits() <= plan(messages).cells
    }

    /// Adopts the sizes of the filters that replaced those made by [`new`](Self::new); false if they are not alike.
    pub(crate) fn recount(&mut self) -> bool {
        let bits = self.bits();
        self.capacity = capacity(self.capacity, bits);
        for generation in &mut self.generations {
            generation.left = generation.left.min(self.capacity);
        }
        self.filters().all(|filter| filter.bits() == bits)
    }

    /// The bits of each filter.
    fn bits(&self) -> u64 {
        self.generations[0].good.bits()
    }

    fn filters(&self) -> impl Iterator<Item = &OneLineFilter> {
        self.generations.iter().flat_map(|generation| [&generation.good, &generation.seen])
    }

    /// Begins a generation; the one before the last is forgotten.
    pub(crate) fn turn(&mut self) {
        self.current = 1 - self.current;
        let capacity = self.capacity;
        let current = self.current();
        current.good.clear();
        current.seen.clear();
        current.left = capacity;
    }

    /// Whether a good message can still be learnt.
    pub(crate) const fn ensure_room(&self) -> Result<(), GoodIsFull> {
        if self.generations[self.current].left == 0 { Err(GoodIsFull) } else { Ok(()) }
    }

    /// Learns the features of a good message, distinct and in order.
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

    /// Makes all of these features good.
    pub(crate) fn learn_all(&mut self, features: &[Fingerprint]) -> Result<(), GoodIsFull> {
        self.ensure_room()?;
        self.current().good.insert_batch(features);
        self.current().left -= u64::from(takes_room(features));
        Ok(())
    }

    pub(crate) fn contains(&self, feature: &Fingerprint) -> bool {
        self.generations.iter().any(|generation| generation.good.contains(feature))
    }

    /// Whether a feature is good for the whole of the current generation and the next.
    pub(crate) fn is_learnt(&self, feature: &Fingerprint) -> bool {
        self.generations[self.current].good.contains(feature)
    }

    /// How many messages the current generation has learnt, and how many it has room for.
    pub(crate) const fn fill(&self) -> (u64, u64) {
        (self.capacity.saturating_sub(self.generations[self.current].left), self.capacity)
    }

    /// Keeps the features that are not good.
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
    fn few_features_take_room_as_seldom_as_they_are_few() {
        let key = FingerprintKey::narrow([1; 16]);
        let features = |first: u64, count: u64| -> Vec<_> {
            (first..first + count).map(|feature| key.fingerprint(&feature.to_le_bytes())).collect()
        };
        for count in [1, 16, 128, 512] {
            let calls = 50_000 / count;
            let mut good = Good::new(1_000, key.id()).unwrap();
            (0..calls).for_each(|call| good.learn_all(&features(call * count, count)).unwrap());
            let (used, _) = good.fill();
            assert!((80..=116).contains(&used), "50,000 features, {count} at a time, took the room of {used} messages");
        }
    }

    #[test]
    fn what_is_good_stays_so_for_a_generation_and_is_then_forgotten() {
        let key = FingerprintKey::new([1; 16]);
        let features = |n: u8| vec![key.fingerprint(b"shared"), key.fingerprint(&[n])];
        let shared = features(0)[0];
        let mut good = Good::new(10, key.id()).unwrap();
        good.learn(&features(1)).unwrap();
        good.turn();
        good.learn(&features(2)).unwrap();
        assert!(good.contains(&shared), "one message of each generation");
        good.turn();
        assert!(good.contains(&shared));
        good.turn();
        assert!(!good.contains(&shared));
    }
}
