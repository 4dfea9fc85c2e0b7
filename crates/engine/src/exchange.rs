//! Exchange of segments between servers. Each segment is applied exactly once.
//!
//! An [`Origin`] exports the entries that it accepted itself, separately for each [`Book`] and generation. The segments
//! of one origin, book and generation form a [`Chain`]. They are numbered from 1, and each contains the hash of its
//! predecessor. The [`Frontier`] records the position up to which a chain has been applied. It is part of the state,
//! and changes in the same event as the books.
//!
//! Chains are independent: segments of different chains may arrive in any order, with the same result. Sets are merged
//! by OR. The counts of all other nodes are added in one ring, entry by entry, so that a count above 15 stays exact.
//!
//! | module | contents |
//! |---|---|
//! | `entries` | encoding of entries |
//! | `pending` | entries accepted by this server that are not yet in a segment |
//! | `encoding` | encoding of the state |
//! | `refusal` | reasons for refusing segments and heads, with their names |
//! | `forgotten` | servers whose data was taken back |

mod encoding;
mod entries;
mod forgotten;
mod pending;
mod refusal;

use std::collections::BTreeMap;

pub(crate) use self::encoding::{put_chain, put_origin, put_terms, read_chain, read_origin, read_terms};
pub(crate) use self::entries::{
    ClaimEntry, Entries, LEVEL_MIN, digest, level_of, put_level, put_recipients, put_signature, put_text, put_vote,
    recipients_of,
};
pub use self::entries::{Encoding, count_entries, public_signatures};
pub use self::forgotten::{FORGOTTEN_MAX, Forgotten};
use self::pending::Pending;
pub use self::refusal::ExchangeRefusal;
use crate::realm::Realm;
use crate::trust::{Reporter, Standing};

/// Maximum length of a segment's payload in bytes. Together with its header, the payload fits in an event.
pub const PAYLOAD_BYTES_MAX: usize = 48 << 10;

/// Maximum number of other servers.
pub const MEMBERS_MAX: usize = 128;

/// Maximum number of the cluster's origins that have separate rings, each as large as the server's own ring. These are
/// this server's own earlier origin, if its key was replaced, and the origins of nodes that counted before all nodes
/// shared a ring.
pub const SEPARATE_ORIGINS_MAX: usize = 16;

/// Maximum number of incarnations of one server that can be live at a time. A server that loses its disk more often has
/// to wait for generations to end.
pub const INCARNATIONS_MAX: usize = 4;

/// Number of lines in the server's own ring of counts for each line in a peer's ring.
pub const PEER_RING_PART: u64 = 16;

/// SHA-256 of a signed segment. The first segment of a chain has [`NO_HASH`] in place of its predecessor's hash.
pub type Hash = [u8; 32];

/// Predecessor hash of the first segment of a chain.
pub const NO_HASH: Hash = [0; 32];

/// One incarnation of a server. A server that has lost segments, for example with its disk, continues as a new
/// incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// Ed25519 public key.
    pub key: [u8; 32],
    /// Incarnation number; later incarnations have higher numbers.
    pub incarnation: u64,
}

/// The kind of entries in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Book {
    /// Signatures that the origin listed.
    Listed = 1,
    /// Signatures that the origin revoked.
    Revoked = 2,
    /// Signatures that reached a level of recipients at the origin.
    Bulk = 3,
    /// Claims as they were made, and whether they were counted.
    Votes = 4,
    /// Numbers of recipients as they were counted.
    Recipients = 5,
    /// Texts, good mail and whitelist changes as they were accepted.
    Texts = 6,
}

impl Book {
    /// All books.
    pub const ALL: [Self; 6] = [Self::Listed, Self::Revoked, Self::Bulk, Self::Votes, Self::Recipients, Self::Texts];

