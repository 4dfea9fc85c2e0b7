//! Reads captures frame by frame in bounded memory. The format, pcap or pcapng, is detected from the first bytes.
//!
//! A capture is untrusted input. Every length in it is checked against a limit: [`FRAME_BYTES_MAX`] for a frame,
//! [`BLOCK_BYTES_MAX`] for a block of a pcapng file, and [`INTERFACES_MAX`] interfaces for a section. The *snaplen* in
//! the header is ignored. An invalid part causes an error with its byte offset; the frames before it are still
//! returned.
//!
//! ```
//! use bruit_forensics::capture::{Capture, CaptureError};
//! use bruit_forensics::packet::decode;
//!
//! # let mut file = Vec::new();
//! # bruit_forensics::generate::Traffic { packets: 3, ..Default::default() }.write(&mut file)?;
//! let mut capture = Capture::open(&file[..])?;
//! let mut packets = 0;
//! while let Some(frame) = capture.next_frame()? {
//!     packets += u32::from(decode(&frame).is_ok());
//! }
//! assert_eq!(packets, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod link_types;
mod pcap;
mod pcapng;
#[cfg(test)]
mod tests;
mod window;

use std::io::{self, Read};

pub use link_types::Link;
use window::Window;

/// Maximum length of a frame: libpcap's maximum snapshot length.
pub const FRAME_BYTES_MAX: usize = 256 * 1024;
/// Maximum length of a block in a pcapng file. A block that is not a frame may contain all names or secrets of a
/// session.
pub const BLOCK_BYTES_MAX: usize = 16 << 20;
/// Maximum number of interfaces in one section of a pcapng file.
pub const INTERFACES_MAX: usize = 4096;

/// Nanoseconds since 1970.
pub type Nanoseconds = u64;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// Iterator over the frames of a reader, in the order of the file.
#[derive(Debug)]
pub struct Capture<R> {
    window: Window<R>,
    format: Format,
}

#[derive(Debug)]
enum Format {
    Pcap(pcap::File),
    Pcapng(pcapng::File),
}

/// A captured frame, which may be truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Time of capture. A frame without a time has the time of the frame before it.
    pub time: Nanoseconds,
    /// Link layer of the header that the frame begins with.
    pub link: Link,
    /// Captured bytes.
    pub bytes: &'a [u8],
    /// Length on the wire.
    pub original_bytes: u32,
}

/// An error that ends the reading of a capture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The reader failed.
    #[error("reading failed")]
    Read(#[from] io::Error),
    /// The first bytes are not those of a capture.
    #[error("neither pcap nor pcapng (compressed captures must be decompressed first)")]
    NotACapture,
    /// The file ends too early.
    #[error("truncated: the part at byte {at} is incomplete")]
    Truncated {
        /// Offset of the last, incomplete part.
        at: u64,
    },
    /// A frame is longer than [`FRAME_BYTES_MAX`].
    #[error("the frame at byte {at} is {bytes} bytes long, over the limit of {FRAME_BYTES_MAX}")]
    FrameTooLong {
        /// Offset of the frame.
        at: u64,
        /// Claimed length.
        bytes: u64,
    },
    /// A block is longer than [`BLOCK_BYTES_MAX`].
    #[error("the block at byte {at} is {bytes} bytes long, over the limit of {BLOCK_BYTES_MAX}")]
    BlockTooLong {
        /// Offset of the block.
        at: u64,
        /// Claimed length.
        bytes: u64,
    },
    /// A section has more than [`INTERFACES_MAX`] interfaces.
    #[error("the block at byte {at} exceeds the limit of {INTERFACES_MAX} interfaces per section")]
    TooManyInterfaces {
        /// Offset of the block that declares one interface too many.
        at: u64,
    },
    /// A part violates the format in another way, or is not supported.
    #[error("at byte {at}: {what}")]
    Malformed {
        /// Offset of the invalid part.
        at: u64,
        /// Description of the problem.
        what: &'static str,
    },
}

impl<R: Read> Capture<R> {
    /// Opens a capture, whose format is detected from its first bytes. `input` need not be buffered.
    ///
    /// # Errors
    /// [`CaptureError`] if the first bytes are not those of a capture.
    pub fn open(input: R) -> Result<Self, CaptureError> {
        let mut window = Window::new(input);
        let format = match pcapng::File::open(&mut window)? {
            Some(file) => Format::Pcapng(file),
            None => Format::Pcap(pcap::File::open(&mut window)?),
        };
        Ok(Self { window, format })
    }

    /// Returns the next frame, borrowed from the buffer, or `None` at the end.
    ///
    /// # Errors
    /// [`CaptureError`] if the next part is invalid. Later parts cannot be read.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, CaptureError> {
        match &mut self.format {
            Format::Pcap(file) => file.next_frame(&mut self.window),
            Format::Pcapng(file) => file.next_frame(&mut self.window),
        }
    }

    /// Returns the number of bytes read from the input, for progress bars.
    pub const fn position(&self) -> u64 {
        self.window.position()
    }
}

/// Rejects a frame above the limit.
fn frame_within_bound(at: u64, bytes: u32) -> Result<usize, CaptureError> {
    let length = bytes as usize;
    if length <= FRAME_BYTES_MAX { Ok(length) } else { Err(CaptureError::FrameTooLong { at, bytes: bytes.into() }) }
}
