//! What servers tell each other, and what is kept of it: exactly once, and apart by who said it.
//!
//! An [`Origin`] exports what it accepted itself, by [`Book`] and generation. All of one origin, book and generation is a
//! [`Chain`] of segments, numbered from 1, each naming the hash of the one before. How far a chain was taken is its
//! [`Frontier`]; it is part of the state, and moves with the data in one journal write.
//!
//! Two chains are independent of each other: whatever the order in which segments of several arrive, the books end up the
//! same. Sets are joined by OR, counts are kept apart by origin.
//!
//! | module | what it is |
//! |---|---|
//! | `entries` | the entries of the books in bytes |
//! | `pending` | what this server accepted and has not yet put into a segment |
//! | `encoding` | the state in bytes |

mod encoding;
mod entries;
mod pending;

use std::collections::BTreeMap;

pub(crate) use self::encoding::{put_chain, put_origin, put_terms, read_chain, read_origin, read_terms};
pub use self::entries::{Encoding, count_entries, public_signatures};
pub(crate) use self::entries::{
    Entries, LEVEL_MIN, Vote, digest, level_of, put_level, put_recipients, put_signature, put_text, put_vote,
    recipients_of,
};
use self::pending::Pending;
use crate::realm::Realm;
use crate::trust::{Reporter, Standing};

/// The most bytes of a segment's payload: with its header it fits an event.
pub const PAYLOAD_BYTES_MAX: usize = 48 << 10;

/// Servers that can be known at a time.
pub const MEMBERS_MAX: usize = 64;

/// Origins in cluster relation, older incarnations too, whose counts are kept: each takes as much memory as the server's own.
pub const CLUSTER_ORIGINS_MAX: usize = 16;

/// Incarnations of one server that are told apart at a time. One that lost its disk more often has to wait for generations to end.
pub const INCARNATIONS_MAX: usize = 4;

/// A peer's counts have a ring of one in so many lines of the server's own.
pub const PEER_RING_PART: u64 = 16;

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

    /// Its contents, as a phrase for messages.
    #[must_use]
    pub const fn contents(self) -> &'static str {
        match self {
            Self::Listed => "listed signatures",
            Self::Revoked => "revoked signatures",
            Self::Bulk | Self::Recipients => "counts of recipients",
            Self::Votes => "counts of claims",
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

/// On which terms another server is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// What it is to us.
    pub relation: Relation,
    /// As whom a peer's conclusions are weighed: an anchor, or one that earns trust.
    pub standing: Standing,
    /// The peer's independence group.
    pub group: u64,
    /// Recipients that are believed of a peer, for each signature.
    pub cap: u32,
}

/// A change of who is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginChange {
    /// From now on this server speaks as `origin`; with `cluster`, it tells nodes of its operator all that it accepts.
    Begin {
        /// Who.
        origin: Origin,
        /// Whether all is told, or conclusions only.
        cluster: bool,
    },
    /// A server is heard from now on, or on other terms.
    Join {
        /// Its key.
        key: [u8; 32],
        /// How.
        terms: Terms,
    },
    /// A server is no longer heard. What it said stays until it expires.
    Leave {
        /// Its key.
        key: [u8; 32],
    },
    /// Stops exporting. The queue is dropped. Earlier segments remain valid, and when the server begins again it starts a new
    /// incarnation.
    End,
}

/// A segment whose signature was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Which chain it is of.
    pub chain: Chain,
    /// Its number in the chain.
    pub sequence: u64,
    /// The hash of the one before.
    pub previous: Hash,
    /// Its own.
    pub hash: Hash,
    /// The bytes of the signed segment.
    pub bytes: u32,
    /// How the payload is written.
    pub encoding: Encoding,
    /// The entries.
    pub payload: Vec<u8>,
}

/// What the next segment of a chain of our own carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealable {
    /// How many of the waiting entries it takes: what [`Event::Sealed`](crate::event::Event::Sealed) must name.
    pub taken: u32,
    /// How many entries it has: fewer, if some were the same.
    pub entries: u32,
    /// How the payload is written.
    pub encoding: Encoding,
    /// The entries.
    pub payload: Vec<u8>,
}

