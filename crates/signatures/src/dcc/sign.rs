//! The checksums of a message, in ascending order of kind.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use md5::{Digest, Md5};

use super::body::Body;
use super::content::{self, BodySection, BodySections};
use super::fields::{last_values, normalised, split_header};
use super::fuzzy::Letters;

/// The trait that a checksum covers. The values are the numbers in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// IP address of the SMTP client that sent the message.
    Ip = 1,
    /// Envelope sender.
    EnvFrom = 2,
    /// The `From` field.
    From = 3,
    /// The `Message-ID` field.
    MessageId = 5,
    /// The last `Received` field.
    Received = 6,
    /// The body.
    Body = 7,
    /// The letters of the text.
    Fuz1 = 8,
}

impl Kind {
    /// Returns the number in the protocol.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the name used in headers, logs and configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ip => "IP",
            Self::EnvFrom => "env_From",
            Self::From => "From",
            Self::MessageId => "Message-ID",
            Self::Received => "Received",
            Self::Body => "Body",
            Self::Fuz1 => "Fuz1",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// One checksum of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Checksum {
    /// The trait that the checksum covers.
    pub kind: Kind,
    /// The MD5.
    pub sum: [u8; 16],
}

/// Information about a message in addition to its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Envelope<'a> {
    /// IP address of the SMTP client that sent the message.
    pub client: Option<IpAddr>,
    /// Envelope sender. It is empty for delivery notifications.
    pub sender: Option<&'a [u8]>,
}

/// Computes the checksums of `message`, in ascending order of kind.
///
/// ```
/// use bruit_signatures::dcc::{Envelope, Kind, sign};
///
/// let message = b"From: A <a@example.org>\n\nA text of thirty letters, or a few more than that.\n";
/// let kinds: Vec<_> = sign(message, &Envelope::default()).iter().map(|checksum| checksum.kind).collect();
/// assert_eq!(kinds, [Kind::From, Kind::Body, Kind::Fuz1]);
/// ```
#[must_use]
pub fn sign(message: &[u8], envelope: &Envelope<'_>) -> Vec<Checksum> {
    let (header, text) = split_header(message);
    let [content_type, encoding] = content::FIELDS;
    let names = ["From", "Message-ID", "Received", content_type, encoding];
    let [from, message_id, received, content_type, encoding] = last_values(header, names);
    let (mut body, mut letters) = (Body::default(), Letters::default());
    for section in BodySections::new([content_type, encoding], text) {
        body.add(section.bytes());
        if let BodySection::Content(content) = section {
            letters.add(&content);
        }
    }
    let sums = [
        (Kind::Ip, envelope.client.map(address_sum)),
        (Kind::EnvFrom, envelope.sender.map(field_sum)),
        (Kind::From, from.map(field_sum)),
        (Kind::MessageId, message_id.map(field_sum)),
        (Kind::Received, received.map(field_sum)),
        (Kind::Body, body.finish()),
        (Kind::Fuz1, letters.finish().map(md5)),
    ];
    sums.into_iter().filter_map(|(kind, sum)| Some(Checksum { kind, sum: sum? })).collect()
}

fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// Computes the checksum of an IP address from its sixteen IPv6 bytes. An IPv4 address is first mapped to IPv6.
#[must_use]
pub fn address_sum(address: IpAddr) -> [u8; 16] {
    let address: Ipv6Addr = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    md5(&address.octets())
}

/// Computes the checksum of a header field value or an envelope sender.
#[must_use]
pub fn field_sum(value: &[u8]) -> [u8; 16] {
    md5(&normalised(value))
}

/// Computes the checksum of a substitute header, i.e. an additional field that a client is configured to send. The
/// checksum covers the field's name in lower case and its value.
#[must_use]
pub fn substitute_sum(name: &[u8], value: &[u8]) -> [u8; 16] {
    let hash = Md5::new().chain_update(name.to_ascii_lowercase()).chain_update(normalised(value));
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::super::body::BODY_BYTES_MIN;
    use super::*;

    fn sum_of(message: &str, kind: Kind) -> Option<[u8; 16]> {
        let checksums = sign(message.as_bytes(), &Envelope::default());
        checksums.iter().find(|checksum| checksum.kind == kind).map(|checksum| checksum.sum)
    }

    /// Returns a message whose body has `count` hashed bytes.
    fn of_length(count: usize) -> String {
        format!("\n = {}\r\n", "1".repeat(count))
    }

    #[test]
    fn short_bodies_have_no_sum() {
        assert_eq!(sum_of(&of_length(BODY_BYTES_MIN - 1), Kind::Body), None);
        assert_eq!(sum_of(&of_length(BODY_BYTES_MIN), Kind::Body), Some(md5(&[b'1'; BODY_BYTES_MIN])));
    }

    #[test]
    fn a_substitute_is_its_name_and_value() {
        assert_eq!(substitute_sum(b"List-ID", b" <News.example.>"), md5(b"list-idnews.example"));
    }

    #[test]
    fn quoted_from_lines_are_those_without_the_quote() {
        let filling = "filling of more than thirty bytes";
        let body = |text: &str| sum_of(&format!("\n{filling}\n{text}"), Kind::Body);
        assert_eq!(body(">From here"), body("From here"));
        assert_ne!(body(">>From here"), body("From here"));
        assert_ne!(body("x >From here"), body("x From here"));
    }
}
