//! What servers tell each other, and what it does to the books.
//!
//! A segment is taken if it is the next of its chain, and then its data and the chain's frontier change together. Nodes of one
//! operator share sets, claims and counts; another operator's server is one reporter of one group.

use std::collections::BTreeSet;

use bruit_filters::Fingerprint;

use super::room::MadeAt;
use super::{Engine, Outcome};
use crate::bulk::MANY;
use crate::event::{By, Event};
use crate::exchange::{
    Book, CLUSTER_ORIGINS_MAX, Chain, Entries, Hash, INCARNATIONS_MAX, LEVEL_MIN, MEMBERS_MAX, Origin, OriginChange,
    PEER_RING_PART, Received, Relation, Vote, level_of, put_level, put_recipients, put_signature, put_text, put_vote,
    recipients_of,
};
use crate::generations::LIVE_GENERATIONS;
use crate::trust::Claim;

/// The divisor that gives the reserve for segments: this part of a book's planned capacity, beyond the room for claims.
const SEGMENT_RESERVE_PART: u64 = 20;

/// Why a segment, or a change of who is heard, is not taken. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeRefusal {
    /// The realm is of the first version, whose fingerprints are not exchanged.
    #[error("this clearinghouse was founded before servers could exchange anything: found a new one")]
    OldRealm,
    /// Nobody is told anything.
    #[error("this server has not begun to exchange anything")]
    NotBegun,
    /// As many servers are known as can be.
    #[error("no more than {MEMBERS_MAX} other servers can be known")]
    TooMany,
    /// Nobody of that key is heard.
    #[error("a server that is not known")]
    UnknownOrigin,
    /// There is no room for the counts of one more origin.
    #[error("no room for the counts of one more server, or one more life of it")]
    NoRoom,
    /// What another operator's server has no say in.
    #[error("a book that only nodes of one operator share")]
    NotShared,
    /// It was taken before.
    #[error("the segment was taken before")]
    AlreadyTaken,
    /// One before it is missing, or it follows another than the one that was taken.
    #[error("the segment does not follow the last one taken")]
    NotNext,
    /// Its generation is over.
    #[error("the segment's generation is over")]
    Expired,
    /// Its generation has not begun here.
    #[error("the segment's generation has not begun here")]
    NotYet,
    /// Its payload is no payload.
    #[error("the segment's payload is malformed")]
    Payload,
    /// The set is much fuller than it should be.
    #[error("the book is as full as it may be until its next generation begins")]
    Saturated,
    /// A new life cannot begin while a snapshot is written.
    #[error("a snapshot is being written: try again soon")]
    SnapshotRuns,
    /// Entries that do not wait were said to be in a segment.
    #[error("what was sealed does not wait")]
    NothingWaits,
}

type Admitted = Result<(), ExchangeRefusal>;

impl Engine {
    pub(super) fn admit_origin(&self, change: &OriginChange) -> Admitted {
        match change {
            OriginChange::Begin { .. } if !self.realm.key().is_narrow() => Err(ExchangeRefusal::OldRealm),
            OriginChange::Begin { origin, .. } => self.admit_incarnation(origin),
            OriginChange::Join { key, .. } => {
                let is_known = self.exchange.member(key).is_some();
                let has_room = is_known || self.exchange.members_len() < MEMBERS_MAX;
                if has_room { Ok(()) } else { Err(ExchangeRefusal::TooMany) }
            }
            OriginChange::Leave { key } if self.exchange.member(key).is_none() => Err(ExchangeRefusal::UnknownOrigin),
            OriginChange::Leave { .. } => Ok(()),
            OriginChange::End => self.admit_sealed(),
        }
    }

    /// Going on as before is always possible; as another, if there is room for what was counted so far.
    fn admit_incarnation(&self, origin: &Origin) -> Admitted {
        match self.exchange.own() {
            Some(own) if own == *origin => return Ok(()),
            // A server that ends and begins repeatedly has to wait for generations to end.
            None => return self.ensure_incarnation(origin),
            Some(_) => {}
        }
        // The snapshot has begun to write what would become another's.
        if self.is_snapshot_running() {
            return Err(ExchangeRefusal::SnapshotRuns);
        }
        self.ensure_ring(&self.exchange.own().unwrap_or(*origin))
    }

