//! Fields that identify a flow.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use bruit_signatures::sender::SENDER_BYTES_MAX;

use crate::packet::Packet;

/// Maximum length of an identity, reached by a sender's address with its domain. (The identity of a packet is shorter,
/// even with two 16-byte addresses and all other fields.)
pub const IDENTITY_BYTES_MAX: usize = 2 * (SENDER_BYTES_MAX + 1);

/// Maximum number of fields in a key, enough to include every field of a packet once.
pub const FIELDS_MAX: usize = 8;

const FAMILY_4: u8 = 4;
const FAMILY_6: u8 = 6;
/// Stands for a missing port, for example in a later fragment.
const NO_PORT: u8 = 0;
const HAS_PORT: u8 = 1;

/// A part of a packet or message that distinguishes flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// The source address, or its first n bits.
    Source(u8),
    /// The destination address, or its first n bits.
    Destination(u8),
    /// The protocol after the IP header (IANA number).
    Protocol,
    /// The source port, if there is one.
    SourcePort,
    /// The destination port, if there is one.
    DestinationPort,
    /// Type of service: DSCP and ECN, one byte.
    Service,
    /// Remaining hops.
    TimeToLive,
    /// The sender of a message, from its `From` field.
    Sender,
    /// The sender's domain: the part after the `@`.
    SenderDomain,
}

/// Number of bits in the longest address.
const ALL_BITS: u8 = 128;

/// The fields of a packet or message that identify its flow, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    fields: [Option<Field>; FIELDS_MAX],
}

/// An error in a list of fields or values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no such field.
    #[error("unknown field {0:?}: expected {names}", names = Key::NAMES)]
    Unknown(String),
    /// The prefix length is not between 1 and 128 bits.
    #[error("{0:?}: expected 1 to 128 bits after the slash")]
    Bits(String),
    /// A field is listed twice.
    #[error("duplicate field {0:?}")]
    Twice(String),
    /// Packet fields and message fields are mixed.
    #[error("a key cannot have both packet fields and message fields")]
    Mixed,
    /// There are no fields, or too many.
    #[error("expected 1 to {FIELDS_MAX} fields")]
    Count,
    /// The number of values differs from the number of fields.
    #[error("expected {expected} values, separated by commas, found {found}")]
    Values {
        /// Number of fields.
        expected: usize,
        /// Number of values.
        found: usize,
    },
    /// The value does not fit its field.
    #[error("invalid {field}: {value:?}")]
    Value {
        /// Name of the field.
        field: String,
        /// The value.
        value: String,
    },
}

/// The identity of a flow, as bytes. It is the same for all packets of a flow under one [`Key`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity(Vec<u8>);

impl Identity {
    /// Sets the identity to that of a packet. Message fields are skipped.
    pub fn set_packet(&mut self, key: Key, packet: &Packet<'_>) {
        self.0.clear();
        for field in key.fields() {
            match field {
                Field::Source(bits) => self.put_address(packet.source, bits),
                Field::Destination(bits) => self.put_address(packet.destination, bits),
                Field::Protocol => self.0.push(packet.protocol),
                Field::SourcePort => self.put_port(packet.ports.map(|(source, _)| source)),
                Field::DestinationPort => self.put_port(packet.ports.map(|(_, destination)| destination)),
                Field::Service => self.0.push(service(packet.header)),
                Field::TimeToLive => self.0.push(time_to_live(packet.header)),
                Field::Sender | Field::SenderDomain => {}
            }
        }
    }

    /// Sets the identity to the sender of a message, in lower case. Returns false unless the message has exactly one
    /// `From` field with exactly one address.
    pub fn set_message(&mut self, key: Key, message: &[u8]) -> bool {
        self.0.clear();
        let Some(sender) = bruit_signatures::sender::of(message) else { return false };
        let sender = sender.to_ascii_lowercase();
        for field in key.fields() {
            match field {
                Field::Sender => self.put_text(&sender),
                Field::SenderDomain => self.put_text(sender.rsplit('@').next().unwrap_or_default()),
                _ => {}
            }
        }
        true
    }

