//! A running server: from a configuration to listeners, and back to a closed clearinghouse.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bruit_engine::budget::BUDGET_DEFAULT;
use bruit_engine::event::Event;
use bruit_engine::realm::UnlikeRealms;
use bruit_engine::time::Time;
use bruit_engine::trust::Policy;
use bruit_engine::{NotEnoughMemory, Outcome, Refusal};
use bruit_federation::keys::NodeKey;
use bruit_federation::stock::Stock;
use bruit_store::modes::{self, Exposed};
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
use crate::config::{Config, Settings};
use crate::dcc::Dcc;
use crate::descriptors;
use crate::federation::{self, FederationError, Identity, Links};
use crate::fuzzy::{Fuzzy, Vault};
use crate::fuzzy_keys::{self, KeyFileError};
use crate::http;
use crate::learning::Learner;
use crate::metrics::Language;
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

/// How long connections may take to end when the server stops.
const DRAIN: Duration = Duration::from_secs(5);

/// Accounts that are changed at once.
const ACCOUNTS_PER_SUBMIT: usize = 256;

/// A running server.
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
    directory: PathBuf,
    key: NodeKey,
    links: Option<Links>,
    started_with: Config,
}

/// Where a language is spoken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// Its name.
    pub protocol: &'static str,
    /// `udp` or `tcp`.
    pub transport: &'static str,
    /// The address, with the port that was found if any would do.
    pub address: SocketAddr,
    /// What else its users have to know.
    pub note: String,
}

