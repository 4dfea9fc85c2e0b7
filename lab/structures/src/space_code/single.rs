//! A single space-code filter, which is one resolution.

use bruit_filters::bloom::MembershipFilter;
use bruit_filters::internal::finalise;
use bruit_filters::{Fingerprint, Mismatch};

/// Maximum number of groups.
pub const GROUPS_MAX: u32 = 64;

/// Number of keys passed to the filter at a time.
const BATCH: usize = 64;

/// The factor by which the number of a group is multiplied. Group numbers are unique across all resolutions, and the
/// factor is odd, so all products differ.
const GROUP_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// An insertion: a key and a random number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Key to insert.
    pub key: Fingerprint,
    /// A random number, new for every arrival. Its upper half selects the group, its lower half the resolutions.
    pub draw: u64,
}

impl Arrival {
    /// Returns the number of the group, which is below `groups`.
    const fn group(&self, groups: u32) -> u32 {
        (((self.draw >> 32) * groups as u64) >> 32) as u32
    }
}

/// A space-code filter: l groups of hash functions over one membership filter.
///
/// ```
/// use bruit_filters::bloom::OneLineFilter;
/// use bruit_structures::space_code::{Arrival, SpaceCodeFilter};
/// use bruit_filters::FingerprintKey;
///
/// let key = FingerprintKey::new([1; 16]);
/// let mut filter = SpaceCodeFilter::new(OneLineFilter::new(100, 6, 64, key.id()).unwrap(), 32);
/// let flow = key.fingerprint(b"10.0.0.1 to 10.0.0.2");
/// for draw in [1 << 63, 1 << 40, 1 << 63] {
///     filter.insert_batch(&[Arrival { key: flow, draw }]);
/// }
/// assert_eq!(filter.hits(&flow), 2); // the first and the third chose the same group
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpaceCodeFilter<F> {
    filter: F,
    groups: u32,
    /// Index of this resolution. It gives each resolution its own hash functions.
    resolution: u32,
}

impl<F: MembershipFilter<Key = Fingerprint>> SpaceCodeFilter<F> {
    /// Creates an empty filter of l = `groups` groups. Each group has as many hash functions as `filter`.
    ///
    /// # Panics
    /// If `groups` is not in 1..=[`GROUPS_MAX`].
    #[must_use]
    pub fn new(filter: F, groups: u32) -> Self {
        Self::of_resolution(filter, groups, 0)
    }

    pub(super) fn of_resolution(filter: F, groups: u32, resolution: u32) -> Self {
        assert!((1..=GROUPS_MAX).contains(&groups), "expected 1 to {GROUPS_MAX} groups, found {groups}");
        Self { filter, groups, resolution }
    }

    /// Inserts each of `arrivals` into the group selected by its draw.
    pub fn insert_batch(&mut self, arrivals: &[Arrival]) {
        self.insert_all(arrivals.iter());
    }

    pub(super) fn insert_all<'a>(&mut self, mut arrivals: impl Iterator<Item = &'a Arrival>) {
        let mut batch = [Fingerprint::default(); BATCH];
        loop {
            let mut count = 0;
            for (slot, arrival) in batch.iter_mut().zip(&mut arrivals) {
                *slot = self.grouped(&arrival.key, arrival.group(self.groups));
                count += 1;
            }
            self.filter.insert_batch(&batch[..count]);
            if count < BATCH {
                return;
            }
        }
    }

    /// Returns the number of groups in which `key` is found.
    #[must_use]
    pub fn hits(&self, key: &Fingerprint) -> u32 {
        let groups = self.groups as usize;
        let keys: [_; GROUPS_MAX as usize] = std::array::from_fn(|group| self.grouped(key, group as u32));
        let mut found = [false; GROUPS_MAX as usize];
        self.filter.contains_batch(&keys[..groups], &mut found[..groups]);
        found[..groups].iter().map(|&found| u32::from(found)).sum()
    }

    /// Returns the key to insert into the filter for a key and a group: 64 bits of the key's fingerprint, mixed with
    /// the group.
    const fn grouped(&self, key: &Fingerprint, group: u32) -> Fingerprint {
        let number = self.resolution as u64 * GROUPS_MAX as u64 + group as u64 + 1;
        Fingerprint::narrow(finalise(key.high() ^ number.wrapping_mul(GROUP_STEP)))
    }

    /// Adds all insertions of `other`, by a bitwise OR.
    ///
    /// # Errors
    /// [`Mismatch`] if the filters have different parameters; nothing is changed in that case.
    pub fn merge(&mut self, other: &Self) -> Result<(), Mismatch> {
        self.ensure_same(other)?;
        self.filter.merge(&other.filter)
    }

    /// Checks that [`merge`](Self::merge) would accept `other`.
    ///
    /// # Errors
    /// [`Mismatch`], which names the first parameter that differs.
    pub fn ensure_same(&self, other: &Self) -> Result<(), Mismatch> {
        bruit_filters::internal::ensure_equal("the number of groups", &self.groups, &other.groups)?;
        self.filter.ensure_same(&other.filter)
    }

    /// Returns l, the number of groups.
    #[must_use]
    pub const fn groups(&self) -> u32 {
        self.groups
    }

    /// Returns the underlying filter.
    #[must_use]
    pub const fn filter(&self) -> &F {
        &self.filter
    }
}
