//! The segments to request from other servers, and the checks of the answers.
//!
//! Pure: heads, logs and frontiers come in, requests and events go out. Exact counts do not depend on this module,
//! because the engine accepts only the next segment of a chain. The module avoids useless requests, and makes the cheap
//! checks before the expensive check of the signature.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bruit_engine::Engine;
use bruit_engine::codec::Malformed;
use bruit_engine::exchange::{Book, Chain, ExchangeRefusal, Frontier, Hash, Origin, Received, Relation};
use bruit_engine::realm::RealmId;

use crate::heads::{Heads, SignedHeads, UnverifiedHeads};
use crate::keys::PublicKey;
use crate::segment::{UnverifiedSegment, split};
use crate::transport::OFFER_BYTES_MAX;

/// Maximum length of the verified heads that are kept: two offers of the maximum length. Links may offer heads of
/// different ages.
const VERIFIED_BYTES_MAX: usize = 2 * OFFER_BYTES_MAX;

/// What a receiver has applied: the state on which its decisions depend.
pub trait Frontiers {
    /// Returns the receiver's own origin, if it exports.
    fn own(&self) -> Option<Origin>;

    /// Returns the receiver's frontier of a chain.
    fn frontier(&self, chain: &Chain) -> Frontier;

    /// Returns true if the receiver accepts segments of a generation now: the generation has begun on the receiver and
    /// has not expired.
    fn is_live(&self, book: Book, generation: u64) -> bool;

    /// Returns true if a generation has expired on the receiver.
    fn is_over(&self, book: Book, generation: u64) -> bool;

    /// Returns true if segments of an origin are forwarded: those of nodes, and our own.
    fn is_forwarded(&self, _origin: &Origin) -> bool {
        false
    }

    /// Returns true if all accepted entries are exported, false if only public books, or nothing at all, are exported.
    fn exports_all(&self) -> bool {
        false
    }

    /// Returns true if frontiers have digests of the applied entries.
    fn has_digests(&self) -> bool {
        true
    }
}

impl Frontiers for Engine {
    fn own(&self) -> Option<Origin> {
        self.exchange().own()
    }

    fn frontier(&self, chain: &Chain) -> Frontier {
        self.exchange().frontier(chain)
    }

    fn is_live(&self, book: Book, generation: u64) -> bool {
        Self::is_live(self, book, generation)
    }

    fn is_over(&self, book: Book, generation: u64) -> bool {
        Self::is_over(self, book, generation)
    }

    fn is_forwarded(&self, origin: &Origin) -> bool {
        self.exchange().relation(origin) == Some(Relation::Cluster)
    }

    fn exports_all(&self) -> bool {
        self.exchange().is_cluster()
    }
}

/// The known servers, and their relations to this one.
#[derive(Clone, Debug, Default)]
pub struct Known {
    servers: BTreeMap<[u8; 32], (PublicKey, Relation)>,
    /// True if every server in an offer counts as a known peer.
    is_open: bool,
    verified: Arc<VerifiedHeads>,
}

/// Heads with a valid signature, by the bytes that their origin signed. All links of a server share them: verifying is
/// slow, most heads of an offer were in the offer before it, and in a mesh every link offers the same heads.
#[derive(Debug, Default)]
struct VerifiedHeads(Mutex<HeadsByBytes>);

/// Heads, and the total length of the bytes by which they are stored.
#[derive(Debug, Default)]
struct HeadsByBytes {
    heads: BTreeMap<Vec<u8>, Heads>,
    length: usize,
}

impl VerifiedHeads {
    fn get(&self, bytes: &[u8]) -> Option<Heads> {
        self.lock().heads.get(bytes).cloned()
    }

    /// Stores heads. If there is no room for them, first removes all others, which then have to be verified once more.
    fn put(&self, bytes: Vec<u8>, heads: Heads) {
        let mut verified = self.lock();
        if verified.length + bytes.len() > VERIFIED_BYTES_MAX {
            *verified = HeadsByBytes::default();
        }
        let length = bytes.len();
        if verified.heads.insert(bytes, heads).is_none() {
            verified.length += length;
        }
    }

