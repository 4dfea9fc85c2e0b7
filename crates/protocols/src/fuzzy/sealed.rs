//! Encryption. Only the addressed server can read a request, and only the client can read the reply.
//!
//! | step | operation |
//! |---|---|
//! | 1 | X25519 computes a shared point from one's own secret key and the other side's public key |
//! | 2 | HChaCha20 of that point and 16 zero bytes yields the [`SharedKey`], used for all messages of both sides |
//! | 3 | each message has a nonce, which selects an XChaCha20 keystream |
//! | 4 | the first 32 bytes of the keystream are the MAC key; the next 32 are discarded |
//! | 5 | the message is encrypted with the rest of the keystream |
//! | 6 | the MAC is Poly1305 of the ciphertext only |
//!
//! Unlike this scheme, NaCl's box discards no bytes in step 4, and RFC 8439 authenticates lengths in step 6.

use std::fmt;

use chacha20::cipher::StreamCipher;
use chacha20::{KeyIvInit, R20, XChaCha20, hchacha};
use poly1305::Poly1305;
use poly1305::universal_hash::KeyInit;
use subtle::ConstantTimeEq;

use super::keys::{KEY_BYTES, KeyId, PublicKey};
use super::reply::{REPLY_BYTES, Reply};
use super::{COMMAND_BYTES, DATAGRAM_BYTES_MAX, Version, put, split};

/// Size of a nonce.
pub const NONCE_BYTES: usize = 24;

/// A nonce. It should be random, and must never be used twice with the same key.
pub type Nonce = [u8; NONCE_BYTES];

/// Magic bytes of an encrypted request.
const MAGIC: &[u8; 4] = b"rsfe";

const MAC_BYTES: usize = 16;

/// Number of bytes before the ciphertext of a request.
const HEADER_BYTES: usize = MAGIC.len() + size_of::<KeyId>() + KEY_BYTES + NONCE_BYTES + MAC_BYTES;

/// Offset of nonce and MAC in a request header. From this offset on, a request has the same layout as a reply.
const NONCE_START: usize = HEADER_BYTES - MAC_BYTES - NONCE_BYTES;

/// Minimum length of an encrypted request. A shorter datagram is handled as a plain request.
pub const SEALED_REQUEST_BYTES_MIN: usize = HEADER_BYTES + COMMAND_BYTES;

/// Maximum length of a message that can be encrypted.
pub const MESSAGE_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - HEADER_BYTES;

/// Number of keystream bytes before the part that encrypts the message.
const STREAM_HEAD_BYTES: usize = 64;

/// Offset of the keystream in a [`Buffer`], chosen so that the message has the same offset as in a request.
const STREAM_START: usize = HEADER_BYTES - STREAM_HEAD_BYTES;

/// Chunk size of the keystream, four blocks. Vector instructions compute these in the time of one block.
const STREAM_PIECE: usize = 256;

const BUFFER_BYTES: usize = STREAM_START + (STREAM_HEAD_BYTES + MESSAGE_BYTES_MAX).next_multiple_of(STREAM_PIECE);

/// The parts of an encrypted request.
#[derive(Clone, Copy, Debug)]
pub struct SealedRequest<'p> {
    /// ID of the server key for which the request is encrypted.
    pub key_id: KeyId,
    /// The client's public key. The client generates a new one at each start.
    pub client: PublicKey,
    nonce: &'p Nonce,
    mac: &'p [u8; MAC_BYTES],
    ciphertext: &'p [u8],
}

/// The key that encrypts all messages between the owners of two key pairs.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedKey([u8; KEY_BYTES]);

/// A reusable buffer for one message. Its contents are unspecified between calls.
#[derive(Clone)]
pub struct Buffer([u8; BUFFER_BYTES]);

/// Reason why a message cannot be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The message was modified, or encrypted with another key.
    #[error("MAC mismatch: the message was modified or encrypted with another key")]
    Mac,
    /// The message is too short for a nonce and a MAC, or longer than [`MESSAGE_BYTES_MAX`].
    #[error("invalid encrypted message length: {0} bytes")]
    Length(usize),
}

/// Error: the message is longer than [`MESSAGE_BYTES_MAX`], so it cannot be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message of {0} bytes is too long: an encrypted datagram holds at most {MESSAGE_BYTES_MAX}")]
pub struct SealError(pub usize);

impl<'p> SealedRequest<'p> {
    /// Splits an encrypted datagram. Returns `None` for other datagrams, which may be plain commands.
    #[must_use]
    pub fn parse(datagram: &'p [u8]) -> Option<Self> {
        if !(SEALED_REQUEST_BYTES_MIN..=DATAGRAM_BYTES_MAX).contains(&datagram.len()) {
            return None;
        }
        let rest = datagram.strip_prefix(MAGIC)?;
        let (key_id, rest) = split(rest)?;
        let (client, rest) = split(rest)?;
        let (nonce, rest) = split(rest)?;
        let (mac, ciphertext) = split(rest)?;
        Some(Self { key_id: *key_id, client: PublicKey(*client), nonce, mac, ciphertext })
    }

    /// Returns the nonce. Clients never reuse a nonce, so a request with a known nonce is a retransmission.
    #[must_use]
    pub const fn nonce(&self) -> &'p Nonce {
        self.nonce
    }
}

