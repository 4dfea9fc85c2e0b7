//! Bruit's own protocol, JSON over HTTP. It is used by `bruit check` and related commands, other programs, and
//! administrators.
//!
//! ```text
//!   tcp ─► connection ─► router ─► caller: host, origin, token, limits ─► body ─► judge, claims, … ─► JSON
//! ```
//!
//! | module | contents |
//! |---|---|
//! | `connection` | time and length limits of connections |
//! | `router` | the paths, and the handlers of checks and claims |
//! | `caller` | the caller and its rights |
//! | `names`, `proxies` | the server's names, and the proxies in front of it |
//! | `body` | bodies within limits, and the messages in them |
//! | `judge`, `explain`, `reporter_names` | verdicts, their explanations, and the names of reporters |
//! | `claims`, `count`, `learn` | reports and revocations; recipients; good mail |
//! | `administration` | the administrative paths and their handlers |
//! | `stats`, `history`, `accounts`, `whitelist` | statistics, counters over time, accounts and the whitelist: responses and changes |
//! | `federation` | paths for replicas, and information about peers |
//! | `dashboard` | the web pages for operators |
//! | `note` | the log lines of requests |
//! | `fault` | errors, as `application/problem+json` |
//!
//! `openapi.json` describes the API for programs. A test compares it with the types.

mod accounts;
mod administration;
mod body;
mod caller;
mod claims;
mod connection;
mod count;
mod dashboard;
mod explain;
mod fault;
mod federation;
mod history;
mod judge;
mod learn;
mod names;
mod note;
mod proxies;
mod reporter_names;
mod router;
mod stats;
mod whitelist;

#[cfg(test)]
mod tests;

pub(crate) use connection::{serve, serve_secure, serve_stream, serve_user};
pub(crate) use dashboard::{LINK_LIFETIME, Live, Sessions, publish_live};
pub(crate) use fault::Fault;
pub(crate) use names::of_this_machine as names_of_this_machine;
pub(crate) use note::Note;

use std::sync::Arc;

use axum::Router;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use crate::duplicates::Duplicates;
use crate::service::Service;

/// Maximum number of body bytes in memory, not including those of strangers.
const BODIES_BYTES_MAX: usize = 96 << 20;

/// Maximum number of body bytes of strangers in memory.
const STRANGERS_BODIES_BYTES_MAX: usize = 32 << 20;

/// The paths that a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paths {
    /// The paths of the API.
    Api,
    /// The paths of the dashboard.
    Dashboard,
    /// Both.
    All,
}

/// Returns a function that creates the routers for [`serve`]. All these routers share the limits on memory.
pub(crate) fn routers(service: &Arc<Service>) -> impl Fn(Paths) -> Router + use<> {
    let http = Http::new(Arc::clone(service));
    move |paths| router::router(http.clone(), paths)
}

/// State shared by the handlers.
#[derive(Clone)]
pub(crate) struct Http {
    service: Arc<Service>,
    /// One permit for each body byte in memory.
    bodies: Arc<Semaphore>,
    strangers_bodies: Arc<Semaphore>,
    /// Recipient counts with idempotency keys. They are remembered so that a repeated request is not counted again.
    counts: Arc<Duplicates>,
    /// One permit for each computing thread. More threads than processors would only compete with each other.
    workers: Arc<Semaphore>,
    /// One permit for adding or removing a peer.
    peer_changes: Arc<Semaphore>,
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
            peer_changes: permits(1),
        }
    }

    /// Runs blocking work, such as computations or waiting for the engine's lock, on threads that do not serve
    /// connections.
    async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Service) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let permit = Arc::clone(&self.workers).acquire_owned().await.map_err(|_| Fault::stopping())?;
        self.run(permit, work).await
    }

    /// Adds or removes a peer, on a thread of its own, because the disk may hang. Only one change runs at a time.
    async fn change_peers<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Service) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let permit = Arc::clone(&self.peer_changes).try_acquire_owned();
        let permit = permit.map_err(|_| Fault::busy("another peer is being added or removed: try again later"))?;
        self.run(permit, change).await
    }

    async fn run<T: Send + 'static>(
        &self,
        permit: OwnedSemaphorePermit,
        work: impl FnOnce(&Service) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let service = Arc::clone(&self.service);
        let work = move || {
            // The permit is held until the work is done, even if the caller has disconnected.
            let _permit = permit;
            work(&service)
        };
        spawn_blocking(work).await.map_err(|_| Fault::broken())?
    }
}
