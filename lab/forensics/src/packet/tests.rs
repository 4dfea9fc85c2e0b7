//! Packets in every encapsulation: whole, truncated and malformed.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;
use crate::capture::Link;

const PAYLOAD: &[u8] = b"GET / HTTP/1.1";

fn frame(link: Link, bytes: &[u8]) -> Frame<'_> {
    Frame { time: 0, link, bytes, original_bytes: bytes.len() as u32 }
}

fn udp() -> Vec<u8> {
    [&[0, 53, 1, 2, 0, 22, 0, 0], PAYLOAD].concat()
}

/// Builds an IPv4 packet. `fragment` is the field with the flags and the fragment offset.
fn ipv4(protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    packet.extend(((20 + payload.len()) as u16).to_be_bytes());
    packet.extend([0, 1]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    packet.extend_from_slice(payload);
    packet
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    packet.extend(Ipv6Addr::LOCALHOST.octets());
    packet.extend(Ipv6Addr::UNSPECIFIED.octets());
    packet.extend_from_slice(payload);
    packet
}

/// Asserts that `bytes` decode to the IPv4 packet with the payload [`udp`], however it is encapsulated.
fn assert_is_udp(link: Link, bytes: &[u8]) {
    let packet = decode(&frame(link, bytes)).unwrap_or_else(|reason| panic!("{link:?}: {reason}"));
    assert_eq!(packet.source, IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    assert_eq!(packet.destination, IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));
    assert_eq!((packet.protocol, packet.ports, packet.payload), (17, Some((53, 258)), PAYLOAD));
    assert_eq!((packet.header.len(), packet.ip_payload), (20, &udp()[..]));
    assert_eq!((packet.fragment, packet.unopened, packet.ip_payload_bytes), (Fragment::Whole, None, udp().len()));
}

/// Decodes a bare IP packet.
fn packet_in(bytes: &[u8]) -> Packet<'_> {
    decode(&frame(Link::Ip, bytes)).unwrap()
}

fn reason(link: Link, bytes: &[u8]) -> Undecoded {
    decode(&frame(link, bytes)).unwrap_err()
}

fn ethernet(types: &[u16], packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 12];
    for (index, kind) in types.iter().enumerate() {
        if index > 0 {
            bytes.extend([0, 7]);
        }
        bytes.extend(kind.to_be_bytes());
    }
    bytes.extend_from_slice(packet);
    bytes
}

#[test]
fn every_link_layer_leads_to_the_packet() {
    let packet = ipv4(17, 0, &udp());
    assert_is_udp(Link::Ip, &packet);
    assert_is_udp(Link::Loopback, &[&[2, 0, 0, 0][..], &packet].concat());
    assert_is_udp(Link::LinuxCooked, &[&[0; 14][..], &[8, 0], &packet].concat());
    assert_is_udp(Link::LinuxCookedV2, &[&[8, 0][..], &[0; 18], &packet].concat());
    assert_is_udp(Link::Ethernet, &ethernet(&[0x0800], &packet));
    assert_eq!(reason(Link::Other(105), &packet), Undecoded::UnknownLink);
    assert_eq!(reason(Link::Ethernet, &ethernet(&[0x0806], &packet)), Undecoded::NotIp);
}

#[test]
fn tags_are_taken_off_to_the_bound() {
    let packet = ipv4(17, 0, &udp());
    let tagged =
        |tags: usize| ethernet(&[&[0x88a8, 0x8100, 0x9100, 0x8100, 0x8100][..tags], &[0x0800]].concat(), &packet);
    (0..=VLAN_TAGS_MAX as usize).for_each(|tags| assert_is_udp(Link::Ethernet, &tagged(tags)));
    assert_eq!(reason(Link::Ethernet, &tagged(VLAN_TAGS_MAX as usize + 1)), Undecoded::TooDeep);
}

#[test]
fn tunnels_are_opened_to_the_bound() {
    let mut bytes = ipv4(17, 0, &udp());
    for depth in 0..=ENCAPSULATION_MAX {
        assert_is_udp(Link::Ip, &bytes);
        bytes = match depth % 4 {
            0 => ipv4(4, 0, &bytes),
            1 => ipv6(4, &bytes),
            2 => ipv4(47, 0, &[&[0xb0, 0, 8, 0][..], &[0; 12], &bytes].concat()),
            _ => ipv4(47, 0, &[&[0, 0, 0x65, 0x58][..], &ethernet(&[0x0800], &bytes)].concat()),
        };
    }
    // One more tunnel is not opened: the result is the packet at the limit.
    let packet = packet_in(&bytes);
    assert_eq!((packet.protocol, packet.unopened), (4, Some(Undecoded::TooDeep)));
    assert_eq!(packet.ip_payload, ipv4(17, 0, &udp()));
}

