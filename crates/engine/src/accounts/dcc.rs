//! DCC: every packet ends with an MD5 of the padded password and the packet.
//!
//! Verification needs the password itself, so the password is stored unhashed. A client-ID has a current password and,
//! while it is being changed, the next password. The server accepts both, so client and server need not switch at the
//! same moment.

use std::fmt;

use md5::{Digest, Md5};
use subtle::ConstantTimeEq;

use crate::codec::{Malformed, Reader};

/// Maximum password length in bytes. Shorter passwords are padded to this length with zeros.
pub const PASSWORD_BYTES_MAX: usize = 32;

/// Length of the signature at the end of a packet.
pub const SIGNATURE_BYTES: usize = 16;

/// A zero-padded password.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DccPassword([u8; PASSWORD_BYTES_MAX]);

/// The passwords of one client-ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DccVerifier {
    /// Current password.
    pub current: DccPassword,
    /// Next password, if a change is in progress.
    pub next: Option<DccPassword>,
}

impl DccPassword {
    /// Creates a password. Returns `None` unless it has 1 to [`PASSWORD_BYTES_MAX`] bytes, and neither white space nor
    /// zero bytes.
    #[must_use]
    pub fn new(password: &[u8]) -> Option<Self> {
        let is_allowed = !password.is_empty() && password.iter().all(|byte| *byte != 0 && !byte.is_ascii_whitespace());
        let mut padded = [0; PASSWORD_BYTES_MAX];
        padded.get_mut(..password.len()).filter(|_| is_allowed)?.copy_from_slice(password);
        Some(Self(padded))
    }

    /// Returns the signature to append to a packet.
    #[must_use]
    pub fn sign(&self, packet: &[u8]) -> [u8; SIGNATURE_BYTES] {
        Md5::new().chain_update(self.0).chain_update(packet).finalize().into()
    }

    /// Returns true if the packet ends with its signature under this password.
    #[must_use]
    pub fn verify(&self, packet: &[u8]) -> bool {
        let Some((signed, signature)) = packet.split_last_chunk::<SIGNATURE_BYTES>() else { return false };
        self.sign(signed).ct_eq(signature).into()
    }

    /// Returns the password without its padding.
    fn unpadded(&self) -> &[u8] {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(PASSWORD_BYTES_MAX);
        &self.0[..end]
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let what = "a DCC password";
        let padded = Self(reader.array(what)?);
        let is_whole = Self::new(padded.unpadded()) == Some(padded);
        if is_whole { Ok(padded) } else { Err(Malformed::OutOfRange { what, value: padded.unpadded().len() as u64 }) }
    }
}

impl DccVerifier {
    /// Returns the password that the packet was signed with. The reply must be signed with the same one.
    #[must_use]
    pub fn verify(&self, packet: &[u8]) -> Option<&DccPassword> {
        [Some(&self.current), self.next.as_ref()].into_iter().flatten().find(|password| password.verify(packet))
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.current.0);
        out.push(self.next.is_some().into());
        out.extend(self.next.iter().flat_map(|next| next.0));
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let current = DccPassword::decode(reader)?;
        let next = match reader.u8("the flag for a next DCC password")? {
            0 => None,
            1 => Some(DccPassword::decode(reader)?),
            other => {
                return Err(Malformed::OutOfRange { what: "the flag for a next DCC password", value: other.into() });
            }
        };
        Ok(Self { current, next })
    }
}

impl fmt::Debug for DccPassword {
    /// Prints only the type name, so that the password never reaches a log.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("DccPassword")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets captured from the original client and server: a NOP request, its reply, and a query.
    const NOP: &str = "00280c01000080006d017f00b55c000002000000010000004922b2dc9a710beced143532552f53e2";
    const QUERY: &str = "00ce0c03000080006d017f00c95c0000040000000100000000000000\
        0112bb1027c0791faac6194840a772f73220\
        0312bc8e377e471186b37220f70f41d2e5e6\
        0512345da360e2e30d7d447ae248a00ad040\
        0612cdcc341f516f56f82e63a4eaa457efaf\
        07127ae7d243ee0032636cc6106a72e82bb2\
        08125ffcf27172f1a49b805bca985a691ed0\
        0912b682e39ff99252d1dd7a123dd2fd98c7\
        0a12bb1027c0791faac6194840a772f73220\
        0b12bb1027c0791faac6194840a772f73220\
        be5eab145435fa2c279052099ba09c05";

    fn bytes(digits: &str) -> Vec<u8> {
        digits.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    fn password(text: &str) -> DccPassword {
        DccPassword::new(text.as_bytes()).unwrap()
    }

    /// The reply to [`NOP`]: a header of 24 bytes, then version, delay, brand and signature.
    fn reply() -> Vec<u8> {
        let mut reply = bytes("006c0c06000003e96d017f00b55c000002000000010000000c000190");
        reply.extend(b"TESTBRAND");
        reply.resize(reply.len() + 55, 0);
        reply.extend(bytes("d07b53756d87e051cc1e9f61e044301c"));
        reply
    }

    #[test]
    fn real_packets_verify() {
        let clntpass = password("clntpass");
        for packet in [bytes(NOP), bytes(QUERY), reply()] {
            assert_eq!(packet.len(), usize::from(u16::from_be_bytes([packet[0], packet[1]])));
            assert!(clntpass.verify(&packet));
            assert!(!password("clntpas").verify(&packet));
            for at in [0, 4, packet.len() - 1] {
                let mut changed = packet.clone();
                changed[at] ^= 1;
                assert!(!clntpass.verify(&changed));
            }
        }
    }

    #[test]
    fn either_password_verifies_and_signs_the_reply() {
        let (old, new, other) = (password("clntpass"), password("nextpass"), password("neither"));
        let verifier = DccVerifier { current: old, next: Some(new) };
        let packet = |by: &DccPassword| [&b"packet"[..], &by.sign(b"packet")].concat();
        assert_eq!(verifier.verify(&packet(&old)), Some(&old));
        assert_eq!(verifier.verify(&packet(&new)), Some(&new));
        assert_eq!(verifier.verify(&packet(&other)), None);
        assert_eq!(DccVerifier { current: old, next: None }.verify(&packet(&new)), None);
    }

    #[test]
    fn packets_too_short_for_a_signature_are_refused() {
        for length in 0..SIGNATURE_BYTES {
            assert!(!password("clntpass").verify(&vec![0; length]));
        }
    }

    #[test]
    fn passwords_fit_their_field() {
        assert!(DccPassword::new(&[b'p'; PASSWORD_BYTES_MAX]).is_some());
        for refused in [&[b'p'; PASSWORD_BYTES_MAX + 1][..], b"", b"two words", b"a\0b", b"tab\t"] {
            assert_eq!(DccPassword::new(refused), None);
        }
    }
}
