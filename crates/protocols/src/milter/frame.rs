//! Frames in bytes that arrive in pieces of any size.

use super::command::Command;

/// Maximum length of a frame's contents: the longest piece of a body that libmilter lets an MTA send. Postfix and
/// Sendmail send at most 65,536 bytes unless they are configured otherwise.
pub const FRAME_BYTES_MAX: usize = 1 << 20;

/// Maximum number of bytes per call of [`Decoder::receive`].
pub const RECEIVE_BYTES_MAX: usize = 64 * 1024;

/// Buffer capacity kept between frames. The usual frames fit into it.
pub const KEPT_BYTES_MAX: usize = 128 * 1024;

/// Length of the length field of a frame, in bytes.
const LENGTH_BYTES: usize = 4;

/// Reason why the input is not a command. Bytes after such input cannot be interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The stated length is too large.
    #[error("frame of {0} bytes, the maximum is {FRAME_BYTES_MAX}")]
    TooLong(u32),
    /// The frame has no command.
    #[error("empty frame")]
    Empty,
    /// The protocol has no such command.
    #[error("unknown command {:?}", char::from(*.0))]
    UnknownCommand(u8),
    /// The data does not fit the command.
    #[error("malformed data of command {:?}", char::from(*.0))]
    Malformed(u8),
}

/// Finds commands in bytes that arrive in pieces.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Start of the frame that is being received.
    start: usize,
    error: Option<FrameError>,
}

impl Decoder {
    /// Buffers received bytes, at most [`RECEIVE_BYTES_MAX`]. Call this only when [`next_command`](Self::next_command)
    /// has returned all commands received before.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        if self.buffer.is_empty() {
            self.buffer.shrink_to(KEPT_BYTES_MAX);
        }
        // Grow in steps instead of doubling.
        self.buffer.reserve_exact(bytes.len());
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next command, or `None` if it is incomplete.
    ///
    /// # Errors Returns [`FrameError`] if the input is invalid. Then no further command can be decoded.
    pub fn next_command(&mut self) -> Result<Option<Command<'_>>, FrameError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        match self.frame_end() {
            Err(error) => Err(*self.error.insert(error)),
            Ok(None) => Ok(None),
            Ok(Some(end)) => {
                let start = std::mem::replace(&mut self.start, end);
                let contents = self.buffer.get(start + LENGTH_BYTES..end).unwrap_or_default();
                Command::decode(contents).map(Some).inspect_err(|error| self.error = Some(*error))
            }
        }
    }

    /// Returns true if part of a frame has been received.
    #[must_use]
    pub fn is_in_frame(&self) -> bool {
        self.buffer.len() > self.start
    }

    /// Returns the memory used by the buffer.
    #[must_use]
    pub const fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Returns the end of the frame at the start of the buffer, or `None` if it is incomplete.
    fn frame_end(&self) -> Result<Option<usize>, FrameError> {
        let waiting = self.buffer.get(self.start..).unwrap_or_default();
        let Some((length, rest)) = waiting.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let stated = u32::from_be_bytes(*length);
        let length = usize::try_from(stated).map_err(|_| FrameError::TooLong(stated))?;
        match length {
            0 => Err(FrameError::Empty),
            length if length > FRAME_BYTES_MAX => Err(FrameError::TooLong(stated)),
            length if rest.len() < length => Ok(None),
            length => Ok(Some(self.start + LENGTH_BYTES + length)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(contents: &[u8]) -> Vec<u8> {
        [&u32::try_from(contents.len()).unwrap().to_be_bytes()[..], contents].concat()
    }

    /// Formats the commands in `bytes`, received in pieces of `size` bytes.
    fn commands(bytes: &[u8], size: usize) -> Result<Vec<String>, FrameError> {
        let mut decoder = Decoder::default();
        let mut found = Vec::new();
        for piece in bytes.chunks(size) {
            decoder.receive(piece);
            while let Some(command) = decoder.next_command()? {
                found.push(format!("{command:?}"));
            }
        }
        Ok(found)
    }

    #[test]
    fn pieces_of_any_size_give_the_same_commands() {
        let parts = [&b"Hmx\0"[..], b"DMi\0A\0", b"M<a@b>\0", b"T", b"LSubject\0 x\n y\0", b"N", b"Btext", b"E", b"Q"];
        let bytes: Vec<u8> = parts.iter().flat_map(|part| frame(part)).collect();
        let whole = commands(&bytes, RECEIVE_BYTES_MAX).unwrap();
        assert_eq!(whole.len(), parts.len());
        for size in 1..bytes.len() {
            assert_eq!(commands(&bytes, size).unwrap(), whole, "{size}");
        }
    }

    #[test]
    fn an_incomplete_frame_is_waited_for() {
        let bytes = frame(b"Hmx\0");
        for length in 0..bytes.len() {
            let mut decoder = Decoder::default();
            decoder.receive(&bytes[..length]);
            assert_eq!(decoder.next_command(), Ok(None), "{length}");
            assert_eq!(decoder.is_in_frame(), length > 0);
        }
    }

    #[test]
    fn frames_are_bounded() {
        let body = |bytes: usize| frame(&[b"B", &vec![b'x'; bytes - 1][..]].concat());
        assert_eq!(commands(&body(FRAME_BYTES_MAX), RECEIVE_BYTES_MAX).unwrap().len(), 1);
        let too_long = u32::try_from(FRAME_BYTES_MAX + 1).unwrap();
        // The length alone is enough to refuse the frame.
        assert_eq!(commands(&too_long.to_be_bytes(), 4), Err(FrameError::TooLong(too_long)));
        assert_eq!(commands(&[0xff; 4], 4), Err(FrameError::TooLong(u32::MAX)));
    }

    #[test]
    fn nothing_is_decoded_after_an_error() {
        let mut decoder = Decoder::default();
        decoder.receive(&[&frame(b"Z")[..], &frame(b"Q")].concat());
        assert_eq!(decoder.next_command(), Err(FrameError::UnknownCommand(b'Z')));
        assert_eq!(decoder.next_command(), Err(FrameError::UnknownCommand(b'Z')));
        let mut decoder = Decoder::default();
        decoder.receive(&[0, 0, 0, 0, 0, 0, 0, 1, b'Q']);
        assert_eq!(decoder.next_command(), Err(FrameError::Empty));
        assert_eq!(decoder.next_command(), Err(FrameError::Empty));
    }

    #[test]
    fn memory_for_a_long_frame_is_released() {
        let mut decoder = Decoder::default();
        for piece in frame(&[b"B", &vec![b'x'; FRAME_BYTES_MAX - 1][..]].concat()).chunks(RECEIVE_BYTES_MAX) {
            decoder.receive(piece);
            assert!(decoder.held_bytes() <= FRAME_BYTES_MAX + LENGTH_BYTES + RECEIVE_BYTES_MAX);
            while decoder.next_command().unwrap().is_some() {}
        }
        decoder.receive(&frame(b"Q"));
        assert!(decoder.held_bytes() <= KEPT_BYTES_MAX + RECEIVE_BYTES_MAX, "{}", decoder.held_bytes());
    }
}
