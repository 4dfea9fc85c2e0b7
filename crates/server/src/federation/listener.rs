//! TLS connections from other servers: the identity of the peer, and its rights.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::HttpBody;
use axum::extract::{Extension, FromRequestParts, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use bruit_engine::exchange::Relation;
use bruit_federation::shelf::Reader;
use bruit_federation::transport::tls;
use bruit_signatures::hex;
use rustls::ServerConfig;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::{OfferQuery, Stop};
use crate::config::PeerSettings;
use crate::connections::Class;
use crate::http::{Fault, Note, serve_stream};
use crate::metrics::{Disposition, Interface};
use crate::service::{Limited, Service};
use crate::sources::Source;
use crate::tcp::Connection;

/// Time limit of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Accepts connections from other servers.
#[derive(Clone)]
pub(crate) struct Listener {
    acceptor: TlsAcceptor,
    router: Router,
    service: Arc<Service>,
}

/// The client's identity, attached to its requests as an extension.
#[derive(Clone, Copy, Debug)]
struct ClientIdentity {
    source: Source,
    key: Option<[u8; 32]>,
}

/// A configured peer that made a request.
struct PeerCaller {
    reader: Reader,
    key: Option<[u8; 32]>,
}

type PeerOfferQuery = Result<Query<OfferQuery>, axum::extract::rejection::QueryRejection>;

impl Listener {
    /// Creates a listener for the server with this key.
    ///
    /// # Errors
    /// Fails if TLS cannot be set up with the key.
    pub(crate) fn new(service: &Arc<Service>, seed: &[u8; 32]) -> Result<Self, rustls::Error> {
        let config: ServerConfig = tls::server_config(seed)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { acceptor, router: router(Arc::clone(service)), service: Arc::clone(service) })
    }

    /// Serves one connection to its end.
    pub(crate) async fn serve(self, connection: Connection) {
        let Connection { stream, source, stop, permit } = connection;
        // A client without TLS cannot be answered.
        let handshake = tokio::select! {
            handshake = timeout(HANDSHAKE_TIMEOUT, self.acceptor.accept(stream)) => handshake,
            () = permit.ended() => return,
        };
        let Ok(Ok(stream)) = handshake else { return };
        let key = tls::peer_key(stream.get_ref().1);
        let is_peer = |peer: &PeerSettings| Some(*peer.key.as_bytes()) == key;
        // Connections without the key of a peer stay in the doorway class, and their requests are refused.
        if self.service.settings().peers.iter().any(is_peer) {
            permit.prove(Class::Peer);
        }
        serve_stream(stream, permit, stop, self.router, ClientIdentity { source, key }).await;
    }
}

fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/v1/federation/offer", get(offer))
        .route("/v1/federation/log/{key}/{incarnation}/{book}/{generation}", get(log))
        .route("/v1/federation/realm", get(realm))
        .fallback(|| async { Fault::not_found() })
        .method_not_allowed_fallback(|| async { Fault::method() })
        .layer(from_fn_with_state(Arc::clone(&service), count))
        .with_state(service)
}

async fn count(State(service): State<Arc<Service>>, mut request: Request, next: Next) -> Response {
    let received = Instant::now();
    let note = Note::begin(&mut request).zip(request.extensions().get::<ClientIdentity>().copied());
    let mut response = next.run(request).await;
    let answered = response.extensions_mut().remove().unwrap_or(Disposition::Other);
    service.metrics.of(Interface::Federation).record(answered, received.elapsed());
    if let Some((note, known)) = note {
        note.set_account(&known.name(&service));
        note.write(Interface::Federation, known.source.address, answered, &response);
    }
    response
}

impl FromRequestParts<Arc<Service>> for PeerCaller {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, service: &Arc<Service>) -> Result<Self, Fault> {
        let Some(known) = parts.extensions.get::<ClientIdentity>() else { return Err(Fault::broken()) };
        Ok(Self { reader: known.reader(service)?, key: known.key })
    }
}

impl ClientIdentity {
    /// Returns the peer's name in the configuration, or else the first digits of its key.
    fn name(&self, service: &Service) -> String {
        let Some(key) = self.key else { return "no key".into() };
        let settings = service.settings();
        let peer = settings.peers.iter().find(|peer| *peer.key.as_bytes() == key);
        let digits = || hex::text(key.first_chunk::<4>().map_or(&[], |start| start));
        peer.map_or_else(|| format!("unknown key {}…", digits()), |peer| peer.name.clone())
    }

    /// Returns the peer's rights to read. Servers of the same operator are not rate-limited.
    fn reader(&self, service: &Service) -> Result<Reader, Fault> {
        let settings = service.settings();
        let relation = self.key.and_then(|key| {
            let mut peers = settings.peers.iter();
            peers.find(|peer| *peer.key.as_bytes() == key && !service.has_forgotten(&key)).map(|peer| peer.relation)
        });
        let now = service.uptime();
        let is_admitted = match (relation, self.key) {
            (Some(Relation::Cluster), _) => true,
            (Some(Relation::Peer), Some(key)) => {
                service.admits_hash(service.key.fingerprint(&key).high(), Limited::Request, &settings, now)
            }
            _ => service.admits(&self.source, Limited::Request, &settings, now),
        };
        match relation {
            _ if !is_admitted => Err(Fault::limited("requests")),
            Some(Relation::Cluster) => Ok(Reader::Cluster),
            Some(Relation::Peer) => Ok(Reader::Peer),
            None => Err(Fault::forbidden(
                "unknown key: add it to [[peers]] in this server's configuration; a server that was forgotten must be restored",
            )),
        }
    }
}

async fn offer(
    State(service): State<Arc<Service>>,
    PeerCaller { reader, .. }: PeerCaller,
    query: PeerOfferQuery,
    Extension(stop): Extension<Stop>,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let Query(query) = query.map_err(Fault::malformed)?;
    service.federation.offer(reader, &query, &headers, stop).await
}

async fn log(
    State(service): State<Arc<Service>>,
    PeerCaller { reader, key }: PeerCaller,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let response = service.federation.log(reader, uri.path(), &headers).await?;
    if let (Some(key), Some(bytes)) = (key, response.body().size_hint().exact()) {
        service.federation.count_sent(key, bytes);
    }
    Ok(response)
}

async fn realm(State(service): State<Arc<Service>>, PeerCaller { reader, .. }: PeerCaller) -> Result<Response, Fault> {
    if reader != Reader::Cluster {
        return Err(Fault::forbidden("only servers with relation = \"cluster\" may read the realm"));
    }
    service.federation.realm().await
}
