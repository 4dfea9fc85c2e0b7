//! The lines of a frame.

use memchr::memchr;

/// A header field, with white space around name and value removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'f> {
    pub(super) name: &'f [u8],
    pub(super) value: &'f [u8],
}

impl<'f> Field<'f> {
    /// Parses a line. Returns `None` if the line has no name or starts with white space. Clients do not fold lines.
    fn read(line: &'f [u8]) -> Option<Self> {
        let colon = memchr(b':', line)?;
        let (name, value) = (line.get(..colon)?, line.get(colon + 1..)?);
        let is_name = name.first().is_some_and(|byte| !byte.is_ascii_whitespace());
        is_name.then(|| Self { name: name.trim_ascii_end(), value: value.trim_ascii() })
    }

    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// Iterates over the lines of `text`, without line endings. Skips blank lines.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            let line = rest.get(..end)?;
            rest = rest.get(end + 1..).unwrap_or_default();
            if !line.trim_ascii().is_empty() {
                return Some(line.strip_suffix(b"\r").unwrap_or(line));
            }
        }
        None
    })
}

/// Iterates over the fields of `text`, skipping lines that are not fields.
pub(super) fn fields(text: &[u8]) -> impl Iterator<Item = Field<'_>> {
    lines(text).filter_map(Field::read)
}

/// Parses decimal digits. Returns `None` for anything else, and for numbers above `u64::MAX`.
pub(super) fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_and_either_end_of_line_are_read() {
        let found: Vec<_> = lines(b"\n\na: b\r\n \r\n\nc\nd").collect();
        assert_eq!(found, [&b"a: b"[..], b"c", b"d"]);
    }

    #[test]
    fn lines_without_a_name_are_no_fields() {
        let found: Vec<_> = fields(b"no field\n: value\n folded: x\nName :  value \nEmpty:\n").collect();
        let expected = [Field { name: b"Name", value: b"value" }, Field { name: b"Empty", value: b"" }];
        assert_eq!(found, expected);
        assert!(found[0].is("nAME") && !found[0].is("names"));
    }

    #[test]
    fn numbers_are_digits_and_fit() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for other in [&b""[..], b"18446744073709551616", b"+1", b"-1", b"1 ", b"1.0", b"\xff"] {
            assert_eq!(number(other), None);
        }
    }
}
