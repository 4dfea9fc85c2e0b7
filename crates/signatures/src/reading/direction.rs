//! Conversion of text to display order, if control characters or markup change the order.
//!
//! `sehctaw` between two control characters is displayed as `watches`. The Unicode bidirectional algorithm computes the
//! order of characters on the screen. Letters of right-to-left scripts are then put back in reading order. Text without
//! such controls is left unchanged, in any script.

use std::borrow::Cow;

use unicode_bidi::{BidiClass, BidiInfo, bidi_class};

/// Maximum length of a line in bytes. Longer lines are processed in pieces of this length.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// Control characters that begin and end text with a forced direction.
pub(super) const RIGHT_TO_LEFT: char = '\u{202e}';
pub(super) const LEFT_TO_RIGHT: char = '\u{202d}';
pub(super) const END: char = '\u{202c}';

/// Returns the text as it is displayed.
pub(super) fn as_shown(text: &str) -> Cow<'_, str> {
    if !has_controls(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if !has_controls(line) {
            out.push_str(line);
            continue;
        }
        let mut rest = line;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.floor_char_boundary(LINE_BYTES_MAX.min(rest.len())));
            show(piece, &mut out);
            rest = behind;
        }
    }
    Cow::Owned(out)
}

/// Returns true if the text has control characters that embed, isolate or override: U+202A to U+202E and U+2066 to
/// U+2069.
fn has_controls(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr_iter(0xe2, bytes)
        .any(|at| matches!(bytes.get(at + 1..at + 3), Some([0x80, 0xaa..=0xae] | [0x81, 0xa6..=0xa9])))
}

const fn is_control(char: char) -> bool {
    matches!(char, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Appends a line as it is displayed.
fn show(line: &str, out: &mut String) {
    let info = BidiInfo::new(line, None);
    for paragraph in &info.paragraphs {
        let end = line.get(paragraph.range.clone()).unwrap_or_default().trim_end_matches(['\n', '\r']).len();
        let range = paragraph.range.start..paragraph.range.start + end;
        let line_end = line.get(range.end..paragraph.range.end).unwrap_or_default();
        let shown = info.reorder_line(paragraph, range);
        let mut chars: Vec<char> = shown.chars().filter(|&char| !is_control(char)).collect();
        if paragraph.level.is_rtl() {
            chars.reverse();
            turn_runs(&mut chars, is_left_to_right, is_right_to_left);
        } else {
            turn_runs(&mut chars, is_right_to_left, is_left_to_right);
        }
        out.extend(chars);
        out.push_str(line_end);
    }
}

/// Reverses every maximal run that begins and ends with an `is_own` character and contains no `is_other` character.
fn turn_runs(chars: &mut [char], is_own: impl Fn(char) -> bool, is_other: impl Fn(char) -> bool) {
    let mut run: Option<(usize, usize)> = None;
    for at in 0..=chars.len() {
        let char = chars.get(at).copied();
        match char {
            Some(char) if is_own(char) => run = Some((run.map_or(at, |(start, _)| start), at + 1)),
            Some(char) if !is_other(char) => {}
            _ => {
                if let Some(turned) = run.take().and_then(|(start, end)| chars.get_mut(start..end)) {
                    turned.reverse();
                }
            }
        }
    }
}

fn is_right_to_left(char: char) -> bool {
    !char.is_ascii() && matches!(bidi_class(char), BidiClass::R | BidiClass::AL)
}

fn is_left_to_right(char: char) -> bool {
    matches!(bidi_class(char), BidiClass::L | BidiClass::EN | BidiClass::AN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn overrides_are_undone() {
        for (written, seen) in [
            ("Genuine \u{202e}sehctaw\u{202c} at", "Genuine watches at"),
            ("\u{202e}sehctaw eniuneG\n\u{202e}elas rof\r\n", "Genuine watches\nfor sale\r\n"),
            ("\u{2067}\u{2066}watches\u{2069} \u{2066}Genuine\u{2069}\u{2069}", "Genuine watches"),
            ("\u{202d}Genuine\u{202c} watches", "Genuine watches"),
            ("\u{202a}Genuine\u{202c} \u{202b}watches\u{202c} \u{2068}at\u{2069}", "Genuine watches at"),
        ] {
            assert_eq!(as_shown(written), seen);
        }
    }

    #[test]
    fn text_from_right_to_left_stays() {
        for text in [
            "שלום עולם",
            "مرحبا بالعالم",
            "שלום abc עולם 12",
            "Genuine שלום עולם watches",
            "plain \u{2019}words\u{2019}",
        ] {
            assert!(matches!(as_shown(text), Cow::Borrowed(same) if same == text));
            assert_eq!(as_shown(&format!("\u{202a}\u{202c}{text}")), text, "{text}");
            assert_eq!(as_shown(&format!("{text}\u{2068}\u{2069}")), text, "{text}");
        }
        assert_eq!(as_shown("\u{202b}שלום עולם\u{202c}"), "שלום עולם");
        assert_eq!(as_shown("Genuine \u{202b}שלום עולם\u{202c} watches"), "Genuine שלום עולם watches");
    }

    #[test]
    fn endless_controls_take_little_time() {
        for piece in ["\u{202e}", "\u{202e}a\u{202c}", "\u{2067}(", "\u{2066}a)\u{2069}", "\u{202e}a\u{5d0}([{1"] {
            assert!(as_shown(&piece.repeat(1 << 18)).len() <= piece.len() << 18, "{piece:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "[\u{202a}-\u{202e}\u{2066}-\u{2069}a1 (\\[)\\]\u{5d0}\u{627}\u{661}\u{301}\r\n\u{2029}\u{1c}]{0,60}") {
            let shown = as_shown(&text);
            let mut letters: Vec<char> = text.chars().filter(|&char| !is_control(char)).collect();
            let mut seen: Vec<char> = shown.chars().filter(|&char| !is_control(char)).collect();
            letters.sort_unstable();
            seen.sort_unstable();
            prop_assert_eq!(seen, letters);
        }
    }
}
