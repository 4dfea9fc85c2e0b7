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

use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::metrics::Language;
use crate::service::Service;
use crate::sources::Source;
use crate::tcp::Listener;

/// Listens at `address` until `stop` says so.
pub(crate) fn listen(
    service: &Arc<Service>,
    runtime: &Handle,
    address: SocketAddr,
    stop: watch::Receiver<bool>,
) -> io::Result<Listener> {
    let shared = Arc::clone(service);
    let serve = move |stream, source, stop| serve(stream, source, Arc::clone(&shared), stop);
    Listener::start(service, runtime, address, stop, Language::Razor, serve)
}

async fn serve(stream: TcpStream, source: Source, service: Arc<Service>, stop: watch::Receiver<bool>) {
    // Whatever ended it, the client is gone or has been told.
    let _ = connection::serve(stream, source, service, stop).await;
}
