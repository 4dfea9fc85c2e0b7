//! HTTP connections: time limits, length limits, and shutdown.
//!
//! A connection without a complete request header is closed after [`HEADER_TIMEOUT`]. Every connection is closed after
//! [`CONNECTION_TIMEOUT`], so that a client that does not read cannot hold a connection forever.

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

use super::caller::{LocalUser, RemoteEnd};
use super::proxies::Ends;
use crate::connections::Permit;
use crate::federation::Stop;
use crate::service::Service;
use crate::tcp::Connection;

/// Time limit for a request header, and for an idle connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum length of a request header.
const HEADER_BYTES_MAX: usize = 16 << 10;

/// Maximum number of header fields.
const FIELDS_MAX: usize = 64;

/// Maximum lifetime of a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum time to finish the current request of a connection that must close.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves one connection to its end.
pub(crate) async fn serve(connection: Connection, router: Router) {
    let Some(peer) = peer(&connection, false) else { return };
    if is_heard(&connection).await {
        let Connection { stream, stop, permit, .. } = connection;
        serve_stream(stream, permit, stop, router, peer).await;
    }
}

/// Serves one TLS connection to its end, with the current certificate.
pub(crate) async fn serve_secure(connection: Connection, service: Arc<Service>, router: Router) {
    let Some(peer) = peer(&connection, true) else { return };
    let Some(certificate) = service.settings().http.tls.clone() else { return };
    if !is_heard(&connection).await {
        return;
    }
    let Connection { stream, stop, permit, .. } = connection;
    let handshake = tokio::select! {
        handshake = timeout(HANDSHAKE_TIMEOUT, TlsAcceptor::from(certificate.config()).accept(stream)) => handshake,
        () = permit.ended() => return,
    };
    // A client that does not speak TLS cannot be answered.
    if let Ok(Ok(stream)) = handshake {
        serve_stream(stream, permit, stop, router, peer).await;
    }
}

/// Serves a user of this machine on the Unix socket.
pub(crate) async fn serve_user(stream: UnixStream, permit: Arc<Permit>, stop: watch::Receiver<bool>, router: Router) {
    let Ok(credentials) = stream.peer_cred() else { return };
    let id = credentials.uid();
    let is_admin = id == 0 || id == nix::unistd::geteuid().as_raw();
    serve_stream(stream, permit, stop, router, RemoteEnd::User(LocalUser { id, is_admin })).await;
}

/// Returns the addresses of both ends, unless the connection is already closed.
fn peer(connection: &Connection, is_tls: bool) -> Option<RemoteEnd> {
    let local = connection.stream.local_addr().ok()?.ip();
    Some(RemoteEnd::Network(Ends { remote: connection.source.address, local, is_tls }))
}

/// Waits for the first byte, so that a silent connection allocates no buffers. Returns false if none arrives.
async fn is_heard(connection: &Connection) -> bool {
    let mut stop = connection.stop.clone();
    tokio::select! {
        readable = timeout(HEADER_TIMEOUT, connection.stream.readable()) => matches!(readable, Ok(Ok(()))),
        () = connection.permit.ended() => false,
        _ = stop.wait_for(|stop| *stop) => false,
    }
}

/// Serves a stream to its end. Each request carries two extensions. `known` identifies the client, and handlers record
/// in `permit` which class the caller has proven.
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
    // Ignore connection errors. The client causes them, and there is no one to report them to.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = permit.ended() => return,
        () = sleep(CONNECTION_TIMEOUT) => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(END_TIMEOUT, connection).await;
}
