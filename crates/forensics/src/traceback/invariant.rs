//! What of a packet stays the same on its way.

/// How much is taken of what follows the IP header.
pub const PAYLOAD_BYTES: usize = 8;

/// The longest invariant, that of a packet of IPv6.
pub const INVARIANT_BYTES_MAX: usize = IPV6_HEADER_BYTES + PAYLOAD_BYTES;

const IPV4_HEADER_BYTES: usize = 20;
const IPV6_HEADER_BYTES: usize = 40;

/// What of a packet or message stays the same from hop to hop, in few bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invariant {
    bytes: [u8; INVARIANT_BYTES_MAX],
    length: usize,
}

impl Invariant {
    /// The invariant of a packet, by its IP header and what follows it (behind the extension headers, for IPv6).
    ///
    /// Of IPv4 all but type of service, time to live, checksum and options counts: what routers change. Of IPv6, all but
    /// traffic class, flow label (routers may set one, RFC 6437) and hop limit. Then come the first [`PAYLOAD_BYTES`]
    /// of the payload, with zeros where it is shorter. `None` if it is neither, or if a capture cut off what is needed.
    #[must_use]
    pub fn of_packet(header: &[u8], payload: &[u8]) -> Option<Self> {
        match header.first()? >> 4 {
            4 => of_ipv4(header.first_chunk()?, payload),
            6 => of_ipv6(header.first_chunk()?, payload),
            _ => None,
        }
    }

    /// The bytes to fingerprint.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// # Panics
    /// If there are more than [`INVARIANT_BYTES_MAX`] bytes.
    pub(super) fn from_parts(head: &[u8], tail: &[u8]) -> Self {
        let mut bytes = [0; INVARIANT_BYTES_MAX];
        let length = head.len() + tail.len();
        bytes[..head.len()].copy_from_slice(head);
        bytes[head.len()..length].copy_from_slice(tail);
        Self { bytes, length }
    }
}

fn of_ipv4(header: &[u8; IPV4_HEADER_BYTES], payload: &[u8]) -> Option<Invariant> {
    let mut head = *header;
    head[1] = 0;
    head[8] = 0;
    head[10..12].fill(0);
    let header_bytes = usize::from(header[0] & 0x0f) * 4;
    let total_bytes = usize::from(u16::from_be_bytes([header[2], header[3]]));
    Some(Invariant::from_parts(&head, &start_of(payload, total_bytes.checked_sub(header_bytes)?)?))
}

fn of_ipv6(header: &[u8; IPV6_HEADER_BYTES], payload: &[u8]) -> Option<Invariant> {
    let mut head = *header;
    head[..4].copy_from_slice(&[0x60, 0, 0, 0]);
    head[7] = 0;
    // Extension headers are part of this length, so a payload that seems cut may be whole: what is there then counts.
    let payload_bytes = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let payload_bytes = if has_extensions(header[6]) { payload_bytes.min(payload.len()) } else { payload_bytes };
    Some(Invariant::from_parts(&head, &start_of(payload, payload_bytes)?))
}

/// Whether another header of IPv6 follows (RFC 8200, section 4; authentication is RFC 4302, mobility RFC 6275).
const fn has_extensions(next_header: u8) -> bool {
    matches!(next_header, 0 | 43 | 44 | 51 | 60 | 135 | 139 | 140)
}

/// The first bytes of a payload that has `length` bytes: what comes behind is padding of the link.
fn start_of(payload: &[u8], length: usize) -> Option<[u8; PAYLOAD_BYTES]> {
    let wanted = length.min(PAYLOAD_BYTES);
    let mut start = [0; PAYLOAD_BYTES];
    start[..wanted].copy_from_slice(payload.get(..wanted)?);
    Some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header for a payload of 8 bytes, with a byte of its own at every place that has no meaning here.
    fn ipv4() -> [u8; 20] {
        [0x45, 0x01, 0, 28, 4, 5, 0x40, 7, 8, 17, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]
    }

    fn ipv6() -> [u8; 40] {
        let mut header: [u8; 40] = std::array::from_fn(|at| at as u8 + 1);
        header[..8].copy_from_slice(&[0x60, 1, 2, 3, 0, 8, 17, 64]);
        header
    }

    /// The places at which a changed byte changes the invariant.
    fn places_that_count(header: &[u8], payload: &[u8]) -> Vec<usize> {
        let packet = [header, payload].concat();
        let invariant = |packet: &[u8]| Invariant::of_packet(&packet[..header.len()], &packet[header.len()..]);
        let counts = |&at: &usize| {
            let mut changed = packet.clone();
            changed[at] ^= 1;
            invariant(&changed) != invariant(&packet)
        };
        (0..packet.len()).filter(counts).collect()
    }

    #[test]
    fn what_routers_change_in_ipv4_does_not_count() {
        // Type of service at 1, time to live at 8, checksum at 10 and 11; the payload begins at 20.
        let expected: Vec<_> = (0..28).filter(|at| ![1, 8, 10, 11].contains(at)).collect();
        assert_eq!(places_that_count(&ipv4(), b"12345678and more"), expected);
    }

    #[test]
    fn options_do_not_count() {
        let mut header = [&ipv4()[..], &[7, 4, 4, 0]].concat();
        header[0] = 0x46;
        header[3] = 32;
        assert!(places_that_count(&header, b"12345678").iter().all(|at| !(20..24).contains(at)));
    }

    #[test]
    fn what_routers_change_in_ipv6_does_not_count() {
        // Traffic class and flow label at 0 to 3, hop limit at 7; the payload begins at 40.
        let expected: Vec<_> = (4..48).filter(|&at| at != 7).collect();
        assert_eq!(places_that_count(&ipv6(), b"12345678and more"), expected);
    }

    #[test]
    fn eight_bytes_of_the_payload_count_and_padding_does_not() {
        let mut header = ipv4();
        header[3] = 23;
        let of = |payload: &[u8]| Invariant::of_packet(&header, payload);
        assert_eq!(of(b"123"), of(b"123padding"));
        assert_ne!(of(b"123"), of(b"124"));
        assert_eq!(of(b"123").unwrap().as_bytes().len(), 28);
    }

    #[test]
    fn what_a_capture_cut_off_has_none() {
        assert_eq!(Invariant::of_packet(&ipv4(), b"1234567"), None);
        assert_eq!(Invariant::of_packet(&ipv6(), b"1234567"), None);
        assert_eq!(Invariant::of_packet(&ipv4()[..19], b"12345678"), None);
        assert_eq!(Invariant::of_packet(&ipv6()[..39], b"12345678"), None);
        let mut behind_extensions = ipv6();
        behind_extensions[6] = 0;
        assert!(Invariant::of_packet(&behind_extensions, b"1234567").is_some());
    }

    #[test]
    fn other_protocols_have_none() {
        for first in [0x00, 0x50, 0xf5] {
            assert_eq!(Invariant::of_packet(&[first; 40], b"12345678"), None);
        }
        assert_eq!(Invariant::of_packet(&[], b""), None);
        let mut longer_than_its_packet = ipv4();
        longer_than_its_packet[3] = 19;
        assert_eq!(Invariant::of_packet(&longer_than_its_packet, b"12345678"), None);
    }
}
