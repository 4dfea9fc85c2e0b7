//! Heads: a signed list of an origin's chains and their ends, so that peers can see which segments they lack.
//!
//! Heads contain the frontiers of all chains of one incarnation of a server at one moment. They are small, and newer
//! heads replace older ones. An offer is a sequence of heads of several origins, unchanged. Heads have only one valid
//! encoding, which [`Heads::sign`] writes.
//!
//! `docs/design/segments.md` specifies the byte layout.

use bruit_engine::codec::{Malformed, Reader};
use bruit_engine::exchange::{Book, Chain, ExchangeRefusal, Frontier, NO_HASH, Origin};
use bruit_engine::realm::RealmId;
use bruit_engine::time::Time;

use crate::epochs::Epochs;
use crate::keys::{NodeKey, PublicKey, SIGNATURE_BYTES};
use crate::segment::{ensure, read_book, read_magic, read_origin, read_version};
use crate::signed::{Domain, is_sealed, seal};

/// The magic bytes of heads.
pub const HEADS_MAGIC: [u8; 8] = *b"\x89bruitH\n";

/// The format version.
pub const HEADS_VERSION: u16 = 1;

/// Maximum number of generations of each book in heads. A ring has the same number of generations.
pub const GENERATIONS_MAX: usize = 8;

/// Maximum number of chains in heads.
pub const HEADS_MAX: usize = Book::ALL.len() * GENERATIONS_MAX;

/// Number of bytes up to the end of the length field. It is the same in every version.
const FRONT_BYTES: usize = 12;

/// Number of bytes before the chains.
const HEADER_BYTES: usize = FRONT_BYTES + 64;

/// Number of bytes of a chain.
const HEAD_BYTES: usize = 73;

/// Maximum number of bytes of heads.
pub const HEADS_BYTES_MAX: usize = HEADER_BYTES + HEADS_MAX * HEAD_BYTES + SIGNATURE_BYTES;

/// Prefix of the signed bytes.
const DOMAIN: Domain = Domain(b"bruit heads\n");

/// The end of one chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Book of the chain.
    pub book: Book,
    /// Epoch of the chain's generation.
    pub generation: u64,
    /// The end of the chain, which has at least one segment.
    pub frontier: Frontier,
}

/// The chains of an origin and their ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heads {
    realm: RealmId,
    origin: Origin,
    time: Time,
    heads: Vec<Head>,
}

/// Verified heads, and the bytes that their origin signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedHeads {
    /// The heads.
    pub heads: Heads,
    /// The signed bytes.
    pub bytes: Vec<u8>,
}

/// Decoded heads whose signature has not been verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnverifiedHeads<'a> {
    heads: Heads,
    bytes: &'a [u8],
}

impl Heads {
    /// Creates heads of an origin at `time` with the latest [`GENERATIONS_MAX`] generations of each book. Omits empty
    /// chains and those of other origins.
    #[must_use]
    pub fn new(
        realm: RealmId,
        origin: Origin,
        time: Time,
        chains: impl IntoIterator<Item = (Chain, Frontier)>,
    ) -> Self {
        let own = chains.into_iter().filter(|(chain, frontier)| chain.origin == origin && frontier.sequence > 0);
        let head = |(chain, frontier): (Chain, _)| Head { book: chain.book, generation: chain.generation, frontier };
        let mut heads: Vec<Head> = own.map(head).collect();
        heads.sort_by_key(|head| (head.book, head.generation));
        heads.dedup_by_key(|head| (head.book, head.generation));
        let later =
            |head: &Head| heads.iter().filter(|l| l.book == head.book && l.generation > head.generation).count();
        let latest = heads.iter().filter(|head| later(head) < GENERATIONS_MAX).copied().collect();
        Self { realm, origin, time, heads: latest }
    }

    /// Returns the realm.
    #[must_use]
    pub const fn realm(&self) -> RealmId {
        self.realm
    }

    /// Returns the origin.
    #[must_use]
    pub const fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns the time of writing, by the origin's clock.
    #[must_use]
    pub const fn time(&self) -> Time {
        self.time
    }

