//! Ports, and the start of the payload.

use super::network::Layer;
use super::{Fragment, Packet, Undecoded};

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
/// DCCP, SCTP and UDP-Lite also begin with two ports, as TCP and UDP do.
const PROTOCOLS_WITH_PORTS: [u8; 5] = [PROTOCOL_TCP, PROTOCOL_UDP, 33, 132, 136];

const UDP_HEADER_BYTES: usize = 8;
/// Offset of the byte whose upper half is the length of the TCP header, in words of four bytes.
const TCP_LENGTH_AT: usize = 12;
const TCP_HEADER_BYTES_MIN: usize = 20;

/// Returns the packet of the innermost IP layer that could be decoded.
pub(super) fn packet<'a>(layer: &Layer<'a>, unopened: Option<Undecoded>) -> Packet<'a> {
    let has_header = layer.fragment != Fragment::Later;
    Packet {
        source: layer.source,
        destination: layer.destination,
        protocol: layer.protocol,
        ports: if has_header { ports(layer) } else { None },
        header: layer.header,
        ip_payload: layer.payload,
        ip_payload_bytes: layer.payload_bytes,
        payload: if has_header { payload(layer) } else { layer.payload },
        fragment: layer.fragment,
        ipv6_fragment: layer.ipv6_fragment,
        unopened,
    }
}

fn ports(layer: &Layer<'_>) -> Option<(u16, u16)> {
    let [a, b, c, d] = *layer.payload.first_chunk()?;
    let ports = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    PROTOCOLS_WITH_PORTS.contains(&layer.protocol).then_some(ports)
}

/// Returns the payload, which is empty if the capture ends within the header.
fn payload<'a>(layer: &Layer<'a>) -> &'a [u8] {
    let header_bytes = match layer.protocol {
        PROTOCOL_TCP => tcp_header_bytes(layer.payload),
        PROTOCOL_UDP => UDP_HEADER_BYTES,
        _ => 0,
    };
    layer.payload.get(header_bytes..).unwrap_or_default()
}

fn tcp_header_bytes(bytes: &[u8]) -> usize {
    let words = bytes.get(TCP_LENGTH_AT).map_or(0, |byte| byte >> 4);
    (usize::from(words) * 4).max(TCP_HEADER_BYTES_MIN)
}
