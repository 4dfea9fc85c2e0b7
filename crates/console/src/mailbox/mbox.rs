//! Reads the messages of one file.

use std::io::{self, BufRead, Read as _};

/// Maximum number of bytes of a line that are read at once.
const LINE_BYTES: u64 = 64 * 1024;

/// Beginning of a message in an mbox.
const FROM: &[u8] = b"From ";

/// One message, or only its number if it is too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece<'b> {
    /// Number of the message, starting at 1. `None` if it is the only message.
    pub(super) number: Option<u64>,
    /// Content. `None` if the message is too long.
    pub(super) bytes: Option<&'b [u8]>,
}

/// A file with one message or, if it begins with `From `, with several.
///
/// In a mailbox with several messages, an empty line before a `From ` line or at the end of the file is not part of the
/// preceding message. A file with a single message is returned unchanged.
pub(super) struct Mailbox<'b, R: ?Sized> {
    source: &'b mut R,
    limit: usize,
    message: &'b mut Vec<u8>,
    /// First line of the next message, if it has been read.
    line: Vec<u8>,
    number: u64,
    is_at_end: bool,
    is_message: bool,
}

impl<'b, R: BufRead + ?Sized> Mailbox<'b, R> {
    /// Creates a reader that reads messages of at most `limit` bytes from `source` into `message`. If `is_message` is
    /// true, the source is a single message.
    pub(super) fn new(source: &'b mut R, message: &'b mut Vec<u8>, limit: usize, is_message: bool) -> Self {
        Self { source, limit, message, line: Vec::new(), number: 0, is_at_end: false, is_message }
    }

    /// Returns the next message.
    pub(super) fn next(&mut self) -> io::Result<Option<Piece<'_>>> {
        if self.number == 0 {
            self.read_line()?;
            if self.is_message || !self.line.starts_with(FROM) {
                return self.only();
            }
        }
        if self.is_at_end {
            return Ok(None);
        }
        self.number += 1;
        let is_whole = self.read_message()?;
        let is_only = self.number == 1 && self.is_at_end;
        if !is_only {
            self.drop_separator();
        }
        let number = (!is_only).then_some(self.number);
        Ok(Some(Piece { number, bytes: is_whole.then_some(self.message) }))
    }

    /// Returns the whole source as one message, even if it is empty.
    fn only(&mut self) -> io::Result<Option<Piece<'_>>> {
        if self.is_at_end {
            return Ok(None);
        }
        self.message.clear();
        self.message.append(&mut self.line);
        let room = (self.limit + 1).saturating_sub(self.message.len()) as u64;
        self.source.take(room).read_to_end(self.message)?;
        self.is_at_end = true;
        Ok(Some(Piece { number: None, bytes: (self.message.len() <= self.limit).then_some(self.message) }))
    }

    /// Reads the rest of a message, up to the next `From ` line. Returns true if the message is within the limit.
    fn read_message(&mut self) -> io::Result<bool> {
        self.message.clear();
        let mut is_whole = true;
        // A long line is read in several pieces.
        let mut begins_line = true;
        loop {
            let is_empty = begins_line && matches!(self.line.as_slice(), b"\n" | b"\r\n");
            begins_line = self.line.ends_with(b"\n");
            is_whole = is_whole && self.message.len() + self.line.len() <= self.limit;
            if is_whole {
                self.message.append(&mut self.line);
            }
            self.read_line()?;
            if self.line.is_empty() {
                self.is_at_end = true;
                return Ok(is_whole);
            }
            if is_empty && self.line.starts_with(FROM) {
                return Ok(is_whole);
            }
        }
    }

    /// Reads a line, or the next piece of a long line.
    fn read_line(&mut self) -> io::Result<()> {
        self.line.clear();
        self.source.take(LINE_BYTES).read_until(b'\n', &mut self.line).map(|_| ())
    }

    fn drop_separator(&mut self) {
        let ends = [&b"\n\r\n"[..], b"\n\n"].into_iter().find(|end| self.message.ends_with(end));
        let extra = ends.map_or(0, |end| end.len() - 1);
        self.message.truncate(self.message.len() - extra);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the numbers and texts of the messages. A missing number is 0, and a text that is too long is `-`.
    fn read(file: &str, limit: usize) -> Vec<(u64, String)> {
        pieces(file, limit, false)
    }

    fn pieces(file: &str, limit: usize, is_message: bool) -> Vec<(u64, String)> {
        let (mut source, mut buffer, mut found) = (file.as_bytes(), Vec::new(), Vec::new());
        let mut mailbox = Mailbox::new(&mut source, &mut buffer, limit, is_message);
        while let Some(piece) = mailbox.next().unwrap() {
            let text = piece.bytes.map_or_else(|| "-".into(), |bytes| String::from_utf8(bytes.to_vec()).unwrap());
            found.push((piece.number.unwrap_or(0), text));
        }
        found
    }

    fn expect(file: &str, messages: &[(u64, &str)]) {
        let messages: Vec<_> = messages.iter().map(|&(number, text)| (number, text.to_owned())).collect();
        assert_eq!(read(file, 1000), messages, "{file:?}");
    }

    #[test]
    fn a_file_is_one_message() {
        expect("a: b\n\nFrom c\n\nFrom d\n\n", &[(0, "a: b\n\nFrom c\n\nFrom d\n\n")]);
        expect("From a\nb\n\n", &[(0, "From a\nb\n\n")]);
        expect("", &[(0, "")]);
        expect("\n", &[(0, "\n")]);
    }

    #[test]
    fn what_is_known_to_be_one_message_is_not_cut() {
        for text in ["From a\nx\n\nFrom b\ny\n", "", "From a\n\nFrom b\n\nFrom c"] {
            assert_eq!(pieces(text, 1000, true), [(0, text.to_owned())]);
        }
        assert_eq!(pieces("From a\n\nFrom b\n", 14, true), [(0, "-".to_owned())]);
    }

    #[test]
    fn an_mbox_is_cut_at_from_lines_that_follow_an_empty_one() {
        expect(
            "From a\nx\nFrom here\n\n>From y\n\nFrom b\r\n\r\nFrom c\n\n",
            &[(1, "From a\nx\nFrom here\n\n>From y\n"), (2, "From b\r\n"), (3, "From c\n")],
        );
        expect("From a\n\nFrom ", &[(1, "From a\n"), (2, "From ")]);
        expect("From a\n\nFromage\n\n From b\n", &[(0, "From a\n\nFromage\n\n From b\n")]);
    }

    #[test]
    fn a_message_at_the_limit_is_read_and_a_longer_one_left_out() {
        assert_eq!(read("12345", 5), [(0, "12345".into())]);
        assert_eq!(read("123456", 5), [(0, "-".into())]);
        let longest = format!("From {}\n", "x".repeat(10));
        let file = format!("{longest}\nFrom {}\n\n{longest}", "x".repeat(20));
        assert_eq!(read(&file, 17), [(1, longest.clone()), (2, "-".into()), (3, longest)]);
    }

    #[test]
    fn long_lines_are_no_lines_of_their_own_where_they_are_cut() {
        let line = format!("From {}\n\n{}From x\n", "y".repeat(70_000), "z".repeat(LINE_BYTES as usize));
        assert_eq!(read(&line, 1 << 20), [(0, line)]);
    }
}
