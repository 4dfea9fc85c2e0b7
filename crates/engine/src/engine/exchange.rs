//! Exchange with other servers: applies received segments to the books, and exports changes of the books.
//!
//! A segment is applied only if it is the next one of its chain. The books and the chain's frontier change in the same
//! event. Nodes of one operator share sets, claims and counts. A server of another operator counts as one reporter in
//! one group.

use std::collections::BTreeSet;

use bruit_filters::Fingerprint;
use bruit_filters::ring::CountsRing;

use super::room::ClaimSite;
use super::{Engine, Outcome};
use crate::bulk::{MANY, holds};
use crate::event::{By, Event};
use crate::exchange::{
    Book, Chain, ClaimEntry, Entries, ExchangeRefusal, Hash, INCARNATIONS_MAX, LEVEL_MIN, MEMBERS_MAX, Origin,
    OriginChange, PEER_RING_PART, Received, Relation, SEPARATE_ORIGINS_MAX, level_of, put_level, put_recipients,
    put_signature, put_text, put_vote, recipients_of,
};
use crate::generations::LIVE_GENERATIONS;
use crate::trust::Claim;

/// Divisor that gives the reserve for segments: the reserve is the planned capacity of a book divided by this number. A
/// book that has reached its limit for claims still accepts segments until the reserve is used up.
const SEGMENT_RESERVE_PART: u64 = 20;

pub(super) type Admission = Result<(), ExchangeRefusal>;

