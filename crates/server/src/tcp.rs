//! Listeners for TCP: connections are counted, served by a task each, and waited for at the end.

use std::future::Future;
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
    /// Listens at `address` until `stop` says so, and has `serve` talk to whoever connects.
    pub(crate) fn start<F: Future<Output = ()> + Send + 'static>(
        service: &Arc<Service>,
        runtime: &Handle,
        address: SocketAddr,
        stop: watch::Receiver<bool>,
        language: Language,
        serve: impl Fn(TcpStream, Source, watch::Receiver<bool>) -> F + Send + 'static,
    ) -> io::Result<Self> {
        let _guard = runtime.enter();
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(BACKLOG)?;
        let address = listener.local_addr()?;
        let door = Door { service: Arc::clone(service), language, stop };
        Ok(Self { address, task: runtime.spawn(door.open(listener, serve)) })
    }
}

/// Where connections come in.
struct Door {
    service: Arc<Service>,
    language: Language,
    stop: watch::Receiver<bool>,
}

impl Door {
    /// Takes connections until it is told to stop, then waits for them.
    async fn open<F: Future<Output = ()> + Send + 'static>(
        self,
        listener: TcpListener,
        serve: impl Fn(TcpStream, Source, watch::Receiver<bool>) -> F,
    ) {
        let mut connections = JoinSet::new();
        let mut stopped = self.stop.clone();
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        if let Some((permit, source)) = self.admit(peer) {
                            let served = serve(stream, source, self.stop.clone());
                            connections.spawn(async move {
                                served.await;
                                drop(permit);
                            });
                        }
                    }
                    Err(error) => {
                        tracing::warn!(protocol = self.language.name(), %error, "failed to take a connection");
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

    /// Counts a connection, if there may be one more.
    fn admit(&self, peer: SocketAddr) -> Option<(Permit, Source)> {
        let settings = self.service.settings();
        let source = Source::new(peer.ip(), &settings.own_networks);
        let permit = self.service.connections.admit(&source, &self.service.key, &settings.limits);
        if permit.is_none() {
            self.service.metrics.of(self.language).count(Answered::Limited);
        }
        Some((permit?, source))
    }
}

/// Waits until we are told to stop. If nobody is left who could tell us, we are to.
pub(crate) async fn told(stop: &mut watch::Receiver<bool>) {
    drop(stop.wait_for(|stop| *stop).await);
}
