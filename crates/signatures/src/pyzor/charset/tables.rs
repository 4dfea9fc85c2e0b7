//! Single-byte character sets, and the tables of two-byte sets.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::decode::Text;

/// Upper halves of the single-byte sets.
const SINGLE_BYTE: &str = include_str!("../../../data/single-byte-charsets.txt");
/// Differences between Python's two-byte sets and those of `encoding_rs`.
const TWO_BYTE: &str = include_str!("../../../data/two-byte-charsets.txt");

/// The characters of bytes 0x80 and above.
pub(super) type SingleByte = [Option<char>; 128];

/// Decodes with a table.
pub(super) fn single_byte(bytes: &[u8], table: &SingleByte, text: &mut Text) {
    for &byte in bytes {
        text.push(match byte.checked_sub(0x80) {
            Some(index) => table.get(usize::from(index)).copied().flatten(),
            None => Some(char::from(byte)),
        });
    }
}

/// Returns all single-byte sets by name.
pub(super) fn single_byte_tables() -> &'static HashMap<&'static str, SingleByte> {
    static TABLES: OnceLock<HashMap<&str, SingleByte>> = OnceLock::new();
    TABLES.get_or_init(|| {
        let lines: Vec<&str> = SINGLE_BYTE.lines().filter(|line| !line.starts_with('#')).collect();
        lines.chunks(9).filter_map(|lines| lines.split_first()).map(|(name, rows)| (*name, upper_half(rows))).collect()
    })
}

/// Parses eight rows of sixteen code points. An entry that is not a number is unassigned.
fn upper_half(rows: &[&str]) -> SingleByte {
    let mut table = [None; 128];
    let points = rows.iter().flat_map(|row| row.split(' '));
    for (entry, point) in table.iter_mut().zip(points) {
        *entry = hex(point).and_then(char::from_u32);
    }
    table
}

/// Characters encoded by pairs of bytes, with a row for each first byte, starting at 0x80.
pub(super) struct Pairs {
    characters: Vec<Option<char>>,
}

impl Pairs {
    /// Builds the table from the pairs that `read` decodes.
    fn new(read: impl Fn(u8, u8) -> Option<char>) -> Self {
        let pairs = (0x80..=0xff).flat_map(|first| (0..=0xff).map(move |second| (first, second)));
        Self { characters: pairs.map(|(first, second)| read(first, second)).collect() }
    }

    /// Returns the character encoded by a pair.
    pub(super) fn get(&self, first: u8, second: u8) -> Option<char> {
        self.characters.get(index(first, second)?).copied().flatten()
    }

    fn set(&mut self, first: u8, second: u8, character: Option<char>) {
        if let Some(entry) = index(first, second).and_then(|index| self.characters.get_mut(index)) {
            *entry = character;
        }
    }
}

fn index(first: u8, second: u8) -> Option<usize> {
    Some(usize::from(first.checked_sub(0x80)?) << 8 | usize::from(second))
}

/// Returns the pairs of a named set, with corrections.
pub(super) fn pairs(name: &str) -> Pairs {
    let mut lines = TWO_BYTE.lines().skip_while(|line| line.split(' ').next() != Some(name));
    let base = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
    let encoding = encoding_rs::Encoding::for_label(base.as_bytes());
    let mut pairs = Pairs::new(|first, second| encoding.and_then(|encoding| character(encoding, &[first, second])));
    for line in lines {
        match line.split_once(' ') {
            Some(("-", ranges)) => ranges.split(' ').for_each(|range| remove(&mut pairs, range)),
            Some(("=", corrections)) => corrections.split(' ').for_each(|correction| correct(&mut pairs, correction)),
            _ => break,
        }
    }
    pairs
}

/// Returns the pairs of JIS X 0212, which EUC writes after a prefix byte.
pub(super) fn jis_x_0212() -> Pairs {
    Pairs::new(|first, second| {
        (first > 0xa0 && second > 0xa0).then(|| character(encoding_rs::EUC_JP, &[0x8f, first, second])).flatten()
    })
}

/// Returns the character that `bytes` encode, or `None` if they are invalid or the first byte alone encodes a
/// character.
fn character(encoding: &'static encoding_rs::Encoding, bytes: &[u8]) -> Option<char> {
    let first = bytes.get(..1)?;
    if encoding.decode_without_bom_handling_and_without_replacement(first).is_some() {
        return None;
    }
    encoding.decode_without_bom_handling_and_without_replacement(bytes)?.chars().next()
}

/// Removes the pairs of a range such as `a140-a1fe`.
fn remove(pairs: &mut Pairs, range: &str) {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    for pair in hex(first).unwrap_or(1)..=hex(last).unwrap_or(0) {
        let [_, _, first, second] = pair.to_be_bytes();
        pairs.set(first, second, None);
    }
}

/// Applies a correction. For example, `a140:3000` means that the bytes a1 40 encode U+3000.
fn correct(pairs: &mut Pairs, correction: &str) {
    let Some((pair, point)) = correction.split_once(':') else { return };
    let [_, _, first, second] = hex(pair).unwrap_or(0).to_be_bytes();
    pairs.set(first, second, hex(point).and_then(char::from_u32));
}

fn hex(digits: &str) -> Option<u32> {
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_whole() {
        assert_eq!(single_byte_tables().len(), 61);
        assert!(single_byte_tables().values().all(|table| table.iter().flatten().count() > 64));
    }

    /// The expected numbers come from Python.
    #[test]
    fn two_byte_sets_have_as_many_pairs_as_in_python() {
        for (name, count) in [("gb2312", 7445), ("gbk", 21791), ("gb18030", 23940), ("big5", 13710), ("cp950", 13752)] {
            assert_eq!(pairs(name).characters.iter().flatten().count(), count, "{name}");
        }
        for (name, count) in [("euc_kr", 8225), ("cp949", 17048), ("shift_jis", 6879), ("cp932", 9604)] {
            assert_eq!(pairs(name).characters.iter().flatten().count(), count, "{name}");
        }
        assert_eq!(jis_x_0212().characters.iter().flatten().count(), 6067);
    }
}