#[test]
fn a_malformed_inner_packet_does_not_hide_the_outer_one() {
    let mut short_header = ipv4(17, 0, &udp());
    short_header[0] = 0x44;
    let gre_of_a_cut_packet = [&[0, 0, 8, 0][..], &ipv4(17, 0, b"")[..19]].concat();
    let deep = [&[0, 0, 0x65, 0x58][..], &ethernet(&[0x8100; 6], &[])].concat();
    for (protocol, inside, reason) in [
        (4, &b"rubbish"[..], Undecoded::Malformed),
        (4, b"", Undecoded::Malformed),
        (4, &short_header, Undecoded::Malformed),
        (47, &[0, 0, 8], Undecoded::Malformed),
        (47, &gre_of_a_cut_packet, Undecoded::Malformed),
        (47, &deep, Undecoded::TooDeep),
    ] {
        for bytes in [ipv4(protocol, 0, inside), ipv6(protocol, inside)] {
            let packet = packet_in(&bytes);
            assert_eq!((packet.protocol, packet.unopened), (protocol, Some(reason)), "{inside:?}");
            assert_eq!((packet.ip_payload, packet.payload), (inside, inside));
        }
    }
}

#[test]
fn a_tunnel_is_truncated_only_if_the_capture_cut_it() {
    let whole = ipv4(47, 0, &[&[0, 0, 8, 0][..], &ipv4(17, 0, &udp())].concat());
    for length in 20..whole.len() {
        let packet = packet_in(&whole[..length]);
        let unopened = (length < 44).then_some(Undecoded::Truncated);
        assert_eq!((packet.unopened, packet.protocol), (unopened, if length < 44 { 47 } else { 17 }), "{length}");
        assert_eq!(packet.ip_payload_bytes, if length < 44 { 44 + udp().len() - 20 } else { udp().len() });
    }
}

#[test]
fn a_tunnel_with_something_else_inside_is_itself_the_packet() {
    for inside in [&[0, 0, 0x88, 0x0b, 1, 2, 3][..], &[0, 1, 8, 0, 0], &[0x40, 0, 8, 0, 0]] {
        let packet = ipv4(47, 0, inside);
        let packet = decode(&frame(Link::Ip, &packet)).unwrap();
        assert_eq!((packet.protocol, packet.ports, packet.payload), (47, None, inside));
    }
    let arp = [&[0, 0, 0x65, 0x58][..], &ethernet(&[0x0806], &[0; 28])].concat();
    assert_eq!(decode(&frame(Link::Ip, &ipv4(47, 0, &arp))).unwrap().payload, arp);
}

#[test]
fn extension_headers_are_passed() {
    // Hop-by-hop options, then destination options, then UDP.
    let extensions = [&[60, 0, 1, 4, 0, 0, 0, 0][..], &[17, 0, 1, 4, 0, 0, 0, 0], &udp()].concat();
    let bytes = ipv6(0, &extensions);
    let packet = decode(&frame(Link::Ip, &bytes)).unwrap();
    assert_eq!(packet.source, IpAddr::V6(Ipv6Addr::LOCALHOST));
    assert_eq!((packet.protocol, packet.ports, packet.payload), (17, Some((53, 258)), PAYLOAD));
    assert_eq!((packet.header.len(), packet.ip_payload), (40, &udp()[..]));
}

#[test]
fn only_the_first_fragment_has_ports() {
    let udp = udp();
    let fragments =
        [(0x2000, Fragment::First), (0x2001, Fragment::Later), (0x0001, Fragment::Later), (0x4000, Fragment::Whole)];
    for (field, fragment) in fragments {
        let bytes = ipv4(17, field, &udp);
        let packet = decode(&frame(Link::Ip, &bytes)).unwrap();
        let expected = if fragment == Fragment::Later { (None, &udp[..]) } else { (Some((53, 258)), PAYLOAD) };
        assert_eq!((packet.fragment, (packet.ports, packet.payload)), (fragment, expected));
    }
    for (field, fragment) in [([0, 1], Fragment::First), ([0, 9], Fragment::Later), ([0, 0], Fragment::Whole)] {
        let bytes = ipv6(44, &[&[17, 0][..], &field, &[0, 0, 0, 1], &udp].concat());
        let packet = decode(&frame(Link::Ip, &bytes)).unwrap();
        assert_eq!((packet.fragment, packet.ports.is_some()), (fragment, fragment != Fragment::Later));
        let (offset, has_more) = (u16::from(field[1] >> 3), field[1] & 1 == 1);
        assert_eq!(packet.ipv6_fragment, Some(Ipv6Fragment { offset, has_more, identification: 1 }));
    }
}

