//! The spam book, Razor's idea: which signatures are listed as spam, which were revoked, and how many claims there were.
//!
//! Two rings, as the paper pairs two filters: a signature is spam if it is listed and not revoked. Which one holds is
//! decided by generations: a revocation outweighs every listing of its own generation and of older ones. As long as it is
//! live nothing is listed again (see [`crate::trust`]), so a revocation never expires before what it revokes.
//!
//! Most signatures are reported once in a generation, by the report that lists them. So a listing stands for one report of flag
//! 0, and the ring of claims counts only those beyond it; it can be that much smaller. (One that was listed by a report of
//! another flag, or reinstated, therefore counts one more of flag 0 than there were.)
//!
//! Among several nodes of one operator that would lose reports: two that list the same signature would count one. So from the
//! generation on in which a node begins to tell others of its claims it counts all of them.
//!
//! The one exception is a revocation that proved wrong. A listing of the same generation could not outweigh it, so the
//! signature is held in a small exact set until the next generation begins, and listed there.

use std::collections::{BTreeMap, BTreeSet};

use bruit_filters::ring::{CountsRing, Generations, MembershipRing, StagedRing};
use bruit_filters::{Fingerprint, OutOfMemory};

use crate::exchange::{Origin, Vote};
use crate::generations::{Ended, LIVE_GENERATIONS, Ring, retire_oldest, turn};
use crate::trust::Claim;

/// The names of the rings, the same as in [`crate::RingStatus`].
pub(crate) const LISTED: &str = "listed signatures";
pub(crate) const REVOKED: &str = "revoked signatures";
pub(crate) const CLAIMS: &str = "counts of claims";

/// Most signatures that can be reinstated within a generation.
pub const REINSTATED_MAX: usize = 4_096;

/// Kinds of claims that are counted apart: rspamd's flags, of which 0 is everybody else's.
pub const FLAGS: u8 = 16;

/// Listed and revoked signatures by generation, and the claims made about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpamBook {
    pub(crate) listed: StagedRing,
    pub(crate) revoked: MembershipRing,
    pub(crate) claims: CountsRing,
    /// What nodes of the same operator counted.
    pub(crate) others: BTreeMap<Origin, CountsRing>,
    pub(crate) reinstated: BTreeSet<Fingerprint>,
    /// From this epoch on the ring of claims counts all of them.
    pub(crate) all_counted_from: u64,
}

/// What the book says of a signature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The generations in which it was listed.
    pub listed: Generations,
    /// The generations in which it was revoked.
    pub revoked: Generations,
    /// Whether a listing counts although a revocation is as young.
    pub reinstated: bool,
}

impl Entry {
    /// Whether it is listed and no revocation outweighs that.
    #[must_use]
    pub fn is_spam(&self) -> bool {
        match (self.listed.newest(), self.revoked.newest()) {
            (Some(listed), Some(revoked)) => self.reinstated || listed < revoked,
            (listed, _) => listed.is_some(),
        }
    }

    /// Whether a revocation is in force.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        !self.revoked.is_empty() && !self.is_spam()
    }
}

/// Claims counted over the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimCounts {
    /// That it is spam.
    pub reports: u32,
    /// That it is not.
    pub revocations: u32,
}

impl SpamBook {
    pub(crate) fn new(mut listed: StagedRing, mut revoked: MembershipRing, mut claims: CountsRing) -> Self {
        retire_oldest(&mut [&mut listed, &mut revoked, &mut claims]);
        let (others, reinstated) = (BTreeMap::new(), BTreeSet::new());
        Self { listed, revoked, claims, others, reinstated, all_counted_from: u64::MAX }
    }

    pub(crate) const fn epoch(&self) -> u64 {
        self.listed.epoch()
    }

    /// Returns true if a signature can be listed; `entry` is its state in the book. At most [`REINSTATED_MAX`] are reinstated in
    /// a generation.
    pub(crate) fn can_list(&self, entry: &Entry) -> bool {
        !entry.revoked.contains(0) || self.reinstated.len() < REINSTATED_MAX
    }

    /// Lists a signature, or reinstates it if this generation has a revocation of it; `entry` is its state in the book.
    pub(crate) fn list(&mut self, fingerprint: &Fingerprint, entry: &Entry) {
        if entry.revoked.contains(0) {
            self.reinstated.insert(*fingerprint);
        }
        self.listed.insert(fingerprint);
    }

    /// Revokes a signature, from this moment on.
    pub(crate) fn revoke(&mut self, fingerprint: &Fingerprint) {
        self.revoked.insert(fingerprint);
        self.reinstated.remove(fingerprint);
    }

