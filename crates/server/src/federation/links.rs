//! This server among others: who is heard, what they are told, and the tasks that do it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bruit_engine::event::Event;
use bruit_engine::exchange::{Chain, OriginChange, Relation, Terms};
use bruit_engine::time::Time;
use bruit_engine::trust::Standing;
use bruit_engine::{Outcome, Refusal};
use bruit_federation::exporter::ExportError;
use bruit_federation::judge::Known;
use bruit_federation::keys::{NodeKey, PublicKey};
use bruit_federation::library::Library;
use bruit_federation::link::{Link, Site};
use bruit_federation::publisher::publish;
use bruit_federation::shelf::Shelf;
use bruit_federation::stock::{Reader, Stock};
use bruit_federation::transport::files::DirectorySink;
use bruit_federation::transport::https::UrlError;
use bruit_federation::transport::nats::{NatsBroker, NatsError, NatsSettings, ReadLog};
use bruit_store::{Clearinghouse, SHELF_FOLDER, SubmitError};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::peers::Watch;
use super::telling::{Telling, begin_telling};
use crate::config::{FederationSettings, PeerSettings, PeerTrust};
use crate::fatal::Vital;
use crate::service::Service;

/// Between two looks at what waits to be told.
const STEP: Duration = Duration::from_millis(50);

/// Between two reports of how it goes with others.
const REPORT: Duration = Duration::from_secs(1);

