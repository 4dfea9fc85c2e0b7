//! Pyzor's digest, identical to the client's bit by bit.
//!
//! [`digest`] returns the output of `pyzor digest` for the same bytes, for two releases of the client: 1.0 as shipped
//! by Debian 12 (`1:1.0.0-6`) and 1.1 (1.1.2), both on Python 3.11. This module contains neither the protocol nor the
//! counts.
//!
//! ```text
//! message ─ parts ─► leaves ─ transfer ─► bytes ─ charset ─► text ─ html ─► text ─ lines ─► at most six lines ─► SHA-1
//! ```
//!
//! A message is split into leaves exactly as Python's very tolerant `email` package splits it. Text leaves are decoded,
//! and HTML is reduced to its text. Any other leaf is used as transferred. The module `lines` removes long runs,
//! addresses, links and blanks from the lines, and selects the lines that are hashed.
//!
//! # Differences between 1.0 and 1.1
//!
//! The versions differ only in the treatment of NUL. Version 1.1 drops NUL from every line before all other removals.
//! Version 1.0 keeps it as an ordinary character. Version 1.1 also drops NUL from the name of a character set. Version
//! 1.0 fails on such a name.
//!
//! # Messages on which the client fails
//!
//! The client computes no digest for these messages, so the behaviour is our choice:
//!
//! | message | our behaviour |
//! |---|---|
//! | HTML with `<![` and none of Python's eight keywords | keep the text before it, as for an unfinished tag |
//! | `&#` and more than 4,300 decimal digits | U+FFFD, as for any number too large |
//! | NUL in the name of a character set (1.0, and 1.1 in leaves that are not text) | drop it, as 1.1 does for text |
//! | both `charset*=` and `charset*0=` | put the unnumbered one first |
//! | more than 4,300 digits in `charset*0=` | treat it as the largest number |
//! | an RFC 2231 `charset*=` on a leaf that is not text and contains 8-bit bytes | use its value as the name |
//! | on the same kind of leaf, the character set `idna`, `punycode` or `undefined` | treat it as unknown |
//! | leaves nested deeper than about 980 (Python's recursion limit) | see [`NESTING_MAX`] |
//!
//! # Known differences
//!
//! - Parts are not split if they are nested deeper than [`NESTING_MAX`].
//! - Character sets that do not belong in mail are treated as unknown, i.e. as ASCII with all other bytes dropped. They
//!   are EBCDIC, `cp864`, `johab`, those with JIS X 0213 (such as `euc_jisx0213` and `shift_jis_2004`), `iso2022_jp_2`,
//!   `iso2022_jp_3`, `iso2022_jp_2004`, `iso2022_jp_ext`, `punycode`, `unicode_escape` and `raw_unicode_escape`. All
//!   other names of character sets were compared with Python.
//! - Half a surrogate pair in UTF-7 is dropped immediately. Python keeps it until the end and counts it as a character.
//! - Hangul syllables that `euc_kr` spells letter by letter, in eight bytes, are dropped.

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
