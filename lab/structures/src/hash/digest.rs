//! The digest-chunk constructions in §3 of the paper: the i-th of k equal chunks of a digest selects the i-th position.
//!
//! This family is for study. A chunk of few bits cannot address every cell of a large array. The paper shades the
//! unreachable cells in Figure 1(b) for the whole-array form, and in Figure 2 for the partitioned form. Creating a
//! family with unreachable cells logs a warning. [`HashFamily::utilisable_size`] returns how many cells can be reached,
//! and [`DigestChunks::unreachable_cells`] how many cannot.

use std::fmt;

use md5::Md5;
use sha1::Sha1;

use bruit_filters::Mismatch;
use bruit_filters::hash::HashFamily;
use bruit_filters::internal::ensure_equal;

/// A family whose positions are the k chunks of a digest. Each chunk is reduced modulo the number of cells that it
/// selects from.
///
/// ```
/// use bruit_filters::hash::HashFamily;
/// use bruit_structures::hash::{Digest, DigestChunks};
///
/// // Eight chunks of 16 bits reach only 2^16 of a million cells.
/// let family = DigestChunks::whole_array(Digest::Md5, 8, 1_000_000)?;
/// assert_eq!(family.utilisable_size(), 65_536);
/// assert_eq!(family.unreachable_cells(), 934_464);
///
/// // MD5("abc") = 9001 5098 3cd2 4fb0 d696 3f7d 28e1 7f72
/// let first = family.positions(&Digest::Md5.of(b"abc")).next();
/// assert_eq!(first, Some(0x9001));
/// # Ok::<(), bruit_structures::hash::DigestChunksError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestChunks {
    digest: Digest,
    hashes: u32,
    cells: u64,
    partitioned: bool,
}

impl DigestChunks {
    /// Creates the family of Figure 1: h_i(x) = (the i-th of k = `hashes` chunks) mod m, over all m = `cells` cells.
    ///
    /// # Errors
    /// An error if k does not divide the number of bits of the digest, or `cells` is 0.
    pub fn whole_array(digest: Digest, hashes: u32, cells: u64) -> Result<Self, DigestChunksError> {
        Self::new(digest, hashes, cells, false)
    }

    /// Creates the family of Figure 2: h_i(x) = (the i-th of k = `hashes` chunks) mod ⌊m/k⌋, within the i-th of k
    /// partitions.
    ///
    /// The last m mod k cells belong to no partition.
    ///
    /// # Errors
    /// An error if k does not divide the number of bits of the digest, or a partition would have no cell.
    pub fn partitioned(digest: Digest, hashes: u32, cells: u64) -> Result<Self, DigestChunksError> {
        Self::new(digest, hashes, cells, true)
    }

    fn new(digest: Digest, hashes: u32, cells: u64, partitioned: bool) -> Result<Self, DigestChunksError> {
        if hashes == 0 || !digest.bits().is_multiple_of(hashes) {
            return Err(DigestChunksError::Hashes { hashes, digest });
        }
        let family = Self { digest, hashes, cells, partitioned };
        if family.reach() == 0 {
            return Err(DigestChunksError::Cells { cells });
        }
        family.warn_of_unreachable_cells();
        Ok(family)
    }

    /// Returns the digest whose chunks select the positions.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the number of cells that no key can reach.
    #[must_use]
    pub fn unreachable_cells(&self) -> u64 {
        self.cells - self.utilisable_size()
    }

    fn warn_of_unreachable_cells(&self) {
        if self.unreachable_cells() == 0 {
            return;
        }
        tracing::warn!(
            digest = %self.digest,
            hashes = self.hashes,
            cells = self.cells,
            utilisable_size = self.utilisable_size(),
            "the digest chunks are too short to reach every cell",
        );
    }

    const fn chunk_bits(&self) -> u32 {
        self.digest.bits() / self.hashes
    }

    /// Returns the number of cells that one chunk selects from.
    fn reach(&self) -> u64 {
        if self.partitioned { self.cells / u64::from(self.hashes) } else { self.cells }
    }
}

impl HashFamily for DigestChunks {
    type Key = DigestBytes;