    /// Locks the heads. A poisoned lock is ignored, because no code here panics between related changes.
    fn lock(&self) -> MutexGuard<'_, HeadsByBytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Creates the set of known servers. The set should include our own key, as a node of the cluster: peers may hold
    /// segments that this server has lost.
    #[must_use]
    pub fn new(servers: impl IntoIterator<Item = (PublicKey, Relation)>) -> Self {
        let servers = servers.into_iter().map(|(key, relation)| (*key.as_bytes(), (key, relation)));
        Self { servers: servers.collect(), ..Self::default() }
    }

    /// Returns these servers with the verified heads of `other`, so that none of those heads are verified again.
    #[must_use]
    pub fn sharing_verified(self, other: &Self) -> Self {
        Self { verified: Arc::clone(&other.verified), ..self }
    }

    /// Returns a set in which every server in an offer counts as a known peer. This is for replicas, which fetch only
    /// public books.
    #[must_use]
    pub fn anyone() -> Self {
        Self { is_open: true, ..Self::default() }
    }

    /// Returns the known servers for an offer.
    #[must_use]
    pub fn for_offer(self: &Arc<Self>, offer: &[u8]) -> Arc<Self> {
        if !self.is_open {
            return Arc::clone(self);
        }
        let origins = Heads::read_all(offer).into_iter().flatten().map(|heads| heads.origin());
        let keys: BTreeMap<[u8; 32], PublicKey> =
            origins.filter_map(|Origin { key, .. }| Some((key, PublicKey::from_bytes(&key).ok()?))).collect();
        Arc::new(Self::new(keys.into_values().map(|key| (key, Relation::Peer))).sharing_verified(self))
    }

    /// Returns the key of a known origin.
    ///
    /// # Errors
    /// [`ExchangeRefusal::UnknownOrigin`].
    pub fn key(&self, origin: &Origin) -> Result<&PublicKey, ExchangeRefusal> {
        self.servers.get(&origin.key).map(|(key, _)| key).ok_or(ExchangeRefusal::UnknownOrigin)
    }

    /// Returns the key of a chain's origin, if it may send us that chain.
    ///
    /// # Errors
    /// [`ExchangeRefusal::UnknownOrigin`], or [`ExchangeRefusal::NotShared`] for books that only nodes of the cluster
    /// may send.
    pub fn key_for(&self, chain: &Chain) -> Result<&PublicKey, ExchangeRefusal> {
        match self.servers.get(&chain.origin.key) {
            None => Err(ExchangeRefusal::UnknownOrigin),
            Some((_, Relation::Peer)) if !chain.book.is_public() => Err(ExchangeRefusal::NotShared),
            Some((key, _)) => Ok(key),
        }
    }
}

/// A missing part of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The chain.
    pub chain: Chain,
    /// Present frontier; the log is requested starting at its offset.
    pub from: Frontier,
    /// The end of the chain according to its origin.
    pub to: Frontier,
}

/// A difference between our copy of a chain and its origin's. The chain must be fetched again from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    /// The last segments differ: the origin forked its history.
    Forked,
    /// The segments are the same, but the entries applied from them are not.
    Unlike,
}

/// Returns the verified heads in an offer, and the reasons why other heads were refused. Skips heads of unknown
/// servers: the offering server may have peers that we do not have.
#[must_use]
pub fn offered(offer: &[u8], realm: RealmId, known: &Known) -> (Vec<SignedHeads>, Vec<ExchangeRefusal>) {
    let (mut believed, mut rejected) = (Vec::new(), Vec::new());
    for read in Heads::read_all(offer) {
        match read.and_then(|heads| believe(heads, realm, known)) {
            Ok(heads) => believed.push(heads),
            Err(ExchangeRefusal::UnknownOrigin) => {}
            Err(reason) => rejected.push(reason),
        }
    }
    (believed, rejected)
}

fn believe(unverified: UnverifiedHeads<'_>, realm: RealmId, known: &Known) -> Result<SignedHeads, ExchangeRefusal> {
    let (key, bytes) = (known.key(&unverified.origin())?, unverified.bytes().to_vec());
    if let Some(heads) = known.verified.get(&bytes) {
        return Ok(SignedHeads { heads, bytes });
    }
    let heads = unverified.verify(realm, key)?;
    known.verified.put(bytes.clone(), heads.clone());
    Ok(SignedHeads { heads, bytes })
}

