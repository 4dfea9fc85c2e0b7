//! Several space-code filters. Each receives a quarter of the packets that the previous one receives.

use super::estimate::Estimator;
use super::single::{Arrival, SpaceCodeFilter};
use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
use bruit_filters::internal::ensure_equal;
use bruit_filters::sizing::LINE_BYTES;
use bruit_filters::{Fingerprint, KeyId, Mismatch};

/// Maximum number of resolutions. The lower half of a draw has two bits for each.
pub const RESOLUTIONS_MAX: usize = 16;

/// Number of bits of a draw that select one in four arrivals for the next resolution.
const BITS_PER_RESOLUTION: u32 = 2;

/// Number of leading fingerprint bits that determine the positions.
const FINGERPRINT_BITS: u32 = 64;

/// The parameters of a multi-resolution filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// l, the number of groups.
    pub groups: u32,
    /// r, the number of resolutions. Counts up to about 4^(r−1) l ln l can be estimated.
    pub resolutions: usize,
    /// k, the number of hash functions in each group.
    pub hashes: u32,
}

impl Default for Shape {
    /// Returns the paper's shape: l = 32 and r = 9, for counts up to seven million.
    fn default() -> Self {
        Self { groups: 32, resolutions: 9, hashes: 4 }
    }
}

/// Space-code filters of decreasing resolution. The i-th filter receives an arrival with probability p_i = 4^-(i−1).
///
/// ```
/// use bruit_filters::FingerprintKey;
/// use bruit_structures::space_code::{Arrival, MultiResolutionFilter, Shape};
///
/// let key = FingerprintKey::new([1; 16]);
/// let mut filter = MultiResolutionFilter::with_bytes(64 * 1024, Shape::default(), key.id());
/// let flow = key.fingerprint(b"10.0.0.1 to 10.0.0.2");
/// // Numbers that look random; use real random numbers in production.
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
    /// Creates an empty filter of about `bytes` bytes: half of them for the first resolution, a quarter for the second,
    /// and so on.
    ///
    /// Each resolution receives a quarter of the packets of the previous one, but fewer of these packets are
    /// repetitions. So it needs more than a quarter of the memory of the previous one. Each resolution has at least one
    /// line.
    ///
    /// # Panics
    /// If the shape has no resolutions or more than [`RESOLUTIONS_MAX`], or an invalid number of groups or hashes.
    #[must_use]
    pub fn with_bytes(bytes: u64, shape: Shape, key_id: KeyId) -> Self {
        let all = 2.0 - 0.5f64.powi(shape.resolutions as i32 - 1);
        let filter = |resolution| {
            let share = 0.5f64.powi(resolution as i32) / all;
            let lines = (bytes as f64 * share / LINE_BYTES as f64).round().max(1.0);
            OneLineFilter::new(lines as usize, shape.hashes, FINGERPRINT_BITS, key_id)
                .unwrap_or_else(|error| panic!("{error}"))
        };
        Self::new((0..shape.resolutions).map(filter), shape.groups)
    }
}

impl<F: MembershipFilter<Key = Fingerprint>> MultiResolutionFilter<F> {
    /// Creates a filter from one filter per resolution, the highest resolution first.
    ///
    /// # Panics
    /// If there are no filters or more than [`RESOLUTIONS_MAX`], or `groups` is not in
    /// 1..=[`GROUPS_MAX`](super::GROUPS_MAX).
    #[must_use]
    pub fn new(filters: impl IntoIterator<Item = F>, groups: u32) -> Self {
        let numbered = filters.into_iter().zip(0..);
        let resolutions: Vec<_> =
            numbered.map(|(filter, number)| SpaceCodeFilter::of_resolution(filter, groups, number)).collect();
        let count = resolutions.len();
        assert!((1..=RESOLUTIONS_MAX).contains(&count), "expected 1 to {RESOLUTIONS_MAX} resolutions, found {count}");
        Self { resolutions }
    }

    /// Inserts each of `arrivals` into the resolutions selected by its draw. An arrival always goes into the first
    /// resolution. From each resolution that it goes into, it also goes into the next one with a probability of 1/4.
    pub fn insert_batch(&mut self, arrivals: &[Arrival]) {
        for (number, filter) in (0..).zip(&mut self.resolutions) {
            let mask = (1u64 << (number * BITS_PER_RESOLUTION)) - 1;
            filter.insert_all(arrivals.iter().filter(|arrival| arrival.draw & mask == 0));
        }
    }

    /// Returns an estimator for the current state of the filter.
    #[must_use]
    pub fn estimator(&self) -> Estimator<'_, F> {
        Estimator::new(self)
    }

    /// Adds all arrivals of `other`, by a bitwise OR.
    ///
    /// # Errors
    /// [`Mismatch`] if the filters have different parameters; nothing is changed in that case.
    pub fn merge(&mut self, other: &Self) -> Result<(), Mismatch> {
        ensure_equal("the number of resolutions", &self.resolutions.len(), &other.resolutions.len())?;
        let pairs = || other.resolutions.iter();
        self.resolutions.iter().zip(pairs()).try_for_each(|(ours, theirs)| ours.ensure_same(theirs))?;
        self.resolutions.iter_mut().zip(pairs()).try_for_each(|(ours, theirs)| ours.merge(theirs))
    }

    /// Returns l, the number of groups of each resolution.
    #[must_use]
    pub fn groups(&self) -> u32 {
        self.resolutions[0].groups()
    }

    /// Returns the filters, the highest resolution first.
    #[must_use]
    pub fn resolutions(&self) -> &[SpaceCodeFilter<F>] {
        &self.resolutions
    }

    /// Returns the probability that resolution i (counted from 0) receives an arrival: 4^-i.
    #[must_use]
    pub fn share(resolution: usize) -> f64 {
        0.25f64.powi(resolution as i32)
    }

    /// Returns the size of all resolutions in bits.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.resolutions.iter().map(|resolution| resolution.filter().bits()).sum()
    }
}
