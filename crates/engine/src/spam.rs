//! The spam book, as in Razor: listed signatures, revoked signatures, and counts of claims.
//!
//! Two rings, like the pair of filters in Yan and Cho's paper: a signature is spam if it is listed and not revoked. The
//! newer generation decides: a revocation outweighs every listing of its own generation and of older ones. A report of
//! a revoked signature does not renew its listing, so a revocation never expires before the listing that it revokes. To
//! list the signature again takes more evidence than before (see [`crate::trust`]).
//!
//! Most signatures are reported once in a generation, by the report that lists them. So a listing represents one report
//! under flag 0, and the ring of claims counts only further reports and can be much smaller. (The count under flag 0 is
//! therefore too high by one if the signature was reinstated, or listed by a report under another flag.)
//!
//! Nodes of one operator would lose reports this way: if two nodes list the same signature, only one report would
//! count. So a node that exports claims to other nodes counts every claim, except in generations that already had
//! listings when the export began.
//!
//! If a revocation proves wrong in its own generation, a listing of the same generation cannot outweigh it. The
//! signature is then *reinstated*: a small exact set contains it until the next generation begins. At that point, the
//! signature is listed in the new generation.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bruit_filters::ring::{CountsRing, Generations, MembershipRing, StagedRing};
use bruit_filters::{Fingerprint, OutOfMemory};

use crate::bulk::holds;
use crate::exchange::{Book, ClaimEntry, Origin};
use crate::generations::{EndedGeneration, LIVE_GENERATIONS, Ring, retire_oldest, turn};
use crate::memory::failed_allocation;
use crate::trust::Claim;

/// Names of the rings, also used in [`crate::RingStatus`].
pub(crate) const LISTED: &str = "listed signatures";
pub(crate) const REVOKED: &str = "revoked signatures";
pub(crate) const CLAIMS: &str = "counts of claims";

/// Maximum number of signatures that can be reinstated in one generation.
pub const REINSTATED_MAX: usize = 4_096;

/// Number of flags under which claims are counted separately. They are rspamd's flags; claims by all other protocols
/// have flag 0.
pub const FLAGS: u8 = 16;

/// Size of the ring for the claims of other nodes, as a multiple of the size of our own ring. Nodes count every claim,
/// including the one that lists a signature, so each listing of the cluster is in this ring.
const NODE_CLAIMS_FACTOR: usize = 2;

/// Listed and revoked signatures by generation, and counts of claims about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpamBook {
    pub(crate) listed: StagedRing,
    pub(crate) revoked: MembershipRing,
    pub(crate) claims: CountsRing,
    /// Claims counted by all other nodes of the cluster, in one ring; `None` if there are no other nodes.
    pub(crate) nodes: Option<CountsRing>,
    /// Claims in a separate ring for each origin, because they were counted before all nodes shared a ring.
    pub(crate) others: BTreeMap<Origin, CountsRing>,
    pub(crate) reinstated: BTreeSet<Fingerprint>,
    /// Rings that are rebuilt while a server is being forgotten.
    rebuilt: RebuiltRings,
    /// First epoch in which the ring of claims counts all claims.
    pub(crate) all_counted_from: u64,
}

/// Rings that will replace the ones in use. New entries are added to both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RebuiltRings {
    listed: Option<StagedRing>,
    revoked: Option<MembershipRing>,
    claims: Option<CountsRing>,
}

impl RebuiltRings {
    fn rings(&mut self) -> impl Iterator<Item = &mut dyn Ring> {
        let listed = self.listed.iter_mut().map(|ring| ring as &mut dyn Ring);
        let revoked = self.revoked.iter_mut().map(|ring| ring as &mut dyn Ring);
        listed.chain(revoked).chain(self.claims.iter_mut().map(|ring| ring as &mut dyn Ring))
    }
}

/// The state of a signature in the book.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Generations in which the signature was listed.
    pub listed: Generations,
    /// Generations in which the signature was revoked.
    pub revoked: Generations,
    /// True if the signature is spam despite a revocation in the current generation.
    pub reinstated: bool,
}

