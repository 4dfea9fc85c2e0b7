//! Bloom filters: sets of keys that need a few bits per key and have false positives but no false negatives.
//!
//! Two layouts implement one trait, [`MembershipFilter`]:
//!
//! - [`ClassicalFilter`]: any m, any k, any [`HashFamily`](crate::hash::HashFamily). It needs the fewest bits, but a
//!   key touches k cache lines.
//! - [`OneLineFilter`]: all positions of a key lie in one 64-byte line. It needs about 3 % more bits at a
//!   false-positive rate of 1 %, and about 8 % more at 0.1 %. It is several times faster once the filter is larger than
//!   the cache.

mod classical;
mod one_line;
pub(crate) mod pattern;

pub use classical::ClassicalFilter;
pub use one_line::OneLineFilter;
pub use pattern::ONE_LINE_HASHES_MAX;

use crate::Mismatch;
use crate::kernels::merge;

/// A set of keys with false positives: a check may find a key that was never added, but never misses an added key.
pub trait MembershipFilter: Sized {
    /// The type of the keys.
    type Key;

    /// Adds `key`.
    fn insert(&mut self, key: &Self::Key);

    /// Returns true if `key` may have been added; always true for an added key.
    fn contains(&self, key: &Self::Key) -> bool;

    /// Adds all `keys`. Faster than one call per key.
    fn insert_batch(&mut self, keys: &[Self::Key]) {
        keys.iter().for_each(|key| self.insert(key));
    }

    /// Sets `found[i]` to true if `keys[i]` may have been added, and to false otherwise.
    ///
    /// # Panics
    /// Panics if the two slices differ in length.
    fn contains_batch(&self, keys: &[Self::Key], found: &mut [bool]) {
        assert_eq!(keys.len(), found.len(), "the slices differ in length");
        for (key, found) in keys.iter().zip(found) {
            *found = self.contains(key);
        }
    }

    /// Adds all keys of `other` by ORing the bits.
    ///
    /// # Errors
    /// [`Mismatch`] if the filters have different parameters; nothing is changed in that case.
    fn merge(&mut self, other: &Self) -> Result<(), Mismatch> {
        self.merge_all(&[other])
    }

    /// Checks that [`merge`](Self::merge) would accept `other`.
    ///
    /// # Errors
    /// [`Mismatch`] with the first parameter that differs.
    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch>;

    /// Adds all keys of all `others` in one pass over memory.
    ///
    /// # Errors
    /// [`Mismatch`] if any filter has different parameters; nothing is changed in that case.
    fn merge_all(&mut self, others: &[&Self]) -> Result<(), Mismatch>;

    /// Returns m, the number of bits.
    fn bits(&self) -> u64;

    /// Returns the number of bits that are set.
    fn ones(&self) -> u64;

    /// Returns the fraction of bits that are set.
    fn fill(&self) -> f64 {
        self.ones() as f64 / self.bits() as f64
    }

    /// Returns the number of distinct keys, estimated from the bits that are set.
    fn estimated_keys(&self) -> f64;

    /// Returns the current false-positive rate: the probability that a check finds a key that was never added.
    fn estimated_false_positive_rate(&self) -> f64;
}

/// ORs all sources into `target` in one pass.
pub(crate) fn or_words(target: &mut [u64], sources: &[&[u64]]) {
    merge::add_sources(target, sources, merge::whole_words(1).expect("a bit is a cell that never straddles words"));
}

/// Returns the number of ones in `words`.
pub(crate) fn count_ones(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}