/// What was taken from another server, since it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// Entries that were taken.
    pub entries: u64,
    /// Entries that were not: past a quota, or without room.
    pub refused: u64,
}

/// Another server that is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// On which terms.
    pub terms: Terms,
    /// What it brought.
    pub learned: Learned,
}

impl Member {
    /// As whom a peer's conclusions count.
    pub(crate) fn reporter(&self, key: &[u8; 32]) -> Reporter {
        let id = key.first_chunk().map_or(0, |lead| u64::from_le_bytes(*lead));
        Reporter { id, standing: self.terms.standing, group: self.terms.group }
    }
}

/// Who is heard, how far, and what waits to be told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    own: Option<Origin>,
    cluster: bool,
    members: BTreeMap<[u8; 32], Member>,
    chains: BTreeMap<Chain, Frontier>,
    pending: Pending,
}

impl Exchange {
    /// Who this server is to others, once it has begun to tell them anything.
    #[must_use]
    pub const fn own(&self) -> Option<Origin> {
        self.own
    }

    /// Whether all that is accepted is told, or conclusions only.
    #[must_use]
    pub const fn is_cluster(&self) -> bool {
        self.cluster
    }

    /// How far a chain was taken, or for one of our own, sealed.
    #[must_use]
    pub fn frontier(&self, chain: &Chain) -> Frontier {
        self.chains.get(chain).copied().unwrap_or_default()
    }

