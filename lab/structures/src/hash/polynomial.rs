//! Polynomials over a prime field: k functions, each t-wise independent.
//!
//! The paper's footnote 3 leaves open whether its results change with "independent" universal functions. The functions
//! of [`UniversalHash`] are not independent, for two reasons. First, the values of an affine function for two keys
//! determine its value for a third. Second, two functions with the same c are shifts of each other. For a polynomial
//! with t random coefficients, every combination of values at any t keys is equally likely (Wegman and Carter, 1981).
//! No two functions of a [`PolynomialHash`] share a leading coefficient.
//!
//! This family is for study, not for production: each position costs t multiplications.

use bruit_filters::hash::HashFamily;

use super::{Prime, UniversalHashError};
use bruit_filters::Mismatch;
use bruit_filters::internal::ensure_equal;

#[cfg(doc)]
use super::UniversalHash;

/// k functions h(x) = ((a₁·x^(t−1) + … + a_t) mod p) mod m, each with its own t coefficients.
///
/// ```
/// use bruit_filters::hash::HashFamily;
/// use bruit_structures::hash::{PolynomialHash, Prime};
///
/// // x² + 2x + 3 and 2x² + 1, at 10.
/// let family = PolynomialHash::new(1000, Prime::Paper, vec![vec![1, 2, 3], vec![2, 0, 1]])?;
/// assert_eq!(family.positions(&10).collect::<Vec<_>>(), [123, 201]);
/// # Ok::<(), bruit_structures::hash::UniversalHashError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolynomialHash {
    cells: u64,
    prime: Prime,
    /// Coefficients, from the highest power to the lowest.
    polynomials: Vec<Vec<u64>>,
}

impl PolynomialHash {
    /// Creates one function onto `0..cells` for each polynomial. Coefficients are in order from the highest power to
    /// the lowest.
    ///
    /// # Errors
    /// An error if `cells` is 0, `polynomials` is empty, or a polynomial is empty or has a coefficient of p or more.
    pub fn new(cells: u64, prime: Prime, polynomials: Vec<Vec<u64>>) -> Result<Self, UniversalHashError> {
        if cells == 0 {
            return Err(UniversalHashError::NoCells);
        }
        if polynomials.is_empty() || polynomials.iter().any(Vec::is_empty) {
            return Err(UniversalHashError::NoPairs);
        }
        if let Some(&coefficient) = polynomials.iter().flatten().find(|&&coefficient| coefficient >= prime.value()) {
            return Err(UniversalHashError::Coefficient { coefficient, prime });
        }
        Ok(Self { cells, prime, polynomials })
    }

    /// Creates `hashes` functions with `coefficients` random coefficients each. They are `coefficients`-wise
    /// independent, and no two have the same leading coefficient.
    ///
    /// `random` must return uniform words. If it repeats the same words forever, this function may never return.
    ///
    /// # Errors
    /// An error if `cells`, `hashes` or `coefficients` is 0.
    pub fn draw(
        cells: u64,
        prime: Prime,
        hashes: u32,
        coefficients: u32,
        mut random: impl FnMut() -> u64,
    ) -> Result<Self, UniversalHashError> {
        let mut polynomials: Vec<Vec<u64>> = Vec::new();
        while polynomials.len() < hashes as usize {
            let drawn: Vec<u64> = (0..coefficients).map(|_| prime.draw_from(0, &mut random)).collect();
            if drawn.is_empty() || polynomials.iter().all(|polynomial| polynomial[0] != drawn[0]) {
                polynomials.push(drawn);
            }
        }
        Self::new(cells, prime, polynomials)
    }

    /// Returns the modulus p.
    #[must_use]
    pub const fn prime(&self) -> Prime {
        self.prime
    }

    /// Returns the coefficients of each function, from the highest power to the lowest.
    #[must_use]
    pub fn polynomials(&self) -> &[Vec<u64>] {
        &self.polynomials
    }
}

impl HashFamily for PolynomialHash {
    type Key = u64;

    fn cells(&self) -> u64 {
        self.cells
    }

    fn hashes(&self) -> u32 {
        u32::try_from(self.polynomials.len()).expect("a family has fewer than 2^32 functions")
    }

    #[inline]
    fn positions(&self, key: &u64) -> impl Iterator<Item = u64> {
        let x = self.prime.reduce(*key);
        let value = move |sum, &coefficient: &u64| self.prime.multiply_add(sum, x, coefficient);
        self.polynomials.iter().map(move |polynomial| polynomial.iter().fold(0, value) % self.cells)
    }

    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch> {
        ensure_equal("the number of cells m", &self.cells, &other.cells)?;
        ensure_equal("the prime p", &self.prime, &other.prime)?;
        ensure_equal("the number of hash functions k", &self.hashes(), &other.hashes())?;
        for (ours, theirs) in self.polynomials.iter().zip(&other.polynomials) {
            ensure_equal("the number of coefficients", &ours.len(), &theirs.len())?;
            for (a, b) in ours.iter().zip(theirs) {
                ensure_equal("a coefficient", a, b)?;
            }
        }
        Ok(())
    }

