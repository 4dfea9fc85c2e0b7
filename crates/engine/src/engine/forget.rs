//! Removal of everything that a server listed, revoked and counted, for example after a break-in.
//!
//! Sets are joined by OR, and the counts of all nodes share a ring, so the part of a single server cannot be removed.
//! Instead, the books are rebuilt without the forgotten server, from the logs of all others. This happens in small
//! slices, between which the server continues to work. Until a new ring is complete, checks use the old one, and new
//! entries are added to both.
//!
//! 1. *Tainted*: the listings, revocations and claims of the forgotten server are read, and their signatures are
//!    remembered. The nursery drops its evidence about the claimed signatures, because votes do not record the node
//!    that accepted them.
//! 2. *Claims*: the claims of all other nodes are counted again, and their signatures are remembered as supported.
//! 3. *Sets*: listings and revocations of all other servers, and our own, are joined again. Other nodes may have listed
//!    a signature only because of the forgotten server's claims, so a tainted signature is joined only if it is
//!    supported, too. A claim that supports a tainted signature may have listed nothing, because the forgotten server
//!    had already listed the signature. So a supported signature that the old set contains is kept in the generations
//!    of the claims that support it. If only the forgotten server's revocation prevented a report from listing a
//!    signature, the rebuilt set lists it. Finally, older generations are copied.
//! 4. *Recipients*: the recipients of all other nodes are counted again.
//!
//! Listings and revocations are rebuilt starting with the oldest generation to which the forgotten server contributed.
//! Older generations are copied. The data arrives in events ([`Event::Reread`]), so a replayed journal produces the
//! same state. The store makes no snapshot during a rebuild. If a snapshot with an unfinished rebuild is restored, the
//! rebuild starts again from the beginning.

use std::collections::{BTreeMap, BTreeSet};

use bruit_filters::Fingerprint;
use bruit_filters::ring::MembershipRing;

use super::exchange::Admission;
use super::{Engine, Outcome};
use crate::event::Event;
use crate::exchange::{Book, Chain, ClaimEntry, Entries, ExchangeRefusal, Frontier, Received, Relation};
use crate::generations::LIVE_GENERATIONS;
use crate::memory::failed_allocation;
use crate::spam::claim_key;
use crate::time::Time;
use crate::trust::{Claim, Standing};

/// Number of lanes of a ring. Remembered signatures are spread over all lanes, by generation.
const LANES: u64 = LIVE_GENERATIONS + 1;

/// The current stage of the rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Tainted,
    Claims,
    Sets,
    Copy,
    Recipients,
}

/// Number of lines that are copied in one step.
const COPIED_LINES: usize = 1 << 14;

/// The state of the rebuild.
#[derive(Debug)]
pub(super) struct Rebuild {
    stage: Stage,
    /// Chains to read in this stage, each with its progress and the number of its last segment to read.
    chains: BTreeMap<Chain, (Frontier, u64)>,
    /// First generation of the spam book to rebuild.
    spam_from: Option<u64>,
    /// True if the recipients of other nodes are counted again.
    counts: bool,
    /// Number of lines of older generations that were copied.
    copied: usize,
    /// Signatures that decide the contents of the sets; `None` once the sets are complete.
    remembered: Option<Remembered>,
}

/// Signatures claimed at forgotten servers, and signatures claimed at other servers.
#[derive(Debug)]
struct Remembered {
    /// Signatures that the forgotten servers listed, revoked or claimed.
    tainted: MembershipRing,
    /// Signatures claimed at other servers.
    supported: MembershipRing,
}

/// The next part of a log that has to be read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rereading {
    /// Chain to read.
    pub chain: Chain,
    /// Progress in the chain.
    pub from: Frontier,
    /// Number of the last segment to read.
    pub until: u64,
}

impl Remembered {
    /// Returns true if a rebuilt set may contain a signature.
    fn admits(&self, claim: Claim, fingerprint: &Fingerprint) -> bool {
        !self.is_tainted(claim, fingerprint) || !self.supported.check(&claim_key(claim, 0, fingerprint)).is_empty()
    }

    /// Returns true if a forgotten server listed, revoked or claimed a signature.
    fn is_tainted(&self, claim: Claim, fingerprint: &Fingerprint) -> bool {
        !self.tainted.check(&claim_key(claim, 0, fingerprint)).is_empty()
    }
}

