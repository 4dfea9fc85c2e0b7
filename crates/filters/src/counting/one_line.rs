//! The production layout of refined counts: 4-bit cells, with all cells of a key in one line.

use super::rows::{self, CELL_TOP};
use super::spill::Spill;
use crate::hash::reduce;
use crate::kernels::{Path, counts};
use crate::lines::{LINE_BYTES, LINES_MAX, Lines};
use crate::mismatch::ensure_equal;
use crate::{CreateError, Fingerprint, KeyId, Mismatch};

/// Cells in a line of counts.
pub const LINE_CELLS: u64 = 128;

/// Memory of a spilled record in bytes, at the usual load factor of a hash table.
const RECORD_BYTES: usize = 24;

/// Refined counts up to 2^32 − 1, in one cache line per key.
///
/// A key has six cells of 4 bits, in six of the eight words of its line. They are updated by the paper's H1 and H2
/// without a branch. A key whose count exceeds 15 gets its own record: in the line if an entry is free, otherwise in a
/// bounded spill table. Counts are never too low.
///
/// ```
/// use bruit_filters::counting::OneLineCounts;
/// use bruit_filters::FingerprintKey;
///
/// let key = FingerprintKey::new([1; 16]);
/// let mut counts = OneLineCounts::new(1000, key.id()).unwrap();
/// let bulk = key.fingerprint(b"buy now");
/// counts.insert(&bulk);
/// counts.insert_many(&bulk, 1_000_000);
/// assert_eq!(counts.count(&bulk), 1_000_001);
/// assert_eq!(counts.count(&key.fingerprint(b"a letter")), 0);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneLineCounts {
    lines: Lines,
    spill: Spill,
    key_id: KeyId,
}

impl OneLineCounts {
    /// Creates an empty filter of `lines` lines. Usually there is one line for every 16 keys, which is 32 bits per key.
    ///
    /// # Errors
    /// [`CreateError`] if `lines` is out of range or the memory cannot be allocated.
    pub fn new(lines: usize, key_id: KeyId) -> Result<Self, CreateError> {
        CreateError::check("the number of lines", lines as u64, 1..=LINES_MAX as u64)?;
        Ok(Self { lines: Lines::new(lines)?, spill: Spill::new(lines), key_id })
    }

    /// Counts one insertion of `key`.
    pub fn insert(&mut self, key: &Fingerprint) {
        self.insert_batch(std::slice::from_ref(key));
    }

    /// Counts one insertion of each of `keys`, in order.
    pub fn insert_batch(&mut self, keys: &[Fingerprint]) {
        let count = self.lines.len();
        let lines = self.lines.changing(|| keys.iter().map(|key| line_of(key, count)));
        counts::insert(Path::best(), lines, &mut self.spill, keys);
    }

    /// Counts `amount` insertions of `key`. The result is the same as that of `amount` calls of
    /// [`insert`](Self::insert).
    pub fn insert_many(&mut self, key: &Fingerprint, amount: u32) {
        let index = line_of(key, self.lines.len());
        let line = self.lines.changing_one(index);
        let minimum = rows::minimum(line, key.low());
        let level = (minimum + u64::from(amount)).min(CELL_TOP);
        rows::raise(line, key.low(), level);
        let rest = amount - (level - minimum) as u32;
        if rest > 0 {
            rows::heavy_add(line, index as u32, &mut self.spill, key.low(), rest);
        }
    }

    /// Returns an upper bound on the number of insertions of `key`.
    #[must_use]
    pub fn count(&self, key: &Fingerprint) -> u32 {
        let mut count = [0];
        self.count_batch(std::slice::from_ref(key), &mut count);
        count[0]
    }

    /// Sets `found[i]` to the count of `keys[i]`.
    ///
    /// # Panics
    /// Panics if the two slices differ in length.
    pub fn count_batch(&self, keys: &[Fingerprint], found: &mut [u32]) {
        counts::count(Path::best(), &self.lines, &self.spill, keys, found);
    }

    /// Adds all counts of `other`. Afterwards the count of each key is at least the sum of its counts in the two
    /// filters.
    ///
    /// If the count of a key exceeds 15 in only one filter, the other filter contributes the value of a single cell.
    /// Other keys may have raised this cell, too.
    ///
    /// # Errors
    /// [`Mismatch`] if the filters have different parameters; nothing is changed in that case.
    pub fn merge(&mut self, other: &Self) -> Result<(), Mismatch> {
        ensure_equal("the number of lines", &self.lines.len(), &other.lines.len())?;
        ensure_equal("the key id", &self.key_id, &other.key_id)?;
        let lines = self.lines.changing_all();
        counts::merge(Path::best(), lines, &mut self.spill, &other.lines, &other.spill);
        Ok(())
    }

    /// Returns the number of lines.
    pub(crate) fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// Returns the id of the key that made the fingerprints.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// Returns the memory of lines and spilled records in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.lines.len() * LINE_BYTES + self.spill.len() * RECORD_BYTES
    }

    /// Returns the number of records that did not fit in their line.
    #[must_use]
    pub fn spilled(&self) -> usize {
        self.spill.len()
    }

    pub(crate) const fn lines(&self) -> &Lines {
        &self.lines
    }

    pub(crate) const fn lines_mut(&mut self) -> &mut Lines {
        &mut self.lines
    }

    pub(crate) const fn spill(&self) -> &Spill {
        &self.spill
    }

    pub(crate) const fn spill_mut(&mut self) -> &mut Spill {
        &mut self.spill
    }
}

/// Returns the line of a key among `lines`.
#[inline(always)]
pub(crate) fn line_of(key: &Fingerprint, lines: usize) -> usize {
    reduce(key.high(), lines as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_keys;

    #[test]
    fn counts_are_exact_across_the_places_they_are_kept_in() {
        // The count moves from cells to an entry at 15, and from the entry to the spill table at 2^17.
        let key = test_keys(0, 1)[0];
        for boundary in [15, 1 << 17] {
            let mut counts = OneLineCounts::new(10, KeyId(0)).unwrap();
            counts.insert_many(&key, boundary - 3);
            for count in boundary - 2..boundary + 3 {
                counts.insert(&key);
                assert_eq!(counts.count(&key), count);
            }
            let mut doubled = counts.clone();
            doubled.merge(&counts).unwrap();
            assert_eq!(doubled.count(&key), 2 * (boundary + 2));
        }
    }

    #[test]
    fn counts_saturate_at_their_maximum() {
        let key = test_keys(0, 1)[0];
        let mut counts = OneLineCounts::new(10, KeyId(0)).unwrap();
        counts.insert_many(&key, u32::MAX);
        counts.insert_many(&key, 7);
        counts.insert(&key);
        let other = counts.clone();
        counts.merge(&other).unwrap();
        assert_eq!(counts.count(&key), u32::MAX);
    }

    #[test]
    fn a_full_spill_table_counts_too_high_not_too_low() {
        let keys = test_keys(0, 3000);
        let mut counts = OneLineCounts::new(1, KeyId(0)).unwrap();
        for key in &keys {
            counts.insert_many(key, 20);
            counts.insert(key);
        }
        assert!(counts.spilled() < keys.len(), "{} records", counts.spilled());
        assert!(keys.iter().all(|key| counts.count(key) >= 21));
        let other = counts.clone();
        counts.merge(&other).unwrap();
        assert!(keys.iter().all(|key| counts.count(key) >= 42));
    }
}
