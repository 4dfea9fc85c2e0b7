//! The mailing list of a message: the identifier in its `List-Id` field (RFC 2919).
//!
//! The field can be forged. An ambiguous header (more than one field, or more than one pair of angle brackets) is
//! ignored.

use crate::message::Fields;

/// Maximum length of an identifier (RFC 2919, section 2).
pub const LIST_BYTES_MAX: usize = 255;

/// Maximum length of the field in bytes. A longer field is ignored.
const FIELD_BYTES_MAX: usize = 4 * 1024;

/// Returns the identifier in lower case, if the message has exactly one `List-Id` field and the field is valid.
pub fn of(message: &[u8]) -> Option<String> {
    let fields = Fields::of(message);
    let mut values = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"list-id")).map(|(_, value)| value);
    let value = values.next().filter(|value| value.len() <= FIELD_BYTES_MAX)?;
    if values.next().is_some() {
        return None;
    }
    // The conversion is lossy, because the phrase before the brackets may be in any encoding.
    let text = String::from_utf8_lossy(value);
    let identifier = match text.rsplit_once('<') {
        Some((phrase, rest)) => {
            let (identifier, behind) = rest.split_once('>')?;
            (behind.trim().is_empty() && !phrase.contains('>')).then_some(identifier)?
        }
        None => &text,
    };
    let identifier = identifier.trim();
    is_identifier(identifier).then(|| identifier.to_ascii_lowercase())
}

/// Returns true for at least two labels separated by dots, such as `announce.example.org`.
fn is_identifier(text: &str) -> bool {
    let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_allowed);
    text.len() <= LIST_BYTES_MAX && text.contains('.') && text.split('.').all(is_label)
}

/// Characters of an atom (RFC 5322, 3.2.3), except `*`, which has a meaning in patterns.
const fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'+' | b'-' | b'/' | b'=' | b'?' | b'^'..=b'`' | b'{'..=b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_field(value: &str) -> Option<String> {
        of(format!("Subject: x\nList-Id: {value}\n\nbody\n").as_bytes())
    }

    #[test]
    fn the_identifier_is_found_with_and_without_a_phrase() {
        for value in [
            "<Announce.example.org>",
            "announce.example.org",
            "News of the club <announce.example.org>",
            "\"a < b\" <announce.example.org>",
            "=?utf-8?q?N=C3=A9ws?=\r\n <announce.example.org> ",
        ] {
            assert_eq!(of_field(value).as_deref(), Some("announce.example.org"), "{value}");
        }
        assert_eq!(of(b"LIST-ID : \xff <a.b>\n\n").as_deref(), Some("a.b"), "a phrase in another encoding");
    }

    #[test]
    fn ambiguous_list_identifiers_are_ignored() {
        for value in
            ["", "club", "<>", "<a.b", "a.b>", "<a.b> <c.d>", "<a.b> more", "<a b.c>", "<a..b>", "<*.b>", "<a@b.c>"]
        {
            assert_eq!(of_field(value), None, "{value}");
        }
        assert_eq!(of(b"List-Id: <a.b>\nlist-id: <c.d>\n\n"), None);
        assert_eq!(of(b"Subject: x\n\nList-Id: <a.b>\n"), None);
    }

    #[test]
    fn identifiers_and_fields_are_bounded() {
        let longest = format!("a.{}", "b".repeat(LIST_BYTES_MAX - 2));
        assert_eq!(of_field(&longest).as_deref(), Some(&*longest));
        assert_eq!(of_field(&format!("{longest}b")), None);
        let field = |blanks: usize| of(format!("List-Id:{}a.b\n", " ".repeat(blanks)).as_bytes());
        assert!(field(FIELD_BYTES_MAX - "a.b\n".len()).is_some());
        assert_eq!(field(FIELD_BYTES_MAX - "a.b\n".len() + 1), None);
    }
}
