//! Sizes and durations in the configuration, such as `256MiB` and `200ms`.

use std::time::Duration;

use bruit_engine::units;
use serde::{Deserialize, Deserializer, de::Error as _};

/// A size with a unit, in the same syntax as on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bytes(pub(crate) u64);

/// A duration, written as digits followed by `ms`, `s`, `m`, `h` or `d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span(pub(crate) Duration);

impl Bytes {
    fn parse(text: &str) -> Option<Self> {
        let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
        has_unit.then(|| units::parse_bytes(text).ok()).flatten().map(Self)
    }
}

impl Span {
    fn parse(text: &str) -> Option<Self> {
        let (number, unit) = split(text)?;
        let milliseconds = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        Some(Self(Duration::from_millis(number.checked_mul(milliseconds)?)))
    }
}

/// Splits a text into its leading number and the rest.
fn split(text: &str) -> Option<(u64, &str)> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    Some((digits.parse().ok()?, unit.trim_start()))
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| D::Error::custom(format!("{text:?} is not a size: expected a size such as \"256MiB\"")))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| D::Error::custom(format!("{text:?} is not a duration: expected a duration such as \"5s\"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_carry_units() {
        assert_eq!(Bytes::parse("256MiB"), Some(Bytes(256 << 20)));
        assert_eq!(Bytes::parse("2 GiB"), Some(Bytes(2 << 30)));
        assert_eq!(["64M", "64MiB"].map(Bytes::parse), [Some(Bytes(64 << 20)); 2]);
        assert_eq!(Bytes::parse("64MB"), Some(Bytes(64_000_000)));
        assert_eq!(Span::parse("200ms"), Some(Span(Duration::from_millis(200))));
        assert_eq!(Span::parse("2d"), Some(Span(Duration::from_secs(172_800))));
    }

    #[test]
    fn numbers_without_units_and_too_large_ones_are_refused() {
        for text in ["256", "MiB", "256XB", "-1KiB", "99999999999999999999GiB", "18446744073709551615GiB"] {
            assert_eq!(Bytes::parse(text), None, "{text}");
        }
        for text in ["5", "s", "5 weeks", "18446744073709551615d"] {
            assert_eq!(Span::parse(text), None, "{text}");
        }
    }
}