#[test]
fn fragments_of_tunnels_are_not_opened() {
    let bytes = ipv4(4, 0x2000, &ipv4(17, 0, &udp()));
    assert_eq!(decode(&frame(Link::Ip, &bytes)).unwrap().protocol, 4);
}

#[test]
fn tcp_has_a_header_of_its_own_length() {
    let mut tcp = vec![0; 24];
    tcp[12] = 0x60;
    tcp.extend_from_slice(PAYLOAD);
    let bytes = ipv4(6, 0, &tcp);
    assert_eq!(decode(&frame(Link::Ip, &bytes)).unwrap().payload, PAYLOAD);
    // An impossible length is treated as the smallest possible length.
    tcp[12] = 0x10;
    let bytes = ipv4(6, 0, &tcp);
    assert_eq!(decode(&frame(Link::Ip, &bytes)).unwrap().payload.len(), 4 + PAYLOAD.len());
}

#[test]
fn padding_behind_a_packet_is_not_payload() {
    let bytes = [ipv4(17, 0, &udp()), vec![0; 9]].concat();
    assert_is_udp(Link::Ip, &bytes);
}

#[test]
fn cut_packets_are_decoded_as_far_as_they_go() {
    let bytes = ethernet(&[0x0800], &ipv4(17, 0, &udp()));
    for length in 0..bytes.len() {
        let decoded = decode(&frame(Link::Ethernet, &bytes[..length]));
        if length < 34 {
            assert_eq!(decoded.unwrap_err(), Undecoded::Truncated, "{length}");
        } else {
            let packet = decoded.unwrap();
            assert_eq!(packet.ports.is_some(), length >= 38, "{length}");
            assert_eq!(packet.payload.len(), length.saturating_sub(42), "{length}");
        }
    }
}

#[test]
fn inconsistent_headers_are_malformed() {
    let mut short_header = ipv4(17, 0, &udp());
    short_header[0] = 0x44;
    let mut unknown_version = ipv4(17, 0, &udp());
    unknown_version[0] = 0x55;
    for bytes in [short_header, unknown_version] {
        assert_eq!(reason(Link::Ip, &bytes), Undecoded::Malformed);
    }
}

#[test]
fn extension_headers_are_followed_as_far_as_they_can_be() {
    // A hop-by-hop header in an invalid place: it is not the first extension header.
    let late = ipv6(60, &[&[0, 0, 1, 4, 0, 0, 0, 0][..], &[17, 0, 1, 4, 0, 0, 0, 0], &udp()].concat());
    let packet = packet_in(&late);
    assert_eq!((packet.protocol, packet.ports, packet.unopened), (0, None, Some(Undecoded::Malformed)));
    assert_eq!(packet.ip_payload, &late[48..]);
    // One header is longer than its packet, another is longer than the capture.
    let long = ipv6(60, &[17, 9, 1, 4, 0, 0, 0, 0, 1, 2]);
    assert_eq!((packet_in(&long).protocol, packet_in(&long).unopened), (60, Some(Undecoded::Malformed)));
    assert_eq!(packet_in(&long[..49]).unopened, Some(Undecoded::Truncated));
    // Fields before the truncated part are still decoded, such as a fragment header after options and authentication.
    let options = [51, 0, 1, 4, 0, 0, 0, 0];
    let authentication = [44, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0];
    let bytes = ipv6(0, &[&options[..], &authentication, &[60, 0, 0, 0x19, 0, 0, 0, 7], &[17, 9]].concat());
    let packet = packet_in(&bytes);
    assert_eq!((packet.fragment, packet.unopened), (Fragment::Later, Some(Undecoded::Malformed)));
    assert_eq!(packet.ipv6_fragment, Some(Ipv6Fragment { offset: 3, has_more: true, identification: 7 }));
}

#[test]
fn reasons_are_counted_and_printed() {
    let mut tally = Tally::default();
    [Undecoded::NotIp, Undecoded::TooDeep, Undecoded::NotIp].into_iter().for_each(|reason| tally.count(reason));
    assert_eq!((tally.total(), tally.to_string()), (3, "2 not IP, 1 encapsulated too deeply".into()));
}
