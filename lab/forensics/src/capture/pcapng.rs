//! The pcapng format. A file has sections, each with its own byte order and interfaces. Each frame refers to an
//! interface.
//!
//! This module splits the file into blocks and checks every length; `pcap-parser` parses the contents of the blocks.
//! The readers of `pcap-parser` are not used, for three reasons. They lose the cause of a read error. They treat the
//! end of a block as the end of the file. They need the whole first block in the first read, which a pipe does not
//! guarantee.

use std::io::Read;

use pcap_parser::{Block, EnhancedPacketBlock, InterfaceDescriptionBlock, SimplePacketBlock};
use pcap_parser::{parse_block_be, parse_block_le};

use super::{BLOCK_BYTES_MAX, CaptureError, Frame, INTERFACES_MAX, Link, NANOSECONDS_PER_SECOND, Nanoseconds, Window};
use super::{FRAME_BYTES_MAX, frame_within_bound};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Byte-order mark of a section, as stored in either byte order. It follows the type and the length of the section's
/// first block.
const BYTE_ORDER_BIG: [u8; 4] = [0x1a, 0x2b, 0x3c, 0x4d];
const BYTE_ORDER_LITTLE: [u8; 4] = [0x4d, 0x3c, 0x2b, 0x1a];
/// Minimum length of a block: its type, its length, and its length again at the end.
const BLOCK_BYTES_MIN: usize = 12;

/// State from the blocks read so far, as needed to read later frames.
#[derive(Debug)]
pub(super) struct File {
    is_big_endian: bool,
    interfaces: Vec<Interface>,
    /// Time given to frames that have none.
    last_time: Nanoseconds,
}

#[derive(Debug)]
struct Interface {
    link: Link,
    snapshot_bytes: u32,
    clock: Clock,
}

/// Clock of an interface.
#[derive(Debug)]
struct Clock {
    tick: Tick,
    offset_seconds: i64,
}

/// Length of a clock tick.
#[derive(Clone, Copy, Debug)]
enum Tick {
    /// Nanoseconds per tick.
    Nanoseconds(u64),
    /// Ticks per nanosecond.
    PerNanosecond(u64),
    /// A tick lasts 2^−n seconds.
    Halvings(u32),
}

/// A block, completely in memory.
struct RawBlock {
    kind: u32,
    bytes: usize,
}

impl File {
    /// Opens the file. If it does not begin with a section, returns `None` and leaves the input unread.
    pub(super) fn open<R: Read>(window: &mut Window<R>) -> Result<Option<Self>, CaptureError> {
        let is_section = window.has(4)? && window.waiting().starts_with(&SECTION_HEADER.to_be_bytes());
        Ok(is_section.then(|| Self { is_big_endian: false, interfaces: Vec::new(), last_time: 0 }))
    }

    pub(super) fn next_frame<'w, R: Read>(
        &mut self,
        window: &'w mut Window<R>,
    ) -> Result<Option<Frame<'w>>, CaptureError> {
        loop {
            let at = window.position();
            let Some(RawBlock { kind, bytes }) = self.next_block(window)? else { return Ok(None) };
            match kind {
                SIMPLE_PACKET | ENHANCED_PACKET => return self.frame(at, window.take(bytes)).map(Some),
                OBSOLETE_PACKET => return Err(malformed(at, "obsolete packet block, replaced in 2009")),
                SECTION_HEADER => self.interfaces.clear(),
                INTERFACE_DESCRIPTION => self.add_interface(at, &window.waiting()[..bytes])?,
                // Names, statistics, secrets and custom blocks do not affect frames.
                _ => {}
            }
            window.take(bytes);
        }
    }

    /// Reads a whole block without parsing it.
    fn next_block<R: Read>(&mut self, window: &mut Window<R>) -> Result<Option<RawBlock>, CaptureError> {
        let at = window.position();
        if !window.has(1)? {
            return Ok(None);
        }
        if !window.has(BLOCK_BYTES_MIN)? {
            return Err(CaptureError::Truncated { at });
        }
        let (mut kind, mut length) = ([0; 4], [0; 4]);
        let head = window.waiting();
        kind.copy_from_slice(&head[..4]);
        length.copy_from_slice(&head[4..8]);
        if kind == SECTION_HEADER.to_be_bytes() {
            self.is_big_endian = is_big_endian(at, &head[8..12])?;
        }
        let whole = RawBlock { kind: self.number(kind), bytes: block_bytes(at, self.number(length))? };
        if window.has(whole.bytes)? { Ok(Some(whole)) } else { Err(CaptureError::Truncated { at }) }
    }

    const fn number(&self, bytes: [u8; 4]) -> u32 {
        if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn parse<'w>(&self, at: u64, bytes: &'w [u8]) -> Result<Block<'w>, CaptureError> {
        let parse = if self.is_big_endian { parse_block_be } else { parse_block_le };
        let (_, block) = parse(bytes).map_err(|_| malformed(at, "block parts do not match its length"))?;
        Ok(block)
    }

    fn add_interface(&mut self, at: u64, bytes: &[u8]) -> Result<(), CaptureError> {
        if self.interfaces.len() == INTERFACES_MAX {
            return Err(CaptureError::TooManyInterfaces { at });
        }
        let Block::InterfaceDescription(block) = self.parse(at, bytes)? else {
            return Err(malformed(at, "invalid interface description"));
        };
        let clock = Clock::of(&block, self.is_big_endian).ok_or_else(|| malformed(at, "clock resolution too fine"))?;
        let link = Link::from_number(block.linktype.0 as u16);
        self.interfaces.push(Interface { link, snapshot_bytes: block.snaplen, clock });
        Ok(())
    }

    fn frame<'w>(&mut self, at: u64, bytes: &'w [u8]) -> Result<Frame<'w>, CaptureError> {
        match self.parse(at, bytes)? {
            Block::EnhancedPacket(block) => self.enhanced(at, &block),
            Block::SimplePacket(block) => self.simple(at, &block),
            _ => Err(malformed(at, "invalid packet block")),
        }
    }

    fn interface(&self, at: u64, number: u32) -> Result<&Interface, CaptureError> {
        self.interfaces.get(number as usize).ok_or_else(|| malformed(at, "frame refers to an undeclared interface"))
    }

    fn enhanced<'w>(&mut self, at: u64, block: &EnhancedPacketBlock<'w>) -> Result<Frame<'w>, CaptureError> {
        let length = frame_within_bound(at, block.caplen)?;
        let bytes = block.data.get(..length).ok_or_else(|| malformed(at, "frame longer than its block"))?;
        let interface = self.interface(at, block.if_id)?;
        let (link, time) = (interface.link, interface.clock.nanoseconds(block.ts_high, block.ts_low));
        self.last_time = time;
        Ok(Frame { time, link, bytes, original_bytes: block.origlen })
    }

    /// Reads a simple packet block: a frame of the first interface, without a time. The block does not state how many
    /// bytes were captured. That number is the smallest of three lengths: the length on the wire, the interface's
    /// snapshot length, and the length of the data.
    fn simple<'w>(&self, at: u64, block: &SimplePacketBlock<'w>) -> Result<Frame<'w>, CaptureError> {
        let interface = self.interface(at, 0)?;
        let snapshot_bytes = if interface.snapshot_bytes == 0 { u32::MAX } else { interface.snapshot_bytes };
        let length = (block.origlen.min(snapshot_bytes) as usize).min(block.data.len());
        if length > FRAME_BYTES_MAX {
            return Err(CaptureError::FrameTooLong { at, bytes: length as u64 });
        }
        let bytes = &block.data[..length];
        Ok(Frame { time: self.last_time, link: interface.link, bytes, original_bytes: block.origlen })
    }
}