/// Adds a signature to the signatures remembered for a generation.
fn remember(ring: &mut MembershipRing, claim: Claim, generation: u64, fingerprint: &Fingerprint) {
    // This cannot fail: all lanes of the ring are live.
    let _ = ring.insert_batch_at(generation % LANES, &[claim_key(claim, 0, fingerprint)]);
}

/// Returns the kind of claim that the set of a book represents.
const fn claim_of(book: Book) -> Claim {
    if matches!(book, Book::Revoked) { Claim::Revoke } else { Claim::Report }
}

/// Returns the book whose set a kind of claim changes.
const fn set_of(claim: Claim) -> Book {
    match claim {
        Claim::Report => Book::Listed,
        Claim::Revoke => Book::Revoked,
    }
}

impl Engine {
    pub(super) fn admit_forget(&self, now: Time, key: &[u8; 32], is_forgotten: bool) -> Admission {
        if self.exchange.own().is_some_and(|own| own.key == *key) {
            return Err(ExchangeRefusal::Ourselves);
        }
        if self.exchange.is_forgotten(key) == is_forgotten {
            return Err(ExchangeRefusal::Unchanged);
        }
        if !is_forgotten && self.rebuild.is_some() {
            return Err(ExchangeRefusal::Forgetting);
        }
        if self.exchange.may_forget(key, now) { Ok(()) } else { Err(ExchangeRefusal::TooMany) }
    }

    /// Forgets a server, or accepts it again.
    pub(super) fn forget(&mut self, now: Time, key: [u8; 32], by: [u8; 32], is_forgotten: bool) {
        if !is_forgotten {
            return self.exchange.record_restored(key, now, by);
        }
        self.exchange.record_forgotten(key, now, by);
        if let Some(member) = self.exchange.member(&key).filter(|member| member.terms.relation == Relation::Peer) {
            // A peer's counts are in rings of its own, and its claims are those of one reporter.
            self.trust.forget_reporter(member.reporter(&key).id);
        }
        self.begin_rebuild();
    }

    /// Starts to rebuild the books without the servers whose data is still to be removed.
    pub(super) fn begin_rebuild(&mut self) {
        self.drop_shadows();
        let keys: BTreeSet<[u8; 32]> = self.unfinished_keys();
        let is_node = |chain: &Chain| self.exchange.relation(&chain.origin) != Some(Relation::Peer);
        let theirs = || self.exchange.chains().filter(|(chain, _)| keys.contains(&chain.origin.key) && is_node(chain));
        let of = |books: &'static [Book]| theirs().filter(|(chain, _)| books.contains(&chain.book));
        let spam = [Book::Listed, Book::Revoked, Book::Votes].as_slice();
        let spam_from = of(&[Book::Listed, Book::Revoked, Book::Votes]).map(|(chain, _)| chain.generation).min();
        let counts = of(&[Book::Recipients]).next().is_some();
        if spam_from.is_none() && !counts {
            return self.finish_rebuild();
        }
        let chains = to_read(theirs().filter(|(chain, _)| spam.contains(&chain.book)));
        let lines = self.plan.sizes.spam_lines as usize;
        let remembering = || {
            let ring = MembershipRing::new(lines, 64, self.realm.key().id(), LANES - 1).map_err(failed_allocation);
            ring.unwrap_or_else(|error| panic!("{error}"))
        };
        let remembered = spam_from.map(|_| Remembered { tainted: remembering(), supported: remembering() });
        let stage = if spam_from.is_some() { Stage::Tainted } else { Stage::Recipients };
        self.rebuild = Some(Box::new(Rebuild { stage, chains, spam_from, counts, copied: 0, remembered }));
        if stage == Stage::Recipients {
            self.begin_recipients();
        }
    }

    /// Starts the rebuild again if a restored snapshot still contains data of a forgotten server.
    pub(super) fn resume_rebuild(&mut self) {
        if !self.unfinished_keys().is_empty() {
            self.begin_rebuild();
        }
    }

    fn unfinished_keys(&self) -> BTreeSet<[u8; 32]> {
        let unfinished = self.exchange.forgotten().filter(|(_, record)| record.is_forgotten && !record.is_done);
        unfinished.map(|(key, _)| key).collect()
    }

    fn finish_rebuild(&mut self) {
        self.rebuild = None;
        self.exchange.finish_forgetting();
    }

