//! The preprocessing of files by the client's command-line tools.

use std::borrow::Cow;

use memchr::memchr_iter;

use super::text::{head, is_false, tail};

/// Returns the messages that `razor-check` and related tools find in `file`.
///
/// If the first line begins with `From `, the file is a mailbox. Every such line begins a message and belongs to it.
/// Otherwise, the file is one message. In that case, a `>` is inserted before every line that begins with `From `, or
/// with any number of `>` and then `From `. A file that is empty or consists of a single `0` contains no message.
///
/// ```
/// use bruit_signatures::razor::command_line_messages;
///
/// let file = b"To: you\n\nFrom the heart\n";
/// assert_eq!(command_line_messages(file), [&b"To: you\n\n>From the heart\n"[..]]);
/// ```
#[must_use]
pub fn command_line_messages(file: &[u8]) -> Vec<Cow<'_, [u8]>> {
    if is_false(file) {
        Vec::new()
    } else if file.starts_with(b"From ") {
        mailbox(file)
    } else {
        vec![escape_from_lines(file)]
    }
}

/// Splits before every line that begins with `From `.
fn mailbox(file: &[u8]) -> Vec<Cow<'_, [u8]>> {
    let mut messages = Vec::new();
    let mut start = 0;
    for end in line_starts(file).skip(1).chain([file.len()]) {
        if end == file.len() || tail(file, end).starts_with(b"From ") {
            messages.push(Cow::Borrowed(tail(head(file, end), start)));
            start = end;
        }
    }
    messages
}

/// Inserts a `>` before every line that begins with `From `, or with any number of `>` and then `From `.
fn escape_from_lines(message: &[u8]) -> Cow<'_, [u8]> {
    let mut escaped = Vec::new();
    let mut copied = 0;
    for start in line_starts(message).filter(|&start| is_from_line(tail(message, start))) {
        escaped.extend_from_slice(tail(head(message, start), copied));
        escaped.push(b'>');
        copied = start;
    }
    if escaped.is_empty() {
        return Cow::Borrowed(message);
    }
    escaped.extend_from_slice(tail(message, copied));
    Cow::Owned(escaped)
}

/// Returns the starts of all lines. No line starts after a final LF.
fn line_starts(file: &[u8]) -> impl Iterator<Item = usize> {
    let length = file.len();
    [0].into_iter().chain(memchr_iter(b'\n', file).map(|newline| newline + 1)).filter(move |&start| start < length)
}

fn is_from_line(line: &[u8]) -> bool {
    let quotes = line.iter().take_while(|&&byte| byte == b'>').count();
    tail(line, quotes).starts_with(b"From ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mailbox_is_cut_at_its_from_lines() {
        let file = b"From a\nx\n\n>From y\nFrom b\nFrom c\nz";
        assert_eq!(command_line_messages(file), [&b"From a\nx\n\n>From y\n"[..], b"From b\n", b"From c\nz"]);
        assert_eq!(command_line_messages(b"From "), [&b"From "[..]]);
    }

    #[test]
    fn other_files_get_their_from_lines_escaped() {
        let file = b"a\nFrom b\n>>From c\nFrom\n From d\nFrom ";
        assert_eq!(command_line_messages(file), [&b"a\n>From b\n>>>From c\nFrom\n From d\n>From "[..]]);
        assert_eq!(command_line_messages(b">From x"), [&b">>From x"[..]]);
        assert_eq!(command_line_messages(b"\n"), [&b"\n"[..]]);
    }

    #[test]
    fn nothing_is_no_message() {
        assert!(command_line_messages(b"").is_empty());
        assert!(command_line_messages(b"0").is_empty());
        assert_eq!(command_line_messages(b"0\n"), [&b"0\n"[..]]);
    }
}
