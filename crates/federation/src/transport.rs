//! The transports of segments: traits for sources and sinks, and their implementations.
//!
//! A transport may lose, repeat, delay or forge data without corrupting any count. It handles only bytes: heads and
//! segments are signed by their origins and checked by the receiver.

pub mod files;
pub mod https;
pub mod nats;
pub mod paths;
pub mod tls;

use std::time::Duration;

use bruit_engine::exchange::Chain;

/// Maximum number of bytes of all heads that one source offers.
pub const OFFER_BYTES_MAX: usize = 2 << 20;

/// Maximum number of bytes that one fetch returns.
pub const FETCH_BYTES_MAX: usize = 4 << 20;

/// Maximum length of an archived log; longer ones are read from servers.
pub const ARCHIVED_BYTES_MAX: usize = 64 << 20;

/// A source's offer: the signed heads of every origin whose segments it can provide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Tag of this offer, at most 64 bytes. The request for a later offer contains it.
    pub tag: Vec<u8>,
    /// A sequence of signed heads, as their origins wrote them.
    pub heads: Vec<u8>,
}

/// The reason why a transport failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The other side or an intermediary cannot be reached, or the connection ended early.
    #[error("failed to reach the other server")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The other side has a different key from the expected one.
    #[error("the other server's key differs from the configured one")]
    WrongKey,
    /// The other side refused the request.
    #[error("the other server refused: {0}")]
    Refused(String),
    /// The other side does not have the requested data.
    #[error("the other server does not have the requested data")]
    Missing,
    /// The response is too large.
    #[error("the response exceeds {max} bytes")]
    TooLarge {
        /// The maximum.
        max: usize,
    },
    /// The response is malformed.
    #[error("malformed response: {0}")]
    Malformed(String),
}

/// A source of segments.
pub trait Source: Send + Sync {
    /// Returns the offer. Waits up to `wait` for an offer whose tag differs from `seen`; if none arrives, returns the
    /// same offer again.
    fn offer(&self, seen: &[u8], wait: Duration) -> impl Future<Output = Result<Offer, TransportError>> + Send;

    /// Returns the log of a chain starting at `offset`: at least one complete segment if there is any, and at most
    /// [`FETCH_BYTES_MAX`] bytes. The last segment may be cut off; the receiver requests it again from its beginning.
    fn fetch(&self, chain: &Chain, offset: u64) -> impl Future<Output = Result<Vec<u8>, TransportError>> + Send;
}

/// A sink of segments, for transports that store and deliver them.
pub trait Sink: Send + Sync {
    /// Publishes a segment at `offset` of the log of `chain`.
    fn publish(
        &self,
        chain: &Chain,
        offset: u64,
        segment: &[u8],
    ) -> impl Future<Output = Result<(), TransportError>> + Send;

    /// Returns the published length of a chain's log. A sink that cannot determine the length returns 0 and accepts
    /// duplicates.
    fn published(&self, _chain: &Chain) -> impl Future<Output = Result<u64, TransportError>> + Send {
        async { Ok(0) }
    }

    /// Removes the logs of all chains except the given ones, if the sink stores logs without expiry.
    fn retain(&self, _chains: &[Chain]) -> impl Future<Output = Result<(), TransportError>> + Send {
        async { Ok(()) }
    }

    /// Archives the complete log of a chain whose generation is over, for new servers, if the sink supports that.
    fn archive(&self, _chain: &Chain, _log: &[u8]) -> impl Future<Output = Result<(), TransportError>> + Send {
        async { Ok(()) }
    }

    /// Publishes the signed heads of this server.
    fn announce(&self, heads: &[u8]) -> impl Future<Output = Result<(), TransportError>> + Send;
}
