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
mod bodies;
mod connection;

use std::sync::Arc;

use crate::service::Service;
use crate::tcp::Connection;

pub(crate) use bodies::Bodies;

/// Serves a connection to its end.
pub(crate) async fn serve(connection: Connection, service: Arc<Service>, bodies: Bodies) {
    let Connection { stream, source, stop, permit } = connection;
    // Whatever ended it, the client is gone or has been told.
    tokio::select! {
        _ = connection::serve(stream, source, service, bodies, Arc::clone(&permit), stop) => {}
        () = permit.ended() => {}
    }
}
