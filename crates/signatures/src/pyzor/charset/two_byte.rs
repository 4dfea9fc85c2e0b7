//! Character sets with one or two bytes per character, and a few with three or four.
//!
//! After a byte that does not begin a character, decoding resumes at the next byte, even if that byte would be the
//! second of a pair. If the text ends inside a character, the remaining bytes count as one error.

use std::sync::OnceLock;

use super::decode::Text;
use super::tables::{Pairs, jis_x_0212, pairs};

/// A character set, in the order of [`NAMES`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TwoByte {
    Gb2312,
    Gbk,
    Gb18030,
    Big5,
    Cp950,
    Big5Hkscs,
    EucKr,
    Cp949,
    ShiftJis,
    Cp932,
    EucJp,
}

/// Python's names of the sets.
const NAMES: [(&str, TwoByte); 11] = [
    ("gb2312", TwoByte::Gb2312),
    ("gbk", TwoByte::Gbk),
    ("gb18030", TwoByte::Gb18030),
    ("big5", TwoByte::Big5),
    ("cp950", TwoByte::Cp950),
    ("big5hkscs", TwoByte::Big5Hkscs),
    ("euc_kr", TwoByte::EucKr),
    ("cp949", TwoByte::Cp949),
    ("shift_jis", TwoByte::ShiftJis),
    ("cp932", TwoByte::Cp932),
    ("euc_jp", TwoByte::EucJp),
];

impl TwoByte {
    /// Returns the set with this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|&(_, set)| set)
    }

    /// Returns the pairs of the set, built on first use.
    pub(super) fn pairs(self) -> &'static Pairs {
        static PAIRS: [OnceLock<Pairs>; NAMES.len()] = [const { OnceLock::new() }; NAMES.len()];
        static NONE: OnceLock<Pairs> = OnceLock::new();
        let named = NAMES.iter().zip(&PAIRS).find(|((_, set), _)| *set == self);
        named.map_or_else(|| NONE.get_or_init(|| pairs("")), |((name, _), made)| made.get_or_init(|| pairs(name)))
    }
}

/// Returns JIS X 0212, built on first use.
pub(super) fn supplement() -> &'static Pairs {
    static PAIRS: OnceLock<Pairs> = OnceLock::new();
    PAIRS.get_or_init(jis_x_0212)
}

/// Decodes with a set.
pub(super) fn decode(bytes: &[u8], set: TwoByte, text: &mut Text) {
    let pairs = set.pairs();
    let mut rest = bytes;
    while let [first, ..] = rest {
        let (length, character) = if first.is_ascii() { (1, Some(char::from(*first))) } else { step(rest, set, pairs) };
        text.push(character);
        text.text.extend(accent(rest, set));
        rest = rest.get(length..).unwrap_or_default();
    }
}

/// Returns the second character, for the four pairs that encode two characters.
fn accent(rest: &[u8], set: TwoByte) -> Option<char> {
    match (set, rest) {
        (TwoByte::Big5Hkscs, [0x88, 0x62 | 0xa3, ..]) => Some('\u{304}'),
        (TwoByte::Big5Hkscs, [0x88, 0x64 | 0xa5, ..]) => Some('\u{30c}'),
        _ => None,
    }
}

/// Decodes the first character, which is not ASCII. Returns its length, or the length of the error.
fn step(rest: &[u8], set: TwoByte, pairs: &Pairs) -> (usize, Option<char>) {
    if let Some(character) = alone(rest, set) {
        return (1, Some(character));
    }
    match (set, rest) {
        (TwoByte::Gb18030, [_, b'0'..=b'9', ..]) => four_bytes(rest),
        (TwoByte::EucJp, [0x8f, _]) => (2, None),
        (TwoByte::EucJp, [0x8f, first, second, ..]) => found(3, supplement().get(*first, *second)),
        // An incomplete Hangul syllable. Such a syllable is spelt letter by letter, in eight bytes.
        (TwoByte::EucKr, [0xa4, 0xd4, ..]) if rest.len() < 8 => (rest.len(), None),
        (_, [first, second, ..]) => found(2, pairs.get(*first, *second)),
        _ => (1, None),
    }
}

/// Decodes a single-byte character.
fn alone(rest: &[u8], set: TwoByte) -> Option<char> {
    let byte = *rest.first()?;
    let katakana = || char::from_u32(0xff61 + u32::from(byte) - 0xa1);
    match (set, byte) {
        (TwoByte::ShiftJis | TwoByte::Cp932, 0xa1..=0xdf) => katakana(),
        (TwoByte::Cp932, 0x80) => Some('\u{80}'),
        (TwoByte::Cp932, 0xa0) => Some('\u{f8f0}'),
        (TwoByte::Cp932, 0xfd..=0xff) => char::from_u32(0xf8f1 + u32::from(byte) - 0xfd),
        _ => None,
    }
}

/// Returns a character and its `length` in bytes. Without a character, returns an error with a length of one byte.
fn found(length: usize, character: Option<char>) -> (usize, Option<char>) {
    (character.map_or(1, |_| length), character)
}

/// Decodes four bytes of GB 18030.
fn four_bytes(rest: &[u8]) -> (usize, Option<char>) {
    let Some(bytes) = rest.get(..4) else { return (rest.len(), None) };
    let decoded = encoding_rs::GB18030.decode_without_bom_handling_and_without_replacement(bytes);
    let mut characters = decoded.iter().flat_map(|text| text.chars());
    match (characters.next(), characters.next()) {
        (Some(character), None) => (4, Some(character)),
        _ => (1, None),
    }
}