    /// Returns the part of a log to read next, or `None` if the stage has read everything or no rebuild is running.
    #[must_use]
    pub fn rereading(&self) -> Option<Rereading> {
        let (&chain, &(from, until)) = self.rebuild.as_ref()?.chains.iter().next()?;
        Some(Rereading { chain, from, until })
    }

    /// Returns true while the data of a forgotten server is being removed from the books.
    #[must_use]
    pub const fn is_forgetting(&self) -> bool {
        self.rebuild.is_some()
    }

    pub(super) fn admit_reread(&self, segment: &Received) -> Admission {
        let rebuild = self.rebuild.as_ref().ok_or(ExchangeRefusal::AlreadyTaken)?;
        let (progress, until) = rebuild.chains.get(&segment.chain).ok_or(ExchangeRefusal::AlreadyTaken)?;
        let is_missing = (progress.sequence + 1..=*until).contains(&segment.sequence);
        if is_missing { Ok(()) } else { Err(ExchangeRefusal::AlreadyTaken) }
    }

    /// Applies a segment to the rings that are being rebuilt.
    pub(super) fn reread(&mut self, segment: &Received) -> Outcome {
        let Received { chain, sequence, previous, hash, bytes, encoding, payload } = segment;
        let progress = self.rebuild.as_mut().and_then(|rebuild| rebuild.chains.get_mut(chain));
        let Some((from, until)) = progress else { return Outcome::Refused(ExchangeRefusal::AlreadyTaken.into()) };
        if *sequence != from.sequence + 1 || *previous != from.hash {
            return Outcome::Refused(ExchangeRefusal::NotNext.into());
        }
        let entries = match Entries::read(chain.book, *encoding, payload) {
            Ok(entries) => entries,
            Err(malformed) => return Outcome::Refused(ExchangeRefusal::Payload(malformed).into()),
        };
        (from.sequence, from.hash) = (*sequence, *hash);
        from.offset += u64::from(*bytes);
        let is_over = from.sequence == *until;
        self.reread_entries(chain, &entries);
        if is_over && let Some(rebuild) = &mut self.rebuild {
            rebuild.chains.remove(chain);
        }
        Outcome::Taken { entries: entries.len() as u32, refused: 0 }
    }

    fn reread_entries(&mut self, chain: &Chain, entries: &Entries) {
        let Some(stage) = self.rebuild.as_ref().map(|rebuild| rebuild.stage) else { return };
        match (stage, entries) {
            (Stage::Tainted, entries) => self.taint(chain, entries),
            (Stage::Claims, Entries::Votes(votes)) => {
                for vote in votes {
                    self.note_support(vote, chain.generation);
                    for (fingerprint, is_counted) in &vote.signatures {
                        if *is_counted && self.shares_ring(chain) {
                            self.spam.recount(chain.generation, vote.claim, vote.flag, fingerprint);
                        }
                    }
                }
            }
            (Stage::Sets, Entries::Set(set)) => self.join_shadow(chain.book, chain.generation, set),
            (Stage::Sets, Entries::Votes(votes)) => {
                votes.iter().for_each(|vote| self.rejoin_vote(vote, chain.generation));
            }
            (Stage::Recipients, Entries::Recipients(recipients)) => {
                for (fingerprint, amount) in recipients {
                    self.recount_recipients(chain.generation, fingerprint, *amount);
                }
            }
            _ => {}
        }
    }

    fn taint(&mut self, chain: &Chain, entries: &Entries) {
        let Some(remembered) = self.rebuild.as_mut().and_then(|rebuild| rebuild.remembered.as_mut()) else { return };
        match entries {
            Entries::Set(set) => {
                let claim = claim_of(chain.book);
                set.iter().for_each(|one| remember(&mut remembered.tainted, claim, chain.generation, one));
            }
            Entries::Votes(votes) => {
                for vote in votes {
                    for (fingerprint, _) in &vote.signatures {
                        remember(&mut remembered.tainted, vote.claim, chain.generation, fingerprint);
                        self.trust.forget_signature(fingerprint);
                    }
                }
            }
            Entries::Levels(_) | Entries::Recipients(_) | Entries::Texts(_) => {}
        }
    }

    /// Remembers a claim that was accepted by a server other than the forgotten ones.
    pub(super) fn note_support(&mut self, vote: &ClaimEntry, generation: u64) {
        let Some(remembered) = self.rebuild.as_mut().and_then(|rebuild| rebuild.remembered.as_mut()) else { return };
        for (fingerprint, _) in &vote.signatures {
            remember(&mut remembered.supported, vote.claim, generation, fingerprint);
        }
        self.rejoin_vote(vote, generation);
    }

