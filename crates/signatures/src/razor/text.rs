//! Byte string helpers with the semantics of Perl's regular expressions.

use memchr::{memchr_iter, memchr2_iter};

/// Splits at the first blank line, i.e. an LF, any number of CRs, and another LF. Returns the header without its last
/// LF, and the body. Without a blank line, the whole text is the header.
pub(super) fn split_at_blank_line(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    for newline in memchr_iter(b'\n', text) {
        let rest = tail(text, newline + 1);
        if let Some(body) = after_line_end(rest) {
            return (head(text, newline), Some(body));
        }
    }
    (text, None)
}

/// Strips any number of CRs and an LF from the start of `text`.
pub(super) fn after_line_end(text: &[u8]) -> Option<&[u8]> {
    let returns = text.iter().take_while(|&&byte| byte == b'\r').count();
    tail(text, returns).strip_prefix(b"\n")
}

/// Returns true if `text` is false in Perl, i.e. empty or the digit zero.
pub(super) fn is_false(text: &[u8]) -> bool {
    matches!(text, b"" | b"0")
}

/// Returns true if `\s` matches `byte`.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Returns true if `text` consists of white space only.
pub(super) fn is_blank(text: &[u8]) -> bool {
    text.iter().all(|&byte| is_space(byte))
}

/// Returns true if `text` begins with `prefix`, case-insensitively.
pub(super) fn starts_with_ignoring_case(text: &[u8], prefix: &[u8]) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Finds the first `needle`, case-insensitively. The cost per position is bounded by the length of the needle, which is
/// a short word.
pub(super) fn find_ignoring_case(text: &[u8], needle: &[u8]) -> Option<usize> {
    let &first = needle.first()?;
    memchr2_iter(first.to_ascii_lowercase(), first.to_ascii_uppercase(), text)
        .find(|&place| starts_with_ignoring_case(tail(text, place), needle))
}

/// Returns true if a line of `text` begins with `prefix`, case-insensitively.
pub(super) fn has_line_ignoring_case(text: &[u8], prefix: &[u8]) -> bool {
    let starts = memchr_iter(b'\n', text).map(|newline| newline + 1);
    [0].into_iter().chain(starts).any(|start| starts_with_ignoring_case(tail(text, start), prefix))
}

/// Returns `text` up to `end`, or all of `text` if it is shorter.
pub(super) fn head(text: &[u8], end: usize) -> &[u8] {
    text.get(..end).unwrap_or(text)
}

/// Returns the part of `text` that begins at `start`, or an empty slice if `text` is shorter.
pub(super) fn tail(text: &[u8], start: usize) -> &[u8] {
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_line_may_hold_carriage_returns() {
        assert_eq!(split_at_blank_line(b"a\nb\n\r\r\nc\n\nd"), (&b"a\nb"[..], Some(&b"c\n\nd"[..])));
        assert_eq!(split_at_blank_line(b"a\r\n\r\n"), (&b"a\r"[..], Some(&b""[..])));
        assert_eq!(split_at_blank_line(b"\n\nc"), (&b""[..], Some(&b"c"[..])));
        assert_eq!(split_at_blank_line(b"a\n \nb"), (&b"a\n \nb"[..], None));
    }

    #[test]
    fn prefixes_of_lines_are_found_in_any_case() {
        assert!(has_line_ignoring_case(b"x\nCONTENT-y", b"content-"));
        assert!(!has_line_ignoring_case(b"x content-y", b"content-"));
        assert_eq!(find_ignoring_case(b"x Content-y", b"content-"), Some(2));
        assert_eq!(find_ignoring_case(b"cont", b"content-"), None);
    }
}
