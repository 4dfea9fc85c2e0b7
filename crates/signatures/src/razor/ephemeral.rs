//! Engine 4: SHA-1 of two sections of a text, at positions drawn from the server's seed.
//!
//! All arithmetic uses doubles and the client's order of operations, because rounding can move a section by a byte.

use memchr::memmem;
use sha1::{Digest, Sha1};

use super::ep4::Ep4;
use super::signature::E4Signature;
use super::text::{head, is_blank, is_false, tail};

/// Number of line numbers drawn. One section is between the second and the third of them, the other between the fourth
/// and the fifth.
const PLACES: u8 = 6;

/// If the total length of the two sections is at most this number of bytes, the whole text is signed instead.
const SECTIONS_BYTES_MIN: usize = 128;

/// Returns the e4 signature of `text`.
pub(super) fn sign(text: &[u8], ep4: &Ep4) -> E4Signature {
    let lines = TextLines::new(text, ep4.separator());
    let mut random = Drand48::new(ep4.seed());
    let [_, first, second, third, fourth, _] = line_numbers(&mut random, lines.0.len());
    let offsets = [percentages(&mut random), percentages(&mut random)];
    let [one, two] = [(first, second, offsets[0]), (third, fourth, offsets[1])]
        .map(|(start, end, offsets)| lines.section(start, end, offsets));
    let is_enough = one.len() + two.len() > SECTIONS_BYTES_MIN;
    let is_nothing = [&one, &two].iter().all(|section| !section.is_empty() && is_blank(section));
    E4Signature(match (is_enough, is_nothing) {
        (true, true) => sha1(&[]),
        (true, false) => sha1(&[&one, &two]),
        (false, _) => sha1(&[text]),
    })
}

fn sha1(pieces: &[&[u8]]) -> [u8; 20] {
    let hash = pieces.iter().fold(Sha1::new(), |hash, piece| hash.chain_update(piece));
    hash.finalize().into()
}

/// Draws six line numbers for a text of `count` lines, one in each sixth of the text.
fn line_numbers(random: &mut Drand48, count: usize) -> [usize; PLACES as usize] {
    let width = 100.0 / f64::from(PLACES);
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0].map(|place| {
        let percentage = random.below(width) + place * width;
        portion(percentage, count)
    })
}

/// Draws a section within a range of lines. Its start is in the first half, its end in the second.
fn percentages(random: &mut Drand48) -> [f64; 2] {
    [0.0, 1.0].map(|half| random.below(50.0) + half * 50.0)
}

/// Returns `percentage` per cent of `whole`, rounded down.
fn portion(percentage: f64, whole: usize) -> usize {
    (percentage * whole as f64 / 100.0) as usize
}

/// A text split at its separator, without empty lines at the end.
struct TextLines<'a>(Vec<&'a [u8]>);

impl<'a> TextLines<'a> {
    fn new(text: &'a [u8], separator: &[u8]) -> Self {
        let mut lines = Vec::new();
        let mut start = 0;
        for end in memmem::find_iter(text, separator) {
            lines.push(tail(head(text, end), start));
            start = end + separator.len();
        }
        lines.push(tail(text, start));
        let count = lines.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
        lines.truncate(count);
        Self(lines)
    }

