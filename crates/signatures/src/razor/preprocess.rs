//! From a part to the two texts that are signed: transfer encodings undone, for e4 also HTML, header and last LFs gone.

use super::html;
use super::text::{find_ignoring_case, has_line_ignoring_case, head, is_blank, is_space, split_at_blank_line, tail};

const BASE64: &[u8] = b"Content-Transfer-Encoding: base64";
const QUOTED_PRINTABLE: &[u8] = b"Content-Transfer-Encoding: quoted-printable";

/// The client decodes base64 in runs of so many characters, each on its own.
const BASE64_RUN: usize = 60;

/// Below this length, a text of `Content-…:` lines is taken for a stray header.
const STRAY_HEADER_BYTES: usize = 128;

/// What the two schemes sign of one part.
#[derive(Debug)]
pub(super) struct Texts {
    /// For e4.
    pub(super) ephemeral: Vec<u8>,
    /// For e8: HTML is still in it.
    pub(super) whiplash: Vec<u8>,
}

/// The texts of `part`, unless the client finds nothing in it to sign.
pub(super) fn texts(part: &[u8]) -> Option<Texts> {
    let decoded = decode_quoted_printable(decode_base64(part.to_vec()));
    let whiplash = signed_text(&decoded);
    if is_blank(&whiplash) || is_stray_header(&whiplash) {
        return None;
    }
    let ephemeral = if html::is_html(&decoded) { signed_text(&html::strip(&decoded)) } else { whiplash.clone() };
    Some(Texts { ephemeral, whiplash })
}

/// The body without the LFs at its end. Undone HTML may have lost its blank line, and is empty then.
fn signed_text(part: &[u8]) -> Vec<u8> {
    let body = split_at_blank_line(part).1.unwrap_or_default();
    let newlines = body.iter().rev().take_while(|&&byte| byte == b'\n').count();
    head(body, body.len() - newlines).to_vec()
}

/// Whether `text` is short, begins with a `Content…:` line, and has another, or nothing but white space, behind it.
fn is_stray_header(text: &[u8]) -> bool {
    let Some(rest) = after_content_name(text).filter(|_| text.len() < STRAY_HEADER_BYTES) else { return false };
    let mut lines = rest.split(|&byte| byte == b'\n').skip(1);
    let ends_blank = rest.contains(&b'\n') && rest.rsplit(|&byte| byte == b'\n').next().is_some_and(is_blank);
    ends_blank || lines.any(|line| after_content_name(line.strip_prefix(b"\r").unwrap_or(line)).is_some())
}

/// What follows the name of a `Content…:` line, in this case only.
fn after_content_name(text: &[u8]) -> Option<&[u8]> {
    let rest = text.strip_prefix(b"Content")?;
    let name = rest.iter().take_while(|&&byte| !is_space(byte) && byte != b':').count();
    tail(rest, name).strip_prefix(b":")
}

/// Undoes base64 if any line of the part, in its body too, says that it is used.
fn decode_base64(part: Vec<u8>) -> Vec<u8> {
    if !has_line_ignoring_case(&part, BASE64) {
        return part;
    }
    let Some(place) = find_ignoring_case(&part, BASE64) else { return part };
    let characters = base64_characters(tail(&part, place + BASE64.len()));
    let mut decoded = [split_at_blank_line(&part).0, b"\n\n"].concat();
    for run in characters.chunks(BASE64_RUN) {
        decode_run(run, &mut decoded);
    }
    decoded
}

/// The values of the base64 characters in `text`: those behind its first blank line and before the first `=`. If there is
/// no blank line, all of them, where `=` has a value too, save at the end.
fn base64_characters(text: &[u8]) -> Vec<u8> {
    match after_base64_header(text) {
        Some(body) => body.iter().take_while(|&&byte| byte != b'=').filter_map(|&byte| base64_value(byte)).collect(),
        None => {
            let is_kept = |byte: &&u8| **byte == b'=' || base64_value(**byte).is_some();
            let kept: Vec<u8> = text.iter().filter(is_kept).copied().collect();
            let padding = kept.iter().rev().take_while(|&&byte| byte == b'=').count();
            let value = |&byte: &u8| base64_value(byte).unwrap_or(EQUALS_SIGN_VALUE);
            head(&kept, kept.len() - padding).iter().map(value).collect()
        }
    }
}

