//! Selection of the lines that are hashed.
//!
//! A run is a sequence of characters without white space. Four things are removed from each line, in this order: runs
//! of [`RUN_CHARACTERS_MAX`] or more characters, runs that contain an `@`, letters followed by a colon (together with
//! the rest of their run), and white space. No removal joins two runs, so a single pass over each run performs all
//! four. A line with fewer than [`LINE_CHARACTERS_MIN`] characters left is dropped.

use std::borrow::Cow;

use super::Version;
use super::space::{is_line_end, is_space};

/// Minimum length of a run that is removed because it is probably unique to one recipient.
const RUN_CHARACTERS_MAX: usize = 10;
/// Minimum length of a line. Shorter lines are not specific enough.
const LINE_CHARACTERS_MIN: usize = 8;
/// Maximum number of usable lines in a message that is hashed completely. Of a longer message, only two pieces are
/// hashed.
const ATOMIC_LINES_MAX: usize = 4;
/// Start positions of the pieces that are hashed if a message has more than [`ATOMIC_LINES_MAX`] lines, in per cent of
/// all lines.
const PIECE_PERCENTAGES: [usize; 2] = [20, 60];
/// Number of lines in each piece.
const PIECE_LINES: usize = 3;

/// The usable lines of a message so far, concatenated.
pub(super) struct Lines {
    version: Version,
    /// All lines, without separators.
    text: String,
    /// End of each line in `text`.
    ends: Vec<usize>,
    /// Number of characters of `text` in the unfinished line.
    characters: usize,
}

impl Lines {
    /// Creates an empty list.
    pub(super) fn new(version: Version) -> Self {
        Self { version, text: String::new(), ends: Vec::new(), characters: 0 }
    }

    /// Adds the usable lines of one leaf.
    pub(super) fn add(&mut self, text: &str) {
        let text = match self.version {
            Version::V1_1 if memchr::memchr(0, text.as_bytes()).is_some() => Cow::Owned(text.replace('\0', "")),
            Version::V1_0 | Version::V1_1 => Cow::Borrowed(text),
        };
        self.add_runs(&text);
        self.end_line();
    }

    /// Returns the selected lines. Where two pieces overlap, a line is repeated.
    pub(super) fn chosen(&self) -> impl Iterator<Item = &str> {
        let count = self.ends.len();
        let pieces = match count {
            ..=ATOMIC_LINES_MAX => [0..count, 0..0],
            _ => PIECE_PERCENTAGES.map(|percentage| {
                let first = percentage * count / 100;
                first..count.min(first + PIECE_LINES)
            }),
        };
        pieces.into_iter().flatten().filter_map(|index| self.line(index))
    }

    /// Returns a line, counted from 0.
    fn line(&self, index: usize) -> Option<&str> {
        let start = index.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.text.get(start..*self.ends.get(index)?)
    }

    /// Splits `text` at white space and adds the runs.
    fn add_runs(&mut self, text: &str) {
        let mut run = Run { start: 0, characters: 0 };
        let mut marks = Marks::new(text);
        let mut at = 0;
        loop {
            let rest = text.get(at..).unwrap_or_default();
            let plain = plain_length(rest.as_bytes());
            run.characters += plain;
            at += plain;
            let Some(character) = text.get(at..).and_then(|rest| rest.chars().next()) else { break };
            let next = at + character.len_utf8();
            if is_space(character) {
                self.end_run(text, &run, at, &mut marks);
                if is_line_end(character) {
                    self.end_line();
                }
                run = Run { start: next, characters: 0 };
            } else {
                run.characters += 1;
            }
            at = next;
        }
        self.end_run(text, &run, at, &mut marks);
    }

    /// Adds the remainder of a run.
    fn end_run(&mut self, text: &str, run: &Run, end: usize, marks: &mut Marks<'_>) {
        if run.characters == 0 || run.characters >= RUN_CHARACTERS_MAX {
            return;
        }
        let Some(whole) = text.get(run.start..end) else { return };
        // Skip the search for most runs, because they contain no mark of an address or link.
        let kept = if marks.next_after(run.start) < end { kept(whole) } else { whole };
        self.text.push_str(kept);
        self.characters += if kept.len() == whole.len() { run.characters } else { kept.chars().count() };
    }

    /// Keeps the line that ends here if it is long enough.
    fn end_line(&mut self) {
        if self.characters >= LINE_CHARACTERS_MIN {
            self.ends.push(self.text.len());
        } else if self.characters > 0 {
            self.text.truncate(self.ends.last().copied().unwrap_or(0));
        }
        self.characters = 0;
    }
}

/// The scanned part of a run of characters without white space.
struct Run {
    start: usize,
    characters: usize,
}

/// Positions of the characters that mark addresses and links in a text.
struct Marks<'a> {
    text: &'a [u8],
    /// Position of the mark that the last query found.
    next: usize,
}

