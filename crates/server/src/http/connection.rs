//! Connections: how slow, how long, and what ends them.
//!
//! One that sends no request, or half of one, ends after [`HEADER_TIMEOUT`]; the longest ends after [`CONNECTION_TIMEOUT`],
//! whatever it does, so that a client that does not read cannot stay for ever.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::caller::{LocalUser, Peer};
use super::proxies::Ends;
use crate::connections::Permit;
use crate::federation::Stop;
use crate::service::Service;
use crate::tcp::Connection;

/// How long the header of a request may take, and how long a connection may be idle.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest header.
const HEADER_BYTES_MAX: usize = 16 << 10;

/// Most fields of a header.
const FIELDS_MAX: usize = 64;

/// How long a connection lasts.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(600);

/// How long a connection that is to end may take to finish what it does.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves one connection to its end.
pub(crate) async fn serve(connection: Connection, router: Router) {
    let Some(peer) = peer(&connection) else { return };
    if is_heard(&connection).await {
        let Connection { stream, stop, permit, .. } = connection;
        serve_stream(stream, permit, stop, router, peer).await;
    }
}

/// The same over TLS, with the certificate in force.
pub(crate) async fn serve_secure(connection: Connection, service: Arc<Service>, router: Router) {
    let Some(peer) = peer(&connection) else { return };
    let Some(certificate) = service.settings().http.tls.clone() else { return };
    if !is_heard(&connection).await {
        return;
    }
    let Connection { stream, stop, permit, .. } = connection;
    let handshake = tokio::select! {
        handshake = timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(certificate.config()).accept(stream)) => handshake,
        () = permit.ended() => return,
    };
    // Whoever cannot speak TLS cannot be answered.
    if let Ok(Ok(stream)) = handshake {
        serve_stream(stream, permit, stop, router, peer).await;
    }
}

/// Serves a user of this machine, at the Unix socket.
pub(crate) async fn serve_user(stream: UnixStream, permit: Arc<Permit>, stop: watch::Receiver<bool>, router: Router) {
    let Ok(credentials) = stream.peer_cred() else { return };
    let id = credentials.uid();
    let is_admin = id == 0 || id == nix::unistd::geteuid().as_raw();
    serve_stream(stream, permit, stop, router, Peer::User(LocalUser { id, is_admin })).await;
}

/// The two ends, unless the other one is gone already.
fn peer(connection: &Connection) -> Option<Peer> {
    let local = connection.stream.local_addr().ok()?.ip();
    Some(Peer::Network(Ends { remote: connection.source.address, local }))
}

/// Waits for the first byte: whoever says nothing takes no buffers.
async fn is_heard(connection: &Connection) -> bool {
    let mut stop = connection.stop.clone();
    tokio::select! {
        readable = timeout(HEADER_TIMEOUT, connection.stream.readable()) => matches!(readable, Ok(Ok(()))),
        () = connection.permit.ended() => false,
        _ = stop.wait_for(|stop| *stop) => false,
    }
}

/// Serves a stream to its end. Its requests have `known`, which is what is known of the other end, as an extension.
/// Its `permit` is another extension, for whatever proves who is there.
pub(crate) async fn serve_stream<S, K>(
    stream: S,
    permit: Arc<Permit>,
    mut stop: watch::Receiver<bool>,
    router: Router,
    known: K,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    K: Clone + Send + Sync + 'static,
{
    let router = TowerToHyperService::new(router);
    let stopping = Stop(stop.clone());
    let serving = Arc::clone(&permit);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let busy = serving.busy();
        request.extensions_mut().insert(Arc::clone(&serving));
        request.extensions_mut().insert(known.clone());
        request.extensions_mut().insert(stopping.clone());
        let answer = router.call(request);
        async move {
            let _busy = busy;
            answer.await
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder.max_header_size(HEADER_BYTES_MAX).max_headers(FIELDS_MAX);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // What goes wrong on a connection is the other end's affair, and nobody is left to tell.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = permit.ended() => return,
        () = sleep(CONNECTION_TIMEOUT) => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(END_TIMEOUT, connection).await;
}
