//! DCC requests with three checksums: body, Fuz1 and Fuz2.

use md5::{Digest, Md5};

use super::{Kind, Reading, bytes_of};

/// Number of checksums in a request.
pub(crate) const SUMS: usize = 3;
/// Types of checksums that every server stores.
const TYPES: [u8; SUMS] = [7, 8, 9];
const VERSION: u8 = 12;
const REPORT: u8 = 2;
const QUERY: u8 = 3;
const ANSWER: u8 = 4;
const ANONYMOUS: u32 = 1;
const HEADER_BYTES: usize = 24;
const ITEM_BYTES: u8 = 18;
const SIGNATURE_BYTES: usize = 16;
const REQUEST_BYTES: u16 = 44 + SUMS as u16 * ITEM_BYTES as u16;
const ANSWER_BYTES: usize = 40 + SUMS * 8;

/// ID of a client that has a password on the server.
pub(crate) const CLIENT: u32 = 32_768;
/// Password of the client.
pub(crate) const PASSWORD: &str = "clntpass";

/// QUERY and REPORT requests.
#[derive(Clone, Copy)]
pub(crate) struct Sums {
    /// True for REPORT requests (for one recipient), false for QUERY requests.
    pub(crate) is_report: bool,
    /// True if the requests are from [`CLIENT`], false if they are anonymous.
    pub(crate) is_signed: bool,
}

impl Kind for Sums {
    fn write(&self, serial: u32, signature: u64, packet: &mut Vec<u8>) {
        let start = packet.len();
        packet.extend_from_slice(&REQUEST_BYTES.to_be_bytes());
        packet.extend_from_slice(&[VERSION, if self.is_report { REPORT } else { QUERY }]);
        let sender = if self.is_signed { CLIENT } else { ANONYMOUS };
        // The four numbers of a transaction: host, process, request and transmission.
        for word in [sender, 0x7f00_016d, 0x5cb5, serial, 1, u32::from(self.is_report)] {
            packet.extend_from_slice(&word.to_be_bytes());
        }
        for kind in TYPES {
            packet.extend_from_slice(&[kind, ITEM_BYTES]);
            packet.extend_from_slice(&bytes_of::<16>(signature, u64::from(kind)));
        }
        let signature = if self.is_signed { sign(&packet[start..]) } else { [0; SIGNATURE_BYTES] };
        packet.extend_from_slice(&signature);
    }

    fn read(&self, reply: &[u8]) -> Option<Reading> {
        if reply.len() != ANSWER_BYTES || reply[3] != ANSWER {
            return None;
        }
        let word = |at: usize| Some(u32::from_be_bytes(reply.get(at..at + 4)?.try_into().ok()?));
        let is_known = (0..SUMS).all(|at| word(HEADER_BYTES + 8 * at).is_some_and(|count| count > 0));
        Some(Reading { mark: word(16)?, is_known })
    }
}

/// Returns the MD5 of the concatenation of the password, padded to 32 bytes, and the packet.
fn sign(packet: &[u8]) -> [u8; SIGNATURE_BYTES] {
    let mut password = [0; 32];
    password[..PASSWORD.len()].copy_from_slice(PASSWORD.as_bytes());
    Md5::new().chain_update(password).chain_update(packet).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_lengths_they_name() {
        for (is_report, is_signed) in [(false, false), (true, false), (false, true), (true, true)] {
            let mut packet = Vec::new();
            Sums { is_report, is_signed }.write(7, 1, &mut packet);
            assert_eq!(packet.len(), usize::from(REQUEST_BYTES));
            assert_eq!(packet[..2], REQUEST_BYTES.to_be_bytes());
            assert_eq!(packet.ends_with(&[0; 16]), !is_signed);
        }
    }

    #[test]
    fn signatures_are_those_of_the_captured_nop() {
        // The NOP that a real client with this password sent, from the protocol notes.
        let nop = *b"\x00\x28\x0c\x01\x00\x00\x80\x00\x6d\x01\x7f\x00\xb5\x5c\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00";
        let expected = *b"\x49\x22\xb2\xdc\x9a\x71\x0b\xec\xed\x14\x35\x32\x55\x2f\x53\xe2";
        assert_eq!(sign(&nop), expected);
    }

    #[test]
    fn answers_have_the_mark_and_whether_all_sums_are_known() {
        let kind = Sums { is_report: false, is_signed: false };
        let answer = |counts: [u32; SUMS]| {
            let mut answer = vec![0, 64, VERSION, ANSWER, 0, 0, 3, 0xe9];
            answer.extend([1_u32, 2, 7, 1].iter().flat_map(|word| word.to_be_bytes()));
            answer.extend(counts.iter().flat_map(|&count| [count, count]).flat_map(u32::to_be_bytes));
            answer.extend([0; 16]);
            answer
        };
        assert_eq!(kind.read(&answer([1, 2, 3])), Some(Reading { mark: 7, is_known: true }));
        assert_eq!(kind.read(&answer([1, 0, 3])), Some(Reading { mark: 7, is_known: false }));
        assert_eq!(kind.read(&[0; 64]), None);
    }
}