/// Why a server does not take part.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FederationError {
    /// The folder to publish in cannot be created.
    #[error("failed to open {}, the folder to publish in", .folder.display())]
    Publish {
        /// The folder.
        folder: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error("failed to start the thread that tells other servers")]
    Thread(#[source] io::Error),
    /// Who is heard cannot be written down.
    #[error("failed to keep which servers are heard")]
    Submit(#[from] SubmitError),
    /// Who is heard is refused.
    #[error("the servers of the configuration are refused: {0}")]
    Refused(Refusal),
    /// It cannot begin to tell others.
    #[error("failed to begin to tell other servers")]
    Begin(#[from] ExportError),
    /// A URL cannot be used.
    #[error("the URL of {name} cannot be used")]
    Url {
        /// Whose.
        name: String,
        /// The cause.
        #[source]
        source: UrlError,
    },
    /// The broker cannot even be tried.
    #[error("the broker cannot be used")]
    Broker(#[from] NatsError),
}

/// What links work for.
pub(super) struct Neighbour {
    pub(super) service: Arc<Service>,
    pub(super) library: Arc<Library>,
    known: RwLock<Arc<Known>>,
}

impl Site for Neighbour {
    fn store(&self) -> &Clearinghouse {
        &self.service.store
    }

    fn library(&self) -> &Library {
        &self.library
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn now(&self) -> Time {
        self.service.now()
    }
}

/// A link, and which servers' segments it brings.
#[derive(Clone)]
pub(super) struct Road {
    pub(super) link: Arc<Link>,
    pub(super) transport: &'static str,
    /// The server at its end; all of them, if there is a broker.
    pub(super) key: Option<[u8; 32]>,
}

/// The running part: a thread that tells, and tasks that ask.
pub(crate) struct Links {
    site: Arc<Neighbour>,
    stop: Sender<()>,
    exporter: JoinHandle<()>,
}

impl Links {
    /// Takes up with the servers of the configuration.
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
        let telling = begin_telling(service, &library, is_cluster, is_wanted, service.now())?;
        hear(service, &peers)?;
        service.federation.share(Arc::clone(&library) as Arc<dyn Stock>);
        let known = RwLock::new(Arc::new(known(key.public(), &peers)));
        let site = Arc::new(Neighbour { service: Arc::clone(service), library, known });
        let mut roads = ask_peers(&site, &peers, key, runtime, stop)?;
        if let Some(broker) = &settings.broker {
            roads.push(join_broker(&site, broker, &peers, runtime, stop)?);
        }
        if let Some(folder) = &settings.publish {
            let failed = |source| FederationError::Publish { folder: folder.clone(), source };
            let sink = DirectorySink::open(folder).map_err(failed)?;
            let (library, name) = (Arc::clone(&site.library), folder.display().to_string());
            let vital = Vital::new(service, "the task that publishes to a folder");
            spawn(runtime, stop, vital, async move { publish(&sink, &library, Reader::Peer, &name).await });
        }
        let (stop, stopped) = mpsc::channel();
        let exporting = Arc::clone(&site);
        let vital = Vital::new(service, "the exporter");
        let exporter = move || {
            let _vital = vital;
            tell_others(&exporting, telling, &roads, &stopped);
        };
        let exporter = thread::Builder::new().name("bruit-exporter".into()).spawn(exporter);
        Ok(Self { site, stop, exporter: exporter.map_err(FederationError::Thread)? })
    }

    /// Hears the servers of new settings. Whom to ask for segments is decided when the server starts: `before` are those it asks.
    pub(crate) fn hear(&self, service: &Service, before: &[PeerSettings]) -> Result<(), FederationError> {
        let peers = service.settings().peers.clone();
        hear(service, &peers)?;
        let known = known(self.site.library.key().public(), &peers);
        *self.site.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
        let is_asked = |peer: &&PeerSettings| before.iter().any(|other| other.key == peer.key && other.url == peer.url);
        for peer in peers.iter().filter(|peer| !is_asked(peer)) {
            tracing::warn!(peer = peer.name, "this server is asked for segments when the server is started again");
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

/// Who is heard: the servers of the configuration, and what others have of what we said ourselves.
fn known(own: PublicKey, peers: &[PeerSettings]) -> Known {
    let others = peers.iter().map(|peer| (peer.key, peer.relation));
    Known::new(others.chain([(own, Relation::Cluster)]))
}

/// Opens the library on the shelf in `folder`. A shelf that cannot be read or written now is noted, but does not stop the server.
fn open_library(service: &Service, folder: &Path, key: &NodeKey) -> Library {
    let open = || {
        Shelf::open(folder).and_then(|shelf| {
            shelf.check()?;
            service.store.check(|engine| Library::open(shelf, key.clone(), engine))
        })
    };
    open().unwrap_or_else(|error| {
        tracing::error!(%error, folder = %folder.display(), "failed to open the folder of logs for other servers");
        service.store.check(|engine| Library::closed(Shelf::at(folder), key.clone(), engine))
    })
}

/// Tells the clearinghouse who is heard from now on.
fn hear(service: &Service, peers: &[PeerSettings]) -> Result<(), FederationError> {
    let wanted: BTreeMap<[u8; 32], Terms> =
        peers.iter().map(|peer| (*peer.key.as_bytes(), terms(service, peer))).collect();
    let members: BTreeMap<_, _> = service.store.check(|engine| engine.exchange().members().collect());
    let leave = members.keys().filter(|key| !wanted.contains_key(*key)).map(|key| OriginChange::Leave { key: *key });
    let is_new = |(key, terms): &(&[u8; 32], &Terms)| members.get(*key).is_none_or(|member| member.terms != **terms);
    let join = wanted.iter().filter(is_new).map(|(key, terms)| OriginChange::Join { key: *key, terms: *terms });
    let now = service.now();
    for change in leave.chain(join) {
        // One after the other: what is submitted together is judged by what was before.
        let outcomes = service.store.submit(vec![Event::Origin { now, change }])?;
        if let Some(Outcome::Refused(refusal)) = outcomes.first() {
            return Err(FederationError::Refused(*refusal));
        }
    }
    Ok(())
}

fn terms(service: &Service, peer: &PeerSettings) -> Terms {
    let standing = match peer.trust {
        PeerTrust::Pinned => Standing::Pinned,
        PeerTrust::Earned => Standing::Account,
    };
    let group = service.key.fingerprint(format!("group of servers: {}", peer.group).as_bytes()).high();
    Terms { relation: peer.relation, standing, group, cap: peer.bulk_cap }
}

fn ask_peers(
    site: &Arc<Neighbour>,
    peers: &[PeerSettings],
    key: &NodeKey,
    runtime: &Runtime,
    stop: &watch::Sender<bool>,
) -> Result<Vec<Road>, FederationError> {
    let mut roads = Vec::new();
    for peer in peers {
        let source = peer.source(key.seed());
        let source = source.map_err(|source| FederationError::Url { name: peer.name.clone(), source })?;
        let Some(source) = source else { continue };
        let (link, site) = (Arc::new(Link::new(peer.name.as_str())), Arc::clone(site));
        roads.push(Road { link: Arc::clone(&link), transport: "https", key: Some(*peer.key.as_bytes()) });
        let vital = Vital::new(&site.service, format!("the link to {}", peer.name));
        spawn(runtime, stop, vital, async move { link.follow(&source, &*site).await });
    }
    Ok(roads)
}

/// Follows the broker, publishes there, and answers other nodes' questions.
fn join_broker(
    site: &Arc<Neighbour>,
    settings: &NatsSettings,
    peers: &[PeerSettings],
    runtime: &Runtime,
    stop: &watch::Sender<bool>,
) -> Result<Road, FederationError> {
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
    let road = Road { link: Arc::clone(&link), transport: "nats", key: None };
    let (asked, site_asking) = (Arc::clone(&broker), Arc::clone(site));
    let vital = Vital::new(&site.service, "the link to the broker");
    spawn(runtime, stop, vital, async move { link.follow(&*asked, &*site_asking).await });
    let library = Arc::clone(&site.library);
    let vital = Vital::new(&site.service, "the task that publishes to the broker");
    spawn(runtime, stop, vital, async move { publish(&*broker, &library, Reader::Cluster, &name).await });
    Ok(road)
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

/// The exporter's thread.
fn tell_others(site: &Neighbour, mut telling: Telling, roads: &[Road], stopped: &mpsc::Receiver<()>) {
    let (mut watch, mut reported) = (Watch::default(), None);
    while stopped.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
        let uptime = site.service.uptime();
        telling.step(site, is_unheard(site, roads));
        if reported.is_none_or(|reported| uptime.saturating_sub(reported) >= REPORT) {
            reported = Some(uptime);
            watch.look(site, roads);
        }
    }
}

/// Whether no node of the cluster was heard yet.
fn is_unheard(site: &Neighbour, roads: &[Road]) -> bool {
    let is_node = |road: &&Road| match road.key {
        None => true,
        Some(key) => {
            let relation = site.service.store.check(|engine| engine.exchange().member(&key));
            relation.is_some_and(|member| member.terms.relation == Relation::Cluster)
        }
    };
    let mut nodes = roads.iter().filter(is_node).peekable();
    nodes.peek().is_some() && nodes.all(|road| road.link.status().heard.is_none())
}