    /// Returns the book with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|book| *book as u8 == number)
    }

    /// Returns the name used in paths and NATS subjects.
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

    /// Returns the contents of the book, as a phrase for messages.
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

    /// Returns the book with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|book| book.name() == name)
    }

    /// Returns true if the book is shared with other operators and replicas. Public books contain results, never
    /// individual claims.
    #[must_use]
    pub const fn is_public(self) -> bool {
        matches!(self, Self::Listed | Self::Revoked | Self::Bulk)
    }

    /// Returns true if the entries are a set, so that their order has no meaning.
    #[must_use]
    pub const fn is_set(self) -> bool {
        self.is_public()
    }

    /// Returns the length of a generation in seconds.
    #[must_use]
    pub const fn epoch_seconds(self, realm: &Realm) -> u64 {
        match self {
            Self::Bulk | Self::Recipients => realm.bulk_epoch_seconds(),
            Self::Listed | Self::Revoked | Self::Votes | Self::Texts => realm.spam_epoch_seconds(),
        }
    }
}

/// A sequence of segments: the entries of one origin in one book and generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chain {
    /// Origin of the segments.
    pub origin: Origin,
    /// Book to which the entries belong.
    pub book: Book,
    /// Epoch of the generation.
    pub generation: u64,
}

/// The position up to which this server has a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    /// Number of segments.
    pub sequence: u64,
    /// Hash of the last segment.
    pub hash: Hash,
    /// Total length of the segments in bytes, which is also the offset of the next segment in the chain's log.
    pub offset: u64,
    /// Number of entries.
    pub entries: u64,
    /// Digest of the entries, independent of their order.
    pub digest: u64,
}

/// The relation of another server to this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// A node of the same operator. Its counts are added to ours, and claims that it accepted count as if accepted
    /// here.
    Cluster,
    /// A server of another operator. It counts as one reporter in one group, and its counts of recipients are accepted
    /// up to a cap.
    Peer,
}

/// The terms on which segments of another server are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Relation of the server.
    pub relation: Relation,
    /// Standing used to weigh a peer's listings and revocations: an anchor, or a reporter that earns trust.
    pub standing: Standing,
    /// Group of the peer. Reporters of one group count as one voice.
    pub group: u64,
    /// Maximum number of recipients accepted from a peer for each signature.
    pub cap: u32,
}

/// A change of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginChange {
    /// Starts exporting as `origin`.
    Begin {
        /// Origin of exported segments.
        origin: Origin,
        /// True to export all accepted entries, for the operator's other nodes; false to export only public books.
        cluster: bool,
    },
    /// Accepts segments of a server, or changes its terms.
    Join {
        /// Public key of the server.
        key: [u8; 32],
        /// Terms for its segments.
        terms: Terms,
    },
    /// Stops accepting segments of a server. Entries applied earlier stay until they expire.
    Leave {
        /// Public key of the server.
        key: [u8; 32],
    },
    /// Stops exporting and drops pending entries. Exported segments remain valid. To export again, the server must
    /// start a new incarnation.
    End,
}

/// A segment with a verified signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Chain of the segment.
    pub chain: Chain,
    /// Sequence number in the chain.
    pub sequence: u64,
    /// Hash of the preceding segment.
    pub previous: Hash,
    /// Hash of this segment.
    pub hash: Hash,
    /// Length of the signed segment in bytes.
    pub bytes: u32,
    /// Encoding of the payload.
    pub encoding: Encoding,
    /// Encoded entries.
    pub payload: Vec<u8>,
}

/// The contents of the next segment of one of our own chains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextSegment {
    /// Number of pending entries in the segment, as required by [`Event::Sealed`](crate::event::Event::Sealed).
    pub taken: u32,
    /// Number of entries in the payload, less than `taken` if there were duplicates.
    pub entries: u32,
    /// Encoding of the payload.
    pub encoding: Encoding,
    /// Encoded entries.
    pub payload: Vec<u8>,
}

/// Totals of the entries received from another server since it joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemberTotals {
    /// Number of entries applied.
    pub entries: u64,
    /// Number of entries refused because of a quota or a full structure.
    pub refused: u64,
}

