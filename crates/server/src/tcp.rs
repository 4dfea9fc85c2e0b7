//! TCP listeners, which accept connections within limits and start a task for each.

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
use crate::metrics::Interface;
use crate::service::Service;
use crate::sources::Source;

/// Length of the accept queue.
const BACKLOG: u32 = 1024;

/// Delay before the next attempt to accept a connection if the system has run out of sockets.
const SHORTAGE: Duration = Duration::from_millis(100);

/// Limits log lines about failures to accept connections. Strangers can cause such failures by making the system run
/// out of file descriptors.
static FAILURES: LineLimit = LineLimit::new(6);

/// An accepted connection.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    pub(crate) source: Source,
    /// Becomes true when the server stops. The server waits until every task has dropped its receiver.
    pub(crate) stop: watch::Receiver<bool>,
    /// The connection is counted until this permit is dropped.
    pub(crate) permit: Arc<Permit>,
}

/// Listens on an address, and starts a task with `serve` for each connection. Returns the address, with the assigned
/// port if port 0 was requested.
///
/// # Errors
/// Fails if the system cannot listen on the address.
pub(crate) fn listen<S, F>(
    runtime: &Runtime,
    service: &Arc<Service>,
    protocol: Interface,
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
    let acceptor = Acceptor { service: Arc::clone(service), protocol, stop };
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

/// Accepts connections.
struct Acceptor {
    service: Arc<Service>,
    protocol: Interface,
    stop: watch::Receiver<bool>,
}

impl Acceptor {
    async fn run<S, F>(self, listener: TcpListener, serve: S)
    where
        S: Fn(Connection) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        let _vital = Vital::new(&self.service, format!("the listener task of {}", self.protocol.name()));
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
                        tracing::warn!(protocol = self.protocol.name(), %error, suppressed, "failed to accept a connection");
                    }
                    tokio::time::sleep(SHORTAGE).await;
                }
            }
        }
    }

    /// Admits a connection and counts it. Returns `None` if it is over the limits.
    async fn admit(&self, stream: TcpStream, peer: SocketAddr) -> Option<Connection> {
        let settings = self.service.settings();
        let source = Source::new(peer.ip(), &settings.own_networks);
        let class = if self.protocol == Interface::Federation { Class::Doorway } else { Class::Stranger };
        let Service { connections, key, .. } = &*self.service;
        let permit = connections.admit_patiently(&source, class, key, &settings.limits).await;
        if permit.is_none() {
            self.service.metrics.of(self.protocol).refuse_connection();
        }
        // Disable Nagle's algorithm, which would delay replies. They are short and written at once, and the client
        // waits for them.
        let _ = stream.set_nodelay(true);
        Some(Connection { stream, source, stop: self.stop.clone(), permit: Arc::new(permit?) })
    }
}
