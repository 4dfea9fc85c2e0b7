//! Requests for the load generator, built from numbers. Signature number n is the same in all requests.

pub(crate) mod dcc;
pub(crate) mod fuzzy;
pub(crate) mod pyzor;

use std::collections::HashMap;
use std::io::{self, Error};
use std::time::Duration;

use super::load::{Answers, Packets};
use crate::keys::mixed;

/// A kind of request: encodes requests and decodes replies.
pub(crate) trait Kind {
    /// Appends request number `serial`, about signature number `signature`.
    fn write(&self, serial: u32, signature: u64, packet: &mut Vec<u8>);

    /// Returns the value that identifies the reply to request number `serial`.
    fn mark(&self, serial: u32) -> u32 {
        serial
    }

    /// Decodes a reply. Returns `None` if it is invalid or a refusal.
    fn read(&self, reply: &[u8]) -> Option<Reading>;
}

/// A decoded reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// [`Kind::mark`] of the request.
    pub(crate) mark: u32,
    /// True if the signature is known.
    pub(crate) is_known: bool,
}

/// First number of the signatures that are never reported.
const ABSENT_FROM: u64 = 1 << 40;

/// The signatures of a series of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SignatureRange {
    /// Alternately, a signature below this number and one that was never reported.
    HalfBelow(u64),
    /// Consecutive signatures, starting with this number.
    From(u64),
}

impl SignatureRange {
    fn signature(self, serial: u32, at: usize) -> u64 {
        match self {
            Self::HalfBelow(known) if at.is_multiple_of(2) => mixed(u64::from(serial)) % known,
            Self::HalfBelow(_) => ABSENT_FROM + u64::from(serial),
            Self::From(first) => first + at as u64,
        }
    }
}

/// Requests of one kind, with the expected replies.
pub(crate) struct Requests<'a> {
    kind: &'a dyn Kind,
    first: u32,
    about: SignatureRange,
    pub(crate) packets: Packets,
}

impl<'a> Requests<'a> {
    /// Creates `count` requests with consecutive serial numbers, starting with `first`.
    pub(crate) fn new(kind: &'a dyn Kind, first: u32, count: usize, about: SignatureRange) -> Self {
        let packets = Packets::new(count, |at, packet| {
            let serial = first.wrapping_add(at as u32);
            kind.write(serial, about.signature(serial, at), packet);
        });
        Self { kind, first, about, packets }
    }

    /// Evaluates the answers. Request number n was due after n × `interval`. Fails if an answer is not a valid reply,
    /// or does not match a request.
    pub(crate) fn read(&self, answers: &Answers, interval: Duration) -> io::Result<Findings> {
        let mut open: HashMap<u32, usize> =
            (0..self.packets.count()).map(|at| (self.kind.mark(self.first.wrapping_add(at as u32)), at)).collect();
        let mut findings = Findings::default();
        for (reply, arrival) in answers.iter() {
            let reading = self.kind.read(reply).ok_or_else(|| refused(reply))?;
            let at = open.remove(&reading.mark).ok_or_else(|| Error::other("reply does not match any request"))?;
            let was_reported = matches!(self.about, SignatureRange::HalfBelow(_)) && at.is_multiple_of(2);
            findings.forgotten += usize::from(was_reported && !reading.is_known);
            findings.waits.push(arrival.saturating_sub(interval * at as u32));
        }
        Ok(findings)
    }
}

/// The evaluated answers to [`Requests`].
#[derive(Default)]
pub(crate) struct Findings {
    /// Latency of each answered request, in no particular order.
    pub(crate) waits: Vec<Duration>,
    /// Number of signatures that were reported, but that the server does not know.
    pub(crate) forgotten: usize,
}

fn refused(reply: &[u8]) -> Error {
    Error::other(format!("refusal or invalid reply: {}", reply.escape_ascii()))
}

/// Returns `N` bytes derived from signature number `signature` and a salt.
pub(crate) fn bytes_of<const N: usize>(signature: u64, salt: u64) -> [u8; N] {
    let mut bytes = [0; N];
    for (at, chunk) in bytes.chunks_mut(8).enumerate() {
        let word = mixed(mixed(signature ^ salt << 56) ^ at as u64).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_check_is_of_a_known_signature() {
        let about = SignatureRange::HalfBelow(10);
        assert!((0..100).step_by(2).all(|at| about.signature(at as u32, at) < 10));
        assert!((1..100).step_by(2).all(|at| about.signature(at as u32, at) >= ABSENT_FROM));
        assert_eq!(SignatureRange::From(7).signature(0, 3), 10);
    }

    #[test]
    fn bytes_of_a_signature_are_its_own() {
        assert_eq!(bytes_of::<20>(1, 2), bytes_of::<20>(1, 2));
        assert_ne!(bytes_of::<20>(1, 2), bytes_of::<20>(2, 2));
        assert_ne!(bytes_of::<20>(1, 2), bytes_of::<20>(1, 3));
        assert_ne!(bytes_of::<64>(1, 2)[..32], bytes_of::<64>(1, 2)[32..]);
    }
}
