//! The text of HTML, as extracted by Python's `html.parser`.
//!
//! Runs of text between tags are stripped of white space and joined by blanks. The contents of `script` and `style` are
//! dropped. The client never signals the end of the input to the parser. So an unfinished tag, comment or script hides
//! everything after it, and an unfinished reference at the end of a run hides the run.
//!
//! Every step either advances or gives up for good, so the time is linear in the length of the text.

use memchr::memchr;

use super::references::{is_unfinished, replace};
use super::space::{is_space, leading, strip};

/// Elements whose content is not text.
const HIDDEN_ELEMENTS: [&str; 2] = ["script", "style"];
/// Keywords that follow `<![` in sections that end at `]]>`.
const SECTIONS: [&str; 5] = ["temp", "cdata", "ignore", "include", "rcdata"];
/// Keywords that follow `<![` in word processor sections, which end at `]>`. Python fails on any other keyword.
const CONDITIONS: [&str; 3] = ["if", "else", "endif"];

/// Returns the text of `html`.
pub(super) fn text(html: &str) -> String {
    let mut stripper = Stripper { html, text: String::with_capacity(html.len() / 2) };
    let mut at = 0;
    while let Some(length) = memchr(b'<', stripper.bytes(at)) {
        stripper.push_text(at, at + length);
        match stripper.markup(at + length) {
            Some(next) => at = next,
            None => return stripper.text,
        }
    }
    if !is_unfinished(stripper.rest(at)) {
        stripper.push_text(at, html.len());
    }
    stripper.text
}

/// HTML and the text found so far. Positions are byte offsets in `html`.
struct Stripper<'a> {
    html: &'a str,
    text: String,
}

