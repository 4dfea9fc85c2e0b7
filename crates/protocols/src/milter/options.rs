//! Negotiation of the version, the changes that the milter may make, and the steps that it wants to see.

use std::ops::{BitAnd, BitOr};

/// The version of the protocol that a milter of this module speaks.
pub const VERSION: u32 = 6;

/// The oldest version that an MTA may offer.
pub const VERSION_MIN: u32 = 2;

/// The first command of a connection and its answer: the MTA offers, and the milter selects from the offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The version.
    pub version: u32,
    /// The changes that the milter may make.
    pub actions: Actions,
    /// Properties of the conversation, such as the steps that the MTA skips.
    pub steps: Steps,
}

/// A set of changes to a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions(pub u32);

/// A set of properties of the conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steps(pub u32);

/// A stage of an SMTP session for which the milter can request macros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stage {
    /// The connection.
    Connect = 0,
    /// The sender.
    Mail = 2,
    /// Each recipient.
    Recipient = 3,
    /// The end of the message.
    EndOfMessage = 5,
}

impl Actions {
    /// Add header fields.
    pub const ADD_HEADERS: Self = Self(0x01);
    /// Add recipients.
    pub const ADD_RECIPIENTS: Self = Self(0x04);
    /// Remove recipients.
    pub const DELETE_RECIPIENTS: Self = Self(0x08);
    /// Change and remove header fields.
    pub const CHANGE_HEADERS: Self = Self(0x10);
    /// Hold the message.
    pub const QUARANTINE: Self = Self(0x20);
    /// Request macros by name.
    pub const SET_MACROS: Self = Self(0x100);

    /// Returns true if all of `others` are in the set.
    #[must_use]
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl Steps {
    /// The MTA does not send HELO.
    pub const NO_HELO: Self = Self(0x02);
    /// The MTA does not send the end of the header.
    pub const NO_END_OF_HEADER: Self = Self(0x40);
    /// The milter does not answer header fields.
    pub const NO_REPLY_HEADER: Self = Self(0x80);
    /// The MTA does not send unknown SMTP commands.
    pub const NO_UNKNOWN: Self = Self(0x100);
    /// The MTA does not send DATA.
    pub const NO_DATA: Self = Self(0x200);
    /// The MTA also sends the recipients that it has refused.
    pub const REFUSED_RECIPIENTS: Self = Self(0x800);
    /// The milter does not answer HELO.
    pub const NO_REPLY_HELO: Self = Self(0x2000);
    /// The milter does not answer the sender.
    pub const NO_REPLY_MAIL: Self = Self(0x4000);
    /// The milter does not answer recipients.
    pub const NO_REPLY_RECIPIENT: Self = Self(0x8000);
    /// The milter does not answer DATA.
    pub const NO_REPLY_DATA: Self = Self(0x1_0000);
    /// The milter does not answer unknown SMTP commands.
    pub const NO_REPLY_UNKNOWN: Self = Self(0x2_0000);
    /// The milter does not answer the end of the header.
    pub const NO_REPLY_END_OF_HEADER: Self = Self(0x4_0000);
    /// The milter does not answer pieces of the body.
    pub const NO_REPLY_BODY: Self = Self(0x8_0000);
    /// Header values keep their leading space, in both directions.
    pub const LEADING_SPACE: Self = Self(0x10_0000);

    /// Returns true if all of `others` are in the set.
    #[must_use]
    pub const fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitOr for Actions {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Actions {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Steps {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitAnd for Steps {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Options {
    /// Returns the options for the milter's answer: those of `wanted` that the MTA offers.
    ///
    /// Returns `None` if the MTA speaks only versions before [`VERSION_MIN`].
    #[must_use]
    pub fn select(self, wanted: Self) -> Option<Self> {
        let version = self.version.min(wanted.version);
        let is_known = version >= VERSION_MIN;
        is_known.then(|| Self { version, actions: self.actions & wanted.actions, steps: self.steps & wanted.steps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_selected_that_was_not_offered() {
        let wanted = Options {
            version: VERSION,
            actions: Actions::ADD_HEADERS | Actions::QUARANTINE,
            steps: Steps::NO_HELO | Steps::LEADING_SPACE,
        };
        let offer = |version, actions, steps| Options { version, actions: Actions(actions), steps: Steps(steps) };
        let full = offer(6, 0x1ff, 0x1f_ffff);
        assert_eq!(full.select(wanted), Some(wanted));
        assert_eq!(offer(6, 0x01, 0).select(wanted), Some(offer(6, 0x01, 0)));
        assert_eq!(offer(7, 0, 0).select(wanted).unwrap().version, 6);
        assert_eq!(offer(2, 0x3f, 0x7f).select(wanted), Some(offer(2, 0x21, 0x02)));
        assert_eq!(offer(1, 0, 0).select(wanted), None);
    }
}