    /// Parses the identity of a flow from comma-separated values of the key's fields.
    ///
    /// # Errors
    /// [`KeyError`] if the number of values is wrong, or a value does not fit its field.
    pub fn parse(key: Key, text: &str) -> Result<Self, KeyError> {
        let values: Vec<_> = text.split(',').map(str::trim).collect();
        let (expected, found) = (key.fields().count(), values.len());
        if expected != found {
            return Err(KeyError::Values { expected, found });
        }
        let mut identity = Self::default();
        for (field, value) in key.fields().zip(values) {
            let wrong = || KeyError::Value { field: field.to_string(), value: value.to_owned() };
            identity.put_value(field, value).ok_or_else(wrong)?;
        }
        Ok(identity)
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    fn put_value(&mut self, field: Field, value: &str) -> Option<()> {
        match field {
            Field::Source(bits) | Field::Destination(bits) => {
                let address = value.split('/').next().unwrap_or_default();
                self.put_address(address.parse().ok()?, bits);
            }
            Field::Protocol => self.0.push(protocol_number(value)?),
            Field::SourcePort | Field::DestinationPort if value == "-" => self.put_port(None),
            Field::SourcePort | Field::DestinationPort => self.put_port(Some(value.parse().ok()?)),
            Field::Service | Field::TimeToLive => self.0.push(value.parse().ok()?),
            Field::Sender | Field::SenderDomain if value.len() > SENDER_BYTES_MAX => return None,
            Field::Sender | Field::SenderDomain => self.put_text(&value.to_ascii_lowercase()),
        }
        Some(())
    }

    fn put_address(&mut self, address: IpAddr, bits: u8) {
        match address {
            IpAddr::V4(address) => {
                self.0.push(FAMILY_4);
                let kept = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
                self.0.extend_from_slice(&(address.to_bits() & kept).to_be_bytes());
            }
            IpAddr::V6(address) => {
                self.0.push(FAMILY_6);
                let kept = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
                self.0.extend_from_slice(&(address.to_bits() & kept).to_be_bytes());
            }
        }
    }

    fn put_port(&mut self, port: Option<u16>) {
        match port {
            Some(port) => {
                self.0.push(HAS_PORT);
                self.0.extend_from_slice(&port.to_be_bytes());
            }
            None => self.0.push(NO_PORT),
        }
    }

    /// Appends a text and a zero byte. No address contains a zero byte.
    fn put_text(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }
}

/// Returns the second byte of an IPv4 header, or the traffic class of an IPv6 header (the 8 bits after the version).
fn service(header: &[u8]) -> u8 {
    match header {
        [first, second, ..] if first >> 4 == 6 => first << 4 | second >> 4,
        [_, second, ..] => *second,
        _ => 0,
    }
}

fn time_to_live(header: &[u8]) -> u8 {
    let at = if header.first().is_some_and(|first| first >> 4 == 6) { 7 } else { 8 };
    header.get(at).copied().unwrap_or_default()
}

fn protocol_number(text: &str) -> Option<u8> {
    match text {
        "tcp" => Some(6),
        "udp" => Some(17),
        number => number.parse().ok(),
    }
}

impl Key {
    /// Source and destination address.
    pub const PAIR: Self = Self::of(&[Field::Source(ALL_BITS), Field::Destination(ALL_BITS)]);
    /// Both addresses, the protocol and both ports.
    pub const FIVE_TUPLE: Self = Self::of(&[
        Field::Source(ALL_BITS),
        Field::SourcePort,
        Field::Destination(ALL_BITS),
        Field::DestinationPort,
        Field::Protocol,
    ]);
    /// The source address.
    pub const SOURCE: Self = Self::of(&[Field::Source(ALL_BITS)]);
    /// The destination address.
    pub const DESTINATION: Self = Self::of(&[Field::Destination(ALL_BITS)]);
    /// The sender of a message.
    pub const SENDER: Self = Self::of(&[Field::Sender]);

    /// List of the field names.
    pub const NAMES: &'static str = "source, destination (optionally with /BITS), protocol, source-port, \
        destination-port, service or time-to-live; for mail, sender or sender-domain; or pair or five-tuple alone";

    const fn of(list: &[Field]) -> Self {
        let mut fields = [None; FIELDS_MAX];
        let mut at = 0;
        while at < list.len() {
            fields[at] = Some(list[at]);
            at += 1;
        }
        Self { fields }
    }

    /// Iterates over the fields in order.
    pub fn fields(self) -> impl Iterator<Item = Field> {
        self.fields.into_iter().flatten()
    }

    /// Returns true if the key applies to messages, false if it applies to packets.
    #[must_use]
    pub fn is_of_mail(self) -> bool {
        self.fields().any(Field::is_of_mail)
    }

