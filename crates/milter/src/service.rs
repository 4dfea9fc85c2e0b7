//! The running milter: listeners, connections, reload and stop.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use bruit_client::ClientError;

use crate::config::{Address, Config};
use crate::connection::{self, ConnectionError, Socket};
use crate::filter::{Filter, Shared};
use crate::identity::IdentityKey;
use crate::listener::{Listener, SocketFile, wake};
use crate::metrics::{Endpoint, State};
use crate::server::Listings;
use crate::session::{CurrentFilter, Session};

/// Delay after a failure to accept a connection: the system has run out of a resource.
const SHORTAGE: Duration = Duration::from_millis(100);

/// Interval at which a stopping milter checks its connections.
const GLANCE: Duration = Duration::from_millis(10);

/// Interval at which the spool is sent, and the milter describes itself to the server.
const SPOOL_INTERVAL: Duration = Duration::from_secs(30);

/// Interval at which the spool's thread checks whether the milter is stopping.
const SPOOL_GLANCE: Duration = Duration::from_secs(1);

/// Minimum time between two log lines about connections that were refused or cut off.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Input from the program, besides the configuration.
#[derive(Default)]
pub struct Parts {
    /// Reads replicas.
    pub listings: Option<Box<dyn Listings>>,
}

/// The reason why a milter cannot start or reload.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address cannot be used.
    #[error("failed to listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error("failed to start a thread")]
    Thread(#[source] io::Error),
    /// The operating system has no random numbers.
    #[error("no random numbers")]
    Random(#[source] io::Error),
    /// The file with the retry key cannot be used.
    #[error("retry_key: failed to use {}", .file.display())]
    RetryKey {
        /// The file.
        file: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The client cannot be created.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// A running milter.
pub struct Milter {
    service: Arc<Service>,
    listening: Vec<Address>,
    sockets: Vec<SocketFile>,
    endpoint: Option<Endpoint>,
}

/// State shared by all threads.
struct Service {
    filter: RwLock<Arc<Filter>>,
    shared: Arc<Shared>,
    is_stopping: AtomicBool,
    open: AtomicUsize,
    last_complaint: Mutex<Option<Instant>>,
}

impl Milter {
    /// Starts the listeners.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(config: &Config, parts: Parts) -> Result<Self, StartError> {
        let identity_key = match &config.retry_key {
            None => IdentityKey::random().map_err(StartError::Random)?,
            Some(file) => {
                IdentityKey::open(file).map_err(|source| StartError::RetryKey { file: file.clone(), source })?
            }
        };
        let shared = Arc::new(Shared::new(identity_key, parts.listings));
        let filter = Filter::new(config.settings.clone(), Arc::clone(&shared))?;
        let service = Arc::new(Service {
            filter: RwLock::new(Arc::new(filter)),
            shared,
            is_stopping: AtomicBool::new(false),
            open: AtomicUsize::new(0),
            last_complaint: Mutex::new(None),
        });
        let bind = |address: &Address| Listener::bind(address).map_err(|source| listen_error(address, source));
        let bound = config.listen.iter().map(bind).collect::<Result<Vec<_>, _>>()?;
        let sockets = bound.iter().filter_map(|(_, address)| SocketFile::of(address)).collect();
        let endpoint = config.metrics.map(|address| start_endpoint(address, &service)).transpose()?;
        let mut listening = Vec::new();
        for (listener, address) in bound {
            let service = Arc::clone(&service);
            let run = move || service.accept_all(&listener);
            thread::Builder::new().name("listener".to_owned()).spawn(run).map_err(StartError::Thread)?;
            listening.push(address);
        }
        let sender = Arc::clone(&service);
        let run = move || sender.send_spool_until_stop();
        thread::Builder::new().name("spool".to_owned()).spawn(run).map_err(StartError::Thread)?;
        Ok(Self { service, listening, sockets, endpoint })
    }

    /// Returns the listen addresses, with the ports that the system chose instead of port 0.
    #[must_use]
    pub fn listening(&self) -> &[Address] {
        &self.listening
    }

    /// Returns the address of the metrics.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.endpoint.as_ref().map(Endpoint::address)
    }

    /// Returns the metrics as text.
    #[must_use]
    pub fn metrics(&self) -> String {
        self.service.metrics()
    }

    /// Applies new settings to the messages that begin from now on. Listeners stay as they are.
    ///
    /// # Errors
    /// [`StartError`]. The old settings then stay in force.
    pub fn reload(&self, config: &Config) -> Result<(), StartError> {
        let filter = Filter::new(config.settings.clone(), Arc::clone(&self.service.shared))?;
        *self.service.filter.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(filter);
        Ok(())
    }

    /// Stops: accepts no more connections, closes idle ones, and waits for the messages in progress. Returns the number
    /// of connections that had to be abandoned.
    #[must_use]
    pub fn stop(self) -> usize {
        let service = &self.service;
        service.is_stopping.store(true, Ordering::Release);
        self.listening.iter().for_each(wake);
        // Remove the socket files before the wait, so that a successor can listen there.
        self.sockets.iter().for_each(SocketFile::remove);
        let deadline = Instant::now() + service.current().settings.limits.stop;
        while service.open.load(Ordering::Acquire) > 0 && Instant::now() < deadline {
            thread::sleep(GLANCE);
        }
        if let Some(endpoint) = &self.endpoint {
            endpoint.stop();
        }
        service.open.load(Ordering::Acquire)
    }
}

fn listen_error(address: &Address, source: io::Error) -> StartError {
    StartError::Listen { address: address.to_string(), source }
}

fn start_endpoint(address: SocketAddr, service: &Arc<Service>) -> Result<Endpoint, StartError> {
    let shown = Arc::clone(service);
    let failed = |source| StartError::Listen { address: address.to_string(), source };
    Endpoint::start(address, move || shown.metrics()).map_err(failed)
}

impl Service {
    fn current(&self) -> Arc<Filter> {
        Arc::clone(&self.filter.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn metrics(&self) -> String {
        let Shared { metrics, memory, health, spool, .. } = &*self.shared;
        metrics.text(State {
            connections_open: self.open.load(Ordering::Relaxed),
            message_bytes: memory.used_bytes(),
            is_server_up: !health.is_down(),
            is_spool_usable: spool.is_usable(),
            spooled_reports: spool.waiting(),
        })
    }

    /// Sends the spool at once and then regularly, until the milter stops.
    fn send_spool_until_stop(&self) {
        let mut last: Option<Instant> = None;
        while !self.is_stopping.load(Ordering::Acquire) {
            if last.is_none_or(|last| last.elapsed() >= SPOOL_INTERVAL) {
                let filter = self.current();
                filter.send_spool();
                // Announce nothing at the start, because checks of mail describe the milter to the server, too.
                if last.is_some() {
                    filter.announce();
                }
                last = Some(Instant::now());
            }
            thread::sleep(SPOOL_GLANCE);
        }
    }

    /// Accepts connections until the milter stops.
    fn accept_all(self: &Arc<Self>, listener: &Listener) {
        loop {
            let accepted = listener.accept();
            if self.is_stopping.load(Ordering::Acquire) {
                return;
            }
            match accepted {
                Ok(socket) => self.start_connection(socket),
                Err(error) => {
                    self.complain(|| tracing::warn!(%error, "failed to accept a connection"));
                    thread::sleep(SHORTAGE);
                }
            }
        }
    }

    /// Starts a thread for a connection. If there are too many connections, closes this one. The MTA then acts as if
    /// the milter were unavailable.
    fn start_connection(self: &Arc<Self>, socket: Socket) {
        let metrics = &self.shared.metrics;
        metrics.connections.add(1);
        let limits = self.current().settings.limits;
        let before = self.open.fetch_add(1, Ordering::AcqRel);
        let place = Place(Arc::clone(self));
        if before >= limits.connections {
            metrics.refused_connections.add(1);
            self.complain(|| tracing::warn!(connections = before, "too many connections; refused one"));
            return;
        }
        let service = Arc::clone(self);
        let run = move || {
            let _place = place;
            let current: Arc<CurrentFilter> = {
                let service = Arc::clone(&service);
                Arc::new(move || service.current())
            };
            let memory = Arc::clone(&service.shared.memory);
            if let Err(error) = connection::serve(socket, Session::new(current), limits, memory, &service.is_stopping) {
                service.note(&error);
            }
        };
        if let Err(error) = thread::Builder::new().name("connection".to_owned()).spawn(run) {
            metrics.refused_connections.add(1);
            self.complain(|| tracing::warn!(%error, "failed to start a thread; refused a connection"));
        }
    }

    fn note(&self, error: &ConnectionError) {
        match error.cut_off() {
            None => tracing::debug!(%error, "connection lost"),
            Some(reason) => {
                self.shared.metrics.cut_off(reason);
                self.complain(|| tracing::warn!(%error, "connection closed"));
            }
        }
    }

    /// Logs an event that an MTA can cause at any rate, but limits the rate of log lines. The metrics count every
    /// event.
    fn complain(&self, log: impl FnOnce()) {
        let mut last = self.last_complaint.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if last.is_none_or(|last| now.duration_since(last) >= LOG_INTERVAL) {
            *last = Some(now);
            log();
        }
    }
}

/// Counts a connection as open until it is dropped.
struct Place(Arc<Service>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}
