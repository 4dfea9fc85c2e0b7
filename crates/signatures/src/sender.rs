//! Who a message says it is from: the address in its field `From`.
//!
//! Anybody can write anybody's address there. Where several readings are possible (more than one field, more than one
//! address, a comment or quote that does not end) there is none, so that nobody is taken for somebody else by a trick of
//! syntax.

use crate::message::Fields;

/// The longest address: what RFC 5321 (4.5.3.1) allows, 64 bytes before the `@` and 255 behind it.
pub const SENDER_BYTES_MAX: usize = 64 + 1 + 255;

/// How much of the field is read.
const FIELD_BYTES_MAX: usize = 4 * 1024;

/// The address of the one field `From`, if there is one address in it.
pub fn of(message: &[u8]) -> Option<String> {
    let fields = Fields::of(message);
    let mut values = fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(b"from")).map(|(_, value)| value);
    let value = values.next().filter(|value| value.len() <= FIELD_BYTES_MAX)?;
    if values.next().is_some() {
        return None;
    }
    address(&without_words(std::str::from_utf8(value).ok()?)?)
}

/// The text without comments and what is in quotes: no address that we read has either, and of quotes the marks stay, so
/// that they keep it from being one.
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

/// The address in angle brackets, or the only word.
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
    let has_parts = text.split_once('@').is_some_and(|(local, domain)| !local.is_empty() && !domain.is_empty());
    has_parts && text.matches('@').count() == 1 && text.len() <= SENDER_BYTES_MAX && !text.contains(is_odd)
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
    fn what_can_be_read_in_two_ways_is_nobody() {
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
        ] {
            assert_eq!(of_field(value), None, "{value}");
        }
        assert_eq!(of(b"From: a@example.org\nfrom: b@example.org\n\n"), None);
        assert_eq!(of(b"Subject: x\n\nFrom: a@example.org\n"), None);
        assert_eq!(of(b"From: \xff@example.org\n\n"), None);
    }

    #[test]
    fn an_address_is_so_long_and_a_field_so_long() {
        let longest = format!("{}@{}", "a".repeat(64), "b".repeat(255));
        assert_eq!(of_field(&longest).as_deref(), Some(&*longest));
        assert_eq!(of_field(&format!("{longest}b")), None);
        let field = |blanks: usize| of(format!("From:{}a@example.org\n", " ".repeat(blanks)).as_bytes());
        let rest = "a@example.org\n".len();
        assert!(field(FIELD_BYTES_MAX - rest).is_some());
        assert_eq!(field(FIELD_BYTES_MAX - rest + 1), None);
    }
}
