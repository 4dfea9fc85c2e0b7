//! Pairs of a spam filter and a revocation filter. They allow keys to be revoked, although keys cannot be removed from
//! a filter.

use bruit_filters::Mismatch;
use bruit_filters::bloom::MembershipFilter;

/// Number of keys in a batch that are checked at a time. Their answers fit on the stack.
const BATCH: usize = 256;

/// The filter to check first. The choice affects only speed: if the first filter settles the answer, the second is
/// skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LookupOrder {
    /// Faster if most checked keys are not listed.
    #[default]
    SpamFirst,
    /// Faster if most checked keys were revoked.
    RevokedFirst,
}

/// The paper's pair of filters. The spam filter (SBF) contains every reported signature, and the revocation filter
/// (RBF) every revoked signature. A key is spam if the first contains it and the second does not.
///
/// A false positive of the revocation filter hides spam. A revocation cannot be undone within a pair; start a new
/// generation instead.
///
/// ```
/// use bruit_filters::FingerprintKey;
/// use bruit_filters::bloom::OneLineFilter;
/// use bruit_structures::pair::{LookupOrder, SpamPair};
///
/// let key = FingerprintKey::new([1; 16]);
/// let empty = OneLineFilter::new(100, 6, 40, key.id()).unwrap();
/// let mut pair = SpamPair::new(empty.clone(), empty, LookupOrder::SpamFirst);
/// let newsletter = key.fingerprint(b"newsletter");
/// pair.report(&newsletter);
/// assert!(pair.is_spam(&newsletter));
/// pair.revoke(&newsletter);
/// assert!(!pair.is_spam(&newsletter));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpamPair<F> {
    spam: F,
    revoked: F,
    order: LookupOrder,
}

impl<F: MembershipFilter> SpamPair<F> {
    /// Creates a pair of two filters, which are usually empty and may differ in size.
    pub const fn new(spam: F, revoked: F, order: LookupOrder) -> Self {
        Self { spam, revoked, order }
    }

    /// Adds `key` to the spam filter.
    pub fn report(&mut self, key: &F::Key) {
        self.spam.insert(key);
    }

    /// Revokes `key` permanently.
    pub fn revoke(&mut self, key: &F::Key) {
        self.revoked.insert(key);
    }

    /// Returns true if `key` was reported and not revoked.
    pub fn is_spam(&self, key: &F::Key) -> bool {
        match self.order {
            LookupOrder::SpamFirst => self.spam.contains(key) && !self.revoked.contains(key),
            LookupOrder::RevokedFirst => !self.revoked.contains(key) && self.spam.contains(key),
        }
    }

    /// Sets `found[i]` to true if `keys[i]` is spam, and to false otherwise.
    ///
    /// # Panics
    /// Panics if the two slices differ in length.
    pub fn is_spam_batch(&self, keys: &[F::Key], found: &mut [bool]) {
        assert_eq!(keys.len(), found.len(), "the slices differ in length");
        for (keys, found) in keys.chunks(BATCH).zip(found.chunks_mut(BATCH)) {
            self.is_spam_step(keys, found);
        }
    }

    fn is_spam_step(&self, keys: &[F::Key], found: &mut [bool]) {
        let mut revoked = [false; BATCH];
        let revoked = &mut revoked[..keys.len()];
        match self.order {
            LookupOrder::SpamFirst => {
                self.spam.contains_batch(keys, found);
                if found.iter().any(|&found| found) {
                    self.revoked.contains_batch(keys, revoked);
                }
            }
            LookupOrder::RevokedFirst => {
                self.revoked.contains_batch(keys, revoked);
                if revoked.iter().any(|&revoked| !revoked) {
                    self.spam.contains_batch(keys, found);
                }
            }
        }
        for (found, revoked) in found.iter_mut().zip(revoked) {
            *found &= !*revoked;
        }
    }

    /// Adds the reports and revocations of another pair.
    ///
    /// # Errors
    /// [`Mismatch`] if a parameter of either filter differs; nothing is changed in that case.
    pub fn merge(&mut self, other: &Self) -> Result<(), Mismatch> {
        self.revoked.ensure_same(&other.revoked)?;
        self.spam.merge(&other.spam)?;
        self.revoked.merge(&other.revoked)
    }

    /// Returns the filter of reported keys.
    pub const fn spam(&self) -> &F {
        &self.spam
    }

    /// Returns the filter of revoked keys.
    pub const fn revoked(&self) -> &F {
        &self.revoked
    }
}
