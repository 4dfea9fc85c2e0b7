//! Razor: the server sends a challenge; the client answers with a hash of the challenge and the password.
//!
//! The hash resembles HMAC-SHA-1, but the two pads are swapped, and the outer hash covers the inner digest as
//! hexadecimal digits. Each of the two hashes begins with one block that contains the padded password. The two SHA-1
//! states after that block are sufficient for verification, so the password itself is not stored.

use std::fmt;

use bruit_signatures::hex::sha1_digits;
use bruit_signatures::razor::E4Signature;
use sha1::block_api::compress;
use subtle::ConstantTimeEq;

use crate::codec::{Malformed, Reader};

/// Maximum password length in bytes: one SHA-1 block. Clients accept longer passwords, but for these the server would
/// have to store the part after the first block.
pub const PASSWORD_BYTES_MAX: usize = BLOCK_BYTES;

/// Maximum length of a challenge in bytes; longer ones fail verification.
pub const CHALLENGE_BYTES_MAX: usize = 256;

const BLOCK_BYTES: usize = 64;
const OUTER_PAD: u8 = 0x36;
const INNER_PAD: u8 = 0x5c;

/// Initial state of SHA-1 (FIPS 180-4, 5.3.1).
const START: State = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];

type State = [u32; 5];

/// Verifier for responses: the SHA-1 states of the inner and the outer hash after the padded password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RazorVerifier {
    inner: State,
    outer: State,
}

impl RazorVerifier {
    /// Creates the verifier of a password; returns `None` if it is longer than [`PASSWORD_BYTES_MAX`].
    #[must_use]
    pub fn of(password: &[u8]) -> Option<Self> {
        let state = |pad| {
            let mut block = [0; BLOCK_BYTES];
            block.get_mut(..password.len())?.copy_from_slice(password);
            let mut state = START;
            compress(&mut state, &[block.map(|byte: u8| byte ^ pad)]);
            Some(state)
        };
        Some(Self { inner: state(INNER_PAD)?, outer: state(OUTER_PAD)? })
    }

    /// Returns true if `response`, as received from the client, is the right answer to `challenge`.
    #[must_use]
    pub fn verify(&self, challenge: &[u8], response: &[u8]) -> bool {
        if challenge.len() > CHALLENGE_BYTES_MAX {
            return false;
        }
        let inner = finish(self.inner, challenge);
        let expected = finish(self.outer, &sha1_digits(&inner));
        // A response has the same form as an e4 signature: a SHA-1 in razor64.
        let response = str::from_utf8(response).ok().and_then(|text| text.parse().ok());
        response.is_some_and(|E4Signature(response)| expected.ct_eq(&response).into())
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        [self.inner, self.outer].iter().flatten().for_each(|word| out.extend(word.to_le_bytes()));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut state = || -> Result<State, Malformed> {
            let mut state = State::default();
            for word in &mut state {
                *word = reader.u32("a Razor verifier")?;
            }
            Ok(state)
        };
        Ok(Self { inner: state()?, outer: state()? })
    }
}

impl fmt::Debug for RazorVerifier {
    /// Prints only the type name, so that the states never reach a log.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("RazorVerifier")
    }
}

/// Completes a SHA-1 computation that has processed one block. `message` is the rest of its input.
fn finish(mut state: State, message: &[u8]) -> [u8; 20] {
    let mut rest = message.to_vec();
    rest.push(0x80);
    rest.resize((rest.len() + 8).next_multiple_of(BLOCK_BYTES) - 8, 0);
    let bits = 8 * (BLOCK_BYTES + message.len()) as u64;
    rest.extend(bits.to_be_bytes());
    compress(&mut state, rest.as_chunks().0);
    let mut digest = [0; 20];
    digest.as_chunks_mut().0.iter_mut().zip(state).for_each(|(bytes, word)| *bytes = word.to_be_bytes());
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_clients_responses_verify() {
        // Values from transcripts of razor-agents 2.84, and from a run of its code with a password one block long.
        let block = "p".repeat(PASSWORD_BYTES_MAX);
        for (password, challenge, response) in [
            ("s3cret", "406d3e65e5946eebcd82", "oUsPU6zmreeHtaW3nBRkR6VNIAgA"),
            ("hunter2", "2e25b1778c78b9742b17", "VcBRuyO9Yo_M8pk48KFUgnHLkRAA"),
            ("secretpass", "challenge123", "Mgf4tIPCd1GAe3umtAsU-Sv3_8YA"),
            (&block, "x", "whEO-6IgQ5XCkxhJ2ZIMt_y0NfEA"),
        ] {
            let verifier = RazorVerifier::of(password.as_bytes()).unwrap();
            assert!(verifier.verify(challenge.as_bytes(), response.as_bytes()), "{password}");
            assert!(!verifier.verify(b"another", response.as_bytes()));
            assert!(!RazorVerifier::of(b"other").unwrap().verify(challenge.as_bytes(), response.as_bytes()));
        }
    }

    #[test]
    fn invalid_responses_are_refused() {
        let verifier = RazorVerifier::of(b"s3cret").unwrap();
        for response in [&b""[..], b"\xff", b"oUsPU6zmreeHtaW3nBRkR6VNIAg", b"oUsPU6zmreeHtaW3nBRkR6VNIAgAA"] {
            assert!(!verifier.verify(b"406d3e65e5946eebcd82", response));
        }
    }

    #[test]
    fn the_length_of_passwords_and_challenges_is_bounded() {
        assert_eq!(RazorVerifier::of(&[b'p'; PASSWORD_BYTES_MAX + 1]), None);
        let verifier = RazorVerifier::of(b"s3cret").unwrap();
        let response = |challenge: &[u8]| {
            E4Signature(finish(verifier.outer, &sha1_digits(&finish(verifier.inner, challenge)))).to_string()
        };
        for (bytes, verifies) in [(CHALLENGE_BYTES_MAX, true), (CHALLENGE_BYTES_MAX + 1, false)] {
            let challenge = vec![b'c'; bytes];
            assert_eq!(verifier.verify(&challenge, response(&challenge).as_bytes()), verifies);
        }
    }

    #[test]
    fn sha_1_continues_after_a_block_with_any_length() {
        use sha1::{Digest, Sha1};
        let mut state = START;
        compress(&mut state, &[[b'b'; BLOCK_BYTES]]);
        for length in 0..130 {
            let message = vec![b'm'; length];
            let whole = [&[b'b'; BLOCK_BYTES][..], &message].concat();
            assert_eq!(finish(state, &message), <[u8; 20]>::from(Sha1::digest(&whole)), "{length}");
        }
    }
}
