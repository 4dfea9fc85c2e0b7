//! A running server. Starting it opens the clearinghouse and starts the configured listeners. Stopping it closes the
//! clearinghouse.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use bruit_engine::budget::BUDGET_DEFAULT;
use bruit_engine::event::Event;
use bruit_engine::realm::RealmMismatch;
use bruit_engine::time::Time;
use bruit_engine::trust::Policy;
use bruit_engine::{NotEnoughMemory, Outcome, Refusal};
use bruit_federation::keys::NodeKey;
use bruit_federation::shelf::Shelf;
use bruit_store::modes::{self, ExposedFile};
use bruit_store::{
    Clearinghouse, FOUNDING_FILE, Founding, FoundingError, OpenError, Options, RELEASED, Recovery, Status, SubmitError,
};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::accounts::{self, AccountError};
use crate::admin_token::AdminTokenError;
use crate::audit::audit_local;
use crate::clock::system_time;
use crate::config::{Config, DashboardSettings, Settings};
use crate::dcc::Dcc;
use crate::descriptor_limit;
use crate::federation::{self, AddedPeersError, FederationError, Identity, Links};
use crate::fuzzy::{Fuzzy, Vault};
use crate::fuzzy_keys::{self, KeyFileError};
use crate::history::Recorder;
use crate::http::{self, Paths};
use crate::learning::Learner;
use crate::metrics::Interface;
use crate::node_key;
use crate::policy::{self, PolicyChangeError};
use crate::pyzor::Pyzor;
use crate::razor;
use crate::replays::Replays;
use crate::service::Service;
use crate::tcp;
use crate::ticker::{self, Ticker};
use crate::udp;
use crate::unix;
use crate::watch::Watcher;

/// Time limit for connections to end when the server stops.
const DRAIN: Duration = Duration::from_secs(5);

/// The name of the dashboard's own listener, which is also the name of its section in the configuration.
const DASHBOARD: &str = "dashboard";

/// Lifetime of a link from [`Server::sign_in_link`], in minutes.
pub const LINK_MINUTES: u64 = http::LINK_LIFETIME.as_secs() / 60;

/// Maximum number of account changes per submission.
const ACCOUNTS_PER_SUBMIT: usize = 256;

/// A running server, with its listeners and its clearinghouse.
pub struct Server {
    service: Arc<Service>,
    listening: Vec<Listening>,
    listeners: Vec<udp::Listener>,
    stop_threads: Arc<AtomicBool>,
    stop_tasks: watch::Sender<bool>,
    runtime: Runtime,
    ticker: Ticker,
    watcher: Watcher,
    learner: Learner,
    recorder: Recorder,
    /// Ends the thread that watches the free space on the disk.
    _disk: std::sync::mpsc::Sender<()>,
    directory: PathBuf,
    key: NodeKey,
    links: Option<Links>,
    started_with: Config,
}

/// A listen address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// The protocol.
    pub protocol: &'static str,
    /// `udp` or `tcp`.
    pub transport: &'static str,
    /// The address, with the port that was assigned if port 0 was configured.
    pub address: SocketAddr,
    /// Further information for clients.
    pub note: String,
}