fn is_big_endian(at: u64, magic: &[u8]) -> Result<bool, CaptureError> {
    if magic == BYTE_ORDER_BIG {
        Ok(true)
    } else if magic == BYTE_ORDER_LITTLE {
        Ok(false)
    } else {
        Err(malformed(at, "section without a byte-order mark"))
    }
}

fn block_bytes(at: u64, length: u32) -> Result<usize, CaptureError> {
    let bytes = length as usize;
    if bytes > BLOCK_BYTES_MAX {
        return Err(CaptureError::BlockTooLong { at, bytes: length.into() });
    }
    if bytes < BLOCK_BYTES_MIN || !bytes.is_multiple_of(4) {
        return Err(malformed(at, "impossible block length"));
    }
    Ok(bytes)
}

const fn malformed(at: u64, what: &'static str) -> CaptureError {
    CaptureError::Malformed { at, what }
}

impl Clock {
    fn of(block: &InterfaceDescriptionBlock<'_>, is_big_endian: bool) -> Option<Self> {
        // The parser reads the offset as little-endian in every section.
        let offset_seconds = if is_big_endian { block.if_tsoffset.swap_bytes() } else { block.if_tsoffset };
        Some(Self { tick: Tick::of(block.if_tsresol)?, offset_seconds })
    }

    fn nanoseconds(&self, high: u32, low: u32) -> Nanoseconds {
        let ticks = u64::from(high) << 32 | u64::from(low);
        let since_offset = self.tick.nanoseconds(ticks);
        let offset = self.offset_seconds.unsigned_abs().saturating_mul(NANOSECONDS_PER_SECOND);
        if self.offset_seconds < 0 { since_offset.saturating_sub(offset) } else { since_offset.saturating_add(offset) }
    }
}

impl Tick {
    /// Decodes `if_tsresol`: the exponent of a negative power of ten or, if the highest bit is set, of two.
    fn of(resolution: u8) -> Option<Self> {
        match resolution {
            0..=9 => Some(Self::Nanoseconds(10u64.pow(u32::from(9 - resolution)))),
            10..=19 => Some(Self::PerNanosecond(10u64.pow(u32::from(resolution - 9)))),
            0x80..=0xbf => Some(Self::Halvings(u32::from(resolution & 0x7f))),
            _ => None,
        }
    }

    fn nanoseconds(self, ticks: u64) -> Nanoseconds {
        match self {
            Self::Nanoseconds(each) => ticks.saturating_mul(each),
            Self::PerNanosecond(count) => ticks / count,
            Self::Halvings(halvings) => {
                let nanoseconds = (u128::from(ticks) * u128::from(NANOSECONDS_PER_SECOND)) >> halvings;
                u64::try_from(nanoseconds).unwrap_or(u64::MAX)
            }
        }
    }
}
