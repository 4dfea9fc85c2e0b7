//! Our own language: JSON over HTTP, for `bruit check` and its kin, for programs, and for whoever administers the server.
//!
//! ```text
//!   connection ─► router ─► caller: host, origin, token, limits ─► body ─► judge, claims, … ─► JSON
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | `connection` | how slow and how long one may be |
//! | `router` | which path leads where |
//! | `caller` | who asks, and what they may |
//! | `body` | bodies, within bounds, and the messages in them |
//! | `judge`, `explain` | what is thought of a message, and why |
//! | `claims` | reports and revocations |
//! | `stats`, `reporters`, `whitelist` | for administrators |
//! | `fault` | what went wrong, as `application/problem+json` |
//!
//! `openapi.json` describes all of it for programs, and a test compares it with the types.

mod body;
mod caller;
mod claims;
mod connection;
mod explain;
mod fault;
mod judge;
mod reporters;
mod router;
mod stats;
mod whitelist;

#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::spawn_blocking;

use crate::metrics::Language;
use crate::service::Service;
use crate::tcp::Listener;
use fault::Fault;

/// All bodies that are held at once, in bytes.
const BODIES_BYTES_MAX: usize = 128 << 20;

/// What the handlers share.
#[derive(Clone)]
pub(crate) struct Http {
    service: Arc<Service>,
    /// A permit for each byte of a body that is held.
    bodies: Arc<Semaphore>,
    /// A permit for each thread that computes: more than there are processors would only take time from one another.
    workers: Arc<Semaphore>,
}

impl Http {
    pub(crate) fn new(service: Arc<Service>) -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        Self { service, bodies: Arc::new(Semaphore::new(BODIES_BYTES_MAX)), workers: Arc::new(Semaphore::new(workers)) }
    }

    /// Listens at `address` until `stop` says so.
    pub(crate) fn listen(
        &self,
        runtime: &Handle,
        address: SocketAddr,
        stop: watch::Receiver<bool>,
    ) -> io::Result<Listener> {
        let router = router::router(self.clone());
        let serve = move |stream, source, stop| connection::serve(stream, source, router.clone(), stop);
        Listener::start(&self.service, runtime, address, stop, Language::Http, serve)
    }

    /// Does what takes time, or waits for the engine's lock, where no other connection waits for it.
    async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Service) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let _permit = self.workers.acquire().await.map_err(|_| Fault::stopping())?;
        let service = Arc::clone(&self.service);
        spawn_blocking(move || work(&service)).await.map_err(|_| Fault::broken())?
    }
}
