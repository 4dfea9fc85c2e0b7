//! Captures, frame by frame: pcap or pcapng, whichever the bytes say, in bounded memory.
//!
//! A capture is a stranger's file. No length in it is believed before it was compared with a bound: a frame has at most
//! [`FRAME_BYTES_MAX`] bytes, a block of a pcapng file [`BLOCK_BYTES_MAX`], and a section [`INTERFACES_MAX`] interfaces. The
//! *snaplen* of the header decides nothing. What breaks a rule is an error that names the byte at which it happened;
//! frames before it were given out already.
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

mod link;
mod pcap;
mod pcapng;
#[cfg(test)]
mod tests;
mod window;

use std::io::{self, Read};

pub use link::Link;
use window::Window;

/// The longest frame: what libpcap calls the largest sensible snapshot.
pub const FRAME_BYTES_MAX: usize = 256 * 1024;
/// The longest block of a pcapng file; those that are no frames may have names or secrets of a whole session in them.
pub const BLOCK_BYTES_MAX: usize = 16 << 20;
/// The most interfaces of one section of a pcapng file.
pub const INTERFACES_MAX: usize = 4096;

/// Nanoseconds since 1970.
pub type Nanoseconds = u64;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// Frames from a reader, in the order of the file.
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

/// What was on the wire, as much of it as was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// When it was captured. A frame without a time has its predecessor's.
    pub time: Nanoseconds,
    /// What its first bytes are.
    pub link: Link,
    /// What was kept of it.
    pub bytes: &'a [u8],
    /// How long it was on the wire.
    pub original_bytes: u32,
}

/// Why a capture cannot be read, or cannot be read further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The reader failed.
    #[error("reading failed")]
    Read(#[from] io::Error),
    /// The first bytes are none of a capture's.
    #[error("it is neither pcap nor pcapng (a compressed capture must be unpacked first)")]
    NotACapture,
    /// The file ends too early.
    #[error("it ends within what begins at byte {at}")]
    Truncated {
        /// Where the last, incomplete part begins.
        at: u64,
    },
    /// A frame above [`FRAME_BYTES_MAX`].
    #[error("the frame at byte {at} claims {bytes} bytes, and {FRAME_BYTES_MAX} are the most that is read")]
    FrameTooLong {
        /// Where it begins.
        at: u64,
        /// What it claims.
        bytes: u64,
    },
    /// A block above [`BLOCK_BYTES_MAX`].
    #[error("the block at byte {at} claims {bytes} bytes, and {BLOCK_BYTES_MAX} are the most that is read")]
    BlockTooLong {
        /// Where it begins.
        at: u64,
        /// What it claims.
        bytes: u64,
    },
    /// More than [`INTERFACES_MAX`] interfaces.
    #[error("the block at byte {at} describes one interface more than the {INTERFACES_MAX} of a section")]
    TooManyInterfaces {
        /// Where it begins.
        at: u64,
    },
    /// Anything else that the format does not allow, or that we do not know.
    #[error("at byte {at}: {what}")]
    Malformed {
        /// Where the part with the fault begins.
        at: u64,
        /// What is wrong.
        what: &'static str,
    },
}

impl<R: Read> Capture<R> {
    /// Looks at the first bytes of `input`. It need not be buffered.
    ///
    /// # Errors
    /// [`CaptureError`] if they do not begin a capture.
    pub fn open(input: R) -> Result<Self, CaptureError> {
        let mut window = Window::new(input);
        let format = match pcapng::File::open(&mut window)? {
            Some(file) => Format::Pcapng(file),
            None => Format::Pcap(pcap::File::open(&mut window)?),
        };
        Ok(Self { window, format })
    }

    /// The next frame, borrowed from the buffer; none at the end.
    ///
    /// # Errors
    /// [`CaptureError`] if what follows is no frame. There is nothing to be had behind it.
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, CaptureError> {
        match &mut self.format {
            Format::Pcap(file) => file.next_frame(&mut self.window),
            Format::Pcapng(file) => file.next_frame(&mut self.window),
        }
    }

    /// How many bytes were taken from the input, for a bar that shows progress.
    pub const fn position(&self) -> u64 {
        self.window.position()
    }
}

/// Refuses a frame above the bound.
fn frame_within_bound(at: u64, bytes: u32) -> Result<usize, CaptureError> {
    let length = bytes as usize;
    if length <= FRAME_BYTES_MAX { Ok(length) } else { Err(CaptureError::FrameTooLong { at, bytes: bytes.into() }) }
}
