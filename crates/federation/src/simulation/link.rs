//! The links of a simulated server: receivers, and the requests whose answers they expect.

use bruit_engine::exchange::{Chain, Relation};

use crate::coordinator::heads_table::HeadsTable;
use crate::coordinator::receiver::{Receiver, Retry};

use super::server::Server;

/// The other end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A node, by its number.
    Node(usize),
    /// The liar.
    Liar(usize),
    /// The broker.
    Broker,
}

/// A request that has not been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Offer,
    Log(Chain),
}

/// A link of a server.
pub(super) struct SimLink {
    pub(super) end: End,
    pub(super) relation: Option<Relation>,
    pub(super) receiver: Receiver,
    pub(super) expected: Option<Expected>,
    /// Number of requests so far, to recognise the timeout of an earlier request.
    pub(super) serial: u64,
    /// The tag of the last offer seen, while a request waits for news.
    pub(super) seen: Vec<u8>,
    /// The heads received from the broker.
    pub(super) table: HeadsTable,
}

impl SimLink {
    /// Creates the link of a server to another one or to the broker.
    pub(super) fn new(end: End, server: &Server) -> Self {
        let (realm, epochs) = (server.shelf.realm(), server.shelf.epochs());
        let mut table = HeadsTable::new(realm, epochs);
        table.follow(server.engine.exchange().members().map(|(key, _)| key).chain([*server.key.public().as_bytes()]));
        let relation = match end {
            End::Node(_) => Some(Relation::Cluster),
            End::Liar(_) => Some(Relation::Peer),
            End::Broker => None,
        };
        let receiver = Receiver::new("link", realm, epochs, Retry::LINK);
        Self { end, relation, receiver, expected: None, serial: 0, seen: Vec::new(), table }
    }
}
