//! Detects packets whose digest does not reliably show their path.
//!
//! A digest shows the path of a packet as long as routers leave its invariant unchanged. The packets that this module
//! detects were, or may have been, made from other packets on the way. Routers before that point saw the other packets,
//! not these, so "not seen" proves nothing there.
//!
//! Some changes cannot be seen in a packet. They are declared in the topology: a router that translates addresses or
//! ends a tunnel [rewrites](super::Router::rewrites) packets.

use crate::packet::{Fragment, Packet};

const PROTOCOL_ICMP: u8 = 1;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_ESP: u8 = 50;
const PROTOCOL_ICMPV6: u8 = 58;

/// The ICMP types that quote a packet (RFC 792): destination unreachable, source quench, redirect, time exceeded,
/// parameter problem.
const ICMP_ERRORS: [u8; 5] = [3, 4, 5, 11, 12];
/// The ICMPv6 types that quote a packet (RFC 4443): destination unreachable, packet too big, time exceeded, parameter
/// problem.
const ICMPV6_ERRORS: [u8; 4] = [1, 2, 3, 4];
/// Length of the ICMP header before the quoted packet.
const ICMP_HEADER_BYTES: usize = 8;

/// IANA numbers of the protocols that carry packets which this crate did not decode: fragments of IP in IP, other kinds
/// of GRE, minimal encapsulation, IPIP, EtherIP, encapsulation, L2TP and MPLS in IP. The list does not cover decoded
/// tunnels, because the packet's protocol is then that of the inner packet.
const TUNNEL_PROTOCOLS: [u8; 9] = [4, 41, 47, 55, 94, 97, 98, 115, 137];
/// The usual ports of L2TP, GTP-U, Teredo, IPsec behind address translation, VXLAN, Geneve and WireGuard.
const TUNNEL_PORTS: [u16; 7] = [1701, 2152, 3544, 4500, 4789, 6081, 51820];

/// The reason why the digest of a packet may not show its whole path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Doubt {
    /// A router may have split off the fragment from a larger packet, which has another digest.
    #[error("it is a fragment: routers before the one that split the packet saw only the whole packet")]
    Fragment,
    /// The packet belongs to a tunnel and carries packets that cannot be decoded.
    #[error("it carries another packet, which cannot be read: routers before the tunnel saw only that inner packet")]
    Tunnel,
    /// A router or host sent the packet in response to another packet, which is quoted in it.
    #[error("it is an ICMP error: a router or host sent it about another packet; trace that packet with --quoted")]
    IcmpError,
    /// The length is 0, or too large for any link: a network card has joined several packets, or has not split the
    /// packet yet.
    #[error("its length is impossible on a link: the network card had not split it yet, or had joined several packets")]
    Offload,
}

impl Doubt {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Fragment, Self::Tunnel, Self::IcmpError, Self::Offload];

    /// Returns the first reason that applies to `packet`.
    #[must_use]
    pub fn of_packet(packet: &Packet<'_>) -> Option<Self> {
        if packet.fragment != Fragment::Whole {
            Some(Self::Fragment)
        } else if packet.unopened.is_some() || is_tunnel(packet) {
            Some(Self::Tunnel)
        } else if quoted(packet).is_some() {
            Some(Self::IcmpError)
        } else if is_offloaded(packet.header) {
            Some(Self::Offload)
        } else {
            None
        }
    }

    /// Returns the machine-readable name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fragment => "fragment",
            Self::Tunnel => "tunnel",
            Self::IcmpError => "icmp_error",
            Self::Offload => "offload",
        }
    }
}

/// Number of recorded packets with each [`Doubt`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoubtTally([u64; Doubt::ALL.len()]);

impl DoubtTally {
    /// Counts one packet.
    pub const fn count(&mut self, doubt: Doubt) {
        self.0[doubt as usize] += 1;
    }

    /// Returns the sum over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Iterates over the reasons with a count above 0.
    pub fn iter(&self) -> impl Iterator<Item = (Doubt, u64)> {
        Doubt::ALL.into_iter().zip(self.0).filter(|&(_, count)| count > 0)
    }
}

/// Returns the packet quoted in an ICMP error, starting with its IP header: at least the header and 8 bytes more,
/// enough for an [`Invariant`](super::Invariant). Returns `None` if `packet` is not an ICMP error.
#[must_use]
pub fn quoted<'a>(packet: &Packet<'a>) -> Option<&'a [u8]> {
    let errors: &[u8] = match packet.protocol {
        PROTOCOL_ICMP => &ICMP_ERRORS,
        PROTOCOL_ICMPV6 => &ICMPV6_ERRORS,
        _ => return None,
    };
    let is_error = packet.ip_payload.first().is_some_and(|kind| errors.contains(kind));
    is_error.then(|| packet.ip_payload.get(ICMP_HEADER_BYTES..).unwrap_or_default())
}

fn is_tunnel(packet: &Packet<'_>) -> bool {
    let is_port = |(source, destination)| [source, destination].iter().any(|port| TUNNEL_PORTS.contains(port));
    match packet.protocol {
        PROTOCOL_ESP => true,
        PROTOCOL_UDP => packet.ports.is_some_and(is_port),
        protocol => TUNNEL_PROTOCOLS.contains(&protocol),
    }
}

/// Size of the largest packet on any link. If a packet is longer, a network card has joined several packets, or has not
/// split it yet.
const PACKET_BYTES_MAX: u16 = 9_216;

/// The next-header value that means "no next header" in IPv6: the packet has no payload.
const NO_NEXT_HEADER: u8 = 59;

