//! The production layout: all positions of a key in one 64-byte line.

use std::io::{self, Read};

use super::pattern::{HALF_BITS, ONE_LINE_HASHES_MAX, line_of, split};
use super::{MembershipFilter, count_ones, or_words};
use crate::hash::{FINGERPRINT_BITS_MAX, FINGERPRINT_BITS_MIN};
use crate::kernels::Path;
use crate::kernels::membership::{self, Shape, SingleCheck};
use crate::lines::{LINE_BITS, LINE_WORDS, LINES_MAX, Line, Lines};
use crate::mismatch::ensure_equal;
use crate::sizing::{MembershipPlan, half_line_rate};
use crate::snapshot::head::{Kind, lines_within, put_head, read_head, within, within_u32};
use crate::snapshot::{RestoreError, Snapshot, continue_all};
use crate::{CreateError, Fingerprint, KeyId, Mismatch};

/// A Bloom filter whose checks and inserts touch one cache line. Uses AVX2 if the processor supports it.
///
/// ```
/// use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
/// use bruit_filters::sizing::{Goal, Layout, MembershipPlan};
/// use bruit_filters::FingerprintKey;
///
/// let key = FingerprintKey::new([1; 16]);
/// let plan = MembershipPlan::new(Layout::OneLine, 1000, Goal::Rate(0.01))?;
/// let mut filter = OneLineFilter::from_plan(&plan, key.id()).unwrap();
/// let keys: Vec<_> = (0..1000u32).map(|i| key.fingerprint(&i.to_le_bytes())).collect();
/// filter.insert_batch(&keys);
///
/// let mut found = vec![false; keys.len()];
/// filter.contains_batch(&keys, &mut found);
/// assert!(found.iter().all(|&found| found));
/// assert!(filter.estimated_false_positive_rate() < 0.02);
/// # Ok::<(), bruit_filters::sizing::SizingError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneLineFilter {
    lines: Lines,
    shape: Shape,
    fingerprint_bits: u32,
    key_id: KeyId,
    /// The kernels for this processor. They are chosen once, because detecting the processor's features would make
    /// every check a fifth slower.
    path: Path,
    single_check: SingleCheck,
}

impl OneLineFilter {
    /// Creates an empty filter of `lines` lines with k = `hashes`; see [`crate::sizing`] for how to choose them.
    ///
    /// # Errors
    /// [`CreateError`] if a parameter is out of range or the memory cannot be allocated.
    pub fn new(lines: usize, hashes: u32, fingerprint_bits: u32, key_id: KeyId) -> Result<Self, CreateError> {
        let bits = FINGERPRINT_BITS_MIN.into()..=FINGERPRINT_BITS_MAX.into();
        CreateError::check("the number of lines", lines as u64, 1..=LINES_MAX as u64)?;
        CreateError::check("the number of hash functions k", hashes.into(), 1..=ONE_LINE_HASHES_MAX.into())?;
        CreateError::check("the number of fingerprint bits", fingerprint_bits.into(), bits)?;
        let shape = Shape::new(hashes, fingerprint_bits);
        let path = Path::best();
        let single_check = SingleCheck::new(path, hashes);
        Ok(Self { lines: Lines::new(lines)?, shape, fingerprint_bits, key_id, path, single_check })
    }

    /// Creates an empty filter of the planned size.
    ///
    /// # Errors
    /// [`CreateError`] if the plan is for the classical layout or for 2^32 lines or more, or if the memory cannot be
    /// allocated.
    pub fn from_plan(plan: &MembershipPlan, key_id: KeyId) -> Result<Self, CreateError> {
        let lines = plan.lines().ok_or(CreateError::ClassicalPlan)?;
        CreateError::check("the number of lines", lines, 1..=LINES_MAX as u64)?;
        Self::new(lines as usize, plan.hashes, plan.fingerprint_bits, key_id)
    }

    /// Returns k, the number of positions per key.
    #[must_use]
    pub const fn hashes(&self) -> u32 {
        self.shape.k
    }

    /// Returns the number of leading fingerprint bits that determine the positions of a key.
    #[must_use]
    pub const fn fingerprint_bits(&self) -> u32 {
        self.fingerprint_bits
    }

