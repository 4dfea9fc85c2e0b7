//! Every constant of the scheme in one place, each with what it defends against.
//!
//! `docs/trust.md` has the reasons at length and what was simulated. Two servers may have different policies; one server
//! must keep its policy while it replays a journal, as the policy decides what the events do.

use super::Standing;
use crate::time::Time;

/// No policy may let a signature hold more votes than this: evidence is summed anew with every claim.
pub const VOTES_MAX: u32 = 256;

/// The longest half-life, life and settlement a policy may ask for, in days.
pub const DAYS_MAX: u32 = 3_650;

/// What a claim may weigh at most under any policy: weights are kept in 16 bits.
pub const WEIGHT_MAX: f64 = 32.0;

/// No evidence of a policy may be larger: credits are kept in millionths, in 32 bits.
pub const EVIDENCE_MAX: f64 = 1_000.0;

/// How claims are weighed and remembered.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Right and wrong claims everyone starts with. Equal, so that a new identity weighs exactly nothing, however many of
    /// them someone makes.
    pub prior: (f64, f64),
    /// The same for anchors, whom the operator chose: they weigh the most at once, and lose it only by many mistakes.
    pub anchor_prior: (f64, f64),
    /// After this many days half of a reporter's merit is forgotten: old merit is no licence.
    pub half_life_days: u32,
    /// The same for what it got wrong. Shorter, so that one honest mistake is forgiven within days; whoever goes on is wrong
    /// again before that.
    pub debit_half_life_days: u32,
    /// What one group weighs at most, in natural log-odds: no reputation, however long, lists anything by itself.
    pub weight_max: f64,
    /// Evidence for ham counts this many times: a false listing costs more than a missed one.
    pub ham_factor: f64,
    /// Unanchored evidence for spam counts up to here: below `block_score`, so that patience alone never blocks.
    pub unanchored_spam_max: f64,
    /// Unanchored evidence for ham counts up to here: farmed identities cannot silence what anchors see.
    pub unanchored_ham_max: f64,
    /// The score from which a signature is suspect, which is a hint and never a reason to refuse a message.
    pub suspect_score: f64,
    /// A suspect needs this many groups: a single voice is no suspicion.
    pub suspect_groups: u32,
    /// The score from which a signature is listed.
    pub block_score: f64,
    /// A listing needs this many groups that weigh something.
    pub block_groups: u32,
    /// A listing needs this many anchored groups: what stops identities that earned trust by echoing others.
    pub block_anchors: u32,
    /// From this many anchored reports on, unanchored revokes cannot prevent a listing.
    pub anchors_beyond_doubt: u32,
    /// Listing what was revoked takes this much more than `block_score`: a revocation must not flap.
    pub unrevoke_margin: f64,
    /// This many distinct own reporters list a signature for this site at once. Sites with many users raise it.
    pub own_reports_needed: u32,
    /// Claims are settled this many seconds after a signature was first seen: time for anchors to have their say.
    pub settle_after: u64,
    /// What a confirmed claim earns, if it was made before the signature was listed (a revoke: before an anchor revoked it). One that
    /// came later earns nothing, at any volume: there is no profit in echoing.
    pub credit_early: f64,
    /// A reporter earns at most this much per day: trust takes calendar time, whatever the volume.
    pub credit_daily_max: f64,
    /// What a claim costs that anchors refuted: ten right ones.
    pub debit_refuted: f64,
    /// What a claim costs that no anchor ever confirmed: reporting at random is not free.
    pub debit_unconfirmed: f64,
    /// The share of the nursery that entries first claimed by one group may take: nobody can evict the rest.
    pub group_share: f64,
    /// The same for own reporters and traps, who see more than others.
    pub own_share: f64,
    /// New entries that a stranger's network may make per day.
    pub stranger_inserts_daily: u32,
    /// New entries that a group of accounts or a pinned peer may make per day.
    pub group_inserts_daily: u32,
    /// Unused: formerly the number of new entries per day of own reporters and traps, which are now limited by their shares of
    /// the books. Kept for the encoding of policies.
    pub own_inserts_daily: u32,
    /// Entries are let go this many seconds after the signature was first seen.
    pub nursery_life: u64,
    /// Votes kept per signature. Lighter votes give way to heavier ones, and anchors always get in.
    pub votes_max: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            prior: (1.0, 1.0),
            anchor_prior: (60.0, 1.0),
            half_life_days: 30,
            debit_half_life_days: 7,
            weight_max: 2.5,
            ham_factor: 2.0,
            unanchored_spam_max: 5.0,
            unanchored_ham_max: 2.0,
            suspect_score: 4.0,
            suspect_groups: 2,
            block_score: 6.0,
            block_groups: 3,
            block_anchors: 1,
            anchors_beyond_doubt: 2,
            unrevoke_margin: 4.0,
            own_reports_needed: 1,
            settle_after: 48 * Time::HOUR,
            credit_early: 1.0,
            credit_daily_max: 5.0,
            debit_refuted: 10.0,
            debit_unconfirmed: 0.05,
            group_share: 0.02,
            own_share: 0.25,
            stranger_inserts_daily: 1_000,
            group_inserts_daily: 20_000,
            own_inserts_daily: 1_000_000,
            nursery_life: 14 * Time::DAY,
            votes_max: 64,
        }
    }
}

