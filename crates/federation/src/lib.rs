//! Servers that share what they learned, exactly once.
//!
//! | module | what it is |
//! |---|---|
//! | [`keys`] | who a server is to others |
//! | [`segment`], [`heads`] | what servers say, signed, byte for byte |
//! | [`export`], [`exporter`] | what this server tells others: the bytes, and the order of writes that makes it exact |
//! | [`publisher`] | bringing it to where others look for it |
//! | [`judge`], [`rejected`] | what to ask for, what to believe of the answers, and why not |
//! | [`link`], `outage` | asking a source again and again, and taking what is missing; the log of its failures |
//! | [`peer`], [`epochs`] | the state of another server, judged by its heads and their time |
//! | [`replica`] | a mail site's own copy of what servers listed, in one small file |
//! | [`shelf`], [`library`], [`stock`] | logs on disk, what of them others may read, and how listeners ask for it |
//! | `simulation` | a network drawn from a seed, with the feature of that name |
//! | [`transport`] | where segments come from and go to, whatever carries them |
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