impl Entry {
    /// Returns true if the signature is listed and no revocation outweighs the listing.
    #[must_use]
    pub fn is_spam(&self) -> bool {
        match (self.listed.newest(), self.revoked.newest()) {
            (Some(listed), Some(revoked)) => self.reinstated || listed < revoked,
            (listed, _) => listed.is_some(),
        }
    }

    /// Returns true if a revocation is in force.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        !self.revoked.is_empty() && !self.is_spam()
    }
}

/// Claims counted over the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimCounts {
    /// Number of claims that the signature is spam.
    pub report_count: u32,
    /// Number of claims that the signature is not spam.
    pub revoke_count: u32,
}

impl SpamBook {
    pub(crate) fn new(mut listed: StagedRing, mut revoked: MembershipRing, mut claims: CountsRing) -> Self {
        retire_oldest(&mut [&mut listed, &mut revoked, &mut claims]);
        let (others, reinstated, rebuilt) = (BTreeMap::new(), BTreeSet::new(), RebuiltRings::default());
        Self { listed, revoked, claims, nodes: None, others, reinstated, rebuilt, all_counted_from: u64::MAX }
    }

    pub(crate) const fn epoch(&self) -> u64 {
        self.listed.epoch()
    }

    /// Returns true if a signature can be listed. `entry` is its state in the book. At most [`REINSTATED_MAX`]
    /// signatures are reinstated in a generation.
    pub(crate) fn can_list(&self, entry: &Entry) -> bool {
        !entry.revoked.contains(0) || self.reinstated.len() < REINSTATED_MAX
    }

    /// Lists a signature, or reinstates it if it was revoked in this generation. `entry` is its state in the book.
    pub(crate) fn list(&mut self, fingerprint: &Fingerprint, entry: &Entry) {
        if entry.revoked.contains(0) {
            self.reinstated.insert(*fingerprint);
        }
        self.listed.insert(fingerprint);
        self.rebuilt.listed.iter_mut().for_each(|ring| ring.insert(fingerprint));
    }

    /// Revokes a signature, effective at once. The caller must update the rings that are being rebuilt.
    pub(crate) fn revoke(&mut self, fingerprint: &Fingerprint) {
        self.revoked.insert(fingerprint);
        self.reinstated.remove(fingerprint);
    }

    /// Returns the ring of listed signatures.
    #[must_use]
    pub const fn listed(&self) -> &StagedRing {
        &self.listed
    }

    /// Returns the ring of revoked signatures.
    #[must_use]
    pub const fn revoked(&self) -> &MembershipRing {
        &self.revoked
    }

    /// Returns the ring of claims counted by this server.
    #[must_use]
    pub const fn claims(&self) -> &CountsRing {
        &self.claims
    }

    /// Returns the ring of claims counted by the other nodes of the cluster.
    #[must_use]
    pub const fn claims_of_nodes(&self) -> Option<&CountsRing> {
        self.nodes.as_ref()
    }

    /// Returns the state of a signature in the book.
    #[must_use]
    pub fn entry(&self, fingerprint: &Fingerprint) -> Entry {
        Entry {
            listed: self.listed.check(fingerprint),
            revoked: self.revoked.check(fingerprint),
            reinstated: self.reinstated.contains(fingerprint),
        }
    }

    /// Counts a claim. Do not call this for a report that caused a listing if the listing already counts as that report
    /// (see [`counts_by_listing`](Self::counts_by_listing)).
    pub(crate) fn count(&mut self, claim: Claim, flag: u8, fingerprint: &Fingerprint) {
        self.claims.insert(&claim_key(claim, flag, fingerprint));
    }

    /// Returns true if claims of this kind were counted in this generation.
    pub(crate) fn is_counted(&self, claim: Claim, flag: u8, fingerprint: &Fingerprint) -> bool {
        self.claims.count_in(&claim_key(claim, flag, fingerprint), self.epoch()).is_ok_and(|count| count > 0)
    }

