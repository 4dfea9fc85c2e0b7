//! Frames: request boundaries in the bytes of a connection.
//!
//! The first byte of a line determines the kind of frame. A line that begins with `-` starts a batch, which ends with a
//! line consisting of `.`. Any other line is a single request. If a value in the first line of a batch is a bare `*`,
//! the frame is a blob: all bytes up to CR LF `.` CR LF are that value. Lines may end in a bare LF. The end of a blob
//! needs CR LF, because LF `.` LF can occur in a mail.
//!
//! Bytes may arrive in pieces of any size. For each piece, at most one line is scanned again.

use memchr::{memchr, memmem};

use super::sis;

/// Maximum length of a line, including its line ending. Clients send lines of up to about 300 bytes.
pub const LINE_BYTES_MAX: usize = 4 * 1024;

/// Maximum number of requests in a batch, announced by the server as `bql`. Their replies fit into
/// [`REPLY_BYTES_MAX`](super::REPLY_BYTES_MAX).
pub const BATCH_LINES_MAX: usize = 50;

/// Maximum size of a batch. Fifty checks take 3,000 bytes.
pub const BATCH_BYTES_MAX: usize = 16 * 1024;

/// Blob size in KiB, announced by the server as `bqs`. Clients split reports into blobs below this size.
pub(super) const BLOB_KIB: usize = 128;

/// Maximum size of a blob. The margin allows for the way in which clients compute the size.
pub const BLOB_BYTES_MAX: usize = (BLOB_KIB + 4) * 1024;

/// Maximum number of bytes per call of `receive`.
pub const RECEIVE_BYTES_MAX: usize = 16 * 1024;

/// Maximum number of buffered bytes: a blob with its first line, and the bytes after its end that one call of `receive`
/// can add.
const WAITING_BYTES_MAX: usize = LINE_BYTES_MAX + BLOB_BYTES_MAX + BLOB_END.len() + RECEIVE_BYTES_MAX;

const BLOB_END: &[u8] = b"\r\n.\r\n";

/// Buffer capacity kept between frames. Most clients' requests fit into it.
const KEPT_BYTES_MAX: usize = 4 * 1024;

/// One unit of client input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame<'a> {
    /// A line, without its line ending.
    Single(&'a [u8]),
    /// The lines of a batch with their line endings, without the leading `-` and the final `.`.
    Batch(&'a [u8]),
    /// A blob: its first line without `-` and line ending, and its bytes.
    Blob(&'a [u8], &'a [u8]),
}

/// Reason why the input is not a frame. The bytes that follow cannot be interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    #[error("line is longer than {LINE_BYTES_MAX} bytes")]
    LineTooLong,
    #[error("batch is longer than {BATCH_LINES_MAX} lines or {BATCH_BYTES_MAX} bytes")]
    BatchTooLong,
    #[error("blob is longer than {BLOB_BYTES_MAX} bytes")]
    BlobTooLong,
    #[error("more than {WAITING_BYTES_MAX} bytes received from a client that did not wait for a reply")]
    Flood,
}

/// A decoder that finds frames in bytes that arrive in pieces.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    buffer: Vec<u8>,
    /// Start of the frame that is being received.
    start: usize,
    /// Number of bytes after `start` that have been scanned.
    scanned: usize,
    progress: Progress,
    error: Option<FrameError>,
}

/// The state of the frame at the start of the buffer.
#[derive(Clone, Copy, Debug, Default)]
enum Progress {
    /// The kind of frame is not known yet.
    #[default]
    Start,
    /// A batch with this many lines so far.
    Batch { lines: usize },
    /// A blob whose bytes begin at this offset.
    Blob { head_bytes: usize },
}

impl Decoder {
    /// Buffers received bytes, at most [`RECEIVE_BYTES_MAX`].
    pub(super) fn receive(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        if self.buffer.len() + bytes.len() > WAITING_BYTES_MAX {
            self.error = Some(FrameError::Flood);
            return;
        }
        // Grow in steps instead of doubling, because buffered memory is charged to the sender.
        if self.buffer.capacity() - self.buffer.len() < bytes.len() && self.buffer.len() >= KEPT_BYTES_MAX {
            self.buffer.reserve_exact(bytes.len().max(RECEIVE_BYTES_MAX));
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Frees memory that only long frames need.
    pub(super) fn shrink(&mut self) {
        if !self.has_more() && self.buffer.capacity() > KEPT_BYTES_MAX {
            *self = Self { progress: self.progress, ..Self::default() };
        }
    }

    /// Returns the memory used by the buffer.
    pub(super) const fn held_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    /// Returns the received bytes of a frame whose kind is not yet known.
    pub(super) fn beginning(&self) -> Option<&[u8]> {
        matches!(self.progress, Progress::Start).then(|| self.waiting())
    }

    /// Returns true if the first line of a blob has been received, but not the end of the blob.
    pub(super) const fn is_in_blob(&self) -> bool {
        matches!(self.progress, Progress::Blob { .. })
    }

    /// Returns true if there are bytes after the frame that was returned last, or if the input is invalid.
    pub(super) fn has_more(&self) -> bool {
        self.buffer.len() > self.start || self.error.is_some()
    }

    /// Returns the next frame, or `None` if it is incomplete.
    ///
    /// # Errors Returns [`FrameError`] if the input is invalid. Then no further frame can be decoded.
    pub(super) fn next(&mut self) -> Result<Option<Frame<'_>>, FrameError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        loop {
            let step = match self.progress {
                Progress::Blob { head_bytes } => return self.find_blob_end(head_bytes),
                Progress::Start | Progress::Batch { .. } => self.find_line(),
            };
            match step {
                Err(error) => return Err(*self.error.insert(error)),
                Ok(None) => return Ok(None),
                Ok(Some(Line { bytes, is_last: false })) => self.scanned += bytes,
                Ok(Some(Line { bytes, is_last: true })) => return Ok(Some(self.take(bytes))),
            }
        }
    }

