//! Sizes and durations in the configuration: `64MiB`, `3s`.

use std::time::Duration;

use bruit_engine::units::parse_bytes;
use serde::{Deserialize, Deserializer, de::Error as _};

/// A size with a unit, in the same syntax as in `bruit.toml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) u64);

/// A duration: digits and `ms`, `s`, `m`, `h` or `d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

impl Bytes {
    fn parse(text: &str) -> Option<Self> {
        let has_unit = text.ends_with(|char: char| char.is_ascii_alphabetic());
        has_unit.then(|| parse_bytes(text).ok()).flatten().map(Self)
    }
}

impl Span {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (digits, unit) = text.split_at(text.find(|char: char| !char.is_ascii_digit())?);
        let milliseconds: u64 = match unit.trim_start() {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        let number: u64 = digits.parse().ok()?;
        Some(Self(Duration::from_millis(number.checked_mul(milliseconds)?)))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| D::Error::custom(format!("{text:?} is not a size: expected a size such as \"64MiB\"")))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| D::Error::custom(format!("{text:?} is not a duration: expected a duration such as \"3s\"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_carry_units() {
        assert_eq!(Bytes::parse("64MiB"), Some(Bytes(64 << 20)));
        assert_eq!(Span::parse("200ms"), Some(Span(Duration::from_millis(200))));
        assert_eq!(Span::parse("2 h"), Some(Span(Duration::from_secs(7_200))));
        for text in ["5", "s", "5 weeks", "18446744073709551615d", ""] {
            assert_eq!(Span::parse(text), None, "{text}");
        }
        assert_eq!(Bytes::parse("64"), None);
    }
}