    pub(super) fn change_origin(&mut self, change: &OriginChange) {
        match *change {
            OriginChange::Begin { origin, cluster } => self.begin(origin, cluster),
            OriginChange::Join { key, terms } => {
                self.exchange.join(key, terms);
                self.recap(&key, terms.cap);
            }
            OriginChange::Leave { key } => {
                self.exchange.leave(&key);
            }
            OriginChange::End => self.exchange.end(),
        }
    }

    fn begin(&mut self, origin: Origin, cluster: bool) {
        match self.exchange.own().filter(|before| *before != origin) {
            Some(before) if before.key == origin.key => self.begin_again(&before),
            Some(before) => {
                self.spam.begin_incarnation(before);
                self.bulk.begin_incarnation(before);
            }
            None => {}
        }
        self.exchange.begin(origin, cluster);
        if cluster {
            self.spam.count_all();
        }
    }

    /// Others know more of what this server said than it does itself. What it said as `before` comes from them, from the start; what
    /// it has not said yet it will say as another, and counts as that.
    fn begin_again(&mut self, before: &Origin) {
        let told = self.exchange.forget_origin(before);
        for chain in &told {
            // What was counted before anything was told is nowhere else, and stays. What is not live has nothing to clear.
            let _ = match chain.book {
                Book::Votes => self.spam.claims.clear(chain.generation),
                Book::Recipients => self.bulk.counts.clear(chain.generation),
                Book::Listed | Book::Revoked | Book::Bulk | Book::Texts => Ok(()),
            };
        }
        for ((book, generation), entries) in self.exchange.waiting() {
            // Of a generation of which nothing was told yet, what waits is still counted.
            if !told.iter().any(|chain| (chain.book, chain.generation) == (book, generation)) {
                continue;
            }
            match entries {
                Entries::Votes(votes) => votes.iter().for_each(|vote| self.spam.count_vote(generation, vote)),
                Entries::Recipients(recipients) => {
                    for (fingerprint, amount) in recipients {
                        let _ = self.bulk.counts.insert_many_at(generation, &fingerprint, amount);
                    }
                }
                Entries::Set(_) | Entries::Levels(_) | Entries::Texts(_) => {}
            }
        }
    }

    /// A peer's new cap holds for what it counted already.
    fn recap(&mut self, key: &[u8; 32], cap: u32) {
        let counted = self.bulk.others.iter_mut().filter(|(origin, _)| origin.key == *key);
        counted.filter(|(_, counted)| counted.cap != MANY).for_each(|(_, counted)| counted.cap = cap);
    }

    pub(super) fn admit_sealed(&self) -> Admitted {
        self.exchange.own().map(drop).ok_or(ExchangeRefusal::NotBegun)
    }

    /// Only as the next segment of a chain that is still our own: another incarnation may have begun meanwhile.
    pub(super) fn seal(&mut self, chain: Chain, sequence: u64, taken: u32, bytes: u32, hash: Hash) -> Outcome {
        let is_next =
            self.exchange.own() == Some(chain.origin) && sequence == self.exchange.frontier(&chain).sequence + 1;
        let is_sealed = is_next && self.exchange.seal(chain, taken, bytes, hash);
        if is_sealed { Outcome::Done } else { Outcome::Refused(ExchangeRefusal::NothingWaits.into()) }
    }

    /// Whether a segment may be the next: later ones too, as those before it may be on their way in the same batch.
    pub(super) fn admit_segment(&self, segment: &Received) -> Admitted {
        let Received { chain, sequence, .. } = segment;
        if self.exchange.own() == Some(chain.origin) {
            return Err(ExchangeRefusal::AlreadyTaken);
        }
        let relation = self.exchange.relation(&chain.origin).ok_or(ExchangeRefusal::UnknownOrigin)?;
        if relation == Relation::Peer && !chain.book.is_public() {
            return Err(ExchangeRefusal::NotShared);
        }
        if *sequence <= self.exchange.frontier(chain).sequence {
            return Err(ExchangeRefusal::AlreadyTaken);
        }
        self.ensure_live(chain)?;
        self.ensure_unsaturated(chain, relation)?;
        if relation == Relation::Cluster {
            self.ensure_ring(&chain.origin)?;
        }
        if self.exchange.knows(&chain.origin) { Ok(()) } else { self.ensure_incarnation(&chain.origin) }
    }

    fn ensure_live(&self, chain: &Chain) -> Admitted {
        if chain.generation > self.current_generation(chain.book) {
            return Err(ExchangeRefusal::NotYet);
        }
        if self.is_live(chain.book, chain.generation) { Ok(()) } else { Err(ExchangeRefusal::Expired) }
    }

