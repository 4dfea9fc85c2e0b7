//! Razor's end of the request path: a task for each connection.
//!
//! The conversation is `bruit_protocols::razor`'s; `connection` moves its bytes within bounds of time and memory, and
//! `answers` decides what is answered:
//!
//! | verdict | answer to a check |
//! |---|---|
//! | spam | `p=1` with the confidence |
//! | suspected | `p=1` with the confidence, but below the recommended one; contested, if somebody has revoked it |
//! | else | `p=0` |
//!
//! A report names its e4 signature first. If that is listed in the current generation it is counted; if not, the parts are
//! asked for, and all of their signatures are reported, so what links to the same places is found again once in a
//! generation.

mod answers;
mod connection;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::connections::Permit;
use crate::metrics::{Answered, Language};
use crate::service::Service;
use crate::sources::Source;

/// Connections that the system keeps for us until we take them.
const BACKLOG: u32 = 1024;

/// How long to wait if the system has no socket left to give.
const SHORTAGE: Duration = Duration::from_millis(100);

/// A listener, which ends when it is told to stop and its connections have ended.
pub(crate) struct Listener {
    pub(crate) address: SocketAddr,
    pub(crate) task: JoinHandle<()>,
}

impl Listener {
    /// Listens at `address`, until `stop` says so.
    pub(crate) fn start(
        service: &Arc<Service>,
        runtime: &Handle,
        address: SocketAddr,
        stop: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let _guard = runtime.enter();
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        Ok(Self { address, task: runtime.spawn(accept(listener, Arc::clone(service), stop)) })
    }
}

/// Takes connections until it is told to stop, then waits for them.
async fn accept(listener: TcpListener, service: Arc<Service>, stop: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    let mut stopped = stop.clone();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    if let Some((permit, source)) = admit(&service, peer) {
                        connections.spawn(serve(stream, source, permit, Arc::clone(&service), stop.clone()));
                    }
                }
                Err(error) => {
                    tracing::warn!(protocol = "razor", %error, "failed to take a connection");
                    tokio::time::sleep(SHORTAGE).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = told(&mut stopped) => break,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

/// Waits until we are told to stop. If nobody is left who could tell us, we are to.
async fn told(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|stop| *stop).await);
}

/// Counts a connection, if there may be one more.
fn admit(service: &Service, peer: SocketAddr) -> Option<(Permit, Source)> {
    let settings = service.settings();
    let source = Source::new(peer.ip(), &settings.own_networks);
    let permit = service.connections.admit(&source, &service.key, &settings.limits);
    if permit.is_none() {
        service.metrics.of(Language::Razor).count(Answered::Limited);
    }
    Some((permit?, source))
}

async fn serve(stream: TcpStream, source: Source, permit: Permit, service: Arc<Service>, stop: watch::Receiver<bool>) {
    // Whatever ended it, the client is gone or has been told.
    let _ = connection::serve(stream, source, service, stop).await;
    drop(permit);
}
