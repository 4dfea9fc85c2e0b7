//! The digest of Pyzor, bit for bit as its client computes it.
//!
//! [`digest`] promises what `pyzor digest` prints for the same bytes, for two generations of the client: 1.0 as Debian 12
//! ships it (`1:1.0.0-6`) and 1.1 (1.1.2), both on Python 3.11. It knows nothing of the wire, of counts, or of who asks.
//!
//! ```text
//! message ─ parts ─► leaves ─ transfer ─► bytes ─ charset ─► text ─ html ─► text ─ lines ─► at most six lines ─► SHA-1
//! ```
//!
//! A message is cut into its leaves as Python's `email` package does it, with all its tolerance. A text leaf is decoded,
//! HTML is reduced to its text, any other leaf is taken as it was transferred. What the lines then lose (long runs,
//! addresses, links, blanks) and which of them count, is in `lines`.
//!
//! # Where 1.0 and 1.1 differ
//!
//! In NUL only. 1.1 drops it from every line before anything else is removed; 1.0 keeps it as a character like any other.
//! 1.1 drops it from the name of a character set, too, where 1.0 ends with an error.
//!
//! # Where the client ends with an error
//!
//! It has no digest then, so these are our choice:
//!
//! | what a message has | what we do |
//! |---|---|
//! | HTML with `<![` and a word that is none of Python's eight, or none | keep the text before it, as for an unfinished tag |
//! | `&#` and more than 4,300 decimal digits | U+FFFD, as for any number too large |
//! | NUL in the name of a character set (1.0, and 1.1 outside of text) | leave it out, as 1.1 does |
//! | `charset*=` beside `charset*0=` | take the one without a number first |
//! | more than 4,300 digits in `charset*0=` | take it as the largest number |
//! | an RFC 2231 `charset*=` on a leaf of 8-bit bytes that is not text | take its value as the name |
//! | `idna`, `punycode` or `undefined` as the character set of such a leaf | take it as unknown |
//! | leaves nested deeper than about 980 (Python's recursion limit) | see [`NESTING_MAX`] |
//!
//! # Where we differ knowingly
//!
//! - Deeper than [`NESTING_MAX`] we do not look for parts.
//! - Character sets that have no place in mail are read as unknown, which is ASCII without the rest: EBCDIC and
//!   `cp864`, `johab`, JIS X 0213 (`euc_jisx0213`, `shift_jis_2004` and kin), `iso2022_jp_2`, `_3`, `_2004` and `_ext`,
//!   `punycode`, `unicode_escape` and `raw_unicode_escape`. All other names that Python has were compared with it.
//! - Half a surrogate pair in UTF-7, which Python keeps until the end and counts as a character, is dropped at once.
//! - Hangul that `euc_kr` writes as eight bytes, one syllable by its letters, is dropped.

mod boundary;
mod charset;
mod content_type;
mod digest;
mod header;
mod html;
mod lines;
mod parts;
mod reader;
mod references;
mod space;
mod transfer;

pub use self::digest::{Digest, Version, digest, digests, predigest};
pub use self::parts::NESTING_MAX;
