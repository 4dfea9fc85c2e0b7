//! Sums of the votes on a signature, and the judgement that anchors pass on other votes.
//!
//! These are pure functions of votes: they use neither tables nor the time. Weights are multiples of 1/1024, so their
//! sums are exact and do not depend on the order of votes.

use super::policy::Policy;
use super::precision::WEIGHT_PARTS;
use super::{Claim, Reporter, Standing, VoteView};

/// The current claim of one reporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vote {
    pub(super) reporter: u64,
    pub(super) group: u64,
    /// Weight when the claim was made, in units of 1/1024.
    pub(super) weight: u16,
    pub(super) claim: Claim,
    pub(super) standing: Standing,
    /// True for a report made before the signature was listed, and for a revocation made before an anchor revoked it.
    pub(super) early: bool,
    /// True if a later change of the books overruled the vote. The vote is then no longer evidence, but is still
    /// settled.
    pub(super) overruled: bool,
    /// True if the reporter has been credited or debited for the vote.
    pub(super) settled: bool,
}

/// Number of tiers of entries. An entry's best vote determines its tier, and lower tiers are evicted first.
pub(super) const TIERS: usize = 4;

impl Vote {
    /// Creates the vote for a claim made now.
    pub(super) const fn new(reporter: &Reporter, weight: u16, claim: Claim, early: bool) -> Self {
        Self {
            reporter: reporter.id,
            group: reporter.group,
            weight,
            claim,
            standing: reporter.standing,
            early,
            overruled: false,
            settled: false,
        }
    }

    /// Returns the public form of the vote.
    pub(super) fn view(&self) -> VoteView {
        VoteView {
            reporter: Reporter { id: self.reporter, standing: self.standing, group: self.group },
            claim: self.claim,
            weight: f64::from(self.weight) / WEIGHT_PARTS,
            overruled: self.overruled,
        }
    }

    /// Returns true if the operator trusts this vote without further evidence. An anchor that was wrong too often loses
    /// its weight, and its votes are no longer anchored.
    pub(super) const fn is_anchored(&self) -> bool {
        self.standing.is_anchor() && self.weight > 0
    }

    /// Returns true if an own reporter cast the vote.
    pub(super) const fn is_own(&self) -> bool {
        matches!(self.standing, Standing::Own)
    }

    /// Returns the tier of an entry with this vote. From the lowest, the tiers are strangers, accounts without weight,
    /// accounts with weight, and anchors.
    pub(super) const fn tier(&self) -> usize {
        match self.standing {
            Standing::Stranger => 0,
            Standing::Account => 1 + (self.weight > 0) as usize,
            Standing::Pinned | Standing::Own | Standing::Trap => 3,
        }
    }

    /// Returns the rank of the vote. When there are too many votes, those of the lowest rank are dropped first.
    pub(super) const fn rank(&self) -> (bool, u16) {
        (self.standing.is_anchor(), self.weight)
    }
}

/// The level of evidence for spam.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Insufficient evidence, or none.
    #[default]
    Unknown,
    /// A hint, which may raise a score. A hint must never be a reason to reject a message, because patient attackers
    /// can reach this level.
    Suspect,
    /// Sufficient evidence to list the signature.
    Block,
}

/// The sums of votes for and against a signature.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VoteEvidence {
    /// Level of the evidence.
    pub level: Level,
    /// Evidence for spam: the sum of one voice per group. Unanchored evidence is capped.
    pub spam: f64,
    /// Evidence for ham, already multiplied by the ham factor. Unanchored evidence is capped.
    pub ham: f64,
    /// Part of `ham` that comes from anchors.
    pub ham_anchored: f64,
    /// Number of groups with a report that has weight.
    pub groups: u32,
    /// Number of anchored groups that report.
    pub anchored_reports: u32,
    /// Number of anchored groups that revoke.
    pub anchored_revokes: u32,
    /// Number of own reporters who report.
    pub own_reports: u32,
    /// Number of own reporters who revoke.
    pub own_revokes: u32,
    /// True if a trap reports.
    pub trap: bool,
}

impl VoteEvidence {
    /// Sums the votes that are not overruled. Removes overruled votes from `votes`, and sorts the rest.
    pub(super) fn of(policy: &Policy, votes: &mut Vec<Vote>) -> Self {
        votes.retain(|vote| !vote.overruled);
        let own = |claim| count(votes.iter().filter(|vote| vote.is_own() && vote.claim == claim).count());
        let (own_reports, own_revokes) = (own(Claim::Report), own(Claim::Revoke));
        let trap = votes.iter().any(is_trap_report);
        let (reports, revokes) = ledgers(votes);
        let ham_anchored = policy.ham_factor * sum(revokes.anchored);
        let mut evidence = Self {
            level: Level::Unknown,
            spam: sum(reports.anchored) + sum(reports.unanchored).min(policy.unanchored_spam_max),
            ham: ham_anchored + (policy.ham_factor * sum(revokes.unanchored)).min(policy.unanchored_ham_max),
            ham_anchored,
            groups: reports.groups,
            anchored_reports: reports.anchored_groups,
            anchored_revokes: revokes.anchored_groups,
            own_reports,
            own_revokes,
            trap,
        };
        evidence.level = evidence.level_by(policy);
        evidence
    }

