//! Wire protocols of mail clients and mail servers: decodes requests and encodes replies.
//!
//! Each protocol is a module, with fixed limits on the sizes of requests and replies. The modules use no sockets, no
//! clock, no accounts and no stored data. Input is checked as strictly as the real clients allow.
//!
//! | module | protocol |
//! |---|---|
//! | [`pyzor`] | Pyzor, UDP: mail-like header lines |
//! | [`dcc`] | DCC versions 6 to 12, UDP: packed binary |
//! | [`razor`] | Razor 2, TCP: lines of keys and values, batches, blobs |
//! | [`fuzzy`] | rspamd's fuzzy storage, UDP: packed binary, plain or encrypted |
//! | [`http`] | our own: JSON over HTTP |
//! | [`milter`] | milter version 6, TCP and Unix sockets: packed binary, between an MTA and its filters |
//! | [`prometheus`] | the text format of metrics |
//!
//! `docs/protocols.md` describes the replies, and the differences from the original servers.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod dcc;
pub mod fuzzy;
pub mod http;
pub mod milter;
pub mod prometheus;
pub mod pyzor;
pub mod razor;
