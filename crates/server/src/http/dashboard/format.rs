//! Numbers, sizes, durations and times as text.

use std::time::Duration;

use bruit_engine::time::Time;
use maud::{Markup, html};

/// A space between a number and its unit, where lines do not break.
pub(super) const GAP: char = '\u{a0}';

/// Writes a number with thousands separators.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes a count with its noun, such as `1 report` or `2 reports`.
pub(super) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Writes a size, such as `1.5 MiB`.
pub(super) fn size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1_024 {
        return counted(bytes, "byte");
    }
    let mut value = bytes as f64 / 1_024.0;
    let mut unit = 0;
    while value >= 1_000.0 && unit + 1 < units.len() {
        value /= 1_024.0;
        unit += 1;
    }
    let decimals = usize::from(value < 100.0);
    format!("{value:.decimals$}{GAP}{}", units.get(unit).copied().unwrap_or_default())
}

/// Writes a share, such as `12 %` or `0.4 %`.
pub(super) fn percent(share: f64) -> String {
    let value = share * 100.0;
    match value {
        _ if !value.is_finite() => "–".to_owned(),
        _ if value == 0.0 || value >= 9.95 => format!("{value:.0}{GAP}%"),
        _ if value >= 0.1 => format!("{value:.1}{GAP}%"),
        _ if value >= 0.000_05 => format!("{}{GAP}%", format!("{value:.4}").trim_end_matches('0')),
        _ => format!("less than 0.0001{GAP}%"),
    }
}

/// Writes a duration in its largest unit and the next one, such as `3 days 4 hours`.
pub(super) fn duration(seconds: u64) -> String {
    let units = [(86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")];
    let first = units.iter().position(|(length, _)| seconds >= *length).unwrap_or(units.len() - 1);
    let mut rest = seconds;
    let mut parts = Vec::new();
    for (length, noun) in units.iter().skip(first).take(2) {
        let count = rest / length;
        rest %= length;
        if count > 0 || parts.is_empty() {
            parts.push(counted(count, noun));
        }
    }
    parts.join(" ")
}

/// Writes a rate, such as `6 per minute` or `1.2 per second`.
pub(super) fn rate(per_second: f64) -> String {
    match per_second {
        _ if per_second < 1.0 => format!("{:.0}{GAP}per minute", per_second * 60.0),
        _ if per_second < 10.0 => format!("{per_second:.1}{GAP}per second"),
        _ => format!("{}{GAP}per second", grouped(per_second.round() as u64)),
    }
}

/// Writes the bound of a response time, rounded up.
pub(super) fn bound(time: Duration) -> String {
    match time.as_micros() {
        micros if micros < 1_000 => format!("{micros}{GAP}µs"),
        micros if micros < 1_000_000 => format!("{}{GAP}ms", micros.div_ceil(1_000)),
        micros => format!("{:.1}{GAP}s", micros.div_ceil(100_000) as f64 / 10.0),
    }
}

/// Renders a time. It is written in UTC; the script shows it in the zone of the viewer.
pub(super) fn time(seconds: u64) -> Markup {
    let text = Time(seconds).to_string();
    let machine = format!("{}Z", text.replace(' ', "T"));
    html! { time datetime=(machine) { (text) " UTC" } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_have_units() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        let texts = [1, 1_023, 1_536, 268_435_456, u64::MAX].map(size).map(breakable);
        assert_eq!(texts, ["1 byte", "1,023 bytes", "1.5 KiB", "256 MiB", "16777216 TiB"]);
        assert_eq!(
            [0.0, 0.004, 0.5, 0.000_1, 0.000_001, 1e-9].map(percent).map(breakable),
            ["0 %", "0.4 %", "50 %", "0.01 %", "0.0001 %", "less than 0.0001 %"]
        );
        assert_eq!(percent(f64::NAN), "–");
        assert_eq!(size(1_536), "1.5\u{a0}KiB", "a unit stays with its number");
    }

    #[test]
    fn rates_are_by_the_minute_or_second_and_bounds_are_never_below_the_time() {
        assert_eq!(
            [0.0, 0.1, 0.99, 1.0, 1.26, 1_234.4].map(rate).map(breakable),
            ["0 per minute", "6 per minute", "59 per minute", "1.0 per second", "1.3 per second", "1,234 per second"]
        );
        let bounds = [160, 20_480, 5_242_880].map(Duration::from_micros).map(bound).map(breakable);
        assert_eq!(bounds, ["160 µs", "21 ms", "5.3 s"]);
    }

    fn breakable(text: String) -> String {
        text.replace(GAP, " ")
    }

    #[test]
    fn durations_have_at_most_two_units() {
        let texts = [0, 59, 60, 3_661, 86_400, 100_000].map(duration);
        let expected = ["0 seconds", "59 seconds", "1 minute", "1 hour 1 minute", "1 day", "1 day 3 hours"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_time_is_read_by_programs_and_people() {
        let text = time(1_800_000_000).into_string();
        assert_eq!(text, "<time datetime=\"2027-01-15T08:00:00Z\">2027-01-15 08:00:00 UTC</time>");
    }
}
