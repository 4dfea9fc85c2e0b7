//! Unicode encodings.

use super::decode::Text;

/// Byte order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Big,
    Little,
    /// Determined by a byte order mark, which is not part of the text. Without a mark, the order is little-endian.
    Marked,
}

/// Decodes UTF-8. An incomplete character counts as one error.
pub(super) fn utf_8(bytes: &[u8], text: &mut Text) {
    for chunk in bytes.utf8_chunks() {
        text.text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(None);
        }
    }
}

/// Decodes UTF-16.
pub(super) fn utf_16(bytes: &[u8], order: Order, text: &mut Text) {
    let (order, mut rest) = match (order, bytes) {
        (Order::Marked, [0xfe, 0xff, rest @ ..]) => (Order::Big, rest),
        (Order::Marked, [0xff, 0xfe, rest @ ..]) => (Order::Little, rest),
        _ => (order, bytes),
    };
    let unit = |first, second| match order {
        Order::Big => u16::from_be_bytes([first, second]),
        Order::Little | Order::Marked => u16::from_le_bytes([first, second]),
    };
    while let [first, second, after @ ..] = rest {
        rest = after;
        let mut units = [unit(*first, *second), 0];
        let character = match (units.first(), after) {
            (Some(0xd800..=0xdbff), [third, fourth, after @ ..]) => {
                units = [unit(*first, *second), unit(*third, *fourth)];
                let joined = char::decode_utf16(units).next().and_then(Result::ok);
                if joined.is_some() {
                    rest = after;
                }
                joined
            }
            (Some(0xd800..=0xdbff), _) => {
                rest = &[];
                None
            }
            _ => char::decode_utf16(units).next().and_then(Result::ok),
        };
        text.push(character);
    }
    if !rest.is_empty() {
        text.push(None);
    }
}

/// Decodes UTF-32.
pub(super) fn utf_32(bytes: &[u8], order: Order, text: &mut Text) {
    let (order, rest) = match (order, bytes) {
        (Order::Marked, [0, 0, 0xfe, 0xff, rest @ ..]) => (Order::Big, rest),
        (Order::Marked, [0xff, 0xfe, 0, 0, rest @ ..]) => (Order::Little, rest),
        _ => (order, bytes),
    };
    let (units, rest) = rest.as_chunks::<4>();
    for unit in units {
        text.push(char::from_u32(match order {
            Order::Big => u32::from_be_bytes(*unit),
            Order::Little | Order::Marked => u32::from_le_bytes(*unit),
        }));
    }
    if !rest.is_empty() {
        text.push(None);
    }
}

/// Decodes UTF-7, which is ASCII with sections of UTF-16 in base64. A section begins at `+` and ends at the first byte
/// that is not base64. If that byte is `-`, it is dropped.
pub(super) fn utf_7(bytes: &[u8], text: &mut Text) {
    let mut shifted: Option<Shifted> = None;
    let mut rest = bytes;
    while let [byte, after @ ..] = rest {
        rest = after;
        if let Some(state) = &mut shifted {
            if let Some(value) = base64_value(*byte) {
                state.add(value, text);
                continue;
            }
            let is_whole = state.is_whole();
            shifted = None;
            match byte {
                _ if !is_whole => text.push(None),
                b'-' => {}
                // The byte that ends the section is decoded again, because it may be a character or a separate error.
                _ => direct(*byte, text),
            }
            continue;
        }
        match (byte, after) {
            (b'+', [b'-', after @ ..]) => {
                text.push(Some('+'));
                rest = after;
            }
            (b'+', [next, after @ ..]) if base64_value(*next).is_none() => {
                text.push(None);
                rest = after;
            }
            (b'+', _) => shifted = Some(Shifted::default()),
            _ => direct(*byte, text),
        }
    }
    if shifted.is_some_and(|state| !state.is_whole() || state.high_surrogate.is_some()) {
        text.push(None);
    }
}

/// Decodes a byte outside of base64. The byte is never `+`, because `+` is base64.
fn direct(byte: u8, text: &mut Text) {
    text.push(byte.is_ascii().then(|| char::from(byte)));
}

/// Position in a base64 section.
#[derive(Default)]
struct Shifted {
    bits: u32,
    bit_count: u32,
    high_surrogate: Option<u16>,
}

impl Shifted {
    /// Adds six bits, which may complete a character. Half a surrogate pair is dropped without an error.
    fn add(&mut self, value: u8, text: &mut Text) {
        self.bits = self.bits << 6 | u32::from(value);
        self.bit_count += 6;
        if self.bit_count < 16 {
            return;
        }
        self.bit_count -= 16;
        let unit = (self.bits >> self.bit_count) as u16;
        self.bits &= (1 << self.bit_count) - 1;
        let high = self.high_surrogate.take();
        if let Some(character) = high.and_then(|high| char::decode_utf16([high, unit]).next()?.ok()) {
            text.push(Some(character));
        } else if (0xd800..0xdc00).contains(&unit) {
            self.high_surrogate = Some(unit);
        } else if let Some(character) = char::from_u32(u32::from(unit)) {
            text.push(Some(character));
        }
    }

    /// Returns true if only zero bits of padding remain.
    fn is_whole(&self) -> bool {
        self.bit_count < 6 && self.bits == 0
    }
}

/// Returns the six bits of a base64 character.
fn base64_value(byte: u8) -> Option<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    ALPHABET.iter().position(|&known| known == byte).and_then(|at| u8::try_from(at).ok())
}