    fn cells(&self) -> u64 {
        self.cells
    }

    fn hashes(&self) -> u32 {
        self.hashes
    }

    /// # Panics
    /// If `key` was not computed with the digest of this family.
    fn positions(&self, key: &DigestBytes) -> impl Iterator<Item = u64> {
        assert_eq!(key.digest, self.digest, "the key must be a digest of the same kind as the family");
        let (bits, reach) = (self.chunk_bits(), self.reach());
        (0..self.hashes).map(move |i| {
            let start = if self.partitioned { u64::from(i) * reach } else { 0 };
            start + key.field_modulo(i * bits, bits, reach)
        })
    }

    fn ensure_same(&self, other: &Self) -> Result<(), Mismatch> {
        ensure_equal("the digest", &self.digest, &other.digest)?;
        ensure_equal("the number of cells m", &self.cells, &other.cells)?;
        ensure_equal("the number of hash functions k", &self.hashes, &other.hashes)?;
        ensure_equal("the partitioned flag", &self.partitioned, &other.partitioned)
    }

    /// Returns min(m, 2^(bits/k)) for the whole array, or k·min(⌊m/k⌋, 2^(bits/k)) with one partition per chunk.
    fn utilisable_size(&self) -> u64 {
        let values = 1u64.checked_shl(self.chunk_bits()).unwrap_or(u64::MAX);
        let reached = self.reach().min(values);
        if self.partitioned { reached * u64::from(self.hashes) } else { reached }
    }
}

/// A message digest for a [`DigestChunks`] family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digest {
    /// 128 bits.
    Md5,
    /// SHA-1, 160 bits. Razor's signatures use it.
    Sha1,
}

impl Digest {
    /// Returns the length of the digest in bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Md5 => 128,
            Self::Sha1 => 160,
        }
    }

    /// Returns the digest of `message`.
    #[must_use]
    pub fn of(self, message: &[u8]) -> DigestBytes {
        use sha1::Digest as _;
        match self {
            Self::Md5 => <[u8; 16]>::from(Md5::digest(message)).into(),
            Self::Sha1 => <[u8; 20]>::from(Sha1::digest(message)).into(),
        }
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Md5 => "MD5",
            Self::Sha1 => "SHA-1",
        })
    }
}

/// Length of the longest digest, in bytes.
const BYTES_MAX: usize = 20;
/// Number of bits processed in one step of the reduction.
const PIECE_BITS: u32 = 64;
/// Number of bytes that are enough for a whole piece, even if it starts in the middle of the first byte.
const WINDOW_BYTES: u32 = PIECE_BITS / 8 + 1;

/// The digest of a message. It is the key of a [`DigestChunks`] family.
///
/// Created by [`Digest::of`], or converted from the bytes of a signature that is already a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestBytes {
    digest: Digest,
    bytes: [u8; BYTES_MAX],
}

impl From<[u8; 16]> for DigestBytes {
    /// Converts the bytes of an MD5 digest.
    fn from(md5: [u8; 16]) -> Self {
        let mut bytes = [0; BYTES_MAX];
        bytes[..16].copy_from_slice(&md5);
        Self { digest: Digest::Md5, bytes }
    }
}

impl From<[u8; 20]> for DigestBytes {
    /// Converts the bytes of a SHA-1 digest.
    fn from(sha1: [u8; 20]) -> Self {
        Self { digest: Digest::Sha1, bytes: sha1 }
    }
}

impl DigestBytes {
    /// Returns the kind of digest.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the big-endian number in the `length` bits that begin at bit `start`, modulo `modulus`.
    pub(super) fn field_modulo(&self, start: u32, length: u32, modulus: u64) -> u64 {
        let end = start + length;
        let mut remainder = 0;
        for from in (start..end).step_by(PIECE_BITS as usize) {
            let bits = PIECE_BITS.min(end - from);
            // The remainder is below 2^64, so the shifted sum fits for every modulus.
            let shifted = u128::from(remainder) << bits | u128::from(self.field(from, bits));
            remainder = (shifted % u128::from(modulus)) as u64;
        }
        remainder
    }