    /// Returns the chains and their ends, sorted by book and generation.
    pub fn chains(&self) -> impl Iterator<Item = (Chain, Frontier)> + '_ {
        let chain = |head: &Head| Chain { origin: self.origin, book: head.book, generation: head.generation };
        self.heads.iter().map(move |head| (chain(head), head.frontier))
    }

    /// Returns the end of one of the chains.
    #[must_use]
    pub fn frontier(&self, chain: &Chain) -> Frontier {
        self.chains().find(|(own, _)| own == chain).map(|(_, frontier)| frontier).unwrap_or_default()
    }

    /// Returns true if these heads should be kept instead of `older` ones of the same origin: they are later and lack
    /// nothing. Heads that lack segments come from a server that lost them; that server notices the loss when it
    /// receives the older heads.
    ///
    /// A chain may be missing if its generation is over at the time in these heads. That time is from the origin's own
    /// clock, by which the origin had to drop the chain, even if the clock is wrong. No other clock matters, so all
    /// servers make the same decision, and an origin that lies about its time harms only itself.
    ///
    /// Heads are later if their time is later, or if it is the same and they have more segments. If an origin's clock
    /// was set back, its new heads have an earlier time; they count as later if they have segments that the older heads
    /// lack. Heads that are really older cannot be mistaken for such new heads: if they have a segment that the newer
    /// heads lack, its generation is over.
    #[must_use]
    pub fn replaces(&self, older: &Self, epochs: &Epochs) -> bool {
        let is_over = |chain: &Chain, time| epochs.is_over(chain.book, chain.generation, time);
        let is_kept = |(chain, frontier): (Chain, Frontier)| {
            let has_ended = self.time > older.time && is_over(&chain, self.time);
            has_ended || self.frontier(&chain).sequence >= frontier.sequence
        };
        let is_news = |(chain, frontier): (Chain, Frontier)| {
            frontier.sequence > older.frontier(&chain).sequence && !is_over(&chain, older.time)
        };
        let is_later = self.time >= older.time || self.chains().any(is_news);
        is_later && older.chains().all(is_kept)
    }

    /// Returns true if a server should keep these heads instead of `kept`, its present heads of the same origin, if it
    /// has any.
    #[must_use]
    pub fn is_news(&self, kept: Option<&Self>, epochs: &Epochs) -> bool {
        kept.is_none_or(|kept| self != kept && self.replaces(kept, epochs))
    }

    /// Encodes and signs the heads. `key` must be the origin's key: peers refuse any other signature.
    #[must_use]
    pub fn sign(&self, key: &NodeKey) -> Vec<u8> {
        let length = HEADER_BYTES + self.heads.len() * HEAD_BYTES + SIGNATURE_BYTES;
        let mut out = Vec::with_capacity(length);
        out.extend(HEADS_MAGIC);
        out.extend(HEADS_VERSION.to_le_bytes());
        out.extend((length as u16).to_le_bytes());
        out.extend(self.realm.0);
        out.extend(self.origin.key);
        out.extend(self.origin.incarnation.to_le_bytes());
        out.extend(self.time.0.to_le_bytes());
        self.heads.iter().for_each(|head| head.put(&mut out));
        seal(DOMAIN, out, key)
    }

    /// Decodes an offer, a sequence of heads. Heads that cannot be decoded, such as those of a later version, do not
    /// affect the others; decoding stops only at bytes that are not heads at all.
    #[must_use]
    pub fn read_all(mut offer: &[u8]) -> Vec<Result<UnverifiedHeads<'_>, ExchangeRefusal>> {
        let mut all = Vec::new();
        while !offer.is_empty() {
            match split(offer) {
                Ok((heads, rest)) => {
                    all.push(UnverifiedHeads::decode(heads));
                    offer = rest;
                }
                Err(malformed) => {
                    all.push(Err(malformed.into()));
                    break;
                }
            }
        }
        all
    }
}

