//! Parses and formats quantities: `400_000`, `4e5`, `10M`, `256MiB`.
//!
//! Suffixes of counts are decimal: `10M` is ten million. Sizes are parsed by [`bruit_engine::units`], both in the
//! configuration file and in options.

use std::time::Duration;

pub use bruit_engine::units::parse_bytes;
use bruit_engine::units::{WHOLE_MAX, parse_number, split_unit};

/// Parses a whole number, at least 1.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let factor = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => {
            return Err(format!(
                "unknown multiplier '{unit}': expected a number such as 400000, 400_000, 4e5, 400k, 10M or 1G"
            ));
        }
    };
    let count = nearly_whole(parse_number(number)? * factor);
    match count {
        count if count.is_nan() || count.fract() != 0.0 && count < WHOLE_MAX => Err("it must be a whole number".into()),
        count if count < 1.0 => Err("it must be at least 1".into()),
        count if count > WHOLE_MAX => Err("it must be at most 2^53".into()),
        count => Ok(count as u64),
    }
}

/// Rounds a number that differs from a whole number only by rounding errors, such as 4.1 · 10^6.
fn nearly_whole(number: f64) -> f64 {
    let whole = number.round();
    if (number - whole).abs() <= 1e-9 * whole.abs() { whole } else { number }
}

/// Parses a rate between 0 and 1, exclusive.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = parse_number(text)?;
    if rate > 0.0 && rate < 1.0 {
        Ok(rate)
    } else {
        Err("it must be greater than 0 and less than 1, for example 0.001".into())
    }
}

/// Parses a threshold for counts, at least 1.
pub fn parse_threshold(text: &str) -> Result<u32, String> {
    u32::try_from(parse_count(text)?).map_err(|_| "it must be at most 4294967295".into())
}

/// Parses a duration between 1 ms and 1 h. The default unit is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_unit(text);
    let seconds = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        _ => return Err(format!("unknown unit '{unit}': expected a duration such as 500ms, 5, 5s or 1m")),
    };
    match parse_number(number)? * seconds {
        seconds if (1e-3..=3600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("it must be at least 1ms and at most 60m".into()),
    }
}

/// Formats a number with separators: `143,775,936`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with a noun: `1 round`, `1,000 rounds`.
pub fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Formats a size: `17.1 MiB`.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    // A value of 1023.95 or more would be printed as 1024.0.
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// Formats a rate: `1.000e-3`.
pub fn scientific(rate: f64) -> String {
    format!("{rate:.3e}")
}

/// Formats e^`ln` as a rate, even if the rate is too small for an `f64`.
pub fn scientific_of_ln(ln: f64) -> String {
    if ln == f64::NEG_INFINITY {
        return scientific(0.0);
    }
    let log10 = ln / std::f64::consts::LN_10;
    let mut exponent = log10.floor();
    let mut mantissa = format!("{:.3}", 10f64.powf(log10 - exponent));
    if mantissa == "10.000" {
        mantissa = "1.000".into();
        exponent += 1.0;
    }
    format!("{mantissa}e{exponent}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_and_bounds() {
        for (text, millis) in
            [("5", 5000), ("5s", 5000), ("1ms", 1), ("250 ms", 250), ("1.5s", 1500), ("60m", 3_600_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "0", "0.9ms", "60.1m", "1h", "-1s", "nan", "s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn counts_are_read_in_every_usual_form() {
        for (text, count) in [("400000", 400_000), ("400_000", 400_000), ("4e5", 400_000), ("10M", 10_000_000)] {
            assert_eq!(parse_count(text), Ok(count));
        }
        assert_eq!((parse_count("1.5k"), parse_count("2 G"), parse_count("1")), (Ok(1500), Ok(2_000_000_000), Ok(1)));
        // The products of these numbers are slightly less than whole numbers.
        for (text, count) in [("4.1M", 4_100_000), ("16.1M", 16_100_000), ("1.005k", 1005), ("64.1k", 64_100)] {
            assert_eq!(parse_count(text), Ok(count));
        }
        for text in ["0", "-5", "1.5", "1.0005k", "1e30", "NaN", "inf", "", "M", "ten", "10X", "1e-3", "10Mi"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_print_as_people_read_them() {
        assert_eq!(
            (grouped(7), grouped(1234), grouped(143_775_936)),
            ("7".into(), "1,234".into(), "143,775,936".into())
        );
        assert_eq!(
            (human_bytes(1023), human_bytes(1024), human_bytes(17 << 20)),
            ("1023 B".into(), "1.0 KiB".into(), "17.0 MiB".into())
        );
        assert_eq!(human_bytes((1 << 20) - 1), "1.0 MiB");
        assert_eq!((counted(1, "round"), counted(1000, "round")), ("1 round".into(), "1,000 rounds".into()));
        assert_eq!(scientific_of_ln(1e-3f64.ln()), "1.000e-3");
        assert_eq!(scientific_of_ln(-500.0 * std::f64::consts::LN_10), "1.000e-500");
        assert_eq!(scientific_of_ln(f64::NEG_INFINITY), "0.000e0");
    }
}
