//! The source of a request: its address and network.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bruit_engine::accounts::Account;
use bruit_engine::trust::{Reporter, Standing};
use bruit_filters::FingerprintKey;
use ipnet::IpNet;

/// Number of leading bits of an IPv4 address that identify a network.
const V4_BITS: u32 = 24;

/// Number of leading bits of an IPv6 address that identify a network. Providers assign such a prefix to one customer.
const V6_BITS: u32 = 48;

/// The source of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// The address. IPv4-mapped IPv6 addresses are converted to IPv4.
    pub(crate) address: IpAddr,
    /// True if the address is in one of the site's own networks.
    pub(crate) is_own: bool,
}

impl Source {
    pub(crate) fn new(address: IpAddr, own_networks: &[IpNet]) -> Self {
        let address = address.to_canonical();
        Self { address, is_own: own_networks.iter().any(|network| network.contains(&address)) }
    }

    /// Returns a keyed hash of the network, for limits and votes. Without the key, an attacker cannot find an address
    /// that shares the limits of another network.
    pub(crate) fn network(&self, key: &FingerprintKey) -> u64 {
        let mut bytes = *b"network:................";
        let (family, network) = match self.address {
            IpAddr::V4(address) => (4, v4_network(address).to_ipv6_mapped()),
            IpAddr::V6(address) => (6, v6_network(address)),
        };
        let (_, place) = bytes.split_at_mut(8);
        place.copy_from_slice(&network.octets());
        key.fingerprint(&bytes).high() ^ family
    }

    /// Returns the standing of a caller without an account.
    pub(crate) const fn standing(&self) -> Standing {
        if self.is_own { Standing::Own } else { Standing::Stranger }
    }

    /// Returns the standing of an account's holder. A standing assigned by the operator takes precedence. Otherwise, an
    /// account used from an own network has the standing `own`.
    pub(crate) const fn standing_as(&self, account: &Account) -> Standing {
        match account.standing {
            Standing::Account | Standing::Stranger if self.is_own => Standing::Own,
            standing => standing,
        }
    }

    /// Returns the reporter for a caller without an account. All loopback addresses count as one reporter, because a
    /// local user can use any of them.
    pub(crate) fn reporter(&self, key: &FingerprintKey) -> Reporter {
        let is_here = self.is_own && self.address.is_loopback();
        let speaker = Self { address: if is_here { Ipv4Addr::LOCALHOST.into() } else { self.address }, ..*self };
        let network = speaker.network(key);
        Reporter { id: network, standing: self.standing(), group: network }
    }

    /// Returns the reporter for a caller with this account.
    pub(crate) fn reporter_as(&self, name: &[u8], account: &Account, key: &FingerprintKey) -> Reporter {
        Reporter { id: account.reporter_id(name, key), standing: self.standing_as(account), group: account.group }
    }
}

fn v4_network(address: Ipv4Addr) -> Ipv4Addr {
    Ipv4Addr::from_bits(address.to_bits() & (u32::MAX << (32 - V4_BITS)))
}

fn v6_network(address: Ipv6Addr) -> Ipv6Addr {
    Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - V6_BITS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: FingerprintKey = FingerprintKey::new([3; 16]);

    fn source(address: &str) -> Source {
        Source::new(address.parse().unwrap(), &["127.0.0.0/8".parse().unwrap(), "2001:db8:1::/48".parse().unwrap()])
    }

    #[test]
    fn own_networks_are_told_apart_also_in_the_clothes_of_ipv6() {
        for address in ["127.0.0.1", "::ffff:127.1.2.3", "2001:db8:1::9"] {
            assert!(source(address).is_own, "{address}");
        }
        for address in ["192.0.2.1", "2001:db8:2::9", "::1"] {
            assert!(!source(address).is_own, "{address}");
        }
    }

    #[test]
    fn neighbours_are_one_source() {
        let network = |address| source(address).network(&KEY);
        assert_eq!(network("192.0.2.1"), network("192.0.2.255"));
        assert_eq!(network("192.0.2.1"), network("::ffff:192.0.2.9"));
        assert_ne!(network("192.0.2.1"), network("192.0.3.1"));
        assert_eq!(network("2001:db8:7::1"), network("2001:db8:7:ffff::1"));
        assert_ne!(network("2001:db8:7::1"), network("2001:db8:8::1"));
    }
}
