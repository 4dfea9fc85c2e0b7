//! The universal family of the paper's equation (2), h(x) = ((c·x + d) mod p) mod m.
//!
//! This family is for study and for reproducing the paper's tables. It is not suitable for production. Every key is
//! reduced modulo p first, so x and x + p share all their positions for any c and d. With n stored keys, a new key
//! coincides with one of them with probability n / p, where p = 2,100,000,011. The family is also linear, so a few
//! known positions reveal c and d.

use std::fmt;

use bruit_filters::Mismatch;
use bruit_filters::hash::HashFamily;
use bruit_filters::internal::ensure_equal;

/// k functions h(x) = ((c·x + d) mod p) mod m, each with its own pair (c, d).
///
/// ```
/// use bruit_filters::hash::HashFamily;
/// use bruit_structures::hash::{Prime, UniversalHash};
///
/// let family = UniversalHash::new(10, Prime::Paper, vec![(3, 1), (2_100_000_010, 0)])?;
/// // 3·7 + 1 = 22; and c = p − 1 stands for −1: −7 mod p = 2,100,000,004.
/// assert_eq!(family.positions(&7).collect::<Vec<_>>(), [2, 4]);
/// # Ok::<(), bruit_structures::hash::UniversalHashError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniversalHash {
    cells: u64,
    prime: Prime,
    pairs: Vec<(u64, u64)>,
}

impl UniversalHash {
    /// Creates one function onto `0..cells` for each pair (c, d).
    ///
    /// # Errors
    /// An error if `cells` is 0, `pairs` is empty, or a pair violates 0 < c < p or d < p.
    pub fn new(cells: u64, prime: Prime, pairs: Vec<(u64, u64)>) -> Result<Self, UniversalHashError> {
        if cells == 0 {
            return Err(UniversalHashError::NoCells);
        }
        if pairs.is_empty() {
            return Err(UniversalHashError::NoPairs);
        }
        let p = prime.value();
        if let Some(&(c, d)) = pairs.iter().find(|&&(c, d)| c == 0 || c >= p || d >= p) {
            return Err(UniversalHashError::Pair { c, d, prime });
        }
        if cells > p {
            tracing::warn!(cells, utilisable_size = p, "the prime is too small to reach every cell");
        }
        Ok(Self { cells, prime, pairs })
    }

    /// Creates `hashes` functions with pairs drawn uniformly from all valid pairs.
    ///
    /// `random` must return uniform words. It is called again if a draw is outside the valid range. That happens for
    /// about one draw in 45 with the paper's prime, and almost never with 2^61 − 1. If `random` returns the same word
    /// forever, this function may never return.
    ///
    /// # Errors
    /// An error if `cells` or `hashes` is 0.
    pub fn draw(
        cells: u64,
        prime: Prime,
        hashes: u32,
        mut random: impl FnMut() -> u64,
    ) -> Result<Self, UniversalHashError> {
        let pairs = (0..hashes).map(|_| (prime.draw_from(1, &mut random), prime.draw_from(0, &mut random))).collect();
        Self::new(cells, prime, pairs)
    }

    /// Returns the modulus p.
    #[must_use]
    pub const fn prime(&self) -> Prime {
        self.prime
    }

    /// Returns the pairs (c, d), one for each function.
    #[must_use]
    pub fn pairs(&self) -> &[(u64, u64)] {
        &self.pairs
    }
}

impl HashFamily for UniversalHash {
    type Key = u64;

    fn cells(&self) -> u64 {
        self.cells
    }

    fn hashes(&self) -> u32 {
        u32::try_from(self.pairs.len()).expect("a family has fewer than 2^32 functions")
    }

    #[inline]
    fn positions(&self, key: &u64) -> impl Iterator<Item = u64> {
        let x = self.prime.reduce(*key);
        self.pairs.iter().map(move |&(c, d)| self.prime.multiply_add(c, x, d) % self.cells)
    }

    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch> {
        ensure_equal("the number of cells m", &self.cells, &other.cells)?;
        ensure_equal("the prime p", &self.prime, &other.prime)?;
        ensure_equal("the number of hash functions k", &self.hashes(), &other.hashes())?;
        for (ours, theirs) in self.pairs.iter().zip(&other.pairs) {
            ensure_equal("a factor c", &ours.0, &theirs.0)?;
            ensure_equal("a summand d", &ours.1, &theirs.1)?;
        }
        Ok(())
    }

