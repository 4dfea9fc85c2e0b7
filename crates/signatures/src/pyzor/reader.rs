//! Line reader.

use std::borrow::Cow;

use memchr::memchr2;

use super::boundary::Boundary;
use super::header::is_blank;

/// Reads a message line by line, stopping where an enclosing part ends.
pub(super) struct Reader<'a> {
    message: &'a [u8],
    at: usize,
    /// A line to return before the line at `at`.
    put_back: Option<&'a [u8]>,
    /// Number of enclosing parts that end at a blank line.
    blank_line_ends: usize,
    /// Boundaries that end the other enclosing parts.
    boundaries: Vec<Boundary>,
}

impl<'a> Reader<'a> {
    /// Creates a reader at the start of `message`.
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { message, at: 0, put_back: None, blank_line_ends: 0, boundaries: Vec::new() }
    }

    /// Returns the next line including its end (CR, LF or both), or `None` at the end of an enclosing part or the
    /// message.
    pub(super) fn peek(&self) -> Option<&'a [u8]> {
        if self.put_back.is_some() {
            return self.put_back;
        }
        let rest = self.message.get(self.at..).unwrap_or_default();
        let line = first_line(rest);
        (!line.is_empty() && !self.is_end(line)).then_some(line)
    }

    /// Advances past `line`, which was returned by `peek`.
    pub(super) fn advance(&mut self, line: &[u8]) {
        if self.put_back.take().is_none() {
            self.at += line.len();
        }
    }

    /// Returns the start of the next line.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Returns the bytes from `start` to `end`.
    pub(super) fn between(&self, start: usize, end: usize) -> &'a [u8] {
        self.message.get(start..end).unwrap_or_default()
    }

    /// Makes `line` the next line. It must be neither blank nor a boundary, so no part ends there.
    pub(super) fn put_back(&mut self, line: &'a [u8]) {
        self.put_back = Some(line);
    }

    /// Returns the current position, for [`Self::since`].
    pub(super) fn mark(&self) -> Mark<'a> {
        Mark { put_back: self.put_back, at: self.at }
    }

    /// Returns all bytes read since `mark`.
    pub(super) fn since(&self, mark: &Mark<'a>) -> Cow<'a, [u8]> {
        let rest = self.between(mark.at, self.at);
        mark.put_back.map_or(Cow::Borrowed(rest), |line| Cow::Owned([line, rest].concat()))
    }

    /// Skips the next line, if there is one.
    pub(super) fn skip_line(&mut self) {
        if let Some(line) = self.peek() {
            self.advance(line);
        }
    }

    /// Skips to the end of the enclosing part.
    pub(super) fn skip_to_end(&mut self) {
        self.put_back = None;
        if self.blank_line_ends == 0 && self.boundaries.is_empty() {
            self.at = self.message.len();
        }
        while let Some(line) = self.peek() {
            self.advance(line);
        }
    }

    /// Begins a part that ends at a blank line.
    pub(super) fn enter_block(&mut self) {
        self.blank_line_ends += 1;
    }

    /// Ends the latest part that ends at a blank line.
    pub(super) fn leave_block(&mut self) {
        self.blank_line_ends -= 1;
    }

    /// Begins a part that ends at `boundary`.
    pub(super) fn enter_part(&mut self, boundary: Boundary) {
        self.boundaries.push(boundary);
    }

    /// Ends the latest part that ends at a boundary.
    pub(super) fn leave_part(&mut self) {
        self.boundaries.pop();
    }

    /// Returns true if `line` ends an enclosing part.
    fn is_end(&self, line: &[u8]) -> bool {
        if self.blank_line_ends > 0 && is_blank(line) {
            return true;
        }
        line.starts_with(b"--") && self.boundaries.iter().any(|boundary| boundary.find(line).is_some())
    }
}

/// A position in a message.
pub(super) struct Mark<'a> {
    put_back: Option<&'a [u8]>,
    at: usize,
}

/// Returns the first line, including its end.
fn first_line(rest: &[u8]) -> &[u8] {
    let Some(at) = memchr2(b'\r', b'\n', rest) else { return rest };
    let end = match rest.get(at..at + 2) {
        Some(b"\r\n") => at + 2,
        _ => at + 1,
    };
    rest.get(..end).unwrap_or(rest)
}
