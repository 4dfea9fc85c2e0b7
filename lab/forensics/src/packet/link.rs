//! Headers before the IP header.

use super::{Undecoded, VLAN_TAGS_MAX};
use crate::capture::Link;

pub(super) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(super) const ETHERTYPE_IPV6: u16 = 0x86dd;
/// Ethernet types of VLAN tags: 802.1Q, 802.1ad, and QinQ from before it was standardised.
const ETHERTYPES_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];

const ADDRESSES_BYTES: usize = 12;
const VLAN_TAG_BYTES: usize = 2;
const LOOPBACK_BYTES: usize = 4;
const COOKED_PROTOCOL_AT: usize = 14;
const COOKED_V2_BYTES: usize = 20;

/// Returns the IP packet of a frame, starting with its header.
pub(super) fn strip(link: Link, bytes: &[u8]) -> Result<&[u8], Undecoded> {
    match link {
        Link::Ethernet => typed(skip(bytes, ADDRESSES_BYTES)?),
        Link::Ip => Ok(bytes),
        // Ignore the address family: its values differ between systems, and the IP header contains the version.
        Link::Loopback => skip(bytes, LOOPBACK_BYTES),
        Link::LinuxCooked => typed(skip(bytes, COOKED_PROTOCOL_AT)?),
        Link::LinuxCookedV2 => {
            let (ethertype, _) = ethertype(bytes)?;
            of_ethertype(ethertype, skip(bytes, COOKED_V2_BYTES)?)
        }
        Link::Other(_) => Err(Undecoded::UnknownLink),
    }
}

/// Returns the IP packet after the two Ethernet addresses. Also used for tunnels that carry whole frames.
pub(super) fn ethernet(bytes: &[u8]) -> Result<&[u8], Undecoded> {
    strip(Link::Ethernet, bytes)
}

/// Returns the IP packet after a two-byte type.
fn typed(bytes: &[u8]) -> Result<&[u8], Undecoded> {
    let (ethertype, rest) = ethertype(bytes)?;
    of_ethertype(ethertype, rest)
}

fn of_ethertype(mut kind: u16, mut bytes: &[u8]) -> Result<&[u8], Undecoded> {
    for _ in 0..=VLAN_TAGS_MAX {
        match kind {
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => return Ok(bytes),
            kind if !ETHERTYPES_VLAN.contains(&kind) => return Err(Undecoded::NotIp),
            _ => (kind, bytes) = ethertype(skip(bytes, VLAN_TAG_BYTES)?)?,
        }
    }
    Err(Undecoded::TooDeep)
}

/// Splits off two bytes.
pub(super) fn ethertype(bytes: &[u8]) -> Result<(u16, &[u8]), Undecoded> {
    let (kind, rest) = bytes.split_first_chunk::<2>().ok_or(Undecoded::Truncated)?;
    Ok((u16::from_be_bytes(*kind), rest))
}

pub(super) fn skip(bytes: &[u8], count: usize) -> Result<&[u8], Undecoded> {
    bytes.get(count..).ok_or(Undecoded::Truncated)
}