/// Returns true if the length in an IP header is impossible on a link: 0, or too large.
const fn is_offloaded(header: &[u8]) -> bool {
    let length = match header {
        [version, _, high, low, ..] if *version >> 4 == 4 => u16::from_be_bytes([*high, *low]),
        [version, _, _, _, 0, 0, NO_NEXT_HEADER, ..] if *version >> 4 == 6 => return false,
        [version, _, _, _, high, low, ..] if *version >> 4 == 6 => u16::from_be_bytes([*high, *low]),
        _ => return false,
    };
    length == 0 || length > PACKET_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{Frame, Link};
    use crate::packet::decode;
    use crate::traceback::Invariant;

    fn frame(bytes: &[u8]) -> Frame<'_> {
        Frame { time: 0, link: Link::Ip, bytes, original_bytes: bytes.len() as u32 }
    }

    fn doubt(bytes: &[u8]) -> Option<Doubt> {
        Doubt::of_packet(&decode(&frame(bytes)).unwrap())
    }

    /// Builds a packet with these flags and this fragment offset.
    fn ipv4(protocol: u8, flags: [u8; 2], payload: &[u8]) -> Vec<u8> {
        let length = 20 + payload.len() as u8;
        let header = [0x45, 0, 0, length, 4, 5, flags[0], flags[1], 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        [&header, payload].concat()
    }

    fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
        let mut header = vec![0x60, 0, 0, 0, 0, payload.len() as u8, next_header, 64];
        header.extend(1..=32);
        [&header, payload].concat()
    }

    const UDP: [u8; 12] = [0, 99, 0, 53, 0, 12, 1, 2, b'd', b'a', b't', b'a'];

    #[test]
    fn whole_packets_and_opened_tunnels_can_be_trusted() {
        assert_eq!(doubt(&ipv4(17, [0x40, 0], &UDP)), None);
        assert_eq!(doubt(&ipv4(17, [0, 0], &UDP)), None, "the packet may be fragmented, but has not been so far");
        assert_eq!(doubt(&ipv6(17, &UDP)), None);
        assert_eq!(doubt(&ipv4(4, [0, 0], &ipv4(17, [0, 0], &UDP))), None);
        assert_eq!(doubt(&ipv4(1, [0, 0], &[8, 0, 1, 2, 3, 4, 5, 6])), None, "a ping");
    }

    #[test]
    fn fragments_are_doubtful_first_and_later_ones_and_those_of_tunnels() {
        let ipv6_fragment = [&[17, 0, 0, 1, 0, 0, 0, 9][..], &UDP].concat();
        let packets = [
            ipv4(17, [0x20, 0], &UDP),
            ipv4(17, [0, 5], &UDP),
            ipv6(44, &ipv6_fragment),
            ipv4(4, [0x20, 0], &ipv4(17, [0, 0], &UDP)),
            ipv4(4, [0, 0], &ipv4(17, [0x20, 0], &UDP)),
        ];
        for packet in packets {
            assert_eq!(doubt(&packet), Some(Doubt::Fragment), "{packet:?}");
        }
    }

    #[test]
    fn opaque_tunnels_are_doubtful() {
        for protocol in [PROTOCOL_ESP].into_iter().chain(TUNNEL_PROTOCOLS) {
            assert_eq!(doubt(&ipv4(protocol, [0, 0], b"\0\x0frubbish..")), Some(Doubt::Tunnel), "{protocol}");
        }
        for port in TUNNEL_PORTS {
            let mut udp = UDP;
            udp[2..4].copy_from_slice(&port.to_be_bytes());
            assert_eq!(doubt(&ipv4(17, [0, 0], &udp)), Some(Doubt::Tunnel), "{port}");
        }
    }

    #[test]
    fn an_icmp_error_is_doubtful_and_quotes_the_packet_that_caused_it() {
        let cause = ipv4(17, [0, 0], &UDP);
        // The shortest quote that an ICMP error may contain: the header and 8 bytes.
        let quote = &cause[..28];
        let errors = ICMP_ERRORS.map(|kind| ipv4(1, [0, 0], &[&[kind, 0, 0, 0, 0, 0, 0, 0], quote].concat()));
        let errors6 = ICMPV6_ERRORS.map(|kind| ipv6(58, &[&[kind, 0, 0, 0, 0, 0, 0, 0], quote].concat()));
        for error in errors.iter().chain(&errors6) {
            assert_eq!(doubt(error), Some(Doubt::IcmpError));
            let packet = decode(&frame(error)).unwrap();
            let inside = quoted(&packet).unwrap();
            let of = |bytes: &[u8]| Invariant::of_packet(&decode(&frame(bytes)).unwrap()).unwrap();
            assert_eq!(of(inside), of(&cause), "it has the digest of the packet itself");
        }
    }

    #[test]
    fn a_segment_before_the_network_card_is_doubtful() {
        let mut packet = ipv4(17, [0, 0], &UDP);
        packet[3] = 0;
        assert_eq!(doubt(&packet), Some(Doubt::Offload));
    }

    #[test]
    fn a_tally_has_what_occurred() {
        let mut tally = DoubtTally::default();
        Doubt::ALL.into_iter().skip(1).for_each(|doubt| tally.count(doubt));
        tally.count(Doubt::Offload);
        assert_eq!(tally.total(), 4);
        assert_eq!(tally.iter().last(), Some((Doubt::Offload, 2)));
        assert_eq!(tally.iter().count(), 3);
    }
}