impl Engine {
    pub(super) fn admit_origin(&self, change: &OriginChange) -> Admission {
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

    /// Checks that an incarnation can start. Resuming the current incarnation is always possible. A change of the key
    /// needs one more ring, which keeps the counts made so far.
    fn admit_incarnation(&self, origin: &Origin) -> Admission {
        match self.exchange.own() {
            Some(own) if own == *origin => return Ok(()),
            // A server that stops and starts exchanging too often must wait until generations end.
            None => return self.ensure_incarnation(origin),
            // A change of the key would move the counts made so far to another ring while the books are being rebuilt.
            Some(own) if own.key != origin.key && self.is_forgetting() => return Err(ExchangeRefusal::Forgetting),
            Some(_) => {}
        }
        // The running snapshot has begun to write rings that would move to another origin.
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
                self.change_cap(&key, terms.cap);
            }
            OriginChange::Leave { key } => {
                self.exchange.leave(&key);
            }
            OriginChange::End => self.exchange.end(),
        }
    }

    fn begin(&mut self, origin: Origin, cluster: bool) {
        match self.exchange.own().filter(|before| *before != origin) {
            Some(before) if before.key == origin.key => self.restart_incarnation(&before),
            Some(before) => {
                self.spam.begin_incarnation(before);
                self.bulk.begin_incarnation(before);
            }
            None => {}
        }
        self.prune_rebuild();
        self.exchange.begin(origin, cluster);
        if cluster {
            self.spam.count_all();
        }
    }

    /// Starts a new incarnation because peers hold segments that this server has lost. Everything that this server
    /// exported as the origin `before` is fetched back from the peers, from the first segment on. Pending entries will
    /// be exported by the new incarnation and count as its own.
    fn restart_incarnation(&mut self, before: &Origin) {
        let exported = self.exchange.forget_origin(before);
        for chain in &exported {
            // Clear only the counts of generations with exported segments; other counts exist nowhere else. Ignore
            // errors: a generation that is not live has nothing to clear.
            let _ = match chain.book {
                Book::Votes => self.spam.claims.clear(chain.generation),
                Book::Recipients => self.bulk.counts.clear(chain.generation),
                Book::Listed | Book::Revoked | Book::Bulk | Book::Texts => Ok(()),
            };
        }
        for ((book, generation), entries) in self.exchange.waiting() {
            // If the counts of this generation were not cleared, they still include its pending entries.
            if !exported.iter().any(|chain| (chain.book, chain.generation) == (book, generation)) {
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

    /// Applies a peer's new cap to its existing counts.
    fn change_cap(&mut self, key: &[u8; 32], cap: u32) {
        let counted = self.bulk.others.iter_mut().filter(|(origin, _)| origin.key == *key);
        counted.filter(|(_, counted)| counted.cap != MANY).for_each(|(_, counted)| counted.cap = cap);
    }

    pub(super) fn admit_sealed(&self) -> Admission {
        self.exchange.own().map(drop).ok_or(ExchangeRefusal::NotBegun)
    }

    /// Seals the next segment of a chain, if the chain is still our own: another incarnation may have started
    /// meanwhile.
    pub(super) fn seal(&mut self, chain: Chain, sequence: u64, taken: u32, bytes: u32, hash: Hash) -> Outcome {
        let is_next =
            self.exchange.own() == Some(chain.origin) && sequence == self.exchange.frontier(&chain).sequence + 1;
        let is_sealed = is_next && self.exchange.seal(chain, taken, bytes, hash);
        if is_sealed { Outcome::Done } else { Outcome::Refused(ExchangeRefusal::NothingWaits.into()) }
    }

    /// Checks that a segment may be applied. A segment may be admitted even if earlier ones are missing, because they
    /// may be in the same batch.
    pub(super) fn admit_segment(&self, segment: &Received) -> Admission {
        let Received { chain, sequence, .. } = segment;
        if self.exchange.own() == Some(chain.origin) {
            return Err(ExchangeRefusal::AlreadyTaken);
        }
        if self.exchange.is_forgotten(&chain.origin.key) {
            return Err(ExchangeRefusal::Forgotten);
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
        if self.exchange.knows(&chain.origin) { Ok(()) } else { self.ensure_incarnation(&chain.origin) }
    }

    fn ensure_live(&self, chain: &Chain) -> Admission {
        if chain.generation > self.current_generation(chain.book) {
            return Err(ExchangeRefusal::NotYet);
        }
        if self.is_live(chain.book, chain.generation) { Ok(()) } else { Err(ExchangeRefusal::Expired) }
    }

    /// Returns true if a generation of a book has begun on this server and has not ended.
    #[must_use]
    pub fn is_live(&self, book: Book, generation: u64) -> bool {
        generation <= self.current_generation(book) && !self.is_over(book, generation)
    }

    /// Returns true if a generation of a book has ended on this server.
    #[must_use]
    pub fn is_over(&self, book: Book, generation: u64) -> bool {
        generation.saturating_add(LIVE_GENERATIONS) <= self.current_generation(book)
    }

    fn current_generation(&self, book: Book) -> u64 {
        match book {
            Book::Bulk | Book::Recipients => self.bulk.counts.epoch(),
            Book::Listed | Book::Revoked | Book::Votes | Book::Texts => self.spam.epoch(),
        }
    }

    /// Refuses segments of cluster nodes that would overfill a set. This limit is necessary, because the sets of
    /// cluster nodes are merged without a decision by `trust`.
    fn ensure_unsaturated(&self, chain: &Chain, relation: Relation) -> Admission {
        let (keys, planned, most) = match (chain.book, relation) {
            (Book::Listed, Relation::Cluster) => {
                (self.spam.listed.estimated_keys(chain.generation), self.capacities.spam, self.limits.spam)
            }
            (Book::Revoked, Relation::Cluster) => {
                (self.spam.revoked.estimated_keys(chain.generation), self.capacities.revoked, self.limits.revoked)
            }
            _ => return Ok(()),
        };
        // This limit is slightly above the one for local claims. So nodes that accept no more local claims still accept
        // each other's segments.
        let is_saturated = keys.unwrap_or(0.0) >= (most + planned / SEGMENT_RESERVE_PART) as f64;
        if is_saturated { Err(ExchangeRefusal::Saturated) } else { Ok(()) }
    }

    /// Checks that a server may have one more incarnation.
    fn ensure_incarnation(&self, origin: &Origin) -> Admission {
        let has_room = self.exchange.incarnations(&origin.key).count() < INCARNATIONS_MAX;
        if has_room { Ok(()) } else { Err(ExchangeRefusal::NoRoom) }
    }

    /// Checks that one more origin may have rings of its own.
    fn ensure_ring(&self, origin: &Origin) -> Admission {
        let recipients = self.bulk.others.iter().filter(|(_, counted)| counted.cap == MANY).map(|(origin, _)| origin);
        let nodes: BTreeSet<&Origin> = self.spam.others.keys().chain(recipients).collect();
        let has_room = nodes.contains(origin) || nodes.len() < SEPARATE_ORIGINS_MAX;
        if has_room { Ok(()) } else { Err(ExchangeRefusal::NoRoom) }
    }

    pub(super) fn receive(&mut self, segment: &Received) -> Outcome {
        let Received { chain, sequence, previous, hash, bytes, encoding, payload } = segment;
        let frontier = self.exchange.frontier(chain);
        if *sequence != frontier.sequence + 1 || *previous != frontier.hash {
            return Outcome::Refused(ExchangeRefusal::NotNext.into());
        }
        let entries = match Entries::read(chain.book, *encoding, payload) {
            Ok(entries) => entries,
            Err(malformed) => return Outcome::Refused(ExchangeRefusal::Payload(malformed).into()),
        };
        let refused = match self.exchange.relation(&chain.origin) {
            Some(Relation::Peer) => self.apply_peer_entries(chain, &entries),
            // Segments of unknown servers have already been refused.
            Some(Relation::Cluster) | None => self.apply_node_entries(chain, &entries),
        };
        let count = entries.len() as u32;
        self.exchange.advance(*chain, *bytes, *hash, &entries);
        self.exchange.learn(&chain.origin.key, u64::from(count - refused), refused.into());
        Outcome::Taken { entries: count, refused }
    }

    /// Applies a segment of a node of the same operator. Its entries take effect as if they had been accepted here, but
    /// are counted as that node's. Returns the number of entries that changed nothing.
    fn apply_node_entries(&mut self, chain: &Chain, entries: &Entries) -> u32 {
        let Chain { origin, generation, .. } = *chain;
        match entries {
            Entries::Set(set) => self.join_set(chain.book, generation, set),
            Entries::Levels(_) => {}
            Entries::Votes(votes) => {
                self.spam.admit_nodes();
                return votes.iter().map(|vote| self.apply_vote(chain, vote)).sum();
            }
            Entries::Recipients(recipients) => {
                self.bulk.admit_nodes();
                let count = |(fingerprint, amount): &(Fingerprint, u32)| {
                    u32::from(!self.count_of_node(&origin, generation, fingerprint, *amount))
                };
                return recipients.iter().map(count).sum();
            }
            Entries::Texts(texts) => {
                let apply = |text: &Event| u32::from(!self.apply_text(text) && !self.apply_forgetting(chain, text));
                return texts.iter().map(apply).sum();
            }
        }
        0
    }

    /// Adds counts of another node if their ring is not full. Returns true if they were added.
    fn count_of_node(&mut self, origin: &Origin, generation: u64, fingerprint: &Fingerprint, amount: u32) -> bool {
        let Some(ring) = self.bulk.node_ring(origin, generation) else { return false };
        let Ok(needs) = ring.needs(fingerprint, generation, amount) else { return false };
        let has_room = self.has_room_of_others(ring, generation, needs);
        if has_room {
            self.bulk.count_of_node(origin, generation, fingerprint, amount);
        }
        has_room
    }

    /// Adds counts of a peer if its ring is not full. Returns true if they were added.
    fn count_of(&mut self, origin: &Origin, generation: u64, fingerprint: &Fingerprint, amount: u32) -> bool {
        let Some(ring) = self.bulk.recipients_of(origin) else { return false };
        let Ok(needs) = ring.needs(fingerprint, generation, amount) else { return false };
        let has_room = self.has_room_of_others(ring, generation, needs);
        if has_room {
            self.bulk.count_of(origin, generation, fingerprint, amount);
        }
        has_room
    }

    /// Merges a set by OR. Insertion cannot fail, because the caller has checked that the generation is live.
    fn join_set(&mut self, book: Book, generation: u64, set: &[Fingerprint]) {
        self.join_shadow(book, generation, set);
        if book == Book::Listed {
            let _ = self.spam.listed.insert_batch_at(generation, set);
            return;
        }
        let _ = self.spam.revoked.insert_batch_at(generation, set);
        for fingerprint in set {
            self.spam.reinstated.remove(fingerprint);
        }
    }

    /// Applies a claim made at another node. This node weighs the claim, too, but counts it as the other node's.
    /// Returns 1 if the claim was refused for every signature, otherwise 0.
    fn apply_vote(&mut self, chain: &Chain, vote: &ClaimEntry) -> u32 {
        let by = By { now: self.now, reporter: vote.reporter };
        let made = if chain.generation == self.spam.epoch() { ClaimSite::Node } else { ClaimSite::NodeEarlier };
        self.note_support(vote, chain.generation);
        let mut refused = 0;
        for (fingerprint, is_counted) in &vote.signatures {
            if *is_counted {
                self.spam.count_of(&chain.origin, chain.generation, vote.claim, vote.flag, fingerprint);
            }
            let is_whitelisted = self.whitelist.contains(fingerprint).is_some();
            refused += u32::from(is_whitelisted || self.weigh(&by, vote.claim, fingerprint, made).is_err());
        }
        u32::from(refused as usize == vote.signatures.len())
    }

    /// Applies a text of another node. That node has already admitted it. This node refuses it only if a structure is
    /// full or there is nothing to change.
    fn apply_text(&mut self, text: &Event) -> bool {
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

    /// Applies a segment of another operator's server. Its listings and revocations are claims by that server, and the
    /// recipients that it counted are kept separately. Returns the number of entries that changed nothing.
    fn apply_peer_entries(&mut self, chain: &Chain, entries: &Entries) -> u32 {
        let Some(member) = self.exchange.member(&chain.origin.key) else { return entries.len() as u32 };
        let by = By { now: self.now, reporter: member.reporter(&chain.origin.key) };
        match entries {
            Entries::Set(set) => {
                let claim = if chain.book == Book::Revoked { Claim::Revoke } else { Claim::Report };
                set.iter().map(|fingerprint| u32::from(!self.apply_peer_claim(&by, claim, fingerprint))).sum()
            }
            Entries::Levels(levels) => {
                self.bulk.admit_origin(chain.origin, member.terms.cap, PEER_RING_PART);
                levels
                    .iter()
                    .map(|&(fingerprint, level)| u32::from(!self.raise_level(&by, chain, &fingerprint, level)))
                    .sum()
            }
            Entries::Votes(_) | Entries::Recipients(_) | Entries::Texts(_) => entries.len() as u32,
        }
    }

    /// Applies a claim of a peer within its quota of new signatures. Returns true if it was accepted.
    fn apply_peer_claim(&mut self, by: &By, claim: Claim, fingerprint: &Fingerprint) -> bool {
        let is_accepted = self.whitelist.contains(fingerprint).is_none()
            && self.weigh(by, claim, fingerprint, ClaimSite::Here).is_ok();
        if is_accepted {
            // Other nodes weigh the claim, too, but none counts it: nodes with their own link to the peer would count
            // it twice.
            self.export_vote(by, claim, 0, vec![(*fingerprint, false)]);
        }
        is_accepted
    }

    /// Raises a peer's count of a signature to `level`, within its quota.
    fn raise_level(&mut self, by: &By, chain: &Chain, fingerprint: &Fingerprint, level: u8) -> bool {
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

    pub(super) fn admit_repair(&self, chain: &Chain) -> Admission {
        // Applying texts again would increase their weight, so they are not fetched again.
        let is_taken = self.exchange.frontier(chain).sequence > 0
            && self.exchange.own() != Some(chain.origin)
            && chain.book != Book::Texts;
        if is_taken { Ok(()) } else { Err(ExchangeRefusal::UnknownOrigin) }
    }

    /// Discards a chain and its counts, so that it is fetched again. Sets keep their contents. If the counts share a ring
    /// with those of other nodes, all chains in that ring and generation are discarded, because the counts of a single
    /// chain cannot be removed.
    pub(super) fn repair(&mut self, chain: &Chain) {
        self.exchange.forget(chain);
        self.prune_rebuild();
        let Chain { origin, book, generation } = *chain;
        let is_peer = self.exchange.relation(&origin) == Some(Relation::Peer);
        let own = match book {
            Book::Votes => self.spam.others.get_mut(&origin).filter(|ring| holds(ring, generation)),
            Book::Bulk if is_peer => self.bulk.others.get_mut(&origin).map(|counted| &mut counted.ring),
            Book::Recipients => {
                let own = self.bulk.others.get_mut(&origin).map(|counted| &mut counted.ring);
                own.filter(|ring| holds(ring, generation))
            }
            Book::Listed | Book::Revoked | Book::Texts | Book::Bulk => return,
        };
        match own {
            // Ignore errors: a generation that is not live has nothing to clear.
            Some(ring) => {
                let _ = ring.clear(generation);
            }
            None if is_peer => {}
            None => self.repair_nodes(book, generation),
        }
    }

    /// Returns true if the counts of a chain are in a ring that only its origin uses.
    pub(super) fn is_separate(&self, chain: &Chain) -> bool {
        let ring = match chain.book {
            Book::Votes => self.spam.others.get(&chain.origin),
            _ => self.bulk.recipients_of(&chain.origin),
        };
        ring.is_some_and(|ring| holds(ring, chain.generation))
    }

    /// Discards the counts that all other nodes made in a book and generation, so that they are fetched again.
    fn repair_nodes(&mut self, book: Book, generation: u64) {
        let (is_votes, own) = (book == Book::Votes, self.exchange.own());
        let separate: BTreeSet<Origin> = match is_votes {
            true => origins_in(self.spam.others.iter(), generation),
            false => origins_in(self.bulk.others.iter().map(|(origin, counted)| (origin, &counted.ring)), generation),
        };
        self.exchange.forget_chains(book, generation, |origin| Some(*origin) != own && !separate.contains(origin));
        let nodes = if is_votes { &mut self.spam.nodes } else { &mut self.bulk.nodes };
        if let Some(ring) = nodes {
            let _ = ring.clear(generation);
        }
        match is_votes {
            true => self.spam.clear_rebuilt_claims(generation),
            false => drop(self.bulk.rebuilt.as_mut().map(|ring| ring.clear(generation))),
        }
        self.prune_rebuild();
    }

    /// Drops the chains of ended generations, and rings that are no longer needed.
    pub(super) fn expire_chains(&mut self) {
        let (spam, bulk) = (self.spam.epoch(), self.bulk.counts.epoch());
        let is_live = |book: Book, generation: u64| {
            let current = if matches!(book, Book::Bulk | Book::Recipients) { bulk } else { spam };
            generation + LIVE_GENERATIONS > current
        };
        self.exchange.expire(is_live);
        self.prune_rebuild();
        // A running snapshot may still be writing these rings.
        if self.is_snapshot_running() {
            return;
        }
        let exchange = &self.exchange;
        self.spam.others.retain(|origin, ring| exchange.knows(origin) && !ring.is_clear());
        self.bulk.others.retain(|origin, counted| exchange.knows(origin) && !counted.ring.is_clear());
        self.spam.nodes.take_if(|ring| ring.is_clear());
        self.bulk.nodes.take_if(|ring| ring.is_clear());
    }

    /// Returns true if rings must still be dropped: those of origins without chains, and empty ones. Chains are dropped
    /// in the tick that ends their generation, but rings are kept while a snapshot is being written.
    pub(super) fn has_rings_to_drop(&self) -> bool {
        let is_over = |origin: &Origin| !self.exchange.knows(origin);
        let nodes = [&self.spam.nodes, &self.bulk.nodes];
        !self.is_snapshot_running()
            && (self.spam.others.iter().any(|(origin, ring)| is_over(origin) || ring.is_clear())
                || self.bulk.others.iter().any(|(origin, counted)| is_over(origin) || counted.ring.is_clear())
                || nodes.into_iter().flatten().any(CountsRing::is_clear))
    }

    pub(super) fn export_signature(&mut self, book: Book, fingerprint: &Fingerprint) {
        let generation = self.spam.epoch();
        self.exchange.export(book, generation, |out| put_signature(out, *fingerprint));
    }

    pub(super) fn export_vote(&mut self, by: &By, claim: Claim, flag: u8, signatures: Vec<(Fingerprint, bool)>) {
        if signatures.is_empty() {
            return;
        }
        let generation = self.spam.epoch();
        let vote = ClaimEntry { reporter: by.reporter, claim, flag, signatures };
        self.note_support(&vote, generation);
        self.exchange.export(Book::Votes, generation, |out| put_vote(out, &vote));
    }

    /// Exports recipients and, if the count has reached a new level, that level. `before` is the earlier count on this
    /// server.
    pub(super) fn export_recipients(&mut self, fingerprint: &Fingerprint, amount: u32, before: u32) {
        let generation = self.bulk.counts.epoch();
        self.exchange.export(Book::Recipients, generation, |out| put_recipients(out, *fingerprint, amount));
        let level = level_of(before.saturating_add(amount));
        if level >= LEVEL_MIN && level > level_of(before) {
            self.exchange.export(Book::Bulk, generation, |out| put_level(out, *fingerprint, level));
        }
    }

    /// Exports an applied text to other nodes.
    pub(super) fn export_text(&mut self, event: &Event) {
        if event.is_text() {
            self.exchange.export(Book::Texts, self.spam.epoch(), |out| put_text(out, event));
        }
    }
}

/// Returns the origins whose ring has counts of a generation.
fn origins_in<'a>(rings: impl Iterator<Item = (&'a Origin, &'a CountsRing)>, generation: u64) -> BTreeSet<Origin> {
    rings.filter(|(_, ring)| holds(ring, generation)).map(|(origin, _)| *origin).collect()
}
