//! Encoding of a page as file content. The span, the length and the checksum are handled by [`pages`](crate::pages).
//!
//! | bytes | meaning |
//! |---|---|
//! | 2 | the version, 1 |
//! | 2 | zeros |
//! | 4, 4 | bytes per block; number of levels |
//! | 16 | the key |
//! | 8, 8, 8, 8 | [`Counts`]: payloads, short payloads, bytes, payloads of unlisted pairs |
//! | 4 | blocks in the longest payload |
//! | 4 | the number of pairs |
//! | 8, 8 | the lengths of the two filters |
//! | … | the pairs: source, destination, first second, last second |
//! | … | offset digests, then payload digests, each a filter file (`docs/design/filter-files.md`) without its key |
//!
//! Numbers are little-endian. A host is a type byte and a value: `4` and an address of 4 bytes, `6` and an address of
//! 16 bytes, `@` and a name after its two-byte length, or `?` without a value.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bruit_filters::FingerprintKey;
use bruit_filters::bloom::OneLineFilter;
use bruit_filters::file::{self, FileError};
use bruit_structures::blocks::{BlockFilter, BlockShape, Digester, PAYLOAD_BYTES_MAX, ShapeError};

use super::pairs::Pairs;
use super::{Counts, Host, ListedPair, NAME_BYTES_MAX, PAIRS_MAX, Page, Pair};
use crate::pages::Span;

/// Maximum size of a page, both when writing and when reading.
pub const PAGE_BYTES_MAX: u64 = 1 << 32;

const VERSION: u16 = 1;

/// An error in the encoding of a page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageBytesError {
    /// The data ends too early.
    #[error("truncated page")]
    Truncated,
    /// The version is not supported.
    #[error("version {0} is not supported, only {VERSION}")]
    UnsupportedVersion(u16),
    /// A field has a value that no writer produces.
    #[error("invalid: {0}")]
    Invalid(&'static str),
    /// The shape of the blocks is invalid.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A filter is invalid.
    #[error("invalid filter: {0}")]
    Filter(#[from] FileError),
}

impl Page {
    /// Encodes the page.
    ///
    /// # Errors
    /// An error if a filter cannot be encoded.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PageBytesError> {
        let mut filters = Vec::new();
        file::encode(self.offsets.filter(), &file::Label::default(), &mut filters)?;
        let offsets_bytes = filters.len() as u64;
        file::encode(&self.payloads, &file::Label::default(), &mut filters)?;
        let mut out = Vec::with_capacity(128 + self.pairs().len() * 32 + filters.len());
        self.put_head(offsets_bytes, filters.len() as u64 - offsets_bytes, &mut out);
        self.pairs().iter().for_each(|listed| put_listed(listed, &mut out));
        out.extend_from_slice(&filters);
        Ok(out)
    }

    fn put_head(&self, offsets_bytes: u64, payloads_bytes: u64, out: &mut Vec<u8>) {
        let shape = self.offsets.shape();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&shape.block_bytes().to_le_bytes());
        out.extend_from_slice(&shape.levels().to_le_bytes());
        out.extend_from_slice(self.key.as_bytes());
        let Counts { payloads, short, bytes, unlisted } = self.counts;
        [payloads, short, bytes, unlisted].iter().for_each(|count| out.extend_from_slice(&count.to_le_bytes()));
        out.extend_from_slice(&(self.offsets.longest_blocks() as u32).to_le_bytes());
        out.extend_from_slice(&(self.pairs().len() as u32).to_le_bytes());
        out.extend_from_slice(&offsets_bytes.to_le_bytes());
        out.extend_from_slice(&payloads_bytes.to_le_bytes());
    }

    /// Decodes a page that covers `span`. Allocates memory only for bytes that exist, whatever length a field claims.
    ///
    /// # Errors
    /// [`PageBytesError`].
    pub fn from_bytes(span: Span, bytes: &[u8]) -> Result<Self, PageBytesError> {
        let mut input = Input(bytes);
        match input.u16()? {
            VERSION => input.u16()?,
            version => return Err(PageBytesError::UnsupportedVersion(version)),
        };
        let shape = BlockShape::new(input.u32()?, input.u32()?)?;
        let key = FingerprintKey::new(*input.take()?);
        let counts =
            Counts { payloads: input.u64()?, short: input.u64()?, bytes: input.u64()?, unlisted: input.u64()? };
        let longest_blocks = input.u32()? as usize;
        if longest_blocks > shape.blocks_in(PAYLOAD_BYTES_MAX) {
            return Err(PageBytesError::Invalid("payload longer than the maximum"));
        }
        let pair_count = input.u32()?;
        let (offsets_bytes, payloads_bytes) = (input.u64()?, input.u64()?);
        let digester = Digester::new(&key, shape);
        let pairs = read_pairs(pair_count, &mut input, &digester)?;
        let offsets = read_filter(input.slice(offsets_bytes)?, &key)?;
        let payloads = read_filter(input.slice(payloads_bytes)?, &key)?;
        if !input.0.is_empty() {
            return Err(PageBytesError::Invalid("trailing bytes"));
        }
        let offsets = BlockFilter::restore(digester, offsets, longest_blocks);
        Ok(Self { span, key, offsets, payloads, pairs, counts })
    }
}

