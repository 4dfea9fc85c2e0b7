//! Conversion of a part to the text that is signed. Transfer encodings are decoded, and the header and final LFs are
//! removed.

use std::borrow::Cow;

use memchr::{memchr, memmem};

use super::text::{
    has_line_ignoring_case, head, is_blank, is_space, split_at_blank_line, starts_with_ignoring_case, tail,
};
use crate::{base64, hex};

const BASE64: &[u8] = b"Content-Transfer-Encoding: base64";
const QUOTED_PRINTABLE: &[u8] = b"Content-Transfer-Encoding: quoted-printable";

/// Number of bytes in a full base64 run. The client decodes base64 in separate runs of 60 characters.
const BASE64_RUN_BYTES: usize = 45;

/// A text of `Content-…:` lines that is shorter than this is treated as a stray header.
const STRAY_HEADER_BYTES: usize = 128;

/// Decodes the transfer encodings of `part`.
pub(super) fn decode(part: &[u8]) -> Cow<'_, [u8]> {
    let part = decode_base64(part).map_or(Cow::Borrowed(part), Cow::Owned);
    decode_quoted_printable(&part).map_or(part, Cow::Owned)
}

/// Returns the text of a decoded part, or `None` if the client would not sign the part.
pub(super) fn signed_text(part: &[u8]) -> Option<&[u8]> {
    let text = body_text(part);
    (!is_blank(text) && !is_stray_header(text)).then_some(text)
}

/// Returns the body without its final LFs. The result is empty if the blank line above the body was removed together
/// with the HTML tags.
pub(super) fn body_text(part: &[u8]) -> &[u8] {
    let body = split_at_blank_line(part).1.unwrap_or_default();
    let newlines = body.iter().rev().take_while(|&&byte| byte == b'\n').count();
    head(body, body.len() - newlines)
}

/// Returns true if `text` is short and begins with a `Content…:` line, followed by another such line or only by white
/// space.
fn is_stray_header(text: &[u8]) -> bool {
    let Some(rest) = after_content_name(text).filter(|_| text.len() < STRAY_HEADER_BYTES) else { return false };
    let mut lines = rest.split(|&byte| byte == b'\n').skip(1);
    let ends_blank = rest.contains(&b'\n') && rest.rsplit(|&byte| byte == b'\n').next().is_some_and(is_blank);
    ends_blank || lines.any(|line| after_content_name(line.strip_prefix(b"\r").unwrap_or(line)).is_some())
}

/// Returns the text after the name of a `Content…:` line, case-sensitively.
fn after_content_name(text: &[u8]) -> Option<&[u8]> {
    let rest = text.strip_prefix(b"Content")?;
    let name = rest.iter().take_while(|&&byte| !is_space(byte) && byte != b':').count();
    tail(rest, name).strip_prefix(b":")
}

/// Decodes base64 if any line of the part declares it, even a line in the body.
fn decode_base64(part: &[u8]) -> Option<Vec<u8>> {
    let mut places = base64_names(part);
    let place = places.next()?;
    let starts_line = |place: usize| place.checked_sub(1).is_none_or(|before| part.get(before) == Some(&b'\n'));
    if !starts_line(place) && !places.any(starts_line) {
        return None;
    }
    let header = [split_at_blank_line(part).0, b"\n\n"].concat();
    let characters = base64_characters(tail(part, place + BASE64.len()));
    let mut decoded = Vec::new();
    let left_over = base64::decode_into(&characters, &mut decoded);
    // The client mistakes a single remaining character for the length of another run, and outputs that number of NULs.
    // This does not happen if the character forms a run of its own.
    if let Some(value) = left_over.filter(|_| decoded.len() % BASE64_RUN_BYTES != 0) {
        decoded.resize(decoded.len() + usize::from(value), 0);
    }
    Some([header, decoded].concat())
}

/// Finds [`BASE64`] in `part`, case-insensitively. Searches for the digits at the end of the name, because digits have
/// no case.
fn base64_names(part: &[u8]) -> impl Iterator<Item = usize> {
    let digits = b"64";
    memmem::find_iter(part, digits)
        .filter_map(|place| (place + digits.len()).checked_sub(BASE64.len()))
        .filter(|&place| starts_with_ignoring_case(tail(part, place), BASE64))
}

/// Returns the base64 in `text`, which follows the first blank line and ends at the first `=`. Without a blank line,
/// all of the text is base64, and each `=` has a value, except at the end.
fn base64_characters(text: &[u8]) -> Cow<'_, [u8]> {
    if let Some(body) = after_base64_header(text) {
        return body.into();
    }
    let length = text.iter().rposition(|&byte| base64::is_character(byte)).map_or(0, |last| last + 1);
    let value = |&byte: &u8| if byte == b'=' { EQUALS_SIGN_EQUIVALENT } else { byte };
    head(text, length).iter().map(value).collect()
}

/// The base64 character with the same value as `=` in uuencode. It replaces an `=` that the client forgets to remove.
const EQUALS_SIGN_EQUIVALENT: u8 = b'd';

/// Returns the text after the first blank line. The line ends around it may have one CR each.
fn after_base64_header(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text;
    while let Some(newline) = memchr(b'\n', rest) {
        rest = tail(rest, newline + 1);
        let second = rest.strip_prefix(b"\r").unwrap_or(rest);
        if let Some(body) = second.strip_prefix(b"\n") {
            return Some(body);
        }
    }
    None
}

