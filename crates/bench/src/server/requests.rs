//! The requests of the load, by numbers: signature number n is the same in every request that is about it.

pub(crate) mod dcc;
pub(crate) mod fuzzy;
pub(crate) mod pyzor;

use std::collections::HashMap;
use std::io::{self, Error};
use std::time::Duration;

use super::load::{Answers, Packets};
use crate::keys::mixed;

/// A kind of request: how it is written, and what its replies say.
pub(crate) trait Kind {
    /// Appends request number `serial`, about signature number `signature`.
    fn write(&self, serial: u32, signature: u64, packet: &mut Vec<u8>);

    /// What the reply to request number `serial` can be told by.
    fn mark(&self, serial: u32) -> u32 {
        serial
    }

    /// What a reply says, unless it is none or says that something was refused.
    fn read(&self, reply: &[u8]) -> Option<Reading>;
}

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// [`Kind::mark`] of the request.
    pub(crate) mark: u32,
    /// Whether the signature is known.
    pub(crate) is_known: bool,
}

/// Signatures that nobody ever reports have numbers from here on.
const ABSENT_FROM: u64 = 1 << 40;

/// What requests are about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum About {
    /// Of every two requests, one is about a signature below this number and one about one that nobody reported.
    HalfBelow(u64),
    /// Signatures from this number on.
    From(u64),
}

impl About {
    fn signature(self, serial: u32, at: usize) -> u64 {
        match self {
            Self::HalfBelow(known) if at.is_multiple_of(2) => mixed(u64::from(serial)) % known,
            Self::HalfBelow(_) => ABSENT_FROM + u64::from(serial),
            Self::From(first) => first + at as u64,
        }
    }
}

/// Requests of one kind, and what is expected of the replies.
pub(crate) struct Requests<'a> {
    kind: &'a dyn Kind,
    first: u32,
    about: About,
    pub(crate) packets: Packets,
}

impl<'a> Requests<'a> {
    /// `count` requests with the serial numbers from `first` on.
    pub(crate) fn new(kind: &'a dyn Kind, first: u32, count: usize, about: About) -> Self {
        let packets = Packets::new(count, |at, packet| {
            let serial = first.wrapping_add(at as u32);
            kind.write(serial, about.signature(serial, at), packet);
        });
        Self { kind, first, about, packets }
    }

    /// What the answers say, if request number n was due after n × `interval`. An error if one is no reply, or answers
    /// nothing that was asked.
    pub(crate) fn read(&self, answers: &Answers, interval: Duration) -> io::Result<Findings> {
        let mut open: HashMap<u32, usize> =
            (0..self.packets.count()).map(|at| (self.kind.mark(self.first.wrapping_add(at as u32)), at)).collect();
        let mut findings = Findings::default();
        for (reply, arrival) in answers.iter() {
            let reading = self.kind.read(reply).ok_or_else(|| refused(reply))?;
            let at = open.remove(&reading.mark).ok_or_else(|| Error::other("a reply to nothing that was asked"))?;
            let was_reported = matches!(self.about, About::HalfBelow(_)) && at.is_multiple_of(2);
            findings.forgotten += usize::from(was_reported && !reading.is_known);
            findings.waits.push(arrival.saturating_sub(interval * at as u32));
        }
        Ok(findings)
    }
}

/// What the answers to [`Requests`] say.
#[derive(Default)]
pub(crate) struct Findings {
    /// How long each answered request took, in no order.
    pub(crate) waits: Vec<Duration>,
    /// Signatures that were reported and are not known.
    pub(crate) forgotten: usize,
}

fn refused(reply: &[u8]) -> Error {
    Error::other(format!("refused, or no reply at all: {}", reply.escape_ascii()))
}

/// `N` bytes that belong to signature number `signature`; other salts, other bytes.
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
        let about = About::HalfBelow(10);
        assert!((0..100).step_by(2).all(|at| about.signature(at as u32, at) < 10));
        assert!((1..100).step_by(2).all(|at| about.signature(at as u32, at) >= ABSENT_FROM));
        assert_eq!(About::From(7).signature(0, 3), 10);
    }

    #[test]
    fn bytes_of_a_signature_are_its_own() {
        assert_eq!(bytes_of::<20>(1, 2), bytes_of::<20>(1, 2));
        assert_ne!(bytes_of::<20>(1, 2), bytes_of::<20>(2, 2));
        assert_ne!(bytes_of::<20>(1, 2), bytes_of::<20>(1, 3));
        assert_ne!(bytes_of::<64>(1, 2)[..32], bytes_of::<64>(1, 2)[32..]);
    }
}