/// Returns the segments that others have and we lack. The newest generations come first. Within a generation,
/// revocations come before listings, and listings before the rest. Claims and texts come last, the oldest first,
/// because a later one may cancel an earlier one. Our own chains are not included: see [`has_lost_segments`].
#[must_use]
pub fn wanted(heads: &[Heads], frontiers: &impl Frontiers, known: &Known) -> Vec<Want> {
    let mut wants: Vec<Want> = heads.iter().flat_map(|heads| missing(heads, frontiers, known)).collect();
    let newest = |book| wants.iter().filter(|want| want.chain.book == book).map(|want| want.chain.generation).max();
    let newest: BTreeMap<Book, u64> = Book::ALL.into_iter().filter_map(|book| Some((book, newest(book)?))).collect();
    // Epochs of different books differ in length, so ages are compared as numbers of later generations.
    let age = |chain: &Chain| newest.get(&chain.book).map_or(0, |newest| newest - chain.generation);
    let turn = |chain: &Chain| match chain.book {
        Book::Votes | Book::Texts => (true, u64::MAX - age(chain)),
        Book::Listed | Book::Revoked | Book::Bulk | Book::Recipients => (false, age(chain)),
    };
    // If two heads name the same chain, the later end comes first and is kept.
    wants.sort_by_key(|want| (turn(&want.chain), rank(want.chain.book), want.chain, Reverse(want.to.sequence)));
    wants.dedup_by_key(|want| want.chain);
    wants
}

fn missing(heads: &Heads, frontiers: &impl Frontiers, known: &Known) -> Vec<Want> {
    if frontiers.own() == Some(heads.origin()) {
        return Vec::new();
    }
    let want = |(chain, to): (Chain, Frontier)| Want { chain, from: frontiers.frontier(&chain), to };
    let is_missing = |want: &Want| {
        want.to.sequence > want.from.sequence
            && frontiers.is_live(want.chain.book, want.chain.generation)
            && known.key_for(&want.chain).is_ok()
    };
    heads.chains().map(want).filter(is_missing).collect()
}

/// Returns the priority of a book within a generation.
const fn rank(book: Book) -> u8 {
    match book {
        Book::Revoked => 0,
        Book::Listed => 1,
        Book::Bulk | Book::Votes | Book::Recipients | Book::Texts => 2,
    }
}

/// Splits a fetched log into valid consecutive segments. Returns them, and the reason why the next segment was refused,
/// if it was. The log may end within a segment, but not within its first one.
///
/// Segments that the heads do not name yet are left for later: if their origin were lost, no other server would learn
/// that these segments exist. For the same reason, heads must be on disk before the segments that they name are
/// accepted.
#[must_use]
pub fn accept(log: &[u8], want: &Want, realm: RealmId, known: &Known) -> (Vec<Received>, Option<ExchangeRefusal>) {
    let (mut received, mut rest) = (Vec::new(), log);
    let (mut sequence, mut hash) = (want.from.sequence, want.from.hash);
    while sequence < want.to.sequence {
        match next(rest, &want.chain, sequence, &hash, realm, known) {
            Ok(Some((segment, behind))) => {
                (sequence, hash) = (segment.sequence, segment.hash);
                received.push(segment);
                rest = behind;
            }
            Ok(None) => {
                let is_useless = received.is_empty() && !log.is_empty();
                let cut_off = ExchangeRefusal::Malformed(Malformed::Truncated { what: "the first segment of a log" });
                return (received, is_useless.then_some(cut_off));
            }
            Err(rejected) => return (received, Some(rejected)),
        }
    }
    (received, None)
}

/// Returns the next complete segment of a log. The signature is checked late, because that is slow. The entries are
/// checked last, after the signature, so that a fault in them can be charged to their origin. Entries that the engine
/// cannot decode never become an event.
fn next<'a>(
    log: &'a [u8],
    chain: &Chain,
    sequence: u64,
    hash: &Hash,
    realm: RealmId,
    known: &Known,
) -> Result<Option<(Received, &'a [u8])>, ExchangeRefusal> {
    let Some((first, rest)) = split(log)? else { return Ok(None) };
    let unverified = UnverifiedSegment::decode(first)?;
    let segment = unverified.segment();
    if segment.chain != *chain {
        return Err(ExchangeRefusal::WrongChain);
    }
    if segment.sequence <= sequence {
        return Err(ExchangeRefusal::AlreadyTaken);
    }
    if segment.sequence != sequence + 1 {
        return Err(ExchangeRefusal::NotNext);
    }
    let verified = unverified.verify(realm, known.key_for(chain)?)?;
    // Only the origin itself can fork its chain, so the signature must be verified before this is reported.
    if segment.previous != *hash {
        return Err(ExchangeRefusal::Forked);
    }
    verified.check_entries()?;
    Ok(Some((verified.received(), rest)))
}

