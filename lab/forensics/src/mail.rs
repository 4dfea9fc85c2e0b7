//! Helpers for reading mail: fields of bounded length, and dates.

use mail_parser::DateTime;

/// Maximum number of bytes read from a field.
pub(crate) const FIELD_BYTES_MAX: usize = 32 * 1024;

/// Truncates a field to its first [`FIELD_BYTES_MAX`] bytes.
pub(crate) fn bounded(value: &[u8]) -> &[u8] {
    value.get(..FIELD_BYTES_MAX).unwrap_or(value)
}

/// Converts an RFC 5322 date to seconds since 1970.
pub(crate) fn seconds(value: &[u8]) -> Option<u64> {
    let value = std::str::from_utf8(bounded(value)).ok()?;
    let date = DateTime::parse_rfc822(value.trim()).filter(DateTime::is_valid)?;
    u64::try_from(date.to_timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_that_mail_has_from_1970_on() {
        assert_eq!(seconds(b" Tue, 14 Nov 2023 23:13:20 +0100 (CET)\r\n"), Some(1_700_000_000));
        for value in [&b""[..], b"yesterday", b"31 Dec 1969 23:59:59 +0000", b"99 Xyz 2023 99:99:99 +0000", b"\xff"] {
            assert_eq!(seconds(value), None);
        }
    }

    #[test]
    fn a_field_is_read_up_to_its_bound() {
        let long = vec![b' '; FIELD_BYTES_MAX];
        assert_eq!(bounded(&[&long[..], b"x"].concat()), long);
        assert_eq!(seconds(&[&long[1..], b"14 Nov 2023 22:13:20 +0000"].concat()), None);
    }
}
