//! A writer of captures.

use std::io::{self, Write};

use crate::capture::Nanoseconds;

const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const SNAPSHOT_BYTES: u32 = 262_144;
const LINK_ETHERNET: u32 = 1;
const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// Writes Ethernet frames to a pcap file with nanosecond timestamps.
#[derive(Debug)]
pub struct CaptureWriter<W>(W);

impl<W: Write> CaptureWriter<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// An error if writing to `output` fails.
    pub fn new(mut output: W) -> io::Result<Self> {
        let mut header = Vec::with_capacity(24);
        header.extend_from_slice(&MAGIC_NANOSECONDS.to_le_bytes());
        header.extend_from_slice(&[2, 0, 4, 0]);
        header.extend_from_slice(&[0; 8]);
        header.extend_from_slice(&SNAPSHOT_BYTES.to_le_bytes());
        header.extend_from_slice(&LINK_ETHERNET.to_le_bytes());
        output.write_all(&header)?;
        Ok(Self(output))
    }

    /// Writes a frame.
    ///
    /// # Errors
    /// An error if writing to the output fails.
    pub fn write(&mut self, time: Nanoseconds, frame: &[u8]) -> io::Result<()> {
        let (seconds, nanoseconds) = (time / NANOSECONDS_PER_SECOND, time % NANOSECONDS_PER_SECOND);
        let length = frame.len() as u32;
        let mut header = [0; 16];
        for (field, value) in header.chunks_mut(4).zip([seconds as u32, nanoseconds as u32, length, length]) {
            field.copy_from_slice(&value.to_le_bytes());
        }
        self.0.write_all(&header)?;
        self.0.write_all(frame)
    }

    /// Flushes and returns the output.
    ///
    /// # Errors
    /// An error if flushing the output fails.
    pub fn finish(mut self) -> io::Result<W> {
        self.0.flush()?;
        Ok(self.0)
    }
}