/// A policy that would not do what its fields say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A number that is not one, negative, or beyond what is kept.
    #[error("{field} is out of range")]
    OutOfRange {
        /// Its field.
        field: &'static str,
    },
    /// Two fields that do not go together.
    #[error("{why}")]
    Contradiction {
        /// Which, and how they should be.
        why: &'static str,
    },
}

impl Policy {
    /// Whether the policy makes sense.
    ///
    /// # Errors
    /// [`PolicyError`] names the first field that does not.
    pub fn check(&self) -> Result<(), PolicyError> {
        self.check_evidence()?;
        self.check_numbers()?;
        self.check_order()
    }

    /// Numbers of evidence: finite and within what is kept.
    fn check_evidence(&self) -> Result<(), PolicyError> {
        let above_zero = [
            ("prior", self.prior.0, EVIDENCE_MAX),
            ("prior", self.prior.1, EVIDENCE_MAX),
            ("anchor_prior", self.anchor_prior.0, EVIDENCE_MAX),
            ("anchor_prior", self.anchor_prior.1, EVIDENCE_MAX),
            ("weight_max", self.weight_max, WEIGHT_MAX),
            ("ham_factor", self.ham_factor, EVIDENCE_MAX),
            ("suspect_score", self.suspect_score, EVIDENCE_MAX),
            ("block_score", self.block_score, EVIDENCE_MAX),
            ("group_share", self.group_share, 1.0),
            ("own_share", self.own_share, 1.0),
        ];
        let from_zero = [
            ("unanchored_spam_max", self.unanchored_spam_max),
            ("unanchored_ham_max", self.unanchored_ham_max),
            ("unrevoke_margin", self.unrevoke_margin),
            ("credit_early", self.credit_early),
            ("credit_daily_max", self.credit_daily_max),
            ("debit_refuted", self.debit_refuted),
            ("debit_unconfirmed", self.debit_unconfirmed),
        ];
        let bad = above_zero.iter().find(|(_, value, most)| !(*value > 0.0 && value <= most)).map(|(field, ..)| *field);
        let bad = bad.or_else(|| from_zero.iter().find(|(_, v)| !(0.0..=EVIDENCE_MAX).contains(v)).map(|(f, _)| *f));
        bad.map_or(Ok(()), |field| Err(PolicyError::OutOfRange { field }))
    }

    /// Counts and times.
    fn check_numbers(&self) -> Result<(), PolicyError> {
        let seconds_max = u64::from(DAYS_MAX) * Time::DAY;
        let ranges = [
            ("half_life_days", u64::from(self.half_life_days), u64::from(DAYS_MAX)),
            ("debit_half_life_days", self.debit_half_life_days.into(), DAYS_MAX.into()),
            ("suspect_groups", self.suspect_groups.into(), VOTES_MAX.into()),
            ("block_groups", self.block_groups.into(), VOTES_MAX.into()),
            ("block_anchors", self.block_anchors.into(), VOTES_MAX.into()),
            ("anchors_beyond_doubt", self.anchors_beyond_doubt.into(), u32::MAX.into()),
            ("own_reports_needed", self.own_reports_needed.into(), VOTES_MAX.into()),
            ("settle_after", self.settle_after, seconds_max),
            ("nursery_life", self.nursery_life, seconds_max),
            ("stranger_inserts_daily", self.stranger_inserts_daily.into(), u32::MAX.into()),
            ("group_inserts_daily", self.group_inserts_daily.into(), u32::MAX.into()),
            ("own_inserts_daily", self.own_inserts_daily.into(), u32::MAX.into()),
            ("votes_max", self.votes_max.into(), VOTES_MAX.into()),
        ];
        let bad = ranges.iter().find(|(_, value, most)| *value == 0 || value > most);
        bad.map_or(Ok(()), |&(field, ..)| Err(PolicyError::OutOfRange { field }))
    }

