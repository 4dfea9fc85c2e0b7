//! The Fuz1 checksum. It covers the letters of a text, without the parts that change from copy to copy.

use super::body::sift;
use super::fields::lines;
use super::links;

/// Maximum number of letters. The rest of a message is ignored.
const LETTERS_MAX: usize = 4096;

/// Minimum number of letters for a checksum.
const LETTERS_MIN: usize = 30;

/// Beginnings of greetings and dates. A line that begins like this and has only a few letters is skipped.
const GREETINGS: [&[u8]; 4] = [b"dear", b"hello", b"greeting", b"date"];
/// Maximum number of letters of a line that is skipped because of its beginning.
const GREETING_LETTERS_MAX: usize = 78;

/// The letters that Fuz1 hashes, as far as they have been read.
#[derive(Default)]
pub(super) struct Letters(Vec<u8>);

impl Letters {
    /// Adds the letters of the content of one part.
    pub(super) fn add(&mut self, content: &[u8]) {
        for line in lines(content) {
            if self.0.len() >= LETTERS_MAX {
                return;
            }
            self.add_line(line);
        }
    }

    /// Returns all letters, or `None` if there are too few.
    pub(super) fn finish(&self) -> Option<&[u8]> {
        let letters = self.0.get(..LETTERS_MAX).unwrap_or(&self.0);
        (letters.len() >= LETTERS_MIN).then_some(letters)
    }

    /// Adds the letters of a line, unless it is a greeting. Adds only the parts of a link that [`links`] keeps.
    fn add_line(&mut self, line: &[u8]) {
        let start = self.0.len();
        let mut rest = line;
        while let Some((before, letters, behind)) = links::cut(rest).filter(|_| self.needs_more(start)) {
            self.add_plain(before, start);
            self.0.extend(letters);
            rest = behind;
        }
        self.add_plain(rest, start);
        if self.0.get(start..).is_some_and(is_greeting) {
            self.0.truncate(start);
        }
    }

    /// Adds the letters of a text without links. The text is part of a line whose letters begin at `start`.
    fn add_plain(&mut self, text: &[u8], start: usize) {
        for chunk in text.chunks(LETTERS_MAX) {
            if self.needs_more(start) {
                let end = self.0.len();
                self.0.resize(end + chunk.len(), 0);
                let length = self.0.get_mut(end..).map_or(0, |room| sift(chunk, room, u8::is_ascii_alphabetic));
                self.0.truncate(end + length);
                self.0.get_mut(end..).unwrap_or_default().make_ascii_lowercase();
            }
        }
    }

    /// Returns true if more letters could change the result. The letters of the current line begin at `start`.
    fn needs_more(&self, start: usize) -> bool {
        self.0.len() < LETTERS_MAX || self.0.len() - start <= GREETING_LETTERS_MAX
    }
}

fn is_greeting(letters: &[u8]) -> bool {
    letters.len() <= GREETING_LETTERS_MAX && GREETINGS.iter().any(|greeting| letters.starts_with(greeting))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters_of(text: &str) -> Option<String> {
        let mut letters = Letters::default();
        letters.add(text.as_bytes());
        letters.finish().map(|letters| String::from_utf8(letters.to_vec()).unwrap())
    }

    #[test]
    fn only_letters_count_in_small() {
        assert_eq!(
            letters_of("The 1st offer, 50% OFF; caf\u{e9}! Do not miss it today."),
            Some("thestofferoffcafdonotmissittoday".into())
        );
    }

    #[test]
    fn greetings_are_skipped_even_at_the_start() {
        let text = "and then a text of enough letters";
        let letters = Some("andthenatextofenoughletters".to_owned() + "xyz");
        for greeting in ["Dear Sir,", " * hello!", "Greetings", "Date: today"] {
            assert_eq!(letters_of(&format!("{greeting}\n{text}\nxyz")), letters, "{greeting}");
        }
        let longest = format!("dear{}", "x".repeat(GREETING_LETTERS_MAX - 4));
        assert_eq!(letters_of(&longest), None);
        assert_eq!(letters_of(&format!("{longest}y")), Some(format!("{longest}y")));
    }

    #[test]
    fn a_line_at_the_bound_is_read_as_far_as_tells_a_greeting() {
        let before = "a".repeat(LETTERS_MAX - 4);
        let longest = format!("dear{}", "x".repeat(GREETING_LETTERS_MAX - 4));
        assert_eq!(letters_of(&format!("{before}\n{longest}\nabcd")), Some(format!("{before}abcd")));
        assert_eq!(letters_of(&format!("{before}\n{longest}y\nabcd")), Some(format!("{before}dear")));
    }

    #[test]
    fn letters_have_bounds() {
        assert_eq!(letters_of(&"a".repeat(LETTERS_MIN - 1)), None);
        assert!(letters_of(&"a".repeat(LETTERS_MIN)).is_some());
        for text in ["a".repeat(LETTERS_MAX + 1), "abc\n".repeat(1_000_000), "http://a.b.c ".repeat(300_000)] {
            assert_eq!(letters_of(&text).map(|letters| letters.len()), Some(LETTERS_MAX));
        }
    }
}
