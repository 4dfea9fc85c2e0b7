//! Signatures of raw mail, one module per scheme.
//!
//! Each scheme computes its signatures from the bytes of a message as received. Schemes do not read files, the clock or
//! the network. No input can make a scheme panic or exceed its bounds on time and memory.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod attachment;
mod base64;
pub mod bruit;
pub mod dcc;
pub mod exact;
pub mod hex;
pub mod mailing_list;
pub mod message;
pub mod outline;
pub mod pyzor;
pub mod razor;
pub mod reading;
mod scheme;
pub mod sender;
mod spelling;
mod transfer;
pub mod url;

pub use exact::Sha256Signature;
pub use scheme::{Context, Scheme, Signature, Signed, Wanted, sign};
pub use spelling::SpellingError;
pub use transfer::Encoding;
