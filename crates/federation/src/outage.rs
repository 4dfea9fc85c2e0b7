//! The log of something that fails and comes back: one line when it begins to fail, one when it works again.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Something that may fail for a while: a link to another server, or publishing.
#[derive(Debug)]
pub(crate) struct Outage {
    /// What fails, in the log.
    what: &'static str,
    /// At whose end: the name of a peer, or the address of a broker.
    peer: String,
    since: Mutex<Option<Instant>>,
}

impl Outage {
    /// Something that works, as far as is known.
    pub(crate) fn new(what: &'static str, peer: impl Into<String>) -> Self {
        Self { what, peer: peer.into(), since: Mutex::new(None) }
    }

    /// Notes a failure. Only the first of several is a warning.
    pub(crate) fn fail(&self, reason: &str) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let (what, peer) = (self.what, self.peer.as_str());
        if since.is_none() {
            *since = Some(Instant::now());
            tracing::warn!(peer, reason, "{what} fails; it is tried again");
        } else {
            tracing::debug!(peer, reason, "{what} still fails");
        }
    }

    /// Notes that it works. The log says so if it did not before, and for how long.
    pub(crate) fn recover(&self) {
        let since = self.since.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(since) = since {
            let seconds = since.elapsed().as_secs();
            tracing::info!(peer = self.peer.as_str(), seconds, "{} works again", self.what);
        }
    }
}
