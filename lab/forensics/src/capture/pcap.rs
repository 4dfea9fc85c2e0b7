//! The classic pcap format: a header of 24 bytes, then frames, each with its own header.

use std::io::Read;

use pcap_parser::{LegacyPcapBlock, PcapHeader, parse_pcap_header};
use pcap_parser::{parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified};

use super::{CaptureError, Frame, Link, NANOSECONDS_PER_SECOND, Window, frame_within_bound};

const HEADER_BYTES: usize = 24;
const FRAME_HEADER_BYTES: usize = 16;
/// Length of a frame header in the variant that some patched Linux kernels write.
const MODIFIED_FRAME_HEADER_BYTES: usize = 24;
const VERSION_MAJOR: u16 = 2;

/// Properties that apply to all frames, from the file header.
#[derive(Debug)]
pub(super) struct File {
    header: PcapHeader,
    link: Link,
    fraction_nanoseconds: u64,
}

impl File {
    pub(super) fn open<R: Read>(window: &mut Window<R>) -> Result<Self, CaptureError> {
        let is_complete = window.has(HEADER_BYTES)?;
        let header = match parse_pcap_header(window.waiting()) {
            Ok((_, header)) => header,
            Err(error) if error.is_incomplete() && !is_complete && !window.waiting().is_empty() => {
                return Err(CaptureError::Truncated { at: 0 });
            }
            Err(_) => return Err(CaptureError::NotACapture),
        };
        if header.version_major != VERSION_MAJOR {
            return Err(CaptureError::Malformed { at: 0, what: "unsupported pcap version, expected 2" });
        }
        window.take(HEADER_BYTES);
        // The upper 16 bits may contain the length of the frame checksum.
        let link = Link::from_number(header.network.0 as u16);
        let fraction_nanoseconds = if header.is_nanosecond_precision() { 1 } else { 1000 };
        Ok(Self { header, link, fraction_nanoseconds })
    }

    pub(super) fn next_frame<'w, R: Read>(
        &mut self,
        window: &'w mut Window<R>,
    ) -> Result<Option<Frame<'w>>, CaptureError> {
        let at = window.position();
        if !window.has(1)? {
            return Ok(None);
        }
        let header_bytes = self.frame_header_bytes();
        if !window.has(header_bytes)? {
            return Err(CaptureError::Truncated { at });
        }
        let bytes = header_bytes + frame_within_bound(at, self.captured_bytes(window.waiting()))?;
        if !window.has(bytes)? {
            return Err(CaptureError::Truncated { at });
        }
        let block = self.parse(window.take(bytes)).ok_or(CaptureError::Truncated { at })?;
        Ok(Some(self.frame(&block)))
    }

    fn frame<'w>(&self, block: &LegacyPcapBlock<'w>) -> Frame<'w> {
        let fraction = u64::from(block.ts_usec) * self.fraction_nanoseconds;
        Frame {
            time: u64::from(block.ts_sec) * NANOSECONDS_PER_SECOND + fraction,
            link: self.link,
            bytes: block.data,
            original_bytes: block.origlen,
        }
    }

    fn parse<'w>(&self, bytes: &'w [u8]) -> Option<LegacyPcapBlock<'w>> {
        let parse = match (self.header.is_modified_format(), self.header.is_bigendian()) {
            (true, _) => parse_pcap_frame_modified,
            (false, true) => parse_pcap_frame_be,
            (false, false) => parse_pcap_frame,
        };
        parse(bytes).ok().map(|(_, block)| block)
    }

    fn frame_header_bytes(&self) -> usize {
        if self.header.is_modified_format() { MODIFIED_FRAME_HEADER_BYTES } else { FRAME_HEADER_BYTES }
    }

    /// Returns the captured length, which comes after the two parts of the time.
    fn captured_bytes(&self, header: &[u8]) -> u32 {
        let field = header.get(8..12).and_then(|field| field.try_into().ok()).unwrap_or_default();
        if self.header.is_bigendian() { u32::from_be_bytes(field) } else { u32::from_le_bytes(field) }
    }
}
