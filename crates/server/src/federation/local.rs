//! The local side of the exchange: the clearinghouse, the logs for other servers, and the accepted origins.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use bruit_engine::Outcome;
use bruit_engine::event::Event;
use bruit_engine::exchange::{OriginChange, Relation, Terms};
use bruit_engine::time::Time;
use bruit_engine::trust::Standing;
use bruit_federation::coordinator::judge::Known;
use bruit_federation::keys::{NodeKey, PublicKey};
use bruit_federation::link::Local;
use bruit_federation::shelf::{LogFolder, Logs as _, Shelf};

use super::links::FederationError;
use crate::config::{PeerSettings, PeerTrust};
use crate::service::Service;

/// The state that the links and the exporter share.
pub(super) struct LocalServer {
    pub(super) service: Arc<Service>,
    pub(super) shelf: Arc<Shelf>,
    known: RwLock<Arc<Known>>,
    clock: Box<dyn Fn() -> Time + Send + Sync>,
}

impl LocalServer {
    pub(super) fn new(service: &Arc<Service>, shelf: Arc<Shelf>, peers: &[PeerSettings]) -> Self {
        let known = RwLock::new(Arc::new(known(service, shelf.key().public(), peers)));
        let timed = Arc::clone(service);
        Self { service: Arc::clone(service), shelf, known, clock: Box::new(move || timed.now()) }
    }

    /// Returns the parts that a link needs.
    pub(super) fn local(&self) -> Local<'_> {
        Local { store: &self.service.store, shelf: &self.shelf, known: &self.known, clock: &*self.clock }
    }

    pub(super) fn now(&self) -> Time {
        self.service.now()
    }

    /// Updates the accepted origins after the settings changed, or a server was forgotten or accepted again.
    pub(super) fn refresh(&self) {
        // Read the settings while the lock is held, so that an older list never replaces a newer one.
        let mut present = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let known = known(&self.service, self.shelf.key().public(), &self.service.settings().peers);
        *present = Arc::new(known.sharing_verified(&present));
    }
}

/// Returns the accepted origins: the configured servers that are not forgotten, and this server itself, because peers
/// may hold segments that it published earlier.
fn known(service: &Service, own: PublicKey, peers: &[PeerSettings]) -> Known {
    let is_accepted = |peer: &&PeerSettings| !service.has_forgotten(peer.key.as_bytes());
    let others = peers.iter().filter(is_accepted).map(|peer| (peer.key, peer.relation));
    Known::new(others.chain([(own, Relation::Cluster)]))
}

/// Opens the shelf in `folder`. An unreadable or unwritable folder is recorded as a condition but does not stop the
/// server.
pub(super) fn open_shelf(service: &Service, folder: &Path, key: &NodeKey) -> Shelf {
    let open = || {
        LogFolder::open(folder).and_then(|logs| {
            logs.check()?;
            service.store.check(|engine| Shelf::open(logs, key.clone(), engine))
        })
    };
    open().unwrap_or_else(|error| {
        tracing::error!(%error, folder = %folder.display(), "failed to open the folder of logs for other servers");
        service.store.check(|engine| Shelf::closed(LogFolder::at(folder), key.clone(), engine))
    })
}

/// Submits the accepted origins to the clearinghouse.
pub(super) fn submit_origins(service: &Service, peers: &[PeerSettings]) -> Result<(), FederationError> {
    let wanted: BTreeMap<[u8; 32], Terms> =
        peers.iter().map(|peer| (*peer.key.as_bytes(), terms(service, peer))).collect();
    let members: BTreeMap<_, _> = service.store.check(|engine| engine.exchange().members().collect());
    let leave = members.keys().filter(|key| !wanted.contains_key(*key)).map(|key| OriginChange::Leave { key: *key });
    let is_new = |(key, terms): &(&[u8; 32], &Terms)| members.get(*key).is_none_or(|member| member.terms != **terms);
    let join = wanted.iter().filter(is_new).map(|(key, terms)| OriginChange::Join { key: *key, terms: *terms });
    let now = service.now();
    for change in leave.chain(join) {
        // Submit one by one: events of one batch are judged by the state before the batch.
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