    /// Fields that bound one another.
    fn check_order(&self) -> Result<(), PolicyError> {
        let rules = [
            (self.prior.0 <= self.prior.1, "prior must not favour a new identity"),
            (self.suspect_score <= self.block_score, "suspect_score must not exceed block_score"),
            (self.unanchored_spam_max < self.block_score, "unanchored_spam_max must be below block_score"),
            (self.settle_after < self.nursery_life, "settle_after must be shorter than nursery_life"),
            (self.group_share <= self.own_share, "group_share must not exceed own_share"),
            (self.block_groups <= self.votes_max, "block_groups must not exceed votes_max"),
            (self.own_reports_needed < self.votes_max, "own_reports_needed must be below votes_max"),
        ];
        let broken = rules.iter().find(|(holds, _)| !holds);
        broken.map_or(Ok(()), |&(_, why)| Err(PolicyError::Contradiction { why }))
    }

    /// What a reporter starts with.
    pub(super) const fn prior_of(&self, standing: Standing) -> (f64, f64) {
        if standing.is_anchor() { self.anchor_prior } else { self.prior }
    }

    /// New entries per day of a group with such a reporter.
    pub(super) const fn inserts_daily(&self, standing: Standing) -> u32 {
        match standing {
            Standing::Stranger => self.stranger_inserts_daily,
            Standing::Account | Standing::Pinned => self.group_inserts_daily,
            Standing::Own | Standing::Trap => self.own_inserts_daily,
        }
    }

    /// How many of `entries_max` entries may be charged to a group with such a reporter.
    pub(super) fn share(&self, standing: Standing, entries_max: u32) -> u32 {
        let share = match standing {
            Standing::Stranger | Standing::Account | Standing::Pinned => self.group_share,
            Standing::Own | Standing::Trap => self.own_share,
        };
        // Rounded down and within `entries_max`, as the share is at most one.
        ((f64::from(entries_max) * share) as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Policy)) -> Option<PolicyError> {
        let mut policy = Policy::default();
        change(&mut policy);
        policy.check().err()
    }

    #[test]
    fn the_default_makes_sense() {
        assert_eq!(Policy::default().check(), Ok(()));
    }

    #[test]
    fn what_is_no_number_or_out_of_range_is_refused_by_name() {
        let out = |field| Some(PolicyError::OutOfRange { field });
        assert_eq!(refused(|p| p.block_score = f64::NAN), out("block_score"));
        assert_eq!(refused(|p| p.weight_max = WEIGHT_MAX + 0.1), out("weight_max"));
        assert_eq!(refused(|p| p.weight_max = WEIGHT_MAX), None);
        assert_eq!(refused(|p| p.debit_refuted = -1.0), out("debit_refuted"));
        assert_eq!(refused(|p| p.debit_refuted = EVIDENCE_MAX), None);
        assert_eq!(refused(|p| p.votes_max = VOTES_MAX + 1), out("votes_max"));
        assert_eq!(refused(|p| p.votes_max = VOTES_MAX), None);
        assert_eq!(refused(|p| p.half_life_days = 0), out("half_life_days"));
        assert_eq!(refused(|p| p.half_life_days = DAYS_MAX), None);
        assert_eq!(refused(|p| p.half_life_days = DAYS_MAX + 1), out("half_life_days"));
    }

    #[test]
    fn fields_that_undo_one_another_are_refused() {
        let contradicts = |change: fn(&mut Policy)| matches!(refused(change), Some(PolicyError::Contradiction { .. }));
        assert!(contradicts(|p| p.prior = (2.0, 1.0)));
        assert!(contradicts(|p| p.unanchored_spam_max = 6.0));
        assert!(contradicts(|p| p.suspect_score = 7.0));
        assert!(contradicts(|p| p.nursery_life = p.settle_after));
        assert!(contradicts(|p| p.group_share = 0.5));
        assert!(contradicts(|p| p.own_reports_needed = p.votes_max));
    }

    #[test]
    fn a_share_is_never_nothing_and_never_more_than_all() {
        let policy = Policy { own_share: 1.0, ..Policy::default() };
        assert_eq!(policy.share(Standing::Account, 10), 1);
        assert_eq!(policy.share(Standing::Account, 1000), 20);
        assert_eq!(policy.share(Standing::Own, 1000), 1000);
    }
}