    /// Whether a generation of a book has begun here, and is not over.
    #[must_use]
    pub fn is_live(&self, book: Book, generation: u64) -> bool {
        let current = self.current_generation(book);
        generation <= current && generation + LIVE_GENERATIONS > current
    }

    fn current_generation(&self, book: Book) -> u64 {
        match book {
            Book::Bulk | Book::Recipients => self.bulk.counts.epoch(),
            Book::Listed | Book::Revoked | Book::Votes | Book::Texts => self.spam.epoch(),
        }
    }

    /// The alarm before a merge: sets that nodes of the cluster fill are joined without asking trust.
    fn ensure_unsaturated(&self, chain: &Chain, relation: Relation) -> Admitted {
        let (keys, planned, most) = match (chain.book, relation) {
            (Book::Listed, Relation::Cluster) => {
                (self.spam.listed.estimated_keys(chain.generation), self.capacities.spam, self.limits.spam)
            }
            (Book::Revoked, Relation::Cluster) => {
                (self.spam.revoked.estimated_keys(chain.generation), self.capacities.revoked, self.limits.revoked)
            }
            _ => return Ok(()),
        };
        // A little more than the limit for claims here, so that nodes that stop at the same point still learn each other's
        // claims.
        let is_saturated = keys.unwrap_or(0.0) >= (most + planned / SEGMENT_RESERVE_PART) as f64;
        if is_saturated { Err(ExchangeRefusal::Saturated) } else { Ok(()) }
    }

    /// Room for one more life of a server.
    fn ensure_incarnation(&self, origin: &Origin) -> Admitted {
        let has_room = self.exchange.incarnations(&origin.key).count() < INCARNATIONS_MAX;
        if has_room { Ok(()) } else { Err(ExchangeRefusal::NoRoom) }
    }

    /// Room for the counts of a node: every life of every one has rings as large as our own.
    fn ensure_ring(&self, origin: &Origin) -> Admitted {
        let recipients = self.bulk.others.iter().filter(|(_, counted)| counted.cap == MANY).map(|(origin, _)| origin);
        let nodes: BTreeSet<&Origin> = self.spam.others.keys().chain(recipients).collect();
        let has_room = nodes.contains(origin) || nodes.len() < CLUSTER_ORIGINS_MAX;
        if has_room { Ok(()) } else { Err(ExchangeRefusal::NoRoom) }
    }

    pub(super) fn receive(&mut self, segment: &Received) -> Outcome {
        let Received { chain, sequence, previous, hash, bytes, encoding, payload } = segment;
        let frontier = self.exchange.frontier(chain);
        if *sequence != frontier.sequence + 1 || *previous != frontier.hash {
            return Outcome::Refused(ExchangeRefusal::NotNext.into());
        }
        let Ok(entries) = Entries::read(chain.book, *encoding, payload) else {
            return Outcome::Refused(ExchangeRefusal::Payload.into());
        };
        let refused = match self.exchange.relation(&chain.origin) {
            Some(Relation::Peer) => self.hear_peer(chain, &entries),
            // Whoever is not known was refused before.
            Some(Relation::Cluster) | None => self.join_node(chain, &entries),
        };
        let count = entries.len() as u32;
        self.exchange.advance(*chain, *bytes, *hash, &entries);
        self.exchange.learn(&chain.origin.key, u64::from(count - refused), refused.into());
        Outcome::Taken { entries: count, refused }
    }

    /// What a node of the same operator accepted is taken as if it had been accepted here, but counted as its own. How many entries
    /// changed nothing.
    fn join_node(&mut self, chain: &Chain, entries: &Entries) -> u32 {
        let Chain { origin, generation, .. } = *chain;
        match entries {
            Entries::Set(set) => self.join_set(chain.book, generation, set),
            Entries::Levels(_) => {}
            Entries::Votes(votes) => {
                self.spam.admit_origin(origin);
                return votes.iter().map(|vote| self.hear_vote(chain, vote)).sum();
            }
            Entries::Recipients(recipients) => {
                self.bulk.admit_origin(origin, MANY, 1);
                let count = |(fingerprint, amount): &(Fingerprint, u32)| {
                    u32::from(!self.count_of(&origin, generation, fingerprint, *amount))
                };
                return recipients.iter().map(count).sum();
            }
            Entries::Texts(texts) => return texts.iter().map(|text| u32::from(!self.learn_text(text))).sum(),
        }
        0
    }

