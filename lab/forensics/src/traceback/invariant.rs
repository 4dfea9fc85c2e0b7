//! The invariant part of a packet.

use crate::packet::{Ipv6Fragment, Packet, Undecoded};

/// Number of bytes used after the IP header.
pub const PAYLOAD_BYTES: usize = 8;

/// Maximum length of an invariant, reached by an IPv6 fragment.
pub const INVARIANT_BYTES_MAX: usize = IPV6_HEADER_BYTES + FRAGMENT_BYTES + PAYLOAD_BYTES;

const IPV4_HEADER_BYTES: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;
/// Length of the fragment fields: offset, more-fragments flag and identification.
const FRAGMENT_BYTES: usize = 7;

/// The part of a packet or message that stays the same from hop to hop. It is only a few bytes long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invariant {
    bytes: [u8; INVARIANT_BYTES_MAX],
    length: usize,
}

impl Invariant {
    /// Returns the invariant of a packet.
    ///
    /// For IPv4, the invariant is the header without the fields that routers change: type of service, time to live,
    /// checksum and options. For IPv6, it is the header without traffic class, flow label and hop limit (RFC 6437 lets
    /// routers set the flow label), and the fragment header if there is one. Other extension headers are ignored. The
    /// first [`PAYLOAD_BYTES`] of the payload follow, padded with zeros.
    ///
    /// Returns `None` if the capture cut off a part that the invariant needs, or cut off a possible inner packet. A
    /// router that captured more of the packet would record another invariant, so a search would wrongly return "not
    /// seen".
    #[must_use]
    pub fn of_packet(packet: &Packet<'_>) -> Option<Self> {
        if packet.unopened == Some(Undecoded::Truncated) {
            return None;
        }
        let start = start_of(packet.ip_payload, packet.ip_payload_bytes)?;
        match packet.header.first()? >> 4 {
            4 => Some(of_ipv4(packet.header.first_chunk()?, &start)),
            6 => Some(of_ipv6(packet.header.first_chunk()?, packet.ipv6_fragment, &start)),
            _ => None,
        }
    }

    /// Returns the bytes to fingerprint.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Concatenates `parts`.
    ///
    /// # Panics
    /// If more than [`INVARIANT_BYTES_MAX`] bytes are added.
    pub(super) fn from_parts(parts: &[&[u8]]) -> Self {
        let (mut bytes, mut length) = ([0; INVARIANT_BYTES_MAX], 0);
        for part in parts {
            bytes[length..length + part.len()].copy_from_slice(part);
            length += part.len();
        }
        Self { bytes, length }
    }
}

fn of_ipv4(header: &[u8; IPV4_HEADER_BYTES], start: &[u8; PAYLOAD_BYTES]) -> Invariant {
    let mut head = *header;
    head[1] = 0;
    head[8] = 0;
    head[10..12].fill(0);
    Invariant::from_parts(&[&head, start])
}

fn of_ipv6(header: &[u8; IPV6_HEADER_BYTES], fragment: Option<Ipv6Fragment>, start: &[u8; PAYLOAD_BYTES]) -> Invariant {
    let mut head = *header;
    head[..4].copy_from_slice(&[0x60, 0, 0, 0]);
    head[7] = 0;
    match fragment.map(fragment_bytes) {
        Some(fragment) => Invariant::from_parts(&[&head, &fragment, start]),
        None => Invariant::from_parts(&[&head, start]),
    }
}

fn fragment_bytes(fragment: Ipv6Fragment) -> [u8; FRAGMENT_BYTES] {
    let [offset, id] = [u32::from(fragment.offset), fragment.identification].map(u32::to_be_bytes);
    [offset[2], offset[3], fragment.has_more.into(), id[0], id[1], id[2], id[3]]
}

