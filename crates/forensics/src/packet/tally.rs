//! Why frames had no packet for us, and how many.

use std::fmt;

/// Why there is no packet in a frame, or why a packet was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecoded {
    /// A link layer that we do not know.
    #[error("unknown link layer")]
    UnknownLink,
    /// ARP, a switch's own talk, or anything else that is not IP.
    #[error("not IP")]
    NotIp,
    /// A header goes on where the captured bytes end.
    #[error("cut within a header")]
    Truncated,
    /// A header that contradicts itself.
    #[error("malformed header")]
    Malformed,
    /// More tags or tunnels than [`VLAN_TAGS_MAX`](super::VLAN_TAGS_MAX) and
    /// [`ENCAPSULATION_MAX`](super::ENCAPSULATION_MAX).
    #[error("encapsulated too deep")]
    TooDeep,
}

impl Undecoded {
    /// Every reason.
    pub const ALL: [Self; 5] = [Self::UnknownLink, Self::NotIp, Self::Truncated, Self::Malformed, Self::TooDeep];
}

/// How many frames had no packet, or packets were not opened, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally([u64; Undecoded::ALL.len()]);

impl Tally {
    /// Counts one more.
    pub const fn count(&mut self, reason: Undecoded) {
        self.0[reason as usize] += 1;
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Reasons that occurred, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (Undecoded, u64)> {
        Undecoded::ALL.into_iter().zip(self.0).filter(|&(_, count)| count > 0)
    }
}

impl fmt::Display for Tally {
    /// `3 not IP, 1 malformed header`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (reason, count)) in self.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{count} {reason}")?;
        }
        Ok(())
    }
}
