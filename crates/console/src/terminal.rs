//! Output for people, possibly on a terminal.

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};

/// Name of the program, which is the prefix of every line on standard error.
static PROGRAM: OnceLock<String> = OnceLock::new();

/// Sets the name of the program. Only the first call has an effect.
pub(crate) fn set_program(name: &str) {
    let _ = PROGRAM.set(name.to_owned());
}

/// Prints a line with the name of the program on standard error.
pub fn complain(line: &str) {
    let program = PROGRAM.get().map_or("bruit", String::as_str);
    // Ignore errors: they cannot be reported if standard error is closed.
    let _ = writeln!(io::stderr().lock(), "{program}: {}", printable(line));
}

/// Returns a verdict, in its colour if standard output is a terminal and NO_COLOR is not set.
pub fn coloured_verdict(verdict: &str) -> String {
    let is_off = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    coloured(verdict, io::stdout().is_terminal() && !is_off)
}

fn coloured(verdict: &str, is_on: bool) -> String {
    let style: Style = match verdict {
        "spam" => AnsiColor::Red.on_default().bold(),
        "bulk" => AnsiColor::Yellow.on_default(),
        "ham" => AnsiColor::Green.on_default(),
        _ => return verdict.to_owned(),
    };
    if is_on { format!("{style}{verdict}{style:#}") } else { verdict.to_owned() }
}

/// Escapes control characters and invisible characters, so that text from a message can neither control the terminal
/// nor imitate our output.
pub fn printable(text: &str) -> String {
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

/// Returns true for zero-width characters, line separators and characters that change the text direction.
fn is_invisible(char: char) -> bool {
    matches!(char,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_have_colours_only_on_a_terminal() {
        assert_eq!(coloured("spam", false), "spam");
        assert_eq!(coloured("ham", true), "\u{1b}[32mham\u{1b}[0m");
        assert_eq!(coloured("unknown", true), "unknown");
    }

    #[test]
    fn nothing_acts_on_a_terminal() {
        assert_eq!(printable("a\x1b[2J\u{9b}1m\r\n\u{202e}b ä免"), "a\\u{1b}[2J\\u{9b}1m\\u{d}\\u{a}\\u{202e}b ä免");
    }
}
