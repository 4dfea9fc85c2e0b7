//! Replies.

use super::{Command, DIGEST_BYTES, Version, put};

/// Size of a reply.
pub const REPLY_BYTES: usize = 96;

/// Size of a reply to [`Version::V3`].
pub const REPLY_BYTES_SHORT: usize = 16;

/// Probability that means success. Clients accept any value above one half.
const SUCCESS: f32 = 1.0;

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reply {
    /// Weight of the match, or the code of a refusal. For [`Reply::records`], the high half of the count.
    pub value: i32,
    /// Number of the list with the match. For [`Reply::records`], the low half of the count.
    pub flag: u32,
    /// Tag of the command.
    pub tag: u32,
    /// Similarity of the match, 0 to 1. Values up to one half mean no match.
    pub probability: f32,
    /// Digest of the match.
    pub digest: [u8; DIGEST_BYTES],
    /// Time when the match was first written, in Unix seconds.
    pub time: u32,
}

/// Error: no reply has this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid reply length {0}: expected 16, or at least 96")]
pub struct ReplyError(pub usize);

impl Reply {
    /// Creates the reply to a check of an unknown text.
    #[must_use]
    pub const fn not_found(tag: u32) -> Self {
        Self { value: 0, flag: 0, tag, probability: 0.0, digest: [0; DIGEST_BYTES], time: 0 }
    }

    /// Creates the reply to an accepted write or deletion.
    #[must_use]
    pub const fn accepted(command: &Command) -> Self {
        let digest = command.digest;
        Self { flag: command.flag as u32, probability: SUCCESS, digest, ..Self::not_found(command.tag) }
    }

    /// Creates a refusal, with [`CODE_FORBIDDEN`](super::CODE_FORBIDDEN) or another code.
    #[must_use]
    pub const fn refused(command: &Command, code: i32) -> Self {
        Self { value: code, flag: command.flag as u32, ..Self::not_found(command.tag) }
    }

    /// Creates the reply with the number of known texts.
    #[must_use]
    pub const fn records(tag: u32, count: u64) -> Self {
        let (high, low) = ((count >> 32) as i32, count as u32);
        Self { value: high, flag: low, probability: SUCCESS, ..Self::not_found(tag) }
    }

    /// Creates the reply to a ping. The reply repeats the command's value, which is the client's time.
    #[must_use]
    pub const fn pong(command: &Command) -> Self {
        Self { value: command.value, probability: SUCCESS, ..Self::not_found(command.tag) }
    }

    /// Encodes the reply to a command of this version.
    pub fn encode<'b>(&self, version: Version, out: &'b mut [u8; REPLY_BYTES]) -> &'b [u8] {
        *out = self.bytes();
        match version {
            Version::V3 => out.first_chunk::<REPLY_BYTES_SHORT>().map_or(&[], |short| short),
            Version::V4 | Version::V5 => out,
        }
    }

    /// Returns all bytes of the reply.
    #[must_use]
    pub fn bytes(&self) -> [u8; REPLY_BYTES] {
        let mut bytes = [0; REPLY_BYTES];
        let mut rest = &mut bytes[..];
        let numbers = [self.value.to_le_bytes(), self.flag.to_le_bytes(), self.tag.to_le_bytes()];
        for number in &numbers {
            rest = put(rest, number);
        }
        rest = put(rest, &self.probability.to_le_bytes());
        rest = put(rest, &self.digest);
        put(rest, &self.time.to_le_bytes());
        bytes
    }

    /// Decodes a reply of the short, usual or longer form, as a client does. Ignores all bytes after the first 84.
    ///
    /// # Errors
    /// Returns [`ReplyError`] for any other length.
    pub fn decode(bytes: &[u8]) -> Result<Self, ReplyError> {
        let error = ReplyError(bytes.len());
        let (numbers, rest) = bytes.split_first_chunk::<REPLY_BYTES_SHORT>().ok_or(error)?;
        let [v0, v1, v2, v3, f0, f1, f2, f3, t0, t1, t2, t3, p0, p1, p2, p3] = *numbers;
        let short = Self {
            value: i32::from_le_bytes([v0, v1, v2, v3]),
            flag: u32::from_le_bytes([f0, f1, f2, f3]),
            probability: f32::from_le_bytes([p0, p1, p2, p3]),
            ..Self::not_found(u32::from_le_bytes([t0, t1, t2, t3]))
        };
        if rest.is_empty() {
            return Ok(short);
        }
        let rest = rest.first_chunk::<{ REPLY_BYTES - REPLY_BYTES_SHORT }>().ok_or(error)?;
        let (digest, rest) = rest.split_first_chunk().ok_or(error)?;
        let time = rest.first_chunk().ok_or(error)?;
        Ok(Self { digest: *digest, time: u32::from_le_bytes(*time), ..short })
    }

    /// Returns true if a client treats the reply as success.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.probability > 0.5
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CODE_FORBIDDEN, Operation};
    use super::*;

    const COMMAND: Command = Command {
        version: Version::V4,
        operation: Operation::Ping,
        flag: 11,
        value: 1_234,
        tag: 0x0403_0201,
        digest: [7; DIGEST_BYTES],
        shingles: None,
    };

    #[test]
    fn old_clients_get_the_first_bytes_only() {
        let reply = Reply::accepted(&COMMAND);
        let mut out = [9; REPLY_BYTES];
        assert_eq!(reply.encode(Version::V3, &mut out), &reply.bytes()[..REPLY_BYTES_SHORT]);
        for version in [Version::V4, Version::V5] {
            assert_eq!(reply.encode(version, &mut out), reply.bytes());
        }
    }

    #[test]
    fn a_pong_is_a_success_with_the_value_of_the_ping() {
        let pong = Reply::pong(&COMMAND);
        assert!(pong.is_success());
        assert_eq!((pong.value, pong.flag, pong.tag, pong.digest), (1_234, 0, COMMAND.tag, [0; DIGEST_BYTES]));
    }

    #[test]
    fn a_refusal_has_its_code_and_is_no_success() {
        let refused = Reply::refused(&COMMAND, CODE_FORBIDDEN);
        assert!(!refused.is_success());
        assert_eq!((refused.value, refused.flag, refused.tag), (403, 11, COMMAND.tag));
    }

    #[test]
    fn the_number_of_records_has_two_halves() {
        let records = Reply::records(1, (5 << 32) + 7);
        assert_eq!((records.value, records.flag), (5, 7));
        assert!(records.is_success());
        assert!(Reply::records(1, 0).is_success(), "an empty storage replies with success");
    }

    #[test]
    fn half_is_no_success() {
        let half = Reply { probability: 0.5, ..Reply::not_found(1) };
        assert!(!half.is_success());
    }
}
