//! Punycode for international labels (RFC 3492).

use std::cmp::Ordering;

/// Maximum length of a DNS label. Encoding takes quadratic time, so longer labels are not encoded.
const LABEL_CHARACTERS_MAX: usize = 63;

/// The parameters of section 5.
const BASE: u32 = 36;
const T_MIN: u32 = 1;
const T_MAX: u32 = 26;
const SKEW: u32 = 38;
const DAMP: u32 = 700;
const INITIAL_BIAS: u32 = 72;
const INITIAL_CODE: u32 = 128;

/// Converts `label` to its DNS form. An ASCII label is unchanged. A label that is too long loses its non-ASCII
/// characters.
pub(super) fn to_ascii(label: &str) -> String {
    let ascii: String = label.chars().filter(char::is_ascii).collect();
    if ascii.len() == label.len() || label.chars().count() > LABEL_CHARACTERS_MAX {
        return ascii;
    }
    let delimiter = if ascii.is_empty() { "" } else { "-" };
    format!("xn--{ascii}{delimiter}{}", encode(label, ascii.len() as u32))
}

/// Encodes the positions and code points of the non-ASCII characters of `label` (section 6.3). `ascii` is the number of
/// its ASCII characters.
fn encode(label: &str, ascii: u32) -> String {
    let mut encoded = String::new();
    let (mut code, mut delta, mut bias) = (INITIAL_CODE, 0u32, INITIAL_BIAS);
    let mut handled = ascii;
    let codes = || label.chars().map(u32::from);
    while let Some(next) = codes().filter(|&other| other >= code).min() {
        delta += (next - code) * (handled + 1);
        code = next;
        for other in codes() {
            match other.cmp(&code) {
                Ordering::Less => delta += 1,
                Ordering::Equal => {
                    push_number(&mut encoded, delta, bias);
                    bias = adapt(delta, handled + 1, handled == ascii);
                    delta = 0;
                    handled += 1;
                }
                Ordering::Greater => {}
            }
        }
        delta += 1;
        code += 1;
    }
    encoded
}

/// Appends a variable-length number.
fn push_number(encoded: &mut String, number: u32, bias: u32) {
    let mut rest = number;
    for place in (BASE..).step_by(BASE as usize) {
        let threshold = place.saturating_sub(bias).clamp(T_MIN, T_MAX);
        if rest < threshold {
            break;
        }
        encoded.push(digit(threshold + (rest - threshold) % (BASE - threshold)));
        rest = (rest - threshold) / (BASE - threshold);
    }
    encoded.push(digit(rest));
}

fn digit(value: u32) -> char {
    char::from_digit((value + 10) % BASE, BASE).unwrap_or('a')
}

/// Computes the bias for the next number (section 6.1).
fn adapt(delta: u32, count: u32, is_first: bool) -> u32 {
    let mut delta = delta / if is_first { DAMP } else { 2 };
    delta += delta / count;
    let mut places = 0;
    while delta > (BASE - T_MIN) * T_MAX / 2 {
        delta /= BASE - T_MIN;
        places += BASE;
    }
    places + (BASE - T_MIN + 1) * delta / (delta + SKEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_encoded_as_browsers_do() {
        for (label, ascii) in [
            ("example", "example"),
            ("b\u{fc}cher", "xn--bcher-kva"),
            ("m\u{fc}nchen", "xn--mnchen-3ya"),
            ("\u{440}\u{444}", "xn--p1ai"),
            ("\u{4f8b}\u{3048}", "xn--r8jz45g"),
            ("\u{442}\u{435}\u{441}\u{442}", "xn--e1aybc"),
        ] {
            assert_eq!(to_ascii(label), ascii);
        }
    }

    #[test]
    fn labels_are_bounded() {
        let longest = "\u{10ffff}".repeat(LABEL_CHARACTERS_MAX);
        assert!(to_ascii(&longest).starts_with("xn--"));
        assert_eq!(to_ascii(&(longest + "a")), "a");
    }
}