    /// Returns the number of claims counted over the window. It is never too low.
    #[must_use]
    pub fn counts(&self, flag: u8, fingerprint: &Fingerprint) -> ClaimCounts {
        let count = |claim| {
            let key = claim_key(claim, flag, fingerprint);
            self.rings().fold(0_u32, |sum, ring| sum.saturating_add(ring.count(&key)))
        };
        let counts_by_listing = |&age: &u32| self.epoch() - u64::from(age) < self.all_counted_from;
        let listings =
            if flag == 0 { self.listed.check(fingerprint).ages().filter(counts_by_listing).count() as u32 } else { 0 };
        ClaimCounts { report_count: count(Claim::Report).saturating_add(listings), revoke_count: count(Claim::Revoke) }
    }

    /// Returns the number of claims counted in the generation of `epoch`, or zeros if it is not live.
    #[must_use]
    pub fn counts_in(&self, epoch: u64, flag: u8, fingerprint: &Fingerprint) -> ClaimCounts {
        let count = |claim| {
            let key = claim_key(claim, flag, fingerprint);
            self.rings().fold(0_u32, |sum, ring| sum.saturating_add(ring.count_in(&key, epoch).unwrap_or(0)))
        };
        let age = self.epoch().checked_sub(epoch).and_then(|age| u32::try_from(age).ok());
        let is_listed = age.is_some_and(|age| self.listed.check(fingerprint).contains(age));
        let listings = u32::from(flag == 0 && is_listed && epoch < self.all_counted_from);
        ClaimCounts { report_count: count(Claim::Report).saturating_add(listings), revoke_count: count(Claim::Revoke) }
    }

    /// Returns true if a listing in the current generation counts as one report. The report that caused the listing
    /// must then not be counted again.
    pub(crate) const fn counts_by_listing(&self) -> bool {
        self.epoch() < self.all_counted_from
    }

    /// Starts counting all claims, from the generation after the newest one with listings. A node with empty books
    /// counts all claims of every generation, because it receives older claims from the other nodes.
    pub(crate) fn count_all(&mut self) {
        let newest = self.epoch();
        let is_listed_in = |age: &u64| self.listed.fill(newest.saturating_sub(*age)).is_ok_and(|fill| fill > 0.0);
        let from = (0..LIVE_GENERATIONS).find(is_listed_in).map_or(0, |age| newest - age + 1);
        self.all_counted_from = self.all_counted_from.min(from);
    }

    /// Adds a claim that another node counted.
    pub(crate) fn count_of(&mut self, origin: &Origin, epoch: u64, claim: Claim, flag: u8, fingerprint: &Fingerprint) {
        let key = claim_key(claim, flag, fingerprint);
        let own = self.others.get_mut(origin).filter(|ring| holds(ring, epoch));
        if let Some(ring) = own.or(self.nodes.as_mut()) {
            // This cannot fail: the caller has checked that the generation is live.
            let _ = ring.insert_many_at(epoch, &key, 1);
        }
        if self.others.get(origin).is_none_or(|ring| !holds(ring, epoch)) {
            self.recount(epoch, claim, flag, fingerprint);
        }
    }

    /// Counts a claim of another node in the ring that is being rebuilt.
    pub(crate) fn recount(&mut self, epoch: u64, claim: Claim, flag: u8, fingerprint: &Fingerprint) {
        if let Some(ring) = &mut self.rebuilt.claims {
            // Ignore errors: the generation may have ended meanwhile.
            let _ = ring.insert_many_at(epoch, &claim_key(claim, flag, fingerprint), 1);
        }
    }

    /// Starts to rebuild the ring of other nodes' claims.
    pub(crate) fn begin_claims(&mut self) {
        self.rebuilt.claims = Some(empty_ring(&self.claims, node_claim_lines(&self.claims)));
    }

    /// Replaces the ring of other nodes' claims with the rebuilt one.
    pub(crate) fn replace_claims(&mut self) {
        self.nodes = self.rebuilt.claims.take();
    }

    /// Starts to rebuild listings and revocations.
    pub(crate) fn begin_sets(&mut self) {
        let (key_id, epoch) = (self.claims.key_id(), self.epoch());
        let lines = |lines: u64| usize::try_from(lines).expect("a ring is in memory");
        let listed = StagedRing::new(lines(self.listed.lines_per_stage()), key_id, epoch);
        let revoked = MembershipRing::new(lines(self.revoked.lines()), 64, key_id, epoch);
        let mut listed = listed.unwrap_or_else(|error| panic!("{}", failed_allocation(error)));
        let mut revoked = revoked.unwrap_or_else(|error| panic!("{}", failed_allocation(error)));
        retire_oldest(&mut [&mut listed, &mut revoked]);
        (self.rebuilt.listed, self.rebuilt.revoked) = (Some(listed), Some(revoked));
    }

