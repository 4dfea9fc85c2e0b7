//! Bit streams of Golomb codes.
//!
//! The Golomb code of v with divisor M consists of ⌊v / M⌋ zeros, a one, and v mod M in ⌊log2 M⌋ bits or one more. For
//! gaps between independent events, no code with a whole number of bits per gap is shorter on average. If M is a power
//! of two, the code is also called a Rice code. For example, if one position in 17 has an event, Rice codes need 2 %
//! more bits than the entropy, and Golomb codes 0.5 % more.

use crate::file::FileError;

/// Minimum number of bits that a peek returns.
const PEEK_BITS: u32 = 57;

/// Number of values in the sample that is used to compare divisors.
const SAMPLE: usize = 1024;

/// A Golomb code, identified by a byte.
///
/// The divisors are 1, 2 and 3, and then four between each power of two and the next: (4 + p mod 4) · 2^(p/4 − 1) for
/// byte p.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code {
    parameter: u8,
    divisor: u64,
    /// ⌊log2 divisor⌋.
    bits: u32,
    /// Remainders below this value have `bits` bits, the others one more.
    short_rests: u64,
}

impl Code {
    /// Largest byte that identifies a code. The divisor of this code is 7 · 2^61.
    pub(crate) const PARAMETER_MAX: u8 = 251;

    pub(crate) fn new(parameter: u8) -> Result<Self, FileError> {
        if !(1..=Self::PARAMETER_MAX).contains(&parameter) {
            return Err(FileError::invalid("the parameter of a code", parameter));
        }
        let divisor = match parameter {
            0..8 => u64::from(parameter),
            _ => u64::from(4 + parameter % 4) << (parameter / 4 - 1),
        };
        let bits = divisor.ilog2();
        // 2^(bits + 1) overflows for the largest divisors, but the difference fits.
        let short_rests = (1u64 << bits).wrapping_mul(2).wrapping_sub(divisor);
        Ok(Self { parameter, divisor, bits, short_rests })
    }

    /// Returns the Rice code with divisor 2^`bits`, for 2 to 63 bits.
    pub(crate) fn rice(bits: u32) -> Self {
        Self::new((4 * (bits - 1)) as u8).expect("2 to 63 bits have a parameter")
    }

    /// Returns a code that needs nearly the fewest bits for `values`.
    pub(crate) fn best<T: Copy + Into<u64>>(values: &[T]) -> Self {
        let sum: u128 = values.iter().map(|&value| u128::from(value.into())).sum();
        // For gaps of mean g between independent events the best divisor is about (g + 1/2) · ln 2.
        let divisor = (sum as f64 / values.len().max(1) as f64 + 0.5) * std::f64::consts::LN_2;
        let middle = parameter_near(divisor);
        let near = middle.saturating_sub(2).max(1)..=(middle + 2).min(Self::PARAMETER_MAX);
        let codes = near.map(|parameter| Self::new(parameter).expect("the parameter is in range"));
        codes.min_by_key(|code| code.sample_bits(values)).expect("there are codes to choose from")
    }

    /// Returns the number of bits for a sample of `values`.
    fn sample_bits<T: Copy + Into<u64>>(&self, values: &[T]) -> u64 {
        let step = (values.len() / SAMPLE).max(1);
        values.iter().step_by(step).fold(0, |sum, &value| sum.saturating_add(self.length(value.into())))
    }

    /// Returns the number of bits for `value`.
    fn length(&self, value: u64) -> u64 {
        let (quotient, rest) = (value / self.divisor, value % self.divisor);
        quotient.saturating_add(1 + u64::from(self.bits) + u64::from(rest >= self.short_rests))
    }

    /// Returns the byte that identifies the code.
    pub(crate) const fn parameter(&self) -> u8 {
        self.parameter
    }
}

/// Returns the byte of the code with about this divisor.
fn parameter_near(divisor: f64) -> u8 {
    let divisor = divisor.max(1.0) as u64;
    let octave = divisor.ilog2();
    let parameter = if octave < 2 { divisor } else { u64::from(4 * (octave - 1)) + (divisor >> (octave - 2)) % 4 };
    (parameter as u8).min(Code::PARAMETER_MAX)
}

/// Writes bits, starting with the least significant bit of each byte.
#[derive(Default)]
pub(crate) struct BitWriter {
    bytes: Vec<u8>,
    buffer: u64,
    used: u32,
}