    /// Returns min(m, p), because the sum is reduced modulo p before it is reduced modulo m.
    fn utilisable_size(&self) -> u64 {
        self.cells.min(self.prime.value())
    }
}

/// The modulus p of a [`UniversalHash`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prime {
    /// 2,100,000,011, which the paper's simulations use (§5.1).
    Paper,
    /// 2^61 − 1. It is large enough for keys of 61 bits, and reduction is fast.
    Mersenne61,
}

const PAPER: u64 = 2_100_000_011;
const MERSENNE_BITS: u32 = 61;
const MERSENNE: u64 = (1 << MERSENNE_BITS) - 1;

impl Prime {
    /// Returns p.
    #[must_use]
    pub const fn value(self) -> u64 {
        match self {
            Self::Paper => PAPER,
            Self::Mersenne61 => MERSENNE,
        }
    }

    #[inline]
    pub(super) fn reduce(self, x: u64) -> u64 {
        match self {
            Self::Paper => x % PAPER,
            Self::Mersenne61 => fold(u128::from(x)),
        }
    }

    /// Returns (c·x + d) mod p. Requires c, x and d below p.
    #[inline]
    pub(super) fn multiply_add(self, c: u64, x: u64, d: u64) -> u64 {
        match self {
            // With the 31-bit prime, the sum is below 2^62 + 2^31 and fits into 64 bits.
            Self::Paper => (c * x + d) % PAPER,
            Self::Mersenne61 => fold(u128::from(c) * u128::from(x) + u128::from(d)),
        }
    }

    /// Draws a uniform number in `least..p`.
    pub(super) fn draw_from(self, least: u64, random: &mut impl FnMut() -> u64) -> u64 {
        loop {
            // Use the leading bits, because the trailing bits of weak generators are the weakest.
            let drawn = random() >> self.value().leading_zeros();
            if (least..self.value()).contains(&drawn) {
                return drawn;
            }
        }
    }
}

/// Returns `sum` mod p = 2^61 − 1, for sums up to p·(p − 1). Because 2^61 is 1 modulo p, the high part can be added to
/// the low part.
#[inline]
fn fold(sum: u128) -> u64 {
    let folded = (sum as u64 & MERSENNE) + (sum >> MERSENNE_BITS) as u64;
    if folded >= MERSENNE { folded - MERSENNE } else { folded }
}

impl fmt::Display for Prime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

