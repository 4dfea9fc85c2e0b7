//! Sizes as text, for the configuration file and the command line: `256MiB`, `64M`, `1GB`.
//!
//! Units are written as for GNU tools: `M` and `MiB` are 2^20 bytes, `MB` is 10^6.

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
}
