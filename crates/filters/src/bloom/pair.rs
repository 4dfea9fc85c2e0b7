//! Spam and revocation filters: how a set that cannot forget learns that it was wrong.

use super::MembershipFilter;
use crate::Mismatch;

/// Keys of a batch looked up at a time; their answers fit the stack.
const BATCH: usize = 256;

/// Which filter is asked first. The answer is the same; the second is spared when the first settles it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum LookupOrder {
    /// Best when most keys are not listed.
    #[default]
    SpamFirst,
    /// Best when most keys that are asked about were revoked.
    RevokedFirst,
}

/// The paper's pair: the spam filter (SBF) holds every signature reported, the revocation filter (RBF) every one taken
/// back. A key is spam iff it is in the first and not in the second.
///
/// A false positive of the revocation filter hides spam, and un-revoking is not possible within a pair: begin a new
/// generation for that.
///
/// ```
/// use bruit_filters::bloom::{LookupOrder, OneLineFilter, SpamPair};
/// use bruit_filters::FingerprintKey;
///
/// let key = FingerprintKey::new([1; 16]);
/// let empty = OneLineFilter::new(100, 6, 40, key.id());
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
    /// A pair of two filters, usually empty; they need not be of one size.
    pub const fn new(spam: F, revoked: F, order: LookupOrder) -> Self {
        Self { spam, revoked, order }
    }

    /// Lists `key`.
    pub fn report(&mut self, key: &F::Key) {
        self.spam.insert(key);
    }

    /// Takes `key` off the list, for good.
    pub fn revoke(&mut self, key: &F::Key) {
        self.revoked.insert(key);
    }

    /// Whether `key` is listed and was not taken back.
    pub fn is_spam(&self, key: &F::Key) -> bool {
        match self.order {
            LookupOrder::SpamFirst => self.spam.contains(key) && !self.revoked.contains(key),
            LookupOrder::RevokedFirst => !self.revoked.contains(key) && self.spam.contains(key),
        }
    }

    /// Writes to `found[i]` whether `keys[i]` is spam.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn is_spam_batch(&self, keys: &[F::Key], found: &mut [bool]) {
        assert_eq!(keys.len(), found.len(), "one answer per key");
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

    /// Adds what another pair has listed and taken back.
    ///
    /// # Errors
    /// [`Mismatch`] if either filter differs in a parameter; nothing is changed then.
    pub fn merge(&mut self, other: &Self) -> Result<(), Mismatch> {
        self.revoked.ensure_same(&other.revoked)?;
        self.spam.merge(&other.spam)?;
        self.revoked.merge(&other.revoked)
    }

    /// The filter of reported keys.
    pub const fn spam(&self) -> &F {
        &self.spam
    }

    /// The filter of revoked keys.
    pub const fn revoked(&self) -> &F {
        &self.revoked
    }
}
