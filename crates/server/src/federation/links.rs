//! Links to peers and the broker: the tasks that fetch segments, and the exporter's thread.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bruit_engine::Refusal;
use bruit_engine::exchange::{Chain, Relation};
use bruit_federation::keys::NodeKey;
use bruit_federation::link::{Link, publish};
use bruit_federation::shelf::Reader;
use bruit_federation::transport::files::DirectorySink;
use bruit_federation::transport::https::UrlError;
use bruit_federation::transport::nats::{NatsBroker, NatsError, NatsSettings, ReadLog};
use bruit_store::{SHELF_FOLDER, SubmitError};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::export_task::ExportTask;
use super::forgetting;
use super::local::{LocalServer, open_shelf, submit_origins};
use super::peers::Watch;
use crate::config::{FederationSettings, PeerSettings};
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

/// The running links: the exporter thread and the fetching tasks.
pub(crate) struct Links {
    local: Arc<LocalServer>,
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
        let is_cluster = settings.broker.is_some() || peers.iter().any(|peer| peer.relation == Relation::Cluster);
        let is_wanted = is_cluster || !peers.is_empty() || settings.publish.is_some();
        let shelf = Arc::new(open_shelf(service, &directory.join(SHELF_FOLDER), key));
        let mut export_task =
            ExportTask::start(service, &shelf, is_cluster, is_wanted).map_err(FederationError::Begin)?;
        submit_origins(service, &peers)?;
        service.federation.share(Arc::clone(&shelf));
        let local = Arc::new(LocalServer::new(service, shelf, &peers));
        let mut peer_links = ask_peers(&local, &peers, key, runtime, stop)?;
        if let Some(broker) = &settings.broker {
            peer_links.push(join_broker(&local, broker, &peers, runtime, stop)?);
        }
        if let Some(folder) = &settings.publish {
            let failed = |source| FederationError::Publish { folder: folder.clone(), source };
            let sink = DirectorySink::open(folder).map_err(failed)?;
            let (shelf, name) = (Arc::clone(&local.shelf), folder.display().to_string());
            let vital = Vital::new(service, "the task that publishes to a folder");
            spawn(runtime, stop, vital, async move { publish(&sink, &shelf, Reader::Peer, &name).await });
        }
        // Publish the heads before the listeners start, so that the first replica finds an offer. A node of a cluster
        // publishes its heads only after it has received data from another node.
        export_task.step(&local, &peer_links);
        let (stop, stopped) = mpsc::channel();
        let exporting = Arc::clone(&local);
        let vital = Vital::new(service, "the exporter");
        let exporter = move || {
            let _vital = vital;
            run_exporter(&exporting, export_task, &peer_links, &stopped);
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
        Ok(Self { local, stop, exporter, stop_forgetting, forgetter })
    }

    /// Applies the peers of new settings. The fetching tasks are fixed at startup; `before` lists the peers that have
    /// tasks.
    pub(crate) fn hear(&self, service: &Service, before: &[PeerSettings]) -> Result<(), FederationError> {
        let peers = service.settings().peers.clone();
        submit_origins(service, &peers)?;
        self.local.set_peers(&peers);
        let is_asked = |peer: &&PeerSettings| before.iter().any(|other| other.key == peer.key && other.url == peer.url);
        for peer in peers.iter().filter(|peer| !is_asked(peer)) {
            tracing::warn!(peer = peer.name, "segments will be requested from this peer after a restart");
        }
        Ok(())
    }

    pub(crate) fn stop(self) {
        drop((self.stop, self.stop_forgetting));
        if self.forgetter.join().is_err() {
            tracing::error!("the thread that forgets servers panicked");
        }
        if self.exporter.join().is_err() {
            tracing::error!("the exporter panicked");
        }
    }
}

fn ask_peers(
    local: &Arc<LocalServer>,
    peers: &[PeerSettings],
    key: &NodeKey,
    runtime: &Runtime,
    stop: &watch::Sender<bool>,
) -> Result<Vec<PeerLink>, FederationError> {
    let mut peer_links = Vec::new();
    for peer in peers {
        let source = peer.source(key.seed());
        let source = source.map_err(|source| FederationError::Url { name: peer.name.clone(), source })?;
        let Some(source) = source else { continue };
        let source = local.service.federation.paused.pausable(*peer.key.as_bytes(), source);
        let (link, local) = (Arc::new(Link::new(&peer.name, &local.shelf)), Arc::clone(local));
        peer_links.push(PeerLink { link: Arc::clone(&link), transport: "https", key: Some(*peer.key.as_bytes()) });
        let vital = Vital::new(&local.service, format!("the link to {}", peer.name));
        spawn(runtime, stop, vital, async move { link.follow(&source, local.local()).await });
    }
    Ok(peer_links)
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
    spawn(runtime, stop, vital, async move { link.follow(&*asked, local_asking.local()).await });
    let shelf = Arc::clone(&local.shelf);
    let vital = Vital::new(&local.service, "the task that publishes to the broker");
    spawn(runtime, stop, vital, async move { publish(&*broker, &shelf, Reader::Cluster, &name).await });
    Ok(peer_link)
}

/// Runs a task until the server stops. A panic in it ends the process.
fn spawn(runtime: &Runtime, stop: &watch::Sender<bool>, vital: Vital, task: impl Future<Output = ()> + Send + 'static) {
    let mut stopped = stop.subscribe();
    runtime.spawn(async move {
        let _vital = vital;
        tokio::select! {
            () = task => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
    });
}

/// Runs the exporter thread.
fn run_exporter(
    local: &LocalServer,
    mut export_task: ExportTask,
    peer_links: &[PeerLink],
    stopped: &mpsc::Receiver<()>,
) {
    let (mut watch, mut reported) = (Watch::default(), None);
    while stopped.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
        let uptime = local.service.uptime();
        export_task.step(local, peer_links);
        if reported.is_none_or(|reported| uptime.saturating_sub(reported) >= REPORT) {
            reported = Some(uptime);
            watch.look(local, peer_links);
        }
    }
}
