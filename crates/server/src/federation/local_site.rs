//! The local side of the exchange: the clearinghouse, the library of segments, and the accepted origins.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use bruit_engine::Outcome;
use bruit_engine::event::Event;
use bruit_engine::exchange::{OriginChange, Relation, Terms};
use bruit_engine::time::Time;
use bruit_engine::trust::Standing;
use bruit_federation::judge::Known;
use bruit_federation::keys::{NodeKey, PublicKey};
use bruit_federation::library::Library;
use bruit_federation::link::Site;
use bruit_federation::shelf::Shelf;
use bruit_store::Clearinghouse;

use super::links::FederationError;
use crate::config::{PeerSettings, PeerTrust};
use crate::service::Service;

/// The state that the links and the exporter share.
pub(super) struct LocalSite {
    pub(super) service: Arc<Service>,
    pub(super) library: Arc<Library>,
    known: RwLock<Arc<Known>>,
}

impl Site for LocalSite {
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

impl LocalSite {
    pub(super) fn new(service: &Arc<Service>, library: Arc<Library>, peers: &[PeerSettings]) -> Self {
        let known = RwLock::new(Arc::new(known(library.key().public(), peers)));
        Self { service: Arc::clone(service), library, known }
    }

    /// Replaces the peers whose segments are accepted.
    pub(super) fn set_peers(&self, peers: &[PeerSettings]) {
        let known = known(self.library.key().public(), peers);
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
    }
}

/// Returns the accepted origins: the configured servers, and this server, whose earlier segments peers may hold.
fn known(own: PublicKey, peers: &[PeerSettings]) -> Known {
    let others = peers.iter().map(|peer| (peer.key, peer.relation));
    Known::new(others.chain([(own, Relation::Cluster)]))
}

/// Opens the library on the shelf in `folder`. An unreadable or unwritable shelf is recorded as a condition but does
/// not stop the server.
pub(super) fn open_library(service: &Service, folder: &Path, key: &NodeKey) -> Library {
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
