//! Exchange of segments between servers, so that each learned fact is applied exactly once on every server.
//!
//! | module | contents |
//! |---|---|
//! | [`coordinator`] | every decision of the exchange, without I/O |
//! | [`keys`] | the identity of a server |
//! | [`segment`], [`heads`], [`epochs`] | the signed formats of exchange, byte for byte; the lengths of generations |
//! | [`shelf`] | the logs and heads that a server offers to others |
//! | [`link`] | the tasks that carry out the coordinator's decisions about other servers and sinks |
//! | [`rereading`] | the steps that read our own logs again while a server is being forgotten |
//! | [`replica`] | a mail site's local copy of listed signatures, in one small file |
//! | `simulation` | a simulated network with a seed, behind the feature of that name |
//! | [`transport`] | sources and sinks of segments over different transports |
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod coordinator;
pub mod epochs;
pub mod heads;
pub mod keys;
pub mod link;
pub mod replica;
pub mod rereading;
pub mod segment;
pub mod shelf;
mod signed;
#[cfg(feature = "simulation")]
pub mod simulation;
pub mod transport;

/// Formats an error with its causes on one line. A cause that the text already contains is not repeated.
pub fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
