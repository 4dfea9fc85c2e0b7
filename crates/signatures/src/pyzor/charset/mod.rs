//! Character sets, as Python names and decodes them.
//!
//! Python differs from the WHATWG's encodings, which `encoding_rs` has: its single-byte sets leave bytes unassigned, Latin-1
//! is Latin-1, its two-byte sets are the narrow standards, and after an error it goes on with the very next byte. So the
//! single-byte tables are our own, the two-byte ones are those of `encoding_rs` with corrections, and every step after an
//! error is Python's.

mod decode;
mod escapes;
mod names;
mod tables;
mod two_byte;
mod unicode;

pub(super) use self::decode::{Errors, decode, try_decode, undecoded};
