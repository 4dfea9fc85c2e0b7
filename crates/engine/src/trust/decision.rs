//! The effects of claims on the books.
//!
//! These are pure functions of the evidence before and after the claim, the state of the books, and the policy. The
//! rules are:
//!
//! - **Listing** a signature that is not revoked requires evidence at [`Level::Block`], or reports by
//!   `own_reports_needed` own reporters and no revocation by an own reporter.
//! - **Listing a revoked signature** requires more. Only reports made after the revocation count, because it overruled
//!   the earlier ones. One of these must be true:
//!   - More than `own_reports_needed` own reporters report the signature, and more own reporters report than revoke it.
//!   - At least `own_reports_needed` own reporters report the signature. One of these reports withdraws the last
//!     anchored revocation, which the same reporter made.
//!   - The score is at least `block_score` plus `unrevoke_margin`. At least `block_groups` groups report the signature,
//!     and at least two more anchored groups report than revoke it.
//! - **Revoking** a listed signature requires one own reporter. Any other anchor can revoke it, too, unless a trap
//!   reported it. Any other reporter can revoke it if the revocation reduces the evidence below [`Level::Block`]. But
//!   if own reporters keep the signature listed, only an own reporter can revoke it.

use super::evidence::{Level, Vote, VoteEvidence};
use super::policy::Policy;
use super::{Change, Claim, Listing};

/// The inputs of a decision about a claim.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClaimContext {
    pub(super) vote: Vote,
    pub(super) listing: Listing,
    /// True if the nursery still has the evidence that listed the signature.
    pub(super) promoted: bool,
    pub(super) before: VoteEvidence,
    pub(super) after: VoteEvidence,
}

/// Returns the change that a claim makes to the books.
pub(super) fn decide(policy: &Policy, context: &ClaimContext) -> Change {
    let is_listed = context.listing.listed && !context.listing.revoked;
    match (context.vote.claim, is_listed) {
        (Claim::Report, true) | (Claim::Revoke, false) => Change::Nothing,
        (Claim::Report, false) if context.listing.revoked => list_again(policy, &context.before, &context.after),
        (Claim::Report, false) => list(policy, &context.after),
        (Claim::Revoke, true) => revoke(policy, context),
    }
}

fn list(policy: &Policy, evidence: &VoteEvidence) -> Change {
    let is_enough = own_reporters_hold(policy, evidence) || evidence.level == Level::Block;
    if is_enough { Change::List } else { Change::Nothing }
}

fn list_again(policy: &Policy, before: &VoteEvidence, evidence: &VoteEvidence) -> Change {
    let is_alone = before.own_revokes > 0 && evidence.anchored_revokes == 0;
    let is_taken_back = is_alone && own_reporters_hold(policy, evidence);
    let is_outvoted = evidence.own_reports > policy.own_reports_needed && evidence.own_reports > evidence.own_revokes;
    let outweighs = evidence.block_score(policy) >= policy.block_score + policy.unrevoke_margin
        && evidence.groups >= policy.block_groups
        && evidence.anchored_reports > evidence.anchored_revokes + 1;
    if is_taken_back || is_outvoted || outweighs { Change::List } else { Change::Nothing }
}

fn revoke(policy: &Policy, context: &ClaimContext) -> Change {
    if context.vote.is_own() {
        return Change::Revoke;
    }
    let by_anchor = context.vote.is_anchored() && !context.after.trap;
    let by_evidence = context.promoted && context.before.level == Level::Block && context.after.level < Level::Block;
    let takes_off = (by_anchor || by_evidence) && !own_reporters_hold(policy, &context.after);
    if takes_off { Change::Revoke } else { Change::Nothing }
}

/// Returns true if own reporters are sufficient to keep the signature listed.
const fn own_reporters_hold(policy: &Policy, evidence: &VoteEvidence) -> bool {
    evidence.own_reports >= policy.own_reports_needed && evidence.own_revokes == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the least evidence that lists a signature again after three anchors of almost no weight have revoked it.
    fn enough() -> VoteEvidence {
        VoteEvidence { spam: 10.0, groups: 5, anchored_reports: 5, anchored_revokes: 3, ..VoteEvidence::default() }
    }

    #[test]
    fn listing_again_needs_the_margin_the_groups_and_two_more_anchors() {
        let again = |change: fn(&mut VoteEvidence)| {
            let mut evidence = enough();
            change(&mut evidence);
            list_again(&Policy::default(), &VoteEvidence::default(), &evidence)
        };
        assert_eq!(again(|_| {}), Change::List);
        assert_eq!(again(|evidence| evidence.spam = 9.99), Change::Nothing);
        assert_eq!(again(|evidence| evidence.groups = 2), Change::Nothing);
        assert_eq!(again(|evidence| evidence.anchored_reports = 4), Change::Nothing);
    }

    #[test]
    fn own_reporters_must_outnumber_own_revokers_to_list_again() {
        let again = |own_reports, own_revokes| {
            let after = VoteEvidence { own_reports, own_revokes, ..VoteEvidence::default() };
            list_again(&Policy::default(), &VoteEvidence::default(), &after)
        };
        assert_eq!([again(1, 0), again(2, 2)], [Change::Nothing; 2]);
        assert_eq!([again(2, 0), again(3, 2)], [Change::List; 2]);
    }
}
