//! The action for each verdict.

use bruit_client::http::{Checked, Reason, Verdict};
use serde::Deserialize;

/// The treatment of a message.
///
/// The variants are in order of severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Deliver it unchanged.
    Accept,
    /// Deliver it with the verdict in a header field.
    #[default]
    Tag,
    /// Tag it, and have the MTA hold it.
    Quarantine,
    /// Refuse it for now. The sender's MTA tries again.
    Defer,
    /// Refuse it.
    Reject,
}

/// The actions for one recipient.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Action for spam.
    pub spam: Action,
    /// Minimum confidence at which the action for spam is taken. Below it, spam is tagged or, if that action is
    /// `Accept`, delivered unchanged.
    pub spam_confidence: u8,
    /// Action for bulk mail.
    pub bulk: Action,
    /// Minimum number of recipients of bulk mail. If unset, the server's threshold applies.
    pub bulk_recipients: Option<u32>,
    /// Action for suspected mail.
    pub suspect: Action,
    /// Minimum confidence at which the action for suspected mail is taken. Below it, suspected mail is tagged or, if
    /// that action is `Accept`, delivered unchanged.
    pub suspect_confidence: u8,
}

/// The class of a message, which selects the action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    Spam,
    Bulk,
    Suspect,
    Unknown,
    Ham,
}

impl Action {
    /// All actions, the mildest first.
    pub(crate) const ALL: [Self; 5] = [Self::Accept, Self::Tag, Self::Quarantine, Self::Defer, Self::Reject];

    /// Returns the name in the configuration.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Tag => "tag",
            Self::Quarantine => "quarantine",
            Self::Defer => "defer",
            Self::Reject => "reject",
        }
    }

    /// Returns the action to take if the evidence is below the threshold for this action: at most a tag.
    fn below_threshold(self) -> Self {
        self.min(Self::Tag)
    }
}

impl Class {
    /// All classes.
    pub(crate) const ALL: [Self; 5] = [Self::Spam, Self::Bulk, Self::Suspect, Self::Unknown, Self::Ham];

    /// Returns the class of a message in the server's judgement.
    pub(crate) fn of(checked: &Checked) -> Self {
        match checked.verdict {
            Verdict::Spam => Self::Spam,
            Verdict::Bulk => Self::Bulk,
            Verdict::Unknown if checked.reason == Reason::Suspected => Self::Suspect,
            Verdict::Unknown => Self::Unknown,
            Verdict::Ham => Self::Ham,
        }
    }

    /// Returns the name in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Spam => "spam",
            Self::Bulk => "bulk",
            Self::Suspect => "suspect",
            Self::Unknown => "unknown",
            Self::Ham => "ham",
        }
    }
}

impl Policy {
    /// Returns true if a message is bulk for this recipient.
    ///
    /// The server applies only one threshold. If this recipient has a different threshold, the number of recipients is
    /// compared with the recipient's threshold. But a message that the server may have exempted from bulk verdicts
    /// stays exempt.
    pub(crate) fn is_bulk(&self, checked: &Checked) -> bool {
        match (checked.verdict, self.bulk_recipients) {
            (Verdict::Bulk, None) => true,
            (Verdict::Bulk, Some(least)) => checked.bulk_count >= least,
            (Verdict::Unknown, Some(least)) => {
                let is_lower = checked.bulk_threshold.is_none_or(|applied| least < applied);
                is_lower && checked.bulk_count >= least && !may_be_exempt(checked)
            }
            _ => false,
        }
    }

    /// Returns the action for a message.
    pub(crate) fn action(&self, checked: &Checked) -> Action {
        let confident = |action: Action, least: u8| {
            if checked.confidence >= least { action } else { action.below_threshold() }
        };
        if self.is_bulk(checked) {
            return self.bulk;
        }
        match Class::of(checked) {
            Class::Spam => confident(self.spam, self.spam_confidence),
            Class::Suspect => confident(self.suspect, self.suspect_confidence),
            Class::Bulk => self.bulk.below_threshold(),
            Class::Unknown | Class::Ham => Action::Tag,
        }
    }
}

