//! The federation paths, which serve replicas and the site's own programs. Callers with the right to check receive the
//! same data as peers.

use axum::extract::{Extension, Query, State};
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use bruit_engine::event::Event;
use bruit_engine::exchange::Relation;
use bruit_engine::time::Time;
use bruit_federation::describe;
use bruit_federation::keys::PublicKey;
use bruit_federation::shelf::Reader;
use bruit_protocols::http::{NewPeer, PeerStatus, Peers, SiteProgram, SiteState};

use super::Http;
use super::caller::{Caller, Right};
use super::fault::{Fault, Reply};
use super::router::LongPoll;
use crate::audit::audit;
use crate::config::{NewPeerFields, PeerSettings, Settings, new_peer};
use crate::federation::{FederationError, OfferQuery, PeerChangeError, Stop};
use crate::metrics::Disposition;
use crate::service::Service;

type ReplicaOfferQuery = Result<Query<OfferQuery>, axum::extract::rejection::QueryRejection>;

/// Refuses strangers even if anyone may check, because the federation paths expose the complete books.
fn require_replica(caller: &Caller) -> Result<Reader, Fault> {
    caller.require(Right::Check)?;
    if caller.is_stranger() {
        return Err(Fault::forbidden("this requires a token, or an address in the site's own networks"));
    }
    Ok(Reader::Replica)
}

pub(super) async fn offer(
    State(http): State<Http>,
    caller: Caller,
    query: ReplicaOfferQuery,
    Extension(stop): Extension<Stop>,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let reader = require_replica(&caller)?;
    let Query(query) = query.map_err(Fault::malformed)?;
    // Replicas do not describe themselves, but only they ask for offers here.
    caller.note_site(SiteState::of(SiteProgram::Replica), &headers, &http.service);
    let offer = http.service.federation.offer(reader, &query, &headers, stop).await;
    // Mark failures as long polls, too, because the request may have waited before it failed.
    let mut offer = offer.unwrap_or_else(IntoResponse::into_response);
    offer.extensions_mut().insert(LongPoll);
    Ok(offer)
}

pub(super) async fn log(
    State(http): State<Http>,
    caller: Caller,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let reader = require_replica(&caller)?;
    http.service.federation.log(reader, uri.path(), &headers).await
}

pub(super) async fn realm(State(http): State<Http>, caller: Caller) -> Result<Response, Fault> {
    caller.require(Right::Realm)?;
    let realm = http.service.federation.realm().await;
    audit(&caller.who(), "realm.read", "the realm's secret key", realm.as_ref().err().map(Fault::detail));
    realm
}

pub(super) async fn peers(State(http): State<Http>, caller: Caller) -> Result<Reply<Peers>, Fault> {
    caller.require(Right::Monitor)?;
    let key = http.service.federation.key();
    Ok(Reply(Disposition::Other, Peers { key, peers: states(&http.service) }))
}

/// Returns the state of every peer. States are computed once a second, so a peer that was just added gets a preliminary
/// one.
pub(super) fn states(service: &Service) -> Vec<PeerStatus> {
    let (settings, now) = (service.settings(), service.now().0);
    let mut known = service.federation.peers();
    let state = |peer: &PeerSettings| {
        let key = peer.key.to_string();
        let known = known.iter_mut().find(|known| known.name == peer.name && known.key == key);
        known.map(std::mem::take).unwrap_or_else(|| PeerStatus {
            name: peer.name.clone(),
            key,
            relation: relation_name(peer.relation).into(),
            transport: if peer.url.is_some() { "https" } else { "none" }.into(),
            state: if peer.url.is_some() { "waiting" } else { "not_asked" }.into(),
            since: now,
            added: peer.is_added,
            ..PeerStatus::default()
        })
    };
    settings.peers.iter().map(state).collect()
}

