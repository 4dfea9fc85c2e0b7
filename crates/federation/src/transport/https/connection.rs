//! Connections to one host: opened on demand, reused while they last, with timeouts.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::Empty;
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::super::{TransportError, tls};
use super::answer::OpenResponse;

/// Timeout of connecting, including TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout until a response begins, in addition to the time that the host was asked to wait.
pub(super) const HEADER_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum length of a response's header.
const HEADER_BYTES_MAX: usize = 16 << 10;
const FIELDS_MAX: usize = 64;

/// Maximum number of idle connections: one that waits for an offer, and some that fetch.
const IDLE_MAX: usize = 4;

pub(super) type Sender = SendRequest<Empty<Bytes>>;

/// A pool of connections to one host.
pub(super) struct Connector {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    idle: Mutex<Vec<Sender>>,
}

impl Connector {
    /// Creates a pool for a host, with TLS if `config` is given. Returns `None` if the host name is invalid.
    pub(super) fn new(host: &str, port: u16, config: Option<ClientConfig>) -> Option<Self> {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return None;
        }
        let tls = match config {
            None => None,
            Some(config) => Some((TlsConnector::from(Arc::new(config)), ServerName::try_from(host.clone()).ok()?)),
        };
        Some(Self { host, port, tls, idle: Mutex::default() })
    }

    /// Sends a request, and returns the response when it begins. `wait` is the time that the host was asked to wait.
    pub(super) async fn ask(
        &self,
        request: impl Fn() -> Result<Request<Empty<Bytes>>, TransportError>,
        wait: Duration,
    ) -> Result<OpenResponse<'_>, TransportError> {
        let begun = timeout(HEADER_TIMEOUT + wait, async {
            // An idle connection may have been closed. Try the next one then, and finally open a new one.
            while let Some(mut sender) = self.kept() {
                if sender.ready().await.is_ok()
                    && let Ok(response) = sender.send_request(request()?).await
                {
                    return Ok(OpenResponse::new(self, sender, response));
                }
            }
            let mut sender = self.connect().await?;
            let response = sender.send_request(request()?).await.map_err(unreachable)?;
            Ok(OpenResponse::new(self, sender, response))
        });
        begun.await.map_err(unreachable)?
    }

    /// Returns a connection to the pool after its response was read to the end.
    pub(super) fn keep(&self, sender: Sender) {
        let mut idle = self.idle();
        idle.retain(|sender| !sender.is_closed());
        if idle.len() < IDLE_MAX {
            idle.push(sender);
        }
    }

    fn kept(&self) -> Option<Sender> {
        self.idle().pop()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Sender>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self) -> Result<Sender, TransportError> {
        timeout(CONNECT_TIMEOUT, async {
            let stream = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(unreachable)?;
            // Send requests without delay: they are short, and the sender waits for the response.
            let _ = stream.set_nodelay(true);
            match &self.tls {
                None => handshake(stream).await,
                Some((connector, name)) => {
                    let stream = connector.connect(name.clone(), stream).await;
                    handshake(stream.map_err(of_handshake)?).await
                }
            }
        })
        .await
        .map_err(unreachable)?
    }
}

async fn handshake<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(stream: S) -> Result<Sender, TransportError> {
    let mut builder = http1::Builder::new();
    builder.max_headers(FIELDS_MAX).max_header_size(HEADER_BYTES_MAX);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(unreachable)?;
    // The task ends with the connection, or when the sender is dropped; errors reach the caller that waits for a
    // response.
    tokio::spawn(connection);
    Ok(sender)
}

fn of_handshake(error: io::Error) -> TransportError {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    if cause.is_some_and(tls::is_wrong_key) { TransportError::WrongKey } else { unreachable(error) }
}

pub(super) fn unreachable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> TransportError {
    TransportError::Unreachable(error.into())
}
