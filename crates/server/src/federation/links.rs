//! Links to peers and the broker: the tasks that fetch segments, and the exporter's thread.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bruit_engine::Refusal;
use bruit_engine::exchange::{Chain, Relation};
use bruit_federation::exporter::ExportError;
use bruit_federation::keys::NodeKey;
use bruit_federation::link::Link;
use bruit_federation::publisher::publish;
use bruit_federation::stock::{Reader, Stock};
use bruit_federation::transport::files::DirectorySink;
use bruit_federation::transport::https::UrlError;
use bruit_federation::transport::nats::{NatsBroker, NatsError, NatsSettings, ReadLog};
use bruit_store::{SHELF_FOLDER, SubmitError};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::export_task::{ExportTask, start_export};
use super::local_site::{LocalSite, open_library, submit_origins};
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
    #[error("failed to start the exporter")]
    Begin(#[from] ExportError),
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
    site: Arc<LocalSite>,
    stop: Sender<()>,
    exporter: JoinHandle<()>,
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
        let library = Arc::new(open_library(service, &directory.join(SHELF_FOLDER), key));
        let mut export_task = start_export(service, &library, is_cluster, is_wanted, service.now())?;
        submit_origins(service, &peers)?;
        service.federation.share(Arc::clone(&library) as Arc<dyn Stock>);
        let site = Arc::new(LocalSite::new(service, library, &peers));
        let mut peer_links = ask_peers(&site, &peers, key, runtime, stop)?;
        if let Some(broker) = &settings.broker {
            peer_links.push(join_broker(&site, broker, &peers, runtime, stop)?);
        }
        if let Some(folder) = &settings.publish {
            let failed = |source| FederationError::Publish { folder: folder.clone(), source };
            let sink = DirectorySink::open(folder).map_err(failed)?;
            let (library, name) = (Arc::clone(&site.library), folder.display().to_string());
            let vital = Vital::new(service, "the task that publishes to a folder");
            spawn(runtime, stop, vital, async move { publish(&sink, &library, Reader::Peer, &name).await });
        }
        // Publishes the heads before the listeners start, so that the first replica finds an offer. A node of a cluster
        // publishes its heads only after it has received data from another node.
        export_task.step(&site, awaits_cluster(&site, &peer_links));
        let (stop, stopped) = mpsc::channel();
        let exporting = Arc::clone(&site);
        let vital = Vital::new(service, "the exporter");
        let exporter = move || {
            let _vital = vital;
            run_exporter(&exporting, export_task, &peer_links, &stopped);
        };
        let exporter = thread::Builder::new().name("bruit-exporter".into()).spawn(exporter);
        Ok(Self { site, stop, exporter: exporter.map_err(FederationError::Thread)? })
    }

    /// Applies the peers of new settings. The fetching tasks are fixed at startup; `before` lists the peers that have
    /// tasks.
    pub(crate) fn hear(&self, service: &Service, before: &[PeerSettings]) -> Result<(), FederationError> {
        let peers = service.settings().peers.clone();
        submit_origins(service, &peers)?;
        self.site.set_peers(&peers);
        let is_asked = |peer: &&PeerSettings| before.iter().any(|other| other.key == peer.key && other.url == peer.url);
        for peer in peers.iter().filter(|peer| !is_asked(peer)) {
            tracing::warn!(peer = peer.name, "segments will be requested from this peer after a restart");
        }
        Ok(())
    }

    pub(crate) fn stop(self) {
        drop(self.stop);
        if self.exporter.join().is_err() {
            tracing::error!("the exporter panicked");
        }
    }
}

fn ask_peers(
    site: &Arc<LocalSite>,
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
        let (link, site) = (Arc::new(Link::new(peer.name.as_str())), Arc::clone(site));
        peer_links.push(PeerLink { link: Arc::clone(&link), transport: "https", key: Some(*peer.key.as_bytes()) });
        let vital = Vital::new(&site.service, format!("the link to {}", peer.name));
        spawn(runtime, stop, vital, async move { link.follow(&source, &*site).await });
    }
    Ok(peer_links)
}

/// Starts the tasks that receive from the broker, publish to it, and answer requests of other nodes.
fn join_broker(
    site: &Arc<LocalSite>,
    settings: &NatsSettings,
    peers: &[PeerSettings],
    runtime: &Runtime,
    stop: &watch::Sender<bool>,
) -> Result<PeerLink, FederationError> {
    let library = Arc::clone(&site.library);
    let read_log: ReadLog =
        Arc::new(move |chain: &Chain, offset, bytes_max| library.log(chain, offset, bytes_max).ok().flatten());
    let keys = peers.iter().map(|peer| *peer.key.as_bytes());
    let realm = (site.library.realm(), site.library.epochs());
    let own = *site.library.key().public().as_bytes();
    let started = NatsBroker::start(settings, realm, own, keys, read_log);
    let broker = Arc::new(runtime.block_on(started)?);
    let name = settings.name();
    let link = Arc::new(Link::new(name.as_str()));
    let peer_link = PeerLink { link: Arc::clone(&link), transport: "nats", key: None };
    let (asked, site_asking) = (Arc::clone(&broker), Arc::clone(site));
    let vital = Vital::new(&site.service, "the link to the broker");
    spawn(runtime, stop, vital, async move { link.follow(&*asked, &*site_asking).await });
    let library = Arc::clone(&site.library);
    let vital = Vital::new(&site.service, "the task that publishes to the broker");
    spawn(runtime, stop, vital, async move { publish(&*broker, &library, Reader::Cluster, &name).await });
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
fn run_exporter(site: &LocalSite, mut export_task: ExportTask, peer_links: &[PeerLink], stopped: &mpsc::Receiver<()>) {
    let (mut watch, mut reported) = (Watch::default(), None);
    while stopped.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
        let uptime = site.service.uptime();
        export_task.step(site, awaits_cluster(site, peer_links));
        if reported.is_none_or(|reported| uptime.saturating_sub(reported) >= REPORT) {
            reported = Some(uptime);
            watch.look(site, peer_links);
        }
    }
}

/// Returns true if this node has not received data from any other node of the cluster yet.
fn awaits_cluster(site: &LocalSite, peer_links: &[PeerLink]) -> bool {
    let is_node = |peer_link: &&PeerLink| match peer_link.key {
        None => true,
        Some(key) => {
            let relation = site.service.store.check(|engine| engine.exchange().member(&key));
            relation.is_some_and(|member| member.terms.relation == Relation::Cluster)
        }
    };
    let mut nodes = peer_links.iter().filter(is_node).peekable();
    nodes.peek().is_some() && nodes.all(|peer_link| peer_link.link.status().heard.is_none())
}