impl<'a> UnverifiedHeads<'a> {
    /// Decodes the heads of one origin; `bytes` must contain nothing else.
    ///
    /// # Errors
    /// [`ExchangeRefusal::Malformed`] or [`ExchangeRefusal::Version`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, ExchangeRefusal> {
        let mut reader = Reader::new(bytes);
        let heads = read_heads(&mut reader)?;
        reader.bytes(SIGNATURE_BYTES, "a signature")?;
        reader.finish()?;
        Ok(Self { heads, bytes })
    }

    /// Returns the claimed origin.
    #[must_use]
    pub const fn origin(&self) -> Origin {
        self.heads.origin
    }

    /// Returns the unverified contents.
    #[must_use]
    pub const fn unverified(&self) -> &Heads {
        &self.heads
    }

    /// Returns the signed bytes.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Verifies that the heads belong to `realm` and are signed by their origin, the owner of `key`.
    ///
    /// # Errors
    /// [`ExchangeRefusal::ForeignRealm`], [`ExchangeRefusal::UnknownOrigin`] if the key is not the origin's, or
    /// [`ExchangeRefusal::Forged`].
    pub fn verify(self, realm: RealmId, key: &PublicKey) -> Result<Heads, ExchangeRefusal> {
        if self.heads.realm != realm {
            return Err(ExchangeRefusal::ForeignRealm(self.heads.realm));
        }
        if self.heads.origin.key != *key.as_bytes() {
            return Err(ExchangeRefusal::UnknownOrigin);
        }
        if is_sealed(DOMAIN, self.bytes, key) { Ok(self.heads) } else { Err(ExchangeRefusal::Forged) }
    }
}

impl Head {
    fn put(&self, out: &mut Vec<u8>) {
        let Frontier { sequence, hash, offset, entries, digest } = self.frontier;
        out.push(self.book as u8);
        out.extend(self.generation.to_le_bytes());
        out.extend(sequence.to_le_bytes());
        out.extend(hash);
        [offset, entries, digest].iter().for_each(|number| out.extend(number.to_le_bytes()));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (book, generation) = (read_book(reader)?, reader.u64("a generation")?);
        let frontier = Frontier {
            sequence: reader.u64("a sequence")?,
            hash: reader.array("a hash")?,
            offset: reader.u64("an offset")?,
            entries: reader.u64("a number of entries")?,
            digest: reader.u64("a digest")?,
        };
        ensure("a sequence", frontier.sequence, frontier.sequence > 0 && frontier.hash != NO_HASH)?;
        Ok(Self { book, generation, frontier })
    }
}

/// Splits the first heads off an offer. Returns their bytes and the rest.
fn split(offer: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let mut reader = Reader::new(offer);
    read_magic(&mut reader, HEADS_MAGIC)?;
    reader.u16("a version")?;
    let length = reader.u16("the length of heads")?;
    ensure("the length of heads", length.into(), usize::from(length) >= FRONT_BYTES)?;
    offer.split_at_checked(length.into()).ok_or(Malformed::Truncated { what: "heads" })
}

fn read_heads(reader: &mut Reader<'_>) -> Result<Heads, ExchangeRefusal> {
    read_magic(reader, HEADS_MAGIC)?;
    read_version(reader, HEADS_VERSION)?;
    let length = reader.u16("the length of heads")?;
    let count = count_of(length.into());
    ensure("the length of heads", length.into(), count.is_some())?;
    let realm = RealmId(reader.array("the realm of heads")?);
    let origin = read_origin(reader)?;
    let time = Time(reader.u64("the time of heads")?);
    let heads = (0..count.unwrap_or(0)).map(|_| Head::read(reader)).collect::<Result<Vec<_>, _>>()?;
    let is_sorted = heads.is_sorted_by(|a, b| (a.book, a.generation) < (b.book, b.generation));
    ensure("the order of chains", 0, is_sorted)?;
    Ok(Heads { realm, origin, time, heads })
}

/// Returns the number of chains in heads of `length` bytes.
fn count_of(length: usize) -> Option<usize> {
    let chains = length.checked_sub(HEADER_BYTES + SIGNATURE_BYTES)?;
    (chains.is_multiple_of(HEAD_BYTES) && chains / HEAD_BYTES <= HEADS_MAX).then_some(chains / HEAD_BYTES)
}

#[cfg(test)]
mod tests {
    use bruit_engine::generations::LIVE_GENERATIONS;
    use proptest::prelude::*;

    use super::*;

    const REALM: RealmId = RealmId([3; 16]);
    const TIME: Time = Time(9 * EPOCH + 7);
    const EPOCH: u64 = 1_000;
    const EPOCHS: Epochs = Epochs::new(EPOCH, EPOCH);

    fn key() -> NodeKey {
        NodeKey::generate([1; 32])
    }

