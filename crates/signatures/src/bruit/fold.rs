//! Folding of letters to what a reader perceives. Look-alikes are replaced, and accents, styles and case are removed.
//!
//! The table of look-alikes is decancer's, which extends Unicode data. A letter that resembles an ASCII character is
//! replaced with it. Any other letter is kept.

use decancer::Translation;

use crate::reading::{Reading, TextPart, is_blank, is_invisible, is_line_end, is_thin_blank};

/// Maximum average number of letters between two blanks. If there are more, the text uses other characters as blanks.
const LETTERS_PER_BLANK_MAX: usize = 9;

/// Returns the folded text of a message, and the positions of its parts in the folded text.
pub(super) fn folded_parts(reading: &Reading) -> (String, Vec<TextPart>) {
    let mut out = String::with_capacity(reading.text.len());
    let mut parts = Vec::with_capacity(reading.parts.len());
    for (text, part) in reading.texts() {
        parts.push(TextPart { start: out.len(), ..part });
        fold(text, &mut out);
    }
    (out, parts)
}

/// Returns the folded form of a text.
pub(super) fn folded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    fold(text, &mut out);
    out
}

/// Appends the folded form of `text` to `out`. It is in lower case, without marks, control characters and zero-width
/// characters. Line ends are kept.
fn fold(text: &str, out: &mut String) {
    let mut rest = text;
    let mut thin_blank: Option<&str> = None;
    while let Some(at) = rest.bytes().position(|byte| !byte.is_ascii()) {
        let (plain, other) = rest.split_at(at);
        fold_ascii(plain, out);
        let mut chars = other.chars();
        match chars.next() {
            Some(char) if is_thin_blank(char) => out.push_str(thin_blank.get_or_insert_with(|| fold_thin_blank(text))),
            Some(char) => fold_char(char, out),
            None => {}
        }
        rest = chars.as_str();
    }
    fold_ascii(rest, out);
}

/// Returns the replacement for thin blanks in a text. If there are hardly any other blanks, the thin ones must separate
/// the words, so each is replaced with a blank. Otherwise, they are removed.
fn fold_thin_blank(text: &str) -> &'static str {
    let is_wide_blank = |char: char| is_blank(char) && !is_thin_blank(char);
    let blanks = text.chars().filter(|&char| is_wide_blank(char)).count();
    // Scripts that are written without blanks between words are not counted.
    let letters = text.chars().filter(|&char| char < '\u{700}' && char.is_alphabetic()).count();
    if letters > LETTERS_PER_BLANK_MAX * (blanks + 1) { " " } else { "" }
}

fn fold_ascii(text: &str, out: &mut String) {
    let from = out.len();
    if text.bytes().any(|byte| byte.is_ascii_control() && !matches!(byte, b'\n' | b'\t')) {
        out.extend(text.chars().filter(|&char| !char.is_ascii_control() || matches!(char, '\n' | '\t')));
    } else {
        out.push_str(text);
    }
    if let Some(added) = out.get_mut(from..) {
        added.make_ascii_lowercase();
    }
}

fn fold_char(char: char, out: &mut String) {
    match char {
        // Typographic marks. They are not part of words, but must not become letters either.
        '\u{2010}'..='\u{2015}' | '\u{2212}' => out.push('-'),
        '\u{2018}' | '\u{2019}' | '\u{201b}' | '\u{2032}' => out.push('\''),
        char if is_line_end(char) => out.push('\n'),
        // Used as a letter by convention rather than resemblance.
        '£' => out.push('l'),
        char if is_invisible(char) => {}
        char if is_blank(char) => out.push(' '),
        char => match decancer::cure_char!(char) {
            Translation::Character(folded) => out.extend(folded.to_lowercase()),
            Translation::String(folded) => out.push_str(&folded),
            Translation::None => {}
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_that_look_alike_become_one() {
        for written in [
            "viagra",
            "VIAGRA",
            "víàgrä",
            "vіаgrа",
            "ｖｉａｇｒａ",
            "𝓿𝓲𝓪𝓰𝓻𝓪",
            "ⓥⓘⓐⓖⓡⓐ",
            "ᴠɪᴀɢʀᴀ",
            "v\u{200b}ia\u{ad}gra",
            "vi\u{301}agra",
        ] {
            assert_eq!(folded(written), "viagra", "{written}");
        }
    }

    #[test]
    fn lines_and_blanks_stay() {
        assert_eq!(folded("a\r\nb\u{a0}c\u{2003}d\u{2028}e\tf"), "a\nb c d\ne\tf");
    }

    #[test]
    fn characters_displayed_as_blanks_separate_words() {
        let blanks = [
            "\u{a0}",
            "\u{2000}",
            "\u{2001}",
            "\u{2002}",
            "\u{2003}",
            "\u{2004}",
            "\u{2005}",
            "\u{2006}",
            "\u{2007}",
            "\u{2008}",
            "\u{2009}",
            "\u{200a}",
            "\u{202f}",
            "\u{205f}",
            "\u{3000}",
            "\u{115f}",
            "\u{1160}",
            "\u{180e}",
            "\u{2800}",
            "\u{3164}",
            "\u{ffa0}",
            "\u{1d159}",
        ];
        for blank in blanks {
            assert_eq!(
                folded(&format!("genuine{blank}watches{blank}for{blank}sale")),
                "genuine watches for sale",
                "{blank:?}"
            );
        }
    }

    #[test]
    fn zero_width_characters_do_not_separate_words() {
        let text = "genuine watches are for sale and will be sent";
        let within = |char: char| text.replace('e', &format!("{char}e")).replace('t', &format!("{char}t"));
        for char in "\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}\u{ad}\u{e0041}\u{202c}\u{2006}\u{2009}\u{200a}\u{202f}\u{180e}\u{1160}".chars() {
            assert_eq!(folded(&within(char)), text, "{char:?}");
        }
        assert_eq!(folded("免\u{2009}费\u{200a}发票"), "免费发票");
    }

    #[test]
    fn other_scripts_stay_themselves() {
        assert_eq!(folded("免费"), "免费");
    }
}