    /// Returns the evidence for spam minus the evidence for ham.
    #[must_use]
    pub fn score(&self) -> f64 {
        self.spam - self.ham
    }

    /// Returns the score that is compared with the threshold for listing. If enough anchors report, unanchored
    /// revocations are ignored.
    pub(super) fn block_score(&self, policy: &Policy) -> f64 {
        let beyond_doubt = self.anchored_reports >= policy.anchors_beyond_doubt;
        self.spam - if beyond_doubt { self.ham_anchored } else { self.ham }
    }

    /// Returns the level of the evidence according to rule 4 of `docs/trust.md`.
    fn level_by(&self, policy: &Policy) -> Level {
        let undisputed = self.anchored_revokes == 0 || self.trap;
        if self.block_score(policy) >= policy.block_score
            && self.groups >= policy.block_groups
            && self.anchored_reports >= policy.block_anchors
            && undisputed
        {
            return Level::Block;
        }
        let suspect = self.score() >= policy.suspect_score && self.groups >= policy.suspect_groups;
        if suspect { Level::Suspect } else { Level::Unknown }
    }
}

/// The sums of the votes on one side.
#[derive(Clone, Copy, Debug, Default)]
struct Ledger {
    anchored: u32,
    unanchored: u32,
    groups: u32,
    anchored_groups: u32,
}

impl Ledger {
    /// Adds the votes of one group. Only the heaviest vote counts. The group is anchored if any of its votes is
    /// anchored.
    fn add(&mut self, voices: &[Vote]) {
        let weight = voices.iter().map(|vote| vote.weight).max().unwrap_or_default();
        let anchored = voices.iter().any(Vote::is_anchored);
        *(if anchored { &mut self.anchored } else { &mut self.unanchored }) += u32::from(weight);
        self.groups += u32::from(weight > 0);
        self.anchored_groups += u32::from(anchored);
    }
}

/// Sums the reports and the revocations separately, group by group.
fn ledgers(votes: &mut [Vote]) -> (Ledger, Ledger) {
    let (mut reports, mut revokes) = (Ledger::default(), Ledger::default());
    votes.sort_unstable_by_key(|vote| (vote.claim, vote.group));
    for voices in votes.chunk_by(|a, b| (a.claim, a.group) == (b.claim, b.group)) {
        match voices[0].claim {
            Claim::Report => reports.add(voices),
            Claim::Revoke => revokes.add(voices),
        }
    }
    (reports, revokes)
}

/// Returns the judgement of anchors in groups other than `group`: spam ([`Claim::Report`]), ham ([`Claim::Revoke`]), or
/// `None` for a tie.
///
/// If a trap reports, the judgement is spam. Otherwise it is the claim of the majority of anchored groups. Overruled
/// votes count, too. `votes` must be sorted by claim and group.
pub(super) fn truth_without(votes: &[Vote], group: u64) -> Option<Claim> {
    if votes.iter().any(|vote| vote.group != group && is_trap_report(vote)) {
        return Some(Claim::Report);
    }
    let mut groups = [0_u32; 2];
    for voices in votes.chunk_by(|a, b| (a.claim, a.group) == (b.claim, b.group)) {
        if voices[0].group != group && voices.iter().any(Vote::is_anchored) {
            groups[voices[0].claim as usize] += 1;
        }
    }
    match groups[0].cmp(&groups[1]) {
        std::cmp::Ordering::Greater => Some(Claim::Report),
        std::cmp::Ordering::Less => Some(Claim::Revoke),
        std::cmp::Ordering::Equal => None,
    }
}

/// Sorts votes as [`truth_without`] requires.
pub(super) fn sort_for_truth(votes: &mut [Vote]) {
    votes.sort_unstable_by_key(|vote| (vote.claim, vote.group, vote.reporter));
}

fn is_trap_report(vote: &Vote) -> bool {
    vote.standing == Standing::Trap && vote.claim == Claim::Report
}

/// Converts a sum of weights from units of 1/1024.
fn sum(parts: u32) -> f64 {
    f64::from(parts) / WEIGHT_PARTS
}

