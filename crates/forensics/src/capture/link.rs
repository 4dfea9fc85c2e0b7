//! What a frame begins with.

/// The link layer of a frame, by what the capture says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Ethernet, with or without VLAN tags.
    Ethernet,
    /// An IP packet without anything before it.
    Ip,
    /// The BSD loopback: four bytes of address family, in the byte order of whoever captured.
    Loopback,
    /// Linux "cooked": 16 bytes, the protocol in the last two.
    LinuxCooked,
    /// Its second version: 20 bytes, the protocol in the first two.
    LinuxCookedV2,
    /// Anything else, by its number.
    Other(u16),
}

impl Link {
    /// From a number of the list that tcpdump.org keeps.
    #[must_use]
    pub const fn from_number(number: u16) -> Self {
        match number {
            0 | 108 => Self::Loopback,
            1 => Self::Ethernet,
            // Two of these are what BSDs and Linux once wrote for 101.
            12 | 14 | 101 | 228 | 229 => Self::Ip,
            113 => Self::LinuxCooked,
            276 => Self::LinuxCookedV2,
            number => Self::Other(number),
        }
    }
}