/// The reason why the server cannot start or cannot apply a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The clearinghouse cannot be opened.
    #[error("failed to open the clearinghouse in {}", .directory.display())]
    Open {
        /// The directory of the clearinghouse.
        directory: PathBuf,
        /// The cause.
        #[source]
        source: Box<OpenError>,
    },
    /// The books cannot be brought up to date.
    #[error("failed to bring the books up to date")]
    CatchUp(#[source] SubmitError),
    /// The configured budget is smaller than the clearinghouse's budget.
    #[error(
        "`memory` is {to} bytes in the configuration, but the clearinghouse has a budget of {from} bytes: set `memory` to \
         at least {from} bytes, or start once with --shrink, which is refused unless all data fits in the smaller budget"
    )]
    Shrinks {
        /// The budget of the clearinghouse, in bytes.
        from: u64,
        /// The configured budget.
        to: u64,
    },
    /// The clearinghouse refused the configured budget.
    #[error("the configured memory budget is refused: {0}")]
    Resize(Refusal),
    /// There is not enough memory for the new budget.
    #[error("the memory budget was not changed: {0}")]
    ResizeMemory(NotEnoughMemory),
    /// The change of the budget could not be written.
    #[error("failed to write the change of the memory budget")]
    ResizeKept(#[source] SubmitError),
    /// The clock is implausible.
    #[error("the clock is implausible: {0}")]
    Clock(Refusal),
    /// The system clock is certainly wrong, so a new clearinghouse would start in the past.
    #[error(
        "the system clock says {now} UTC, which is before this program was released ({RELEASED} UTC): set the clock \
         before founding a clearinghouse"
    )]
    ClockBeforeRelease {
        /// The time of the system clock.
        now: Time,
    },
    /// An address cannot be used.
    #[error(
        "failed to listen on {address} for {protocol}: is another server running there? To change the address, set `listen` in [{protocol}]"
    )]
    Listen {
        /// The protocol.
        protocol: &'static str,
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// An account in the file is invalid.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The accounts in the file could not be written.
    #[error("failed to write the accounts in the configuration")]
    Accounts(#[source] SubmitError),
    /// The clearinghouse refused an account in the file.
    #[error("an account in the configuration is refused: {0}")]
    AccountRefused(Refusal),
    /// The Unix socket cannot be created.
    #[error("failed to listen on {} for http: to change the path, set `socket` in [http]", .path.display())]
    Socket {
        /// The path of the socket.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The administrator's token cannot be loaded.
    #[error(transparent)]
    AdminToken(#[from] AdminTokenError),
    /// The clearinghouse cannot adopt the trust policy in the file.
    #[error(transparent)]
    Policy(#[from] PolicyChangeError),
    /// The key pair of the fuzzy storage cannot be loaded.
    #[error(transparent)]
    FuzzyKey(#[from] KeyFileError),
    /// The identity key of this server cannot be loaded.
    #[error(transparent)]
    NodeKey(#[from] bruit_federation::keys::file::KeyFileError),
    /// TLS cannot be set up with the identity key.
    #[error("failed to set up TLS for other servers")]
    Tls(#[from] rustls::Error),
    /// The realm file is unusable.
    #[error("{} {source}: create a realm file with `bruit keys realm`", .file.display())]
    Realm {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: FoundingError,
    },
    /// The clearinghouse belongs to another realm.
    #[error(
        "the store in {} belongs to a different realm than {} ({difference}), and the realm of a store cannot \
         change: use the realm file of that store, or an empty directory; nothing was changed",
        .directory.display(), .file.display()
    )]
    OtherRealm {
        /// The directory of the clearinghouse.
        directory: PathBuf,
        /// The realm file.
        file: PathBuf,
        /// The difference.
        difference: RealmMismatch,
    },
    /// The peers that were added at run time cannot be read.
    #[error(transparent)]
    AddedPeers(#[from] AddedPeersError),
    /// The exchange with other servers cannot start.
    #[error(transparent)]
    Federation(#[from] FederationError),
    /// The system refused a resource that the server needs.
    #[error("failed to start the server's threads")]
    Start(#[source] io::Error),
}

impl Server {
    /// Opens or founds the clearinghouse in `directory`, brings it up to date, and starts listening. Calls `progress`
    /// with the number of journal bytes read since the last call.
    ///
    /// # Errors
    /// Returns [`ServeError`] if the server cannot start. No listener is left running.
    pub fn start(config: &Config, directory: &Path, progress: &mut dyn FnMut(u64)) -> Result<Self, ServeError> {
        descriptor_limit::raise_limit(config.settings.limits.connections);
        let store = open(config, directory, progress)?;
        check_modes(directory);
        let key = node_key::own(directory)?;
        let service = Arc::new(Service::new(store, config.settings.clone()));
        let peers = service.federation.added.load(directory, &config.settings.peers)?;
        service.change_settings(Settings { peers, ..config.settings.clone() });
        service.set_startup(directory, config);
        service.admin_token.load(directory)?;
        bring_up_to_date(&service)?;
        service.federation.identify(Identity { key: key.public(), founding: directory.join(FOUNDING_FILE) });
        apply_accounts(&service, &config.settings)?;
        policy::adopt(&service, &config.settings.trust)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            // The pool also writes the exports. It has two more threads than connections need, so connections do not
            // have to wait for these writes.
            .worker_threads(4)
            .thread_name("bruit-tcp")
            .enable_all()
            .build()
            .map_err(ServeError::Start)?;
        let mut server = Self {
            ticker: Ticker::start(Arc::clone(&service)).map_err(ServeError::Start)?,
            watcher: Watcher::start(Arc::clone(&service)).map_err(ServeError::Start)?,
            learner: Learner::start(Arc::clone(&service)).map_err(ServeError::Start)?,
            recorder: Recorder::start(Arc::clone(&service), directory).map_err(ServeError::Start)?,
            _disk: service.disk.watch(directory.to_owned()).map_err(ServeError::Start)?,
            service,
            listening: Vec::new(),
            listeners: Vec::new(),
            stop_threads: Arc::new(AtomicBool::new(false)),
            stop_tasks: watch::Sender::new(false),
            runtime,
            directory: directory.to_owned(),
            key,
            links: None,
            started_with: config.clone(),
        };
        match server.start_exchange(config).and_then(|()| server.listen(config)) {
            Ok(()) => {
                server.dashboard_url().into_iter().for_each(|url| server.service.set_dashboard(url));
                Ok(server)
            }
            Err(error) => {
                // Stop the listeners that have already started.
                let _ = server.stop();
                Err(error)
            }
        }
    }

    /// Starts the exchange with other servers.
    fn start_exchange(&mut self, config: &Config) -> Result<(), ServeError> {
        let Self { service, directory, key, runtime, stop_tasks, .. } = self;
        self.links = Some(Links::start(service, &config.federation, directory, key, runtime, stop_tasks)?);
        Ok(())
    }

    fn listen(&mut self, config: &Config) -> Result<(), ServeError> {
        self.listen_razor(&config.listen.razor)?;
        self.listen_udp(&config.listen.dcc, config.threads, Dcc::default)?;
        self.listen_pyzor(config)?;
        self.listen_fuzzy(config)?;
        self.listen_http(config)?;
        self.listen_federation(&config.listen.federation)
    }

    fn listen_pyzor(&mut self, config: &Config) -> Result<(), ServeError> {
        let replays = Arc::new(Replays::default());
        self.listen_udp(&config.listen.pyzor, config.threads, || Pyzor::new(Arc::clone(&replays)))
    }

    fn listen_razor(&mut self, addresses: &[SocketAddr]) -> Result<(), ServeError> {
        let service = Arc::clone(&self.service);
        let note = |_: SocketAddr| String::new();
        let bodies = razor::Bodies::default();
        self.listen_tcp(Interface::Razor, addresses, note, move |connection| {
            razor::serve(connection, Arc::clone(&service), bodies.clone())
        })
    }

    /// Listens for rspamd, and adds the public key for clients to the list of listeners.
    fn listen_fuzzy(&mut self, config: &Config) -> Result<(), ServeError> {
        if config.listen.fuzzy.is_empty() {
            return Ok(());
        }
        let own = fuzzy_keys::own(&self.directory)?;
        let note = format!("key {}", own.public());
        let vault = Arc::new(Vault::new(own).map_err(ServeError::Start)?);
        self.listen_udp(&config.listen.fuzzy, config.threads, || Fuzzy::new(Arc::clone(&vault)))?;
        let fuzzy = self.listening.iter_mut().filter(|listening| listening.protocol == Interface::Fuzzy.name());
        fuzzy.for_each(|listening| listening.note.clone_from(&note));
        Ok(())
    }

    /// Listens for plain HTTP, HTTP over TLS, and HTTP on a Unix socket, and for the dashboard.
    fn listen_http(&mut self, config: &Config) -> Result<(), ServeError> {
        let routers = http::routers(&self.service);
        let DashboardSettings { enabled, listen } = &config.dashboard;
        let router = routers(if *enabled && listen.is_empty() { Paths::All } else { Paths::Api });
        self.listen_plain(Interface::Http.name(), &config.listen.http, &router)?;
        self.listen_secure(Interface::Http.name(), &config.listen.https, &router)?;
        let pages = routers(Paths::Dashboard);
        match config.settings.http.tls {
            Some(_) => self.listen_secure(DASHBOARD, listen, &pages)?,
            None => self.listen_plain(DASHBOARD, listen, &pages)?,
        }
        let Some(socket) = &config.listen.http_socket else { return Ok(()) };
        let serve = move |stream, permit, stop| http::serve_user(stream, permit, stop, router.clone());
        let failed = |source| ServeError::Socket { path: socket.path.clone(), source };
        unix::listen(&self.runtime, &self.service, socket, self.stop_tasks.subscribe(), serve).map_err(failed)
    }

    /// Listens for plain HTTP. `name` is the section of the configuration with the addresses.
    fn listen_plain(
        &mut self,
        name: &'static str,
        addresses: &[SocketAddr],
        router: &Router,
    ) -> Result<(), ServeError> {
        let router = router.clone();
        let note = |address: SocketAddr| format!("http://{address}");
        let serve = move |connection| http::serve(connection, router.clone());
        self.listen_tcp_as(name, Interface::Http, addresses, note, serve)
    }

    /// Listens for HTTP over TLS. `name` is the section of the configuration with the addresses.
    fn listen_secure(
        &mut self,
        name: &'static str,
        addresses: &[SocketAddr],
        router: &Router,
    ) -> Result<(), ServeError> {
        let (service, router) = (Arc::clone(&self.service), router.clone());
        let note = |address: SocketAddr| format!("https://{address}");
        let serve = move |connection| http::serve_secure(connection, Arc::clone(&service), router.clone());
        self.listen_tcp_as(name, Interface::Http, addresses, note, serve)
    }

    /// Listens for other servers, and adds the public key that they need to the list of listeners.
    fn listen_federation(&mut self, addresses: &[SocketAddr]) -> Result<(), ServeError> {
        let listener = federation::Listener::new(&self.service, self.key.seed())?;
        let key = self.key.public();
        let note = |_: SocketAddr| format!("key {key}");
        self.listen_tcp(Interface::Federation, addresses, note, move |connection| listener.clone().serve(connection))
    }

    fn listen_tcp<S, F>(
        &mut self,
        protocol: Interface,
        addresses: &[SocketAddr],
        note: impl Fn(SocketAddr) -> String,
        serve: S,
    ) -> Result<(), ServeError>
    where
        S: Fn(tcp::Connection) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        self.listen_tcp_as(protocol.name(), protocol, addresses, note, serve)
    }

    fn listen_tcp_as<S, F>(
        &mut self,
        name: &'static str,
        protocol: Interface,
        addresses: &[SocketAddr],
        note: impl Fn(SocketAddr) -> String,
        serve: S,
    ) -> Result<(), ServeError>
    where
        S: Fn(tcp::Connection) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        for &address in addresses {
            let failed = |source| ServeError::Listen { protocol: name, address, source };
            let stop = self.stop_tasks.subscribe();
            let listening = tcp::listen(&self.runtime, &self.service, protocol, address, stop, serve.clone());
            let address = listening.map_err(failed)?;
            self.listening.push(Listening { protocol: name, transport: "tcp", address, note: note(address) });
        }
        Ok(())
    }

    fn listen_udp<P: udp::Datagrams>(
        &mut self,
        addresses: &[SocketAddr],
        threads: u32,
        make: impl Fn() -> P,
    ) -> Result<(), ServeError> {
        let protocol = P::PROTOCOL.name();
        for &address in addresses {
            let failed = |source| ServeError::Listen { protocol, address, source };
            let stop = &self.stop_threads;
            let listener =
                udp::Listener::start(&self.service, &[address], threads, udp::Transfer::FASTEST, stop, &make);
            let listener = listener.map_err(failed)?;
            let own = listener.addresses().iter();
            self.listening.extend(own.map(|&address| Listening {
                protocol,
                transport: "udp",
                address,
                note: String::new(),
            }));
            self.listeners.push(listener);
        }
        Ok(())
    }

    /// Returns the listen addresses, grouped by protocol.
    #[must_use]
    pub fn listening(&self) -> &[Listening] {
        &self.listening
    }

    /// Returns an address at which a browser on this machine can sign in to the dashboard, once and within
    /// [`LINK_MINUTES`]. Returns `None` if the dashboard is turned off or has no address.
    #[must_use]
    pub fn sign_in_link(&self) -> Option<String> {
        self.service.sign_in_link(self.service.admin_token.hash()?)
    }

    /// Returns the dashboard's URL on this machine.
    fn dashboard_url(&self) -> Option<String> {
        let DashboardSettings { enabled, listen } = &self.started_with.dashboard;
        let name = if listen.is_empty() { Interface::Http.name() } else { DASHBOARD };
        let at = self.listening.iter().filter(|_| *enabled).find(|listening| listening.protocol == name)?;
        reachable_base(at)
    }

    /// Returns the result of the recovery at the start.
    #[must_use]
    pub fn recovery(&self) -> &Recovery {
        self.service.store.recovery()
    }

    /// Returns the directory of the clearinghouse.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the identity key of this server.
    #[must_use]
    pub const fn key(&self) -> &NodeKey {
        &self.key
    }

    /// Sets the shelf that other servers and replicas read, in place of the server's own.
    pub fn share(&self, shelf: Arc<Shelf>) {
        self.service.federation.share(shelf);
    }

    /// Waits until a vital thread panics or the disk fails, and returns the reason.
    pub async fn failed(&self) -> String {
        self.service.fatal.wait().await
    }

    /// Returns the runtime that serves TCP. The caller can also wait for signals on it.
    #[must_use]
    pub const fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Loads the administrator's token again, or creates a new one if its file is missing.
    ///
    /// # Errors
    /// Returns [`ServeError`]. The previous token then remains valid.
    pub fn reload_token(&self) -> Result<(), ServeError> {
        Ok(self.service.admin_token.load(&self.directory)?)
    }

    /// Applies the settings of a new configuration. Listen addresses and the data directory stay unchanged.
    ///
    /// # Errors
    /// Returns [`ServeError`] if the accounts or the policy in `config` are rejected. The settings then stay unchanged.
    pub fn reload(&self, config: &Config) -> Result<(), ServeError> {
        apply_accounts(&self.service, &config.settings)?;
        policy::adopt(&self.service, &config.settings.trust)?;
        self.service.federation.added.configure(&config.settings.peers, |peers| {
            self.service.change_settings(Settings { peers, ..config.settings.clone() });
            self.service.federation.apply()
        })?;
        for setting in self.started_with.unlike(config) {
            tracing::warn!(setting, "this setting takes effect after a restart");
        }
        let peers = config.settings.peers.len();
        audit_local("configuration.reload", &format!("{} accounts, {peers} peers", config.settings.accounts.len()));
        Ok(())
    }

    /// Stops accepting requests, answers those in progress, and closes the clearinghouse.
    #[must_use]
    pub fn stop(self) -> Status {
        self.stop_threads.store(true, Ordering::Relaxed);
        self.stop_tasks.send_replace(true);
        self.ticker.stop();
        self.watcher.stop();
        self.learner.stop();
        self.recorder.stop();
        self.links.into_iter().for_each(Links::stop);
        self.listeners.into_iter().for_each(udp::Listener::join);
        // Every connection's task holds a receiver until it ends.
        let _ = self.runtime.block_on(async { timeout(DRAIN, self.stop_tasks.closed()).await });
        self.runtime.shutdown_timeout(DRAIN);
        match Arc::into_inner(self.service) {
            Some(service) => service.store.close(),
            // A task that did not end in time still holds the service. The process ends anyway, and the journal is
            // complete.
            None => Status::default(),
        }
    }
}

/// Returns the URL of a listener for a browser on this machine. Over plain HTTP, only loopback addresses are suitable.
fn reachable_base(at: &Listening) -> Option<String> {
    let ip = at.address.ip();
    let is_secure = at.note.starts_with("https://");
    let host = match (ip.is_unspecified(), ip.is_loopback() || is_secure) {
        (true, _) => format!("localhost:{}", at.address.port()),
        (false, true) => at.address.to_string(),
        (false, false) => return None,
    };
    Some(format!("{}://{host}", if is_secure { "https" } else { "http" }))
}

fn open(config: &Config, directory: &Path, progress: &mut dyn FnMut(u64)) -> Result<Clearinghouse, ServeError> {
    let failed = |source| ServeError::Open { directory: directory.to_owned(), source: Box::new(source) };
    let founding = founding(config, directory)?;
    let found = || founding;
    let options = Options { durability: config.durability, ..Options::default() };
    let store = Clearinghouse::open_or_found(directory, &options, found, progress).map_err(failed)?;
    resize(config, &store)?;
    Ok(store)
}

/// Warns if other users can write to the directory, because they could replace its files. If other users can read
/// secret files, removes that permission and logs the change.
fn check_modes(directory: &Path) {
    match modes::writable_mode(directory) {
        Ok(Some(mode)) => tracing::warn!(
            directory = %directory.display(),
            mode = format!("{mode:04o}"),
            "other users can write to the data directory and replace its files: run chmod 0700 on it"
        ),
        Ok(None) => {}
        Err(error) => {
            tracing::warn!(%error, directory = %directory.display(), "failed to read the mode of the data directory")
        }
    }
    for ExposedFile { path, mode, tightened } in modes::tighten(directory).unwrap_or_default() {
        let (path, mode) = (path.display(), format!("{mode:04o}"));
        match tightened {
            Ok(()) => tracing::warn!(%path, mode, "other users could read a file of the server; made it private"),
            Err(error) => {
                tracing::warn!(%path, mode, %error, "other users can read a file of the server: run chmod go= on it")
            }
        }
    }
}

/// Ages the books by the server's downtime.
fn bring_up_to_date(service: &Service) -> Result<(), ServeError> {
    ticker::watch_clock(service);
    match service.store.catch_up(service.now()) {
        Ok(Outcome::Refused(refusal)) => Err(ServeError::Clock(refusal)),
        Ok(outcome) => {
            ticker::log_ended(service, &outcome);
            Ok(())
        }
        // With a full disk, reports are refused but checks are still answered.
        Err(error @ SubmitError::Write(_)) => {
            tracing::error!(error = &error as &dyn std::error::Error, "failed to bring the books up to date");
            Ok(())
        }
        Err(error) => Err(ServeError::CatchUp(error)),
    }
}

/// Resizes the clearinghouse to the configured memory, if that differs.
fn resize(config: &Config, store: &Clearinghouse) -> Result<(), ServeError> {
    let Some(to) = config.memory_bytes else { return Ok(()) };
    let (from, is_other) = store.check(|engine| (engine.plan().bytes, engine.would_resize(to)));
    if !is_other {
        return Ok(());
    }
    if to < from && !config.shrink {
        return Err(ServeError::Shrinks { from, to });
    }
    let began = Instant::now();
    store.check(|engine| engine.ensure_memory(to)).map_err(ServeError::ResizeMemory)?;
    match store.resize(to) {
        Ok(Outcome::Refused(refusal)) => Err(ServeError::Resize(refusal)),
        Ok(_) => {
            tracing::info!(from, to, seconds = began.elapsed().as_secs_f64(), "memory budget changed");
            Ok(())
        }
        // With a full disk, the server can still answer checks with its old memory.
        Err(error @ SubmitError::Write(_)) => {
            tracing::error!(error = &error as &dyn std::error::Error, from, to, "failed to change the memory budget");
            Ok(())
        }
        Err(error) => Err(ServeError::ResizeKept(error)),
    }
}

/// Returns the data with which a clearinghouse is founded. The realm is read from the configured file, or is new. If
/// `directory` already has a clearinghouse, checks that it belongs to the realm in the file.
fn founding(config: &Config, directory: &Path) -> Result<Founding, ServeError> {
    let failed = |source| ServeError::Open { directory: directory.to_owned(), source: Box::new(source) };
    let existing = Founding::read(directory).map_err(failed)?;
    let now = system_time();
    if existing.is_none() && now < RELEASED {
        return Err(ServeError::ClockBeforeRelease { now });
    }
    let Some(file) = &config.realm else {
        let mut key = [0; 16];
        getrandom::fill(&mut key).map_err(|error| ServeError::Start(io::Error::other(error)))?;
        let budget = config.memory_bytes.unwrap_or(BUDGET_DEFAULT);
        let founding = Founding::new(key, budget, Policy::default(), now);
        return Ok(founding.expect("the configuration checked the budget"));
    };
    match (Founding::read_file(file), existing) {
        // The realm file is only needed to found the clearinghouse. Operators should delete it afterwards, because it
        // contains a secret.
        (Err(FoundingError::Io(error)), Some(existing)) if error.kind() == io::ErrorKind::NotFound => Ok(existing),
        (Err(source), _) => Err(ServeError::Realm { file: file.clone(), source }),
        (Ok(given), Some(existing)) => match existing.realm.ensure_same(&given.realm) {
            Ok(()) => Ok(existing),
            Err(difference) => {
                Err(ServeError::OtherRealm { directory: directory.to_owned(), file: file.clone(), difference })
            }
        },
        (Ok(given), None) => {
            let budget_bytes = config.memory_bytes.unwrap_or(given.budget_bytes);
            Ok(Founding { founded: now, budget_bytes, ..given })
        }
    }
}

/// Applies the accounts in the file to the clearinghouse.
fn apply_accounts(service: &Service, settings: &Settings) -> Result<(), ServeError> {
    let changes = service.store.check(|engine| accounts::changes(&settings.accounts, &settings.passwords, engine))?;
    let now = service.now();
    // Submit removals, updates and registrations separately, because all events of a batch are judged by the state
    // before the batch.
    let steps = [&changes.removed, &changes.updated, &changes.registered];
    for changes in steps.into_iter().flat_map(|step| step.chunks(ACCOUNTS_PER_SUBMIT)) {
        let events = changes.iter().map(|change| Event::Account { now, change: change.clone() }).collect();
        let outcomes = service.store.submit(events).map_err(ServeError::Accounts)?;
        if let Some(Outcome::Refused(refusal)) = outcomes.iter().find(|outcome| matches!(outcome, Outcome::Refused(_)))
        {
            return Err(ServeError::AccountRefused(*refusal));
        }
    }
    Ok(())
}
