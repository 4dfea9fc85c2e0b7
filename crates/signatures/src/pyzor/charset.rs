//! Character sets, as named and decoded by Python.
//!
//! Python differs from the WHATWG encodings implemented by `encoding_rs`: its single-byte sets leave bytes unassigned,
//! Latin-1 is really Latin-1, its two-byte sets contain only what their standards define, and after an error it resumes
//! at the next byte. So the single-byte tables are our own, the two-byte tables are those of `encoding_rs` with
//! corrections, and error recovery is Python's.

mod decode;
mod escapes;
mod names;
mod tables;
mod two_byte;
mod unicode;

pub(super) use self::decode::{Errors, decode, try_decode, undecoded};
