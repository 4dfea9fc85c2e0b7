//! The log lines of an operation that may fail for a while: one when it begins to fail, one when it works again.

use std::time::Duration;

/// An operation that may fail for a while, such as publishing or a link to another server.
#[derive(Debug)]
pub(crate) struct Outage {
    /// Name of the operation in the log.
    what: &'static str,
    /// The other side: the name of a peer, or the address of a broker.
    peer: String,
    /// Start of the outage, by a monotonic clock.
    since: Option<Duration>,
}

impl Outage {
    /// Creates an operation that has not failed yet.
    pub(crate) fn new(what: &'static str, peer: impl Into<String>) -> Self {
        Self { what, peer: peer.into(), since: None }
    }

    /// Notes a failure. Only the first of consecutive failures is logged as a warning.
    pub(crate) fn fail(&mut self, reason: &str, uptime: Duration) {
        let (what, peer) = (self.what, self.peer.as_str());
        if self.since.is_none() {
            self.since = Some(uptime);
            tracing::warn!(peer, reason, "{what} failed; retrying");
        } else {
            tracing::debug!(peer, reason, "{what} still failing");
        }
    }

    /// Notes a success. Logs the end of an outage with its duration.
    pub(crate) fn recover(&mut self, uptime: Duration) {
        if let Some(since) = self.since.take() {
            let seconds = uptime.saturating_sub(since).as_secs();
            tracing::info!(peer = self.peer.as_str(), seconds, "{} recovered", self.what);
        }
    }
}
