//! All constants of the trust rules, with the attacks and mistakes that they limit.
//!
//! `docs/trust.md` explains the choices and the simulations. Servers may have different policies. A server's policy
//! determines the effects of events, so it is part of the state and only an event can change it.

use super::Standing;
use crate::time::Time;

/// Upper limit for `votes_max`. The limit is low because the evidence is summed again for every claim.
pub const VOTES_MAX: u32 = 256;

/// Upper limit for half-lives, the nursery's lifetime, and the time to settlement, in days.
pub const DAYS_MAX: u32 = 3_650;

/// Upper limit for the weight of a claim, because weights are stored in 16 bits.
pub const WEIGHT_MAX: f64 = 32.0;

/// Upper limit for amounts of evidence, because credits are stored in millionths, in 32 bits.
pub const EVIDENCE_MAX: f64 = 1_000.0;

/// The rules for weighing and storing claims.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Numbers of right and wrong claims that every reporter starts with. By default, they are equal, so that new
    /// identities have no weight at all, no matter how many are created.
    pub prior: (f64, f64),
    /// Numbers of right and wrong claims that every anchor starts with. The operator chose the anchors, so they start
    /// with the maximum weight and lose it only after many mistakes.
    pub anchor_prior: (f64, f64),
    /// Number of days after which half of a reporter's credit is forgotten, so that credit does not last for ever.
    pub half_life_days: u32,
    /// Number of days after which half of a reporter's debit is forgotten. Debits are forgotten faster than credits, so
    /// that an honest mistake is forgiven within days. A dishonest reporter will be wrong again before its debit is
    /// forgotten.
    pub debit_half_life_days: u32,
    /// Maximum weight of one group, in natural log-odds. By default, it is far below `block_score`, so that no
    /// reputation alone lists a signature.
    pub weight_max: f64,
    /// Factor for evidence for ham. A wrong listing costs more than a missed one.
    pub ham_factor: f64,
    /// Maximum of unanchored evidence for spam. It is below `block_score`, so that even patient attackers cannot list a
    /// signature alone.
    pub unanchored_spam_max: f64,
    /// Maximum of unanchored evidence for ham, so that identities created for an attack cannot suppress reports by
    /// anchors.
    pub unanchored_ham_max: f64,
    /// Minimum score of a suspect signature. Suspicion is a hint and never a reason to reject a message.
    pub suspect_score: f64,
    /// Minimum number of groups for a suspect signature, because a single voice is not enough.
    pub suspect_groups: u32,
    /// Minimum score for listing.
    pub block_score: f64,
    /// Minimum number of groups with weight for listing.
    pub block_groups: u32,
    /// Minimum number of anchored groups for listing. This minimum protects against identities that earned their trust
    /// for an attack.
    pub block_anchors: u32,
    /// If at least this many anchored groups report, unanchored revocations cannot prevent a listing.
    pub anchors_beyond_doubt: u32,
    /// Score required in addition to `block_score` to list a revoked signature again. This margin keeps a signature
    /// from alternating between listed and revoked.
    pub unrevoke_margin: f64,
    /// Number of own reporters whose reports list a signature at once. Sites with many users should raise this number.
    pub own_reports_needed: u32,
    /// Seconds from the first claim about a signature to its settlement. Until then, anchors can make their claims.
    pub settle_after: u64,
    /// Credit for a confirmed report made before the signature was listed, or a confirmed revocation made before an
    /// anchor revoked the signature. Later claims earn nothing, so that echoing does not pay.
    pub credit_early: f64,
    /// Maximum credit of a reporter per day. So it takes many days to earn trust, no matter how many claims are made.
    pub credit_daily_max: f64,
    /// Debit for a claim refuted by anchors. By default, it is as large as the credit for ten right claims.
    pub debit_refuted: f64,
    /// Debit for a claim that no anchor confirmed, so that random claims have a cost.
    pub debit_unconfirmed: f64,
    /// Maximum share of the nursery for entries charged to one group, so that no group can evict all others.
    pub group_share: f64,
    /// Maximum share of the nursery for a group of own reporters or traps, who receive more spam than others.
    pub own_share: f64,
    /// Maximum number of new entries of a stranger's network per day.
    pub stranger_inserts_daily: u32,
    /// Maximum number of new entries of a group of accounts or a pinned peer per day.
    pub group_inserts_daily: u32,
    /// Unused, and kept only for the encoding of policies. Own reporters and traps are limited by their quotas for the
    /// books.
    pub own_inserts_daily: u32,
    /// Seconds from the first claim about a signature to the removal of its entry.
    pub nursery_life: u64,
    /// Maximum number of votes per signature. Heavier votes replace lighter ones, and an anchor's vote is always
    /// stored.
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

