//! From text to the lines that count.
//!
//! A line loses, in this order, every run of [`RUN_CHARACTERS_MAX`] or more characters without white space, every run with
//! an `@` inside, the rest of a run from `letters:` on, and its white space. As nothing removed ever joins two runs, one
//! look at each run does all four. What keeps fewer than [`LINE_CHARACTERS_MIN`] characters is no line.

use std::borrow::Cow;

use super::Version;
use super::space::{is_line_end, is_space};

/// A run of this many characters looks like something that only one recipient got.
const RUN_CHARACTERS_MAX: usize = 10;
/// A shorter line says too little.
const LINE_CHARACTERS_MIN: usize = 8;
/// Up to this many lines all count.
const ATOMIC_LINES_MAX: usize = 4;
/// Of more lines, those from these percentages on count ...
const PIECE_PERCENTAGES: [usize; 2] = [20, 60];
/// ... this many from each.
const PIECE_LINES: usize = 3;

/// The usable lines of a message so far, one after the other.
pub(super) struct Lines {
    version: Version,
    /// All lines without anything between them.
    text: String,
    /// Where in `text` each line ends.
    ends: Vec<usize>,
    /// How many characters of `text` belong to the line that has no end yet.
    characters: usize,
}

impl Lines {
    /// No lines yet.
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

    /// The lines that count. Where two pieces overlap, a line counts twice.
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

    /// One line, counted from 0.
    fn line(&self, index: usize) -> Option<&str> {
        let start = index.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.text.get(start..*self.ends.get(index)?)
    }

    /// Cuts `text` at its white space and takes what lies between.
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

    /// Takes what a run keeps.
    fn end_run(&mut self, text: &str, run: &Run, end: usize, marks: &mut Marks<'_>) {
        if run.characters == 0 || run.characters >= RUN_CHARACTERS_MAX {
            return;
        }
        let Some(whole) = text.get(run.start..end) else { return };
        // Most runs are neither address nor link.
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

/// Characters without white space between them, as far as seen.
struct Run {
    start: usize,
    characters: usize,
}

/// The characters of a text that make addresses and links.
struct Marks<'a> {
    text: &'a [u8],
    /// Where the next of them is, from where we last asked.
    next: usize,
}

impl<'a> Marks<'a> {
    fn new(text: &'a str) -> Self {
        let mut marks = Self { text: text.as_bytes(), next: 0 };
        marks.find(0);
        marks
    }

    /// Where the first of them from `start` on is, or the end; `start` may only grow.
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

/// How many bytes from the start on are ASCII and neither white space nor control characters. Eight are looked at in one
/// step, as this is where the time of a digest goes.
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

/// Marks the top bit of the lowest byte that is at most a blank or not ASCII, and perhaps of some above it.
fn others(word: u64) -> u64 {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    const TOP: u64 = EACH << 7;
    (word.wrapping_sub(EACH * b'!' as u64) | word) & TOP
}

/// What a short run keeps: nothing if it looks like an address, what comes before it if it has a link.
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

/// Whether Python's `[a-z]` without regard to case takes `character`: ASCII letters, and four that Unicode makes equal to
/// one of them.
fn is_letter(character: char) -> bool {
    character.is_ascii_alphabetic() || matches!(character, '\u{130}' | '\u{131}' | '\u{17f}' | '\u{212a}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The usable lines of a text.
    fn lines(text: &str, version: Version) -> Vec<String> {
        let mut lines = Lines::new(version);
        lines.add(text);
        (0..lines.ends.len()).map(|index| lines.line(index).unwrap().to_owned()).collect()
    }

    #[test]
    fn long_runs_addresses_and_links_go() {
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