/// What an `=` counts as where the client forgets to remove it: its place in the alphabet of uuencode.
const EQUALS_SIGN_VALUE: u8 = b'=' - b' ';

/// What follows the first blank line, whose line ends may have one CR each.
fn after_base64_header(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text;
    while let Some(newline) = memchr::memchr(b'\n', rest) {
        rest = tail(rest, newline + 1);
        let second = rest.strip_prefix(b"\r").unwrap_or(rest);
        if let Some(body) = second.strip_prefix(b"\n") {
            return Some(body);
        }
    }
    None
}

fn base64_value(character: u8) -> Option<u8> {
    match character {
        b'A'..=b'Z' => Some(character - b'A'),
        b'a'..=b'z' => Some(character - b'a' + 26),
        b'0'..=b'9' => Some(character - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// Appends what a run of values stands for. A single value left over gives as many NULs as it says, because the client
/// takes it for the length of another run; a run that is nothing else gives nothing.
fn decode_run(run: &[u8], decoded: &mut Vec<u8>) {
    for group in run.chunks(4) {
        let mut values = group.iter().map(|&value| u32::from(value)).chain([0; 3]);
        let bits = values.by_ref().take(4).fold(0, |bits, value| bits << 6 | value);
        let [_, bytes @ ..] = bits.to_be_bytes();
        match group {
            [left_over] if run.len() > 1 => decoded.resize(decoded.len() + usize::from(*left_over), 0),
            _ => decoded.extend_from_slice(head(&bytes, group.len() * 3 / 4)),
        }
    }
}

/// Undoes quoted-printable if a header line says that it is used: first the soft line ends, then the escapes, so that one
/// may arise from pieces. White space at the ends of lines stays.
fn decode_quoted_printable(part: Vec<u8>) -> Vec<u8> {
    let (header, body) = split_at_blank_line(&part);
    if !has_line_ignoring_case(header, QUOTED_PRINTABLE) {
        return part;
    }
    let joined = join_soft_lines(body.unwrap_or_default());
    [header, b"\n\n", &unescape(&joined, b'=')].concat()
}

fn join_soft_lines(body: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(body.len());
    let mut rest = body;
    while let Some((&byte, behind)) = rest.split_first() {
        let line_end =
            (byte == b'=').then(|| behind.strip_prefix(b"\r").unwrap_or(behind).strip_prefix(b"\n")).flatten();
        if line_end.is_none() {
            joined.push(byte);
        }
        rest = line_end.unwrap_or(behind);
    }
    joined
}

/// Replaces `mark` and two hexadecimal digits by the byte they name.
pub(super) fn unescape(text: &[u8], mark: u8) -> Vec<u8> {
    let mut unescaped = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, behind)) = rest.split_first() {
        let escape = behind
            .split_first_chunk()
            .filter(|_| byte == mark)
            .and_then(|(digits, behind)| Some((hex_byte(*digits)?, behind)));
        let (byte, behind) = escape.unwrap_or((byte, behind));
        unescaped.push(byte);
        rest = behind;
    }
    unescaped
}

fn hex_byte(digits: [u8; 2]) -> Option<u8> {
    let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
    u8::try_from(high? << 4 | low?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn e8_text(part: &[u8]) -> Option<Vec<u8>> {
        texts(part).map(|texts| texts.whiplash)
    }

    fn base64_text(body: &str) -> Vec<u8> {
        let part = format!("content-transfer-encoding: BASE64\n\n{body}").into_bytes();
        split_at_blank_line(&decode_base64(part)).1.unwrap().to_vec()
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
        assert_eq!(decode_base64(part), b"a\n\nABC\x74\0\0");
    }

    #[test]
    fn quoted_printable_escapes_may_arise_from_soft_line_ends() {
        let part = b"content-transfer-encoding: quoted-printable\n\na=4=\n1 =3D41 =\r\nb =4G = \n=".to_vec();
        assert_eq!(signed_text(&decode_quoted_printable(part)), b"aA =41 b =4G = \n=");
    }

    #[test]
    fn quoted_printable_is_a_matter_of_the_header() {
        let part = b"a: b\n\ncontent-transfer-encoding: quoted-printable\n=41".to_vec();
        assert_eq!(decode_quoted_printable(part.clone()), part);
    }

    #[test]
    fn line_feeds_at_the_end_go() {
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