/// Decodes quoted-printable if a header line declares it. Soft line ends are decoded before escapes, so two joined
/// lines may form an escape. White space at the ends of lines stays.
fn decode_quoted_printable(part: &[u8]) -> Option<Vec<u8>> {
    let (header, body) = split_at_blank_line(part);
    if !has_line_ignoring_case(header, QUOTED_PRINTABLE) {
        return None;
    }
    let joined = join_soft_lines(body.unwrap_or_default());
    Some([header, b"\n\n", &unescape(&joined, b'=')].concat())
}

fn join_soft_lines(body: &[u8]) -> Cow<'_, [u8]> {
    replace(body, b'=', |behind| Some((None, behind.strip_prefix(b"\r").unwrap_or(behind).strip_prefix(b"\n")?)))
}

/// Replaces `mark` and two hex digits with the byte they encode.
pub(super) fn unescape(text: &[u8], mark: u8) -> Cow<'_, [u8]> {
    replace(text, mark, |behind| {
        let (digits, behind) = behind.split_first_chunk()?;
        Some((Some(hex::byte(*digits)?), behind))
    })
}

/// Replaces every `mark` together with the text after it that `meaning` recognises. `meaning` is called with the text
/// after a mark. It returns the replacement byte, if any, and the rest of the text.
pub(super) fn replace(text: &[u8], mark: u8, meaning: impl Fn(&[u8]) -> Option<(Option<u8>, &[u8])>) -> Cow<'_, [u8]> {
    let mut replaced = Vec::new();
    let mut rest = text;
    // Text that is not yet copied begins at `rest`. It has been searched up to `searched`.
    let mut searched = 0;
    while let Some(place) = memchr(mark, tail(rest, searched)).map(|place| searched + place) {
        searched = place + 1;
        if let Some((byte, behind)) = meaning(tail(rest, searched)) {
            replaced.reserve(rest.len());
            replaced.extend_from_slice(head(rest, place));
            replaced.extend(byte);
            (rest, searched) = (behind, 0);
        }
    }
    if rest.len() == text.len() {
        return text.into();
    }
    replaced.extend_from_slice(rest);
    replaced.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn e8_text(part: &[u8]) -> Option<Vec<u8>> {
        signed_text(part).map(<[u8]>::to_vec)
    }

    fn base64_text(body: &str) -> Vec<u8> {
        let part = format!("content-transfer-encoding: BASE64\n\n{body}").into_bytes();
        split_at_blank_line(&decode_base64(&part).unwrap()).1.unwrap().to_vec()
    }

    #[test]
    fn base64_ends_at_the_first_equals_sign() {
        assert_eq!(base64_text("aGVs bG8=d29ybGQ"), b"hello");
        assert_eq!(base64_text("aGVsbG8"), b"hello");
        assert_eq!(base64_text("aGVsbG8h"), b"hello!");
        assert_eq!(base64_text("A"), b"");
    }

    #[test]
    fn a_character_left_over_gives_nuls() {
        assert_eq!(base64_text("aGVsD"), b"hel\0\0\0");
        let run = "QUJD".repeat(15);
        assert_eq!(base64_text(&format!("{run}D")), "ABC".repeat(15).as_bytes());
    }

    #[test]
    fn base64_without_a_blank_line_counts_equals_signs() {
        let part = b"a\n\nContent-Transfer-Encoding: base64\nQUJD=AAA".to_vec();
        assert_eq!(decode_base64(&part).unwrap(), b"a\n\nABC\x74\0\0");
    }

    #[test]
    fn quoted_printable_escapes_may_arise_from_soft_line_ends() {
        let part = b"content-transfer-encoding: quoted-printable\n\na=4=\n1 =3D41 =\r\nb =4G = \n=".to_vec();
        assert_eq!(body_text(&decode_quoted_printable(&part).unwrap()), b"aA =41 b =4G = \n=");
    }

    #[test]
    fn quoted_printable_is_a_matter_of_the_header() {
        let part = b"a: b\n\ncontent-transfer-encoding: quoted-printable\n=41".to_vec();
        assert_eq!(decode_quoted_printable(&part), None);
    }

    #[test]
    fn final_line_feeds_are_removed() {
        assert_eq!(e8_text(b"a\n\nb\r\n\n\n"), Some(b"b\r".to_vec()));
        assert_eq!(e8_text(b"a\n\n \t\n\x0b\n"), None);
        assert_eq!(e8_text(b"a"), None);
    }

    #[test]
    fn stray_headers_are_skipped() {
        for body in
            ["Content-a: b\nContent-c: d", "Content: \n\t ", "Contentx:\n\rContent:x", "Content-a: b\nx\nContent-c:"]
        {
            assert!(is_stray_header(body.as_bytes()), "{body:?}");
        }
        for body in [
            "Content-a: b",
            "content-a: b\ncontent-c: d",
            "Content-a: b\nx",
            "Content a: b\nContent-c: d",
            " Content:\n",
        ] {
            assert!(!is_stray_header(body.as_bytes()), "{body:?}");
        }
        let long = format!("Content-a: {}\nContent-c: d", "b".repeat(128 - 24));
        assert_eq!(long.len(), 128);
        assert!(!is_stray_header(long.as_bytes()));
        assert!(is_stray_header(&long.as_bytes()[..127]));
    }
}
