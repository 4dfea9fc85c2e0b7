//! Character references in HTML (`&amp;`, `&#38;`), as replaced by Python's `html.unescape`.

use std::collections::HashMap;
use std::sync::OnceLock;

use memchr::memchr;

use super::space::is_space;

/// HTML's named characters. If there is no semicolon, the longest matching prefix counts.
const NAMES: &str = include_str!("../../data/html-references.txt");
/// Maximum length of a name that Python reads.
const NAME_CHARACTERS_MAX: usize = 32;
/// Minimum length of a name without its semicolon.
const NAME_BYTES_MIN: usize = 2;
/// Maximum distance from the end of the input at which Python considers a reference unfinished.
const UNFINISHED_CHARACTERS_MAX: usize = 34;

/// Returns true if `text`, the rest of a page after its last tag, may end in an unfinished reference.
pub(super) fn is_unfinished(text: &str) -> bool {
    let start = text.char_indices().rev().take(UNFINISHED_CHARACTERS_MAX).last().map_or(text.len(), |(at, _)| at);
    let tail = text.get(start..).unwrap_or_default();
    tail.rfind('&').is_some_and(|at| !tail.get(at..).unwrap_or_default().contains(|c| c == ';' || is_space(c)))
}

/// Appends `text` to `out` with references replaced.
pub(super) fn replace(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some((before, after)) = memchr(b'&', rest.as_bytes()).and_then(|at| rest.split_at_checked(at)) {
        out.push_str(before);
        let reference = after.get(1..).unwrap_or_default();
        let length = match reference.strip_prefix('#') {
            Some(number) => numeric(number, out).map(|length| length + 1),
            None => named(reference, out),
        };
        if length.is_none() {
            out.push('&');
        }
        rest = reference.get(length.unwrap_or(0)..).unwrap_or_default();
    }
    out.push_str(rest);
}

/// Appends the character with the number after `&#` and returns the length of the number, or `None` if it has no
/// digits.
fn numeric(number: &str, out: &mut String) -> Option<usize> {
    let (prefix, radix) = if number.starts_with(['x', 'X']) { (1, 16) } else { (0, 10) };
    let digits = number.get(prefix..)?;
    let length = digits.bytes().take_while(|&byte| char::from(byte).is_digit(radix)).count();
    if length == 0 {
        return None;
    }
    let add = |value: u32, digit: char| value.saturating_mul(radix).saturating_add(digit.to_digit(radix).unwrap_or(0));
    let value = digits.get(..length)?.chars().fold(0, add);
    out.extend(character(value));
    let has_semicolon = digits.as_bytes().get(length) == Some(&b';');
    Some(prefix + length + usize::from(has_semicolon))
}

/// Returns the character with this number. Control characters are read as windows-1252, as HTML requires for malformed
/// pages. Some numbers have no character.
fn character(value: u32) -> Option<char> {
    match value {
        0 => Some(char::REPLACEMENT_CHARACTER),
        0x80..=0x9f => Some(u8::try_from(value).map_or(char::REPLACEMENT_CHARACTER, windows_1252)),
        0x01..=0x08 | 0x0b | 0x0e..=0x1f | 0x7f | 0xfdd0..=0xfdef => None,
        _ if value <= 0x10_ffff && value & 0xfffe == 0xfffe => None,
        _ => Some(char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER)),
    }
}

/// Decodes a byte of windows-1252, as browsers do.
fn windows_1252(byte: u8) -> char {
    let bytes = [byte];
    let (text, _) = encoding_rs::WINDOWS_1252.decode_without_bom_handling(&bytes);
    text.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Appends the characters for the name at the start of `reference` and returns the length of the name, or `None` if
/// there is no name. An unknown name is copied. If only a prefix of the name is known, it is replaced and the rest is
/// copied.
fn named(reference: &str, out: &mut String) -> Option<usize> {
    let is_end = |c: char| matches!(c, '\t' | '\n' | '\x0c' | ' ' | '<' | '&' | '#' | ';');
    let mut characters = reference.char_indices().take(NAME_CHARACTERS_MAX + 1).enumerate();
    let end = characters.find(|&(index, (_, c))| index == NAME_CHARACTERS_MAX || is_end(c));
    let length = end.map_or(reference.len(), |(_, (at, _))| at);
    if length == 0 {
        return None;
    }
    let length = length + usize::from(reference.as_bytes().get(length) == Some(&b';'));
    let name = reference.get(..length)?;
    let known = (NAME_BYTES_MIN..=length).rev().find_map(|end| Some((end, *names().get(name.get(..end)?)?)));
    let (known_length, [first, second]) = known.unwrap_or((0, [None; 2]));
    if known_length == 0 {
        out.push('&');
    }
    out.extend(first.into_iter().chain(second));
    out.push_str(name.get(known_length..)?);
    Some(length)
}

/// Returns all names, with or without semicolon, and their characters.
fn names() -> &'static HashMap<&'static str, [Option<char>; 2]> {
    static NAMES_PARSED: OnceLock<HashMap<&str, [Option<char>; 2]>> = OnceLock::new();
    NAMES_PARSED.get_or_init(|| {
        let lines = NAMES.lines().filter(|line| !line.starts_with('#'));
        lines.filter_map(|line| line.split_once(' ')).map(|(name, points)| (name, characters(points))).collect()
    })
}

/// Parses one or two code points.
fn characters(points: &str) -> [Option<char>; 2] {
    let mut characters = points.split(' ').map(|point| u32::from_str_radix(point, 16).ok().and_then(char::from_u32));
    [characters.next().flatten(), characters.next().flatten()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(text: &str) -> String {
        let mut out = String::new();
        replace(text, &mut out);
        out
    }

    #[test]
    fn references_are_replaced() {
        for (text, expected) in [
            ("a&amp;b&ampc&lt&gt;", "a&b&c<>"),
            ("&notit; &notin; &unknown; &", "¬it; ∉ &unknown; &"),
            ("&#65;&#x42;&#67 &#x; &#;", "ABC &#x; &#;"),
            ("&#0;&#128;&#129;&#1;&#xfffe;&#xd800;&#99999999999;", "\u{fffd}€\u{81}\u{fffd}\u{fffd}"),
            ("&NotEqualTilde;", "\u{2242}\u{338}"),
        ] {
            assert_eq!(replaced(text), expected, "{text}");
        }
    }

    #[test]
    fn a_reference_near_the_end_may_be_unfinished() {
        assert!(is_unfinished("a &am"));
        assert!(!is_unfinished("a &am "));
        assert!(is_unfinished(&format!("&{}", "a".repeat(33))));
        assert!(!is_unfinished(&format!("&{}", "a".repeat(34))));
    }

    #[test]
    fn every_name_is_parsed() {
        assert_eq!(names().len(), 2231);
        assert!(names().values().all(|characters| characters[0].is_some()));
    }
}
