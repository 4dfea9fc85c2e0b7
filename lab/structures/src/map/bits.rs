//! The division of an answer into value bits and check bits.

use super::BuildError;

/// Maximum number of value bits.
pub const VALUE_BITS_MAX: u32 = 32;
/// Maximum number of check bits.
pub const CHECK_BITS_MAX: u32 = 32;

/// The bits of an answer: the value is in the low bits, with check bits above it. For a key that is not in the map, the
/// check bits match only by chance. A map without value bits is a set. A map without check bits has a value for every
/// key.
///
/// ```
/// use bruit_structures::map::MapBits;
///
/// let bits = MapBits::for_rate(8, 0.001)?;
/// assert_eq!((bits.value(), bits.check(), bits.total()), (8, 10, 18));
/// assert_eq!(bits.false_positive_rate(), 1.0 / 1024.0);
/// # Ok::<(), bruit_structures::map::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapBits {
    value: u32,
    check: u32,
}

impl MapBits {
    /// Creates a division into `value` value bits and `check` check bits.
    ///
    /// # Errors
    /// [`BuildError::Bits`] if both are 0, or one of them exceeds its maximum ([`VALUE_BITS_MAX`], [`CHECK_BITS_MAX`]).
    pub const fn new(value: u32, check: u32) -> Result<Self, BuildError> {
        if value > VALUE_BITS_MAX || check > CHECK_BITS_MAX || value + check == 0 {
            return Err(BuildError::Bits { value, check });
        }
        Ok(Self { value, check })
    }

    /// Creates a division with just enough check bits for a false-positive rate of at most `rate`.
    ///
    /// # Errors
    /// [`BuildError::Rate`] if the rate is below 2^-[`CHECK_BITS_MAX`], above 1 or NaN; otherwise as for
    /// [`new`](Self::new).
    pub fn for_rate(value: u32, rate: f64) -> Result<Self, BuildError> {
        let rate_min = (-f64::from(CHECK_BITS_MAX)).exp2();
        if !(rate_min..=1.0).contains(&rate) {
            return Err(BuildError::Rate { rate });
        }
        Self::new(value, (1.0 / rate).log2().ceil() as u32)
    }

    /// Returns the number of value bits.
    #[must_use]
    pub const fn value(self) -> u32 {
        self.value
    }

    /// Returns the number of check bits.
    #[must_use]
    pub const fn check(self) -> u32 {
        self.check
    }

    /// Returns the sum of value bits and check bits.
    #[must_use]
    pub const fn total(self) -> u32 {
        self.value + self.check
    }

    /// Returns the largest value.
    #[must_use]
    pub const fn value_max(self) -> u32 {
        ((1u64 << self.value) - 1) as u32
    }

    /// Returns the probability that a key outside the map has a value.
    #[must_use]
    pub fn false_positive_rate(self) -> f64 {
        (-f64::from(self.check)).exp2()
    }

    /// Panics if `value` does not fit in the value bits.
    pub(crate) fn assert_fit<'a>(self, values: impl IntoIterator<Item = &'a u32>) {
        let fit = values.into_iter().all(|&value| value <= self.value_max());
        assert!(fit, "the value does not fit in {} bits", self.value);
    }

    /// Returns a word with `value` in the low bits and the leading bits of `check` above it.
    #[inline(always)]
    pub(crate) const fn word(self, value: u32, check: u64) -> u64 {
        value as u64 | self.expected_check(check) << self.value
    }

    /// Returns the value in `word`, if the check bits above it are the leading bits of `check`.
    #[inline(always)]
    pub(crate) const fn value_in(self, word: u64, check: u64) -> Option<u32> {
        if self.is_checked(word, check) { Some(self.value_of(word)) } else { None }
    }

    /// Returns true if the check bits in `word` are the leading bits of `check`.
    #[inline(always)]
    pub(crate) const fn is_checked(self, word: u64, check: u64) -> bool {
        word >> self.value == self.expected_check(check)
    }

    /// Returns the value in `word`.
    #[inline(always)]
    pub(crate) const fn value_of(self, word: u64) -> u32 {
        word as u32 & self.value_max()
    }

    #[inline(always)]
    const fn expected_check(self, check: u64) -> u64 {
        // Shift in two steps, because a shift by 64 would overflow.
        check >> 1 >> (63 - self.check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_of_bits_are_kept() {
        assert!(MapBits::new(VALUE_BITS_MAX, CHECK_BITS_MAX).is_ok());
        assert!(MapBits::new(0, 1).is_ok() && MapBits::new(1, 0).is_ok());
        for (value, check) in [(0, 0), (VALUE_BITS_MAX + 1, 0), (0, CHECK_BITS_MAX + 1)] {
            assert_eq!(MapBits::new(value, check), Err(BuildError::Bits { value, check }));
        }
    }

    #[test]
    fn check_bits_follow_from_the_rate() {
        let check = |rate| MapBits::for_rate(1, rate).map(MapBits::check).ok();
        assert_eq!([0.5, 0.01, 1.0 / 256.0, 1e-6].map(check), [Some(1), Some(7), Some(8), Some(20)]);
        assert_eq!([1.0, 1.0 / 4_294_967_296.0].map(check), [Some(0), Some(CHECK_BITS_MAX)]);
    }

    #[test]
    fn invalid_rates_are_rejected() {
        let below = (1.0f64 / 4_294_967_296.0).next_down();
        for rate in [below, 0.0, -0.5, 1.0f64.next_up(), f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(MapBits::for_rate(8, rate), Err(BuildError::Rate { rate }));
        }
        let error = MapBits::for_rate(8, f64::NAN).unwrap_err();
        assert!(matches!(error, BuildError::Rate { rate } if rate.is_nan()), "{error}");
    }

    #[test]
    fn values_come_back_from_words_of_every_width() {
        for value_bits in [0, 1, 7, 32] {
            for check_bits in [0, 1, 9, 32] {
                let Ok(bits) = MapBits::new(value_bits, check_bits) else { continue };
                let check = 0xdead_beef_0bad_cafe;
                for value in [0, bits.value_max() / 3, bits.value_max()] {
                    let word = bits.word(value, check);
                    assert!(word.checked_shr(bits.total()).unwrap_or(0) == 0);
                    assert_eq!(bits.value_in(word, check), Some(value));
                    assert_eq!(bits.value_in(word, !check), (check_bits == 0).then_some(value));
                }
            }
        }
    }
}
