//! The languages that mail programs speak to a clearinghouse: bytes to requests, replies to bytes.
//!
//! One module per language. None of them knows a socket, a clock, an account or what the clearinghouse holds: they say
//! what was asked and write what is answered, within bounds. What does not follow a language is refused, as strictly as
//! the real programs allow.
//!
//! | module | language |
//! |---|---|
//! | [`pyzor`] | Pyzor, UDP: mail-like header lines |
//! | [`dcc`] | DCC versions 6 to 12, UDP: packed binary |
//! | [`razor`] | Razor 2, TCP: lines of keys and values, batches, blobs |
//! | [`fuzzy`] | rspamd's fuzzy storage, UDP: packed binary, plain or encrypted |
//! | [`http`] | our own: JSON over HTTP |
//!
//! `docs/protocols.md` says what each is answered and where we differ from the original servers.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod dcc;
pub mod fuzzy;
pub mod http;
pub mod pyzor;
pub mod razor;
