//! Header fields and their normalisation.

use memchr::memchr;

/// Number of bytes of a field that are hashed.
const FIELD_BYTES_MAX: usize = 1024;

/// A header field. Its value is not unfolded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field<'a> {
    name: &'a [u8],
    pub(super) value: &'a [u8],
}

impl Field<'_> {
    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// Splits `message` into its header and the rest after the first blank line.
pub(super) fn split_header(message: &[u8]) -> (&[u8], &[u8]) {
    let mut length = 0;
    for line in lines(message) {
        let end = length + line.len();
        if is_blank_line(line) {
            return (message.get(..length).unwrap_or(message), message.get(end..).unwrap_or_default());
        }
        length = end;
    }
    (message, &[])
}

/// Iterates over the lines of `text`, with line ends.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let length = memchr(b'\n', rest).map_or(rest.len(), |newline| newline + 1);
        let (line, behind) = rest.split_at_checked(length)?;
        rest = behind;
        (!line.is_empty()).then_some(line)
    })
}

pub(super) fn is_blank_line(line: &[u8]) -> bool {
    matches!(line, b"\n" | b"\r\n")
}

/// Iterates over the fields of `header` in order, skipping lines that are not fields.
pub(super) fn fields(header: &[u8]) -> impl Iterator<Item = Field<'_>> {
    let mut rest = header;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let (lines, behind) = rest.split_at_checked(field_length(rest))?;
            rest = behind;
            if let Some(colon) = memchr(b':', lines) {
                let (name, value) = lines.split_at_checked(colon)?;
                return Some(Field { name: name.trim_ascii_end(), value: value.get(1..)? });
            }
        }
        None
    })
}

/// Returns, for each name, the value of the last field in `header` with this name.
pub(super) fn last_values<'a, const NAMES: usize>(header: &'a [u8], names: [&str; NAMES]) -> [Option<&'a [u8]>; NAMES] {
    let mut values = [None; NAMES];
    for field in fields(header) {
        for (value, _) in values.iter_mut().zip(names).filter(|(_, name)| field.is(name)) {
            *value = Some(field.value);
        }
    }
    values
}

/// Returns the length of the line at the start of `text`, including its continuation lines.
fn field_length(text: &[u8]) -> usize {
    let mut end = 0;
    while let Some(newline) = text.get(end..).and_then(|rest| memchr(b'\n', rest)) {
        end += newline + 1;
        if !matches!(text.get(end), Some(b' ' | b'\t')) {
            return end;
        }
    }
    text.len()
}

/// Normalises a field or an address. Removes white space, quotes, angle brackets, commas and trailing dots, and
/// converts the rest to lower case.
pub(super) fn normalised(value: &[u8]) -> Vec<u8> {
    let is_dropped = |byte: &u8| matches!(byte, b'\t'..=b'\r' | b' ' | b'<' | b'>' | b'\'' | b'"' | b',');
    let kept = value.iter().filter(|byte| !is_dropped(byte)).take(FIELD_BYTES_MAX);
    let mut kept: Vec<u8> = kept.map(u8::to_ascii_lowercase).collect();
    let length = kept.iter().rposition(|&byte| byte != b'.').map_or(0, |last| last + 1);
    kept.truncate(length);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_ends_at_its_blank_line() {
        assert_eq!(split_header(b"a: b\r\n\r\nc\n\nd"), (&b"a: b\r\n"[..], &b"c\n\nd"[..]));
        assert_eq!(split_header(b"\nc"), (&b""[..], &b"c"[..]));
        assert_eq!(split_header(b"a: b\n \nc: d"), (&b"a: b\n \nc: d"[..], &b""[..]));
    }

    #[test]
    fn fields_may_be_folded() {
        let fields: Vec<_> = fields(b"From x\nA: b\n c\n\td\nno field\nE :f").collect();
        assert_eq!(fields.len(), 2);
        assert!(fields[0].is("a") && fields[0].value == b" b\n c\n\td\n");
        assert!(fields[1].is("e") && fields[1].value == b"f");
    }

    #[test]
    fn bytes_that_are_not_hashed_are_dropped() {
        assert_eq!(normalised(b" \"A, B\" <'C'@D.example..>\r\n\t.\n"), b"abc@d.example");
        assert_eq!(normalised(b" ... "), b"");
        assert_eq!(normalised(&[b'x'; FIELD_BYTES_MAX]), [b'x'; FIELD_BYTES_MAX]);
        assert_eq!(normalised(&[b'x'; FIELD_BYTES_MAX + 1]), [b'x'; FIELD_BYTES_MAX]);
    }
}