/// Returns the first bytes of a payload, if they were captured. `length` is the length of the payload on the wire.
fn start_of(payload: &[u8], length: usize) -> Option<[u8; PAYLOAD_BYTES]> {
    let wanted = length.min(PAYLOAD_BYTES);
    let mut start = [0; PAYLOAD_BYTES];
    start[..wanted].copy_from_slice(payload.get(..wanted)?);
    Some(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{Frame, Link};
    use crate::packet::decode;

    /// Returns the invariant of a captured packet.
    fn of(packet: &[u8]) -> Option<Invariant> {
        let original_bytes = packet.len() as u32;
        Invariant::of_packet(&decode(&Frame { time: 0, link: Link::Ip, bytes: packet, original_bytes }).unwrap())
    }

    /// Builds a packet in which every byte has a distinct value, except where the format requires a certain value.
    fn ipv4(payload: &[u8]) -> Vec<u8> {
        let mut header = vec![0x45, 0x01, 0, 0, 4, 5, 0x40, 0, 8, 17, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19];
        header[3] = 20 + payload.len() as u8;
        [&header, payload].concat()
    }

    fn ipv6(next_header: u8, payload: &[u8]) -> Vec<u8> {
        let mut header: Vec<u8> = (1..=40).collect();
        header[..8].copy_from_slice(&[0x60, 1, 2, 3, 0, payload.len() as u8, next_header, 64]);
        [&header, payload].concat()
    }

    /// A hop-by-hop header, followed by UDP.
    const HOP_BY_HOP: [u8; 8] = [17, 0, 1, 4, 0, 0, 0, 0];

    /// Builds a UDP fragment with this offset field (plus 1 if more fragments follow) and identification.
    fn ipv6_fragment(field: u8, identification: u8, payload: &[u8]) -> Vec<u8> {
        ipv6(44, &[&[17, 0, 0, field, 0, 0, 0, identification], payload].concat())
    }

    /// Returns the positions (after the version) where a flipped bit changes the invariant.
    fn places_that_count(packet: &[u8], bit: u8) -> Vec<usize> {
        let counts = |&at: &usize| {
            let mut changed = packet.to_vec();
            changed[at] ^= bit;
            of(&changed) != of(packet)
        };
        (1..packet.len()).filter(counts).collect()
    }

    #[test]
    fn changes_by_routers_in_ipv4_are_ignored() {
        // Ignored: type of service at 1, time to live at 8, checksum at 10 and 11. The payload begins at 20.
        let expected: Vec<_> = (1..28).filter(|at| ![1, 8, 10, 11].contains(at)).collect();
        assert_eq!(places_that_count(&ipv4(b"12345678and more"), 1), expected);
    }

    #[test]
    fn options_are_ignored() {
        let mut packet = ipv4(&[&[7, 4, 4, 0], &b"12345678"[..]].concat());
        packet[0] = 0x46;
        assert!(places_that_count(&packet, 1).iter().all(|at| !(20..24).contains(at)));
    }

    #[test]
    fn changes_by_routers_in_ipv6_are_ignored() {
        // Ignored: traffic class and flow label at 0 to 3, hop limit at 7. The payload begins at 40.
        let expected: Vec<_> = (4..48).filter(|&at| at != 7).collect();
        assert_eq!(places_that_count(&ipv6(17, b"12345678and more"), 1), expected);
        let options = [&HOP_BY_HOP, &b"12345678and more"[..]].concat();
        let places = places_that_count(&ipv6(0, &options), 0x80);
        assert!(
            places.iter().all(|at| !(42..48).contains(at)) && (48..56).all(|at| places.contains(&at)),
            "{places:?}"
        );
    }

    #[test]
    fn eight_bytes_of_the_payload_count_and_padding_does_not() {
        for packet in [ipv4(b"123"), ipv6(17, b"123"), ipv6(0, &[&HOP_BY_HOP, &b"123"[..]].concat()), ipv6(59, b"")] {
            assert_eq!(of(&packet), of(&[&packet[..], b"padding"].concat()), "{packet:?}");
        }
        assert_ne!(of(&ipv4(b"123")), of(&ipv4(b"124")));
        assert_eq!(of(&ipv4(b"123")).unwrap().as_bytes().len(), 28);
    }

    #[test]
    fn fragments_of_ipv6_with_equal_content_differ_by_offset_and_identification() {
        let of = |field, identification| of(&ipv6_fragment(field, identification, b"12345678")).unwrap();
        assert_eq!(of(0x11, 5), of(0x11, 5));
        assert_ne!(of(0x11, 5), of(0x19, 5), "another offset");
        assert_ne!(of(0x11, 5), of(0x10, 5), "the last");
        assert_ne!(of(0x11, 5), of(0x11, 6), "invariant of another packet");
        assert_eq!(of(0, 0).as_bytes().len(), INVARIANT_BYTES_MAX);
    }

    #[test]
    fn packets_cut_by_the_capture_have_no_invariant() {
        let behind_options = ipv6(0, &[&HOP_BY_HOP, &b"12345678"[..]].concat());
        for whole in [ipv4(b"12345678"), ipv6(17, b"12345678"), behind_options, ipv6_fragment(0x11, 5, b"12345678")] {
            assert!(of(&whole).is_some());
            assert_eq!(of(&whole[..whole.len() - 1]), None, "{whole:?}");
        }
        // The same applies if the packet is truncated within the extension header, even though 8 bytes are present.
        assert_eq!(of(&ipv6(0, &[17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])[..52]), None);
    }

    #[test]
    fn a_cut_tunnel_has_no_invariant_and_one_with_garbage_inside_has() {
        let tunnel = |inside: &[u8]| {
            let mut packet = ipv4(inside);
            packet[9] = 4;
            packet
        };
        let whole = tunnel(&ipv4(b"12345678"));
        assert_eq!(of(&whole), of(&ipv4(b"12345678")));
        assert!((20..whole.len() - 1).all(|length| of(&whole[..length]).is_none()));
        assert_eq!(of(&tunnel(b"rubbish!")).unwrap().as_bytes()[20..], *b"rubbish!");
        // The inner packet has an impossible length.
        let mut longer = ipv4(b"1234");
        longer[3] = 200;
        assert_eq!(of(&tunnel(&longer)).unwrap().as_bytes()[20..], *b"1234\0\0\0\0");
    }

    #[test]
    fn a_segment_without_a_length_is_as_long_as_its_frame() {
        let mut packet = ipv4(b"12345678and more");
        packet[3] = 0;
        assert_eq!(of(&packet).unwrap().as_bytes()[20..], *b"12345678");
        let cut = Frame { time: 0, link: Link::Ip, bytes: &packet[..27], original_bytes: packet.len() as u32 };
        assert_eq!(Invariant::of_packet(&decode(&cut).unwrap()), None);
    }
}
