//! What all frames have in common: header and signature.

use std::ops::RangeInclusive;

use md5::{Digest, Md5};

use super::VERSION_MAX;

/// The sender of a request that no account stands behind.
pub const ANONYMOUS: u32 = 1;

/// The IDs of servers, under which they are administered.
pub const SERVER_IDS: RangeInclusive<u32> = 100..=0x7fff;

/// The IDs of clients.
pub const CLIENT_IDS: RangeInclusive<u32> = 0x8000..=0xff_ffff;

/// The bytes at the end of a frame that prove who sent it.
pub const SIGNATURE_BYTES: usize = 16;

/// The four numbers of a transaction, as sent: host, process, request and transmission.
pub type Numbers = [u8; 16];

/// The bytes of a header.
pub(super) const HEADER_BYTES: usize = 24;

/// The oldest version that a reply is given in.
pub(super) const VERSION_MIN: u8 = 4;

/// The newest version whose unauthenticated replies carry a signature.
const VERSION_SIGNING_ALL: u8 = 8;

/// What a frame begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version it is written in.
    pub version: u8,
    /// Who sent it: a client, a server, or [`ANONYMOUS`].
    pub sender: u32,
    /// The transaction.
    pub numbers: Numbers,
}

/// A frame taken apart.
pub(super) struct Frame<'f> {
    pub(super) header: Header,
    pub(super) op: u8,
    pub(super) body: &'f [u8],
}

impl<'f> Frame<'f> {
    /// Takes a datagram apart; none if it is too short, or not as long as it says.
    pub(super) fn read(datagram: &'f [u8]) -> Option<Self> {
        let (unsigned, _) = datagram.split_last_chunk::<SIGNATURE_BYTES>()?;
        let (header, body) = unsigned.split_first_chunk::<HEADER_BYTES>()?;
        let (&[high, low, version, op, a, b, c, d], &numbers) =
            header.split_first_chunk().and_then(|(head, rest)| {
                let numbers: &Numbers = rest.try_into().ok()?;
                Some((head, numbers))
            })?;
        let is_whole = usize::from(u16::from_be_bytes([high, low])) == datagram.len();
        let header = Header { version, sender: u32::from_be_bytes([a, b, c, d]), numbers };
        is_whole.then_some(Self { header, op, body })
    }
}

impl Header {
    /// Appends a frame to `out`: this header, the body that `body` writes, and the signature that `sign` makes of both.
    pub(super) fn write(
        &self,
        op: u8,
        out: &mut Vec<u8>,
        body: impl FnOnce(&mut Vec<u8>),
        sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_BYTES],
    ) {
        let start = out.len();
        out.extend_from_slice(&[0, 0, self.version, op]);
        out.extend_from_slice(&self.sender.to_be_bytes());
        out.extend_from_slice(&self.numbers);
        body(out);
        let frame = out.get_mut(start..).unwrap_or_default();
        let length = u16::try_from(frame.len() + SIGNATURE_BYTES).unwrap_or(u16::MAX).to_be_bytes();
        frame.iter_mut().zip(length).for_each(|(byte, length)| *byte = length);
        let signature = sign(frame);
        out.extend_from_slice(&signature);
    }

    /// The header of a reply to this one. Its version is the request's, as far as we speak it.
    pub(super) fn of_reply(&self, server: u32) -> Self {
        Self { version: self.version.clamp(VERSION_MIN, VERSION_MAX), sender: server, numbers: self.numbers }
    }

    /// The signature of a reply to a request that no password signed: none, but up to version 8 one by the transaction
    /// numbers, which are not padded as passwords are.
    #[must_use]
    pub fn unauthenticated(&self, reply: &[u8]) -> [u8; SIGNATURE_BYTES] {
        if self.version > VERSION_SIGNING_ALL {
            return [0; SIGNATURE_BYTES];
        }
        Md5::new().chain_update(self.numbers).chain_update(reply).finalize().into()
    }
}

/// Whether a request may come under this ID.
pub(super) fn is_sender(id: u32) -> bool {
    id == ANONYMOUS || SERVER_IDS.contains(&id) || CLIENT_IDS.contains(&id)
}
