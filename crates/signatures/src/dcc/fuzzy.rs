//! Fuz1: the letters of a text, without what changes from one copy to the next.

use super::content::Segment;
use super::links;

/// So many letters are enough; the rest of a message does not count.
const LETTERS_MAX: usize = 4096;

/// With fewer letters there is no checksum.
const LETTERS_MIN: usize = 30;

/// A line that begins so and has at most so many letters is a greeting or a date, and is left out.
const GREETINGS: [&[u8]; 4] = [b"dear", b"hello", b"greeting", b"date"];
const GREETING_LETTERS_MAX: usize = 78;

/// The letters that Fuz1 is the MD5 of, unless there are too few.
pub(super) fn letters(segments: &[Segment<'_>]) -> Option<Vec<u8>> {
    let mut letters = Vec::new();
    let contents = segments.iter().filter(|segment| matches!(segment, Segment::Content(_)));
    for line in contents.flat_map(|content| content.bytes().split(|&byte| byte == b'\n')) {
        if letters.len() >= LETTERS_MAX {
            break;
        }
        let line = letters_of_line(line);
        if !is_greeting(&line) {
            letters.extend(line);
        }
    }
    letters.truncate(LETTERS_MAX);
    (letters.len() >= LETTERS_MIN).then_some(letters)
}

fn is_greeting(letters: &[u8]) -> bool {
    letters.len() <= GREETING_LETTERS_MAX && GREETINGS.iter().any(|greeting| letters.starts_with(greeting))
}

/// The letters of a line in small, of links only what [`links`] keeps. Letters beyond those that can count may be missing.
fn letters_of_line(line: &[u8]) -> Vec<u8> {
    let mut letters = Vec::new();
    let mut rest = line;
    while let Some((&byte, behind)) = rest.split_first().filter(|_| letters.len() < LETTERS_MAX) {
        if let Some((link, behind)) = links::at_start(rest) {
            letters.extend(link);
            rest = behind;
        } else {
            letters.extend(Some(byte.to_ascii_lowercase()).filter(u8::is_ascii_lowercase));
            rest = behind;
        }
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters_of(text: &str) -> Option<String> {
        letters(&[Segment::Content(text.as_bytes().into())]).map(|letters| String::from_utf8(letters).unwrap())
    }

    #[test]
    fn only_letters_count_in_small() {
        assert_eq!(
            letters_of("The 1st offer, 50% OFF; caf\u{e9}! Do not miss it today."),
            Some("thestofferoffcafdonotmissittoday".into())
        );
    }

    #[test]
    fn greetings_are_left_out_even_at_the_start() {
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
    fn letters_have_bounds() {
        assert_eq!(letters_of(&"a".repeat(LETTERS_MIN - 1)), None);
        assert!(letters_of(&"a".repeat(LETTERS_MIN)).is_some());
        for text in ["a".repeat(LETTERS_MAX + 1), "abc\n".repeat(1_000_000), "http://a.b.c ".repeat(300_000)] {
            assert_eq!(letters_of(&text).map(|letters| letters.len()), Some(LETTERS_MAX));
        }
    }
}