    /// The ring of listed signatures.
    #[must_use]
    pub const fn listed(&self) -> &StagedRing {
        &self.listed
    }

    /// The ring of revoked signatures.
    #[must_use]
    pub const fn revoked(&self) -> &MembershipRing {
        &self.revoked
    }

    /// The ring of claims that were counted here.
    #[must_use]
    pub const fn claims(&self) -> &CountsRing {
        &self.claims
    }

    /// The ring of claims that another node counted.
    #[must_use]
    pub fn claims_of(&self, origin: &Origin) -> Option<&CountsRing> {
        self.others.get(origin)
    }

    /// What is known of one signature.
    #[must_use]
    pub fn entry(&self, fingerprint: &Fingerprint) -> Entry {
        Entry {
            listed: self.listed.check(fingerprint),
            revoked: self.revoked.check(fingerprint),
            reinstated: self.reinstated.contains(fingerprint),
        }
    }

    /// Counts a claim, but for a report that is counted as the listing it made.
    pub(crate) fn count(&mut self, claim: Claim, flag: u8, fingerprint: &Fingerprint) {
        self.claims.insert(&claim_key(claim, flag, fingerprint));
    }

    /// Returns true if claims of this kind were counted in this generation.
    pub(crate) fn is_counted(&self, claim: Claim, flag: u8, fingerprint: &Fingerprint) -> bool {
        self.claims.count_in(&claim_key(claim, flag, fingerprint), self.epoch()).is_ok_and(|count| count > 0)
    }

    /// The claims counted over the window. Never too low.
    #[must_use]
    pub fn counts(&self, flag: u8, fingerprint: &Fingerprint) -> ClaimCounts {
        let count = |claim| {
            let key = claim_key(claim, flag, fingerprint);
            self.rings().fold(0_u32, |sum, ring| sum.saturating_add(ring.count(&key)))
        };
        let counts_by_listing = |&age: &u32| self.epoch() - u64::from(age) < self.all_counted_from;
        let listings =
            if flag == 0 { self.listed.check(fingerprint).ages().filter(counts_by_listing).count() as u32 } else { 0 };
        ClaimCounts { reports: count(Claim::Report).saturating_add(listings), revocations: count(Claim::Revoke) }
    }

    /// The claims counted in the generation of a live epoch; none in another.
    #[must_use]
    pub fn counts_in(&self, epoch: u64, flag: u8, fingerprint: &Fingerprint) -> ClaimCounts {
        let count = |claim| {
            let key = claim_key(claim, flag, fingerprint);
            self.rings().fold(0_u32, |sum, ring| sum.saturating_add(ring.count_in(&key, epoch).unwrap_or(0)))
        };
        let age = self.epoch().checked_sub(epoch).and_then(|age| u32::try_from(age).ok());
        let is_listed = age.is_some_and(|age| self.listed.check(fingerprint).contains(age));
        let listings = u32::from(flag == 0 && is_listed && epoch < self.all_counted_from);
        ClaimCounts { reports: count(Claim::Report).saturating_add(listings), revocations: count(Claim::Revoke) }
    }

    /// Whether a report that lists a signature in this generation is counted by the listing alone.
    pub(crate) const fn counts_by_listing(&self) -> bool {
        self.epoch() < self.all_counted_from
    }

    /// From now on counts all claims: in this generation and older ones too, back to the last in which something was listed. A
    /// node that joins with empty books hears all claims of theirs from the others.
    pub(crate) fn count_all(&mut self) {
        let newest = self.epoch();
        let is_listed_in = |age: &u64| self.listed.fill(newest.saturating_sub(*age)).is_ok_and(|fill| fill > 0.0);
        let from = (0..LIVE_GENERATIONS).find(is_listed_in).map_or(0, |age| newest - age + 1);
        self.all_counted_from = self.all_counted_from.min(from);
    }

    /// Counts a claim that another node counted.
    pub(crate) fn count_of(&mut self, origin: &Origin, epoch: u64, claim: Claim, flag: u8, fingerprint: &Fingerprint) {
        let key = claim_key(claim, flag, fingerprint);
        if let Some(ring) = self.others.get_mut(origin) {
            // Generations that are not live are sorted out before.
            let _ = ring.insert_many_at(epoch, &key, 1);
        }
    }

    /// Counts what a claim counted, as our own.
    pub(crate) fn count_vote(&mut self, epoch: u64, vote: &Vote) {
        for (fingerprint, _) in vote.signatures.iter().filter(|(_, is_counted)| *is_counted) {
            // Generations that are not live no longer wait.
            let _ = self.claims.insert_many_at(epoch, &claim_key(vote.claim, vote.flag, fingerprint), 1);
        }
    }

