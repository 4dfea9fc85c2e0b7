//! The interface through which listeners read the logs and heads that a server offers.

use std::io;

use bruit_engine::exchange::{Book, Chain};
use tokio::sync::watch;

use crate::transport::Offer;

/// A kind of reader, which decides the books it may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reader {
    /// A mail site with a local replica, which may read public books.
    Replica,
    /// Another operator's server, which may read public books.
    Peer,
    /// A node of the same operator, which may read all books.
    Cluster,
}

impl Reader {
    /// All kinds of readers.
    pub const ALL: [Self; 3] = [Self::Replica, Self::Peer, Self::Cluster];

    /// Returns true if the reader may read this book.
    #[must_use]
    pub const fn may_have(self, book: Book) -> bool {
        matches!(self, Self::Cluster) || book.is_public()
    }
}

/// The logs and heads that a server offers to others.
pub trait Stock: Send + Sync + 'static {
    /// Returns the heads of every origin, restricted to the books that the reader may read.
    fn offer(&self, reader: Reader) -> Offer;

    /// Returns the log of a chain starting at `offset`, at most `bytes_max` bytes. Returns `None` if there is no such
    /// chain.
    ///
    /// # Errors
    /// Any I/O error.
    fn log(&self, chain: &Chain, offset: u64, bytes_max: usize) -> Result<Option<Vec<u8>>, io::Error>;

    /// Returns a counter that grows whenever an offer changes.
    fn changes(&self) -> watch::Receiver<u64>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_of_the_same_operator_may_read_claims() {
        for book in Book::ALL {
            assert!(Reader::Cluster.may_have(book));
            let is_conclusion = matches!(book, Book::Listed | Book::Revoked | Book::Bulk);
            assert_eq!([Reader::Replica, Reader::Peer].map(|reader| reader.may_have(book)), [is_conclusion; 2]);
        }
    }
}