/// Compares a chain applied up to `frontier` with its origin's head. Returns `None` if they have different numbers of
/// segments, because nothing can be concluded then.
#[must_use]
pub fn drift(head: &Frontier, frontier: &Frontier) -> Option<Drift> {
    if head.sequence != frontier.sequence || head == frontier {
        return None;
    }
    Some(if head.hash == frontier.hash { Drift::Unlike } else { Drift::Forked })
}

/// Returns all chains, except our own, that differ from their origins' heads.
#[must_use]
pub fn drifts(heads: &Heads, frontiers: &impl Frontiers) -> Vec<(Chain, Drift)> {
    if frontiers.own() == Some(heads.origin()) {
        return Vec::new();
    }
    let live = heads.chains().filter(|(chain, _)| frontiers.is_live(chain.book, chain.generation));
    let drifts = live.filter_map(|(chain, head)| Some((chain, drift(&head, &frontiers.frontier(&chain))?)));
    drifts.filter(|(_, drift)| *drift == Drift::Forked || frontiers.has_digests()).collect()
}

/// Returns true if heads have segments of the next generation, which will soon begin on this server if both clocks are
/// right.
#[must_use]
pub fn is_early(heads: &Heads, frontiers: &impl Frontiers) -> bool {
    let is_live = |chain: &Chain, generation: u64| frontiers.is_live(chain.book, generation);
    let previous = |chain: &Chain| chain.generation.checked_sub(1);
    heads.chains().any(|(chain, _)| {
        !is_live(&chain, chain.generation) && previous(&chain).is_some_and(|previous| is_live(&chain, previous))
    })
}

/// Returns true if heads signed by ourselves name segments that we do not have: the disk was lost, or is an old copy.
/// Then a new incarnation must start, or our new segments would conflict with those that peers have.
#[must_use]
pub fn has_lost_segments(heads: &Heads, frontiers: &impl Frontiers) -> bool {
    let is_ahead = |(chain, head): (Chain, Frontier)| {
        let ours = frontiers.frontier(&chain);
        // Generations that have not begun here count, too: the books of an old disk are behind.
        let is_over = frontiers.is_over(chain.book, chain.generation);
        !is_over && (head.sequence > ours.sequence || drift(&head, &ours).is_some())
    };
    frontiers.own() == Some(heads.origin()) && heads.chains().any(is_ahead)
}

#[cfg(test)]
mod tests {
    use bruit_engine::exchange::{Encoding, NO_HASH};
    use bruit_engine::time::Time;
    use bruit_filters::sorted::encode_sorted;

    use super::*;
    use crate::keys::NodeKey;
    use crate::segment::{Segment, hash};

    const REALM: RealmId = RealmId([3; 16]);
    const TIME: Time = Time(1_700_000_000);
    const LIVE: u64 = 10;
    const CURRENT: u64 = 70;

    /// A receiver's frontiers, with generations from [`LIVE`] to [`CURRENT`].
    #[derive(Default)]
    struct ReceiverState {
        own: Option<Origin>,
        chains: BTreeMap<Chain, Frontier>,
    }

    impl Frontiers for ReceiverState {
        fn own(&self) -> Option<Origin> {
            self.own
        }

        fn frontier(&self, chain: &Chain) -> Frontier {
            self.chains.get(chain).copied().unwrap_or_default()
        }

        fn is_live(&self, _book: Book, generation: u64) -> bool {
            (LIVE..=CURRENT).contains(&generation)
        }

        fn is_over(&self, _book: Book, generation: u64) -> bool {
            generation < LIVE
        }
    }

    fn key(number: u8) -> NodeKey {
        NodeKey::generate([number; 32])
    }

    fn origin(number: u8) -> Origin {
        Origin { key: *key(number).public().as_bytes(), incarnation: 1 }
    }

    fn chain(number: u8, book: Book, generation: u64) -> Chain {
        Chain { origin: origin(number), book, generation }
    }

    fn known(servers: &[(u8, Relation)]) -> Known {
        Known::new(servers.iter().map(|&(number, relation)| (key(number).public(), relation)))
    }

