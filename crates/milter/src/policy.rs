//! The action for each verdict.

use bruit_client::http::{Checked, Reason, Verdict};
use serde::Deserialize;

/// The treatment of a message.
///
/// The order is the order of severity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Deliver it unchanged.
    Accept,
    /// Deliver it with the verdict in a header field.
    #[default]
    Tag,
    /// Tag it and let the MTA hold it.
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
    /// Minimum confidence for that action. Below it, spam is tagged.
    pub spam_confidence: u8,
    /// Action for bulk mail.
    pub bulk: Action,
    /// Minimum number of recipients of bulk mail. If unset, the server's threshold applies.
    pub bulk_recipients: Option<u32>,
    /// Action for suspected mail.
    pub suspect: Action,
    /// Minimum confidence for that action. Below it, suspected mail is tagged.
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

    /// Returns the action for evidence below its threshold: at most a tag.
    fn below_threshold(self) -> Self {
        self.min(Self::Tag)
    }
}

impl Class {
    /// All classes.
    pub(crate) const ALL: [Self; 5] = [Self::Spam, Self::Bulk, Self::Suspect, Self::Unknown, Self::Ham];

    /// Returns the class of a message.
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
    /// Returns the action for a message.
    pub(crate) fn action(&self, checked: &Checked) -> Action {
        let confident = |action: Action, least: u8| {
            if checked.confidence >= least { action } else { action.below_threshold() }
        };
        match Class::of(checked) {
            Class::Spam => confident(self.spam, self.spam_confidence),
            Class::Suspect => confident(self.suspect, self.suspect_confidence),
            Class::Bulk if self.bulk_recipients.is_none_or(|least| checked.bulk_count >= least) => self.bulk,
            Class::Bulk => self.bulk.below_threshold(),
            Class::Unknown | Class::Ham => Action::Tag,
        }
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(action(Verdict::Unknown, "not_reported", 0, 99), Action::Tag);
        assert_eq!(action(Verdict::Ham, "revoked", 0, 99), Action::Tag);
    }

    #[test]
    fn accepted_classes_are_not_tagged_below_their_threshold() {
        let policy = Policy { spam: Action::Accept, spam_confidence: 90, ..Policy::default() };
        assert_eq!(policy.action(&checked(Verdict::Spam, "own_reports", 80, 0)), Action::Accept);
    }
}
