//! What makes two packets one flow.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use bruit_signatures::sender::SENDER_BYTES_MAX;

use crate::packet::Packet;

/// The longest identity: a sender's address, or two addresses of 16 bytes with their families, a protocol and two ports.
pub const IDENTITY_BYTES_MAX: usize = SENDER_BYTES_MAX;

const FAMILY_4: u8 = 4;
const FAMILY_6: u8 = 6;

/// Which parts of a packet are the identity of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Source and destination address.
    Pair,
    /// Both addresses, the protocol and both ports. Packets without ports, such as later fragments, have none.
    FiveTuple,
    /// The source address.
    Source,
    /// The destination address.
    Destination,
    /// The sender of a message.
    Sender,
}

/// A flow, in bytes: equal for packets of one flow, for one [`Key`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity(Vec<u8>);

impl Identity {
    /// Becomes the identity of a packet, in place of what it was. By [`Key::Sender`] all packets are alike.
    pub fn set_packet(&mut self, key: Key, packet: &Packet<'_>) {
        self.0.clear();
        if matches!(key, Key::Pair | Key::FiveTuple | Key::Source) {
            self.put_address(packet.source);
        }
        if matches!(key, Key::Pair | Key::FiveTuple | Key::Destination) {
            self.put_address(packet.destination);
        }
        if key == Key::FiveTuple {
            self.0.push(packet.protocol);
            if let Some((source, destination)) = packet.ports {
                self.0.extend_from_slice(&source.to_be_bytes());
                self.0.extend_from_slice(&destination.to_be_bytes());
            }
        }
    }

    /// Becomes the identity of a message: its sender, in lower case, if it has one address in one field `From`.
    pub fn set_message(&mut self, message: &[u8]) -> bool {
        self.0.clear();
        let sender = bruit_signatures::sender::of(message);
        if let Some(sender) = &sender {
            self.0.extend_from_slice(sender.to_ascii_lowercase().as_bytes());
        }
        sender.is_some()
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn put_address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => {
                self.0.push(FAMILY_4);
                self.0.extend_from_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                self.0.push(FAMILY_6);
                self.0.extend_from_slice(&address.octets());
            }
        }
    }
}

impl Key {
    /// The longest identity that this key gives.
    #[must_use]
    pub const fn identity_bytes_max(self) -> usize {
        const ADDRESS_BYTES: usize = 17;
        match self {
            Self::Pair => 2 * ADDRESS_BYTES,
            Self::FiveTuple => 2 * ADDRESS_BYTES + 5,
            Self::Source | Self::Destination => ADDRESS_BYTES,
            Self::Sender => SENDER_BYTES_MAX,
        }
    }

    /// An identity for people: `10.0.0.1:25 > 10.0.0.2:1024 tcp`.
    #[must_use]
    pub fn describe(self, identity: &[u8]) -> String {
        let mut text = String::new();
        if self == Self::Sender {
            return String::from_utf8_lossy(identity).into_owned();
        }
        // Writing to a string does not fail; bytes of another key give what can be read of them.
        let _ = self.write(identity, &mut text);
        text
    }

    fn write(self, identity: &[u8], text: &mut String) -> fmt::Result {
        let (first, rest) = take_address(identity);
        if matches!(self, Self::Source | Self::Destination) {
            return write!(text, "{}", Shown(first, None));
        }
        let (second, rest) = take_address(rest);
        let ports = rest.get(1..).and_then(|bytes| bytes.first_chunk::<4>());
        let port = |index: usize| ports.map(|bytes| u16::from_be_bytes([bytes[index], bytes[index + 1]]));
        write!(text, "{} > {}", Shown(first, port(0)), Shown(second, port(2)))?;
        match rest.first() {
            Some(6) => text.write_str(" tcp"),
            Some(17) => text.write_str(" udp"),
            Some(protocol) => write!(text, " protocol {protocol}"),
            None => Ok(()),
        }
    }
}

/// The address at the front, and what is behind it.
fn take_address(bytes: &[u8]) -> (Option<IpAddr>, &[u8]) {
    let split4 = |bytes: &'_ [u8]| bytes.split_first_chunk::<4>().map(|(octets, _)| IpAddr::from(*octets));
    let split6 = |bytes: &'_ [u8]| bytes.split_first_chunk::<16>().map(|(octets, _)| IpAddr::from(*octets));
    match bytes.split_first() {
        Some((&FAMILY_4, rest)) => (split4(rest), rest.get(4..).unwrap_or_default()),
        Some((&FAMILY_6, rest)) => (split6(rest), rest.get(16..).unwrap_or_default()),
        _ => (None, &[]),
    }
}

/// An address, with its port if there is one.
struct Shown(Option<IpAddr>, Option<u16>);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (Some(IpAddr::V6(address)), Some(port)) => write!(f, "[{address}]:{port}"),
            (Some(address), Some(port)) => write!(f, "{address}:{port}"),
            (Some(address), None) => write!(f, "{address}"),
            (None, _) => f.write_str("?"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;
    use crate::packet::Fragment;

    fn packet(source: IpAddr, ports: Option<(u16, u16)>) -> Packet<'static> {
        Packet {
            source,
            destination: [10, 0, 0, 2].into(),
            protocol: 6,
            ports,
            header: &[],
            ip_payload: &[],
            ip_payload_bytes: 0,
            payload: &[],
            fragment: Fragment::Whole,
            ipv6_fragment: None,
            unopened: None,
        }
    }

    fn described(key: Key, packet: &Packet<'_>) -> String {
        let mut identity = Identity::default();
        identity.set_packet(key, packet);
        key.describe(identity.as_bytes())
    }

    #[test]
    fn identities_are_told_as_people_write_them() {
        let four = packet([10, 0, 0, 1].into(), Some((1024, 25)));
        let six = packet(Ipv6Addr::LOCALHOST.into(), Some((1, 65535)));
        for (key, packet, text) in [
            (Key::Pair, &four, "10.0.0.1 > 10.0.0.2"),
            (Key::FiveTuple, &four, "10.0.0.1:1024 > 10.0.0.2:25 tcp"),
            (Key::FiveTuple, &six, "[::1]:1 > 10.0.0.2:65535 tcp"),
            (Key::FiveTuple, &packet([9, 9, 9, 9].into(), None), "9.9.9.9 > 10.0.0.2 tcp"),
            (Key::Source, &six, "::1"),
            (Key::Destination, &four, "10.0.0.2"),
        ] {
            assert_eq!(described(key, packet), text);
        }
        assert_eq!(Key::Pair.describe(b"\x04\x01"), "? > ?");
    }

    #[test]
    fn a_sender_is_one_address_in_lower_case() {
        let mut identity = Identity::default();
        assert!(identity.set_message(b"From: Someone <Some.One@Example.org>\n\nhello"));
        assert_eq!(Key::Sender.describe(identity.as_bytes()), "some.one@example.org");
        assert!(!identity.set_message(b"Subject: nobody\n\nhello"));
        assert!(identity.as_bytes().is_empty());
    }

    #[test]
    fn the_longest_identity_of_a_packet_is_within_the_bound() {
        let mut identity = Identity::default();
        let address = IpAddr::from(Ipv6Addr::LOCALHOST);
        let packet = Packet { destination: address, ..packet(address, Some((1, 2))) };
        for key in [Key::Pair, Key::FiveTuple, Key::Source, Key::Destination] {
            identity.set_packet(key, &packet);
            assert!(identity.as_bytes().len() == key.identity_bytes_max() && IDENTITY_BYTES_MAX >= 39);
        }
    }
}