impl BitWriter {
    /// Appends the low `length` bits of `bits`, whose higher bits must be zero. `length` must be below 64.
    #[inline]
    fn put(&mut self, bits: u64, length: u32) {
        self.buffer |= bits << self.used;
        let used = self.used + length;
        if used >= 64 {
            self.bytes.extend_from_slice(&self.buffer.to_le_bytes());
            self.buffer = bits.checked_shr(64 - self.used).unwrap_or(0);
        }
        self.used = used % 64;
    }

    /// Appends the code of `value`.
    #[inline]
    pub(crate) fn put_code(&mut self, value: u64, code: Code) {
        let (quotient, rest) = (value / code.divisor, value % code.divisor);
        let (rest, length) = if rest < code.short_rests {
            (rest, code.bits)
        } else {
            // Long remainders have an additional bit, which is written last.
            let long = rest + code.short_rests;
            (long >> 1 | (long & 1) << code.bits, code.bits + 1)
        };
        if quotient + u64::from(length) < u64::from(PEEK_BITS) {
            let quotient = quotient as u32;
            self.put((rest << 1 | 1) << quotient, quotient + 1 + length);
        } else {
            (0..quotient).for_each(|_| self.put(0, 1));
            self.put(1, 1);
            self.put(rest & u64::from(u32::MAX), length.min(32));
            self.put(rest >> 32, length.saturating_sub(32));
        }
    }

    /// Returns all bytes, with the last one padded with zeros.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let rest = self.buffer.to_le_bytes();
        self.bytes.extend_from_slice(&rest[..self.used.div_ceil(8) as usize]);
        self.bytes
    }
}

/// Reads the output of [`BitWriter`].
pub(crate) struct BitReader {
    /// The stream, followed by eight zeros so that a peek always finds eight bytes.
    bytes: Vec<u8>,
    position: usize,
    end: usize,
}

impl BitReader {
    pub(crate) fn new(mut bytes: Vec<u8>) -> Self {
        let end = bytes.len() * 8;
        bytes.extend_from_slice(&[0; 8]);
        Self { bytes, position: 0, end }
    }

