//! Little-endian numbers, the building blocks of all encodings of the engine.
//!
//! Writers append to a `Vec<u8>`. A [`Reader`] reads from a slice and never beyond its end.

use bruit_filters::Fingerprint;

/// Error for bytes that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The input ends too early.
    #[error("the input ends within {what}")]
    Truncated {
        /// Field that was being read.
        what: &'static str,
    },
    /// A number is out of its range.
    #[error("{what}: invalid value {value}")]
    OutOfRange {
        /// Field that was being read.
        what: &'static str,
        /// Value that was read.
        value: u64,
    },
    /// Bytes follow the expected end.
    #[error("{bytes} unexpected bytes after the end")]
    Trailing {
        /// Number of extra bytes.
        bytes: usize,
    },
}

/// Reads numbers from the front of a slice.
#[derive(Clone, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Creates a reader at the start of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the number of bytes left.
    #[must_use]
    pub const fn left(&self) -> usize {
        self.0.len()
    }

    /// Reads the next `length` bytes.
    ///
    /// # Errors
    /// [`Malformed::Truncated`] if fewer bytes are left.
    pub fn bytes(&mut self, length: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed::Truncated { what })?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads the next `N` bytes.
    ///
    /// # Errors
    /// See [`bytes`](Self::bytes).
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed::Truncated { what })?;
        self.0 = rest;
        Ok(*taken)
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// See [`bytes`](Self::bytes).
    pub fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        self.array(what).map(u8::from_le_bytes)
    }

    /// Reads two bytes.
    ///
    /// # Errors
    /// See [`bytes`](Self::bytes).
    pub fn u16(&mut self, what: &'static str) -> Result<u16, Malformed> {
        self.array(what).map(u16::from_le_bytes)
    }

    /// Reads four bytes.
    ///
    /// # Errors
    /// See [`bytes`](Self::bytes).
    pub fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// Reads eight bytes.
    ///
    /// # Errors
    /// See [`bytes`](Self::bytes).
    pub fn u64(&mut self, what: &'static str) -> Result<u64, Malformed> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Reads an item count. Checks that the rest of the input is long enough for that many items, at `bytes_each`
    /// bytes or more per item.
    ///
    /// # Errors
    /// [`Malformed::OutOfRange`] if the number exceeds `most`; [`Malformed::Truncated`] if the rest of the input is too
    /// short.
    pub fn count(&mut self, most: usize, bytes_each: usize, what: &'static str) -> Result<usize, Malformed> {
        let value = u64::from(self.u32(what)?);
        let count = usize::try_from(value).ok().filter(|&count| count <= most);
        let count = count.ok_or(Malformed::OutOfRange { what, value })?;
        if count.saturating_mul(bytes_each) > self.left() {
            return Err(Malformed::Truncated { what });
        }
        Ok(count)
    }

    /// Reads a fingerprint: first its leading 64 bits, then its trailing 64 bits.
    ///
    /// # Errors
    /// See [`bytes`](Self::bytes).
    pub fn fingerprint(&mut self, what: &'static str) -> Result<Fingerprint, Malformed> {
        Ok(Fingerprint::new(self.u64(what)?, self.u64(what)?))
    }

    /// Checks that all bytes have been read.
    ///
    /// # Errors
    /// [`Malformed::Trailing`] if not.
    pub const fn finish(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed::Trailing { bytes: self.0.len() }) }
    }
}

/// Appends a fingerprint in the form that [`Reader::fingerprint`] reads.
pub fn put_fingerprint(out: &mut Vec<u8>, fingerprint: Fingerprint) {
    out.extend(fingerprint.high().to_le_bytes());
    out.extend(fingerprint.low().to_le_bytes());
}

/// Appends a number of items in the form that [`Reader::count`] reads.
///
/// # Panics
/// If the number does not fit in 32 bits. All limits of the engine are far below that.
pub fn put_count(out: &mut Vec<u8>, count: usize) {
    out.extend(u32::try_from(count).expect("counts are bounded").to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_are_read_back() {
        let mut bytes = vec![7];
        put_count(&mut bytes, 2);
        put_fingerprint(&mut bytes, Fingerprint::new(1 << 63, 5));
        bytes.extend([1, 2]);
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.u8("byte"), Ok(7));
        assert_eq!(reader.count(2, 9, "things"), Ok(2));
        assert_eq!(reader.fingerprint("fingerprint"), Ok(Fingerprint::new(1 << 63, 5)));
        assert_eq!(reader.clone().finish(), Err(Malformed::Trailing { bytes: 2 }));
        assert_eq!(reader.u32("four"), Err(Malformed::Truncated { what: "four" }));
        assert_eq!(reader.bytes(2, "two"), Ok(&[1, 2][..]));
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn impossible_counts_are_refused_before_allocation() {
        let bytes = [9, 0, 0, 0, 1, 2, 3];
        assert_eq!(Reader::new(&bytes).count(8, 0, "n"), Err(Malformed::OutOfRange { what: "n", value: 9 }));
        assert_eq!(Reader::new(&bytes).count(9, 1, "n"), Err(Malformed::Truncated { what: "n" }));
    }
}
