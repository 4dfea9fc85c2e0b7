//! What is shown to a person, who may sit at a terminal.

use std::io::{self, Write as _};

/// Tells of one thing that went wrong while the rest goes on. Nobody is left to tell if this fails too.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(io::stderr().lock(), "bruit: {}", printable(line));
}

/// Text with what would act on a terminal, or not show there, written out: what a message says must not pass for ours.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_control() || is_invisible(char) {
            out.extend(char.escape_unicode());
        } else {
            out.push(char);
        }
    }
    out
}

/// Characters of no width, line ends beside LF, and what changes the direction of writing.
fn is_invisible(char: char) -> bool {
    matches!(char,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_on_a_terminal() {
        assert_eq!(printable("a\x1b[2J\u{9b}1m\r\n\u{202e}b ä免"), "a\\u{1b}[2J\\u{9b}1m\\u{d}\\u{a}\\u{202e}b ä免");
    }
}
