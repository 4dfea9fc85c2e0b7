//! The simplest filter: one type that owns its key, hashes byte strings itself, and needs no plan.

use std::fmt;
use std::io::{self, Read, Write};
use std::ops::RangeInclusive;

use crate::bloom::{MembershipFilter, OneLineFilter};
use crate::counting::ShapeError;
use crate::file::{self, FileError, Label};
use crate::lines::LINES_MAX;
use crate::sizing::{Goal, Layout, MembershipPlan, SizingError};
use crate::{Fingerprint, FingerprintKey, KeyId, Mismatch, OutOfMemory};

/// Number of items that are fingerprinted at a time. Their fingerprints fit on the stack.
const BATCH: usize = 256;

/// A set of byte strings with false positives: a check may find an item that was never added, but never misses an added
/// item.
///
/// Wraps a [`OneLineFilter`] and the [`FingerprintKey`] of its fingerprints, so that a fingerprint made under another
/// key causes an error instead of a wrong answer.
///
/// ```
/// let mut filter = bruit_filters::Filter::with_rate(100_000, 0.001)?;
/// filter.insert("cheap pills");
/// assert!(filter.contains("cheap pills"));
/// # Ok::<(), bruit_filters::CreateError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Filter {
    key: FingerprintKey,
    filter: OneLineFilter,
}

impl Filter {
    /// Creates an empty filter for `capacity` items with a false-positive rate of at most `rate`, under
    /// [`FingerprintKey::PUBLIC`].
    ///
    /// Anyone can compute items that collide in this filter. If others choose the items, use [`keyed`](Self::keyed).
    ///
    /// # Errors
    /// [`CreateError`] if `capacity` is 0, the rate is outside (0, 1), or the memory cannot be allocated.
    pub fn with_rate(capacity: u64, rate: f64) -> Result<Self, CreateError> {
        Self::keyed(FingerprintKey::PUBLIC, capacity, rate)
    }

    /// Creates an empty filter for `capacity` items with a false-positive rate of at most `rate`, under a secret key.
    ///
    /// Filters merge only if they have the same key, capacity and rate.
    ///
    /// ```
    /// use bruit_filters::{Filter, FingerprintKey};
    ///
    /// let secret = [7; 16]; // use 16 random bytes in production
    /// let mut filter = Filter::keyed(FingerprintKey::new(secret), 100_000, 0.001)?;
    /// filter.insert("cheap pills");
    /// assert!(filter.contains("cheap pills"));
    /// # Ok::<(), bruit_filters::CreateError>(())
    /// ```
    ///
    /// # Errors
    /// The same as for [`with_rate`](Self::with_rate).
    pub fn keyed(key: FingerprintKey, capacity: u64, rate: f64) -> Result<Self, CreateError> {
        let plan = MembershipPlan::new(Layout::OneLine, capacity, Goal::Rate(rate))?;
        if plan.lines().is_some_and(|lines| lines > LINES_MAX as u64) {
            return Err(OutOfMemory { bytes: plan.bytes }.into());
        }
        let filter = OneLineFilter::from_plan(&plan, key.id())?;
        Ok(Self { key, filter })
    }

    /// Combines a filter with the key of its fingerprints.
    ///
    /// # Errors
    /// [`WrongKey`] if the filter was filled under another key.
    pub fn from_parts(key: FingerprintKey, filter: OneLineFilter) -> Result<Self, WrongKey> {
        ensure_key(key.id(), filter.key_id())?;
        Ok(Self { key, filter })
    }

    /// Returns the key and the underlying filter.
    #[must_use]
    pub fn into_parts(self) -> (FingerprintKey, OneLineFilter) {
        (self.key, self.filter)
    }

    /// Adds an item.
    pub fn insert(&mut self, item: impl AsRef<[u8]>) {
        self.filter.insert(&self.key.fingerprint(item.as_ref()));
    }

    /// Returns true if `item` may have been added; always true for an added item.
    #[must_use]
    #[inline]
    pub fn contains(&self, item: impl AsRef<[u8]>) -> bool {
        self.filter.contains(&self.key.fingerprint(item.as_ref()))
    }

    /// Adds all `items`. This is faster than one call per item if the filter is larger than the cache.
    pub fn insert_batch(&mut self, items: &[impl AsRef<[u8]>]) {
        for items in items.chunks(BATCH) {
            let fingerprints = self.fingerprints(items);
            self.filter.insert_batch(&fingerprints[..items.len()]);
        }
    }