/// Another server whose segments are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Terms for its segments.
    pub terms: Terms,
    /// Totals of the entries received from it.
    pub learned: MemberTotals,
}

impl Member {
    /// Returns the reporter that represents a peer when its listings and revocations are weighed.
    pub(crate) fn reporter(&self, key: &[u8; 32]) -> Reporter {
        Reporter { id: reporter_id(key), standing: self.terms.standing, group: self.terms.group }
    }
}

/// Returns the reporter ID of the server with this public key.
#[must_use]
pub fn reporter_id(key: &[u8; 32]) -> u64 {
    key.first_chunk().map_or(0, |lead| u64::from_le_bytes(*lead))
}

/// The state of the exchange: members, frontiers and pending entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    own: Option<Origin>,
    cluster: bool,
    members: BTreeMap<[u8; 32], Member>,
    chains: BTreeMap<Chain, Frontier>,
    pending: Pending,
    forgotten: BTreeMap<[u8; 32], Forgotten>,
}

impl Exchange {
    /// Returns the origin under which this server exports segments, or `None` if it does not export.
    #[must_use]
    pub const fn own(&self) -> Option<Origin> {
        self.own
    }

    /// Returns true if all accepted entries are exported, false if only public books are.
    #[must_use]
    pub const fn is_cluster(&self) -> bool {
        self.cluster
    }

    /// Returns the progress of a chain: the segments applied so far or, for one of our own chains, the segments sealed
    /// so far.
    #[must_use]
    pub fn frontier(&self, chain: &Chain) -> Frontier {
        self.chains.get(chain).copied().unwrap_or_default()
    }