    /// Adds to the rebuilt sets the signatures that a claim at another server supports.
    fn rejoin_vote(&mut self, vote: &ClaimEntry, generation: u64) {
        for (fingerprint, _) in &vote.signatures {
            if self.is_in_use(vote.claim, generation, fingerprint) || self.is_free(vote, fingerprint) {
                self.spam.rejoin(set_of(vote.claim), generation, &[*fingerprint]);
            }
        }
    }

    /// Returns true if a signature is tainted, and the set in use contains it in this generation. The caller has found
    /// a claim of this generation that supports the signature. There are two reasons why the rebuilt set may still lack
    /// the signature. The claim may have listed nothing, because the forgotten server had already listed the signature.
    /// Or the listing that the claim caused was read before the claim, when the signature was not yet supported.
    fn is_in_use(&self, claim: Claim, generation: u64, fingerprint: &Fingerprint) -> bool {
        let Some(remembered) = self.rebuild.as_ref().and_then(|rebuild| rebuild.remembered.as_ref()) else {
            return false;
        };
        remembered.is_tainted(claim, fingerprint) && self.spam.is_in_set(set_of(claim), generation, fingerprint)
    }

    /// Returns true if a report would have listed a signature, had a forgotten server not revoked it. If the policy
    /// requires several own reporters, returns false, because the log does not show whether there were enough.
    fn is_free(&self, vote: &ClaimEntry, fingerprint: &Fingerprint) -> bool {
        let Some(remembered) = self.rebuild.as_ref().and_then(|rebuild| rebuild.remembered.as_ref()) else {
            return false;
        };
        let is_own_report = vote.claim == Claim::Report && vote.reporter.standing == Standing::Own;
        let lists = is_own_report && self.trust.policy().own_reports_needed <= 1;
        lists && !remembered.admits(Claim::Revoke, fingerprint)
    }

    /// Adds a set to the rings that are being rebuilt, except for signatures that only forgotten servers support.
    pub(super) fn join_shadow(&mut self, book: Book, generation: u64, set: &[Fingerprint]) {
        let Some(remembered) = self.rebuild.as_ref().and_then(|rebuild| rebuild.remembered.as_ref()) else { return };
        let admitted: Vec<Fingerprint> =
            set.iter().filter(|one| remembered.admits(claim_of(book), one)).copied().collect();
        self.spam.rejoin(book, generation, &admitted);
    }

    fn recount_recipients(&mut self, generation: u64, fingerprint: &Fingerprint, amount: u32) {
        let Some(ring) = &self.bulk.rebuilt else { return };
        let Ok(needs) = ring.needs(fingerprint, generation, amount) else { return };
        if self.has_room_of_others(ring, generation, needs) {
            self.bulk.recount(generation, fingerprint, amount);
        }
    }

    /// Returns true if the counts of a chain are in the ring that all other nodes share.
    fn shares_ring(&self, chain: &Chain) -> bool {
        self.exchange.own() != Some(chain.origin) && !self.is_separate(chain)
    }

    pub(super) fn admit_rebuild(&self) -> Admission {
        match &self.rebuild {
            None => Err(ExchangeRefusal::AlreadyTaken),
            Some(rebuild) if !rebuild.chains.is_empty() => Err(ExchangeRefusal::Forgetting),
            // A running snapshot has begun to write the rings that will be replaced.
            Some(_) if self.is_snapshot_running() => Err(ExchangeRefusal::SnapshotRuns),
            Some(_) => Ok(()),
        }
    }

    /// Ends a stage and starts the next one.
    pub(super) fn advance_rebuild(&mut self) -> Outcome {
        if let Err(refusal) = self.admit_rebuild() {
            return Outcome::Refused(refusal.into());
        }
        match self.rebuild.as_ref().map(|rebuild| rebuild.stage) {
            Some(Stage::Tainted) => self.begin_claims(),
            Some(Stage::Claims) => {
                self.spam.replace_claims();
                self.begin_sets();
            }
            Some(Stage::Sets) => self.begin_stage(Stage::Copy, |_, _, _| false),
            Some(Stage::Copy) => self.copy_older(),
            Some(Stage::Recipients) | None => {
                self.bulk.replace_recipients();
                self.finish_rebuild();
            }
        }
        Outcome::Done
    }

