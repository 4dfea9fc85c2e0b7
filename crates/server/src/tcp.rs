//! Languages over TCP: takes connections within limits, and gives each a task.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::connections::{Class, Permit};
use crate::fatal::Vital;
use crate::log::LineLimit;
use crate::metrics::Language;
use crate::service::Service;
use crate::sources::Source;

/// Connections that the system keeps for us until we take them.
const BACKLOG: u32 = 1024;

/// How long to wait if the system has no socket left to give.
const SHORTAGE: Duration = Duration::from_millis(100);

/// Failures to accept that are written in a minute: strangers can cause them, if the system runs out of files.
static FAILURES: LineLimit = LineLimit::new(6);

/// A connection that may be.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) source: Source,
    /// Turns true when the server stops. Whoever holds it is waited for.
    pub(crate) stop: watch::Receiver<bool>,
    /// Counted until it is dropped.
    pub(crate) permit: Arc<Permit>,
}

/// Listens at an address, and gives each connection to a task that `serve` makes. The address, with the port that was found
/// if any would do.
///
/// # Errors
/// What the system says if that cannot be.
pub(crate) fn listen<S, F>(
    runtime: &Runtime,
    service: &Arc<Service>,
    language: Language,
    address: SocketAddr,
    stop: watch::Receiver<bool>,
    serve: S,
) -> io::Result<SocketAddr>
where
    S: Fn(Connection) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let _guard = runtime.enter();
    let listener = bind(address)?;
    let address = listener.local_addr()?;
    let acceptor = Acceptor { service: Arc::clone(service), language, stop };
    runtime.spawn(acceptor.run(listener, serve));
    Ok(address)
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if address.is_ipv6() {
        socket2::SockRef::from(&socket).set_only_v6(true)?;
    }
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Takes connections.
struct Acceptor {
    service: Arc<Service>,
    language: Language,
    stop: watch::Receiver<bool>,
}

impl Acceptor {
    async fn run<S, F>(self, listener: TcpListener, serve: S)
    where
        S: Fn(Connection) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        let _vital = Vital::new(&self.service, format!("the task that listens for {}", self.language.name()));
        let mut stop = self.stop.clone();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            match accepted {
                Ok((stream, peer)) => {
                    if let Some(connection) = self.admit(stream, peer).await {
                        tokio::spawn(serve(connection));
                    }
                }
                Err(error) => {
                    if let Some(suppressed) = FAILURES.admit() {
                        tracing::warn!(protocol = self.language.name(), %error, suppressed, "failed to accept a connection");
                    }
                    tokio::time::sleep(SHORTAGE).await;
                }
            }
        }
    }

    /// Counts a connection, if there may be one more.
    async fn admit(&self, stream: TcpStream, peer: SocketAddr) -> Option<Connection> {
        let settings = self.service.settings();
        let source = Source::new(peer.ip(), &settings.own_networks);
        let class = if self.language == Language::Federation { Class::Doorway } else { Class::Stranger };
        let Service { connections, key, .. } = &*self.service;
        let permit = connections.admit_patiently(&source, class, key, &settings.limits).await;
        if permit.is_none() {
            self.service.metrics.of(self.language).refuse_connection();
        }
        // Replies are short and written in one go, and who waits for one sends nothing meanwhile. Without it they are late.
        let _ = stream.set_nodelay(true);
        Some(Connection { stream, source, stop: self.stop.clone(), permit: Arc::new(permit?) })
    }
}