    /// All chains of live generations.
    pub fn chains(&self) -> impl Iterator<Item = (Chain, Frontier)> + '_ {
        self.chains.iter().map(|(&chain, &frontier)| (chain, frontier))
    }

    /// The servers that are heard.
    pub fn members(&self) -> impl Iterator<Item = ([u8; 32], Member)> + '_ {
        self.members.iter().map(|(&key, &member)| (key, member))
    }

    /// A server that is heard.
    #[must_use]
    pub fn member(&self, key: &[u8; 32]) -> Option<Member> {
        self.members.get(key).copied()
    }

    /// The relation to an origin: our own older incarnations are nodes of our cluster.
    #[must_use]
    pub fn relation(&self, origin: &Origin) -> Option<Relation> {
        if self.own.is_some_and(|own| own.key == origin.key) {
            return Some(Relation::Cluster);
        }
        self.members.get(&origin.key).map(|member| member.terms.relation)
    }

    /// The books and generations of which something waits.
    pub fn pending(&self) -> impl Iterator<Item = (Book, u64)> + '_ {
        self.pending.chains()
    }

    /// Bytes that wait.
    #[must_use]
    pub const fn pending_bytes(&self) -> usize {
        self.pending.bytes()
    }

    /// What the next segment of a chain carries, if anything waits.
    #[must_use]
    pub fn sealable(&self, book: Book, generation: u64) -> Option<Sealable> {
        let (taken, waiting) = self.pending.prefix(book, generation, u32::MAX)?;
        let payload = Entries::write(book, waiting);
        let encoding = Encoding::of(book);
        let entries = Entries::read(book, encoding, &payload).expect("what we write we read").len() as u32;
        Some(Sealable { taken, entries, encoding, payload })
    }

    /// All entries that wait, by book and generation.
    pub(crate) fn waiting(&self) -> Vec<((Book, u64), Entries)> {
        let read = |(&(book, generation), waiting): (&(Book, u64), &Vec<u8>)| {
            let entries = Entries::read_waiting(book, waiting).expect("what we let wait we read");
            ((book, generation), entries)
        };
        self.pending.waiting.iter().map(read).collect()
    }

    /// Forgets how far the chains of an origin were taken, but for texts, which weigh more each time they are told. Which those were.
    pub(crate) fn forget_origin(&mut self, origin: &Origin) -> Vec<Chain> {
        let is_forgotten = |chain: &Chain| chain.origin == *origin && chain.book != Book::Texts;
        let forgotten = self.chains.keys().filter(|chain| is_forgotten(chain)).copied().collect();
        self.chains.retain(|chain, _| !is_forgotten(chain));
        forgotten
    }

    /// Whether there is room for what an event may add to what waits.
    #[must_use]
    pub const fn has_room(&self) -> bool {
        self.own.is_none() || self.pending.has_room()
    }

    /// Lets an entry wait, if the book is told to anyone. `put` appends it.
    pub(crate) fn export(&mut self, book: Book, generation: u64, put: impl FnOnce(&mut Vec<u8>)) {
        if self.own.is_some() && (self.cluster || book.is_public()) {
            self.pending.push(book, generation, put);
        }
    }

    /// Begins to speak as `origin`.
    pub(crate) const fn begin(&mut self, origin: Origin, cluster: bool) {
        self.own = Some(origin);
        self.cluster = cluster;
    }

    /// Stops exporting. The frontiers of our own chains are kept, so that nobody can replay those chains and have them counted.
    pub(crate) fn end(&mut self) {
        (self.own, self.cluster) = (None, false);
        self.pending = Pending::default();
    }

    pub(crate) fn join(&mut self, key: [u8; 32], terms: Terms) {
        let learned = self.members.get(&key).map(|member| member.learned).unwrap_or_default();
        self.members.insert(key, Member { terms, learned });
    }

    pub(crate) fn leave(&mut self, key: &[u8; 32]) -> bool {
        self.members.remove(key).is_some()
    }

    pub(crate) fn members_len(&self) -> usize {
        self.members.len()
    }

    /// The incarnations of a server that are known.
    pub(crate) fn incarnations(&self, key: &[u8; 32]) -> impl Iterator<Item = u64> + '_ {
        let first = Chain { origin: Origin { key: *key, incarnation: 0 }, book: Book::Listed, generation: 0 };
        let last =
            Chain { origin: Origin { key: *key, incarnation: u64::MAX }, book: Book::Texts, generation: u64::MAX };
        let mut known: Vec<_> = self.chains.range(first..=last).map(|(chain, _)| chain.origin.incarnation).collect();
        known.dedup();
        known.into_iter()
    }

    /// Notes that what waited is in a segment of our own.
    pub(crate) fn seal(&mut self, chain: Chain, taken: u32, bytes: u32, hash: Hash) -> bool {
        let Some((can_take, waiting)) = self.pending.prefix(chain.book, chain.generation, taken) else { return false };
        if taken == 0 || taken != can_take {
            return false;
        }
        let (payload, end) = (Entries::write(chain.book, waiting), waiting.len());
        let entries = Entries::read(chain.book, Encoding::of(chain.book), &payload).expect("what we write we read");
        self.pending.drop_prefix(chain.book, chain.generation, end);
        self.advance(chain, bytes, hash, &entries);
        true
    }

    /// Moves a frontier by one segment.
    pub(crate) fn advance(&mut self, chain: Chain, bytes: u32, hash: Hash, entries: &Entries) {
        let frontier = self.chains.entry(chain).or_default();
        frontier.sequence += 1;
        frontier.hash = hash;
        frontier.offset += u64::from(bytes);
        frontier.entries += entries.len() as u64;
        frontier.digest = frontier.digest.wrapping_add(digest(entries));
    }

    pub(crate) fn learn(&mut self, key: &[u8; 32], entries: u64, refused: u64) {
        if let Some(member) = self.members.get_mut(key) {
            member.learned.entries += entries;
            member.learned.refused += refused;
        }
    }

    /// Forgets how far a chain was taken.
    pub(crate) fn forget(&mut self, chain: &Chain) -> bool {
        self.chains.remove(chain).is_some()
    }

    /// Forgets chains of generations that are not live.
    pub(crate) fn expire(&mut self, is_live: impl Fn(Book, u64) -> bool) {
        self.chains.retain(|chain, _| is_live(chain.book, chain.generation));
        self.pending.retain(is_live);
    }

    /// Whether any chain of an origin is live.
    pub(crate) fn knows(&self, origin: &Origin) -> bool {
        self.incarnations(&origin.key).any(|incarnation| incarnation == origin.incarnation)
    }
}
