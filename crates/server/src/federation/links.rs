//! Links to peers and the broker: the tasks that fetch segments, and the exporter's thread.
//!
//! The links to peers follow the settings while the server runs: a new peer gets a link, and the link of a peer that was
//! removed, or that has a new name or URL, ends.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bruit_engine::Refusal;
use bruit_engine::exchange::Chain;
use bruit_federation::keys::NodeKey;
use bruit_federation::link::{Link, publish};
use bruit_federation::shelf::Reader;
use bruit_federation::transport::files::DirectorySink;
use bruit_federation::transport::https::UrlError;
use bruit_federation::transport::nats::{NatsBroker, NatsError, NatsSettings, ReadLog};
use bruit_store::{SHELF_FOLDER, SubmitError};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::export_task::ExportTask;
use super::forgetting;
use super::local::{LocalServer, open_shelf, submit_origins};
use super::peers::Watch;
use crate::config::{FederationSettings, PeerSettings, PeerTls};
use crate::fatal::Vital;
use crate::service::Service;

/// Interval between exporter steps.
const STEP: Duration = Duration::from_millis(50);

/// Interval between updates of the peers' states.
const REPORT: Duration = Duration::from_secs(1);

/// The exchange with other servers cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FederationError {
    /// The folder to publish in cannot be created.
    #[error("failed to open {}, the folder of federation.publish", .folder.display())]
    Publish {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error("failed to start the exporter thread")]
    Thread(#[source] io::Error),
    /// The list of accepted origins cannot be written.
    #[error("failed to write the list of peers")]
    Submit(#[from] SubmitError),
    /// The list of accepted origins was refused.
    #[error("the configured peers are refused: {0}")]
    Refused(Refusal),
    /// The exporter cannot start.
    #[error("failed to start the exporter: {0}")]
    Begin(String),
    /// A peer's URL is invalid.
    #[error("invalid URL of peer {name}")]
    Url {
        /// The peer.
        name: String,
        /// The cause.
        #[source]
        source: UrlError,
    },
    /// The broker's settings are unusable.
    #[error("invalid broker settings")]
    Broker(#[from] NatsError),
}

/// A link, and the origins whose segments it delivers.
#[derive(Clone)]
pub(super) struct PeerLink {
    pub(super) link: Arc<Link>,
    pub(super) transport: &'static str,
    /// The peer at the other end, or `None` for a broker.
    pub(super) key: Option<[u8; 32]>,
}

/// A link to a peer, with the settings that it was started with.
struct PeerTask {
    peer_link: PeerLink,
    name: String,
    url: Option<String>,
    tls: PeerTls,
    task: AbortHandle,
}

impl PeerTask {
    /// Returns true if the task was started with the key, name, URL and kind of TLS that this peer has now.
    fn serves(&self, peer: &PeerSettings) -> bool {
        let is_same = self.name == peer.name && self.url == peer.url && self.tls == peer.tls;
        is_same && self.peer_link.key == Some(*peer.key.as_bytes())
    }
}

/// The links, which change with the settings.
pub(crate) struct LinkSet {
    local: Arc<LocalServer>,
    key: NodeKey,
    runtime: Handle,
    stop: watch::Sender<bool>,
    tasks: Mutex<Vec<PeerTask>>,
    /// The link to the broker, and the peers whose segments the broker delivers. Both are fixed at the start.
    broker: Option<(PeerLink, BTreeSet<[u8; 32]>)>,
}

impl LinkSet {
    /// Puts the peers of the current settings into effect: which origins are accepted, and which peers are asked.
    pub(crate) fn apply(&self) -> Result<(), FederationError> {
        let service = &self.local.service;
        let peers = service.settings().peers.clone();
        submit_origins(service, &peers)?;
        self.local.refresh();
        self.ask(&peers)?;
        service.federation.retain(&peers);
        let is_late = |peer: &&PeerSettings| {
            let known = self.broker.as_ref().is_none_or(|(_, known)| known.contains(peer.key.as_bytes()));
            !known && peer.url.is_none()
        };
        for peer in peers.iter().filter(is_late) {
            tracing::warn!(peer = peer.name, "the broker delivers the segments of this peer after a restart");
        }
        Ok(())
    }

    /// Ends the links to peers that are not asked any more, and starts the missing ones.
    fn ask(&self, peers: &[PeerSettings]) -> Result<(), FederationError> {
        let mut tasks = self.tasks();
        tasks.retain(|task| {
            let is_wanted = peers.iter().any(|peer| task.serves(peer));
            if !is_wanted {
                task.task.abort();
            }
            is_wanted
        });
        for peer in peers {
            if !tasks.iter().any(|task| task.serves(peer)) {
                tasks.extend(self.start(peer)?);
            }
        }
        Ok(())
    }

    /// Starts the link to a peer, if the peer has a URL.
    fn start(&self, peer: &PeerSettings) -> Result<Option<PeerTask>, FederationError> {
        let source = peer.source(self.key.seed());
        let source = source.map_err(|source| FederationError::Url { name: peer.name.clone(), source })?;
        let Some(source) = source else { return Ok(None) };
        let (key, local) = (*peer.key.as_bytes(), Arc::clone(&self.local));
        let source = local.service.federation.paused.pausable(key, source);
        let link = Arc::new(Link::new(&peer.name, &local.shelf));
        let peer_link = PeerLink { link: Arc::clone(&link), transport: "https", key: Some(key) };
        let vital = Vital::new(&local.service, format!("the link to {}", peer.name));
        let following = async move { link.follow(&source, local.local()).await };
        let task = spawn(&self.runtime, &self.stop, vital, following);
        Ok(Some(PeerTask { peer_link, name: peer.name.clone(), url: peer.url.clone(), tls: peer.tls, task }))
    }

    /// Returns all links.
    fn links(&self) -> Vec<PeerLink> {
        let own = self.tasks().iter().map(|task| task.peer_link.clone()).collect::<Vec<_>>().into_iter();
        own.chain(self.broker.as_ref().map(|(link, _)| link.clone())).collect()
    }

    /// Locks the tasks. Ignores poisoning, because no panic can leave the list incomplete.
    fn tasks(&self) -> MutexGuard<'_, Vec<PeerTask>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The running links: the exporter thread and the fetching tasks.
pub(crate) struct Links {
    set: Arc<LinkSet>,
    stop: Sender<()>,
    exporter: JoinHandle<()>,
    stop_forgetting: Sender<()>,
    forgetter: JoinHandle<()>,
}

impl Links {
    /// Starts the exchange with the configured servers.
    pub(crate) fn start(
        service: &Arc<Service>,
        settings: &FederationSettings,
        directory: &Path,
        key: &NodeKey,
        runtime: &Runtime,
        stop: &watch::Sender<bool>,
    ) -> Result<Self, FederationError> {
        let peers = service.settings().peers.clone();
        let is_wanted = settings.broker.is_some() || settings.publish.is_some();
        let shelf = Arc::new(open_shelf(service, &directory.join(SHELF_FOLDER), key));
        let mut export_task =
            ExportTask::start(service, &shelf, settings.broker.is_some(), is_wanted).map_err(FederationError::Begin)?;
        submit_origins(service, &peers)?;
        service.federation.share(Arc::clone(&shelf));
        let local = Arc::new(LocalServer::new(service, shelf, &peers));
        let broker = match &settings.broker {
            Some(broker) => {
                let keys = peers.iter().map(|peer| *peer.key.as_bytes()).collect();
                Some((join_broker(&local, broker, &peers, runtime, stop)?, keys))
            }
            None => None,
        };
        let set = Arc::new(LinkSet {
            local: Arc::clone(&local),
            key: key.clone(),
            runtime: runtime.handle().clone(),
            stop: stop.clone(),
            tasks: Mutex::default(),
            broker,
        });
        set.ask(&peers)?;
        if let Some(folder) = &settings.publish {
            let failed = |source| FederationError::Publish { folder: folder.clone(), source };
            let sink = DirectorySink::open(folder).map_err(failed)?;
            let (shelf, name) = (Arc::clone(&local.shelf), folder.display().to_string());
            let vital = Vital::new(service, "the task that publishes to a folder");
            spawn(runtime.handle(), stop, vital, async move { publish(&sink, &shelf, Reader::Peer, &name).await });
        }
        // Publish the heads before the listeners start, so that the first replica finds an offer. A node of a cluster
        // publishes its heads only after it has received data from another node.
        export_task.step(&local, &set.links());
        let (stop, stopped) = mpsc::channel();
        let exporting = Arc::clone(&set);
        let vital = Vital::new(service, "the exporter");
        let exporter = move || {
            let _vital = vital;
            run_exporter(&exporting, export_task, &stopped);
        };
        let exporter = thread::Builder::new().name("bruit-exporter".into()).spawn(exporter);
        let exporter = exporter.map_err(FederationError::Thread)?;
        let (stop_forgetting, stopped) = mpsc::channel();
        let forgetting = Arc::clone(&local);
        let vital = Vital::new(service, "the thread that forgets servers");
        let forgetter = move || {
            let _vital = vital;
            forgetting::run(&forgetting, &stopped);
        };
        let forgetter = thread::Builder::new().name("bruit-forget".into()).spawn(forgetter);
        let forgetter = forgetter.map_err(FederationError::Thread)?;
        service.federation.set_links(Some(Arc::clone(&set)));
        Ok(Self { set, stop, exporter, stop_forgetting, forgetter })
    }

    pub(crate) fn stop(self) {
        // The links hold the service, which must be free at the end.
        self.set.local.service.federation.set_links(None);
        drop((self.stop, self.stop_forgetting));
        if self.forgetter.join().is_err() {
            tracing::error!("the thread that forgets servers panicked");
        }
        if self.exporter.join().is_err() {
            tracing::error!("the exporter panicked");
        }
    }
}

/// Starts the tasks that receive from the broker, publish to it, and answer requests of other nodes.
fn join_broker(
    local: &Arc<LocalServer>,
    settings: &NatsSettings,
    peers: &[PeerSettings],
    runtime: &Runtime,
    stop: &watch::Sender<bool>,
) -> Result<PeerLink, FederationError> {
    let shelf = Arc::clone(&local.shelf);
    let read_log: ReadLog =
        Arc::new(move |chain: &Chain, offset, bytes_max| shelf.log(chain, offset, bytes_max).ok().flatten());
    let keys = peers.iter().map(|peer| *peer.key.as_bytes());
    let realm = (local.shelf.realm(), local.shelf.epochs());
    let own = *local.shelf.key().public().as_bytes();
    let started = NatsBroker::start(settings, realm, own, keys, read_log);
    let broker = Arc::new(runtime.block_on(started)?);
    let name = settings.name();
    let link = Arc::new(Link::new(&name, &local.shelf));
    let peer_link = PeerLink { link: Arc::clone(&link), transport: "nats", key: None };
    let (asked, local_asking) = (Arc::clone(&broker), Arc::clone(local));
    let vital = Vital::new(&local.service, "the link to the broker");
    spawn(runtime.handle(), stop, vital, async move { link.follow(&*asked, local_asking.local()).await });
    let shelf = Arc::clone(&local.shelf);
    let vital = Vital::new(&local.service, "the task that publishes to the broker");
    spawn(runtime.handle(), stop, vital, async move { publish(&*broker, &shelf, Reader::Cluster, &name).await });
    Ok(peer_link)
}

/// Runs a task until the server stops. A panic in it ends the process.
fn spawn(
    runtime: &Handle,
    stop: &watch::Sender<bool>,
    vital: Vital,
    task: impl Future<Output = ()> + Send + 'static,
) -> AbortHandle {
    let mut stopped = stop.subscribe();
    let running = runtime.spawn(async move {
        let _vital = vital;
        tokio::select! {
            () = task => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
    });
    running.abort_handle()
}

/// Runs the exporter thread.
fn run_exporter(set: &LinkSet, mut export_task: ExportTask, stopped: &mpsc::Receiver<()>) {
    let (local, mut watch, mut reported) = (&*set.local, Watch::default(), None);
    while stopped.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
        let (uptime, peer_links) = (local.service.uptime(), set.links());
        export_task.step(local, &peer_links);
        if reported.is_none_or(|reported| uptime.saturating_sub(reported) >= REPORT) {
            reported = Some(uptime);
            watch.look(local, &peer_links);
        }
    }
}