    /// Adds another server's counts if its ring has room, and returns whether it had.
    fn count_of(&mut self, origin: &Origin, generation: u64, fingerprint: &Fingerprint, amount: u32) -> bool {
        let Some(ring) = self.bulk.recipients_of(origin) else { return false };
        let Ok(needs) = ring.needs(fingerprint, generation, amount) else { return false };
        let has_room = self.has_room_of_others(ring, generation, needs);
        if has_room {
            self.bulk.count_of(origin, generation, fingerprint, amount);
        }
        has_room
    }

    /// Sets are joined by OR. That the generation is live was made sure of.
    fn join_set(&mut self, book: Book, generation: u64, set: &[Fingerprint]) {
        if book == Book::Listed {
            let _ = self.spam.listed.insert_batch_at(generation, set);
            return;
        }
        let _ = self.spam.revoked.insert_batch_at(generation, set);
        for fingerprint in set {
            self.spam.reinstated.remove(fingerprint);
        }
    }

    /// One claim that was made at another node: weighed here too, and counted as that node's.
    fn hear_vote(&mut self, chain: &Chain, vote: &Vote) -> u32 {
        let by = By { now: self.now, reporter: vote.reporter };
        let made = if chain.generation == self.spam.epoch() { MadeAt::Node } else { MadeAt::NodeEarlier };
        let mut unheard = 0;
        for (fingerprint, is_counted) in &vote.signatures {
            if *is_counted {
                self.spam.count_of(&chain.origin, chain.generation, vote.claim, vote.flag, fingerprint);
            }
            let is_whitelisted = self.whitelist.contains(fingerprint).is_some();
            unheard += u32::from(is_whitelisted || self.weigh(&by, vote.claim, fingerprint, made).is_err());
        }
        u32::from(unheard as usize == vote.signatures.len())
    }

    /// Texts of another node: its own admission stands, but for what this node has no room for.
    fn learn_text(&mut self, text: &Event) -> bool {
        match text {
            Event::Whitelist { change, .. } => {
                self.admit_whitelist(change).is_ok() && self.change_whitelist(change).is_ok()
            }
            Event::Text { fingerprint, text, .. } => {
                self.replicas.report_text(text, *fingerprint);
                true
            }
            Event::Good { features, .. } => self.replicas.learn_good_features(features).is_ok(),
            Event::GoodFeatures { features, .. } => self.replicas.make_good(features).is_ok(),
            Event::Shingles { change, digest, shingles, .. } => {
                self.change_text(*change, digest, shingles.as_deref());
                true
            }
            _ => false,
        }
    }

    /// What another operator's server concluded is its claim; recipients it counted are noted apart.
    fn hear_peer(&mut self, chain: &Chain, entries: &Entries) -> u32 {
        let Some(member) = self.exchange.member(&chain.origin.key) else { return entries.len() as u32 };
        let by = By { now: self.now, reporter: member.reporter(&chain.origin.key) };
        match entries {
            Entries::Set(set) => {
                let claim = if chain.book == Book::Revoked { Claim::Revoke } else { Claim::Report };
                set.iter().map(|fingerprint| u32::from(!self.hear_conclusion(&by, claim, fingerprint))).sum()
            }
            Entries::Levels(levels) => {
                self.bulk.admit_origin(chain.origin, member.terms.cap, PEER_RING_PART);
                levels
                    .iter()
                    .map(|&(fingerprint, level)| u32::from(!self.note_level(&by, chain, &fingerprint, level)))
                    .sum()
            }
            Entries::Votes(_) | Entries::Recipients(_) | Entries::Texts(_) => entries.len() as u32,
        }
    }

    /// A claim within the peer's quota of new signatures.
    fn hear_conclusion(&mut self, by: &By, claim: Claim, fingerprint: &Fingerprint) -> bool {
        let is_heard = self.whitelist.contains(fingerprint).is_none()
            && self.trust.admit(self.now, &by.reporter, fingerprint).is_ok()
            && self.weigh(by, claim, fingerprint, MadeAt::Here).is_ok();
        if is_heard {
            // Nodes weigh it too. Nobody counts it: whoever else hears the peer would count it again.
            self.export_vote(by, claim, 0, vec![(*fingerprint, false)]);
        }
        is_heard
    }

