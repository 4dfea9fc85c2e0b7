//! Recipient counts. Some values have a special meaning.

use std::cmp::Ordering;

use super::items::Kind;

/// Maximum number of recipients in one report.
pub const TARGETS_MAX: u32 = 2000;

/// Bit in a report: the client declares that the message is spam.
const SPAM_BIT: u32 = 1 << 24;
/// Bit in a report: the client has reported the message before, and reports it again because the sender's reputation
/// makes it spam.
const SECOND_BIT: u32 = 1 << 25;

/// A total as sent on the wire: a number or a special value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Count(u32);

/// Totals for one checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Totals {
    /// Total including this report.
    pub current: Count,
    /// Total before this report.
    pub previous: Count,
}

/// Number of recipients in a report, and its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Targets {
    /// Number of recipients, at most [`TARGETS_MAX`].
    pub count: u32,
    /// True if the client declares that the message is spam.
    pub is_spam: bool,
    /// True if the message was reported before, so that its recipients are already counted.
    pub is_second: bool,
}

impl Count {
    /// "Many": the message was declared spam, or the counter is saturated.
    pub const TOO_MANY: Self = Self(0xff_fff0);
    /// Whitelisted on the server.
    pub const OK: Self = Self(0xff_fff1);
    /// Half whitelisted.
    pub const OK2: Self = Self(0xff_fff2);
    /// Invalid. As a previous total, it means that the server does not keep checksums of this kind.
    pub const INVALID: Self = Self(0x0100_0000);

    /// Creates a count from a number, saturating at [`TOO_MANY`](Self::TOO_MANY).
    #[must_use]
    pub const fn number(number: u32) -> Self {
        if number < Self::TOO_MANY.0 { Self(number) } else { Self::TOO_MANY }
    }

    /// Converts from the bits on the wire.
    #[must_use]
    pub const fn from_word(word: u32) -> Self {
        Self(word)
    }

    /// Returns the bits on the wire.
    #[must_use]
    pub const fn word(self) -> u32 {
        self.0
    }

    /// Adds two counts. OK absorbs OK2, OK2 absorbs "many", and "many" absorbs numbers.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        match self.rank().cmp(&other.rank()) {
            Ordering::Greater => self,
            Ordering::Less => other,
            Ordering::Equal if self.rank() == 0 => Self::number(self.0.saturating_add(other.0)),
            Ordering::Equal => self,
        }
    }

    const fn rank(self) -> u8 {
        match self {
            Self::OK => 3,
            Self::OK2 => 2,
            Self::TOO_MANY => 1,
            _ => 0,
        }
    }
}

impl Totals {
    /// Totals for a checksum of a kind that the server does not keep.
    pub const NOT_KEPT: Self = Self { current: Count(0), previous: Count::INVALID };

    /// Returns the totals of a checksum that was only queried, or was reported but not counted.
    #[must_use]
    pub const fn unchanged(count: Count) -> Self {
        Self { current: count, previous: count }
    }
}

impl Kind {
    /// Returns true if servers count this kind. Other checksums differ for every message, or do not depend on its text.
    #[must_use]
    pub const fn is_kept(self) -> bool {
        matches!(self, Self::Body | Self::Fuz1 | Self::Fuz2)
    }
}

impl Targets {
    /// Decodes a report's number of recipients. Returns `None` if the server must not answer the report.
    pub(super) fn read(word: u32) -> Option<Self> {
        if word & !(SPAM_BIT | SECOND_BIT | 0xff_ffff) != 0 {
            return None;
        }
        let (count, is_second) = (word & 0xff_ffff, word & SECOND_BIT != 0);
        let is_spam = word & SPAM_BIT != 0 || is_second || word == Count::TOO_MANY.0;
        match is_spam {
            true => Some(Self { count: count.clamp(1, TARGETS_MAX), is_spam, is_second }),
            false => (count <= TARGETS_MAX).then_some(Self { count, is_spam, is_second }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_stop_at_many() {
        let high = Count::number(0xff_ffef);
        assert_eq!(high.word(), 0xff_ffef);
        assert_eq!(high.plus(Count::number(0)), high);
        assert_eq!(high.plus(Count::number(1)), Count::TOO_MANY);
        assert_eq!(Count::number(u32::MAX), Count::TOO_MANY);
    }

    #[test]
    fn marks_absorb_by_rank() {
        let ascending = [Count::number(7), Count::TOO_MANY, Count::OK2, Count::OK];
        for (index, low) in ascending.into_iter().enumerate() {
            for high in ascending.into_iter().skip(index + 1) {
                assert_eq!((low.plus(high), high.plus(low)), (high, high));
            }
        }
        assert_eq!(Count::OK.plus(Count::OK), Count::OK);
    }

    #[test]
    fn targets_are_bounded_unless_they_are_spam() {
        let plain = |count| Some(Targets { count, is_spam: false, is_second: false });
        let spam = |count| Some(Targets { count, is_spam: true, is_second: false });
        assert_eq!(Targets::read(0), plain(0));
        assert_eq!(Targets::read(TARGETS_MAX), plain(TARGETS_MAX));
        assert_eq!(Targets::read(TARGETS_MAX + 1), None);
        assert_eq!(Targets::read(0x0100_0000), spam(1));
        assert_eq!(Targets::read(0x0100_0000 + TARGETS_MAX + 1), spam(TARGETS_MAX));
        assert_eq!(Targets::read(0x00ff_fff0), spam(TARGETS_MAX));
        assert_eq!(Targets::read(0x0200_0003), Some(Targets { count: 3, is_spam: true, is_second: true }));
        for word in [0x00ff_fff1, 0x0400_0001, 0x8100_0001, u32::MAX] {
            assert_eq!(Targets::read(word), None, "{word:x}");
        }
    }
}