/// The reason why the parameters of a [`UniversalHash`] or a [`PolynomialHash`](super::PolynomialHash) are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UniversalHashError {
    /// m is 0.
    #[error("a filter needs at least one cell")]
    NoCells,
    /// k is 0.
    #[error("a filter needs at least one hash function")]
    NoPairs,
    /// A pair does not define a member of the family.
    #[error("the pair c = {c}, d = {d} violates 0 < c < p or 0 ≤ d < p for p = {prime}")]
    Pair {
        /// The factor.
        c: u64,
        /// The summand.
        d: u64,
        /// The modulus.
        prime: Prime,
    },
    /// A coefficient is not an element of the field.
    #[error("the coefficient {coefficient} is not below p = {prime}")]
    Coefficient {
        /// The coefficient.
        coefficient: u64,
        /// The modulus.
        prime: Prime,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PRIMES: [Prime; 2] = [Prime::Paper, Prime::Mersenne61];

    fn positions(family: &UniversalHash, key: u64) -> Vec<u64> {
        family.positions(&key).collect()
    }

    #[test]
    fn pairs_outside_the_family_are_refused() {
        for prime in PRIMES {
            let p = prime.value();
            for (c, d) in [(0, 0), (p, 0), (1, p), (u64::MAX, u64::MAX)] {
                let refused = UniversalHash::new(10, prime, vec![(1, 0), (c, d)]);
                assert_eq!(refused, Err(UniversalHashError::Pair { c, d, prime }));
            }
            assert!(UniversalHash::new(10, prime, vec![(1, 0), (p - 1, p - 1)]).is_ok());
        }
        assert_eq!(UniversalHash::new(10, Prime::Paper, vec![]), Err(UniversalHashError::NoPairs));
        assert_eq!(UniversalHash::new(0, Prime::Paper, vec![(1, 0)]), Err(UniversalHashError::NoCells));
    }

    #[test]
    fn keys_that_differ_by_p_collide_everywhere() {
        for prime in PRIMES {
            let family = UniversalHash::draw(1 << 40, prime, 8, counter()).unwrap();
            assert_eq!(positions(&family, 5), positions(&family, 5 + prime.value()));
            assert_ne!(positions(&family, 5), positions(&family, 6));
        }
    }

    #[test]
    fn draws_outside_the_range_are_drawn_again() {
        let p = Prime::Paper.value();
        // The draws, as 31-bit numbers: c = p (rejected), c = 0 (rejected), c = p − 1, d = p + 1 (rejected), d = 0.
        let mut words = [p, 0, p - 1, p + 1, 0].map(|word| word << 33).into_iter();
        let family = UniversalHash::draw(10, Prime::Paper, 1, || words.next().unwrap()).unwrap();
        assert_eq!(family.pairs(), [(p - 1, 0)]);
        assert_eq!(words.next(), None);
    }

    #[test]
    fn cells_from_p_on_are_never_reached() {
        let family = UniversalHash::draw(1 << 40, Prime::Paper, 2, counter()).unwrap();
        assert_eq!(family.utilisable_size(), 2_100_000_011);
        assert!((0..1000).flat_map(|key| positions(&family, key)).all(|position| position < 2_100_000_011));
    }

    #[test]
    fn different_families_report_their_difference() {
        let ours = UniversalHash::new(10, Prime::Paper, vec![(1, 2), (3, 4)]).unwrap();
        let with = |cells, prime, pairs: &[(u64, u64)]| UniversalHash::new(cells, prime, pairs.to_vec()).unwrap();
        let others = [
            (with(11, Prime::Paper, &[(1, 2), (3, 4)]), "the number of cells m"),
            (with(10, Prime::Mersenne61, &[(1, 2), (3, 4)]), "the prime p"),
            (with(10, Prime::Paper, &[(1, 2)]), "the number of hash functions k"),
            (with(10, Prime::Paper, &[(1, 2), (5, 4)]), "a factor c"),
            (with(10, Prime::Paper, &[(1, 2), (3, 5)]), "a summand d"),
        ];
        for (theirs, what) in others {
            assert_eq!(ours.ensure_same(&theirs).unwrap_err().what, what);
        }
        assert_eq!(ours.ensure_same(&ours.clone()), Ok(()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn fast_reduction_equals_division(key: u64, c in 1..MERSENNE, d in 0..MERSENNE, cells in 1..=u64::MAX) {
            for prime in PRIMES {
                let p = prime.value();
                let (c, d) = (c % (p - 1) + 1, d % p);
                let family = UniversalHash::new(cells, prime, vec![(c, d)]).unwrap();
                let by_division = (u128::from(c) * u128::from(key) + u128::from(d)) % u128::from(p);
                prop_assert_eq!(positions(&family, key), [by_division as u64 % cells]);
            }
        }
    }

    #[test]
    fn fast_reduction_is_right_at_its_edges() {
        let p = MERSENNE;
        for sum in [0, 1, u128::from(p) - 1, u128::from(p), u128::from(p) + 1, u128::from(p) * u128::from(p - 1)] {
            assert_eq!(u128::from(fold(sum)), sum % u128::from(p));
        }
        assert_eq!(fold(u128::from(u64::MAX)), u64::MAX % p);
    }

    /// Returns evenly spread words. They need not be random.
    fn counter() -> impl FnMut() -> u64 {
        let mut word = 0u64;
        move || {
            word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
            word
        }
    }
}