/// Why a server does not start, or does not take a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The clearinghouse does not open.
    #[error("failed to open the clearinghouse in {}", .directory.display())]
    Open {
        /// Its directory.
        directory: PathBuf,
        /// Why.
        #[source]
        source: Box<OpenError>,
    },
    /// The books cannot be brought to the present.
    #[error("failed to bring the books to the present")]
    CatchUp(#[source] SubmitError),
    /// The configured budget is smaller than that of the clearinghouse.
    #[error(
        "`memory` is {to} bytes in the configuration, but the clearinghouse has a budget of {from} bytes: set it to that \
         or more, or start once with --shrink, which is refused unless everything fits the smaller one"
    )]
    Shrinks {
        /// The budget of the clearinghouse, in bytes.
        from: u64,
        /// The configured budget.
        to: u64,
    },
    /// The clearinghouse cannot change to the configured budget.
    #[error("the memory budget cannot become that of the configuration: {0}")]
    Resize(Refusal),
    /// The system does not have the memory of the new budget.
    #[error("the memory budget is not changed, and nothing else was: {0}")]
    ResizeMemory(NotEnoughMemory),
    /// The change of the budget could not be written.
    #[error("failed to keep the change of the memory budget")]
    ResizeKept(#[source] SubmitError),
    /// The clock cannot be right.
    #[error("the clock is not right: {0}")]
    Clock(Refusal),
    /// The clock is certainly wrong, and a new clearinghouse would begin in the past.
    #[error(
        "the system clock says {now} UTC, which is before this program was released ({RELEASED} UTC): set it before a \
         clearinghouse is founded"
    )]
    ClockBeforeRelease {
        /// The time it shows.
        now: Time,
    },
    /// An address cannot be used.
    #[error(
        "failed to listen for {protocol} at {address}: is another server running there? [{protocol}] listen in the configuration changes it"
    )]
    Listen {
        /// Whose.
        protocol: &'static str,
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// An account of the file cannot be one.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The accounts of the file are not kept.
    #[error("failed to keep the accounts of the configuration")]
    Accounts(#[source] SubmitError),
    /// The clearinghouse does not take an account of the file.
    #[error("an account of the configuration is refused: {0}")]
    AccountRefused(Refusal),
    /// The Unix socket cannot be made.
    #[error("failed to listen for http at {}: [http] socket in the configuration changes it", .path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The administrator's token cannot be had.
    #[error(transparent)]
    AdminToken(#[from] AdminTokenError),
    /// The clearinghouse does not follow the policy of the file.
    #[error(transparent)]
    Policy(#[from] PolicyChangeError),
    /// The key pair of the fuzzy storage cannot be had.
    #[error(transparent)]
    FuzzyKey(#[from] KeyFileError),
    /// The key by which other servers know this one cannot be had.
    #[error(transparent)]
    NodeKey(#[from] bruit_federation::keys::file::KeyFileError),
    /// There is no TLS with that key.
    #[error("failed to set up TLS for other servers")]
    Tls(#[from] rustls::Error),
    /// The file with the realm holds none.
    #[error("{} {source}: `bruit keys realm` writes such a file", .file.display())]
    Realm {
        /// Which.
        file: PathBuf,
        /// What is wrong with it.
        source: FoundingError,
    },
    /// The clearinghouse was founded in another realm.
    #[error(
        "the store in {} belongs to another realm than {} ({difference}), and a store cannot change its realm: name the file of its \
         own realm, or an empty directory; nothing was changed",
        .directory.display(), .file.display()
    )]
    OtherRealm {
        /// Its directory.
        directory: PathBuf,
        /// The file with the realm.
        file: PathBuf,
        /// Their difference.
        difference: UnlikeRealms,
    },
    /// It cannot take part among other servers.
    #[error(transparent)]
    Federation(#[from] FederationError),
    /// The system does not give what a server needs.
    #[error("failed to start the server's threads")]
    Start(#[source] io::Error),
}

impl Server {
    /// Opens or founds the clearinghouse in `directory`, brings it to the present, and listens. `progress` hears how much of the
    /// journal was read.
    ///
    /// # Errors
    /// [`ServeError`]; then nothing listens.
    pub fn start(config: &Config, directory: &Path, progress: &mut dyn FnMut(u64)) -> Result<Self, ServeError> {
        descriptors::raise_limit(config.settings.limits.connections);
        let store = open(config, directory, progress)?;
        check_modes(directory);
        let key = node_key::own(directory)?;
        let service = Arc::new(Service::new(store, config.settings.clone()));
        service.admin_token.load(directory)?;
        bring_to_present(&service)?;
        service.federation.identify(Identity { key: key.public(), founding: directory.join(FOUNDING_FILE) });
        take_accounts(&service, &config.settings)?;
        policy::adopt(&service, &config.settings.trust)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            // Links write logs from here; two more keep connections from waiting for them.
            .worker_threads(4)
            .thread_name("bruit-tcp")
            .enable_all()
            .build()
            .map_err(ServeError::Start)?;
        let mut server = Self {
            ticker: Ticker::start(Arc::clone(&service)).map_err(ServeError::Start)?,
            watcher: Watcher::start(Arc::clone(&service)).map_err(ServeError::Start)?,
            learner: Learner::start(Arc::clone(&service)).map_err(ServeError::Start)?,
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
        match server.take_part(config).and_then(|()| server.listen(config)) {
            Ok(()) => Ok(server),
            Err(error) => {
                // What listens already is not left behind.
                let _ = server.stop();
                Err(error)
            }
        }
    }

    /// Begins to tell and to ask other servers.
    fn take_part(&mut self, config: &Config) -> Result<(), ServeError> {
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
        self.listen_tcp(Language::Razor, addresses, note, move |connection| {
            razor::serve(connection, Arc::clone(&service), bodies.clone())
        })
    }

    /// Listens for rspamd, and says what clients encrypt to.
    fn listen_fuzzy(&mut self, config: &Config) -> Result<(), ServeError> {
        if config.listen.fuzzy.is_empty() {
            return Ok(());
        }
        let own = fuzzy_keys::own(&self.directory)?;
        let note = format!("key {}", own.public());
        let vault = Arc::new(Vault::new(own).map_err(ServeError::Start)?);
        self.listen_udp(&config.listen.fuzzy, config.threads, || Fuzzy::new(Arc::clone(&vault)))?;
        let fuzzy = self.listening.iter_mut().filter(|listening| listening.protocol == Language::Fuzzy.name());
        fuzzy.for_each(|listening| listening.note.clone_from(&note));
        Ok(())
    }

    /// Listens for HTTP: plain, over TLS, and at a Unix socket.
    fn listen_http(&mut self, config: &Config) -> Result<(), ServeError> {
        let (service, router) = (Arc::clone(&self.service), http::router(&self.service));
        let plain = router.clone();
        let note = |address: SocketAddr| format!("http://{address}");
        let serve = move |connection| http::serve(connection, plain.clone());
        self.listen_tcp(Language::Http, &config.listen.http, note, serve)?;
        let secure = router.clone();
        let note = |address: SocketAddr| format!("https://{address}");
        let serve = move |connection| http::serve_secure(connection, Arc::clone(&service), secure.clone());
        self.listen_tcp(Language::Http, &config.listen.https, note, serve)?;
        let Some(socket) = &config.listen.http_socket else { return Ok(()) };
        let serve = move |stream, permit, stop| http::serve_user(stream, permit, stop, router.clone());
        let failed = |source| ServeError::Socket { path: socket.path.clone(), source };
        unix::listen(&self.runtime, &self.service, socket, self.stop_tasks.subscribe(), serve).map_err(failed)
    }

    /// Listens for other servers, and says what they have to know.
    fn listen_federation(&mut self, addresses: &[SocketAddr]) -> Result<(), ServeError> {
        let listener = federation::Listener::new(&self.service, self.key.seed())?;
        let key = self.key.public();
        let note = |_: SocketAddr| format!("key {key}");
        self.listen_tcp(Language::Federation, addresses, note, move |connection| listener.clone().serve(connection))
    }

    fn listen_tcp<S, F>(
        &mut self,
        language: Language,
        addresses: &[SocketAddr],
        note: impl Fn(SocketAddr) -> String,
        serve: S,
    ) -> Result<(), ServeError>
    where
        S: Fn(tcp::Connection) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let protocol = language.name();
        for &address in addresses {
            let failed = |source| ServeError::Listen { protocol, address, source };
            let stop = self.stop_tasks.subscribe();
            let listening = tcp::listen(&self.runtime, &self.service, language, address, stop, serve.clone());
            let address = listening.map_err(failed)?;
            self.listening.push(Listening { protocol, transport: "tcp", address, note: note(address) });
        }
        Ok(())
    }

    fn listen_udp<P: udp::Datagrams>(
        &mut self,
        addresses: &[SocketAddr],
        threads: u32,
        make: impl Fn() -> P,
    ) -> Result<(), ServeError> {
        let protocol = P::LANGUAGE.name();
        for &address in addresses {
            let failed = |source| ServeError::Listen { protocol, address, source };
            let listener = udp::Listener::start(&self.service, &[address], threads, &self.stop_threads, &make);
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

    /// Where it listens, in the order of the languages' names.
    #[must_use]
    pub fn listening(&self) -> &[Listening] {
        &self.listening
    }

    /// What opening the clearinghouse found.
    #[must_use]
    pub fn recovery(&self) -> &Recovery {
        self.service.store.recovery()
    }

    /// The directory of the clearinghouse.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The key by which other servers know this one.
    #[must_use]
    pub const fn key(&self) -> &NodeKey {
        &self.key
    }

    /// Serves what is in this stock to other servers and replicas, instead of what the server has on its own shelf.
    pub fn share(&self, stock: Arc<dyn Stock>) {
        self.service.federation.share(stock);
    }

    /// Waits until the server fails, and returns the reason: a vital thread panicked, or the disk failed.
    pub async fn failed(&self) -> String {
        self.service.fatal.wait().await
    }

    /// The runtime that serves TCP, for whoever waits for signals.
    #[must_use]
    pub const fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Reads the administrator's token again, or makes one if its file is gone.
    ///
    /// # Errors
    /// [`ServeError`]; then the token before stays in force.
    pub fn reload_token(&self) -> Result<(), ServeError> {
        Ok(self.service.admin_token.load(&self.directory)?)
    }

    /// Takes the settings of another configuration. Where to listen and where the clearinghouse is do not change.
    ///
    /// # Errors
    /// [`ServeError`] if its accounts or its policy cannot be; then the settings stay as they were.
    pub fn reload(&self, config: &Config) -> Result<(), ServeError> {
        take_accounts(&self.service, &config.settings)?;
        policy::adopt(&self.service, &config.settings.trust)?;
        self.service.change_settings(config.settings.clone());
        if let Some(links) = &self.links {
            links.hear(&self.service, &self.started_with.settings.peers)?;
        }
        for setting in self.started_with.unlike(config) {
            tracing::warn!(setting, "this setting changes when the server is started again");
        }
        let peers = config.settings.peers.len();
        audit_local("configuration.reload", &format!("{} accounts, {peers} peers", config.settings.accounts.len()));
        Ok(())
    }

    /// Takes no more requests, answers those under way, and closes the clearinghouse.
    #[must_use]
    pub fn stop(self) -> Status {
        self.stop_threads.store(true, Ordering::Relaxed);
        self.stop_tasks.send_replace(true);
        self.ticker.stop();
        self.watcher.stop();
        self.learner.stop();
        self.links.into_iter().for_each(Links::stop);
        self.listeners.into_iter().for_each(udp::Listener::join);
        // Every task that serves a connection holds a receiver until it has ended.
        let _ = self.runtime.block_on(async { timeout(DRAIN, self.stop_tasks.closed()).await });
        self.runtime.shutdown_timeout(DRAIN);
        match Arc::into_inner(self.service) {
            Some(service) => service.store.close(),
            // A task that did not end in time has it; the process will end, and the journal has everything.
            None => Status::default(),
        }
    }
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

/// Makes files private that are not, and says so. Whoever may write to the directory could replace them.
fn check_modes(directory: &Path) {
    match modes::writable_mode(directory) {
        Ok(Some(mode)) => tracing::warn!(
            directory = %directory.display(),
            mode = format!("{mode:04o}"),
            "users other than the owner may write to the data directory, and replace its files: run chmod 0700 on it"
        ),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, directory = %directory.display(), "failed to look at the data directory"),
    }
    for Exposed { path, mode, tightened } in modes::tighten(directory).unwrap_or_default() {
        let (path, mode) = (path.display(), format!("{mode:04o}"));
        match tightened {
            Ok(()) => tracing::warn!(%path, mode, "others could read a file of the server: it is private now"),
            Err(error) => {
                tracing::warn!(%path, mode, %error, "others can read a file of the server: run chmod go= on it")
            }
        }
    }
}

/// Ages the books by the time that the server was off.
fn bring_to_present(service: &Service) -> Result<(), ServeError> {
    ticker::watch_clock(service);
    match service.store.catch_up(service.now()) {
        Ok(Outcome::Refused(refusal)) => Err(ServeError::Clock(refusal)),
        Ok(outcome) => {
            ticker::log_ended(service, &outcome);
            Ok(())
        }
        // With a full disk reports are refused, but checks are still answered.
        Err(error @ SubmitError::Write(_)) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the books are not brought to the present");
            Ok(())
        }
        Err(error) => Err(ServeError::CatchUp(error)),
    }
}

/// Resizes the clearinghouse to the configured memory, if it differs.
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
        // As with the time: the server can still answer with its old memory.
        Err(error @ SubmitError::Write(_)) => {
            tracing::error!(error = &error as &dyn std::error::Error, from, to, "the memory budget is not changed");
            Ok(())
        }
        Err(error) => Err(ServeError::ResizeKept(error)),
    }
}

/// What to found, if there is nothing yet: a new realm, or the one of a file.
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
        return Ok(founding.expect("checked with the file"));
    };
    match (Founding::read_file(file), existing) {
        // The file has done its work, and whoever removed it knows what a secret is.
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

/// Brings the accounts of the file into the clearinghouse.
fn take_accounts(service: &Service, settings: &Settings) -> Result<(), ServeError> {
    let changes = service.store.check(|engine| accounts::changes(&settings.accounts, &settings.passwords, engine))?;
    let now = service.now();
    // One after the other: what is submitted together is judged by what was before.
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
