//! The log lines of an operation that may fail for a while: one when it begins to fail, one when it works again.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// An operation that may fail for a while, such as publishing or a link to another server.
#[derive(Debug)]
pub(crate) struct Outage {
    /// Name of the operation in the log.
    what: &'static str,
    /// The other side: the name of a peer, or the address of a broker.
    peer: String,
    since: Mutex<Option<Instant>>,
}

impl Outage {
    /// Creates an operation that has not failed yet.
    pub(crate) fn new(what: &'static str, peer: impl Into<String>) -> Self {
        Self { what, peer: peer.into(), since: Mutex::new(None) }
    }

    /// Notes a failure. Only the first of consecutive failures is logged as a warning.
    pub(crate) fn fail(&self, reason: &str) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let (what, peer) = (self.what, self.peer.as_str());
        if since.is_none() {
            *since = Some(Instant::now());
            tracing::warn!(peer, reason, "{what} failed; retrying");
        } else {
            tracing::debug!(peer, reason, "{what} still failing");
        }
    }

    /// Notes a success. Logs the end of an outage with its duration.
    pub(crate) fn recover(&self) {
        let since = self.since.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(since) = since {
            let seconds = since.elapsed().as_secs();
            tracing::info!(peer = self.peer.as_str(), seconds, "{} recovered", self.what);
        }
    }
}
