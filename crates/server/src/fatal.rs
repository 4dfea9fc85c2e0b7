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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bruit_engine::budget::BUDGET_MIN;
    use bruit_engine::time::Time;
    use bruit_engine::trust::Policy;
    use bruit_store::{Clearinghouse, Founding, Options};

    use super::*;
    use crate::config::Config;

    /// A listener that panicked left its protocol dead, and the server ready.
    #[test]
    fn a_vital_thread_that_panics_ends_the_process_and_says_which() {
        let folder = tempfile::tempdir().unwrap();
        let found = || Founding::new([7; 16], BUDGET_MIN, Policy::default(), Time(1_800_000_000)).unwrap();
        let store = Clearinghouse::open_or_found(folder.path(), &Options::default(), found, &mut |_| {}).unwrap();
        let service = Arc::new(Service::new(store, Config::default().settings));
        let vital = Vital::new(&service, "a thread that listens");
        drop(Vital::new(&service, "a thread that ended"));
        let panicked = thread::spawn(move || {
            let _vital = vital;
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(service.fatal.wait()), "a thread that listens panicked");
    }
}