    /// Returns the bytes of the frame that is being received.
    fn waiting(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Scans the next line of a single request or batch.
    fn find_line(&mut self) -> Result<Option<Line>, FrameError> {
        let rest = self.waiting().get(self.scanned..).unwrap_or_default();
        let within = rest.get(..LINE_BYTES_MAX).unwrap_or(rest);
        let Some(place) = memchr(b'\n', within) else {
            return if rest.len() < LINE_BYTES_MAX { Ok(None) } else { Err(FrameError::LineTooLong) };
        };
        let bytes = place + 1;
        let line = sis::strip_line_end(within.get(..bytes).unwrap_or_default());
        let (is_last, progress) = match self.progress {
            Progress::Start => match line.strip_prefix(b"-") {
                None => (true, Progress::Start),
                Some(head) if is_blob_head(head) => (false, Progress::Blob { head_bytes: bytes }),
                Some(_) => (false, Progress::Batch { lines: 1 }),
            },
            Progress::Batch { lines } => (line == b".", Progress::Batch { lines: lines + 1 }),
            blob @ Progress::Blob { .. } => (false, blob),
        };
        if !is_last && self.is_too_long(bytes, progress) {
            return Err(FrameError::BatchTooLong);
        }
        self.progress = progress;
        Ok(Some(Line { bytes, is_last }))
    }

    /// Returns true if another line of this length would exceed the limits of a batch. A batch with a template has one
    /// more line than it has requests.
    fn is_too_long(&self, bytes: usize, progress: Progress) -> bool {
        matches!(progress, Progress::Batch { lines } if lines > BATCH_LINES_MAX + 1 || self.scanned + bytes > BATCH_BYTES_MAX)
    }

    /// Returns the frame whose last line has this length.
    fn take(&mut self, bytes: usize) -> Frame<'_> {
        let is_batch = matches!(self.progress, Progress::Batch { .. });
        let (start, lines_end, end) = (self.start, self.start + self.scanned, self.start + self.scanned + bytes);
        self.begin_at(end);
        if is_batch {
            // The first byte is the `-`.
            return Frame::Batch(self.buffer.get(start + 1..lines_end).unwrap_or_default());
        }
        Frame::Single(sis::strip_line_end(self.buffer.get(start..end).unwrap_or_default()))
    }

    fn find_blob_end(&mut self, head_bytes: usize) -> Result<Option<Frame<'_>>, FrameError> {
        let most = head_bytes + BLOB_BYTES_MAX + BLOB_END.len();
        let waiting = self.waiting();
        let within = waiting.get(..most).unwrap_or(waiting);
        let Some(place) = memmem::find(within.get(self.scanned..).unwrap_or_default(), BLOB_END) else {
            if within.len() == most {
                return Err(*self.error.insert(FrameError::BlobTooLong));
            }
            // The last bytes may be the beginning of the end marker.
            self.scanned = within.len().saturating_sub(BLOB_END.len() - 1).max(head_bytes);
            return Ok(None);
        };
        let (head, body_end) = (self.start + head_bytes, self.start + self.scanned + place);
        let start = self.start + 1;
        self.begin_at(body_end + BLOB_END.len());
        let line = sis::strip_line_end(self.buffer.get(start..head).unwrap_or_default());
        Ok(Some(Frame::Blob(line, self.buffer.get(head..body_end).unwrap_or_default())))
    }

    fn begin_at(&mut self, start: usize) {
        self.start = start;
        self.scanned = 0;
        self.progress = Progress::Start;
    }
}

/// A complete line.
struct Line {
    bytes: usize,
    is_last: bool,
}

