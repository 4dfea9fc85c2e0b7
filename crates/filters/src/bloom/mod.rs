//! Bloom filters: a set of keys in few bits each, with false positives and no false negatives.
//!
//! Two layouts stand behind one trait, [`MembershipFilter`]:
//!
//! - [`ClassicalFilter`]: any m, any k, any [`HashFamily`](crate::hash::HashFamily). The fewest bits a Bloom filter can
//!   have; a key touches k cache lines.
//! - [`OneLineFilter`]: a key's positions lie in one 64-byte line. About 3 % more bits at a rate of 1 %, 8 % at 0.1 %,
//!   and several times faster once the filter is larger than the cache.
//!
//! [`SpamPair`] puts two of them together so that what was listed can be taken back.

mod classical;
mod one_line;
mod pair;
pub(crate) mod pattern;

pub use classical::ClassicalFilter;
pub use one_line::OneLineFilter;
pub use pair::{LookupOrder, SpamPair};
pub use pattern::ONE_LINE_HASHES_MAX;

use crate::Mismatch;
use crate::kernels::merge;

/// A set of keys that answers "perhaps" or "no".
pub trait MembershipFilter: Sized {
    /// What is stored.
    type Key;

    /// Adds `key`.
    fn insert(&mut self, key: &Self::Key);

    /// Whether `key` may have been added: always true if it was.
    fn contains(&self, key: &Self::Key) -> bool;

    /// Adds all `keys`. Many at once is faster than one by one.
    fn insert_batch(&mut self, keys: &[Self::Key]) {
        keys.iter().for_each(|key| self.insert(key));
    }

    /// Writes to `found[i]` whether `keys[i]` may have been added.
    ///
    /// # Panics
    /// If the two slices differ in length.
    fn contains_batch(&self, keys: &[Self::Key], found: &mut [bool]) {
        assert_eq!(keys.len(), found.len(), "one answer per key");
        for (key, found) in keys.iter().zip(found) {
            *found = self.contains(key);
        }
    }

    /// Adds all keys of `other`, by OR.
    ///
    /// # Errors
    /// [`Mismatch`] if the filters were made with different parameters; nothing is changed then.
    fn merge(&mut self, other: &Self) -> Result<(), Mismatch> {
        self.merge_all(&[other])
    }

    /// Whether [`merge`](Self::merge) would accept `other`.
    ///
    /// # Errors
    /// [`Mismatch`] naming the first parameter that differs.
    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch>;

    /// Adds all keys of all `others` in one pass over memory.
    ///
    /// # Errors
    /// [`Mismatch`] if any was made with different parameters; nothing is changed then.
    fn merge_all(&mut self, others: &[&Self]) -> Result<(), Mismatch>;

    /// m, the number of bits.
    fn bits(&self) -> u64;

    /// The number of bits that are set.
    fn ones(&self) -> u64;

    /// The share of bits that are set.
    fn fill(&self) -> f64 {
        self.ones() as f64 / self.bits() as f64
    }

    /// How many distinct keys the bits suggest.
    fn estimated_keys(&self) -> f64;

    /// The probability that a key never added is found now.
    fn estimated_false_positive_rate(&self) -> f64;
}

/// ORs every source into `target`, in one pass.
pub(crate) fn or_words(target: &mut [u64], sources: &[&[u64]]) {
    merge::add_sources(target, sources, merge::whole_words(1).expect("a bit is a cell that never straddles words"));
}

/// The number of ones in `words`.
pub(crate) fn count_ones(words: &[u64]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}
