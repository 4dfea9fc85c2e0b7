//! What a server has for others, as its listeners ask for it: a shelf behind a counter.

use std::io;

use bruit_engine::exchange::{Book, Chain};
use tokio::sync::watch;

use crate::transport::Offer;

/// Who asks, by what they may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reader {
    /// A mail site that keeps a copy of the filters: public books.
    Replica,
    /// Another operator's server: public books.
    Peer,
    /// A node of the same operator: everything.
    Cluster,
}

impl Reader {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Replica, Self::Peer, Self::Cluster];

    /// Whether they may have this book.
    #[must_use]
    pub const fn may_have(self, book: Book) -> bool {
        matches!(self, Self::Cluster) || book.is_public()
    }
}

/// What a server has for others.
pub trait Stock: Send + Sync + 'static {
    /// The heads of every origin, restricted to what the reader may have.
    fn offer(&self, reader: Reader) -> Offer;

    /// The log of a chain from `offset` on, at most `bytes_max` bytes of it; none if there is no such chain.
    ///
    /// # Errors
    /// What the disk says.
    fn log(&self, chain: &Chain, offset: u64, bytes_max: usize) -> Result<Option<Vec<u8>>, io::Error>;

    /// A number that grows whenever an offer changes.
    fn changes(&self) -> watch::Receiver<u64>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_operator_has_who_made_which_claim() {
        for book in Book::ALL {
            assert!(Reader::Cluster.may_have(book));
            let is_conclusion = matches!(book, Book::Listed | Book::Revoked | Book::Bulk);
            assert_eq!([Reader::Replica, Reader::Peer].map(|reader| reader.may_have(book)), [is_conclusion; 2]);
        }
    }
}