    /// Returns the line with this number, or an empty line if it is missing.
    fn line(&self, number: usize) -> &'a [u8] {
        self.0.get(number).copied().unwrap_or_default()
    }

    /// Returns the numbers and lengths of the lines from `start` to `end`, except those that are false in Perl, i.e.
    /// empty or `0`.
    fn lengths(&self, start: usize, end: usize) -> impl Iterator<Item = (usize, usize)> {
        (start..=end)
            .map(|number| (number, self.line(number)))
            .filter(|(_, line)| !is_false(line))
            .map(|(number, line)| (number, line.len()))
    }

    /// Returns the section of the lines from `start` to `end` that is between two percentages of their total length.
    /// Separators do not count.
    fn section(&self, start: usize, end: usize, percentages: [f64; 2]) -> Vec<u8> {
        let length = self.lengths(start, end).map(|(_, length)| length).sum();
        let [from, to] = percentages.map(|percentage| portion(percentage, length));
        let [from, to] = self.places(start, end, from, to);
        if from.line != to.line {
            self.between(from, to)
        } else if is_false(self.line(from.line)) {
            Vec::new()
        } else {
            substring(self.line(from.line), from.column, to.column as i64 - from.column as i64 + 1).to_vec()
        }
    }

    /// Returns the start and end of the section from offset `from` to offset `to`.
    ///
    /// If an offset is at the very start of a line, the client does not stop at column 0 of that line. It goes on to
    /// the next line, where the column would be negative, and uses the start of that next line.
    fn places(&self, start: usize, end: usize, from: usize, to: usize) -> [Place; 2] {
        let mut places = [Place::default(), Place::default()];
        let (mut found_from, mut found_to) = (false, false);
        let mut passed = 0;
        for (line, length) in self.lengths(start, end) {
            let [place_from, place_to] = &mut places;
            if passed + length > from && !found_from {
                *place_from = Place { line, column: from.saturating_sub(passed) };
                found_from = from != passed;
            }
            if passed + length > to {
                *place_to = Place { line, column: to.saturating_sub(passed) };
                found_to = to != passed;
            }
            if found_to {
                break;
            }
            passed += length;
        }
        places
    }

    /// Returns the text from `from` to `to`, which is on a later line. If the end was not found, returns only the rest
    /// of the line that contains `from`.
    fn between(&self, from: Place, to: Place) -> Vec<u8> {
        let mut text = tail(self.line(from.line), from.column).to_vec();
        for number in from.line + 1..to.line {
            text.extend_from_slice(self.line(number));
        }
        text.extend_from_slice(head(self.line(to.line), to.column));
        text
    }
}

/// A position in a line.
#[derive(Clone, Copy, Default)]
struct Place {
    line: usize,
    column: usize,
}

/// Perl's `substr`. A negative count omits that many bytes at the end.
fn substring(text: &[u8], start: usize, count: i64) -> &[u8] {
    let text = tail(text, start);
    let length = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    head(text, if count < 0 { text.len().saturating_sub(length) } else { length })
}

/// The POSIX drand48 generator, a linear congruential generator with 48 bits.
pub(super) struct Drand48(u64);

impl Drand48 {
    const MASK: u64 = (1 << 48) - 1;

    pub(super) fn new(seed: u32) -> Self {
        Self((u64::from(seed) << 16) + 0x330E)
    }

    /// Returns the next random number, at least 0 and less than `limit`.
    pub(super) fn below(&mut self, limit: f64) -> f64 {
        self.0 = self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & Self::MASK;
        limit * (self.0 as f64 / (1u64 << 48) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_the_last_that_is_not_empty() {
        let lines = |text: &'static str| TextLines::new(text.as_bytes(), b"\n").0.len();
        assert_eq!([lines(""), lines("\n\n"), lines("a"), lines("\na\n\n"), lines("a\n\nb")], [0, 0, 1, 2, 3]);
        assert_eq!(TextLines::new(b"a\r\nb\rc", b"\r\n").0, [&b"a"[..], b"b\rc"]);
    }

    #[test]
    fn a_negative_count_leaves_bytes_off_the_end() {
        assert_eq!(substring(b"abcdef", 2, 3), b"cde");
        assert_eq!(substring(b"abcdef", 2, 30), b"cdef");
        assert_eq!(substring(b"abcdef", 2, 0), b"");
        assert_eq!(substring(b"abcdef", 2, -1), b"cde");
        assert_eq!(substring(b"abcdef", 2, -9), b"");
    }

    #[test]
    fn a_short_text_is_signed_whole() {
        let seeds = ["7542-10", "9911-10"].map(|ep4| sign(b"short\ntext", &ep4.parse().unwrap()));
        assert_eq!(seeds, [E4Signature(sha1(&[b"short\ntext"])); 2]);
        assert_eq!(sign(b"", &Ep4::default()), E4Signature(sha1(&[])));
    }
}