    /// Returns the maximum length of an identity under this key.
    #[must_use]
    pub fn identity_bytes_max(self) -> usize {
        self.fields().map(Field::bytes_max).sum()
    }

    /// Formats an identity for display: `10.0.0.1:25 > 10.0.0.2:1024 tcp`.
    #[must_use]
    pub fn describe(self, identity: &[u8]) -> String {
        let mut values = Vec::new();
        let mut rest = identity;
        for field in self.fields() {
            let (value, behind) = field.take(rest);
            values.push((field, value));
            rest = behind;
        }
        let of = |wanted: fn(&Field) -> bool| {
            values.iter().find(|(field, _)| wanted(field)).map(|(_, value)| value.as_str())
        };
        let source = of(|field| matches!(field, Field::Source(_)));
        let destination = of(|field| matches!(field, Field::Destination(_)));
        let mut text = Vec::new();
        let source = source.map(|address| with_port(address, of(|field| *field == Field::SourcePort)));
        let destination = destination.map(|address| with_port(address, of(|field| *field == Field::DestinationPort)));
        let has = (source.is_some(), destination.is_some());
        match (source, destination) {
            (Some(source), Some(destination)) => text.push(format!("{source} > {destination}")),
            (Some(address), None) | (None, Some(address)) => text.push(address),
            (None, None) => {}
        }
        for (field, value) in &values {
            match field {
                Field::Source(_) | Field::Destination(_) => {}
                Field::SourcePort if has.0 => {}
                Field::DestinationPort if has.1 => {}
                Field::Protocol | Field::Sender | Field::SenderDomain => text.push(value.clone()),
                field => text.push(format!("{field} {value}")),
            }
        }
        text.join(" ")
    }
}

/// Formats `address:port`, with brackets if the address contains colons.
fn with_port(address: &str, port: Option<&str>) -> String {
    match port {
        Some("-") | None => address.to_owned(),
        Some(port) if address.contains(':') => format!("[{address}]:{port}"),
        Some(port) => format!("{address}:{port}"),
    }
}

impl FromStr for Key {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        match text {
            "pair" => return Ok(Self::PAIR),
            "five-tuple" => return Ok(Self::FIVE_TUPLE),
            _ => {}
        }
        let fields = text.split(',').map(|name| name.trim().parse()).collect::<Result<Vec<Field>, _>>()?;
        if fields.len() > FIELDS_MAX {
            return Err(KeyError::Count);
        }
        for (at, field) in fields.iter().enumerate() {
            if fields[..at].iter().any(|other| std::mem::discriminant(other) == std::mem::discriminant(field)) {
                return Err(KeyError::Twice(field.to_string()));
            }
        }
        if fields.iter().any(|field| field.is_of_mail() != fields[0].is_of_mail()) {
            return Err(KeyError::Mixed);
        }
        Ok(Self::of(&fields))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<_> = self.fields().map(|field| field.to_string()).collect();
        f.pad(&fields.join(","))
    }
}

impl Field {
    const fn is_of_mail(self) -> bool {
        matches!(self, Self::Sender | Self::SenderDomain)
    }

    const fn bytes_max(self) -> usize {
        match self {
            Self::Source(_) | Self::Destination(_) => 17,
            Self::Protocol | Self::Service | Self::TimeToLive => 1,
            Self::SourcePort | Self::DestinationPort => 3,
            Self::Sender | Self::SenderDomain => SENDER_BYTES_MAX + 1,
        }
    }

    /// Splits the value of this field off the front of `bytes`. Returns the value, formatted for display, and the rest.
    /// Invalid bytes, as in an identity under another key, are shown as a question mark.
    fn take(self, bytes: &[u8]) -> (String, &[u8]) {
        let unknown = || ("?".to_owned(), &bytes[bytes.len()..]);
        match self {
            Self::Source(bits) | Self::Destination(bits) => match take_address(bytes) {
                Some((address, rest)) => (prefix_text(address, bits), rest),
                None => unknown(),
            },
            Self::Protocol => match bytes.split_first() {
                Some((6, rest)) => ("tcp".to_owned(), rest),
                Some((17, rest)) => ("udp".to_owned(), rest),
                Some((number, rest)) => (format!("protocol {number}"), rest),
                None => unknown(),
            },
            Self::SourcePort | Self::DestinationPort => match bytes {
                [HAS_PORT, high, low, rest @ ..] => (u16::from_be_bytes([*high, *low]).to_string(), rest),
                [NO_PORT, rest @ ..] => ("-".to_owned(), rest),
                _ => unknown(),
            },
            Self::Service | Self::TimeToLive => match bytes.split_first() {
                Some((number, rest)) => (number.to_string(), rest),
                None => unknown(),
            },
            Self::Sender | Self::SenderDomain => match bytes.iter().position(|&byte| byte == 0) {
                Some(end) => (String::from_utf8_lossy(&bytes[..end]).into_owned(), &bytes[end + 1..]),
                None => unknown(),
            },
        }
    }
}

