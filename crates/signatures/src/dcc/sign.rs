//! The checksums of a message, in the order of their numbers.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use md5::{Digest, Md5};

use super::content::{self, Segment};
use super::fields::{fields, normalised, split_header};
use super::fuzzy;

/// A body with fewer bytes than this, not counting blanks, has no checksum.
const BODY_BYTES_MIN: usize = 30;

/// What a checksum is of. The numbers are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// The address of the client that sent the message.
    Ip = 1,
    /// The sender of the envelope.
    EnvFrom = 2,
    /// The field `From`.
    From = 3,
    /// The field `Message-ID`.
    MessageId = 5,
    /// The last field `Received`.
    Received = 6,
    /// The body.
    Body = 7,
    /// The letters of the text.
    Fuz1 = 8,
}

impl Kind {
    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The name in headers, logs and configuration.
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
    /// What it is of.
    pub kind: Kind,
    /// The MD5.
    pub sum: [u8; 16],
}

/// What is known of a message beside its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Envelope<'a> {
    /// The address of the client that sent it.
    pub client: Option<IpAddr>,
    /// The sender its envelope names; empty for notifications of delivery.
    pub sender: Option<&'a [u8]>,
}

/// The checksums of `message`, in ascending order of their numbers.
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
    let header = split_header(message).0;
    let field = |name: &str| fields(header).filter(|field| field.is(name)).last().map(|field| field_sum(field.value));
    let segments = content::segments(message);
    let sums = [
        (Kind::Ip, envelope.client.map(address_sum)),
        (Kind::EnvFrom, envelope.sender.map(field_sum)),
        (Kind::From, field("From")),
        (Kind::MessageId, field("Message-ID")),
        (Kind::Received, field("Received")),
        (Kind::Body, body_sum(&segments)),
        (Kind::Fuz1, fuzzy::letters(&segments).map(|letters| md5(&letters))),
    ];
    sums.into_iter().filter_map(|(kind, sum)| Some(Checksum { kind, sum: sum? })).collect()
}

fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// Of all sixteen bytes of an address of version 6; one of version 4 is mapped into it.
fn address_sum(address: IpAddr) -> [u8; 16] {
    let address: Ipv6Addr = match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    md5(&address.octets())
}

fn field_sum(value: &[u8]) -> [u8; 16] {
    md5(&normalised(value))
}

/// Of everything in the body but blanks, tabs, line ends and `=`, with the `>` gone that mailboxes put before `From`.
fn body_sum(segments: &[Segment<'_>]) -> Option<[u8; 16]> {
    let mut bytes = Vec::new();
    let mut is_line_start = false;
    for segment in segments {
        for line in segment.bytes().split_inclusive(|&byte| byte == b'\n') {
            let line =
                line.strip_prefix(b">").filter(|rest| is_line_start && rest.starts_with(b"From")).unwrap_or(line);
            is_line_start = line.ends_with(b"\n");
            bytes.extend(line.iter().filter(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'=')));
        }
    }
    (bytes.len() >= BODY_BYTES_MIN).then(|| md5(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of(message: &str, kind: Kind) -> Option<[u8; 16]> {
        let checksums = sign(message.as_bytes(), &Envelope::default());
        checksums.iter().find(|checksum| checksum.kind == kind).map(|checksum| checksum.sum)
    }

    /// A message whose body has `count` bytes that count.
    fn of_length(count: usize) -> String {
        format!("\n = {}\r\n", "1".repeat(count))
    }

    #[test]
    fn short_bodies_have_no_sum() {
        assert_eq!(sum_of(&of_length(BODY_BYTES_MIN - 1), Kind::Body), None);
        assert_eq!(sum_of(&of_length(BODY_BYTES_MIN), Kind::Body), Some(md5(&[b'1'; BODY_BYTES_MIN])));
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