    /// Raises what a peer counted to its level, within its quota.
    fn note_level(&mut self, by: &By, chain: &Chain, fingerprint: &Fingerprint, level: u8) -> bool {
        let counted = self.bulk.counted_by(&chain.origin, chain.generation, fingerprint);
        let is_new = counted == 0;
        if is_new && self.ensure_share(Book::Recipients, by, 1).is_err() {
            return false;
        }
        let missing = recipients_of(level).saturating_sub(counted);
        let has_room = self.count_of(&chain.origin, chain.generation, fingerprint, missing);
        if has_room && is_new {
            self.charge(Book::Recipients, by, 1);
        }
        has_room
    }

    pub(super) fn admit_repair(&self, chain: &Chain) -> Admitted {
        // Texts weigh more each time they are told, so they are not taken again.
        let is_taken = self.exchange.frontier(chain).sequence > 0
            && self.exchange.own() != Some(chain.origin)
            && chain.book != Book::Texts;
        if is_taken { Ok(()) } else { Err(ExchangeRefusal::UnknownOrigin) }
    }

    /// Forgets a chain, and what it counted. Sets keep what they have: it comes again.
    pub(super) fn repair(&mut self, chain: &Chain) {
        self.exchange.forget(chain);
        let is_peer = self.exchange.relation(&chain.origin) == Some(Relation::Peer);
        let ring = match chain.book {
            Book::Votes => self.spam.others.get_mut(&chain.origin),
            // The ring of recipients is filled by one of the two books.
            Book::Bulk if !is_peer => None,
            Book::Bulk | Book::Recipients => self.bulk.others.get_mut(&chain.origin).map(|counted| &mut counted.ring),
            Book::Listed | Book::Revoked | Book::Texts => None,
        };
        // What is not live has nothing to clear.
        ring.map(|ring| ring.clear(chain.generation));
    }

    /// Chains end with their generations, and origins with their last chain.
    pub(super) fn expire_chains(&mut self) {
        let (spam, bulk) = (self.spam.epoch(), self.bulk.counts.epoch());
        let is_live = |book: Book, generation: u64| {
            let current = if matches!(book, Book::Bulk | Book::Recipients) { bulk } else { spam };
            generation + LIVE_GENERATIONS > current
        };
        self.exchange.expire(is_live);
        // What a snapshot is being written of stays until it is written.
        if self.is_snapshot_running() {
            return;
        }
        let exchange = &self.exchange;
        self.spam.others.retain(|origin, _| exchange.knows(origin));
        self.bulk.others.retain(|origin, _| exchange.knows(origin));
    }

    /// Returns true if rings of ended chains wait to be dropped, as they do while a snapshot is written. The chains themselves
    /// end in the same tick as their generation.
    pub(super) fn has_rings_to_drop(&self) -> bool {
        let is_over = |origin: &Origin| !self.exchange.knows(origin);
        !self.is_snapshot_running() && (self.spam.others.keys().any(is_over) || self.bulk.others.keys().any(is_over))
    }

    pub(super) fn export_signature(&mut self, book: Book, fingerprint: &Fingerprint) {
        let generation = self.spam.epoch();
        self.exchange.export(book, generation, |out| put_signature(out, *fingerprint));
    }

    pub(super) fn export_vote(&mut self, by: &By, claim: Claim, flag: u8, signatures: Vec<(Fingerprint, bool)>) {
        if signatures.is_empty() {
            return;
        }
        let vote = Vote { reporter: by.reporter, claim, flag, signatures };
        self.exchange.export(Book::Votes, self.spam.epoch(), |out| put_vote(out, &vote));
    }

    /// Tells recipients, and a level if one was passed: `before` was counted here before.
    pub(super) fn export_recipients(&mut self, fingerprint: &Fingerprint, amount: u32, before: u32) {
        let generation = self.bulk.counts.epoch();
        self.exchange.export(Book::Recipients, generation, |out| put_recipients(out, *fingerprint, amount));
        let level = level_of(before.saturating_add(amount));
        if level >= LEVEL_MIN && level > level_of(before) {
            self.exchange.export(Book::Bulk, generation, |out| put_level(out, *fingerprint, level));
        }
    }

    /// Tells nodes of a text that was taken.
    pub(super) fn export_text(&mut self, event: &Event) {
        if event.is_text() {
            self.exchange.export(Book::Texts, self.spam.epoch(), |out| put_text(out, event));
        }
    }
}
