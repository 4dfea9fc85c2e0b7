//! What ends the process: a thread or task that everything relies on, and that has panicked; a store that cannot go on.
//!
//! A server with a dead listener would answer four protocols and look healthy. It ends instead, with a code that makes a
//! supervisor start it again.

use std::sync::Arc;
use std::thread;

use tokio::sync::watch;

use crate::service::Service;

/// Why the process has to end, once it has to.
#[derive(Debug, Default)]
pub(crate) struct Fatal(watch::Sender<Option<String>>);

impl Fatal {
    /// Ends the process soon. Only the first reason is kept.
    pub(crate) fn declare(&self, reason: String) {
        self.0.send_if_modified(|known| {
            let is_first = known.is_none();
            if is_first {
                tracing::error!(reason, "cannot go on");
                *known = Some(reason);
            }
            is_first
        });
    }

    /// Waits until the process has to end, and returns why.
    pub(crate) async fn wait(&self) -> String {
        let mut receiver = self.0.subscribe();
        match receiver.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            // The sender is in `self`.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Held by a thread or task that has to live as long as the server: ends the process if that panics.
pub(crate) struct Vital {
    service: Arc<Service>,
    name: String,
}

impl Vital {
    pub(crate) fn new(service: &Arc<Service>, name: impl Into<String>) -> Self {
        Self { service: Arc::clone(service), name: name.into() }
    }
}

impl Drop for Vital {
    fn drop(&mut self) {
        if thread::panicking() {
            self.service.fatal.declare(format!("{} panicked", self.name));
        }
    }
}
