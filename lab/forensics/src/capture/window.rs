//! The part of the input that is in memory.

use std::io::{self, ErrorKind, Read};

/// Number of bytes read at once. If a part is longer, the buffer grows to the length of the part. The caller has
/// checked that length against a limit.
const BUFFER_BYTES: usize = 256 * 1024;

/// A window into the bytes of a reader, which grows if necessary.
#[derive(Debug)]
pub(super) struct Window<R> {
    input: R,
    buffer: Vec<u8>,
    /// Start and end of the unread bytes in the buffer.
    start: usize,
    end: usize,
    /// Offset of `start` in the input.
    position: u64,
}

impl<R> Window<R> {
    pub(super) const fn position(&self) -> u64 {
        self.position
    }

    #[cfg(test)]
    pub(super) const fn capacity(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the buffered bytes that have not been taken yet.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Takes up to `bytes` of the buffered bytes.
    pub(super) fn take(&mut self, bytes: usize) -> &[u8] {
        let from = self.start;
        self.start = self.end.min(from + bytes);
        self.position += (self.start - from) as u64;
        &self.buffer[from..self.start]
    }
}

impl<R: Read> Window<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, position: 0 }
    }

    /// Reads until `bytes` are buffered or the input ends. Returns true if they are buffered.
    pub(super) fn has(&mut self, bytes: usize) -> io::Result<bool> {
        if self.end - self.start >= bytes {
            return Ok(true);
        }
        self.make_room(bytes);
        while self.end < bytes {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Moves the unread bytes to the front, and ensures that the buffer has room for `bytes`.
    fn make_room(&mut self, bytes: usize) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
    }
}