    /// Returns the big-endian number in the `length` bits (at most 64) that begin at bit `start`.
    pub(super) fn field(&self, start: u32, length: u32) -> u64 {
        let from = (start / 8) as usize;
        let after = self.bytes[from..].iter().chain(std::iter::repeat(&0));
        let window = after.take(WINDOW_BYTES as usize).fold(0u128, |window, &byte| window << 8 | u128::from(byte));
        let aligned = window >> (WINDOW_BYTES * 8 - start % 8 - length);
        aligned as u64 & (u64::MAX >> (PIECE_BITS - length))
    }
}

/// The reason why the parameters of a [`DigestChunks`] family are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DigestChunksError {
    /// The digest does not split into k equal chunks.
    #[error("the {} bits of {digest} cannot be divided evenly among {hashes} hash functions", .digest.bits())]
    Hashes {
        /// k, the number of chunks.
        hashes: u32,
        /// Digest to split.
        digest: Digest,
    },
    /// A chunk would have no cell to select.
    #[error("{cells} cells are too few: a chunk of the digest would have no cell to select")]
    Cells {
        /// m, the number of cells.
        cells: u64,
    },
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;
    use tracing::subscriber::with_default;
    use tracing::{Event, Level, Metadata, Subscriber, span};

    use super::*;

    fn positions(family: &DigestChunks, message: &[u8]) -> Vec<u64> {
        family.positions(&family.digest.of(message)).collect()
    }

    #[test]
    fn md5_chunks_of_abc_are_known() {
        // A test vector of RFC 1321, A.5.
        let family = DigestChunks::whole_array(Digest::Md5, 4, 1 << 40).unwrap();
        assert_eq!(positions(&family, b"abc"), [0x9001_5098, 0x3cd2_4fb0, 0xd696_3f7d, 0x28e1_7f72]);
    }

    #[test]
    fn sha1_chunks_of_abc_are_known() {
        // A test vector of RFC 3174, §7.3.
        let family = DigestChunks::whole_array(Digest::Sha1, 8, 1 << 20).unwrap();
        let expected = [0xa9993, 0xe3647, 0x06816, 0xaba3e, 0x25717, 0x850c2, 0x6c9cd, 0x0d89d];
        assert_eq!(positions(&family, b"abc"), expected);
    }

    #[test]
    fn chunks_need_not_be_whole_bytes() {
        let family = DigestChunks::whole_array(Digest::Sha1, 32, 32).unwrap();
        // a9993e3647 in groups of five bits: 10101 00110 01100 10011 11100 01101 10010 00111
        assert_eq!(positions(&family, b"abc")[..8], [21, 6, 12, 19, 28, 13, 18, 7]);
        let family = DigestChunks::whole_array(Digest::Md5, 64, 4).unwrap();
        // 9001 in groups of two bits.
        assert_eq!(positions(&family, b"abc")[..8], [2, 1, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_chunk_may_be_the_whole_digest() {
        let of_md5 = DigestChunks::whole_array(Digest::Md5, 1, 1_000_003).unwrap();
        let md5 = 0x9001_5098_3cd2_4fb0_d696_3f7d_28e1_7f72_u128;
        assert_eq!(u128::from(positions(&of_md5, b"abc")[0]), md5 % 1_000_003);
        // a9993e36_4706816a_ba3e2571_7850c26c_9cd0d89d mod 1,000,003, computed separately with big integers.
        let of_sha1 = DigestChunks::whole_array(Digest::Sha1, 1, 1_000_003).unwrap();
        assert_eq!(positions(&of_sha1, b"abc"), [629_791]);
    }

    #[test]
    fn each_chunk_stays_in_its_partition() {
        let family = DigestChunks::partitioned(Digest::Md5, 8, 83).unwrap();
        // The chunks of MD5("abc") modulo 10. Each chunk has ten cells of its own to select from.
        let chunks = [0x9001, 0x5098, 0x3cd2, 0x4fb0, 0xd696, 0x3f7d, 0x28e1, 0x7f72];
        let expected = std::array::from_fn::<u64, 8, _>(|i| i as u64 * 10 + chunks[i] % 10);
        assert_eq!(positions(&family, b"abc"), expected);
        assert_eq!(family.unreachable_cells(), 3);
    }

    #[test]
    fn counts_of_chunks_that_do_not_divide_the_digest_are_refused() {
        let refused = |digest, hashes| DigestChunks::whole_array(digest, hashes, 100);
        assert_eq!(refused(Digest::Md5, 0), Err(DigestChunksError::Hashes { hashes: 0, digest: Digest::Md5 }));
        assert_eq!(refused(Digest::Md5, 5), Err(DigestChunksError::Hashes { hashes: 5, digest: Digest::Md5 }));
        assert_eq!(refused(Digest::Sha1, 64), Err(DigestChunksError::Hashes { hashes: 64, digest: Digest::Sha1 }));
        assert!(refused(Digest::Sha1, 5).is_ok());
    }

    #[test]
    fn a_chunk_without_cells_is_refused() {
        assert_eq!(DigestChunks::whole_array(Digest::Md5, 8, 0), Err(DigestChunksError::Cells { cells: 0 }));
        assert_eq!(DigestChunks::partitioned(Digest::Md5, 8, 7), Err(DigestChunksError::Cells { cells: 7 }));
        assert!(DigestChunks::partitioned(Digest::Md5, 8, 8).is_ok());
    }

    #[test]
    #[should_panic(expected = "a digest of the same kind")]
    fn a_digest_of_another_kind_is_rejected() {
        let family = DigestChunks::whole_array(Digest::Md5, 8, 100).unwrap();
        let _ = family.positions(&Digest::Sha1.of(b"abc"));
    }

    #[test]
    fn different_families_report_their_difference() {
        let ours = DigestChunks::whole_array(Digest::Md5, 8, 160).unwrap();
        let others = [
            (DigestChunks::whole_array(Digest::Sha1, 8, 160), "the digest"),
            (DigestChunks::whole_array(Digest::Md5, 8, 161), "the number of cells m"),
            (DigestChunks::whole_array(Digest::Md5, 4, 160), "the number of hash functions k"),
            (DigestChunks::partitioned(Digest::Md5, 8, 160), "the partitioned flag"),
        ];
        for (theirs, what) in others {
            assert_eq!(ours.ensure_same(&theirs.unwrap()).unwrap_err().what, what);
        }
        assert_eq!(ours.ensure_same(&ours.clone()), Ok(()));
    }

    #[test]
    fn only_a_family_with_unreachable_cells_warns() {
        let warnings = Warnings::default();
        with_default(warnings.clone(), || DigestChunks::whole_array(Digest::Md5, 8, 1 << 16)).unwrap();
        assert_eq!(warnings.0.load(Ordering::Relaxed), 0);
        with_default(warnings.clone(), || DigestChunks::whole_array(Digest::Md5, 8, (1 << 16) + 1)).unwrap();
        assert_eq!(warnings.0.load(Ordering::Relaxed), 1);
    }

    /// Counts log events with level `warn`.
    #[derive(Clone, Default)]
    struct Warnings(Arc<AtomicUsize>);

    impl Subscriber for Warnings {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() == Level::WARN
        }
        fn event(&self, _: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn chunks_equal_a_bit_by_bit_reduction(bytes: [u8; 20], cells in 1..=u64::MAX) {
            let key = DigestBytes::from(bytes);
            for hashes in (1..=160).filter(|hashes| 160 % hashes == 0) {
                let family = DigestChunks::whole_array(Digest::Sha1, hashes, cells).unwrap();
                let width = 160 / hashes as usize;
                let bit_by_bit: Vec<u64> = (0..hashes as usize)
                    .map(|i| (i * width..(i + 1) * width).map(|bit| bytes[bit / 8] >> (7 - bit % 8) & 1))
                    .map(|bits| bits.fold(0u128, |sum, bit| (2 * sum + u128::from(bit)) % u128::from(cells)) as u64)
                    .collect();
                prop_assert_eq!(family.positions(&key).collect::<Vec<_>>(), bit_by_bit);
            }
        }
    }
}