fn read_filter(bytes: &[u8], key: &FingerprintKey) -> Result<OneLineFilter, PageBytesError> {
    let mut input = bytes;
    let filter = OneLineFilter::try_from(file::decode(&mut input, bytes.len() as u64)?.filter)?;
    if filter.key_id() != key.id() {
        return Err(PageBytesError::Invalid("filter with a different key"));
    }
    Ok(filter)
}

fn read_pairs(count: u32, input: &mut Input<'_>, digester: &Digester) -> Result<Pairs, PageBytesError> {
    if count as usize > PAIRS_MAX {
        return Err(PageBytesError::Invalid("too many pairs"));
    }
    let mut pairs = Pairs::new(u64::MAX);
    for _ in 0..count {
        let pair = Pair { source: read_host(input)?, destination: read_host(input)? };
        let (first, last) = (input.u64()?, input.u64()?);
        pairs.see(&pair, first, digester);
        pairs.see(&pair, last, digester);
    }
    if pairs.listed().len() != count as usize {
        return Err(PageBytesError::Invalid("duplicate pair"));
    }
    Ok(pairs)
}

fn put_listed(listed: &ListedPair, out: &mut Vec<u8>) {
    put_pair(&listed.pair, out);
    out.extend_from_slice(&listed.first.to_le_bytes());
    out.extend_from_slice(&listed.last.to_le_bytes());
}

/// Appends the source and the destination. The ID of a pair is the keyed hash of these bytes.
pub(super) fn put_pair(pair: &Pair, out: &mut Vec<u8>) {
    put_host(&pair.source, out);
    put_host(&pair.destination, out);
}

/// Encoded size of a pair in a page.
pub(super) fn pair_bytes(pair: &Pair) -> u64 {
    let host_bytes = |host: &Host| match host {
        Host::Address(IpAddr::V4(_)) => 1 + 4,
        Host::Address(IpAddr::V6(_)) => 1 + 16,
        Host::Name(name) => 1 + 2 + name.len() as u64,
        Host::Unknown => 1,
    };
    host_bytes(&pair.source) + host_bytes(&pair.destination) + 16
}

fn put_host(host: &Host, out: &mut Vec<u8>) {
    match host {
        Host::Address(IpAddr::V4(address)) => {
            out.push(b'4');
            out.extend_from_slice(&address.octets());
        }
        Host::Address(IpAddr::V6(address)) => {
            out.push(b'6');
            out.extend_from_slice(&address.octets());
        }
        Host::Name(name) => {
            out.push(b'@');
            out.extend_from_slice(&(name.len() as u16).to_le_bytes());
            out.extend_from_slice(name.as_bytes());
        }
        Host::Unknown => out.push(b'?'),
    }
}

fn read_host(input: &mut Input<'_>) -> Result<Host, PageBytesError> {
    match input.take()? {
        [b'4'] => Ok(Host::Address(Ipv4Addr::from(*input.take()?).into())),
        [b'6'] => Ok(Host::Address(Ipv6Addr::from(*input.take()?).into())),
        [b'@'] => read_name(input),
        [b'?'] => Ok(Host::Unknown),
        _ => Err(PageBytesError::Invalid("unknown host type")),
    }
}

fn read_name(input: &mut Input<'_>) -> Result<Host, PageBytesError> {
    let length = input.u16()?;
    let name = std::str::from_utf8(input.slice(length.into())?);
    match name {
        Ok(name) if (1..=NAME_BYTES_MAX).contains(&name.len()) => Ok(Host::Name(name.into())),
        _ => Err(PageBytesError::Invalid("invalid name")),
    }
}

/// Remaining input.
struct Input<'b>(&'b [u8]);

impl<'b> Input<'b> {
    fn take<const N: usize>(&mut self) -> Result<&'b [u8; N], PageBytesError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(PageBytesError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn slice(&mut self, length: u64) -> Result<&'b [u8], PageBytesError> {
        let length = usize::try_from(length).map_err(|_| PageBytesError::Truncated)?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(PageBytesError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, PageBytesError> {
        self.take().map(|bytes| u16::from_le_bytes(*bytes))
    }

    fn u32(&mut self) -> Result<u32, PageBytesError> {
        self.take().map(|bytes| u32::from_le_bytes(*bytes))
    }

    fn u64(&mut self) -> Result<u64, PageBytesError> {
        self.take().map(|bytes| u64::from_le_bytes(*bytes))
    }
}
