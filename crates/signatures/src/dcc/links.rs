//! The parts of a link that Fuz1 keeps: the scheme and the last two labels of the host. The path and the other labels
//! differ from copy to copy.

use idna::punycode;
use memchr::memchr_iter;

const SCHEMES: [&[u8]; 2] = [b"http", b"https"];

/// Number of labels kept from the end of a host.
const LABELS: usize = 2;

/// Maximum length of a DNS label. Encoding takes quadratic time, so longer labels are not encoded.
const LABEL_CHARACTERS_MAX: usize = 63;

/// Splits `text` at its first link. Returns the text before the link, the letters to keep from the link, and the text
/// after it.
pub(super) fn cut(text: &[u8]) -> Option<(&[u8], Vec<u8>, &[u8])> {
    // Search for the colon, the rarest character of `http://`.
    let (before, scheme, rest) = memchr_iter(b':', text).find_map(|colon| cut_scheme(text, colon))?;
    let length = rest.iter().position(|&byte| ends_link(byte)).unwrap_or(rest.len());
    let (link, behind) = rest.split_at_checked(length)?;
    let letters = host_labels(link).into_bytes().into_iter().filter(u8::is_ascii_lowercase);
    Some((before, scheme.to_ascii_lowercase().into_iter().chain(letters).collect(), behind))
}

/// Returns the text before the scheme that ends at `colon`, the scheme's name, and the text after its slashes.
fn cut_scheme(text: &[u8], colon: usize) -> Option<(&[u8], &[u8], &[u8])> {
    let (before, rest) = text.split_at_checked(colon)?;
    let rest = rest.strip_prefix(b"://")?;
    let start = SCHEMES.iter().find_map(|scheme| {
        let start = before.len().checked_sub(scheme.len())?;
        before.get(start..).filter(|end| end.eq_ignore_ascii_case(scheme)).map(|_| start)
    });
    let (before, scheme) = before.split_at_checked(start?)?;
    Some((before, scheme, rest))
}

fn ends_link(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\'' | b'<' | b'>')
}

/// Returns the last labels of a link's host, in lower case and ASCII. `link` begins after the scheme.
fn host_labels(link: &[u8]) -> String {
    let link = resolve_references(&characters(link));
    let authority = link.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default();
    let labels: Vec<_> = host.rsplit('.').filter(|label| !label.is_empty()).take(LABELS).collect();
    labels.iter().rev().map(|label| to_ascii(&label.to_lowercase())).collect()
}

/// Converts `label` to its DNS form, without mapping its characters. An ASCII label is unchanged. A label that is too
/// long loses its non-ASCII characters.
fn to_ascii(label: &str) -> String {
    let is_encoded = !label.is_ascii() && label.chars().count() <= LABEL_CHARACTERS_MAX;
    let encoded = if is_encoded { punycode::encode_str(label) } else { None };
    encoded.map_or_else(|| label.chars().filter(char::is_ascii).collect(), |encoded| format!("xn--{encoded}"))
}

/// Decodes bytes as UTF-8 or, if they are not valid UTF-8, as Latin-1.
fn characters(bytes: &[u8]) -> String {
    str::from_utf8(bytes).map_or_else(|_| bytes.iter().copied().map(char::from).collect(), str::to_owned)
}

/// Replaces references such as `&#65;` and `&#x41;` with their characters.
fn resolve_references(text: &str) -> String {
    let mut resolved = String::with_capacity(text.len());
    let mut pieces = text.split("&#");
    resolved.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        if let Some((character, behind)) = reference(piece) {
            resolved.push(character);
            resolved.push_str(behind);
        } else {
            resolved.push_str("&#");
            resolved.push_str(piece);
        }
    }
    resolved
}

/// Parses the number at the start of `text`. Returns its character and the text after the number and its semicolon.
fn reference(text: &str) -> Option<(char, &str)> {
    let (digits, radix) = text.strip_prefix(['x', 'X']).map_or((text, 10), |digits| (digits, 16));
    let length = digits.find(|character: char| !character.is_digit(radix)).unwrap_or(digits.len());
    let (number, behind) = digits.split_at_checked(length)?;
    let character = char::from_u32(u32::from_str_radix(number, radix).ok()?)?;
    Some((character, behind.strip_prefix(';').unwrap_or(behind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_encoded_as_browsers_do() {
        for (label, ascii) in [
            ("example", "example"),
            ("b\u{fc}cher", "xn--bcher-kva"),
            ("m\u{fc}nchen", "xn--mnchen-3ya"),
            ("\u{440}\u{444}", "xn--p1ai"),
            ("\u{4f8b}\u{3048}", "xn--r8jz45g"),
            ("\u{442}\u{435}\u{441}\u{442}", "xn--e1aybc"),
        ] {
            assert_eq!(to_ascii(label), ascii);
        }
    }

    #[test]
    fn labels_are_bounded() {
        let longest = "\u{10ffff}".repeat(LABEL_CHARACTERS_MAX);
        assert!(to_ascii(&longest).starts_with("xn--"));
        assert_eq!(to_ascii(&(longest + "a")), "a");
    }

    fn kept(text: &str) -> Option<(String, &str)> {
        let (before, letters, behind) = cut(text.as_bytes())?;
        assert_eq!(before, b"");
        Some((String::from_utf8(letters).unwrap(), str::from_utf8(behind).unwrap()))
    }

    #[test]
    fn scheme_and_two_labels_are_kept() {
        for link in [
            "http://www.Example.com/path?q#f",
            "HTTP://example.com",
            "http://user:pw@a.b.example.com.:80/",
            "http://www.ex&#97;mple&#x2E;com?x",
        ] {
            assert_eq!(kept(&format!("{link} rest")), Some(("httpexamplecom".into(), " rest")), "{link}");
        }
        assert_eq!(kept("https://x1.org\">"), Some(("httpsxorg".into(), "\">")));
        assert_eq!(kept("http://127.0.0.1/a"), Some(("http".into(), "")));
        assert_eq!(kept("http:/x"), None);
    }

    #[test]
    fn international_labels_are_those_of_the_domain_system() {
        assert_eq!(kept("http://www.B\u{fc}cher.de/"), Some(("httpxnbcherkvade".into(), "")));
        assert_eq!(cut(b"http://b\xfccher.de/").unwrap().1, b"httpxnbcherkvade");
    }
}
