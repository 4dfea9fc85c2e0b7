//! Errors of the HTTP client.

use std::time::Duration;

use bruit_protocols::http::Problem;

/// The reason why a client could not be created or a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The text is not the URL of a server.
    #[error("invalid server URL {0:?}: expected a URL such as http://127.0.0.1:8625")]
    Address(String),
    /// The token is not a valid header value.
    #[error("invalid token: expected printable ASCII characters without blanks")]
    Token,
    /// The reporter is not a valid header value.
    #[error("invalid reporter: expected 1 to 256 bytes without control characters")]
    Reporter,
    /// The idempotency key is not a valid header value.
    #[error("invalid idempotency key: expected 1 to 128 printable ASCII characters without blanks")]
    IdempotencyKey,
    /// The connection failed or was lost.
    #[error("{server} cannot be reached: {cause}")]
    Unreachable {
        /// The server.
        server: String,
        /// The cause.
        cause: String,
    },
    /// The request took longer than the timeout.
    #[error("{server} did not answer within {timeout:?}")]
    TimedOut {
        /// The server.
        server: String,
        /// The timeout.
        timeout: Duration,
    },
    /// The server, or a proxy in front of it, refused the request.
    #[error("{server} refused: {problem}")]
    Refused {
        /// The server.
        server: String,
        /// The reason.
        problem: Problem,
    },
    /// The response is malformed, or does not come from a Bruit server.
    #[error("{server} is not a Bruit server, or its response is malformed: {cause}")]
    Malformed {
        /// The server.
        server: String,
        /// The cause.
        cause: String,
    },
}

impl ClientError {
    /// Returns true if a retry may succeed, because the server was unreachable, slow, overloaded or broken, or because
    /// another program sent the response.
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
