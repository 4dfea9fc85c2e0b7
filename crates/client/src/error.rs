//! What may go wrong between here and a server.

use std::time::Duration;

use bruit_protocols::http::Problem;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A text that is no address of a server.
    #[error("{0:?} is not the address of a server: give one like http://127.0.0.1:8625")]
    Address(String),
    /// A token that cannot stand in a header.
    #[error("a token is made of printable ASCII characters without blanks")]
    Token,
    /// A name of a person that cannot stand in a header.
    #[error("invalid reporter: expected 1 to 256 bytes without control characters")]
    Reporter,
    /// A name of a count that cannot stand in a header.
    #[error("invalid idempotency key: expected 1 to 128 printable ASCII characters without blanks")]
    IdempotencyKey,
    /// Nobody answers there, or the connection broke.
    #[error("{server} cannot be reached: {cause}")]
    Unreachable {
        /// The server.
        server: String,
        /// What happened.
        cause: String,
    },
    /// The whole took longer than was allowed.
    #[error("{server} did not answer within {timeout:?}")]
    TimedOut {
        /// The server.
        server: String,
        /// How long that was.
        timeout: Duration,
    },
    /// The server, or one before it, will not.
    #[error("{server} refused: {problem}")]
    Refused {
        /// The server.
        server: String,
        /// What it says.
        problem: Problem,
    },
    /// What answers there is no clearinghouse, or a broken one.
    #[error("{server} does not answer as a clearinghouse does: {cause}")]
    Malformed {
        /// The server.
        server: String,
        /// What was wrong.
        cause: String,
    },
}

impl ClientError {
    /// Whether it may pass: nobody answers, too late, or not as a clearinghouse does, or one that is overloaded or broken.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::TimedOut { .. } => true,
            Self::Refused { problem, .. } => matches!(problem.status, 429 | 500..),
            Self::Malformed { .. } => true,
            Self::Address(_) | Self::Token | Self::Reporter | Self::IdempotencyKey => false,
        }
    }
}
