//! Where segments come from and go to, whatever carries them.
//!
//! A transport is a courier: it may lose, repeat, delay or forge, and nothing wrong is counted. It knows bytes only: heads and
//! segments are signed by their origins and judged by the receiver.

pub mod files;
pub mod https;
pub mod nats;
pub mod paths;
pub mod tls;

use std::time::Duration;

use bruit_engine::exchange::Chain;

/// The most bytes of all heads that one source offers together.
pub const OFFER_BYTES_MAX: usize = 1 << 20;

/// The most bytes that one fetch returns.
pub const FETCH_BYTES_MAX: usize = 4 << 20;

/// The longest log that is archived; longer ones are read from the servers that have them.
pub const ARCHIVED_BYTES_MAX: usize = 64 << 20;

/// What a source has: the signed heads of every origin it can give segments of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// What this offer is called, to ask for a later one; at most 64 bytes.
    pub tag: Vec<u8>,
    /// Signed heads, one after the other, as their origins wrote them.
    pub heads: Vec<u8>,
}

/// Why a source gives nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The other side, or what is in between, cannot be reached or ended too early.
    #[error("failed to reach the other server")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The other side is not who it should be.
    #[error("the other server has another key than the one that is configured")]
    WrongKey,
    /// The other side refuses.
    #[error("the other server refuses: {0}")]
    Refused(String),
    /// The other side does not have what was asked for.
    #[error("the other server does not have it")]
    Missing,
    /// The answer is larger than it may be.
    #[error("the answer is larger than {max} bytes")]
    TooLarge {
        /// What it may be.
        max: usize,
    },
    /// The answer is none.
    #[error("the answer makes no sense: {0}")]
    Malformed(String),
}

/// Where segments come from.
pub trait Source: Send + Sync {
    /// What there is. Waits up to `wait` for an offer other than the one called `seen`; the same again if none comes.
    fn offer(&self, seen: &[u8], wait: Duration) -> impl Future<Output = Result<Offer, TransportError>> + Send;

    /// The log of a chain from `offset` on: at least one whole segment if there is any, and no more than [`FETCH_BYTES_MAX`]
    /// bytes. The last segment may be cut off; the receiver asks again from where it begins.
    fn fetch(&self, chain: &Chain, offset: u64) -> impl Future<Output = Result<Vec<u8>, TransportError>> + Send;
}

/// Where segments are published, for transports that bring them to others by themselves.
pub trait Sink: Send + Sync {
    /// Publishes a segment of `chain` that begins at `offset` of its log.
    fn publish(
        &self,
        chain: &Chain,
        offset: u64,
        segment: &[u8],
    ) -> impl Future<Output = Result<(), TransportError>> + Send;

    /// How far the log of a chain was published. A sink that does not know says 0, and takes again what it has.
    fn published(&self, _chain: &Chain) -> impl Future<Output = Result<u64, TransportError>> + Send {
        async { Ok(0) }
    }

    /// Forgets the logs of all chains but these, if it keeps them by itself.
    fn retain(&self, _chains: &[Chain]) -> impl Future<Output = Result<(), TransportError>> + Send {
        async { Ok(()) }
    }

    /// Keeps the whole log of a chain whose generation is over, for those who begin from nothing, if the sink has a place for that.
    fn archive(&self, _chain: &Chain, _log: &[u8]) -> impl Future<Output = Result<(), TransportError>> + Send {
        async { Ok(()) }
    }

    /// Publishes the signed heads of this server.
    fn announce(&self, heads: &[u8]) -> impl Future<Output = Result<(), TransportError>> + Send;
}