    fn at(sequence: u64) -> Frontier {
        Frontier { sequence, hash: [sequence as u8; 32], offset: 1_000 * sequence, entries: sequence, digest: 5 }
    }

    fn heads(number: u8, chains: &[(Book, u64, u64)]) -> Heads {
        let chains = chains.iter().map(|&(book, generation, to)| (chain(number, book, generation), at(to)));
        Heads::new(REALM, origin(number), TIME, chains)
    }

    /// Returns the first segments of a chain.
    fn log(chain: Chain, count: u64) -> Vec<Vec<u8>> {
        let mut previous = NO_HASH;
        let segment = |sequence| {
            let mut payload = Vec::new();
            encode_sorted(&[sequence], &mut payload);
            let encoding = Encoding::Sorted;
            let segment = Segment { realm: REALM, chain, sequence, previous, encoding, entries: 1, payload: &payload };
            let signed = segment.sign(&key(1));
            previous = hash(&signed);
            signed
        };
        (1..=count).map(segment).collect()
    }

    #[test]
    fn invalid_entries_or_a_wrong_number_are_rejected_with_all_later_segments() {
        let (chain, known) = (chain(1, Book::Listed, LIVE), known(&[(1, Relation::Peer)]));
        let good = log(chain, 1).concat();
        let mut sorted = Vec::new();
        encode_sorted(&[1, 2, 3], &mut sorted);
        let longer = [&sorted[..], b"x"].concat();
        for (encoding, entries, payload) in [
            (Encoding::Sorted, 3, &[0xff; 40][..]),
            (Encoding::Sorted, 2, &sorted),
            (Encoding::Sorted, 4, &sorted),
            (Encoding::Sorted, 3, &sorted[..sorted.len() - 1]),
            (Encoding::Sorted, 3, &longer),
            (Encoding::InOrder, 1, &[1; 8]),
        ] {
            let segment =
                Segment { realm: REALM, chain, sequence: 2, previous: hash(&good), encoding, entries, payload };
            let log = [&good[..], &segment.sign(&key(1))].concat();
            let (received, rejected) = accept(&log, &from_the_start(chain), REALM, &known);
            assert_eq!((received.len(), rejected.map(|rejected| rejected.name())), (1, Some("payload")), "{segment:?}");
        }
        let encoding = Encoding::Sorted;
        let previous = hash(&good);
        let segment = Segment { realm: REALM, chain, sequence: 2, previous, encoding, entries: 3, payload: &sorted };
        let log = [&good[..], &segment.sign(&key(1))].concat();
        assert_eq!(accept(&log, &from_the_start(chain), REALM, &known).0.len(), 2);
    }

    fn from_the_start(chain: Chain) -> Want {
        Want { chain, from: Frontier::default(), to: at(9) }
    }

    #[test]
    fn sets_come_newest_first_and_revocations_before_listings_and_claims_in_their_order() {
        let known = known(&[(1, Relation::Cluster), (2, Relation::Peer)]);
        let books = [Book::Listed, Book::Revoked, Book::Votes].into_iter();
        let chains: Vec<_> = books.flat_map(|book| [(book, 11, 1), (book, 12, 1)]).collect();
        let theirs = heads(2, &[(Book::Recipients, 70, 1), (Book::Bulk, 70, 1)]);
        let wants = wanted(&[heads(1, &chains), theirs], &ReceiverState::default(), &known);
        let order: Vec<_> = wants.iter().map(|want| (want.chain.book, want.chain.generation)).collect();
        let sets = [(Book::Revoked, 12), (Book::Listed, 12), (Book::Bulk, 70), (Book::Revoked, 11), (Book::Listed, 11)];
        assert_eq!(order, [&sets[..], &[(Book::Votes, 11), (Book::Votes, 12)]].concat());
    }

