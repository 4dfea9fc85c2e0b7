//! Encoding of a page: a header with its span and length, followed by the content.
//!
//! | bytes | meaning |
//! |---|---|
//! | 8 | [`MAGIC`] |
//! | 2 | the version, 1 |
//! | 2 | zeros |
//! | 4 | CRC-32 of everything after it |
//! | 8, 8 | the first and the last second |
//! | 8 | the length of the content |
//!
//! Numbers are little-endian.

use std::io::Read;

use super::Span;
use super::error::PageError;

/// The first bytes of a page.
pub const MAGIC: [u8; 8] = *b"\x89bruitP\n";
/// Length of the header.
pub const HEADER_BYTES: usize = 40;

const VERSION: u16 = 1;

/// Builds the header of a page.
pub(super) fn header(span: Span, content: &[u8]) -> [u8; HEADER_BYTES] {
    let about = about(span, content.len() as u64);
    let checksum = checksum(&about, content);
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&MAGIC);
    header[8..10].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&checksum.to_le_bytes());
    header[16..].copy_from_slice(&about);
    header
}

fn about(span: Span, length: u64) -> [u8; 24] {
    let mut about = [0; 24];
    about[..8].copy_from_slice(&span.from.to_le_bytes());
    about[8..16].copy_from_slice(&span.to.to_le_bytes());
    about[16..].copy_from_slice(&length.to_le_bytes());
    about
}

fn checksum(about: &[u8], content: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(about);
    hasher.update(content);
    hasher.finalize()
}

/// Reads the content of a page that covers `span`, of at most `limit` bytes.
pub(super) fn read(input: &mut impl Read, span: Span, limit: u64) -> Result<Vec<u8>, PageError> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    input.take(HEADER_BYTES as u64).read_to_end(&mut header)?;
    let Ok(header) = <[u8; HEADER_BYTES]>::try_from(header) else { return Err(PageError::NoPage) };
    let Some((&MAGIC, rest)) = header.split_first_chunk::<8>() else { return Err(PageError::NoPage) };
    match rest {
        [1, 0, 0, 0, ..] => {}
        [low, high, ..] => return Err(PageError::UnsupportedVersion(u16::from_le_bytes([*low, *high]))),
        _ => return Err(PageError::NoPage),
    }
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|index| header[at + index]));
    if number(16) != span.from || number(24) != span.to {
        return Err(PageError::OtherSpan);
    }
    let length = number(32);
    if length > limit {
        return Err(PageError::TooLarge { bytes: length, limit });
    }
    // Allocate memory only for bytes that exist, whatever length the header claims.
    let mut content = Vec::new();
    input.take(length.saturating_add(1)).read_to_end(&mut content)?;
    if content.len() as u64 != length {
        return Err(PageError::Length);
    }
    let is_sound = checksum(&header[16..], &content).to_le_bytes() == header[12..16];
    if is_sound { Ok(content) } else { Err(PageError::Damaged) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { from: 100, to: 160 };

    fn page(content: &[u8]) -> Vec<u8> {
        [&header(SPAN, content)[..], content].concat()
    }

    #[test]
    fn a_page_is_read_as_it_was_written() {
        for content in [&b""[..], b"content"] {
            assert_eq!(read(&mut page(content).as_slice(), SPAN, 7).unwrap(), content);
        }
    }

    #[test]
    fn the_limit_is_kept() {
        let refused = read(&mut page(b"content").as_slice(), SPAN, 6).unwrap_err();
        assert!(matches!(refused, PageError::TooLarge { bytes: 7, limit: 6 }), "{refused}");
    }

    #[test]
    fn every_changed_bit_is_noticed_and_so_is_every_length() {
        let page = page(b"content");
        for bit in 0..page.len() * 8 {
            let mut changed = page.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&mut changed.as_slice(), SPAN, u64::MAX).is_err(), "bit {bit}");
        }
        for length in 0..page.len() {
            assert!(read(&mut &page[..length], SPAN, u64::MAX).is_err(), "{length} bytes");
        }
        let longer = [&page[..], b"x"].concat();
        assert!(matches!(read(&mut longer.as_slice(), SPAN, u64::MAX), Err(PageError::Length)));
    }

    #[test]
    fn a_page_of_another_time_is_refused() {
        let other = read(&mut page(b"content").as_slice(), Span { from: 100, to: 161 }, 7);
        assert!(matches!(other, Err(PageError::OtherSpan)));
    }
}
