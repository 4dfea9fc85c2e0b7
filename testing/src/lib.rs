//! Clients of the protocols, for tests and benchmarks: they encode requests and decode replies.
//!
//! | module | protocol |
//! |---|---|
//! | [`pyzor`] | Pyzor |
//! | [`dcc`] | DCC versions 6 to 12 |
//! | [`razor`] | Razor 2 |
//! | [`milter`] | milter version 6, the side of an MTA |
//!
//! The clients do not share an encoder or decoder with `bruit-protocols`, so a test that uses both compares two
//! implementations. The exception is rspamd's fuzzy storage. Its client and its server both need the secrets of
//! [`bruit_protocols::fuzzy::SharedKey`], so both are in `bruit-protocols`.

pub mod dcc;
pub mod milter;
pub mod pyzor;
pub mod razor;