/// Returns true if a whitelist may be the reason why a message is not bulk: the server counted none of its recipients,
/// or a signature is whitelisted.
fn may_be_exempt(checked: &Checked) -> bool {
    checked.count_reason.is_some() || checked.signatures.iter().any(|signature| signature.reason == Reason::Whitelisted)
}

#[cfg(test)]
mod tests {
    use bruit_client::http::CheckedSignature;

    use super::*;

    fn checked(verdict: Verdict, reason: &str, confidence: u8, bulk_count: u32) -> Checked {
        Checked { verdict, reason: reason.into(), confidence, bulk_count, ..Checked::default() }
    }

    #[test]
    fn a_threshold_separates_the_action_from_a_tag() {
        let policy = Policy {
            spam: Action::Reject,
            spam_confidence: 90,
            bulk: Action::Quarantine,
            bulk_recipients: Some(20),
            suspect: Action::Defer,
            suspect_confidence: 50,
        };
        let action = |verdict, reason, confidence, count| policy.action(&checked(verdict, reason, confidence, count));
        assert_eq!(action(Verdict::Spam, "own_reports", 90, 0), Action::Reject);
        assert_eq!(action(Verdict::Spam, "own_reports", 89, 0), Action::Tag);
        assert_eq!(action(Verdict::Bulk, "many_recipients", 0, 20), Action::Quarantine);
        assert_eq!(action(Verdict::Bulk, "many_recipients", 0, 19), Action::Tag);
        assert_eq!(action(Verdict::Unknown, "suspected", 50, 0), Action::Defer);
        assert_eq!(action(Verdict::Unknown, "suspected", 49, 0), Action::Tag);
        assert_eq!(action(Verdict::Ham, "revoked", 0, 99), Action::Tag);
    }

    /// The server applies one threshold, which must neither raise nor lower a recipient's own threshold.
    #[test]
    fn each_recipient_has_its_own_threshold_for_bulk_mail() {
        let own = Policy { bulk: Action::Reject, bulk_recipients: Some(50), ..Policy::default() };
        let of_server = Policy { bulk_recipients: None, ..own };
        let unknown = checked(Verdict::Unknown, "not_reported", 0, 60);
        assert_eq!((own.action(&unknown), of_server.action(&unknown)), (Action::Reject, Action::Tag));
        let suspect = checked(Verdict::Unknown, "suspected", 40, 60);
        assert_eq!((own.action(&suspect), of_server.action(&suspect)), (Action::Reject, Action::Tag));
        let bulk = checked(Verdict::Bulk, "many_recipients", 0, 40);
        assert_eq!((own.action(&bulk), of_server.action(&bulk)), (Action::Tag, Action::Reject));
        for verdict in [Verdict::Spam, Verdict::Ham] {
            assert_eq!(own.action(&checked(verdict, "revoked", 0, 60)), Action::Tag, "{verdict}");
        }
    }

    #[test]
    fn whitelisted_mail_is_not_bulk_for_a_recipient_with_a_threshold() {
        let own = Policy { bulk: Action::Reject, bulk_recipients: Some(50), ..Policy::default() };
        let listed = checked(Verdict::Unknown, "not_reported", 0, 60);
        let by_list = Checked { count_reason: Some("the mailing list is whitelisted".into()), ..listed.clone() };
        let whitelisted = CheckedSignature { reason: "whitelisted".into(), ..CheckedSignature::default() };
        let by_signature = Checked { signatures: vec![whitelisted], ..listed.clone() };
        let by_verdict = Checked { bulk_threshold: Some(50), ..listed };
        for exempt in [by_list, by_signature, by_verdict] {
            assert_eq!(own.action(&exempt), Action::Tag, "{exempt:?}");
        }
    }

    #[test]
    fn accepted_classes_are_not_tagged_below_their_threshold() {
        let policy = Policy { spam: Action::Accept, spam_confidence: 90, ..Policy::default() };
        assert_eq!(policy.action(&checked(Verdict::Spam, "own_reports", 80, 0)), Action::Accept);
    }
}