    /// Returns a filter with the same keys in half as many lines, or `None` if the number of lines is odd or the memory
    /// cannot be allocated.
    ///
    /// Each pair of neighbouring lines is merged by OR. The result equals a filter of that size into which the same
    /// keys were inserted, because the index of a key's line is proportional to the number of lines.
    #[must_use]
    pub fn folded(&self) -> Option<Self> {
        let (pairs, rest) = self.lines.as_chunks::<2>();
        if !rest.is_empty() || pairs.is_empty() {
            return None;
        }
        let mut folded = Self::new(pairs.len(), self.hashes(), self.fingerprint_bits, self.key_id).ok()?;
        for (line, [Line(first), Line(second)]) in folded.lines.changing_all().iter_mut().zip(pairs) {
            line.0 = std::array::from_fn(|word| first[word] | second[word]);
        }
        Some(folded)
    }

    /// Multiplies the number of lines by `factor`; each line is repeated that many times. No answer changes, and the
    /// fill and the false-positive rate stay the same. Cancels a running snapshot.
    ///
    /// # Panics
    /// Panics if `factor` is 0, if the number of lines would not fit in 32 bits, or if the memory cannot be allocated.
    pub fn grow(&mut self, factor: usize) {
        let lines = self.lines.len().saturating_mul(factor);
        assert!((1..=LINES_MAX).contains(&lines), "a filter has 1 to 2^32 - 1 lines, not {lines}");
        self.lines = self.lines.repeated(factor);
    }

    /// Removes all keys.
    pub fn clear(&mut self) {
        self.lines.changing_all().fill(Line::default());
    }

    /// Returns the id of the key that made the fingerprints.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    pub(crate) const fn lines(&self) -> &Lines {
        &self.lines
    }

    pub(crate) const fn lines_mut(&mut self) -> &mut Lines {
        &mut self.lines
    }
}

impl MembershipFilter for OneLineFilter {
    type Key = Fingerprint;

    fn insert(&mut self, key: &Fingerprint) {
        self.insert_batch(std::slice::from_ref(key));
    }

    #[inline]
    fn contains(&self, key: &Fingerprint) -> bool {
        self.single_check.contains(self.shape, &self.lines, key)
    }

    fn insert_batch(&mut self, keys: &[Fingerprint]) {
        let (path, shape, count) = (self.path, self.shape, self.lines.len());
        let lines = self.lines.changing(|| keys.iter().map(|key| line_of(shape.lead(key), count)));
        membership::insert(path, shape, lines, keys);
    }

    fn contains_batch(&self, keys: &[Fingerprint], found: &mut [bool]) {
        membership::contains(self.path, self.shape, &self.lines, keys, found);
    }

    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch> {
        ensure_equal("the number of lines", &self.lines.len(), &other.lines.len())?;
        ensure_equal("the number of hash functions k", &self.hashes(), &other.hashes())?;
        ensure_equal("the number of fingerprint bits", &self.fingerprint_bits, &other.fingerprint_bits)?;
        ensure_equal("the key id", &self.key_id, &other.key_id)
    }

    fn merge_all(&mut self, others: &[&Self]) -> Result<(), Mismatch> {
        others.iter().try_for_each(|other| self.ensure_same(other))?;
        let sources: Vec<_> = others.iter().map(|other| other.lines.words()).collect();
        or_words(self.lines.words_mut(), &sources);
        Ok(())
    }

    fn bits(&self) -> u64 {
        self.lines.len() as u64 * LINE_BITS
    }

    fn ones(&self) -> u64 {
        count_ones(self.lines.words())
    }

    /// Returns the sum of the estimates for each line.
    fn estimated_keys(&self) -> f64 {
        let (low, high) = split(self.hashes());
        let (low, high) = (keys_by_ones(low), keys_by_ones(high));
        let halves = if self.hashes() == 1 { 1.0 } else { 2.0 };
        self.ones_of_halves().map(|ones| low[ones.0] + high[ones.1]).sum::<f64>() / halves
    }

    /// Returns the exact rate for the current bits, averaged over all lines.
    fn estimated_false_positive_rate(&self) -> f64 {
        let (low, high) = split(self.hashes());
        let (low, high) = (rate_by_ones(low), rate_by_ones(high));
        self.ones_of_halves().map(|ones| low[ones.0] * high[ones.1]).sum::<f64>() / self.lines.len() as f64
    }
}

impl Snapshot for OneLineFilter {
    fn begin_snapshot(&mut self, head: &mut Vec<u8>) {
        let fields = [self.lines.len() as u64, self.key_id.0, self.hashes().into(), self.fingerprint_bits.into()];
        put_head(head, Kind::OneLineFilter, &fields);
        self.lines.begin_snapshot();
    }

    fn continue_snapshot(&mut self, lines: usize, out: &mut Vec<u8>) -> bool {
        continue_all(&mut [&mut self.lines], lines, out)
    }

    fn cancel_snapshot(&mut self) {
        self.lines.cancel_snapshot();
    }

