//! Sizes and durations as text, for configuration files and the command line: `256MiB`, `64M`, `1GB`, `200ms`.
//!
//! Units of sizes are written as for GNU tools: `M` and `MiB` are 2^20 bytes, `MB` is 10^6.

use std::time::Duration;

/// Largest number below which an `f64` can represent every whole number: 2^53.
pub const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Parses a size in bytes, at least 1.
///
/// # Errors
/// Returns a message that names the expected unit or range.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let factor = unit_bytes(unit)
        .ok_or_else(|| format!("unknown unit '{unit}': expected a size such as 65536, 64M, 256MiB or 1GB"))?;
    let bytes = (parse_number(number)? * factor).floor();
    match bytes {
        bytes if (1.0..=WHOLE_MAX).contains(&bytes) => Ok(bytes as u64),
        bytes if bytes > WHOLE_MAX => Err("it must be at most 8 PiB".into()),
        _ => Err("it must be at least 1 byte".into()),
    }
}

/// Parses a size in bytes that has a unit, as in configuration files.
///
/// # Errors
/// Returns a message that names the text and an example.
pub fn parse_bytes_with_unit(text: &str) -> Result<u64, String> {
    let has_unit = text.ends_with(|c: char| c.is_ascii_alphabetic());
    let bytes = has_unit.then(|| parse_bytes(text).ok()).flatten();
    bytes.ok_or_else(|| format!("{text:?} is not a size: expected a size such as \"256MiB\""))
}

/// Parses a duration as in configuration files: digits, and `ms`, `s`, `m`, `h` or `d`.
///
/// # Errors
/// Returns a message that names the text and an example.
pub fn parse_span(text: &str) -> Result<Duration, String> {
    let milliseconds = span_milliseconds(text).map(Duration::from_millis);
    milliseconds.ok_or_else(|| format!("{text:?} is not a duration: expected a duration such as \"5s\""))
}

fn span_milliseconds(text: &str) -> Option<u64> {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let factor = match unit.trim_start() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

fn unit_bytes(unit: &str) -> Option<f64> {
    if unit.is_empty() || unit == "B" {
        return Some(1.0);
    }
    let (base, letter) = match (unit.strip_suffix("iB"), unit.strip_suffix('B')) {
        (Some(letter), _) => (1024f64, letter),
        (None, Some(letter)) => (1000f64, letter),
        (None, None) => (1024f64, unit),
    };
    let power = ["k", "m", "g", "t", "p"].iter().position(|known| letter.eq_ignore_ascii_case(known))?;
    Some(base.powi(power as i32 + 1))
}

/// Splits a quantity into number and unit. The `e` in `4e5` is part of the number.
#[must_use]
pub fn split_unit(text: &str) -> (&str, &str) {
    let number_end = text.rfind(|c: char| c.is_ascii_digit() || c == '.').map_or(0, |index| index + 1);
    let (number, unit) = text.split_at(number_end);
    (number.trim(), unit.trim())
}

/// Parses a finite number. Underscores are ignored.
///
/// # Errors
/// If the text is not a number.
pub fn parse_number(text: &str) -> Result<f64, String> {
    let digits = text.replace('_', "");
    digits.parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(|| "it is not a number".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in [
            ("512", 512),
            ("512B", 512),
            ("64M", 64 << 20),
            ("256MiB", 256 << 20),
            ("1GB", 1_000_000_000),
            ("1.5K", 1536),
            ("2 TiB", 2 << 40),
        ] {
            assert_eq!(parse_bytes(text).unwrap_or(0), bytes, "{text}");
        }
        for text in ["0", "0.4", "-1M", "1XB", "MiB", "9e99G", "1MMB", "1iB", "256mib", ""] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_in_configuration_files_need_a_unit() {
        assert_eq!(parse_bytes_with_unit("256MiB"), Ok(256 << 20));
        assert_eq!(parse_bytes_with_unit("2 GiB"), Ok(2 << 30));
        assert_eq!(["64M", "64MiB"].map(parse_bytes_with_unit), [Ok(64 << 20), Ok(64 << 20)]);
        assert_eq!(parse_bytes_with_unit("64MB"), Ok(64_000_000));
        for text in ["256", "MiB", "256XB", "-1KiB", "99999999999999999999GiB", "18446744073709551615GiB"] {
            assert!(parse_bytes_with_unit(text).unwrap_err().contains(text), "{text}");
        }
    }

    #[test]
    fn durations_are_read_with_their_units() {
        for (text, milliseconds) in
            [("200ms", 200), ("2 h", 7_200_000), ("5s", 5_000), ("3m", 180_000), ("2d", 172_800_000)]
        {
            assert_eq!(parse_span(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["5", "s", "5 weeks", "18446744073709551615d", ""] {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }
}
