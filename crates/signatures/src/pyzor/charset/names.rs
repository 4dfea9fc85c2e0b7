//! Python's names of character sets.

use std::collections::HashMap;
use std::sync::OnceLock;

use super::escapes::Iso2022;
use super::tables::{SingleByte, single_byte_tables};
use super::two_byte::TwoByte;
use super::unicode::Order;

/// Each codec, with its aliases.
const NAMES: &str = include_str!("../../../data/charset-names.txt");

/// A way to decode bytes.
#[derive(Clone, Copy)]
pub(super) enum Codec {
    Ascii,
    Utf8,
    /// UTF-8 with a byte order mark, which is not part of the text.
    Utf8Signed,
    Utf7,
    Utf16(Order),
    Utf32(Order),
    Latin1,
    SingleByte(&'static SingleByte),
    TwoByte(TwoByte),
    Hz,
    Iso2022(Iso2022),
}

impl Codec {
    /// Returns true if ASCII bytes always encode ASCII characters.
    pub(super) fn holds_ascii(self) -> bool {
        !matches!(self, Self::Utf7 | Self::Utf16(_) | Self::Utf32(_) | Self::Hz | Self::Iso2022(_))
    }
}

/// Returns the character set with this name, if both Python and this crate support it.
pub(super) fn find(name: &str) -> Option<Codec> {
    let name = normalised(name);
    let aliased = || by_name().get(name.replace('.', "_").as_str()).filter(|named| named.is_alias);
    by_name().get(name.as_str()).or_else(aliased).map(|named| named.codec)
}

/// Normalises a name as Python does. The name is converted to lower case. Each run of characters other than letters,
/// digits and full stops becomes one underscore. NUL is dropped.
fn normalised(name: &str) -> String {
    let mut normalised = String::with_capacity(name.len());
    let mut is_separated = false;
    for byte in name.bytes().filter(|&byte| byte != 0) {
        if byte.is_ascii_alphanumeric() || byte == b'.' {
            if is_separated && !normalised.is_empty() {
                normalised.push('_');
            }
            normalised.push(char::from(byte.to_ascii_lowercase()));
            is_separated = false;
        } else {
            is_separated = true;
        }
    }
    normalised
}

/// A codec under one of its names.
struct Named {
    codec: Codec,
    is_alias: bool,
}

fn by_name() -> &'static HashMap<&'static str, Named> {
    static BY_NAME: OnceLock<HashMap<&str, Named>> = OnceLock::new();
    BY_NAME.get_or_init(|| {
        let lines = NAMES.lines().filter(|line| !line.starts_with('#'));
        lines.flat_map(line_names).collect()
    })
}

/// Returns the names listed on one line of the table, each with its codec.
fn line_names(line: &'static str) -> impl Iterator<Item = (&'static str, Named)> {
    let codec = line.split(' ').next().and_then(codec);
    let names = line.split(' ').enumerate();
    names.filter_map(move |(index, name)| Some((name, Named { codec: codec?, is_alias: index > 0 })))
}

/// Returns the codec with one of Python's canonical names.
fn codec(name: &'static str) -> Option<Codec> {
    Some(match name {
        "ascii" => Codec::Ascii,
        "utf_8" => Codec::Utf8,
        "utf_8_sig" => Codec::Utf8Signed,
        "utf_7" => Codec::Utf7,
        "utf_16" => Codec::Utf16(Order::Marked),
        "utf_16_be" => Codec::Utf16(Order::Big),
        "utf_16_le" => Codec::Utf16(Order::Little),
        "utf_32" => Codec::Utf32(Order::Marked),
        "utf_32_be" => Codec::Utf32(Order::Big),
        "utf_32_le" => Codec::Utf32(Order::Little),
        "latin_1" | "charmap" => Codec::Latin1,
        "hz" => Codec::Hz,
        "iso2022_jp" => Codec::Iso2022(Iso2022::Japanese),
        "iso2022_jp_1" => Codec::Iso2022(Iso2022::Japanese1),
        "iso2022_kr" => Codec::Iso2022(Iso2022::Korean),
        _ => match TwoByte::named(name) {
            Some(set) => Codec::TwoByte(set),
            None => Codec::SingleByte(single_byte_tables().get(name)?),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_codec() {
        let count: usize =
            NAMES.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(' ').count()).sum();
        assert_eq!(by_name().len(), count);
    }

    #[test]
    fn names_are_compared_loosely() {
        for name in ["UTF-8", " utf 8 ", "utf--8", "u8", "UTF_8\0"] {
            assert!(matches!(find(name), Some(Codec::Utf8)), "{name}");
        }
        assert!(matches!(find("ISO_646.irv:1991"), Some(Codec::Ascii)));
        assert!(matches!(find("iso.8859.1"), Some(Codec::Latin1)));
        assert!(find("utf.8").is_none());
        assert!(find("cp-1252").is_none());
        assert!(find("").is_none());
    }
}