    /// Returns the answer of [`contains`](Self::contains) for each item. This is faster than one call per item if the
    /// filter is larger than the cache.
    #[must_use]
    pub fn contains_batch(&self, items: &[impl AsRef<[u8]>]) -> Vec<bool> {
        let mut found = vec![false; items.len()];
        for (items, found) in items.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
            self.filter.contains_batch(&self.fingerprints(items)[..items.len()], found);
        }
        found
    }

    /// Adds an item by its fingerprint, which was made under the key with id `key_id`.
    ///
    /// # Errors
    /// [`WrongKey`] if the filter has another key; nothing is changed in that case.
    pub fn insert_fingerprint(&mut self, key_id: KeyId, fingerprint: &Fingerprint) -> Result<(), WrongKey> {
        ensure_key(self.filter.key_id(), key_id)?;
        self.filter.insert(fingerprint);
        Ok(())
    }

    /// Returns true if the item with this fingerprint, made under the key with id `key_id`, may have been added.
    ///
    /// ```
    /// use bruit_filters::{Filter, FingerprintKey};
    ///
    /// let key = FingerprintKey::new([7; 16]);
    /// let mut filter = Filter::keyed(key.clone(), 1000, 0.01)?;
    /// filter.insert("cheap pills");
    /// assert_eq!(filter.contains_fingerprint(key.id(), &key.fingerprint(b"cheap pills")), Ok(true));
    ///
    /// let other = FingerprintKey::new([8; 16]);
    /// assert!(filter.contains_fingerprint(other.id(), &other.fingerprint(b"cheap pills")).is_err());
    /// # Ok::<(), bruit_filters::CreateError>(())
    /// ```
    ///
    /// # Errors
    /// [`WrongKey`] if the filter has another key.
    pub fn contains_fingerprint(&self, key_id: KeyId, fingerprint: &Fingerprint) -> Result<bool, WrongKey> {
        ensure_key(self.filter.key_id(), key_id)?;
        Ok(self.filter.contains(fingerprint))
    }

    /// Adds all items of `other`.
    ///
    /// # Errors
    /// [`Mismatch`] if the filters have different keys or sizes; nothing is changed in that case.
    pub fn merge(&mut self, other: &Self) -> Result<(), Mismatch> {
        self.filter.merge(&other.filter)
    }

    /// Removes all items.
    pub fn clear(&mut self) {
        self.filter.clear();
    }

    /// Returns the key of the fingerprints.
    #[must_use]
    pub const fn key(&self) -> &FingerprintKey {
        &self.key
    }

    /// Returns the memory of the filter in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.filter.bits() / 8
    }

    /// Returns the number of distinct items, estimated from the contents.
    #[must_use]
    pub fn estimated_items(&self) -> f64 {
        self.filter.estimated_keys()
    }

    /// Returns the current false-positive rate: the probability that a check finds an item that was never added.
    #[must_use]
    pub fn estimated_false_positive_rate(&self) -> f64 {
        self.filter.estimated_false_positive_rate()
    }

    /// Writes a filter file (see [`file`](mod@crate::file)) with the id of the key, but without the key.
    ///
    /// ```
    /// use bruit_filters::{Filter, FingerprintKey};
    ///
    /// let key = FingerprintKey::new([7; 16]);
    /// let mut filter = Filter::keyed(key.clone(), 1000, 0.01)?;
    /// filter.insert("cheap pills");
    ///
    /// let mut bytes = Vec::new();
    /// filter.save(&mut bytes)?;
    /// assert!(Filter::load(&mut bytes.as_slice(), key, 1 << 20)? == filter);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`FileError::Io`] if writing fails.
    pub fn save(&self, output: &mut impl Write) -> Result<(), FileError> {
        file::encode(&self.filter, &Label::default(), output).map(|_| ())
    }

    /// Reads a filter file with a one-line filter of at most `limit_bytes` bytes.
    ///
    /// # Errors
    /// [`LoadError`] if the input is not such a file, if it is damaged or too large, or if the filter was filled under
    /// another key.
    pub fn load(input: &mut impl Read, key: FingerprintKey, limit_bytes: u64) -> Result<Self, LoadError> {
        let filter = OneLineFilter::try_from(file::decode(input, limit_bytes)?.filter)?;
        Ok(Self::from_parts(key, filter)?)
    }

    fn fingerprints(&self, items: &[impl AsRef<[u8]>]) -> [Fingerprint; BATCH] {
        let mut fingerprints = [Fingerprint::default(); BATCH];
        for (fingerprint, item) in fingerprints.iter_mut().zip(items) {
            *fingerprint = self.key.fingerprint(item.as_ref());
        }
        fingerprints
    }
}

impl<T: AsRef<[u8]>> Extend<T> for Filter {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.insert(item));
    }
}

impl fmt::Debug for Filter {
    /// Prints the id of the key and the size, not the contents.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("key", &self.key).field("bytes", &self.bytes()).finish()
    }
}

fn ensure_key(expected: KeyId, found: KeyId) -> Result<(), WrongKey> {
    if expected == found { Ok(()) } else { Err(WrongKey { expected, found }) }
}

/// The error returned for a fingerprint or a filter that was made under another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("made under another key: expected key {expected}, found {found}")]
pub struct WrongKey {
    /// Id of the expected key.
    pub expected: KeyId,
    /// Id of the key that was used.
    pub found: KeyId,
}

