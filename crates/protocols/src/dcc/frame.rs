//! The header and the signature, which all frames have.

use std::ops::RangeInclusive;

use md5::{Digest, Md5};

use super::{VERSION_MAX, VERSION_MIN};

/// Client ID of anonymous requests.
pub const ANONYMOUS: u32 = 1;

/// Server IDs, used for administrative requests.
pub const SERVER_IDS: RangeInclusive<u32> = 100..=0x7fff;

/// Client IDs of accounts.
pub const CLIENT_IDS: RangeInclusive<u32> = 0x8000..=0xff_ffff;

/// Size of the signature at the end of a frame.
pub const SIGNATURE_BYTES: usize = 16;

/// The four transaction numbers as sent: host, process, request and transmission.
pub type Numbers = [u8; 16];

/// Size of a header.
pub(super) const HEADER_BYTES: usize = 24;

/// The newest version in which replies to unsigned requests carry a signature.
const VERSION_SIGNING_ALL: u8 = 8;

/// A frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Protocol version of the frame.
    pub version: u8,
    /// ID of the sender: a client, a server, or [`ANONYMOUS`].
    pub sender: u32,
    /// Transaction numbers.
    pub numbers: Numbers,
}

/// A frame split into its parts.
pub(super) struct Frame<'f> {
    pub(super) header: Header,
    pub(super) op: u8,
    pub(super) body: &'f [u8],
}

impl<'f> Frame<'f> {
    /// Splits a datagram. Returns `None` if it is too short or its length field is wrong.
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
    /// Appends a frame to `out`: this header, the body written by `body`, and the signature that `sign` computes over
    /// both.
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

    /// Returns the header of the reply from the server with the ID `server`. Its version is the request's, clamped to
    /// the supported range.
    pub(super) fn of_reply(&self, server: u32) -> Self {
        Self { version: self.version.clamp(VERSION_MIN, VERSION_MAX), sender: server, numbers: self.numbers }
    }

    /// Returns the signature of a reply to an unsigned request. Up to version 8, the transaction numbers are the key.
    /// Unlike passwords, they are not padded. In later versions, the signature is all zeros.
    #[must_use]
    pub fn unauthenticated(&self, reply: &[u8]) -> [u8; SIGNATURE_BYTES] {
        if self.version > VERSION_SIGNING_ALL {
            return [0; SIGNATURE_BYTES];
        }
        Md5::new().chain_update(self.numbers).chain_update(reply).finalize().into()
    }
}

/// Returns true if the sender of a request may have this ID.
pub(super) fn is_sender(id: u32) -> bool {
    id == ANONYMOUS || SERVER_IDS.contains(&id) || CLIENT_IDS.contains(&id)
}