/// Adds a peer, and starts its link. Also returns the subject for the audit trail.
pub(super) async fn addition(http: &Http, new: NewPeer) -> (String, Result<(), Fault>) {
    let name = new.name.clone();
    let peer = match checked(&http.service, new) {
        Ok(peer) => peer,
        Err(fault) => return (name, Err(fault)),
    };
    let (relation, url) = (relation_name(peer.relation), peer.url.as_deref().unwrap_or("no URL"));
    let subject = format!("{name}, relation {relation}, key {}, {url}", peer.key);
    let add = |service: &Service| service.federation.added.add(peer, |peers| apply(service, peers)).map_err(of_change);
    (subject, http.change_peers(add).await)
}

fn checked(service: &Service, new: NewPeer) -> Result<PeerSettings, Fault> {
    let NewPeer { name, url, key, relation } = new;
    let url = url.filter(|url| !url.is_empty());
    let new = new_peer(NewPeerFields { name, url, key, relation }).map_err(Fault::malformed)?;
    if new.key.to_string() == service.federation.key() {
        return Err(Fault::conflict("this is the key of this server: enter the key of the other server"));
    }
    Ok(new)
}

/// Removes an added peer, and ends its link.
pub(super) async fn removal(http: &Http, peer: &str) -> Result<(), Fault> {
    let peer = peer.to_owned();
    let remove = move |service: &Service| {
        service.federation.added.remove(&peer, |peers| apply(service, peers)).map_err(of_change)
    };
    http.change_peers(remove).await
}

const fn relation_name(relation: Relation) -> &'static str {
    match relation {
        Relation::Cluster => "cluster",
        Relation::Peer => "peer",
    }
}

fn apply(service: &Service, peers: Vec<PeerSettings>) -> Result<(), FederationError> {
    service.change_settings(Settings { peers, ..(*service.settings()).clone() });
    service.federation.apply()
}

fn of_change(error: PeerChangeError) -> Fault {
    match error {
        PeerChangeError::Conflict(text) => Fault::conflict(text),
        PeerChangeError::Disk(error) => {
            Fault::busy(format!("failed to write peers.toml in the data directory: {error}"))
        }
        PeerChangeError::Exchange(error) => Fault::conflict(describe(&error)),
    }
}

/// Pauses the link to a peer, or resumes it. Returns true if anything changed.
pub(super) fn pausing(service: &Service, peer: &str, is_paused: bool) -> Result<bool, Fault> {
    let settings = service.settings();
    let known = settings.peers.iter().find(|known| known.name == peer);
    let known = known.ok_or_else(|| Fault::malformed("no such peer: expected the name of a peer"))?;
    // Only pausing needs a URL: a peer that lost its URL while it was paused can still be resumed.
    if is_paused && known.url.is_none() {
        return Err(Fault::conflict("that peer has no URL: this server does not query it, so it cannot be paused"));
    }
    Ok(service.federation.paused.set(*known.key.as_bytes(), is_paused))
}

/// Returns the event that forgets a server or accepts it again, or `None` if the event would change nothing. `peer` is
/// the name of a peer or a public key, because the server may already be removed from the peers.
pub(super) fn forgetting(service: &Service, peer: &str, is_forgotten: bool) -> Result<Option<Event>, Fault> {
    let settings = service.settings();
    let named = settings.peers.iter().find(|known| known.name == peer).map(|known| known.key);
    let key = named.or_else(|| peer.parse::<PublicKey>().ok());
    let key =
        *key.ok_or_else(|| Fault::malformed("no such peer: expected the name of a peer or a public key"))?.as_bytes();
    let (own, is_so, recorded) = service.store.check(|engine| {
        let exchange = engine.exchange();
        let recorded = exchange.forgotten().find(|(of, _)| *of == key).map(|(_, record)| record.at);
        (exchange.own(), exchange.is_forgotten(&key) == is_forgotten, recorded)
    });
    let Some(own) = own else { return Err(Fault::conflict("this server exchanges nothing with other servers")) };
    // On every node, the change with the latest time takes effect. So this change must be later than the recorded one.
    let now = service.now().max(recorded.map_or(Time(0), |at| Time(at.0 + 1)));
    Ok((!is_so).then_some(Event::Forget { now, key, by: own.key, is_forgotten }))
}
