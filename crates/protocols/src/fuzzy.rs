//! rspamd's fuzzy storage, as its `fuzzy_check` speaks it: packed binary over UDP, plain or encrypted.
//!
//! A datagram holds one [`Command`], and is answered by one [`Reply`]. Nothing here is allocated, and nothing that was
//! received can cause a panic: what does not follow the language is a [`DecodeError`], and goes unanswered.
//!
//! ```text
//! request  plain      command 76 | shingles 256, or none | extensions
//!          encrypted  "rsfe" | key id 8 | client's key 32 | nonce 24 | MAC 16 | the above, encrypted
//! reply    plain      96 bytes; the first 16 of them to version 3
//!          encrypted  nonce 24 | MAC 16 | the above, encrypted
//! ```
//!
//! All numbers are little-endian. rspamd 3.4 sends version 4, rspamd 4 sends 0x14 (4, and "I also read longer replies") or
//! 5. All of them read the reply of 96 bytes, so the longer one of 144 is never sent: it would let strangers have twice
//! what they sent returned to an address that they made up.
//!
//! The scheme of the encryption is neither NaCl's box nor RFC 8439: [`SharedKey`] says what it is. A request that was
//! recorded can be sent again by anyone, so whoever applies commands should remember [`Command::duplicate_key`] for a while.

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

/// The bytes of a digest.
pub const DIGEST_BYTES: usize = 64;

/// The shingles of a text.
pub const SHINGLES: usize = 32;

/// The bytes of a command without shingles and extensions.
pub const COMMAND_BYTES: usize = 76;

/// The bytes of a command with shingles.
pub const SHINGLED_BYTES: usize = COMMAND_BYTES + SHINGLES * 8;

/// Longest datagram, as in rspamd.
pub const DATAGRAM_BYTES_MAX: usize = 1_024;

/// What a client shows as `FUZZY_BLOCKED`: it may not do that.
pub const CODE_FORBIDDEN: i32 = 403;

/// The request cannot be carried out now, but may succeed later.
pub const CODE_UNAVAILABLE: i32 = 503;

/// The digest is one that cannot be written.
pub const CODE_SKIPPED: i32 = 401;

/// The leading `N` bytes, and the rest.
fn split<const N: usize>(bytes: &[u8]) -> Option<(&[u8; N], &[u8])> {
    bytes.split_first_chunk()
}

/// Writes bytes to the start of `out`, and gives what is behind them.
fn put<'b, const N: usize>(out: &'b mut [u8], bytes: &[u8; N]) -> &'b mut [u8] {
    let Some((place, rest)) = out.split_first_chunk_mut() else { return &mut [] };
    *place = *bytes;
    rest
}
