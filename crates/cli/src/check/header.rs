//! `--header`: copies the message from standard input to standard output, with the verdict in a header field.
//!
//! The field is written at the top of the header. Existing fields of the same name are removed, because a sender may
//! have forged them. All other bytes are copied unchanged. If a message cannot be checked, the field gives the reason.

use std::io::{self, Read, Write};

use anyhow::Context as _;
use bruit_client::ClientError;
use bruit_client::http::Checked;

use super::{CheckAnswer, CheckResult, Checker};
use crate::remote::machine_word;
use bruit_console::Failure;
use bruit_console::mailbox::MESSAGE_BYTES_MAX;
use bruit_console::terminal::complain;

/// Name of the header field.
const NAME: &str = "X-Bruit";

/// Checks the message on standard input and writes it to `output`.
pub(super) fn run(question: Result<Checker, Failure>, output: &mut impl Write) -> Result<(), Failure> {
    let mut input = io::stdin().lock();
    let mut message = Vec::new();
    let read = input.by_ref().take(MESSAGE_BYTES_MAX as u64 + 1).read_to_end(&mut message);
    read.context("failed to read the message").map_err(Failure::Other)?;
    let value = match question {
        _ if message.len() > MESSAGE_BYTES_MAX => "unchecked; reason=too_long".to_owned(),
        Ok(question) => value(&question.ask(&message)),
        // The message must not be lost, even if the arguments are invalid.
        Err(failure) => {
            complain(&failure.line().unwrap_or_default());
            "unchecked; reason=arguments".to_owned()
        }
    };
    let written = write(&message, &value, output).and_then(|()| {
        io::copy(&mut input, output)?;
        output.flush()
    });
    // A closed output means that the message was lost, so the caller must see an error.
    written.context("failed to write the message back").map_err(Failure::Other)
}

/// Returns the value of the field.
fn value(answer: &CheckResult) -> String {
    match answer {
        Ok(CheckAnswer { checked: Checked { verdict, reason, confidence, .. }, .. }) => {
            format!("{verdict}; confidence={confidence}; reason={}", machine_word(reason.as_str()))
        }
        Err(error) => {
            complain(&error.to_string());
            format!("unchecked; reason={}", reason(error))
        }
    }
}

const fn reason(error: &ClientError) -> &'static str {
    match error {
        ClientError::TimedOut { .. } => "timed_out",
        ClientError::Unreachable { .. } => "unreachable",
        ClientError::Refused { .. } => "refused",
        _ => "malformed",
    }
}

/// Writes a message with the field at the top of its header, below a leading `From ` line.
fn write(message: &[u8], value: &str, output: &mut impl Write) -> io::Result<()> {
    let (envelope, rest) = match message.starts_with(b"From ") {
        true => message.split_at(line_length(message)),
        false => (&[][..], message),
    };
    let end = line_end(message);
    output.write_all(envelope)?;
    if !envelope.is_empty() && !envelope.ends_with(b"\n") {
        output.write_all(end)?;
    }
    write!(output, "{NAME}: {value}")?;
    output.write_all(end)?;
    if !begins_with_header(rest) {
        // Without an empty line, a mail reader would parse the first line of the text as a field, or as a continuation
        // of the X-Bruit field.
        output.write_all(end)?;
        return output.write_all(rest);
    }
    write_without_field(rest, output)
}

/// Writes a message without its existing X-Bruit fields. The header extends to the first empty line, as it does for the
/// most tolerant mail readers. If we stopped earlier, such a reader could find a forged field in the
/// rest of the header.
fn write_without_field(message: &[u8], output: &mut impl Write) -> io::Result<()> {
    let mut rest = message;
    let mut is_dropped = false;
    while !rest.is_empty() && !is_empty(rest) {
        let (line, behind) = rest.split_at(line_length(rest));
        is_dropped = if is_continuation(line) { is_dropped } else { is_ours(line) };
        if !is_dropped {
            output.write_all(line)?;
        }
        rest = behind;
    }
    output.write_all(rest)
}

/// Returns true if the message begins with a field, or with the empty line that ends an empty header. Lines
/// that begin with `From ` or `>From `, which some mail programs leave above the header, are skipped.
fn begins_with_header(message: &[u8]) -> bool {
    let mut rest = message;
    while rest.starts_with(b"From ") || rest.starts_with(b">From ") {
        (_, rest) = rest.split_at(line_length(rest));
    }
    rest.is_empty() || is_empty(rest) || is_field(rest)
}

