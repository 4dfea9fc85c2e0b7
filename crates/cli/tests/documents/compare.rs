//! Compares the output of a command with the output shown on a page.

use crate::page::Output;

/// Returns true if `printed` matches the output on the page. `…` stands for any part of a line, and a line `...` for
/// all following lines.
pub(crate) fn agrees(shown: &Output, printed: &str) -> bool {
    let shown_lines: Vec<&str> = shown.text.trim_end().lines().map(str::trim_end).collect();
    let printed_lines: Vec<&str> = printed.trim_end().lines().map(str::trim_end).collect();
    let (shown_lines, printed_lines) = match shown_lines.split_last() {
        Some((&"...", before)) => (before, printed_lines.get(..before.len()).unwrap_or(&printed_lines)),
        _ => (&shown_lines[..], &printed_lines[..]),
    };
    let is_alike = |(shown_line, line): (&&str, &&str)| {
        if shown.numbers_vary { is_like(&masked(shown_line), &masked(line)) } else { is_like(shown_line, line) }
    };
    shown_lines.len() == printed_lines.len() && shown_lines.iter().zip(printed_lines).all(is_alike)
}

/// Returns true if `line` contains the pieces of `shown`, which are separated by `…`, in the same order. The first
/// piece must be at the start of the line and the last at its end.
fn is_like(shown: &str, line: &str) -> bool {
    let mut pieces = shown.split('…');
    let Some(mut rest) = pieces.next().and_then(|first| line.strip_prefix(first)) else { return false };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, between)) = pieces.split_last() else { return rest.is_empty() };
    for piece in between {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}

/// Replaces every number in a line with `#`, and every run of blanks with one blank.
fn masked(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let mut text = String::new();
        let mut rest = word;
        while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
            text.push_str(rest[..at].trim_end_matches(['+', '-']));
            text.push('#');
            rest = behind_number(&rest[at..]);
        }
        text + rest
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns the text that follows a leading number. A number is digits with points, commas and an exponent.
fn behind_number(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_digit() || ".,".contains(c))).unwrap_or(text.len());
    let rest = &text[end..];
    let exponent = rest.strip_prefix("e-").or_else(|| rest.strip_prefix('e'));
    exponent.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())).map_or(rest, behind_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, numbers_vary: bool) -> Output {
        Output { text: text.to_owned(), numbers_vary }
    }

    #[test]
    fn output_agrees_to_the_letter_unless_the_page_says_otherwise() {
        assert!(agrees(&shown("2 keys, 460 B\n", false), "2 keys, 460 B\n"));
        assert!(!agrees(&shown("2 keys, 460 B", false), "2 keys, 461 B\n"));
        assert!(!agrees(&shown("2 keys", false), "2 keys\nand more\n"));
        assert!(agrees(&shown("key …, secret\n...", false), "key abc, secret\nand more\n"));
        assert!(!agrees(&shown("key …, secret", false), "key abc, public\n"));
    }

    #[test]
    fn numbers_may_vary_and_words_may_not() {
        assert!(agrees(&shown("1,024 hits  -7.6 % (1.950e-9)", true), "999 hits +12.0 % (2e-10)\n"));
        assert!(!agrees(&shown("10 hits", true), "10 misses\n"));
    }
}
