//! What a claim does to the books.
//!
//! Pure: evidence before and after, what the books say, and the policy. The rules, in order:
//!
//! - **Listing** what is not revoked: enough own reporters, if no own reporter revokes; or evidence at [`Level::Block`].
//! - **Listing what is revoked** takes more. By own reporters: one more than otherwise, and more than own reporters revoke; as many as
//!   otherwise, when an own reporter takes the last anchored revoke back by a report.
//!   By evidence: a score of `block_score` and `unrevoke_margin`, as many groups as always, and at least two anchored groups more
//!   reporting than revoking. Only reports made since the revocation count, as it overruled those before.
//! - **Revoking** what is listed: an own reporter, at once. An anchor, unless a trap reported or own reporters hold it.
//!   Others, if their revoke takes evidence that had reached [`Level::Block`] below it, and own reporters do not hold it.

use super::evidence::{Evidence, Level, Vote};
use super::policy::Policy;
use super::{By, Change, Claim, Listing};

/// A claim just heard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub(super) vote: Vote,
    pub(super) listing: Listing,
    /// Whether this table knows the listing's evidence.
    pub(super) promoted: bool,
    pub(super) before: Evidence,
    pub(super) after: Evidence,
}

/// What the engine must do to the books.
pub(super) fn decide(policy: &Policy, heard: &Heard) -> Change {
    let is_listed = heard.listing.listed && !heard.listing.revoked;
    match (heard.vote.claim, is_listed) {
        (Claim::Report, true) | (Claim::Revoke, false) => Change::Nothing,
        (Claim::Report, false) if heard.listing.revoked => list_again(policy, &heard.before, &heard.after),
        (Claim::Report, false) => list(policy, &heard.after),
        (Claim::Revoke, true) => revoke(policy, heard),
    }
}

fn list(policy: &Policy, evidence: &Evidence) -> Change {
    if own_reporters_hold(policy, evidence) {
        Change::List(By::Own)
    } else if evidence.level == Level::Block {
        Change::List(By::Evidence)
    } else {
        Change::Nothing
    }
}

fn list_again(policy: &Policy, before: &Evidence, evidence: &Evidence) -> Change {
    let is_alone = before.own_revokes > 0 && evidence.anchored_revokes == 0;
    let is_taken_back = is_alone && own_reporters_hold(policy, evidence);
    let is_outvoted = evidence.own_reports > policy.own_reports_needed && evidence.own_reports > evidence.own_revokes;
    if is_taken_back || is_outvoted {
        return Change::List(By::Own);
    }
    let outweighs = evidence.block_score(policy) >= policy.block_score + policy.unrevoke_margin
        && evidence.groups >= policy.block_groups
        && evidence.anchored_reports > evidence.anchored_revokes + 1;
    if outweighs { Change::List(By::Evidence) } else { Change::Nothing }
}

fn revoke(policy: &Policy, heard: &Heard) -> Change {
    if heard.vote.is_own() {
        return Change::Revoke;
    }
    let by_anchor = heard.vote.is_anchored() && !heard.after.trap;
    let by_evidence = heard.promoted && heard.before.level == Level::Block && heard.after.level < Level::Block;
    let takes_off = (by_anchor || by_evidence) && !own_reporters_hold(policy, &heard.after);
    if takes_off { Change::Revoke } else { Change::Nothing }
}

/// Whether own reporters list it by themselves.
const fn own_reporters_hold(policy: &Policy, evidence: &Evidence) -> bool {
    evidence.own_reports >= policy.own_reports_needed && evidence.own_revokes == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evidence that is just enough to list again what three anchors revoked that weigh next to nothing.
    fn enough() -> Evidence {
        Evidence { spam: 10.0, groups: 5, anchored_reports: 5, anchored_revokes: 3, ..Evidence::default() }
    }

    #[test]
    fn listing_again_needs_the_margin_the_groups_and_two_more_anchors() {
        let again = |change: fn(&mut Evidence)| {
            let mut evidence = enough();
            change(&mut evidence);
            list_again(&Policy::default(), &Evidence::default(), &evidence)
        };
        assert_eq!(again(|_| {}), Change::List(By::Evidence));
        assert_eq!(again(|evidence| evidence.spam = 9.99), Change::Nothing);
        assert_eq!(again(|evidence| evidence.groups = 2), Change::Nothing);
        assert_eq!(again(|evidence| evidence.anchored_reports = 4), Change::Nothing);
    }

    #[test]
    fn own_reporters_must_outnumber_own_revokers_to_list_again() {
        let again = |own_reports, own_revokes| {
            let after = Evidence { own_reports, own_revokes, ..Evidence::default() };
            list_again(&Policy::default(), &Evidence::default(), &after)
        };
        assert_eq!([again(1, 0), again(2, 2)], [Change::Nothing; 2]);
        assert_eq!([again(2, 0), again(3, 2)], [Change::List(By::Own); 2]);
    }
}