/// Returns true if a line begins with a field name and a colon.
fn is_field(line: &[u8]) -> bool {
    let name = line.iter().take_while(|byte| byte.is_ascii_graphic() && **byte != b':').count();
    name > 0 && line.get(name..).unwrap_or_default().trim_ascii_start().starts_with(b":")
}

fn is_ours(line: &[u8]) -> bool {
    let (name, rest) = line.split_at_checked(NAME.len()).unwrap_or_default();
    name.eq_ignore_ascii_case(NAME.as_bytes()) && rest.trim_ascii_start().starts_with(b":")
}

fn is_continuation(line: &[u8]) -> bool {
    matches!(line.first(), Some(b' ' | b'\t'))
}

/// Returns true if the next line is empty.
fn is_empty(rest: &[u8]) -> bool {
    rest.starts_with(b"\n") || rest.starts_with(b"\r\n")
}

/// Returns the length of the first line, including its line ending.
fn line_length(bytes: &[u8]) -> usize {
    bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |end| end + 1)
}

/// Returns the line ending of a message, taken from its first line.
fn line_end(message: &[u8]) -> &'static [u8] {
    let first = message.get(..line_length(message)).unwrap_or_default();
    if first.ends_with(b"\r\n") { b"\r\n" } else { b"\n" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(message: &str) -> String {
        let mut output = Vec::new();
        write(message.as_bytes(), "ham", &mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn lines_that_programs_leave_above_the_header_do_not_end_it() {
        assert_eq!(written(">From a Mon\nA: b\n\ntext\n"), "X-Bruit: ham\n>From a Mon\nA: b\n\ntext\n");
        assert_eq!(written("only text\nand more\n\nA: b\n"), "X-Bruit: ham\n\nonly text\nand more\n\nA: b\n");
    }

    #[test]
    fn the_field_comes_first() {
        assert_eq!(written("A: b\n\nX-Bruit: text\n"), "X-Bruit: ham\nA: b\n\nX-Bruit: text\n");
        assert_eq!(written("A: b\r\n\r\ntext"), "X-Bruit: ham\r\nA: b\r\n\r\ntext");
        assert_eq!(written("From x Mon\nA: b\n\ntext\n"), "From x Mon\nX-Bruit: ham\nA: b\n\ntext\n");
        assert_eq!(written("From x Mon\r\nA: b"), "From x Mon\r\nX-Bruit: ham\r\nA: b");
        assert_eq!(written("\ntext"), "X-Bruit: ham\n\ntext");
        assert_eq!(written(""), "X-Bruit: ham\n");
        assert_eq!(written("From x"), "From x\nX-Bruit: ham\n");
    }

    #[test]
    fn forged_fields_go_with_their_continuations() {
        for forged in ["X-Bruit: no\n", "x-bruit : no\n more\n\tand more\n", "X-BRUIT\t:\n", "X-Bruit: a\nX-Bruit: b\n"]
        {
            assert_eq!(
                written(&format!("{forged}A: b\n c\n\ntext\n")),
                "X-Bruit: ham\nA: b\n c\n\ntext\n",
                "{forged:?}"
            );
            assert_eq!(
                written(&format!("A: b\n c\n{forged}D: e\n\n")),
                "X-Bruit: ham\nA: b\n c\nD: e\n\n",
                "{forged:?}"
            );
        }
        // Some mail readers skip lines that are not fields, and read fields up to the first empty line.
        assert_eq!(written("A: b\nno field\nX-Bruit: no\n\n"), "X-Bruit: ham\nA: b\nno field\n\n");
        assert_eq!(written("X-Bruited: b\nX-Bruit: no"), "X-Bruit: ham\nX-Bruited: b\n");
    }

    #[test]
    fn a_text_without_a_header_stays_one() {
        assert_eq!(written("text\nX-Bruit: text\n"), "X-Bruit: ham\n\ntext\nX-Bruit: text\n");
        assert_eq!(written(" folded: x\nA: b\n\n"), "X-Bruit: ham\n\n folded: x\nA: b\n\n");
    }
}
