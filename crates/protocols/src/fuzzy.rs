//! rspamd's fuzzy storage protocol, as spoken by its `fuzzy_check`: packed binary over UDP, plain or encrypted.
//!
//! A datagram contains one [`Command`], and the answer is one [`Reply`]. This module does not allocate, and no input
//! can make it panic: an invalid datagram is a [`DecodeError`] and gets no reply.
//!
//! ```text
//! request  plain      command 76 | shingles 256, or none | extensions
//!          encrypted  "rsfe" | key id 8 | client's key 32 | nonce 24 | MAC 16 | the above, encrypted
//! reply    plain      96 bytes; to a client of version 3, only the first 16
//!          encrypted  nonce 24 | MAC 16 | the above, encrypted
//! ```
//!
//! All numbers are little-endian. rspamd 3.4 sends version 4. rspamd 4 sends 5, or 0x14, which means version 4 with
//! support for longer replies. Clients of all these versions accept the 96-byte reply. The longer reply of 144 bytes is
//! never sent: attackers who forge source addresses could use it to double their traffic.
//!
//! The encryption scheme is neither NaCl's box nor RFC 8439; see [`SharedKey`]. Anyone can record requests and send
//! them again, so callers that apply commands should remember [`Command::duplicate_key`] for a while.

mod command;
mod extensions;
mod keys;
mod reply;
mod sealed;
mod text;

pub use command::{Command, DecodeError, Operation, Version};
pub use keys::{KEY_BYTES, KEY_ID_BYTES, KeyError, KeyId, Keypair, PublicKey};
pub use reply::{REPLY_BYTES, REPLY_BYTES_SHORT, Reply, ReplyError};
pub use sealed::{
    Buffer, MESSAGE_BYTES_MAX, NONCE_BYTES, Nonce, OpenError, SEALED_REQUEST_BYTES_MIN, SealError, SealedRequest,
    SharedKey,
};
pub use text::KeyTextError;

/// Size of a digest.
pub const DIGEST_BYTES: usize = 64;

/// Number of shingles of a text.
pub const SHINGLES: usize = 32;

/// Size of a command without shingles and extensions.
pub const COMMAND_BYTES: usize = 76;

/// Size of a command with shingles.
pub const SHINGLED_BYTES: usize = COMMAND_BYTES + SHINGLES * 8;

/// Maximum size of a datagram, as in rspamd.
pub const DATAGRAM_BYTES_MAX: usize = 1_024;

/// The client is not allowed to make the request. rspamd shows this code as `FUZZY_BLOCKED`.
pub const CODE_FORBIDDEN: i32 = 403;

/// The request cannot be executed now, but may succeed later.
pub const CODE_UNAVAILABLE: i32 = 503;

/// The digest is whitelisted and cannot be written.
pub const CODE_SKIPPED: i32 = 401;

/// Splits off the leading `N` bytes.
fn split<const N: usize>(bytes: &[u8]) -> Option<(&[u8; N], &[u8])> {
    bytes.split_first_chunk()
}

/// Writes bytes to the start of `out` and returns the rest of `out`.
fn put<'b, const N: usize>(out: &'b mut [u8], bytes: &[u8; N]) -> &'b mut [u8] {
    let Some((place, rest)) = out.split_first_chunk_mut() else { return &mut [] };
    *place = *bytes;
    rest
}
