//! The body checksum. It covers everything after the header except white space and `=`.

use md5::{Digest, Md5};
use memchr::memmem;

/// Minimum number of hashed bytes. A shorter body has no checksum.
pub(super) const BODY_BYTES_MIN: usize = 30;

/// Number of bytes hashed at once.
const CHUNK_BYTES: usize = 1024;

/// True for bytes that are hashed. This is a table because comparisons would compile to branches.
const COUNTS: [bool; 256] = counts();

#[expect(
    clippy::indexing_slicing,
    reason = "evaluated at compile time; the index is a byte, and the table has 256 entries"
)]
const fn counts() -> [bool; 256] {
    let mut counts = [true; 256];
    let mut rest: &[u8] = b" \t\r\n=";
    while let [byte, behind @ ..] = rest {
        counts[*byte as usize] = false;
        rest = behind;
    }
    counts
}

/// The escaped form of `From` at the start of a line in a mailbox. The `>` is not hashed.
const QUOTED_FROM: &[u8] = b">From";
const QUOTED_FROM_LINE: &[u8] = b"\n>From";

/// The running checksum of a body. Blanks, tabs, line ends and `=` are skipped.
pub(super) struct Body {
    hash: Md5,
    /// Number of bytes hashed.
    length: usize,
    /// True if the bytes read so far end in a line end.
    is_line_start: bool,
    chunk: [u8; CHUNK_BYTES],
}

impl Default for Body {
    fn default() -> Self {
        Self { hash: Md5::new(), length: 0, is_line_start: false, chunk: [0; CHUNK_BYTES] }
    }
}

impl Body {
    /// Adds a segment.
    pub(super) fn add(&mut self, segment: &[u8]) {
        let mut start = usize::from(self.is_line_start && segment.starts_with(QUOTED_FROM));
        for newline in memmem::find_iter(segment, QUOTED_FROM_LINE) {
            self.hash(segment.get(start..newline).unwrap_or_default());
            start = newline + 2;
        }
        self.hash(segment.get(start..).unwrap_or_default());
        self.is_line_start = segment.last().map_or(self.is_line_start, |&last| last == b'\n');
    }

    /// Returns the checksum, or `None` if the body is too short.
    pub(super) fn finish(self) -> Option<[u8; 16]> {
        (self.length >= BODY_BYTES_MIN).then(|| self.hash.finalize().into())
    }

    fn hash(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks(CHUNK_BYTES) {
            let length =
                sift(bytes, &mut self.chunk, |&byte| COUNTS.get(usize::from(byte)).is_some_and(|&counts| counts));
            self.hash.update(self.chunk.get(..length).unwrap_or_default());
            self.length += length;
        }
    }
}

/// Copies the bytes for which `kept` returns true from `text` to the start of `room`, and returns their number. `room`
/// must be at least as long as `text`.
///
/// Every byte is written, but a byte that is not kept is overwritten by the next one. A branch per byte would be slow,
/// because blanks in text are frequent and irregular.
pub(super) fn sift(text: &[u8], room: &mut [u8], kept: impl Fn(&u8) -> bool) -> usize {
    let mut length = 0;
    for byte in text {
        if let Some(place) = room.get_mut(length) {
            *place = *byte;
        }
        length += usize::from(kept(byte));
    }
    length
}
