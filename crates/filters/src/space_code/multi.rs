//! Several space-code filters, each of which sees a quarter of what the one before it sees.

use super::estimate::Estimator;
use super::single::{Arrival, SpaceCodeFilter};
use crate::bloom::{MembershipFilter, OneLineFilter};
use crate::mismatch::ensure_equal;
use crate::sizing::LINE_BYTES;
use crate::{Fingerprint, KeyId, Mismatch};

/// The most resolutions: the lower half of a draw decides on no more.
pub const RESOLUTIONS_MAX: usize = 16;

/// Two bits of a draw for each resolution behind the first: it sees one in four.
const BITS_PER_RESOLUTION: u32 = 2;

/// Leading bits of a fingerprint that decide where it lies.
const FINGERPRINT_BITS: u32 = 64;

/// What to make of an amount of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// l.
    pub groups: u32,
    /// r: counts to about 4^(r−1) l ln l can be told.
    pub resolutions: usize,
    /// k, in each group.
    pub hashes: u32,
}

impl Default for Shape {
    /// The paper's l = 32, and r = 9 for counts to seven million.
    fn default() -> Self {
        Self { groups: 32, resolutions: 9, hashes: 4 }
    }
}

/// Filters of falling resolution: the i-th sees an arrival with probability p_i = 4^-(i−1).
///
/// ```
/// use bruit_filters::FingerprintKey;
/// use bruit_filters::space_code::{Arrival, MultiResolutionFilter, Shape};
///
/// let key = FingerprintKey::new([1; 16]);
/// let mut filter = MultiResolutionFilter::with_bytes(64 * 1024, Shape::default(), key.id());
/// let flow = key.fingerprint(b"10.0.0.1 to 10.0.0.2");
/// // Numbers that look random; take real ones.
/// let draws = (1..=1000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9));
/// let arrivals: Vec<_> = draws.map(|draw| Arrival { key: flow, draw }).collect();
/// filter.insert_batch(&arrivals);
/// let estimate = filter.estimator().estimate(&flow);
/// assert!(estimate.low <= 1000.0 && 1000.0 <= estimate.high, "{estimate:?}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiResolutionFilter<F> {
    resolutions: Vec<SpaceCodeFilter<F>>,
}

impl MultiResolutionFilter<OneLineFilter> {
    /// An empty filter of about `bytes`: half of them for the first resolution, a quarter for the second, and so on.
    ///
    /// Each resolution sees a quarter of the packets of the one before, but fewer of them are repetitions. At least one line is
    /// made for each.
    ///
    /// # Panics
    /// If the shape has no resolutions or more than [`RESOLUTIONS_MAX`], or groups or hashes that a filter cannot have.
    #[must_use]
    pub fn with_bytes(bytes: u64, shape: Shape, key_id: KeyId) -> Self {
        let all = 2.0 - 0.5f64.powi(shape.resolutions as i32 - 1);
        let filter = |resolution| {
            let share = 0.5f64.powi(resolution as i32) / all;
            let lines = (bytes as f64 * share / LINE_BYTES as f64).round().max(1.0);
            OneLineFilter::new(lines as usize, shape.hashes, FINGERPRINT_BITS, key_id)
        };
        Self::new((0..shape.resolutions).map(filter), shape.groups)
    }
}

impl<F: MembershipFilter<Key = Fingerprint>> MultiResolutionFilter<F> {
    /// A filter whose resolutions are kept in `filters`, the highest in the first.
    ///
    /// # Panics
    /// If there are none or more than [`RESOLUTIONS_MAX`], or `groups` is not in 1..=[`GROUPS_MAX`](super::GROUPS_MAX).
    #[must_use]
    pub fn new(filters: impl IntoIterator<Item = F>, groups: u32) -> Self {
        let numbered = filters.into_iter().zip(0..);
        let resolutions: Vec<_> =
            numbered.map(|(filter, number)| SpaceCodeFilter::of_resolution(filter, groups, number)).collect();
        let count = resolutions.len();
        assert!((1..=RESOLUTIONS_MAX).contains(&count), "there are 1 to {RESOLUTIONS_MAX} resolutions, not {count}");
        Self { resolutions }
    }

    /// Inserts each of `arrivals` into the resolutions that it drew: always the first, each further one if the one before it
    /// was and one chance in four says so.
    pub fn insert_batch(&mut self, arrivals: &[Arrival]) {
        for (number, filter) in (0..).zip(&mut self.resolutions) {
            let mask = (1u64 << (number * BITS_PER_RESOLUTION)) - 1;
            filter.insert_all(arrivals.iter().filter(|arrival| arrival.draw & mask == 0));
        }
    }

    /// What answers questions about the filter as it is now.
    #[must_use]
    pub fn estimator(&self) -> Estimator<'_, F> {
        Estimator::new(self)
    }

    /// Adds all arrivals of `other`, by OR.
    ///
    /// # Errors
    /// [`Mismatch`] if the filters were made with different parameters; nothing is changed then.
    pub fn merge(&mut self, other: &Self) -> Result<(), Mismatch> {
        ensure_equal("the number of resolutions", &self.resolutions.len(), &other.resolutions.len())?;
        let pairs = || other.resolutions.iter();
        self.resolutions.iter().zip(pairs()).try_for_each(|(ours, theirs)| ours.ensure_same(theirs))?;
        self.resolutions.iter_mut().zip(pairs()).try_for_each(|(ours, theirs)| ours.merge(theirs))
    }

    /// l, the groups of each resolution.
    #[must_use]
    pub fn groups(&self) -> u32 {
        self.resolutions[0].groups()
    }

    /// The filters, the highest resolution first.
    #[must_use]
    pub fn resolutions(&self) -> &[SpaceCodeFilter<F>] {
        &self.resolutions
    }

    /// The probability with which a resolution, from 0, sees an arrival: 4^-i.
    #[must_use]
    pub fn share(resolution: usize) -> f64 {
        0.25f64.powi(resolution as i32)
    }

    /// Bits of all resolutions.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.resolutions.iter().map(|resolution| resolution.filter().bits()).sum()
    }
}
