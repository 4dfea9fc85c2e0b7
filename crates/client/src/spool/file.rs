//! The bytes of a report: a line with the checksum of the rest, then the report as JSON.

use super::SpooledReport;
use crate::http::SUBJECT_BYTES_MAX;
use crate::rspamd::MESSAGE_BYTES_MAX;

/// Maximum length of a file. A longer file is damaged. A file contains a subject, or a message in base64.
pub(super) const FILE_BYTES_MAX: u64 =
    4096 + if SUBJECT_BYTES_MAX > BASE64_BYTES_MAX { SUBJECT_BYTES_MAX as u64 } else { BASE64_BYTES_MAX as u64 };

/// Maximum length of a message in base64.
const BASE64_BYTES_MAX: usize = MESSAGE_BYTES_MAX.div_ceil(3) * 4;

/// The beginning of every file.
const MAGIC: &str = "bruit-spool 1 ";

/// Encodes a report.
pub(super) fn encode(report: &SpooledReport) -> serde_json::Result<Vec<u8>> {
    let body = serde_json::to_vec(report)?;
    let mut bytes = format!("{MAGIC}{:016x}\n", checksum(&body)).into_bytes();
    bytes.extend(body);
    Ok(bytes)
}

/// Decodes a report, or returns `None` if the bytes are damaged.
pub(super) fn decode(bytes: &[u8]) -> Option<SpooledReport> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (head, body) = (bytes.get(..end)?, bytes.get(end + 1..)?);
    let found = u64::from_str_radix(std::str::from_utf8(head).ok()?.strip_prefix(MAGIC)?, 16).ok()?;
    if found != checksum(body) {
        return None;
    }
    serde_json::from_slice(body).ok()
}

/// Returns a checksum that detects damage but not forgery: FNV-1a.
fn checksum(bytes: &[u8]) -> u64 {
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lesson;
    use crate::http::Subject;
    use crate::spool::{ClaimKind, SpoolError};

    #[test]
    fn the_longest_message_for_rspamd_fits_into_a_file() {
        let lesson =
            |bytes| Lesson { message: vec![b'x'; bytes], flag: u32::MAX, weight: u32::MAX, trains_bayes: true };
        let report = |bytes| SpooledReport::for_rspamd(ClaimKind::Revoke, lesson(bytes), 7);
        let longest = report(MESSAGE_BYTES_MAX).unwrap();
        let bytes = encode(&longest).unwrap();
        assert!(bytes.len() as u64 <= FILE_BYTES_MAX, "{}", bytes.len());
        assert_eq!(decode(&bytes), Some(longest));
        assert!(matches!(report(MESSAGE_BYTES_MAX + 1), Err(SpoolError::TooLong { .. })));
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let report = SpooledReport::new(ClaimKind::Report, Some("ann"), Subject::default(), 7).unwrap();
        let bytes = encode(&report).unwrap();
        assert_eq!(decode(&bytes), Some(report));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x11;
            assert_eq!(decode(&damaged), None, "byte {at}");
            assert_eq!(decode(&bytes[..at]), None, "cut at {at}");
        }
    }
}
