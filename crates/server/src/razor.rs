//! Handling of Razor connections, with one task for each.
//!
//! `bruit_protocols::razor` implements the conversation, `connection` transfers its bytes within limits on time and
//! memory, and `answers` decides the replies:
//!
//! | verdict | reply to a check |
//! |---|---|
//! | spam | `p=1` with the confidence |
//! | suspected | `p=1` with a confidence below the recommended one; marked as contested if the signature has been revoked |
//! | any other | `p=0` |
//!
//! A report begins with the e4 signature. If this signature is listed in the current generation, the report is counted.
//! Otherwise, the server requests the parts of the mail from the client and reports all their signatures. In this way,
//! the signatures of links are also listed again once per generation.

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
    // Ignore the result, because the client has disconnected or has its reply.
    tokio::select! {
        _ = connection::serve(stream, source, service, bodies, Arc::clone(&permit), stop) => {}
        () = permit.ended() => {}
    }
}