    fn begin_stage(&mut self, stage: Stage, is_read: impl Fn(&Self, &Rebuild, &Chain) -> bool) {
        let Some(mut rebuild) = self.rebuild.take() else { return };
        let is_kept = |chain: &Chain| !self.exchange.is_forgotten(&chain.origin.key);
        let chains = self.exchange.chains().filter(|(chain, _)| is_kept(chain) && is_read(self, &rebuild, chain));
        (rebuild.chains, rebuild.stage) = (to_read(chains), stage);
        self.rebuild = Some(rebuild);
    }

    fn begin_claims(&mut self) {
        self.begin_stage(Stage::Claims, |_, _, chain| chain.book == Book::Votes);
        self.spam.begin_claims();
        // Include our own claims that are not in a segment yet.
        for ((_, generation), entries) in self.exchange.waiting() {
            let Entries::Votes(votes) = entries else { continue };
            votes.iter().for_each(|vote| self.note_support(vote, generation));
        }
    }

    fn begin_sets(&mut self) {
        let is_read = |chain: &Chain| matches!(chain.book, Book::Listed | Book::Revoked | Book::Votes);
        self.begin_stage(Stage::Sets, |_, rebuild, chain| {
            is_read(chain) && rebuild.spam_from.is_some_and(|from| chain.generation >= from)
        });
        self.spam.begin_sets();
        for ((book, generation), entries) in self.exchange.waiting() {
            match entries {
                Entries::Set(set) => self.join_shadow(book, generation, &set),
                Entries::Votes(votes) => votes.iter().for_each(|vote| self.rejoin_vote(vote, generation)),
                Entries::Levels(_) | Entries::Recipients(_) | Entries::Texts(_) => {}
            }
        }
    }

    /// Copies the next lines of generations without data of the forgotten servers. Listings made before this server
    /// began to export are not in any log, so they can only be copied.
    fn copy_older(&mut self) {
        let Some(rebuild) = &mut self.rebuild else { return };
        let lines = rebuild.copied..rebuild.copied + COPIED_LINES;
        rebuild.copied = lines.end;
        if !self.spam.copy_older(rebuild.spam_from.unwrap_or(0), lines) {
            return;
        }
        if let Some(remembered) = rebuild.remembered.take() {
            self.spam.reinstated.retain(|one| remembered.admits(Claim::Report, one));
        }
        self.spam.replace_sets();
        self.begin_recipients();
    }

    fn begin_recipients(&mut self) {
        self.begin_stage(Stage::Recipients, |engine, rebuild, chain| {
            rebuild.counts && chain.book == Book::Recipients && engine.shares_ring(chain)
        });
        if self.rebuild.as_ref().is_some_and(|rebuild| rebuild.counts) {
            self.bulk.begin_recipients();
        }
    }

    /// Stops reading chains that have expired. Also stops reading chains that are being fetched again from other
    /// servers. When their segments arrive, they are applied to the old rings and to the rebuilt ones.
    pub(super) fn prune_rebuild(&mut self) {
        let Some(rebuild) = &mut self.rebuild else { return };
        let exchange = &self.exchange;
        rebuild.chains.retain(|chain, (_, until)| exchange.frontier(chain).sequence >= *until);
    }

    fn drop_shadows(&mut self) {
        self.rebuild = None;
        self.spam.drop_shadows();
        self.bulk.rebuilt = None;
    }

    /// Applies an event that forgets a server or accepts it again, received in another node's chain of texts. Refuses
    /// the event if the change was not made on that node. Returns true if the event was applied.
    pub(super) fn apply_forgetting(&mut self, chain: &Chain, text: &Event) -> bool {
        let Event::Forget { now, key, by, is_forgotten } = text else { return false };
        let is_valid = *by == chain.origin.key && self.admit_forget(*now, key, *is_forgotten).is_ok();
        if is_valid {
            self.forget(*now, *key, *by, *is_forgotten);
        }
        is_valid
    }
}

/// Returns the chains to read from their beginnings.
fn to_read(chains: impl Iterator<Item = (Chain, Frontier)>) -> BTreeMap<Chain, (Frontier, u64)> {
    let fresh = |(chain, frontier): (Chain, Frontier)| (chain, (Frontier::default(), frontier.sequence));
    chains.filter(|(_, frontier)| frontier.sequence > 0).map(fresh).collect()
}