    fn origin() -> Origin {
        Origin { key: *key().public().as_bytes(), incarnation: 7 }
    }

    fn head(book: Book, generation: u64, sequence: u64) -> (Chain, Frontier) {
        let frontier = Frontier { sequence, hash: [sequence as u8; 32], offset: 900, entries: 5, digest: 77 };
        (Chain { origin: origin(), book, generation }, frontier)
    }

    fn heads(time: Time, chains: impl IntoIterator<Item = (Chain, Frontier)>) -> Heads {
        Heads::new(REALM, origin(), time, chains)
    }

    fn some() -> Heads {
        heads(TIME, [head(Book::Votes, 9, 2), head(Book::Listed, 9, 3), head(Book::Listed, 8, 40)])
    }

    /// Returns heads with the maximum number of chains.
    fn full() -> Heads {
        heads(TIME, Book::ALL.into_iter().flat_map(|book| (0..20).map(move |generation| head(book, generation, 1))))
    }

    fn rejected(bytes: &[u8]) -> &'static str {
        let verified = UnverifiedHeads::decode(bytes).and_then(|read| read.verify(REALM, &key().public()));
        verified.expect_err("not to be believed").name()
    }

    #[test]
    fn heads_are_read_as_signed_and_sorted() {
        for heads in [heads(TIME, []), some(), full()] {
            let signed = heads.sign(&key());
            assert_eq!(UnverifiedHeads::decode(&signed).unwrap().verify(REALM, &key().public()), Ok(heads));
        }
        let order: Vec<_> = some().chains().map(|(chain, _)| (chain.book, chain.generation)).collect();
        assert_eq!(order, [(Book::Listed, 8), (Book::Listed, 9), (Book::Votes, 9)]);
        assert_eq!(some().frontier(&head(Book::Listed, 8, 0).0).sequence, 40);
        assert_eq!(some().frontier(&head(Book::Texts, 8, 0).0), Frontier::default());
    }

    #[test]
    fn the_latest_generations_of_every_book_fit_and_no_more_chains_are_read() {
        let signed = full().sign(&key());
        assert_eq!((full().chains().count(), signed.len()), (HEADS_MAX, HEADS_BYTES_MAX));
        assert!(full().chains().all(|(chain, _)| chain.generation >= 12));
        let mut more = full();
        more.heads.push(Head { generation: 21, ..more.heads[HEADS_MAX - 1] });
        assert_eq!(rejected(&more.sign(&key())), "malformed");
    }

    #[test]
    fn chains_of_others_and_empty_ones_are_left_out() {
        let (mut theirs, frontier) = head(Book::Listed, 9, 3);
        theirs.origin.incarnation += 1;
        assert_eq!(heads(TIME, [(theirs, frontier), head(Book::Bulk, 9, 0)]), heads(TIME, []));
    }

    #[test]
    fn every_changed_bit_and_every_cut_is_refused() {
        let signed = some().sign(&key());
        for bit in 0..8 * signed.len() {
            let mut other = signed.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            rejected(&other);
        }
        (0..signed.len()).for_each(|cut| assert_eq!(rejected(&signed[..cut]), "malformed", "{cut}"));
        assert_eq!(rejected(&[&signed[..], b"\0"].concat()), "malformed");
    }

    #[test]
    fn heads_in_another_order_are_malformed() {
        for change in [|heads: &mut Vec<Head>| heads.swap(0, 1), |heads: &mut Vec<Head>| heads[1] = heads[0]] {
            let mut other = some();
            change(&mut other.heads);
            assert_eq!(rejected(&other.sign(&key())), "malformed");
        }
    }

    #[test]
    fn each_fault_has_its_name() {
        let signed = some().sign(&key());
        let with = |at: usize| {
            let mut bytes = signed.clone();
            bytes[at] ^= 1;
            rejected(&bytes)
        };
        assert_eq!(
            [with(0), with(8), with(12), with(signed.len() - 1)],
            ["malformed", "version", "foreign_realm", "forged"]
        );
        assert_eq!(rejected(&some().sign(&NodeKey::generate([2; 32]))), "forged");
        let stranger = NodeKey::generate([2; 32]).public();
        let read = UnverifiedHeads::decode(&signed).unwrap().verify(REALM, &stranger);
        assert_eq!(read, Err(ExchangeRefusal::UnknownOrigin));
    }

    #[test]
    fn heads_of_the_future_do_not_hide_the_others_of_an_offer() {
        let (known, mut later) = (some().sign(&key()), full().sign(&key()));
        later[8] = 2;
        let offer = [&known[..], &later, &known, b"rubbish"].concat();
        let read: Vec<_> = Heads::read_all(&offer).into_iter().map(|read| read.map(|heads| heads.bytes())).collect();
        assert_eq!((read[0].as_ref(), read[2].as_ref()), (Ok(&&known[..]), Ok(&&known[..])));
        assert_eq!(read[1], Err(ExchangeRefusal::Version(2)));
        assert_eq!((read.len(), read[3].as_ref().unwrap_err().name()), (4, "malformed"));
        assert!(Heads::read_all(b"").is_empty());
    }

    #[test]
    fn heads_that_lack_segments_do_not_replace_complete_ones() {
        let (before, after) = (some(), Time(TIME.0 + 1));
        let grown = heads(after, some().chains().chain([head(Book::Texts, 9, 1)]));
        assert!(grown.replaces(&before, &EPOCHS) && !before.replaces(&grown, &EPOCHS));
        let shorter = heads(after, [head(Book::Votes, 9, 1), head(Book::Listed, 9, 3), head(Book::Listed, 8, 40)]);
        assert!(!shorter.replaces(&before, &EPOCHS));
        let without_oldest = [head(Book::Votes, 9, 2), head(Book::Listed, 9, 3)];
        assert!(!heads(after, without_oldest).replaces(&before, &EPOCHS));
        let same_second = heads(TIME, without_oldest);
        assert!(!same_second.replaces(&before, &EPOCHS) && before.replaces(&same_second, &EPOCHS));
    }

    #[test]
    fn heads_may_drop_a_generation_once_it_is_over_by_their_own_time_and_the_old_ones_do_not_come_back() {
        let end = (8 + LIVE_GENERATIONS) * EPOCH;
        let at = |time, chains: &[(Chain, Frontier)]| heads(Time(time), chains.iter().copied());
        let (eight, nine) = (head(Book::Listed, 8, 40), head(Book::Listed, 9, 3));
        let before = at(end - 5, &[eight, nine]);
        assert!(!at(end - 1, &[nine]).replaces(&before, &EPOCHS));
        let after = at(end, &[nine]);
        assert!(after.replaces(&before, &EPOCHS));
        assert!(!before.replaces(&after, &EPOCHS));
        assert!(!at(end, &[]).replaces(&before, &EPOCHS), "the other generation is not over");
    }

    #[test]
    fn an_origin_whose_clock_was_set_back_is_heard_again_with_its_next_segment() {
        let year = 365 * 86_400;
        let ahead = Time(TIME.0 + year);
        let current = ahead.epoch(EPOCH);
        let jumped = heads(ahead, [head(Book::Listed, current, 1)]);
        assert!(jumped.replaces(&some(), &EPOCHS), "by its own clock everything else is over");
        let back = |sequence| heads(TIME, [head(Book::Listed, current, sequence)]);
        assert!(!back(1).replaces(&jumped, &EPOCHS), "these may be old");
        assert!(back(2).replaces(&jumped, &EPOCHS) && !jumped.replaces(&back(2), &EPOCHS));
        let later = heads(Time(TIME.0 + 10), [head(Book::Listed, current, 2)]);
        assert!(later.replaces(&back(2), &EPOCHS));
        assert!(!some().replaces(&later, &EPOCHS));
    }

    proptest! {
        #[test]
        fn heads_never_replace_each_other(
            [first, second] in prop::array::uniform2((0_u64..60, prop::array::uniform4(0_u64..3))),
        ) {
            let made = |(time, sequences): (u64, [u64; 4])| {
                let chains = (0..).zip(sequences).map(|(generation, sequence)| head(Book::Listed, generation, sequence));
                Heads::new(REALM, origin(), Time(time), chains)
            };
            let (epochs, first, second) = (Epochs::new(5, 5), made(first), made(second));
            prop_assume!(first != second);
            prop_assert!(!(first.replaces(&second, &epochs) && second.replaces(&first, &epochs)));
        }
    }
}