/// Converts a number of votes, which always fits in 32 bits.
fn count(number: usize) -> u32 {
    u32::try_from(number).expect("votes are bounded")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vote(reporter: u64, standing: Standing, weight: f64, claim: Claim) -> Vote {
        let reporter = Reporter { id: reporter, standing, group: reporter };
        Vote::new(&reporter, (weight * WEIGHT_PARTS) as u16, claim, true)
    }

    fn report(reporter: u64, standing: Standing, weight: f64) -> Vote {
        vote(reporter, standing, weight, Claim::Report)
    }

    fn revoke(reporter: u64, standing: Standing, weight: f64) -> Vote {
        vote(reporter, standing, weight, Claim::Revoke)
    }

    fn evidence(votes: &[Vote]) -> VoteEvidence {
        VoteEvidence::of(&Policy::default(), &mut votes.to_vec())
    }

    use Standing::{Account, Own, Pinned, Trap};

    #[test]
    fn a_group_counts_once_with_its_heaviest_vote() {
        let mut votes = vec![report(1, Account, 1.0), report(2, Account, 2.0), report(3, Account, 0.5)];
        votes[1].group = 1;
        assert_eq!((evidence(&votes).spam, evidence(&votes).groups), (2.5, 2));
    }

    #[test]
    fn unanchored_evidence_is_capped_on_both_sides_and_ham_counts_double() {
        let reports = (0..10).map(|id| report(id, Account, 2.5));
        assert_eq!(evidence(&reports.collect::<Vec<_>>()).spam, 5.0);
        assert_eq!(evidence(&[revoke(1, Account, 0.5)]).ham, 1.0);
        assert_eq!(evidence(&[revoke(1, Account, 2.5), revoke(2, Account, 2.5)]).ham, 2.0);
        assert_eq!(evidence(&[revoke(1, Pinned, 2.5), revoke(2, Pinned, 2.5)]).ham, 10.0);
    }

    #[test]
    fn nothing_blocks_without_an_anchor_and_suspects_need_two_groups() {
        let farmed = (0..100).map(|id| report(id, Account, 2.5)).collect::<Vec<_>>();
        assert_eq!(evidence(&farmed).level, Level::Suspect);
        let mut votes = vec![report(1, Pinned, 2.5), report(2, Account, 2.5)];
        assert_eq!(evidence(&votes).level, Level::Suspect);
        assert_eq!(evidence(&votes[..1]).level, Level::Unknown);
        votes.push(report(3, Account, 1.0));
        assert_eq!(evidence(&votes).level, Level::Block, "6.0 from three groups, one of them anchored");
        votes[2].weight -= 1;
        assert_eq!(evidence(&votes).level, Level::Suspect);
    }

    #[test]
    fn a_policy_may_ask_for_more_anchors() {
        let policy = Policy { block_anchors: 2, ..Policy::default() };
        let mut votes = vec![report(1, Pinned, 2.5), report(2, Account, 2.5), report(3, Account, 2.5)];
        assert_eq!(VoteEvidence::of(&policy, &mut votes.clone()).level, Level::Suspect);
        votes[1].standing = Own;
        assert_eq!(VoteEvidence::of(&policy, &mut votes).level, Level::Block);
    }

    #[test]
    fn an_anchored_revocation_prevents_a_listing_unless_a_trap_reports() {
        let mut votes = (0..6).map(|id| report(id, Pinned, 2.5)).collect::<Vec<_>>();
        votes.push(revoke(9, Pinned, 2.5));
        assert_eq!(evidence(&votes).level, Level::Suspect);
        votes.push(report(7, Trap, 2.5));
        assert_eq!(evidence(&votes).level, Level::Block);
    }

    #[test]
    fn two_anchored_reports_are_beyond_the_doubt_of_accounts() {
        let mut votes = vec![report(1, Pinned, 2.5), report(2, Account, 2.5), report(3, Account, 1.5)];
        votes.push(revoke(4, Account, 2.5));
        assert_eq!(evidence(&votes).level, Level::Suspect);
        votes[1].standing = Pinned;
        let both = evidence(&votes);
        assert_eq!((both.level, both.score()), (Level::Block, 4.5));
    }

    #[test]
    fn an_anchor_without_weight_no_longer_anchors_but_own_reports_still_count() {
        let fallen = evidence(&[report(1, Own, 0.0), report(2, Pinned, 0.0)]);
        assert_eq!((fallen.anchored_reports, fallen.own_reports, fallen.groups), (0, 1, 0));
    }

    #[test]
    fn overruled_votes_are_no_evidence() {
        let mut overruled = report(1, Own, 2.5);
        overruled.overruled = true;
        assert_eq!(evidence(&[overruled]), VoteEvidence::default());
    }

    #[test]
    fn the_truth_is_decided_by_anchors_of_other_groups() {
        let truth = |votes: &[Vote], group| {
            let mut votes = votes.to_vec();
            sort_for_truth(&mut votes);
            truth_without(&votes, group)
        };
        let votes = [report(1, Account, 2.5), report(2, Pinned, 2.5)];
        assert_eq!(truth(&votes, 1), Some(Claim::Report));
        assert_eq!(truth(&votes, 2), None, "a group cannot confirm itself");
        let disputed = [report(2, Pinned, 2.5), revoke(3, Pinned, 2.5), revoke(4, Pinned, 2.5)];
        assert_eq!(truth(&disputed, 9), Some(Claim::Revoke));
        assert_eq!(truth(&disputed, 3), None, "one against one");
        assert_eq!(truth(&[disputed.as_slice(), &[report(5, Trap, 2.5)]].concat(), 9), Some(Claim::Report));
    }
}
