//! Encryption: requests that only one server can read, and replies that only their client can.
//!
//! | step | what is done |
//! |---|---|
//! | 1 | a point is shared by X25519 of one's own secret and the other's public key |
//! | 2 | the [`SharedKey`] is HChaCha20 of it and 16 zeros; the same for all messages between the two |
//! | 3 | a message gets a nonce, and with it a stream of XChaCha20 |
//! | 4 | the first 32 bytes of the stream are the key of its MAC; the next 32 are thrown away |
//! | 5 | the message is encrypted by the rest of the stream |
//! | 6 | the MAC is Poly1305 of the ciphertext and nothing else |
//!
//! NaCl's box would not throw away the bytes of step 4, and RFC 8439 would have lengths in step 6.

use std::fmt;

use chacha20::cipher::StreamCipher;
use chacha20::{KeyIvInit, R20, XChaCha20, hchacha};
use poly1305::Poly1305;
use poly1305::universal_hash::KeyInit;
use subtle::ConstantTimeEq;

use super::keys::{KEY_BYTES, KeyId, PublicKey};
use super::reply::{REPLY_BYTES, Reply};
use super::{COMMAND_BYTES, DATAGRAM_BYTES_MAX, Version, put, split};

/// The bytes of a nonce.
pub const NONCE_BYTES: usize = 24;

/// What a message is encrypted with once: random, or never used before with the same key.
pub type Nonce = [u8; NONCE_BYTES];

/// How an encrypted request begins.
const MAGIC: &[u8; 4] = b"rsfe";

const MAC_BYTES: usize = 16;

/// The bytes before the ciphertext of a request.
const HEADER_BYTES: usize = MAGIC.len() + size_of::<KeyId>() + KEY_BYTES + NONCE_BYTES + MAC_BYTES;

/// Where nonce and MAC begin in it. All of a reply begins there.
const NONCE_START: usize = HEADER_BYTES - MAC_BYTES - NONCE_BYTES;

/// The shortest encrypted request: any that is shorter is taken for a plain one.
pub const SEALED_REQUEST_BYTES_MIN: usize = HEADER_BYTES + COMMAND_BYTES;

/// Longest message that can be encrypted.
pub const MESSAGE_BYTES_MAX: usize = DATAGRAM_BYTES_MAX - HEADER_BYTES;

/// The bytes of the stream before those that encrypt.
const STREAM_HEAD_BYTES: usize = 64;

/// Where the stream begins in a [`Buffer`]: so that the message lies where it does in a request.
const STREAM_START: usize = HEADER_BYTES - STREAM_HEAD_BYTES;

/// The stream is computed in pieces of so many bytes, as vector instructions make four blocks of it in the time of one.
const STREAM_PIECE: usize = 256;

const BUFFER_BYTES: usize = STREAM_START + (STREAM_HEAD_BYTES + MESSAGE_BYTES_MAX).next_multiple_of(STREAM_PIECE);

/// The parts of an encrypted request.
#[derive(Clone, Copy, Debug)]
pub struct SealedRequest<'p> {
    /// Which key of the server it is encrypted to.
    pub key_id: KeyId,
    /// The client's key, which it makes anew at every start.
    pub client: PublicKey,
    nonce: &'p Nonce,
    mac: &'p [u8; MAC_BYTES],
    ciphertext: &'p [u8],
}

/// What encrypts between two owners of key pairs.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedKey([u8; KEY_BYTES]);

/// The memory of one message, used again and again. What it holds means nothing.
#[derive(Clone)]
pub struct Buffer([u8; BUFFER_BYTES]);

/// Why a message cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It was changed, or encrypted with another key.
    #[error("the message does not belong to its MAC under this key")]
    Mac,
    /// It has no nonce and MAC, or is longer than [`MESSAGE_BYTES_MAX`].
    #[error("{0} bytes are no encrypted message")]
    Length(usize),
}

/// A message that is longer than [`MESSAGE_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} bytes are more than the {MESSAGE_BYTES_MAX} that fit into an encrypted datagram")]
pub struct SealError(pub usize);

impl<'p> SealedRequest<'p> {
    /// The parts of a datagram, if it is encrypted. All others may be plain commands.
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

    /// What it was encrypted with: no client uses one twice, so a request that comes again with it was sent again.
    #[must_use]
    pub const fn nonce(&self) -> &'p Nonce {
        self.nonce
    }
}

impl SharedKey {
    pub(super) fn from_point(point: &[u8; KEY_BYTES]) -> Self {
        Self(hchacha::<R20>(point.into(), &[0; 16].into()).into())
    }

    /// The command within a request, for a server.
    ///
    /// # Errors
    /// [`OpenError`] if it was not encrypted with this key.
    pub fn open_request<'b>(&self, request: &SealedRequest<'_>, buffer: &'b mut Buffer) -> Result<&'b [u8], OpenError> {
        self.open(request.nonce, request.mac, request.ciphertext, buffer)
    }

    /// The datagram of a reply to an encrypted command of this version.
    pub fn seal_reply<'b>(&self, reply: &Reply, version: Version, nonce: &Nonce, buffer: &'b mut Buffer) -> &'b [u8] {
        let mut plain = [0; REPLY_BYTES];
        let plain = reply.encode(version, &mut plain);
        self.seal(nonce, plain, buffer);
        buffer.0.get(NONCE_START..HEADER_BYTES + plain.len()).unwrap_or_default()
    }

    /// The datagram of a client's command, with its extensions, to the server's key of this name.
    ///
    /// # Errors
    /// [`SealError`] if it is longer than [`MESSAGE_BYTES_MAX`].
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

    /// The reply within a datagram, for a client.
    ///
    /// # Errors
    /// [`OpenError`] if it was not encrypted with this key.
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

    /// Encrypts a message of at most [`MESSAGE_BYTES_MAX`] bytes, and puts nonce and MAC right before it.
    fn seal(&self, nonce: &Nonce, message: &[u8], buffer: &mut Buffer) {
        let mac_key = self.apply_stream(nonce, message, buffer);
        let (head, rest) = buffer.0.split_at_mut(HEADER_BYTES);
        let mac = mac_of(&mac_key, rest.get(..message.len()).unwrap_or_default());
        put(put(head.get_mut(NONCE_START..).unwrap_or_default(), nonce), &mac);
    }

    /// Puts a message into the buffer, encrypts or decrypts it there, and gives the key of its MAC.
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
    /// Without what it holds, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").finish_non_exhaustive()
    }
}

impl fmt::Debug for SharedKey {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedKey").finish_non_exhaustive()
    }
}

/// The MAC of a ciphertext. The crate prepares for long messages, which costs some 2 µs here; a MAC of our own that does not would be
/// ten times as fast, but nobody else would have looked at it.
fn mac_of(key: &[u8; KEY_BYTES], ciphertext: &[u8]) -> [u8; MAC_BYTES] {
    Poly1305::new(key.into()).compute_unpadded(ciphertext).into()
}