/// Error for an invalid policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A number is too small, too large or not finite.
    #[error("{field} is out of range")]
    OutOfRange {
        /// Name of the field.
        field: &'static str,
    },
    /// Two fields contradict each other.
    #[error("{why}")]
    Contradiction {
        /// Names of the fields, and the rule that they break.
        why: &'static str,
    },
}

impl Policy {
    /// Checks that the policy is valid.
    ///
    /// # Errors
    /// [`PolicyError`] for the first invalid field.
    pub fn check(&self) -> Result<(), PolicyError> {
        self.check_evidence()?;
        self.check_numbers()?;
        self.check_order()
    }

    /// Checks that amounts of evidence are finite and within the limits of storage.
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

    /// Checks counts and times.
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

    /// Checks the fields that limit other fields.
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

    /// Returns the claims that a reporter starts with.
    pub(super) const fn prior_of(&self, standing: Standing) -> (f64, f64) {
        if standing.is_anchor() { self.anchor_prior } else { self.prior }
    }

    /// Returns the maximum number of new entries per day for the group of a reporter with this standing.
    pub(super) const fn inserts_daily(&self, standing: Standing) -> u32 {
        match standing {
            Standing::Stranger => self.stranger_inserts_daily,
            Standing::Account | Standing::Pinned => self.group_inserts_daily,
            Standing::Own | Standing::Trap => self.own_inserts_daily,
        }
    }

    /// Returns the maximum number of entries, out of `entries_max`, that may be charged to the group of a reporter with
    /// this standing.
    pub(super) fn share(&self, standing: Standing, entries_max: u32) -> u32 {
        let share = match standing {
            Standing::Stranger | Standing::Account | Standing::Pinned => self.group_share,
            Standing::Own | Standing::Trap => self.own_share,
        };
        // The product is rounded down. It is at most `entries_max`, because the share is at most one.
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
    fn the_default_policy_is_valid() {
        assert_eq!(Policy::default().check(), Ok(()));
    }

    #[test]
    fn fields_that_are_nan_or_out_of_range_are_refused_by_name() {
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
    fn contradictory_fields_are_refused() {
        let contradicts = |change: fn(&mut Policy)| matches!(refused(change), Some(PolicyError::Contradiction { .. }));
        assert!(contradicts(|p| p.prior = (2.0, 1.0)));
        assert!(contradicts(|p| p.unanchored_spam_max = 6.0));
        assert!(contradicts(|p| p.suspect_score = 7.0));
        assert!(contradicts(|p| p.nursery_life = p.settle_after));
        assert!(contradicts(|p| p.group_share = 0.5));
        assert!(contradicts(|p| p.own_reports_needed = p.votes_max));
    }

    #[test]
    fn a_share_is_at_least_one_entry_and_at_most_all() {
        let policy = Policy { own_share: 1.0, ..Policy::default() };
        assert_eq!(policy.share(Standing::Account, 10), 1);
        assert_eq!(policy.share(Standing::Account, 1000), 20);
        assert_eq!(policy.share(Standing::Own, 1000), 1000);
    }
}
