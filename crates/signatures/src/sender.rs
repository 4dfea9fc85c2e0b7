//! The sender that a message claims to have, i.e. the address in its `From` field.
//!
//! The field can be forged. An ambiguous header (more than one field or address, an unterminated comment or quoted
//! string) is ignored, so that syntax tricks cannot impersonate another sender.

use crate::message::Fields;

/// Maximum length of an address (RFC 5321, 4.5.3.1): 64 bytes before the `@` and 255 after it.
pub const SENDER_BYTES_MAX: usize = 64 + 1 + 255;

/// Maximum length of the field in bytes. A longer field is ignored.
const FIELD_BYTES_MAX: usize = 4 * 1024;

/// Returns the address in the `From` field, if there is exactly one such field and it contains exactly one address.
pub fn of(message: &[u8]) -> Option<String> {
    let fields = Fields::of(message);
    let mut values = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"from")).map(|(_, value)| value);
    let value = values.next().filter(|value| value.len() <= FIELD_BYTES_MAX)?;
    if values.next().is_some() {
        return None;
    }
    address(&without_words(std::str::from_utf8(value).ok()?)?)
}

/// Removes comments and the contents of quoted strings, which accepted addresses do not contain. The quote marks stay,
/// so that a quoted string is not accepted as an address.
fn without_words(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let (mut comments, mut is_quoted) = (0_usize, false);
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' if is_quoted || comments > 0 => drop(chars.next()),
            '"' if comments == 0 => {
                is_quoted = !is_quoted;
                plain.push(char);
            }
            '(' if !is_quoted => comments += 1,
            ')' if !is_quoted => comments = comments.checked_sub(1)?,
            char if !is_quoted && comments == 0 => plain.push(char),
            _ => {}
        }
    }
    (comments == 0 && !is_quoted).then_some(plain)
}

/// Returns the address in angle brackets. Without brackets, returns the only word.
fn address(text: &str) -> Option<String> {
    let address = match text.split_once('<') {
        Some((name, rest)) => {
            let (address, behind) = rest.split_once('>')?;
            let is_plain = !name.contains(['@', ',', ':', ';', '>']) && behind.trim().is_empty();
            is_plain.then_some(address.trim())?
        }
        None => text.trim(),
    };
    is_address(address).then(|| address.to_owned())
}

fn is_address(text: &str) -> bool {
    let is_odd = |char: char| char.is_whitespace() || char.is_control() || "<>,;:()[]\\\"".contains(char);
    // With such characters, the displayed address would differ from the one that is compared.
    let is_invisible = |char: char| matches!(char, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    let has_parts = text.split_once('@').is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty());
    has_parts
        && text.matches('@').count() == 1
        && text.len() <= SENDER_BYTES_MAX
        && !text.contains(|char| is_odd(char) || is_invisible(char))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_field(value: &str) -> Option<String> {
        of(format!("Subject: x\nFrom: {value}\n\nbody\n").as_bytes())
    }

    #[test]
    fn the_address_is_found_in_its_usual_places() {
        for value in [
            "a@example.org",
            " <a@example.org>",
            "A B <a@example.org>",
            "\"B, A <x@y.example>\" <a@example.org>",
            "a@example.org (A (the one) B)",
            "=?utf-8?q?x?=\r\n <a@example.org>",
            "A \\ B <a@example.org>",
        ] {
            assert_eq!(of_field(value).as_deref(), Some("a@example.org"), "{value}");
        }
        let mbox = of(b"From x@y.example Mon\nFROM : a@example.org\n\n");
        assert_eq!(mbox.as_deref(), Some("a@example.org"));
    }

    #[test]
    fn ambiguous_senders_are_ignored() {
        for value in [
            "",
            "nobody",
            "a@example.org, b@example.org",
            "<a@example.org> <b@example.org>",
            "a@example.org <b@example.org>",
            "A <a@example.org>, B <b@example.org>",
            "group: a@example.org;",
            "\"a@example.org",
            "(a@example.org",
            "a@example.org)",
            "<a@example.org",
            "<@relay.example:a@example.org>",
            "a@b@example.org",
            "\"a b\"@example.org",
            "\"b\"a@example.org",
            "a b@example.org",
            "a@\u{202e}gro.elpmaxe",
            "a\u{200b}@example.org",
        ] {
            assert_eq!(of_field(value), None, "{value}");
        }
        assert_eq!(of(b"From: a@example.org\nfrom: b@example.org\n\n"), None);
        assert_eq!(of(b"Subject: x\n\nFrom: a@example.org\n"), None);
        assert_eq!(of(b"From: \xff@example.org\n\n"), None);
    }

    #[test]
    fn addresses_and_fields_are_bounded() {
        let longest = format!("{}@{}", "a".repeat(64), "b".repeat(255));
        assert_eq!(of_field(&longest).as_deref(), Some(&*longest));
        assert_eq!(of_field(&format!("{longest}b")), None);
        let field = |blanks: usize| of(format!("From:{}a@example.org\n", " ".repeat(blanks)).as_bytes());
        let rest = "a@example.org\n".len();
        assert!(field(FIELD_BYTES_MAX - rest).is_some());
        assert_eq!(field(FIELD_BYTES_MAX - rest + 1), None);
    }
}