    /// Copies a range of lines of the generations before `from` to the rings that are being rebuilt. Returns true if
    /// these were the last lines.
    pub(crate) fn copy_older(&mut self, from: u64, lines: Range<usize>) -> bool {
        let end = self.listed.lines_per_stage().max(self.revoked.lines());
        if let (Some(listed), Some(revoked)) = (&mut self.rebuilt.listed, &mut self.rebuilt.revoked) {
            // These cannot fail: the rings are alike.
            let _ = listed.merge_lines(&self.listed, lines.clone(), |epoch| epoch < from);
            let _ = revoked.merge_lines(&self.revoked, lines.clone(), |epoch| epoch < from);
        }
        lines.end as u64 >= end
    }

    /// Returns true if the set of a book contains a signature in the generation of `epoch`.
    pub(crate) fn is_in_set(&self, book: Book, epoch: u64, fingerprint: &Fingerprint) -> bool {
        let generations =
            if book == Book::Listed { self.listed.check(fingerprint) } else { self.revoked.check(fingerprint) };
        let age = self.epoch().checked_sub(epoch).and_then(|age| u32::try_from(age).ok());
        age.is_some_and(|age| generations.contains(age))
    }

    /// Adds signatures to the rebuilt set of a book.
    pub(crate) fn rejoin(&mut self, book: Book, epoch: u64, set: &[Fingerprint]) {
        // Ignore errors: the generation may have ended meanwhile.
        let _ = match book {
            Book::Revoked => self.rebuilt.revoked.as_mut().map(|ring| ring.insert_batch_at(epoch, set)),
            _ => self.rebuilt.listed.as_mut().map(|ring| ring.insert_batch_at(epoch, set)),
        };
    }

    /// Replaces listings and revocations with the rebuilt ones.
    pub(crate) fn replace_sets(&mut self) {
        if let (Some(listed), Some(revoked)) = (self.rebuilt.listed.take(), self.rebuilt.revoked.take()) {
            (self.listed, self.revoked) = (listed, revoked);
        }
    }

    pub(crate) fn drop_shadows(&mut self) {
        self.rebuilt = RebuiltRings::default();
    }

    /// Discards the claims of other nodes in a generation of the ring that is being rebuilt.
    pub(crate) fn clear_rebuilt_claims(&mut self, epoch: u64) {
        if let Some(ring) = &mut self.rebuilt.claims {
            let _ = ring.clear(epoch);
        }
    }

    /// Counts one of our own claims again, for each signature for which it was counted the first time.
    pub(crate) fn count_vote(&mut self, epoch: u64, vote: &ClaimEntry) {
        for (fingerprint, _) in vote.signatures.iter().filter(|(_, is_counted)| *is_counted) {
            // This cannot fail: pending entries belong to live generations.
            let _ = self.claims.insert_many_at(epoch, &claim_key(vote.claim, vote.flag, fingerprint), 1);
        }
    }

    /// Starts a new ring for our own counts. The counts of the origin `before`, which had another key, stay in the old
    /// ring.
    pub(crate) fn begin_incarnation(&mut self, before: Origin) {
        let fresh = empty_like(&self.claims);
        self.others.insert(before, std::mem::replace(&mut self.claims, fresh));
    }

    /// Creates the ring for the counts of other nodes, unless it exists.
    pub(crate) fn admit_nodes(&mut self) {
        let lines = node_claim_lines(&self.claims);
        self.nodes.get_or_insert_with(|| empty_ring(&self.claims, lines));
    }

    /// Grows each ring by its factor. The counts of other nodes of the same operator grow as much as ours.
    pub(crate) fn grow(&mut self, listed: usize, revoked: usize, claims: usize) {
        self.listed.grow(listed);
        self.revoked.grow(revoked);
        self.claims.grow(claims);
        self.nodes.iter_mut().for_each(|ring| ring.grow(claims));
        self.others.values_mut().for_each(|ring| ring.grow(claims));
    }