    /// Returns the next bits, at least [`PEEK_BITS`]. Bits after the end of the stream are zeros. Returns `None` if the
    /// position is far beyond the end.
    #[inline]
    fn peek(&self) -> Option<u64> {
        let bytes = self.bytes.get(self.position / 8..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes) >> (self.position % 8))
    }

    /// Reads the next code and returns its value.
    #[inline]
    pub(crate) fn take_code(&mut self, code: Code) -> Result<u64, FileError> {
        let bits = self.peek().ok_or(FileError::Truncated)?;
        let quotient = bits.trailing_zeros();
        if quotient + code.bits + 1 >= PEEK_BITS {
            return self.take_long_code(code);
        }
        let bits = bits >> (quotient + 1);
        let short = bits & !(u64::MAX << code.bits);
        let is_long = short >= code.short_rests;
        let long = (short << 1 | bits >> code.bits & 1).wrapping_sub(code.short_rests);
        self.position += (quotient + 1 + code.bits) as usize + usize::from(is_long);
        // No overflow: the remainder and the divisor are below 2^57, and the quotient is below 64.
        Ok(u64::from(quotient) * code.divisor + if is_long { long } else { short })
    }

    /// Reads a code that is too long for a single peek.
    fn take_long_code(&mut self, code: Code) -> Result<u64, FileError> {
        let mut quotient = 0u64;
        while self.take_bit()? == 0 {
            quotient += 1;
        }
        let mut rest = 0;
        for bit in 0..code.bits {
            rest |= self.take_bit()? << bit;
        }
        if rest >= code.short_rests {
            rest = u64::wrapping_sub(rest << 1 | self.take_bit()?, code.short_rests);
        }
        let value = quotient.checked_mul(code.divisor).and_then(|value| value.checked_add(rest));
        value.ok_or_else(|| FileError::invalid("the quotient of a code", quotient))
    }

    fn take_bit(&mut self) -> Result<u64, FileError> {
        if self.position >= self.end {
            return Err(FileError::Truncated);
        }
        let bit = self.peek().ok_or(FileError::Truncated)? & 1;
        self.position += 1;
        Ok(bit)
    }

    /// Returns the number of bytes read. Fails if the stream was read beyond its end, or if the unread bits of the last
    /// byte are not zero.
    pub(crate) fn whole_bytes(&self) -> Result<usize, FileError> {
        if self.position > self.end {
            return Err(FileError::Truncated);
        }
        let bytes = self.position.div_ceil(8);
        let rest = self.peek().unwrap_or(0) & !(u64::MAX << (8 * bytes - self.position));
        if rest == 0 { Ok(bytes) } else { Err(FileError::invalid("the end of a stream of codes", rest)) }
    }

    /// Fails if the stream was read beyond its end, or if more follows than the zero padding of its last byte.
    pub(crate) fn finish(self) -> Result<(), FileError> {
        let left = self.end / 8 - self.whole_bytes()?;
        if left == 0 { Ok(()) } else { Err(FileError::invalid("the bytes after a stream of codes", left as u64)) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn code(parameter: u8) -> Code {
        Code::new(parameter).unwrap()
    }

    fn written(values: &[u64], parameter: u8) -> Vec<u8> {
        let mut writer = BitWriter::default();
        values.iter().for_each(|&value| writer.put_code(value, code(parameter)));
        writer.finish()
    }

    #[test]
    fn divisors_are_as_documented() {
        let divisors: Vec<u64> = (1..=16).map(|parameter| code(parameter).divisor).collect();
        assert_eq!(divisors, [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32]);
        assert_eq!(code(Code::PARAMETER_MAX).divisor, 7 << 61);
        assert!((2..=63).all(|bits| Code::rice(bits).divisor == 1 << bits));
        assert!(Code::new(0).is_err() && Code::new(252).is_err());
        assert!(
            (1..=Code::PARAMETER_MAX)
                .all(|parameter| parameter_near(code(parameter).divisor as f64).abs_diff(parameter) <= 1)
        );
    }

    #[test]
    fn the_code_is_as_documented() {
        // Divisor 1: 0 is "1", 2 is "001". Divisor 2: 5 is "001", then "1".
        assert_eq!(written(&[0, 2], 1), [0b1001]);
        assert_eq!(written(&[5], 2), [0b1100]);
        // Divisor 5: remainders 0, 1 and 2 have two bits. Remainder 3 is written as 6, "110", with the last bit written
        // last: first "11", then "0".
        assert_eq!(written(&[2], 5), [0b101]);
        assert_eq!(written(&[3], 5), [0b0111]);
        assert_eq!(written(&[9], 5), [0b11110]);
    }

    #[test]
    fn a_stream_without_a_one_is_rejected() {
        let mut reader = BitReader::new(vec![0; 1000]);
        assert!(matches!(reader.take_code(code(12)), Err(FileError::Truncated)));
    }

    #[test]
    fn a_value_that_no_number_holds_is_refused() {
        let mut reader = BitReader::new([vec![0; 1], vec![0xff; 20]].concat());
        assert!(matches!(reader.take_code(code(248)), Err(FileError::InvalidField { .. })));
    }

    #[test]
    fn left_over_bits_are_refused() {
        for (bytes, fine) in [(vec![1], true), (vec![1, 0], false), (vec![3], false)] {
            let mut reader = BitReader::new(bytes);
            reader.take_code(code(1)).unwrap();
            assert_eq!(reader.finish().is_ok(), fine);
        }
    }

    proptest! {
        #[test]
        fn codes_come_back(values in vec((any::<u64>(), 0..64u32), 0..100), parameter in 1..=Code::PARAMETER_MAX) {
            // Quotients of up to 2^10 include long codes but keep the test fast.
            let top = code(parameter).divisor.saturating_mul(1 << 10);
            let values: Vec<u64> = values.into_iter().map(|(value, shift)| (value >> shift).min(top)).collect();
            let mut reader = BitReader::new(written(&values, parameter));
            for &value in &values {
                prop_assert_eq!(reader.take_code(code(parameter)).unwrap(), value);
            }
            prop_assert!(reader.finish().is_ok());
        }

        #[test]
        fn hardly_any_code_is_shorter_than_the_best(values in vec(0..100_000u32, 1..200), shift in 0..17u32) {
            let values: Vec<u32> = values.into_iter().map(|value| value >> shift).collect();
            let best = Code::best(&values).sample_bits(&values);
            let least = (1..80).map(|parameter| code(parameter).sample_bits(&values)).min().unwrap();
            prop_assert!(best as f64 <= least as f64 * 1.1, "{best} bits, but {least} are possible");
        }
    }
}
