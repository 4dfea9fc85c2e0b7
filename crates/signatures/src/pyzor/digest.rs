//! Computation of the digest from the leaves of a message.

use std::borrow::Cow;
use std::fmt;

use sha1::{Digest as _, Sha1};

use super::charset::{self, Errors};
use super::lines::Lines;
use super::parts::{self, Leaf};
use super::{html, transfer};
use crate::hex;

/// The client release to reproduce. The module documentation lists the differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// Pyzor 1.0, as shipped by Debian 12.
    V1_0,
    /// Pyzor 1.1.
    V1_1,
}

/// A Pyzor digest, i.e. the SHA-1 of at most six lines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 20]);

impl Digest {
    /// The digest of every message without a usable line: the SHA-1 of the empty string. It must not be counted,
    /// because unrelated messages share it.
    pub const EMPTY: Self = Self([
        0xda, 0x39, 0xa3, 0xee, 0x5e, 0x6b, 0x4b, 0x0d, 0x32, 0x55, 0xbf, 0xef, 0x95, 0x60, 0x18, 0x90, 0xaf, 0xd8,
        0x07, 0x09,
    ]);
}

/// Formats the digest as forty lower-case hex digits, as the client does.
impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex::write(f, &self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// Computes the digest of a message, as printed by `pyzor digest`.
///
/// ```
/// use bruit_signatures::pyzor::{Digest, Version, digest};
///
/// let message = b"Subject: greetings\n\nA line of words for all to see\n";
/// assert_eq!(digest(message, Version::V1_0).to_string(), "43b29df8c01a43accd33c98b73e40ff52bca2808");
/// assert_eq!(digest(b"Subject: nothing\n\nto see\n", Version::V1_0), Digest::EMPTY);
/// ```
pub fn digest(message: &[u8], version: Version) -> Digest {
    hash(&lines(message, version))
}

/// Computes the digests of both versions, 1.0 and 1.1. This costs little more than one digest, because the two can
/// differ only if the message contains NUL.
pub fn digests(message: &[u8]) -> [Digest; 2] {
    let mut has_nul = memchr::memchr(0, message).is_some();
    let mut lines = Lines::new(Version::V1_0);
    parts::for_each_leaf(message, &mut |leaf| {
        let text = text(&leaf);
        has_nul |= memchr::memchr(0, text.as_bytes()).is_some();
        lines.add(&text);
    });
    let older = hash(&lines);
    [older, if has_nul { digest(message, Version::V1_1) } else { older }]
}

/// Returns the lines that [`digest`] hashes, in order, as printed by `pyzor predigest`.
pub fn predigest(message: &[u8], version: Version) -> Vec<String> {
    lines(message, version).chosen().map(str::to_owned).collect()
}

fn hash(lines: &Lines) -> Digest {
    let mut hash = Sha1::new();
    for line in lines.chosen() {
        hash.update(line);
    }
    Digest(hash.finalize().into())
}

/// Returns all usable lines of a message.
fn lines(message: &[u8], version: Version) -> Lines {
    let mut lines = Lines::new(version);
    parts::for_each_leaf(message, &mut |leaf| lines.add(&text(&leaf)));
    lines
}

/// Returns the text of a leaf. Only text leaves are decoded, and only HTML leaves are reduced to their text.
fn text<'a>(leaf: &'a Leaf<'_>) -> Cow<'a, str> {
    let content_type = leaf.header.content_type();
    if !content_type.is_text() {
        return charset::undecoded(&leaf.payload, || content_type.raw_charset());
    }
    let bytes = transfer::decode(&leaf.payload, leaf.header.transfer_encoding());
    let text = charset::decode(bytes, content_type.charset().as_deref().unwrap_or("ascii"), Errors::Ignore);
    if content_type.is_html() { Cow::Owned(html::text(&text)) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_digests_at_once_are_the_two_of_their_own() {
        for message in [
            "\nwords in a line",
            "\nwords in\0 a line",
            "Content-Transfer-Encoding: quoted-printable\n\nwords=00 in a line",
        ] {
            let both = [Version::V1_0, Version::V1_1].map(|version| digest(message.as_bytes(), version));
            assert_eq!(digests(message.as_bytes()), both, "{message}");
            assert_eq!(both[0] == both[1], !message.contains('0') && !message.contains('\0'));
        }
    }
}