    /// Begins a new ring for what we count ourselves; what we counted as `before` is kept as that of another node.
    pub(crate) fn begin_incarnation(&mut self, before: Origin) {
        let fresh = empty_like(&self.claims);
        self.others.insert(before, std::mem::replace(&mut self.claims, fresh));
    }

    /// Makes room for what another node counts.
    pub(crate) fn admit_origin(&mut self, origin: Origin) {
        let fresh = empty_like(&self.claims);
        self.others.entry(origin).or_insert(fresh);
    }

    /// Grows each ring by its factor; the counts of other nodes of the same operator grow as much as ours.
    pub(crate) fn grow(&mut self, listed: usize, revoked: usize, claims: usize) {
        self.listed.grow(listed);
        self.revoked.grow(revoked);
        self.claims.grow(claims);
        self.others.values_mut().for_each(|ring| ring.grow(claims));
    }

    /// The ring of what we counted ourselves, and those of other nodes.
    fn rings(&self) -> impl Iterator<Item = &CountsRing> {
        std::iter::once(&self.claims).chain(self.others.values())
    }

    /// Moves towards `epoch`, clearing at most `lines` lines of each ring. What was reinstated is listed when a generation
    /// begins.
    pub(crate) fn turn(&mut self, epoch: u64, lines: usize) -> SpamTurn {
        let ending = if self.epoch() < epoch { self.next_to_end() } else { Vec::new() };
        let mut rings: Vec<&mut dyn Ring> = vec![&mut self.listed, &mut self.revoked, &mut self.claims];
        rings.extend(self.others.values_mut().map(|ring| ring as &mut dyn Ring));
        let turned = turn(&mut rings, epoch, lines);
        let (mut listed, mut ended) = (Vec::new(), Vec::new());
        if turned.advanced {
            ended = ending;
            listed = std::mem::take(&mut self.reinstated).into_iter().collect();
            self.listed.insert_batch(&listed);
        }
        SpamTurn { arrived: turned.arrived, listed, ended }
    }

    /// The generations that end when the next begins.
    fn next_to_end(&self) -> Vec<Ended> {
        let rings: [(_, &dyn Ring); 3] = [(LISTED, &self.listed), (REVOKED, &self.revoked), (CLAIMS, &self.claims)];
        rings.into_iter().filter_map(|(name, ring)| Ended::next(name, ring)).collect()
    }

    /// Returns true if [`turn`](Self::turn) would change anything.
    pub(crate) fn has_to_turn(&self, epoch: u64) -> bool {
        let is_expired =
            self.listed.is_expired() && self.revoked.is_expired() && self.rings().all(CountsRing::is_expired);
        self.epoch() < epoch || !is_expired
    }
}

/// What a step of the spam book came to.
pub(crate) struct SpamTurn {
    /// Whether the wanted epoch is reached.
    pub(crate) arrived: bool,
    /// What was listed, as a new generation began.
    pub(crate) listed: Vec<Fingerprint>,
    /// The generations that ended with this turn.
    pub(crate) ended: Vec<Ended>,
}

/// An empty ring of the same size, in the same epoch, and cleared as far.
pub(crate) fn empty_like(ring: &CountsRing) -> CountsRing {
    let lines = usize::try_from(ring.lines()).expect("a ring is in memory");
    empty_ring(ring, lines)
}

/// An empty ring of `lines` lines that turns with another.
pub(crate) fn empty_ring(beside: &CountsRing, lines: usize) -> CountsRing {
    try_empty_ring(beside, lines).unwrap_or_else(|error| panic!("{error}"))
}

/// Like [`empty_ring`], but fails if the memory cannot be allocated.
pub(crate) fn try_empty_ring(beside: &CountsRing, lines: usize) -> Result<CountsRing, OutOfMemory> {
    let mut ring = CountsRing::try_new(lines, beside.key_id(), beside.epoch())?;
    retire_oldest(&mut [&mut ring]);
    Ok(ring)
}

/// Reports and revocations, and each flag, are counted under keys of their own.
fn claim_key(claim: Claim, flag: u8, fingerprint: &Fingerprint) -> Fingerprint {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let kind = u64::from(flag) * 2 + u64::from(claim == Claim::Revoke);
    let shift = STEP.wrapping_mul(kind);
    Fingerprint::new(fingerprint.high().wrapping_add(shift), fingerprint.low().wrapping_add(shift.rotate_left(32)))
}
