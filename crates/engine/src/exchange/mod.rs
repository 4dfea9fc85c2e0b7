//! What servers tell each other, and what is kept of it: exactly once, and apart by who said it.
//!
//! An [`Origin`] exports what it accepted itself, by [`Book`] and generation. All of one origin, book and generation is a
//! [`Chain`] of segments, numbered from 1, each naming the hash of the one before. How far a chain was taken is its
//! [`Frontier`]; it is part of the state, and moves with the data in one journal write.

use crate::realm::Realm;

/// The hash of a signed segment, SHA-256 of its bytes. The first segment of a chain follows [`NO_HASH`].
pub type Hash = [u8; 32];

/// What the first segment of a chain follows.
pub const NO_HASH: Hash = [0; 32];

/// A server, for as long as it remembers what it said: one that lost its disk goes on as another incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Its Ed25519 public key.
    pub key: [u8; 32],
    /// Which of its lives: later ones have higher numbers.
    pub incarnation: u64,
}

/// What segments are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Book {
    /// Signatures that the origin listed.
    Listed = 1,
    /// Signatures that it revoked.
    Revoked = 2,
    /// Signatures that reached a number of recipients there.
    Bulk = 3,
    /// Claims as they were made, and whether they were counted.
    Votes = 4,
    /// Recipients as they were counted.
    Recipients = 5,
    /// Texts, good mail and whitelists as they were told.
    Texts = 6,
}

impl Book {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Listed, Self::Revoked, Self::Bulk, Self::Votes, Self::Recipients, Self::Texts];

    /// The book of a number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|book| *book as u8 == number)
    }

    /// Its name in paths and subjects.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Revoked => "revoked",
            Self::Bulk => "bulk",
            Self::Votes => "votes",
            Self::Recipients => "recipients",
            Self::Texts => "texts",
        }
    }

    /// The book of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|book| book.name() == name)
    }

    /// Whether other operators and replicas may have it: conclusions, not who made which claim.
    #[must_use]
    pub const fn is_public(self) -> bool {
        matches!(self, Self::Listed | Self::Revoked | Self::Bulk)
    }

    /// Whether its entries are a set, so that their order says nothing.
    #[must_use]
    pub const fn is_set(self) -> bool {
        self.is_public()
    }

    /// How long one of its generations is.
    #[must_use]
    pub const fn epoch_seconds(self, realm: &Realm) -> u64 {
        match self {
            Self::Bulk | Self::Recipients => realm.bulk_epoch_seconds(),
            Self::Listed | Self::Revoked | Self::Votes | Self::Texts => realm.spam_epoch_seconds(),
        }
    }
}

/// A sequence of segments: what one origin says in one book of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chain {
    /// Whose.
    pub origin: Origin,
    /// In which book.
    pub book: Book,
    /// The epoch of the generation.
    pub generation: u64,
}

/// How far a chain was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    /// Segments so far.
    pub sequence: u64,
    /// The hash of the last.
    pub hash: Hash,
    /// The bytes of them all: where the next begins in the chain's log.
    pub offset: u64,
    /// The entries in them.
    pub entries: u64,
    /// What the entries add up to, in whatever order.
    pub digest: u64,
}

/// What another server is to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// A node of the same operator: its counts add up with ours, and claims made there count as if made here.
    Cluster,
    /// Another operator's server: one reporter of one group, whose counts of recipients are believed up to a cap.
    Peer,
}
