//! The classical layout: k positions anywhere in m bits.

use super::{MembershipFilter, count_ones, or_words};
use crate::hash::HashFamily;
use crate::kernels::{Step, is_cached, look_ahead, prefetch_line};
use crate::lines::{LINE_BITS, Lines};
use crate::{Mismatch, OutOfMemory};

/// A Bloom filter as Bloom described it, with any hash family.
///
/// ```
/// use bruit_filters::bloom::{ClassicalFilter, MembershipFilter};
/// use bruit_filters::hash::FingerprintHash;
/// use bruit_filters::FingerprintKey;
///
/// let key = FingerprintKey::new([1; 16]);
/// let mut filter = ClassicalFilter::new(FingerprintHash::new(10_000, 7, 40, key.id()).unwrap()).unwrap();
/// filter.insert(&key.fingerprint(b"known spam"));
/// assert!(filter.contains(&key.fingerprint(b"known spam")));
/// assert!(!filter.contains(&key.fingerprint(b"a letter")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicalFilter<H> {
    hash: H,
    lines: Lines,
}

impl<H: HashFamily> ClassicalFilter<H> {
    /// Creates an empty filter of [`hash.cells()`](HashFamily::cells) bits.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn new(hash: H) -> Result<Self, OutOfMemory> {
        let lines = Lines::for_bits(hash.cells())?;
        Ok(Self { hash, lines })
    }

    /// Returns the hash functions.
    pub const fn hash(&self) -> &H {
        &self.hash
    }

    /// Prefetches the k lines of `key`.
    fn fetch(&self, key: &H::Key) {
        for position in self.hash.positions(key) {
            prefetch_line(&self.lines, (position / LINE_BITS) as usize);
        }
    }

    pub(crate) const fn lines(&self) -> &Lines {
        &self.lines
    }

    /// Returns the words of the filter, for updates by position. Not part of the public interface.
    #[doc(hidden)]
    pub fn words_mut(&mut self) -> &mut [u64] {
        self.lines.words_mut()
    }

    pub(crate) const fn lines_mut(&mut self) -> &mut Lines {
        &mut self.lines
    }
}

impl<H: HashFamily> MembershipFilter for ClassicalFilter<H> {
    type Key = H::Key;

    fn insert(&mut self, key: &H::Key) {
        let words = self.lines.words_mut();
        for position in self.hash.positions(key) {
            words[(position / 64) as usize] |= 1 << (position % 64);
        }
    }

    fn contains(&self, key: &H::Key) -> bool {
        let words = self.lines.words();
        self.hash.positions(key).all(|position| words[(position / 64) as usize] >> (position % 64) & 1 == 1)
    }

    fn insert_batch(&mut self, keys: &[H::Key]) {
        let (cached, hashes) = (is_cached(&self.lines), self.hash.hashes() as usize);
        look_ahead(keys, cached, hashes, |step, _, key| match step {
            Step::Fetch => self.fetch(key),
            Step::Work => self.insert(key),
        });
    }

    fn contains_batch(&self, keys: &[H::Key], found: &mut [bool]) {
        assert_eq!(keys.len(), found.len(), "the slices differ in length");
        let (cached, hashes) = (is_cached(&self.lines), self.hash.hashes() as usize);
        look_ahead(keys, cached, hashes, |step, i, key| match step {
            Step::Fetch => self.fetch(key),
            Step::Work => found[i] = self.contains(key),
        });
    }

    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch> {
        self.hash.ensure_same(&other.hash)
    }

    fn merge_all(&mut self, others: &[&Self]) -> Result<(), Mismatch> {
        others.iter().try_for_each(|other| self.ensure_same(other))?;
        let sources: Vec<_> = others.iter().map(|other| other.lines.words()).collect();
        or_words(self.lines.words_mut(), &sources);
        Ok(())
    }

    fn bits(&self) -> u64 {
        self.hash.cells()
    }

    fn ones(&self) -> u64 {
        count_ones(self.lines.words())
    }

    /// Returns m/k · ln(1 / share of zeros). If all bits are set, one bit is assumed to be zero.
    fn estimated_keys(&self) -> f64 {
        let bits = self.bits() as f64;
        let zeros = (bits - self.ones() as f64).max(1.0);
        bits / f64::from(self.hash.hashes()) * (bits / zeros).ln()
    }

    fn estimated_false_positive_rate(&self) -> f64 {
        self.fill().powf(f64::from(self.hash.hashes()))
    }
}