    /// Returns min(m, p), as [`UniversalHash`](super::UniversalHash) does.
    fn utilisable_size(&self) -> u64 {
        self.cells.min(self.prime.value())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::hash::UniversalHash;

    #[test]
    fn a_polynomial_of_two_coefficients_is_the_affine_function() {
        for prime in [Prime::Paper, Prime::Mersenne61] {
            let p = prime.value();
            let affine = UniversalHash::new(1000, prime, vec![(3, 5), (p - 1, p - 2)]).unwrap();
            let polynomial = PolynomialHash::new(1000, prime, vec![vec![3, 5], vec![p - 1, p - 2]]).unwrap();
            for key in [0, 1, 7, p - 1, p, u64::MAX] {
                assert!(affine.positions(&key).eq(polynomial.positions(&key)));
            }
        }
    }

    #[test]
    fn coefficients_outside_the_field_are_refused() {
        let p = Prime::Paper.value();
        let refused = |cells, polynomials| PolynomialHash::new(cells, Prime::Paper, polynomials).unwrap_err();
        let coefficient = UniversalHashError::Coefficient { coefficient: p, prime: Prime::Paper };
        assert_eq!(refused(10, vec![vec![1, p]]), coefficient);
        assert_eq!(refused(10, vec![vec![1], vec![]]), UniversalHashError::NoPairs);
        assert_eq!(refused(10, vec![]), UniversalHashError::NoPairs);
        assert_eq!(refused(0, vec![vec![1]]), UniversalHashError::NoCells);
        assert_eq!(PolynomialHash::draw(10, Prime::Paper, 2, 0, || 1), Err(UniversalHashError::NoPairs));
    }

    #[test]
    fn no_two_functions_share_a_leading_coefficient() {
        // The draws, as 31-bit numbers. The second polynomial starts with 7, like the first, so it is drawn again.
        let mut words = [7, 1, 7, 2, 8, 3].map(|word: u64| word << 33).into_iter();
        let family = PolynomialHash::draw(10, Prime::Paper, 2, 2, || words.next().unwrap()).unwrap();
        assert_eq!(family.polynomials(), [[7, 1], [8, 3]]);
    }

    #[test]
    fn different_families_report_their_difference() {
        let with = |cells, prime, polynomials: &[&[u64]]| {
            PolynomialHash::new(cells, prime, polynomials.iter().map(|p| p.to_vec()).collect()).unwrap()
        };
        let ours = with(10, Prime::Paper, &[&[1, 2], &[3, 4]]);
        let others = [
            (with(11, Prime::Paper, &[&[1, 2], &[3, 4]]), "the number of cells m"),
            (with(10, Prime::Mersenne61, &[&[1, 2], &[3, 4]]), "the prime p"),
            (with(10, Prime::Paper, &[&[1, 2]]), "the number of hash functions k"),
            (with(10, Prime::Paper, &[&[1, 2], &[3, 4, 5]]), "the number of coefficients"),
            (with(10, Prime::Paper, &[&[1, 2], &[3, 5]]), "a coefficient"),
        ];
        for (theirs, what) in others {
            assert_eq!(ours.ensure_same(&theirs).unwrap_err().what, what);
        }
        assert_eq!(ours.ensure_same(&ours.clone()), Ok(()));
    }

    /// Modulo p, the second difference over three consecutive keys is 0 for every affine function, and uniform for
    /// random quadratic functions.
    #[test]
    fn three_coefficients_untie_three_keys() {
        let mut word = 1u64;
        let mut random = || {
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            word
        };
        let mut seen = |coefficients| {
            let mut seen = BTreeMap::new();
            for _ in 0..4000 {
                let hash = PolynomialHash::draw(1 << 40, Prime::Paper, 1, coefficients, &mut random).unwrap();
                let at = |key: u64| i128::from(hash.positions(&key).next().unwrap());
                let difference = (at(3) - 2 * at(2) + at(1)).rem_euclid(i128::from(Prime::Paper.value()));
                *seen.entry(difference * 4 / i128::from(Prime::Paper.value())).or_insert(0) += 1;
            }
            seen
        };
        assert_eq!(seen(2), BTreeMap::from([(0, 4000)]));
        assert!(seen(3).values().all(|&quarter| (900..1100).contains(&quarter)));
    }
}