impl FromStr for Field {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let (name, bits) = match text.split_once('/') {
            Some((name, bits)) => {
                let bits = bits.parse().ok().filter(|bits| (1..=ALL_BITS).contains(bits));
                (name, Some(bits.ok_or_else(|| KeyError::Bits(text.to_owned()))?))
            }
            None => (text, None),
        };
        match (name, bits) {
            ("source", bits) => Ok(Self::Source(bits.unwrap_or(ALL_BITS))),
            ("destination", bits) => Ok(Self::Destination(bits.unwrap_or(ALL_BITS))),
            ("protocol", None) => Ok(Self::Protocol),
            ("source-port", None) => Ok(Self::SourcePort),
            ("destination-port", None) => Ok(Self::DestinationPort),
            ("service", None) => Ok(Self::Service),
            ("time-to-live", None) => Ok(Self::TimeToLive),
            ("sender", None) => Ok(Self::Sender),
            ("sender-domain", None) => Ok(Self::SenderDomain),
            _ => Err(KeyError::Unknown(text.to_owned())),
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Source(ALL_BITS) => "source",
            Self::Destination(ALL_BITS) => "destination",
            Self::Source(bits) => return write!(f, "source/{bits}"),
            Self::Destination(bits) => return write!(f, "destination/{bits}"),
            Self::Protocol => "protocol",
            Self::SourcePort => "source-port",
            Self::DestinationPort => "destination-port",
            Self::Service => "service",
            Self::TimeToLive => "time-to-live",
            Self::Sender => "sender",
            Self::SenderDomain => "sender-domain",
        })
    }
}

/// Splits an address off the front.
fn take_address(bytes: &[u8]) -> Option<(IpAddr, &[u8])> {
    let (family, rest) = bytes.split_first()?;
    match *family {
        FAMILY_4 => rest.split_first_chunk::<4>().map(|(octets, rest)| (IpAddr::from(*octets), rest)),
        FAMILY_6 => rest.split_first_chunk::<16>().map(|(octets, rest)| (IpAddr::from(*octets), rest)),
        _ => None,
    }
}