    fn logged_lines(&self) -> usize {
        self.lines.logged()
    }

    fn restore(input: &mut dyn Read, limit_bytes: u64) -> Result<Self, RestoreError> {
        let [lines, key_id, hashes, fingerprint_bits] = read_head(input, Kind::OneLineFilter)?;
        let lines = lines_within(within("the number of lines", lines, 1..=LINES_MAX as u64)?, 0, limit_bytes)?;
        let hashes = within_u32("the number of hash functions", hashes, 1..=ONE_LINE_HASHES_MAX)?;
        let bits = FINGERPRINT_BITS_MIN..=FINGERPRINT_BITS_MAX;
        let fingerprint_bits = within_u32("the number of fingerprint bits", fingerprint_bits, bits)?;
        let mut filter = Self::new(lines, hashes, fingerprint_bits, KeyId(key_id)).map_err(io::Error::from)?;
        filter.lines.read(input)?;
        Ok(filter)
    }
}

impl OneLineFilter {
    /// Returns the number of ones in each half of each line.
    fn ones_of_halves(&self) -> impl Iterator<Item = (usize, usize)> {
        let ones = |words: &[u64]| count_ones(words) as usize;
        self.lines.iter().map(move |Line(words)| (ones(&words[..LINE_WORDS / 2]), ones(&words[LINE_WORDS / 2..])))
    }
}

const HALF: usize = HALF_BITS as usize;

/// Returns a table. Entry n is the probability that `count` distinct positions are all set in a half with n ones.
fn rate_by_ones(count: usize) -> [f64; HALF + 1] {
    std::array::from_fn(|ones| half_line_rate(ones as u32, count as u32))
}

/// Returns a table. Entry n is the number of keys that set n bits of a half on average, if each key has `count`
/// positions in it.
fn keys_by_ones(count: usize) -> [f64; HALF + 1] {
    if count == 0 {
        return [0.0; HALF + 1];
    }
    let log_kept = (-(count as f64) / HALF as f64).ln_1p();
    std::array::from_fn(|ones| {
        // A full half would give infinity, so half a bit of it is assumed to be zero.
        let zeros = (HALF as f64 - ones as f64).max(0.5);
        (zeros / HALF as f64).ln() / log_kept
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_keys;

    #[test]
    fn filters_with_different_parameters_report_the_difference() {
        let mut filter = OneLineFilter::new(10, 6, 40, KeyId(1)).unwrap();
        for (other, what) in [
            (OneLineFilter::new(11, 6, 40, KeyId(1)).unwrap(), "the number of lines is 11, expected 10"),
            (OneLineFilter::new(10, 7, 40, KeyId(1)).unwrap(), "the number of hash functions k is 7, expected 6"),
            (OneLineFilter::new(10, 6, 41, KeyId(1)).unwrap(), "the number of fingerprint bits is 41, expected 40"),
            (
                OneLineFilter::new(10, 6, 40, KeyId(2)).unwrap(),
                "the key id is 0000000000000002, expected 0000000000000001",
            ),
        ] {
            let error = filter.merge(&other).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn invalid_parameters_are_errors() {
        let refused = |lines, hashes, bits| OneLineFilter::new(lines, hashes, bits, KeyId(1)).unwrap_err().to_string();
        assert_eq!(refused(0, 6, 40), "the number of lines must be 1 to 4294967295, not 0");
        assert_eq!(refused(1, 17, 40), "the number of hash functions k must be 1 to 16, not 17");
        assert_eq!(refused(1, 6, 31), "the number of fingerprint bits must be 32 to 64, not 31");
    }

    #[test]
    fn a_folded_filter_is_the_one_that_smaller_memory_would_have_made() {
        let keys = test_keys(0, 5_000);
        let filled = |lines| {
            let mut filter = OneLineFilter::new(lines, 6, 50, KeyId(1)).unwrap();
            filter.insert_batch(&keys);
            filter
        };
        assert_eq!(filled(300).folded(), Some(filled(150)));
        assert_eq!(filled(75).folded(), None, "75 lines cannot be halved");
    }

    #[test]
    fn estimates_follow_what_was_inserted() {
        for hashes in [1, 2, 3, 6, 9, 16] {
            let mut filter = OneLineFilter::new(2000, hashes, 64, KeyId(0)).unwrap();
            filter.insert_batch(&test_keys(0, 50_000));
            let keys = filter.estimated_keys();
            assert!((keys / 50_000.0 - 1.0).abs() < 0.02, "k = {hashes}: {keys} keys");
        }
    }
}
