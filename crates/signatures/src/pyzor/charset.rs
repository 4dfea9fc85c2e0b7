//! Character sets, as named and decoded by Python.
//!
//! Python differs from the WHATWG encodings that `encoding_rs` implements. Its single-byte sets leave some bytes
//! unassigned, and its Latin-1 is not windows-1252. Its two-byte sets contain only what their standards define. After
//! an error, it resumes at the next byte. Therefore the single-byte tables are our own, the two-byte tables are those
//! of `encoding_rs` with corrections, and errors are handled as in Python.

mod decode;
mod escapes;
mod names;
mod tables;
mod two_byte;
mod unicode;

pub(super) use self::decode::{Errors, decode, try_decode, undecoded};
