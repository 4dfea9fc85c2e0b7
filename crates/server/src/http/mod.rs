//! Our own language: JSON over HTTP, for `bruit check` and its kin, for programs, and for whoever administers the server.
//!
//! ```text
//!   tcp ─► connection ─► router ─► caller: host, origin, token, limits ─► body ─► judge, claims, … ─► JSON
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | `connection` | how slow and how long a connection may be |
//! | `router` | which path leads where |
//! | `caller` | who asks, and what they may |
//! | `names`, `proxies` | the names of the server, and the proxies before it |
//! | `body` | bodies, within bounds, and the messages in them |
//! | `judge`, `explain` | what is thought of a message, and why |
//! | `claims`, `count`, `learn` | reports and revocations; recipients; good mail |
//! | `stats`, `accounts`, `whitelist` | for administrators |
//! | `federation` | for replicas, and about other servers |
//! | `note` | what the log says about a request |
//! | `fault` | what went wrong, as `application/problem+json` |
//!
//! `openapi.json` describes all of it for programs, and a test compares it with the types.

mod accounts;
mod body;
mod caller;
mod claims;
mod connection;
mod count;
mod explain;
mod fault;
mod federation;
mod judge;
mod learn;
mod names;
mod note;
mod proxies;
mod router;
mod stats;
mod whitelist;

#[cfg(test)]
mod tests;

pub(crate) use connection::{serve, serve_secure, serve_stream, serve_user};
pub(crate) use fault::Fault;
pub(crate) use names::of_this_machine as names_of_this_machine;
pub(crate) use note::Note;

use std::sync::Arc;

use axum::Router;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::duplicates::Duplicates;
use crate::service::Service;

/// All bodies that are held at once, in bytes, but for strangers'.
const BODIES_BYTES_MAX: usize = 96 << 20;

/// Strangers' bodies that are held at once.
const STRANGERS_BODIES_BYTES_MAX: usize = 32 << 20;

/// Everything that is served, for [`serve`].
pub(crate) fn router(service: &Arc<Service>) -> Router {
    router::router(Http::new(Arc::clone(service)))
}

/// What the handlers share.
#[derive(Clone)]
pub(crate) struct Http {
    service: Arc<Service>,
    /// A permit for each byte of a body that is held.
    bodies: Arc<Semaphore>,
    strangers_bodies: Arc<Semaphore>,
    /// Counts of recipients that have names of their own, so that none counts twice.
    counts: Arc<Duplicates>,
    /// A permit for each thread that computes: more than there are processors would only take time from one another.
    workers: Arc<Semaphore>,
}

impl Http {
    pub(crate) fn new(service: Arc<Service>) -> Self {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let permits = |count| Arc::new(Semaphore::new(count));
        Self {
            service,
            bodies: permits(BODIES_BYTES_MAX),
            strangers_bodies: permits(STRANGERS_BODIES_BYTES_MAX),
            counts: Arc::new(Duplicates::remembering(count::REMEMBERED)),
            workers: permits(workers),
        }
    }

    /// Does what takes time, or waits for the engine's lock, where no other connection waits for it.
    async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Service) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let permit = Arc::clone(&self.workers).acquire_owned().await.map_err(|_| Fault::stopping())?;
        let service = Arc::clone(&self.service);
        let work = move || {
            // Held until the work is done, also if whoever asked has gone.
            let _permit = permit;
            work(&service)
        };
        spawn_blocking(work).await.map_err(|_| Fault::broken())?
    }
}
