//! Connections: how many, how slow, how long.
//!
//! One that sends no request, or half of one, ends after [`HEADER_TIMEOUT`]; the longest ends after [`CONNECTION_TIMEOUT`],
//! whatever it does, so that a client that does not read cannot stay for ever.

use std::io;
use std::net::SocketAddr;
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
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::Http;
use super::caller::Peer;
use super::router::router;
use crate::connections::Permit;
use crate::service::Service;
use crate::sources::Source;

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

/// How long to wait when the system has no more sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens at an address. The address, with the port that was found if any would do.
///
/// # Errors
/// What the system says if that cannot be.
pub(crate) fn listen(
    runtime: &Runtime,
    service: &Arc<Service>,
    address: SocketAddr,
    stop: &watch::Receiver<bool>,
) -> io::Result<SocketAddr> {
    let listener = runtime.block_on(TcpListener::bind(address))?;
    let address = listener.local_addr()?;
    let acceptor =
        Acceptor { router: router(Http::new(Arc::clone(service))), service: Arc::clone(service), stop: stop.clone() };
    runtime.spawn(acceptor.run(listener));
    Ok(address)
}

/// Takes connections.
struct Acceptor {
    router: Router,
    service: Arc<Service>,
    stop: watch::Receiver<bool>,
}

impl Acceptor {
    async fn run(self, listener: TcpListener) {
        let mut stop = self.stop.clone();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            match accepted {
                Ok((stream, peer)) => self.take(stream, peer),
                Err(error) => {
                    tracing::warn!(%error, "failed to accept an HTTP connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Serves a connection, unless there are too many.
    fn take(&self, stream: TcpStream, peer: SocketAddr) {
        let settings = self.service.settings();
        let source = Source::new(peer.ip(), &settings.own_networks);
        let admitted = self.service.connections.admit(&source, &self.service.key, &settings.limits);
        let Some(permit) = admitted else { return };
        // Answers are short, and whoever waits for one has nothing else to send.
        let _ = stream.set_nodelay(true);
        tokio::spawn(serve(stream, peer, self.router.clone(), permit, self.stop.clone()));
    }
}

/// Serves one connection to its end.
async fn serve(stream: TcpStream, peer: SocketAddr, router: Router, _permit: Permit, mut stop: watch::Receiver<bool>) {
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
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
