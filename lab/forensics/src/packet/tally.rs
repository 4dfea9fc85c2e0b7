//! Counts, by reason, of frames without a packet.

use std::fmt;

/// The reason why a frame has no packet, or why an inner packet was not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undecoded {
    /// Unsupported link layer.
    #[error("unknown link layer")]
    UnknownLink,
    /// ARP, a protocol between switches, or another protocol that is not IP.
    #[error("not IP")]
    NotIp,
    /// The captured bytes end within a header.
    #[error("truncated within a header")]
    Truncated,
    /// A header is inconsistent.
    #[error("malformed header")]
    Malformed,
    /// There are more than [`VLAN_TAGS_MAX`](super::VLAN_TAGS_MAX) tags, or more than
    /// [`ENCAPSULATION_MAX`](super::ENCAPSULATION_MAX) tunnels.
    #[error("encapsulated too deeply")]
    TooDeep,
}

impl Undecoded {
    /// All reasons.
    pub const ALL: [Self; 5] = [Self::UnknownLink, Self::NotIp, Self::Truncated, Self::Malformed, Self::TooDeep];
}

/// Number of frames without a packet, or of inner packets that were not decoded, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally([u64; Undecoded::ALL.len()]);

impl Tally {
    /// Counts one frame.
    pub const fn count(&mut self, reason: Undecoded) {
        self.0[reason as usize] += 1;
    }

    /// Returns the sum over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Iterates over the reasons with a count above 0.
    pub fn iter(&self) -> impl Iterator<Item = (Undecoded, u64)> {
        Undecoded::ALL.into_iter().zip(self.0).filter(|&(_, count)| count > 0)
    }
}

impl fmt::Display for Tally {
    /// Formats the tally as in `3 not IP, 1 malformed header`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (reason, count)) in self.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{count} {reason}")?;
        }
        Ok(())
    }
}
