//! Link layers.

/// Link layer of a frame, according to the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Ethernet, with or without VLAN tags.
    Ethernet,
    /// An IP packet without a link header.
    Ip,
    /// BSD loopback: a four-byte address family in the byte order of the capturing host.
    Loopback,
    /// Linux "cooked" capture: a header of 16 bytes, with the protocol in the last two.
    LinuxCooked,
    /// Second version of Linux "cooked" capture: a header of 20 bytes, with the protocol in the first two.
    LinuxCookedV2,
    /// Any other link layer, by its number.
    Other(u16),
}

impl Link {
    /// Converts a link type as listed on tcpdump.org.
    #[must_use]
    pub const fn from_number(number: u16) -> Self {
        match number {
            0 | 108 => Self::Loopback,
            1 => Self::Ethernet,
            // Some systems used to write 12 or 14, their own numbers for DLT_RAW, instead of the official 101.
            12 | 14 | 101 | 228 | 229 => Self::Ip,
            113 => Self::LinuxCooked,
            276 => Self::LinuxCookedV2,
            number => Self::Other(number),
        }
    }
}
