//! Seven-bit character sets with escape sequences.

use super::decode::Text;
use super::tables::Pairs;
use super::two_byte::{TwoByte, supplement};

/// Maximum length of an escape sequence.
const ESCAPE_BYTES_MAX: usize = 16;
const ESCAPE: u8 = 0x1b;
const SHIFT_OUT: u8 = 0x0e;
const SHIFT_IN: u8 = 0x0f;

/// A variant of ISO 2022.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Iso2022 {
    Japanese,
    /// ISO-2022-JP with JIS X 0212.
    Japanese1,
    /// ISO-2022-KR, which has shifts.
    Korean,
}

/// The meaning of bytes until the next escape sequence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Ascii,
    JisRoman,
    JisX0208,
    JisX0212,
    KsX1001,
}

/// Decodes HZ, i.e. pairs of GB 2312 without their high bits, between `~{` and `~}`.
pub(super) fn hz(bytes: &[u8], text: &mut Text) {
    let pairs = TwoByte::Gb2312.pairs();
    let mut is_chinese = false;
    let mut rest = bytes;
    while let [byte, ..] = rest {
        let length = match (is_chinese, rest) {
            (false, [b'~', b'~', ..]) => {
                text.push(Some('~'));
                2
            }
            (false, [b'~', b'\n', ..]) => 2,
            (false, [b'~', b'{', ..]) | (true, [b'~', b'}', ..]) => {
                is_chinese = !is_chinese;
                2
            }
            (_, [b'~' | 0x80.., ..]) => {
                text.push(None);
                1
            }
            (false, _) => {
                text.push(Some(char::from(*byte)));
                1
            }
            (true, _) => {
                let character = pair(pairs, rest);
                text.push(character);
                character.map_or(1, |_| 2)
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
}

/// Returns the character encoded by a pair of seven-bit bytes.
fn pair(pairs: &Pairs, rest: &[u8]) -> Option<char> {
    match rest {
        [first @ ..0x80, second @ ..0x80, ..] => pairs.get(first | 0x80, second | 0x80),
        _ => None,
    }
}

/// Decodes a variant of ISO 2022.
pub(super) fn iso_2022(bytes: &[u8], set: Iso2022, text: &mut Text) {
    let mut state = State { set, meanings: [Meaning::Ascii; 2], is_shifted: false, is_passing: false };
    let mut rest = bytes;
    while let [byte, ..] = rest {
        let length = state.step(*byte, rest, text);
        rest = rest.get(length..).unwrap_or_default();
    }
}

/// State of an ISO 2022 decoder.
struct State {
    set: Iso2022,
    /// Meanings of unshifted and of shifted bytes.
    meanings: [Meaning; 2],
    is_shifted: bool,
    /// True within an unknown escape sequence, which is treated as text.
    is_passing: bool,
}

impl State {
    /// Decodes the next item and returns its length in bytes.
    fn step(&mut self, byte: u8, rest: &[u8], text: &mut Text) -> usize {
        if self.is_passing {
            self.is_passing = !ends_escape(byte);
            text.push(Some(char::from(byte)));
            return 1;
        }
        match (byte, rest) {
            (ESCAPE, [_]) => {
                text.push(None);
                1
            }
            (ESCAPE, [_, b'(' | b')' | b'$' | b'.' | b'&', ..]) => self.escape(rest, text),
            (ESCAPE, _) => {
                self.is_passing = true;
                text.push(Some(char::from(byte)));
                1
            }
            (SHIFT_IN | SHIFT_OUT, _) if self.set == Iso2022::Korean => {
                self.is_shifted = byte == SHIFT_OUT;
                1
            }
            (0x80.., _) => {
                text.push(None);
                1
            }
            _ => self.character(byte, rest, text),
        }
    }

    /// Decodes one character.
    fn character(&mut self, byte: u8, rest: &[u8], text: &mut Text) -> usize {
        if byte == b'\n' {
            self.is_shifted = false;
        }
        let [unshifted, shifted] = self.meanings;
        let pairs = match if self.is_shifted { shifted } else { unshifted } {
            Meaning::JisX0208 if byte >= b' ' => TwoByte::EucJp.pairs(),
            Meaning::JisX0212 if byte >= b' ' => supplement(),
            Meaning::KsX1001 if byte >= b' ' => TwoByte::EucKr.pairs(),
            Meaning::JisRoman if byte == b'\\' => return alone('¥', text),
            Meaning::JisRoman if byte == b'~' => return alone('\u{203e}', text),
            _ => return alone(char::from(byte), text),
        };
        text.push(pair(pairs, rest));
        2
    }

    /// Processes an escape sequence.
    fn escape(&mut self, rest: &[u8], text: &mut Text) -> usize {
        let length = match escape_length(rest, self.set) {
            Ok(length) => length,
            Err(length) => {
                text.push(None);
                return length;
            }
        };
        let [unshifted, shifted] = &mut self.meanings;
        match (self.set, rest.get(1..length).unwrap_or_default()) {
            (_, b"(B") => *unshifted = Meaning::Ascii,
            (_, b")B") => *shifted = Meaning::Ascii,
            (Iso2022::Japanese | Iso2022::Japanese1, b"(J") => *unshifted = Meaning::JisRoman,
            (Iso2022::Japanese | Iso2022::Japanese1, b")J") => *shifted = Meaning::JisRoman,
            (Iso2022::Japanese | Iso2022::Japanese1, b"$@" | b"$B" | b"$(@" | b"$(B") => *unshifted = Meaning::JisX0208,
            // JIS X 0208, after an escape sequence that announces any revision of it.
            (Iso2022::Japanese | Iso2022::Japanese1, [_, _, ESCAPE, b'$', b'B']) => *unshifted = Meaning::JisX0208,
            (Iso2022::Japanese1, b"$D" | b"$(D") => *unshifted = Meaning::JisX0212,
            (Iso2022::Korean, b"$C" | b"$(C") => *unshifted = Meaning::KsX1001,
            (Iso2022::Korean, b"$)C") => *shifted = Meaning::KsX1001,
            // Japanese text never uses the shifted meaning, so it need not be set.
            (Iso2022::Japanese | Iso2022::Japanese1, b"$)@" | b"$)B") | (Iso2022::Japanese1, b"$)D") => {}
            _ => text.push(None),
        }
        length
    }
}

/// Appends a single-byte character.
fn alone(character: char, text: &mut Text) -> usize {
    text.push(Some(character));
    1
}

/// Returns the length of the escape sequence at the start of `rest`. If the sequence is unfinished, returns the length
/// of the error instead. Only Japanese sequences may contain `&@`.
fn escape_length(rest: &[u8], set: Iso2022) -> Result<usize, usize> {
    let mut at = 1;
    while at < ESCAPE_BYTES_MAX {
        let after = rest.get(at..).unwrap_or_default();
        match after.first() {
            None => return Err(rest.len()),
            Some(&byte) if ends_escape(byte) => return Ok(at + 1),
            Some(_) => at += if set != Iso2022::Korean && after.starts_with(b"&@") { 3 } else { 1 },
        }
    }
    Err(1)
}

/// Returns true if `byte` ends an escape sequence.
fn ends_escape(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte == b'@'
}