impl SharedKey {
    pub(super) fn from_point(point: &[u8; KEY_BYTES]) -> Self {
        Self(hchacha::<R20>(point.into(), &[0; 16].into()).into())
    }

    /// Decrypts the command in a request, as the server does.
    ///
    /// # Errors
    /// Returns [`OpenError`] if the request was not encrypted with this key.
    pub fn open_request<'b>(&self, request: &SealedRequest<'_>, buffer: &'b mut Buffer) -> Result<&'b [u8], OpenError> {
        self.open(request.nonce, request.mac, request.ciphertext, buffer)
    }

    /// Encrypts the reply to an encrypted command of this version.
    pub fn seal_reply<'b>(&self, reply: &Reply, version: Version, nonce: &Nonce, buffer: &'b mut Buffer) -> &'b [u8] {
        let mut plain = [0; REPLY_BYTES];
        let plain = reply.encode(version, &mut plain);
        self.seal(nonce, plain, buffer);
        buffer.0.get(NONCE_START..HEADER_BYTES + plain.len()).unwrap_or_default()
    }

    /// Encrypts a client's command, including its extensions, for the server whose key has the ID `server`.
    ///
    /// # Errors
    /// Returns [`SealError`] if the command is longer than [`MESSAGE_BYTES_MAX`].
    pub fn seal_request<'b>(
        &self,
        server: KeyId,
        client: &PublicKey,
        nonce: &Nonce,
        command: &[u8],
        buffer: &'b mut Buffer,
    ) -> Result<&'b [u8], SealError> {
        if command.len() > MESSAGE_BYTES_MAX {
            return Err(SealError(command.len()));
        }
        self.seal(nonce, command, buffer);
        let rest = put(&mut buffer.0, MAGIC);
        put(put(rest, &server), &client.0);
        buffer.0.get(..HEADER_BYTES + command.len()).ok_or(SealError(command.len()))
    }

    /// Decrypts the reply in a datagram, as the client does.
    ///
    /// # Errors
    /// Returns [`OpenError`] if the reply was not encrypted with this key.
    pub fn open_reply<'b>(&self, datagram: &[u8], buffer: &'b mut Buffer) -> Result<&'b [u8], OpenError> {
        let error = OpenError::Length(datagram.len());
        let (nonce, rest) = split(datagram).ok_or(error)?;
        let (mac, ciphertext) = split(rest).ok_or(error)?;
        self.open(nonce, mac, ciphertext, buffer)
    }

    fn open<'b>(
        &self,
        nonce: &Nonce,
        mac: &[u8; MAC_BYTES],
        ciphertext: &[u8],
        buffer: &'b mut Buffer,
    ) -> Result<&'b [u8], OpenError> {
        let length = ciphertext.len();
        if length > MESSAGE_BYTES_MAX {
            return Err(OpenError::Length(length));
        }
        let mac_key = self.apply_stream(nonce, ciphertext, buffer);
        if !bool::from(mac_of(&mac_key, ciphertext).ct_eq(mac)) {
            return Err(OpenError::Mac);
        }
        buffer.0.get(HEADER_BYTES..HEADER_BYTES + length).ok_or(OpenError::Length(length))
    }

    /// Encrypts a message of at most [`MESSAGE_BYTES_MAX`] bytes and writes nonce and MAC directly before it.
    fn seal(&self, nonce: &Nonce, message: &[u8], buffer: &mut Buffer) {
        let mac_key = self.apply_stream(nonce, message, buffer);
        let (head, rest) = buffer.0.split_at_mut(HEADER_BYTES);
        let mac = mac_of(&mac_key, rest.get(..message.len()).unwrap_or_default());
        put(put(head.get_mut(NONCE_START..).unwrap_or_default(), nonce), &mac);
    }

    /// Copies a message into the buffer, encrypts or decrypts it there, and returns the MAC key.
    fn apply_stream(&self, nonce: &Nonce, message: &[u8], buffer: &mut Buffer) -> [u8; KEY_BYTES] {
        let stream = buffer.0.get_mut(STREAM_START..).unwrap_or_default();
        let length = (STREAM_HEAD_BYTES + message.len()).next_multiple_of(STREAM_PIECE).min(stream.len());
        let stream = stream.get_mut(..length).unwrap_or_default();
        let (head, rest) = stream.split_at_mut(STREAM_HEAD_BYTES);
        head.fill(0);
        rest.iter_mut().zip(message).for_each(|(place, byte)| *place = *byte);
        XChaCha20::new((&self.0).into(), nonce.into()).apply_keystream(stream);
        stream.first_chunk().copied().unwrap_or_default()
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self([0; BUFFER_BYTES])
    }
}

impl fmt::Debug for Buffer {
    /// Omits the contents, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").finish_non_exhaustive()
    }
}

impl fmt::Debug for SharedKey {
    /// Omits the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedKey").finish_non_exhaustive()
    }
}

/// Computes the MAC of a ciphertext. The `poly1305` crate spends about 2 µs on preparations that pay off only for
/// longer messages. An implementation of our own would be ten times as fast, but it would be unreviewed.
fn mac_of(key: &[u8; KEY_BYTES], ciphertext: &[u8]) -> [u8; MAC_BYTES] {
    Poly1305::new(key.into()).compute_unpadded(ciphertext).into()
}
