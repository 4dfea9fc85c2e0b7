//! Hosts, flows and frames.

use std::net::{IpAddr, Ipv4Addr};

use crate::packet::Packet;
use crate::random::Random;

const ETHERNET_HEADER: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
const PORT_MIN: u32 = 1024;
const PORTS: u32 = 64_000;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// A five-tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// Sender.
    pub source: Ipv4Addr,
    /// Receiver.
    pub destination: Ipv4Addr,
    /// TCP or UDP (IANA number).
    pub protocol: u8,
    /// Source and destination port.
    pub ports: (u16, u16),
}

pub(super) const fn host(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(10 << 24 | number & 0xff_ffff)
}

impl Flow {
    /// Returns the flow with this rank. Flows of different ranks have different sources or source ports.
    pub(super) fn of_rank(rank: u32, hosts: u32, seed: u64) -> Self {
        let mut random = Random::stream(seed, u64::from(rank) << 8);
        let source = rank % hosts;
        let distance = 1 + random.below(u64::from(hosts.saturating_sub(1)).max(1)) as u32;
        let is_tcp = random.below(2) == 0;
        Self {
            source: host(source),
            destination: host((source + distance) % hosts),
            protocol: if is_tcp { TCP } else { UDP },
            ports: ((PORT_MIN + rank / hosts % PORTS) as u16, if is_tcp { 25 } else { 53 }),
        }
    }

    /// Returns the flow of a packet; `None` if it has IPv6 addresses or no ports.
    #[must_use]
    pub fn of_packet(packet: &Packet<'_>) -> Option<Self> {
        let (IpAddr::V4(source), IpAddr::V4(destination)) = (packet.source, packet.destination) else { return None };
        Some(Self { source, destination, protocol: packet.protocol, ports: packet.ports? })
    }

    /// Writes an Ethernet frame with a packet of this flow to `frame`, replacing its content.
    pub fn frame(&self, identification: u16, time_to_live: u8, payload: &[u8], frame: &mut Vec<u8>) {
        frame.clear();
        frame.extend_from_slice(&ETHERNET_HEADER);
        let transport = self.transport(payload.len());
        frame.extend_from_slice(&self.ip_header(identification, time_to_live, transport.len() + payload.len()));
        frame.extend_from_slice(&transport);
        frame.extend_from_slice(payload);
    }

    fn ip_header(&self, identification: u16, time_to_live: u8, payload_bytes: usize) -> [u8; 20] {
        let mut header = [0; 20];
        header[0] = 0x45;
        header[2..4].copy_from_slice(&((20 + payload_bytes) as u16).to_be_bytes());
        header[4..6].copy_from_slice(&identification.to_be_bytes());
        header[8] = time_to_live;
        header[9] = self.protocol;
        header[12..16].copy_from_slice(&self.source.octets());
        header[16..20].copy_from_slice(&self.destination.octets());
        let checksum = checksum(&header);
        header[10..12].copy_from_slice(&checksum.to_be_bytes());
        header
    }

    /// Returns a TCP or UDP header. The checksum is left out, because this crate never checks it.
    fn transport(&self, payload_bytes: usize) -> Vec<u8> {
        let mut header = Vec::with_capacity(20);
        header.extend_from_slice(&self.ports.0.to_be_bytes());
        header.extend_from_slice(&self.ports.1.to_be_bytes());
        if self.protocol == TCP {
            header.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
        } else {
            header.extend_from_slice(&((8 + payload_bytes) as u16).to_be_bytes());
            header.extend_from_slice(&[0, 0]);
        }
        header
    }
}

/// Returns the checksum of an IPv4 header whose checksum field is zero.
fn checksum(header: &[u8; 20]) -> u16 {
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_a_known_header() {
        let mut header = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
        assert_eq!(checksum(&header), 0xb861);
        header[10..12].copy_from_slice(&0xb861u16.to_be_bytes());
        assert_eq!(checksum(&header), 0);
    }
}
