//! The client's handling of HTML. A heuristic detects HTML, and a small state machine strips tags.
//!
//! Both treat the whole part, including its header, as a C string, which ends at the first NUL.

use memchr::{memchr, memchr3};

use super::entities;
use super::text::{head, is_space, tail};

/// Tags that identify a part as HTML. A name ends at the first character that is not a letter.
const TAGS: &[&str] = &[
    "html", "body", "a", "font", "table", "head", "base", "meta", "td", "tr", "style", "img", "object", "br", "b", "i",
    "span", "div", "form", "input", "button", "frame", "iframe", "tbody", "col", "th", "hr", "xml", "script", "pre",
    "param", "applet", "center", "area", "map", "em", "embed", "xmp", "sub", "sup",
];

/// Returns true if `part` has one of the [`TAGS`].
pub(super) fn is_html(part: &[u8]) -> bool {
    let mut rest = c_string(part);
    while let Some(start) = memchr(b'<', rest) {
        rest = tail(rest, start + 1);
        let name = tag_name(rest);
        if name.is_empty() {
            continue;
        }
        // If this tag has no end, no later tag has one either.
        let Some(end) = memchr(b'>', rest) else { return false };
        if TAGS.iter().any(|tag| name.eq_ignore_ascii_case(tag.as_bytes())) {
            return true;
        }
        rest = tail(rest, end + 1);
    }
    false
}

/// Returns the letters of the tag name in `text`, which begins after a `<`. A `!` or `/`, and white space, may precede
/// the name.
fn tag_name(text: &[u8]) -> &[u8] {
    let text = text.strip_prefix(b"!").or_else(|| text.strip_prefix(b"/")).unwrap_or(text);
    let text = tail(text, text.iter().take_while(|&&byte| is_space(byte)).count());
    head(text, text.iter().take_while(|byte| byte.is_ascii_alphabetic()).count())
}

/// Removes tags and comments from `part` and replaces named characters. Drops the last byte, as the client does.
pub(super) fn strip(part: &[u8]) -> Vec<u8> {
    let mut stripper = Stripper::default();
    let mut rest = c_string(head(part, part.len().saturating_sub(1)));
    loop {
        let run = stripper.run_length(rest);
        stripper.take_run(head(rest, run));
        let Some((&byte, behind)) = tail(rest, run).split_first() else { return stripper.text };
        rest = tail(behind, stripper.take(byte, behind));
    }
}

/// Truncates the text at the first NUL, as in a C string.
fn c_string(text: &[u8]) -> &[u8] {
    head(text, memchr(0, text).unwrap_or(text.len()))
}

/// State of the tag stripper.
#[derive(Default)]
struct Stripper {
    /// Text outside of markup.
    text: Vec<u8>,
    in_tag: bool,
    /// True in a tag that begins with `<!`.
    in_declaration: bool,
    /// The character that ends the current quoted string. A comment counts as a quoted string that ends at `-`.
    quote: Option<u8>,
    last: u8,
}

impl Stripper {
    /// Returns the number of leading bytes of `text` that do not change the state.
    fn run_length(&self, text: &[u8]) -> usize {
        let is_mark = |byte: &u8| matches!(byte, b'<' | b'>' | b'&' | b'"' | b'\'' | b'-');
        let place = match self.quote {
            Some(quote) => memchr(quote, text),
            None if self.in_tag => text.iter().position(is_mark),
            None => memchr3(b'<', b'>', b'&', text),
        };
        place.unwrap_or(text.len())
    }

    /// Processes bytes that do not change the state.
    fn take_run(&mut self, run: &[u8]) {
        if self.quote.is_none() && !self.in_tag {
            self.text.extend_from_slice(run);
        }
        self.last = run.last().copied().unwrap_or(self.last);
    }

    /// Processes one byte and returns the number of bytes of `behind` consumed with it.
    fn take(&mut self, byte: u8, behind: &[u8]) -> usize {
        let taken = match (self.quote, byte) {
            (Some(quote), _) => self.take_quoted(byte, quote),
            (None, b'<') => self.open_tag(behind),
            (None, b'>') => self.close_tag(),
            (None, b'-') if self.in_declaration && self.last == b'-' => self.open_quote(byte),
            (None, b'"' | b'\'') if self.in_tag => self.open_quote(byte),
            // A named character is replaced even in a tag.
            (None, b'&') => self.put_entity(behind),
            _ => self.put(byte),
        };
        self.last = byte;
        taken
    }

    fn take_quoted(&mut self, byte: u8, quote: u8) -> usize {
        if byte == quote && (byte != b'-' || self.last == b'-') {
            self.quote = None;
        }
        0
    }

    /// Enters a tag. Also consumes the byte after the `<`, whatever it is.
    fn open_tag(&mut self, behind: &[u8]) -> usize {
        self.in_tag = true;
        if behind.starts_with(b"!") {
            self.in_declaration = true;
        }
        1
    }

    fn close_tag(&mut self) -> usize {
        self.in_tag = false;
        self.in_declaration = false;
        0
    }

    fn open_quote(&mut self, byte: u8) -> usize {
        self.quote = Some(byte);
        0
    }

    fn put(&mut self, byte: u8) -> usize {
        if !self.in_tag {
            self.text.push(byte);
        }
        0
    }

    fn put_entity(&mut self, behind: &[u8]) -> usize {
        let Some((byte, length)) = entities::at_start(behind) else {
            self.text.push(b'&');
            return 0;
        };
        self.text.push(byte);
        length + usize::from(behind.get(length) == Some(&b';'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_tags_make_html() {
        for html in ["<b>", "x < \t\x0bBODY y>", "</ a>", "<!b1>", "<p><i>", "<b <b>"] {
            assert!(is_html(html.as_bytes()), "{html}");
        }
        for text in ["", "<", "<p>", "<b", "<1b>", "<bb>", "<! /b>", "<p <b>", "\0<b>", "<b\0>"] {
            assert!(!is_html(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_million_open_tags_take_no_time() {
        assert!(!is_html(&b"<p".repeat(1_000_000)));
        assert!(!is_html(&b"<p>".repeat(1_000_000)));
    }

    #[test]
    fn the_last_byte_is_lost() {
        assert_eq!(strip(b"<b>x</b>yz"), b"xy");
        assert_eq!(strip(b""), b"");
        assert_eq!(strip(b"<b>x\0yz"), b"x");
    }

    #[test]
    fn named_characters_need_no_semicolon_and_no_text() {
        assert_eq!(strip(b"&lt;&copyx&bogus;<a &gt>&.."), b"<\xa9x&bogus;>&.");
    }
}