impl<'a> Stripper<'a> {
    /// Returns the text that begins at `at`.
    fn rest(&self, at: usize) -> &'a str {
        self.html.get(at..).unwrap_or_default()
    }

    /// Returns the bytes that begin at `at`, which may be inside a character.
    fn bytes(&self, at: usize) -> &'a [u8] {
        self.html.as_bytes().get(at..).unwrap_or_default()
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.html.as_bytes().get(at).copied()
    }

    /// Returns the position after the white space at `at`.
    fn skip_space(&self, at: usize) -> usize {
        match self.byte(at) {
            Some(byte) if byte.is_ascii_graphic() => at,
            _ => at + leading(self.rest(at)),
        }
    }

    /// Returns the position after the first occurrence of `needle` at or after `at`.
    fn find(&self, needle: u8, at: usize) -> Option<usize> {
        memchr(needle, self.bytes(at)).map(|length| at + length + 1)
    }

    /// Adds the text between two positions as a run, with references replaced.
    fn push_text(&mut self, start: usize, end: usize) {
        let run = strip(self.html.get(start..end).unwrap_or_default());
        if memchr(b'&', run.as_bytes()).is_none() {
            return self.push_raw(run);
        }
        let before = self.text.len();
        self.separate();
        let run_start = self.text.len();
        replace(run, &mut self.text);
        // A reference to a blank counts as white space.
        self.text.truncate(self.text.trim_end_matches(is_space).len().max(run_start));
        let blanks = leading(self.text.get(run_start..).unwrap_or_default());
        self.text.drain(run_start..run_start + blanks);
        if self.text.len() == run_start {
            self.text.truncate(before);
        }
    }

    /// Adds `run` unchanged.
    fn push_raw(&mut self, run: &str) {
        let run = strip(run);
        if !run.is_empty() {
            self.separate();
            self.text.push_str(run);
        }
    }

    /// Separates two runs with a blank.
    fn separate(&mut self) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
    }

    /// Returns the end of the markup that starts at `open`, or `None` if it is unfinished.
    fn markup(&mut self, open: usize) -> Option<usize> {
        match self.bytes(open + 1) {
            [b'a'..=b'z' | b'A'..=b'Z', ..] => self.start_tag(open),
            [b'/' | b'?', ..] => self.find(b'>', open + 2),
            [b'!', b'-', b'-', ..] => self.after_closing(b"--", open + 4, |at| self.closing_bracket(at)),
            [b'!', b'[', ..] => self.marked_section(open + 3),
            [b'!', word @ ..] => {
                let is_doctype = word.get(..7).is_some_and(|word| word.eq_ignore_ascii_case(b"doctype"));
                self.find(b'>', if is_doctype { open + 9 } else { open + 2 })
            }
            [] => None,
            _ => {
                self.push_raw("<");
                Some(open + 1)
            }
        }
    }

    /// Returns the end of a marked section, whose keyword begins at `word`.
    fn marked_section(&self, word: usize) -> Option<usize> {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let length = self.bytes(word).iter().take_while(|byte| is_name(byte)).count();
        let name = self.html.get(word..word + length)?;
        if self.skip_space(word + length) == self.html.len() {
            return None;
        }
        let is_one_of = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        if is_one_of(&SECTIONS) {
            self.after_closing(b"]", word, |at| {
                let second = self.skip_space(at);
                (self.byte(second) == Some(b']')).then(|| self.closing_bracket(second + 1)).flatten()
            })
        } else if is_one_of(&CONDITIONS) {
            self.after_closing(b"]", word, |at| self.closing_bracket(at))
        } else {
            None
        }
    }

    /// Searches for the bytes `start` at or after `at`. Calls `rest` with the position after each occurrence, and
    /// returns the first result that is not `None`.
    fn after_closing(&self, start: &[u8], at: usize, rest: impl Fn(usize) -> Option<usize>) -> Option<usize> {
        let mut at = at;
        loop {
            at += memchr(*start.first()?, self.bytes(at))?;
            if self.bytes(at).starts_with(start)
                && let Some(end) = rest(at + start.len())
            {
                return Some(end);
            }
            at += 1;
        }
    }

    /// Returns the position after a `>`, which may be preceded by white space.
    fn closing_bracket(&self, at: usize) -> Option<usize> {
        let at = self.skip_space(at);
        (self.byte(at) == Some(b'>')).then_some(at + 1)
    }

    /// Returns the end of a start tag, or the end of the element if its content is hidden.
    fn start_tag(&mut self, open: usize) -> Option<usize> {
        let name_end =
            self.end_of(open + 1, |byte| matches!(byte, b'\t' | b'\n' | b'\r' | b'\x0c' | b' ' | b'/' | b'>' | 0));
        let mut at = name_end;
        loop {
            at = self.skip_space(at);
            if self.byte(at) != Some(b'/') {
                break;
            }
            at += 1;
        }
        let mut is_closed = at > name_end && self.byte(at - 1) == Some(b'/');
        while let Some(next) = self.attribute(at) {
            at = next;
            is_closed = false;
        }
        match (self.byte(at)?, self.byte(at + 1)) {
            (b'>', _) => at += 1,
            (b'/', Some(b'>')) => {
                at += 2;
                is_closed = true;
            }
            (b'/' | b'=' | b'a'..=b'z' | b'A'..=b'Z', _) => return None,
            _ => {
                self.push_raw(self.html.get(open..at)?);
                return Some(at);
            }
        }
        let name = self.html.get(open + 1..name_end)?;
        match HIDDEN_ELEMENTS.iter().find(|hidden| hidden.eq_ignore_ascii_case(name)) {
            Some(element) if !is_closed => self.after_end_tag(element, at),
            _ => Some(at),
        }
    }

    /// Returns the position after the end tag of a hidden element.
    fn after_end_tag(&self, element: &str, at: usize) -> Option<usize> {
        self.after_closing(b"</", at, |at| {
            let name = self.skip_space(at);
            let end = name + element.len();
            let is_name = self.html.get(name..end).is_some_and(|name| name.eq_ignore_ascii_case(element));
            is_name.then(|| self.closing_bracket(end)).flatten()
        })
    }

    /// Returns the end of the attribute at `at`, including the separator after it, or `None` if there is no attribute.
    fn attribute(&self, at: usize) -> Option<usize> {
        let before = self.html.get(..at)?.chars().next_back()?;
        let first = self.rest(at).chars().next()?;
        if !(matches!(before, '\'' | '"' | '/') || is_space(before)) || matches!(first, '/' | '>') || is_space(first) {
            return None;
        }
        let name_end = self.end_of_word(at + first.len_utf8(), |byte| matches!(byte, b'/' | b'=' | b'>'));
        let mut end = self.value(name_end).unwrap_or(name_end);
        loop {
            end = self.skip_space(end);
            if self.byte(end) != Some(b'/') || self.byte(end + 1) == Some(b'>') {
                return Some(end);
            }
            end += 1;
        }
    }

    /// Returns the end of the value of an attribute whose name ends at `at`, or `None` if the attribute has no value.
    /// The meaning of a quote that is never closed depends on what precedes it. After white space, the quote begins the
    /// name of the next attribute. After a second `=`, it is part of the value. Otherwise, the attribute has no value.
    fn value(&self, at: usize) -> Option<usize> {
        let first_equals = self.skip_space(at);
        let after_equals = self.end_of(first_equals, |byte| byte != b'=');
        if after_equals == first_equals {
            return None;
        }
        let value = self.skip_space(after_equals);
        match self.byte(value) {
            Some(quote @ (b'"' | b'\'')) => self.find(quote, value + 1).or_else(|| {
                if value > after_equals {
                    Some(value)
                } else {
                    (after_equals > first_equals + 1).then(|| self.end_of_bare_value(after_equals - 1))
                }
            }),
            _ => Some(self.end_of_bare_value(value)),
        }
    }

    fn end_of_bare_value(&self, at: usize) -> usize {
        self.end_of_word(at, |byte| byte == b'>')
    }

    /// Returns the first position at or after `at` with white space or a byte matching `ends`.
    fn end_of_word(&self, at: usize, ends: impl Fn(u8) -> bool) -> usize {
        let mut at = at;
        loop {
            at = self.end_of(at, |byte| ends(byte) || !byte.is_ascii_graphic());
            match self.rest(at).chars().next() {
                Some(character) if !is_space(character) && !character.is_ascii_graphic() => at += character.len_utf8(),
                _ => return at,
            }
        }
    }

    /// Returns the first position at or after `at` whose byte matches `ends`, or the end of the text.
    fn end_of(&self, at: usize, ends: impl Fn(u8) -> bool) -> usize {
        let rest = self.bytes(at);
        at + rest.iter().position(|&byte| ends(byte)).unwrap_or(rest.len())
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn text_is_what_lies_between_tags() {
        for (html, expected) in [
            ("<p>one</p> <b>two</b>&amp; three ", "one two & three"),
            ("a<script>b</x>c</ SCRIPT >d<style/>e", "a d e"),
            ("a<!-- b > --  >c<!doctype d>e<?f>g<!h>i</>j", "a c e g i j"),
            ("a<![if b]>c<![endif]>d<![CDATA[e]]>f", "a c d f"),
            ("a<b c='>' d=\">\" e=f/>g", "a g"),
            ("1 < 2 << 3", "1 < 2 < < 3"),
            ("a&nbsp;<b>&nbsp;</b> c", "a c"),
            ("a <b\0c>d", "a <b \0c>d"),
        ] {
            assert_eq!(text(html), expected, "{html}");
        }
    }

    #[test]
    fn unfinished_markup_is_dropped() {
        for html in ["a<b c", "a<!-- b", "a<script>b</b>", "a<b c=\"d>e", "a</b", "a<![if b", "a<![b]>c", "a<", "a<!b"]
        {
            assert_eq!(text(html), "a", "{html}");
        }
        assert_eq!(text("a<b>c &am"), "a");
        assert_eq!(text("a<b>c & am"), "a c & am");
    }

    #[test]
    fn quotes_never_closed_are_read_three_ways() {
        assert_eq!(text("a<b c= \"d e>f"), "a f");
        assert_eq!(text("a<b c==\"d e>f"), "a f");
        assert_eq!(text("a<b c =\"d e>f"), "a f");
        assert_eq!(text("a<b c=\"d e>f"), "a");
    }
}