impl<'a> Marks<'a> {
    fn new(text: &'a str) -> Self {
        let mut marks = Self { text: text.as_bytes(), next: 0 };
        marks.find(0);
        marks
    }

    /// Returns the position of the first mark at or after `start`, or the end of the text. `start` must not decrease
    /// between calls.
    fn next_after(&mut self, start: usize) -> usize {
        if self.next < start {
            self.find(start);
        }
        self.next
    }

    fn find(&mut self, start: usize) {
        let rest = self.text.get(start..).unwrap_or_default();
        self.next = start + memchr::memchr2(b'@', b':', rest).unwrap_or(rest.len());
    }
}

/// Returns the number of leading bytes that are ASCII and above the blank, i.e. neither white space nor control
/// characters. Examines eight bytes per step, because a digest spends most of its time in this function.
fn plain_length(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let others = others(u64::from_le_bytes(*word));
        if others != 0 {
            return index * 8 + others.trailing_zeros() as usize / 8;
        }
    }
    let is_plain = |&&byte: &&u8| (b'!'..0x80).contains(&byte);
    words.len() * 8 + rest.iter().take_while(is_plain).count()
}

/// Returns a word with the top bit set in the lowest byte that [`plain_length`] does not count. The top bits of higher
/// bytes may be set, too.
fn others(word: u64) -> u64 {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    const TOP: u64 = EACH << 7;
    (word.wrapping_sub(EACH * b'!' as u64) | word) & TOP
}

/// Returns the part of a short run that is hashed. This is an empty string if the run looks like an address, and only
/// the part before a link if the run contains one.
fn kept(run: &str) -> &str {
    let bytes = run.as_bytes();
    let inside = bytes.get(1..bytes.len().saturating_sub(1)).unwrap_or_default();
    if inside.contains(&b'@') {
        return "";
    }
    for (before, _) in inside.iter().enumerate().filter(|&(_, &byte)| byte == b':') {
        let head = run.get(..=before).unwrap_or_default();
        let start = head.trim_end_matches(is_letter);
        if start.len() < head.len() {
            return start;
        }
    }
    run
}

/// Returns true if Python's case-insensitive `[a-z]` matches `character`: ASCII letters, and four characters that
/// Unicode folds to an ASCII letter.
fn is_letter(character: char) -> bool {
    character.is_ascii_alphabetic() || matches!(character, '\u{130}' | '\u{131}' | '\u{17f}' | '\u{212a}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the usable lines of a text.
    fn lines(text: &str, version: Version) -> Vec<String> {
        let mut lines = Lines::new(version);
        lines.add(text);
        (0..lines.ends.len()).map(|index| lines.line(index).unwrap().to_owned()).collect()
    }

    #[test]
    fn long_runs_addresses_and_links_are_removed() {
        for (line, kept) in [
            ("twelve words 1234567890 and an end", "twelvewordsandanend"),
            ("keeps 123456789 of nine", "keeps123456789ofnine"),
            ("write to a@b and @c and d@ now", "writetoand@candd@now"),
            ("see ab:c and (ab:c and ab: and :c", "seeand(andab:and:c"),
            ("see 1:c:d there", "see1:there"),
            ("seven ch", "sevench"),
        ] {
            let expected: Vec<&str> = if kept.len() < 8 { Vec::new() } else { vec![kept] };
            assert_eq!(lines(line, Version::V1_0), expected, "{line}");
        }
    }

    #[test]
    fn length_is_in_characters() {
        assert_eq!(lines("ä ö ü ß ä ö ü", Version::V1_0), [""; 0]);
        assert_eq!(lines("ä ö ü ß ä ö ü ß", Version::V1_0), ["äöüßäöüß"]);
    }

    #[test]
    fn unicode_ends_lines_and_separates_runs() {
        assert_eq!(lines("one two three\u{2028}four five six\u{85}x", Version::V1_0), ["onetwothree", "fourfivesix"]);
        assert_eq!(lines("one\u{a0}two\u{3000}three\u{1f}four", Version::V1_0), ["onetwothreefour"]);
    }

    #[test]
    fn only_version_1_1_drops_nul() {
        assert_eq!(lines("1234\x005678 90", Version::V1_0), ["1234\x00567890"]);
        assert_eq!(lines("1234\x005678 90", Version::V1_1), ["1234567890"]);
    }

    #[test]
    fn pieces_start_at_a_fifth_and_three_fifths() {
        let chosen = |count: usize| -> Vec<usize> {
            let mut all = Lines::new(Version::V1_0);
            all.add(&(0..count).map(|index| format!("line number {index:02}\n")).collect::<String>());
            all.chosen().map(|line| line.trim_start_matches("linenumber").parse().unwrap()).collect()
        };
        assert_eq!(chosen(4), [0, 1, 2, 3]);
        assert_eq!(chosen(5), [1, 2, 3, 3, 4]);
        assert_eq!(chosen(20), [4, 5, 6, 12, 13, 14]);
    }
}