/// Returns true if a line announces a blob as the value of one of its keys.
fn is_blob_head(line: &[u8]) -> bool {
    sis::raw_pairs(line).any(|(_, value)| value == b"*")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats the frames in `pieces`.
    fn frames<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> Result<Vec<String>, FrameError> {
        let mut decoder = Decoder::default();
        let mut found = Vec::new();
        for piece in pieces {
            decoder.receive(piece);
            while let Some(frame) = decoder.next()? {
                found.push(match frame {
                    Frame::Single(line) => format!("single {}", line.escape_ascii()),
                    Frame::Batch(lines) => format!("batch {}", lines.escape_ascii()),
                    Frame::Blob(head, bytes) => format!("blob {} {}", head.escape_ascii(), bytes.escape_ascii()),
                });
            }
        }
        Ok(found)
    }

    fn in_pieces(bytes: &[u8]) -> Result<Vec<String>, FrameError> {
        frames(bytes.chunks(RECEIVE_BYTES_MAX))
    }

    const ALL_FORMS: &[u8] =
        b"cn=x\r\n-a=c\r\na=d\n.\r\na=q\n-\r\n.\r\n-a=r&m=*\r\nh\n.\n\r\n\r\n.\r\n-a=r&m=*\n\r\n.\r\n\r\n";

    #[test]
    fn the_first_byte_decides_what_a_frame_is() {
        let expected = [
            r"single cn=x",
            r"batch a=c\r\na=d\n",
            r"single a=q",
            r"batch \r\n",
            r"blob a=r&m=* h\n.\n\r\n",
            r"blob a=r&m=* ",
            r"single ",
        ];
        assert_eq!(in_pieces(ALL_FORMS).unwrap(), expected);
    }

    #[test]
    fn pieces_of_any_size_give_the_same_frames() {
        let whole = in_pieces(ALL_FORMS);
        for size in 1..ALL_FORMS.len() {
            assert_eq!(frames(ALL_FORMS.chunks(size)), whole, "{size}");
        }
    }

    #[test]
    fn an_incomplete_frame_is_waited_for() {
        for incomplete in ["", "a=c", "-a=c\r\na=d\r\n", "-a=c\r\n..\r\n", "-a=r&m=*\r\n\n.\n", "-a=r&m=*\r\n.\r\n"] {
            assert_eq!(in_pieces(incomplete.as_bytes()), Ok(vec![]), "{incomplete:?}");
        }
    }

    #[test]
    fn lines_are_bounded() {
        let line = |bytes: usize| [&vec![b'x'; bytes - 1][..], b"\n"].concat();
        assert_eq!(in_pieces(&line(LINE_BYTES_MAX)).map(|frames| frames.len()), Ok(1));
        assert_eq!(in_pieces(&line(LINE_BYTES_MAX + 1)), Err(FrameError::LineTooLong));
        assert_eq!(in_pieces(&[b'x'; LINE_BYTES_MAX - 1]), Ok(vec![]));
        assert_eq!(in_pieces(&[b'x'; LINE_BYTES_MAX]), Err(FrameError::LineTooLong));
    }

    #[test]
    fn batches_are_bounded() {
        let batch = |lines: usize| [b"-", &b"a=c\n".repeat(lines)[..], b".\n"].concat();
        assert_eq!(in_pieces(&batch(BATCH_LINES_MAX + 1)).map(|frames| frames.len()), Ok(1));
        assert_eq!(in_pieces(&batch(BATCH_LINES_MAX + 2)), Err(FrameError::BatchTooLong));
        let long = |last: usize| [b"-", &b"x".repeat(4094)[..], b"\n", &b"x".repeat(last - 1), b"\n"].concat();
        let quarter = [&b"x".repeat(4095)[..], b"\n"].concat();
        let most = [&long(4096)[..], &quarter, &quarter, b".\n"].concat();
        assert_eq!(most.len(), BATCH_BYTES_MAX + 2);
        assert_eq!(in_pieces(&most).map(|frames| frames.len()), Ok(1));
        let more = [&most[..most.len() - 2], b"\n.\n"].concat();
        assert_eq!(in_pieces(&more), Err(FrameError::BatchTooLong));
    }

    #[test]
    fn blobs_are_bounded() {
        let blob = |bytes: usize| [b"-m=*\r\n", &vec![b'x'; bytes][..], b"\r\n.\r\n"].concat();
        assert_eq!(in_pieces(&blob(BLOB_BYTES_MAX)).map(|frames| frames.len()), Ok(1));
        assert_eq!(in_pieces(&blob(BLOB_BYTES_MAX + 1)), Err(FrameError::BlobTooLong));
    }

    #[test]
    fn bytes_received_while_an_action_is_pending_are_bounded() {
        let mut decoder = Decoder::default();
        let line = [&b"x".repeat(1023)[..], b"\n"].concat();
        for _ in 0..WAITING_BYTES_MAX / line.len() {
            decoder.receive(&line);
        }
        assert!(decoder.error.is_none());
        decoder.receive(&line);
        assert_eq!(decoder.next(), Err(FrameError::Flood));
        assert!(decoder.has_more() && decoder.buffer.len() <= WAITING_BYTES_MAX);
    }
}