    /// Iterates over the rings of claims: our own ring, and those of other nodes.
    fn rings(&self) -> impl Iterator<Item = &CountsRing> {
        std::iter::once(&self.claims).chain(&self.nodes).chain(self.others.values())
    }

    /// Advances towards `epoch`, clearing at most `lines` lines of each ring. Reinstated signatures are listed when a
    /// generation begins.
    pub(crate) fn turn(&mut self, epoch: u64, lines: usize) -> SpamTurn {
        let ending = if self.epoch() < epoch { self.next_to_end() } else { Vec::new() };
        let mut rings: Vec<&mut dyn Ring> = vec![&mut self.listed, &mut self.revoked, &mut self.claims];
        rings.extend(self.nodes.iter_mut().chain(self.others.values_mut()).map(|ring| ring as &mut dyn Ring));
        rings.extend(self.rebuilt.rings());
        let turned = turn(&mut rings, epoch, lines);
        let (mut listed, mut ended) = (Vec::new(), Vec::new());
        if turned.advanced {
            ended = ending;
            listed = std::mem::take(&mut self.reinstated).into_iter().collect();
            self.listed.insert_batch(&listed);
            self.rebuilt.listed.iter_mut().for_each(|ring| ring.insert_batch(&listed));
        }
        SpamTurn { arrived: turned.arrived, listed, ended }
    }

    /// Returns the generations that the next epoch will end.
    fn next_to_end(&self) -> Vec<EndedGeneration> {
        let rings: [(_, &dyn Ring); 3] = [(LISTED, &self.listed), (REVOKED, &self.revoked), (CLAIMS, &self.claims)];
        rings.into_iter().filter_map(|(name, ring)| EndedGeneration::next(name, ring)).collect()
    }

    /// Returns true if [`turn`](Self::turn) would change anything.
    pub(crate) fn has_to_turn(&self, epoch: u64) -> bool {
        let is_expired =
            self.listed.is_expired() && self.revoked.is_expired() && self.rings().all(CountsRing::is_expired);
        self.epoch() < epoch || !is_expired
    }
}

/// The result of one ageing step of the spam book.
pub(crate) struct SpamTurn {
    /// True if the target epoch is reached.
    pub(crate) arrived: bool,
    /// Signatures listed at the start of a new generation.
    pub(crate) listed: Vec<Fingerprint>,
    /// Generations that ended in this step.
    pub(crate) ended: Vec<EndedGeneration>,
}

/// Returns the number of lines of the ring for the claims of other nodes.
pub(crate) fn node_claim_lines(own: &CountsRing) -> usize {
    usize::try_from(own.lines()).expect("a ring is in memory") * NODE_CLAIMS_FACTOR
}

/// Returns an empty ring of the same size and in the same epoch.
pub(crate) fn empty_like(ring: &CountsRing) -> CountsRing {
    let lines = usize::try_from(ring.lines()).expect("a ring is in memory");
    empty_ring(ring, lines)
}

/// Returns an empty ring of `lines` lines that ages together with the ring `beside`.
pub(crate) fn empty_ring(beside: &CountsRing, lines: usize) -> CountsRing {
    try_empty_ring(beside, lines).unwrap_or_else(|error| panic!("{error}"))
}

/// Like [`empty_ring`], but fails if the memory cannot be allocated.
pub(crate) fn try_empty_ring(beside: &CountsRing, lines: usize) -> Result<CountsRing, OutOfMemory> {
    let mut ring = CountsRing::new(lines, beside.key_id(), beside.epoch()).map_err(failed_allocation)?;
    retire_oldest(&mut [&mut ring]);
    Ok(ring)
}

/// Returns the key under which a claim is counted. Reports and revocations have separate keys, and so do claims under
/// different flags.
pub(crate) fn claim_key(claim: Claim, flag: u8, fingerprint: &Fingerprint) -> Fingerprint {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let kind = u64::from(flag) * 2 + u64::from(claim == Claim::Revoke);
    let shift = STEP.wrapping_mul(kind);
    Fingerprint::new(fingerprint.high().wrapping_add(shift), fingerprint.low().wrapping_add(shift.rotate_left(32)))
}