/// Formats an address prefix as in `10.0.0.0/8`, or only the address if all bits count.
fn prefix_text(address: IpAddr, bits: u8) -> String {
    let all = if address.is_ipv4() { 32 } else { ALL_BITS };
    if bits >= all { address.to_string() } else { format!("{address}/{bits}") }
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
            header: &[0x45, 0xb8, 0, 0, 0, 0, 0, 0, 63],
            ip_payload: &[],
            ip_payload_bytes: 0,
            payload: &[],
            fragment: Fragment::Whole,
            ipv6_fragment: None,
            unopened: None,
        }
    }

    fn key(text: &str) -> Key {
        text.parse().unwrap()
    }

    fn described(key: Key, packet: &Packet<'_>) -> String {
        let mut identity = Identity::default();
        identity.set_packet(key, packet);
        key.describe(identity.as_bytes())
    }

    #[test]
    fn identities_are_formatted_for_display() {
        let four = packet([10, 0, 0, 1].into(), Some((1024, 25)));
        let six = packet(Ipv6Addr::LOCALHOST.into(), Some((1, 65535)));
        for (key, packet, text) in [
            (Key::PAIR, &four, "10.0.0.1 > 10.0.0.2"),
            (Key::FIVE_TUPLE, &four, "10.0.0.1:1024 > 10.0.0.2:25 tcp"),
            (Key::FIVE_TUPLE, &six, "[::1]:1 > 10.0.0.2:65535 tcp"),
            (Key::FIVE_TUPLE, &packet([9, 9, 9, 9].into(), None), "9.9.9.9 > 10.0.0.2 tcp"),
            (Key::SOURCE, &six, "::1"),
            (Key::DESTINATION, &four, "10.0.0.2"),
        ] {
            assert_eq!(described(key, packet), text);
        }
        assert_eq!(Key::PAIR.describe(b"\x04\x01"), "? > ?");
    }

    #[test]
    fn a_key_is_any_list_of_fields() {
        let four = packet([10, 20, 30, 40].into(), Some((1024, 25)));
        for (fields, text) in [
            ("destination-port", "destination-port 25"),
            ("source/8,destination-port", "10.0.0.0/8 destination-port 25"),
            ("protocol, source/24", "10.20.30.0/24 tcp"),
            ("service,time-to-live", "service 184 time-to-live 63"),
            ("source,source-port", "10.20.30.40:1024"),
            ("source/32", "10.20.30.40"),
        ] {
            assert_eq!(described(key(fields), &four), text, "{fields}");
            assert_eq!(key(&key(fields).to_string()), key(fields), "{fields}");
        }
        assert_eq!(key("source,source-port,destination,destination-port,protocol"), Key::FIVE_TUPLE);
        let six = packet("2001:db8:1:2::3".parse().unwrap(), None);
        assert_eq!(described(key("source/48"), &six), "2001:db8:1::/48");
    }

    #[test]
    fn invalid_field_lists_are_rejected() {
        let error = |text: &str| text.parse::<Key>().unwrap_err().to_string();
        assert!(error("colour").starts_with("unknown field \"colour\": expected source, "));
        assert!(error("").starts_with("unknown field") && error("protocol/3").starts_with("unknown field"));
        for bits in ["0", "129", "x", "-1"] {
            assert!(error(&format!("source/{bits}")).contains("1 to 128 bits"), "{bits}");
        }
        assert!(key("source/1").fields().eq([Field::Source(1)]) && key("source/128") == Key::SOURCE);
        assert_eq!(error("source,protocol,source/8"), "duplicate field \"source/8\"");
        assert_eq!(error("source,sender"), "a key cannot have both packet fields and message fields");
    }

    #[test]
    fn a_flow_is_parsed_from_the_values_of_its_fields() {
        let four = packet([10, 20, 30, 40].into(), Some((1024, 25)));
        let mut identity = Identity::default();
        for (fields, values) in [
            ("pair", "10.20.30.40, 10.0.0.2"),
            ("five-tuple", "10.20.30.40,1024,10.0.0.2,25,tcp"),
            ("source/16,protocol", "10.20.0.0/16,6"),
            ("service,time-to-live", "184,63"),
        ] {
            identity.set_packet(key(fields), &four);
            assert_eq!(Identity::parse(key(fields), values).unwrap(), identity, "{fields}");
        }
        identity.set_packet(key("source-port"), &packet([1, 2, 3, 4].into(), None));
        assert_eq!(Identity::parse(key("source-port"), "-").unwrap(), identity);
        let error = |fields: &str, values: &str| Identity::parse(key(fields), values).unwrap_err().to_string();
        assert_eq!(error("pair", "10.0.0.1"), "expected 2 values, separated by commas, found 1");
        assert_eq!(error("source", "here"), "invalid source: \"here\"");
        assert_eq!(error("protocol", "256"), "invalid protocol: \"256\"");
    }

    #[test]
    fn a_sender_is_one_address_in_lower_case() {
        let mut identity = Identity::default();
        assert!(identity.set_message(Key::SENDER, b"From: Someone <Some.One@Example.org>\n\nhello"));
        assert_eq!(Key::SENDER.describe(identity.as_bytes()), "some.one@example.org");
        assert!(identity.set_message(key("sender-domain"), b"From: Someone <Some.One@Example.org>\n\nhello"));
        assert_eq!(key("sender-domain").describe(identity.as_bytes()), "example.org");
        assert!(!identity.set_message(Key::SENDER, b"Subject: nobody\n\nhello"));
        assert!(identity.as_bytes().is_empty());
    }

    #[test]
    fn the_longest_identity_of_a_packet_is_within_the_bound() {
        let mut identity = Identity::default();
        let address = IpAddr::from(Ipv6Addr::LOCALHOST);
        let packet = Packet { destination: address, ..packet(address, Some((1, 2))) };
        for key in [Key::PAIR, Key::FIVE_TUPLE, Key::SOURCE, Key::DESTINATION] {
            identity.set_packet(key, &packet);
            assert!(identity.as_bytes().len() == key.identity_bytes_max() && IDENTITY_BYTES_MAX >= 42);
        }
        assert_eq!(key("sender,sender-domain").identity_bytes_max(), IDENTITY_BYTES_MAX);
    }
}