/// The reason why a filter cannot be created.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// No filter has this capacity at this false-positive rate.
    #[error(transparent)]
    Sizing(#[from] SizingError),
    /// A parameter is out of range.
    #[error("{what} must be {min} to {max}, not {value}")]
    OutOfRange {
        /// Name of the parameter.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The smallest valid value.
        min: u64,
        /// The largest valid value.
        max: u64,
    },
    /// The plan is for the classical layout, but the filter has the one-line layout.
    #[error("the plan is for the classical layout, not the one-line layout")]
    ClassicalPlan,
    /// The cells of a counting filter are invalid.
    #[error(transparent)]
    Shape(ShapeError),
    /// The memory cannot be allocated.
    #[error(transparent)]
    OutOfMemory(#[from] OutOfMemory),
}

impl From<ShapeError> for CreateError {
    fn from(error: ShapeError) -> Self {
        match error {
            ShapeError::OutOfMemory(error) => Self::OutOfMemory(error),
            error => Self::Shape(error),
        }
    }
}

impl From<CreateError> for io::Error {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::OutOfMemory(error) => error.into(),
            error => Self::new(io::ErrorKind::InvalidInput, error),
        }
    }
}

impl CreateError {
    /// Returns an error if `value` is not in `range`.
    pub(crate) fn check(what: &'static str, value: u64, range: RangeInclusive<u64>) -> Result<(), Self> {
        let (min, max) = range.into_inner();
        if (min..=max).contains(&value) { Ok(()) } else { Err(Self::OutOfRange { what, value, min, max }) }
    }
}

/// The reason why a [`Filter`] cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The input is not a file of a one-line filter, or is damaged or too large.
    #[error(transparent)]
    File(#[from] FileError),
    /// The filter was filled under another key.
    #[error(transparent)]
    WrongKey(#[from] WrongKey),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(start: u32, count: u32) -> Vec<[u8; 4]> {
        (start..start + count).map(u32::to_le_bytes).collect()
    }

    #[test]
    fn items_are_found_and_others_at_the_requested_rate() {
        let mut filter = Filter::with_rate(20_000, 0.01).unwrap();
        filter.insert_batch(&items(0, 10_000));
        filter.extend(items(10_000, 10_000));
        assert!(filter.contains_batch(&items(0, 20_000)).iter().all(|&found| found));
        assert!(items(0, 1000).iter().all(|item| filter.contains(item)));
        let wrong = filter.contains_batch(&items(1 << 20, 100_000)).iter().filter(|&&found| found).count();
        assert!((800..1200).contains(&wrong), "{wrong} of 100,000");
        assert!((filter.estimated_items() / 20_000.0 - 1.0).abs() < 0.02);
        assert!((filter.estimated_false_positive_rate() - 0.01).abs() < 0.002);
        filter.clear();
        assert!(!filter.contains(items(0, 1)[0]));
    }

    #[test]
    fn no_arguments_cause_a_panic() {
        for rate in [0.0, 1.0, -1.0, f64::NAN, f64::INFINITY, 1e-300] {
            assert!(matches!(Filter::with_rate(1000, rate), Err(CreateError::Sizing(_))), "{rate}");
        }
        assert_eq!(Filter::with_rate(0, 0.01).unwrap_err(), CreateError::Sizing(SizingError::NoKeys));
        assert!(matches!(Filter::with_rate(1 << 40, 0.01), Err(CreateError::OutOfMemory(_))));
        assert!(Filter::with_rate(u64::MAX, 0.01).is_err());
        assert!(Filter::with_rate(1, 0.999_999).is_ok());
    }

    #[test]
    fn another_key_is_an_error() {
        let [ours, theirs] = [1, 2].map(|byte| FingerprintKey::new([byte; 16]));
        let mut filter = Filter::keyed(ours.clone(), 1000, 0.01).unwrap();
        let refused = WrongKey { expected: ours.id(), found: theirs.id() };
        let fingerprint = theirs.fingerprint(b"item");
        assert_eq!(filter.insert_fingerprint(theirs.id(), &fingerprint), Err(refused));
        assert_eq!(filter.contains_fingerprint(theirs.id(), &fingerprint), Err(refused));
        filter.insert_fingerprint(ours.id(), &ours.fingerprint(b"item")).unwrap();
        assert!(filter.contains("item"));

        let mut bytes = Vec::new();
        filter.save(&mut bytes).unwrap();
        assert!(matches!(Filter::load(&mut &*bytes, theirs.clone(), 1 << 20), Err(LoadError::WrongKey(_))));
        assert!(matches!(
            Filter::load(&mut &*bytes, ours.clone(), 10),
            Err(LoadError::File(FileError::TooLarge { .. }))
        ));
        assert!(Filter::load(&mut &*bytes, ours, 1 << 20).unwrap() == filter);
        assert_eq!(filter.merge(&Filter::keyed(theirs, 1000, 0.01).unwrap()).unwrap_err().what, "the key id");
    }

    #[test]
    fn debug_output_hides_key_and_contents() {
        let shown = format!("{:?}", Filter::with_rate(1000, 0.01).unwrap());
        assert!(shown.starts_with("Filter { key: FingerprintKey(id ") && shown.len() < 100, "{shown}");
    }
}