    /// Iterates over all chains of live generations.
    pub fn chains(&self) -> impl Iterator<Item = (Chain, Frontier)> + '_ {
        self.chains.iter().map(|(&chain, &frontier)| (chain, frontier))
    }

    /// Iterates over the servers whose segments are applied.
    pub fn members(&self) -> impl Iterator<Item = ([u8; 32], Member)> + '_ {
        self.members.iter().map(|(&key, &member)| (key, member))
    }

    /// Returns a server whose segments are applied.
    #[must_use]
    pub fn member(&self, key: &[u8; 32]) -> Option<Member> {
        self.members.get(key).copied()
    }

    /// Returns the relation to an origin. Our own older incarnations count as nodes of the cluster.
    #[must_use]
    pub fn relation(&self, origin: &Origin) -> Option<Relation> {
        if self.own.is_some_and(|own| own.key == origin.key) {
            return Some(Relation::Cluster);
        }
        self.members.get(&origin.key).map(|member| member.terms.relation)
    }

    /// Iterates over the books and generations with pending entries.
    pub fn pending(&self) -> impl Iterator<Item = (Book, u64)> + '_ {
        self.pending.chains()
    }

    /// Returns the length of the pending entries in bytes.
    #[must_use]
    pub const fn pending_bytes(&self) -> usize {
        self.pending.bytes()
    }

    /// Returns the contents of the next segment of a chain, if entries are pending.
    #[must_use]
    pub fn sealable(&self, book: Book, generation: u64) -> Option<NextSegment> {
        let (taken, waiting) = self.pending.prefix(book, generation, u32::MAX)?;
        let entries = Entries::for_segment(book, waiting).expect("pending entries are well-formed");
        let (encoding, payload) = (Encoding::of(book), entries.payload(waiting));
        Some(NextSegment { taken, entries: entries.len() as u32, encoding, payload })
    }

    /// Returns all pending entries, by book and generation.
    pub(crate) fn waiting(&self) -> Vec<((Book, u64), Entries)> {
        let read = |(&(book, generation), waiting): (&(Book, u64), &Vec<u8>)| {
            let entries = Entries::read_pending(book, waiting).expect("pending entries are well-formed");
            ((book, generation), entries)
        };
        self.pending.waiting.iter().map(read).collect()
    }

    /// Drops the frontiers of an origin's chains, and returns these chains. Chains of texts are left out, because
    /// applying texts again would increase their weight.
    pub(crate) fn forget_origin(&mut self, origin: &Origin) -> Vec<Chain> {
        let is_forgotten = |chain: &Chain| chain.origin == *origin && chain.book != Book::Texts;
        let forgotten = self.chains.keys().filter(|chain| is_forgotten(chain)).copied().collect();
        self.chains.retain(|chain, _| !is_forgotten(chain));
        forgotten
    }

    /// Returns true if the buffer has space for the pending entries that an event may add.
    #[must_use]
    pub const fn has_room(&self) -> bool {
        self.own.is_none() || self.pending.has_room()
    }

    /// Adds a pending entry if the book is exported. `put` appends its encoding.
    pub(crate) fn export(&mut self, book: Book, generation: u64, put: impl FnOnce(&mut Vec<u8>)) {
        if self.own.is_some() && (self.cluster || book.is_public()) {
            self.pending.push(book, generation, put);
        }
    }

    /// Starts exporting as `origin`.
    pub(crate) const fn begin(&mut self, origin: Origin, cluster: bool) {
        self.own = Some(origin);
        self.cluster = cluster;
    }

    /// Stops exporting. The frontiers of our own chains are kept, so that their segments cannot be applied and counted
    /// again.
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

    /// Iterates over the known incarnations of a server.
    pub(crate) fn incarnations(&self, key: &[u8; 32]) -> impl Iterator<Item = u64> + '_ {
        let first = Chain { origin: Origin { key: *key, incarnation: 0 }, book: Book::Listed, generation: 0 };
        let last =
            Chain { origin: Origin { key: *key, incarnation: u64::MAX }, book: Book::Texts, generation: u64::MAX };
        let mut known: Vec<_> = self.chains.range(first..=last).map(|(chain, _)| chain.origin.incarnation).collect();
        known.dedup();
        known.into_iter()
    }

    /// Removes the pending entries that were sealed in a segment of our own, and advances the frontier of its chain.
    /// Returns false if the pending entries do not match the segment.
    pub(crate) fn seal(&mut self, chain: Chain, taken: u32, bytes: u32, hash: Hash) -> bool {
        let Some((can_take, waiting)) = self.pending.prefix(chain.book, chain.generation, taken) else { return false };
        if taken == 0 || taken != can_take {
            return false;
        }
        let (entries, end) = (Entries::for_segment(chain.book, waiting), waiting.len());
        let entries = entries.expect("pending entries are well-formed");
        self.pending.drop_prefix(chain.book, chain.generation, end);
        self.advance(chain, bytes, hash, &entries);
        true
    }

    /// Advances a frontier by one segment.
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

    /// Drops the frontiers of the chains in a book and generation. Only origins for which `is_forgotten` returns true
    /// are affected.
    pub(crate) fn forget_chains(&mut self, book: Book, generation: u64, is_forgotten: impl Fn(&Origin) -> bool) {
        let is_kept =
            |chain: &Chain| (chain.book, chain.generation) != (book, generation) || !is_forgotten(&chain.origin);
        self.chains.retain(|chain, _| is_kept(chain));
    }

    /// Drops the frontier of a chain.
    pub(crate) fn forget(&mut self, chain: &Chain) -> bool {
        self.chains.remove(chain).is_some()
    }

    /// Drops chains of generations that are not live.
    pub(crate) fn expire(&mut self, is_live: impl Fn(Book, u64) -> bool) {
        self.chains.retain(|chain, _| is_live(chain.book, chain.generation));
        self.pending.retain(is_live);
    }

    /// Returns true if an origin has a live chain.
    pub(crate) fn knows(&self, origin: &Origin) -> bool {
        self.incarnations(&origin.key).any(|incarnation| incarnation == origin.incarnation)
    }
}
