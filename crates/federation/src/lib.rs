//! Exchange of segments between servers, so that each learned fact is applied exactly once on every server.
//!
//! | module | contents |
//! |---|---|
//! | [`keys`] | the identity of a server |
//! | [`segment`], [`heads`] | the signed formats of exchange, byte for byte |
//! | [`export`], [`exporter`] | this server's own segments: the bytes, and the order of writes that makes them exact |
//! | [`publisher`] | publishing own segments to a sink, such as a broker |
//! | [`judge`], [`rejected`] | the segments to request, the checks of the answers, the reasons for refusals |
//! | [`link`], `outage` | polling a source and applying missing segments; logging outages |
//! | [`peer`], [`epochs`] | the state of another server, derived from its heads and their time |
//! | [`replica`] | a mail site's local copy of listed signatures, in one small file |
//! | [`shelf`], [`library`], [`stock`] | logs on disk; their readable parts; how the listeners access them |
//! | `simulation` | a simulated network with a seed, behind the feature of that name |
//! | [`transport`] | sources and sinks of segments over different transports |
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod charges;
pub mod epochs;
pub mod export;
pub mod exporter;
pub mod heads;
pub mod judge;
pub mod keys;
pub mod library;
pub mod link;
mod outage;
pub mod peer;
pub mod publisher;
pub mod rejected;
pub mod replica;
pub mod segment;
pub mod shelf;
mod signed;
#[cfg(feature = "simulation")]
pub mod simulation;
pub mod stock;
pub mod transport;

pub use link::describe;
