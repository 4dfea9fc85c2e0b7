//! Connections: how many, how slow, how long.
//!
//! One that sends no request, or half of one, ends after [`HEADER_TIMEOUT`]; the longest ends after [`CONNECTION_TIMEOUT`],
//! whatever it does, so that a client that does not read cannot stay for ever.

use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::caller::Peer;
use crate::federation::Stop;
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

/// Serves one connection to its end.
pub(crate) async fn serve(connection: Connection, router: Router) {
    let Connection { stream, source, stop, permit: _permit } = connection;
    serve_stream(stream, stop, router, Peer(source.address)).await;
}

/// Serves a stream to its end. Its requests have `known`, which is what is known of the other end, as an extension.
pub(crate) async fn serve_stream<S, K>(stream: S, mut stop: watch::Receiver<bool>, router: Router, known: K)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    K: Clone + Send + Sync + 'static,
{
    let router = TowerToHyperService::new(router);
    let stopping = Stop(stop.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(known.clone());
        request.extensions_mut().insert(stopping.clone());
        router.call(request)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder.max_header_size(HEADER_BYTES_MAX).max_headers(FIELDS_MAX);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // What goes wrong on a connection is the other end's affair, and nobody is left to tell.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = sleep(CONNECTION_TIMEOUT) => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(END_TIMEOUT, connection).await;
}