    #[test]
    fn only_what_is_missing_live_and_known_is_wanted() {
        let known = known(&[(1, Relation::Cluster)]);
        let listed = chain(1, Book::Listed, LIVE);
        let taken = |to| ReceiverState { own: None, chains: [(listed, at(to))].into() };
        let offer = [heads(1, &[(Book::Listed, LIVE, 5)])];
        assert_eq!(wanted(&offer, &taken(3), &known), [Want { chain: listed, from: at(3), to: at(5) }]);
        assert!(wanted(&offer, &taken(5), &known).is_empty());
        assert!(wanted(&offer, &taken(6), &known).is_empty());
        assert!(wanted(&[heads(1, &[(Book::Listed, LIVE - 1, 5)])], &taken(3), &known).is_empty());
        assert!(wanted(&[heads(2, &[(Book::Listed, LIVE, 5)])], &taken(3), &known).is_empty());
        let ourselves = ReceiverState { own: Some(origin(1)), ..ReceiverState::default() };
        assert!(wanted(&offer, &ourselves, &known).is_empty());
    }

    #[test]
    fn of_two_heads_of_a_chain_the_longer_counts() {
        let offers = [heads(1, &[(Book::Listed, LIVE, 5)]), heads(1, &[(Book::Listed, LIVE, 7)])];
        let wants = wanted(&offers, &ReceiverState::default(), &known(&[(1, Relation::Cluster)]));
        assert_eq!(wants.iter().map(|want| want.to.sequence).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn a_log_is_accepted_up_to_where_it_was_cut() {
        let (chain, known) = (chain(1, Book::Listed, LIVE), known(&[(1, Relation::Peer)]));
        let segments = log(chain, 3);
        let whole = segments.concat();
        for cut in 0..=whole.len() {
            let (received, rejected) = accept(&whole[..cut], &from_the_start(chain), REALM, &known);
            let ends = segments.iter().scan(0, |end, segment| {
                *end += segment.len();
                Some(*end)
            });
            let expected = ends.filter(|&end| end <= cut).count();
            assert_eq!(received.len(), expected);
            assert_eq!(rejected.is_some(), expected == 0 && cut > 0, "{cut}");
        }
        let (received, _) = accept(&whole, &from_the_start(chain), REALM, &known);
        assert!(received.iter().map(|segment| segment.sequence).eq(1..=3));
        let told = Want { to: at(2), ..from_the_start(chain) };
        let (received, rejected) = accept(&whole, &told, REALM, &known);
        assert_eq!((received.len(), rejected), (2, None), "no more than the heads name");
    }

    #[test]
    fn a_log_is_accepted_from_the_frontier_on() {
        let (chain, known) = (chain(1, Book::Listed, LIVE), known(&[(1, Relation::Peer)]));
        let segments = log(chain, 3);
        let from = Frontier { sequence: 2, hash: hash(&segments[1]), ..Frontier::default() };
        let want = Want { chain, from, to: at(3) };
        let judge = |log: &[u8]| {
            let (received, rejected) = accept(log, &want, REALM, &known);
            (received.len(), rejected.map(|rejected| rejected.name()))
        };
        assert_eq!(judge(&segments[2]), (1, None));
        assert_eq!(judge(&segments.concat()), (0, Some("already_taken")));
        assert_eq!(judge(b"<html>"), (0, Some("malformed")));
        let forked = Want { from: Frontier { hash: [1; 32], ..from }, ..want };
        assert_eq!(accept(&segments[2], &forked, REALM, &known).1, Some(ExchangeRefusal::Forked));
        let gap = from_the_start(chain);
        assert_eq!(accept(&segments[2], &gap, REALM, &known).1, Some(ExchangeRefusal::NotNext));
    }

    #[test]
    fn foreign_segments_are_refused_with_the_reason() {
        let listed = chain(1, Book::Listed, LIVE);
        let judge = |log: &[u8], chain, realm, servers: &[(u8, Relation)]| {
            let (received, rejected) = accept(log, &from_the_start(chain), realm, &known(servers));
            assert_eq!(received.len(), 0);
            rejected.expect("a reason").name()
        };
        let good = log(listed, 1).concat();
        let peer = [(1, Relation::Peer)];
        assert_eq!(judge(&good, chain(1, Book::Revoked, LIVE), REALM, &peer), "wrong_chain");
        assert_eq!(judge(&good, listed, RealmId([4; 16]), &peer), "foreign_realm");
        assert_eq!(judge(&good, listed, REALM, &[(2, Relation::Cluster)]), "unknown_origin");
        let votes = chain(1, Book::Votes, LIVE);
        assert_eq!(judge(&log(votes, 1).concat(), votes, REALM, &peer), "not_shared");
        let theirs = chain(2, Book::Listed, LIVE);
        assert_eq!(judge(&log(theirs, 1).concat(), theirs, REALM, &[(2, Relation::Peer)]), "forged");
    }

    #[test]
    fn forged_heads_are_refused_and_unknown_servers_skipped() {
        let known = known(&[(1, Relation::Cluster), (2, Relation::Peer)]);
        let (ours, theirs) = (heads(1, &[(Book::Listed, LIVE, 5)]), heads(2, &[]));
        let good = ours.sign(&key(1));
        let offer = [good.clone(), theirs.sign(&key(1)), heads(3, &[]).sign(&key(3))].concat();
        let (believed, rejected) = offered(&offer, REALM, &known);
        assert_eq!(believed, [SignedHeads { heads: ours, bytes: good }]);
        assert_eq!(rejected, [ExchangeRefusal::Forged]);
    }

    #[test]
    fn the_same_bytes_of_a_known_server_are_verified_once() {
        let (all, ours) = (known(&[(1, Relation::Cluster)]), heads(1, &[(Book::Listed, LIVE, 5)]));
        // Heads whose signature is invalid show that it was not checked.
        let mut bytes = ours.sign(&key(1));
        *bytes.last_mut().unwrap() ^= 1;
        assert_eq!(offered(&bytes, REALM, &all).1, [ExchangeRefusal::Forged]);
        all.verified.put(bytes.clone(), ours.clone());
        assert_eq!(offered(&bytes, REALM, &all).0, [SignedHeads { heads: ours, bytes: bytes.clone() }]);
        let nobody = Known::new([]).sharing_verified(&all);
        assert!(offered(&bytes, REALM, &nobody).0.is_empty(), "the server is no longer known");
    }

    #[test]
    fn the_length_of_verified_heads_is_bounded() {
        let known = Known::new([]);
        let put = |number: usize, length: usize| {
            let mut bytes = vec![0; length];
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            known.verified.put(bytes, heads(1, &[]));
            let verified = known.verified.lock();
            let length: usize = verified.heads.keys().map(Vec::len).sum();
            assert_eq!(length, verified.length);
            assert!((1..=VERIFIED_BYTES_MAX).contains(&length), "{length} bytes");
        };
        (0..5).for_each(|number| put(number % 4, VERIFIED_BYTES_MAX / 3));
        put(5, VERIFIED_BYTES_MAX);
        put(6, 140);
    }

    #[test]
    fn drift_needs_an_equal_number_of_segments() {
        let unlike = Frontier { digest: 6, ..at(5) };
        let forked = Frontier { hash: [99; 32], ..at(5) };
        assert_eq!(drift(&at(5), &at(5)), None);
        assert_eq!([drift(&at(5), &at(4)), drift(&at(4), &at(5))], [None, None]);
        assert_eq!(drift(&unlike, &at(5)), Some(Drift::Unlike));
        assert_eq!(drift(&forked, &at(5)), Some(Drift::Forked));
        let listed = chain(1, Book::Listed, LIVE);
        let taken = ReceiverState { own: None, chains: [(listed, unlike)].into() };
        assert_eq!(drifts(&heads(1, &[(Book::Listed, LIVE, 5)]), &taken), [(listed, Drift::Unlike)]);
    }

    #[test]
    fn a_server_learns_of_lost_segments_from_its_own_heads() {
        let listed = chain(1, Book::Listed, LIVE);
        let remembers = |frontier| ReceiverState { own: Some(origin(1)), chains: [(listed, frontier)].into() };
        let said = heads(1, &[(Book::Listed, LIVE, 5)]);
        assert!(!has_lost_segments(&said, &remembers(at(5))) && !has_lost_segments(&said, &remembers(at(6))));
        assert!(has_lost_segments(&said, &remembers(at(4))));
        assert!(has_lost_segments(&said, &remembers(Frontier { hash: [99; 32], ..at(5) })), "its history was forked");
        assert!(!has_lost_segments(&said, &ReceiverState::default()), "another server's heads");
        assert!(!has_lost_segments(&heads(1, &[(Book::Listed, LIVE - 1, 5)]), &remembers(at(5))), "it has expired");
        let later = heads(1, &[(Book::Listed, CURRENT + 1, 1)]);
        assert!(has_lost_segments(&later, &remembers(at(5))), "the books of an old disk are behind");
        assert!(drifts(&said, &remembers(Frontier { hash: [99; 32], ..at(5) })).is_empty());
    }
}
