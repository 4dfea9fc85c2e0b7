//! The blocks of a snapshot: a complete state, split into pieces that each have a checksum.
//!
//! A snapshot file consists of a header, blocks and a trailer. A block consists of its length, its index, its bytes and
//! a checksum. The trailer is a block of length 0 with the number of blocks and bytes, so that a truncated file is
//! detected.
//!
//! Most bytes of a new clearinghouse are zero. A run of zeros is written as a block without bytes, whose length is the
//! number of zeros.

use std::io::{self, Read};

use crate::header::{CHECKSUM_BYTES, HEADER_BYTES, Header, HeaderFault, Kind, checksum};

/// Maximum number of bytes of state in a block.
pub const BLOCK_BYTES_MAX: usize = 1 << 20;

/// Flag in the length of a block. It means that the block stands for that many zeros, which are not written.
const ZEROS: u32 = 1 << 31;

/// Zeros are omitted in units of this many bytes. A unit is larger than the 32 bytes that it costs to split a block
/// around a run of zeros.
const ZERO_UNIT_BYTES: usize = 128;

/// Bytes of a block before its contents: length and index.
const BLOCK_HEADER_BYTES: usize = 8;

/// Bytes of the trailer after its index: total and checksum.
const TRAILER_REST_BYTES: usize = 8 + CHECKSUM_BYTES;

/// An encoder of a state into blocks.
#[derive(Debug)]
pub(crate) struct BlockWriter {
    seed: u64,
    blocks: u32,
    total_bytes: u64,
}

impl BlockWriter {
    pub(crate) fn new(header: &Header) -> Self {
        Self { seed: header.seed(), blocks: 0, total_bytes: 0 }
    }

    /// Appends `state` as blocks.
    pub(crate) fn put(&mut self, mut state: &[u8], out: &mut Vec<u8>) {
        while !state.is_empty() {
            let (piece, is_zeros, rest) = next_piece(state);
            let length = u32::try_from(piece.len()).expect("BLOCK_BYTES_MAX fits 32 bits");
            if is_zeros {
                self.put_checked(length | ZEROS, &[], out);
            } else {
                self.put_checked(length, piece, out);
            }
            self.blocks = self.blocks.checked_add(1).expect("a snapshot has fewer than 2^32 blocks");
            self.total_bytes += u64::from(length);
            state = rest;
        }
    }

    /// Appends the trailer.
    pub(crate) fn finish(self, out: &mut Vec<u8>) {
        self.put_checked(0, &self.total_bytes.to_le_bytes(), out);
    }

    fn put_checked(&self, length: u32, bytes: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend(length.to_le_bytes());
        out.extend(self.blocks.to_le_bytes());
        out.extend(bytes);
        let sum = checksum(out.get(start..).unwrap_or_default(), self.seed);
        out.extend(sum.to_le_bytes());
    }
}

/// Splits off the contents of the next block. The bool is true if they are zeros.
fn next_piece(state: &[u8]) -> (&[u8], bool, &[u8]) {
    let mut units =
        state.chunks(ZERO_UNIT_BYTES).take(BLOCK_BYTES_MAX / ZERO_UNIT_BYTES).map(|unit| (unit, is_zeros(unit)));
    let (first, zeros) = units.next().unwrap_or_default();
    let alike = units.take_while(|(_, also)| *also == zeros).map(|(unit, _)| unit.len());
    let (piece, rest) = state.split_at(first.len() + alike.sum::<usize>());
    (piece, zeros, rest)
}

/// Returns true if a unit is complete and all zeros.
fn is_zeros(unit: &[u8]) -> bool {
    // There is no branch per byte, so the compiler can vectorise the loop.
    unit.len() == ZERO_UNIT_BYTES && unit.iter().fold(0, |any, byte| any | byte) == 0
}

/// A fault of a snapshot and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BlockFault {
    #[error("the file ends within the block at byte {0}")]
    Cut(u64),
    #[error("the block at byte {0} is too long or out of order")]
    Header(u64),
    #[error("the checksum of the block at byte {0} does not match")]
    Checksum(u64),
    #[error("the length in the trailer at byte {0} differs from the total length of the blocks")]
    Total(u64),
    #[error("there is data after the trailer at byte {0}")]
    Trailing(u64),
    #[error("the snapshot has data after the end of the state, in the block that ends at byte {0}")]
    Unread(u64),
}

impl From<BlockFault> for io::Error {
    fn from(fault: BlockFault) -> Self {
        Self::new(io::ErrorKind::InvalidData, fault)
    }
}

/// The contents of a block between header and checksum.
#[derive(Clone, Copy)]
enum Content {
    /// This number of bytes of the state.
    Bytes(usize),
    /// No bytes, because the block stands for this number of zeros.
    Zeros(usize),
    /// The length of the whole state.
    Trailer,
}

impl Content {
    /// Decodes the length in a header; `None` if it exceeds the maximum.
    fn of(length: u32) -> Option<Self> {
        let (bytes, zeros) = ((length & !ZEROS) as usize, length & ZEROS != 0);
        match (bytes, zeros) {
            (0, false) => Some(Self::Trailer),
            (1..=BLOCK_BYTES_MAX, false) => Some(Self::Bytes(bytes)),
            (1..=BLOCK_BYTES_MAX, true) => Some(Self::Zeros(bytes)),
            _ => None,
        }
    }
}

/// A reader of the state in a snapshot. Every byte is verified before it is returned.
#[derive(Debug)]
pub(crate) struct SnapshotReader<R> {
    input: R,
    header: Header,
    offset: u64,
    blocks: u32,
    total_bytes: u64,
    /// The current block, with header and checksum.
    block: Vec<u8>,
    /// Number of bytes of the block's state already returned.
    given: usize,
    /// Number of zeros still to return, if the block stands for zeros.
    zeros: usize,
    ended: bool,
}

impl<R: Read> SnapshotReader<R> {
    pub(crate) fn open(mut input: R) -> io::Result<Result<Self, HeaderFault>> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        input.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut bytes)?;
        Ok(Header::decode(Kind::Snapshot, &bytes).map(|header| Self {
            input,
            header,
            offset: HEADER_BYTES as u64,
            blocks: 0,
            total_bytes: 0,
            block: Vec::new(),
            given: 0,
            zeros: 0,
            ended: false,
        }))
    }

    pub(crate) const fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the number of blocks and the number of state bytes read so far.
    pub(crate) const fn read_so_far(&self) -> (u32, u64) {
        (self.blocks, self.total_bytes)
    }

    /// Reads the trailer. Fails if anything else is left.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if self.zeros > 0 || !self.current().is_empty() || self.next_block()? {
            return Err(BlockFault::Unread(self.offset).into());
        }
        Ok(())
    }

    /// Reads and verifies all blocks. Calls `progress` with the number of bytes of each block.
    pub(crate) fn check(&mut self, mut progress: impl FnMut(u64)) -> io::Result<()> {
        while self.next_block()? {
            progress(self.block.len() as u64);
        }
        Ok(())
    }

    /// Returns the unread part of the current block.
    fn current(&self) -> &[u8] {
        let end = self.block.len().saturating_sub(CHECKSUM_BYTES);
        self.block.get(BLOCK_HEADER_BYTES + self.given..end).unwrap_or_default()
    }

    /// Reads the next block. Returns false if it is the trailer.
    fn next_block(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        self.block.clear();
        (self.given, self.zeros) = (0, 0);
        self.more(BLOCK_HEADER_BYTES)?;
        let content = self.block_header()?;
        self.more(match content {
            Content::Trailer => TRAILER_REST_BYTES,
            Content::Bytes(length) => length + CHECKSUM_BYTES,
            Content::Zeros(_) => CHECKSUM_BYTES,
        })?;
        self.check_block()?;
        match content {
            Content::Trailer => return self.end().map(|()| false),
            Content::Bytes(length) => self.took(length),
            Content::Zeros(length) => {
                self.zeros = length;
                self.took(length);
            }
        }
        Ok(true)
    }

    fn took(&mut self, length: usize) {
        self.offset += self.block.len() as u64;
        self.total_bytes += length as u64;
        // The block after index 2^32 − 1 is rejected, because its index does not match.
        self.blocks = self.blocks.saturating_add(1);
    }

    fn give_zeros(&mut self, out: &mut [u8]) -> usize {
        let given = out.len().min(self.zeros);
        out.iter_mut().take(given).for_each(|byte| *byte = 0);
        self.zeros -= given;
        given
    }

    fn more(&mut self, bytes: usize) -> io::Result<()> {
        let read = self.input.by_ref().take(bytes as u64).read_to_end(&mut self.block)?;
        if read < bytes { Err(BlockFault::Cut(self.offset).into()) } else { Ok(()) }
    }

    /// Decodes the header of the current block.
    fn block_header(&self) -> io::Result<Content> {
        let mut reader = bruit_engine::codec::Reader::new(&self.block);
        let fields = reader.u32("length").and_then(|length| Ok((length, reader.u32("index")?)));
        let content =
            fields.ok().filter(|(_, index)| *index == self.blocks).and_then(|(length, _)| Content::of(length));
        content.ok_or_else(|| BlockFault::Header(self.offset).into())
    }

    fn check_block(&self) -> io::Result<()> {
        let parts = self.block.split_last_chunk::<CHECKSUM_BYTES>();
        let sound =
            parts.is_some_and(|(covered, sum)| checksum(covered, self.header.seed()) == u64::from_le_bytes(*sum));
        if sound { Ok(()) } else { Err(BlockFault::Checksum(self.offset).into()) }
    }

    /// Checks the trailer, which is the current block, and that nothing follows.
    fn end(&mut self) -> io::Result<()> {
        let total = self.block.get(BLOCK_HEADER_BYTES..).and_then(|rest| rest.first_chunk());
        if total.copied().map(u64::from_le_bytes) != Some(self.total_bytes) {
            return Err(BlockFault::Total(self.offset).into());
        }
        if self.input.by_ref().take(1).read_to_end(&mut Vec::new())? > 0 {
            return Err(BlockFault::Trailing(self.offset).into());
        }
        self.block.clear();
        self.ended = true;
        Ok(())
    }
}

impl<R: Read> Read for SnapshotReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.zeros == 0 && self.current().is_empty() && !self.next_block()? {
            return Ok(0);
        }
        if self.zeros > 0 {
            return Ok(self.give_zeros(out));
        }
        let read = self.current().read(out)?;
        self.given += read;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header { kind: Kind::Snapshot, realm: [3; 16], sequence: 77 };

    fn snapshot(pieces: &[&[u8]]) -> Vec<u8> {
        let mut out = HEADER.encode();
        let mut writer = BlockWriter::new(&HEADER);
        pieces.iter().for_each(|piece| writer.put(piece, &mut out));
        writer.finish(&mut out);
        out
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut reader = SnapshotReader::open(bytes)?.map_err(io::Error::other)?;
        let mut state = Vec::new();
        reader.read_to_end(&mut state)?;
        reader.finish().map(|()| state)
    }

    #[test]
    fn a_snapshot_is_read_as_it_was_written_whatever_its_pieces() {
        let long: Vec<u8> = (0..BLOCK_BYTES_MAX as u32 * 2 + 1).map(|i| (i % 251) as u8).collect();
        for pieces in [&[] as &[&[u8]], &[b"", b"one", b"two"], &[&long]] {
            assert_eq!(read(&snapshot(pieces)).unwrap(), pieces.concat());
        }
    }

    #[test]
    fn zeros_cost_a_block_without_bytes_and_come_back_as_they_were() {
        let unit = ZERO_UNIT_BYTES;
        let file = |state: &[u8]| snapshot(&[state]).len() - snapshot(&[]).len();
        for (zeros, bytes) in [(unit - 1, 16 + unit - 1), (unit, 16), (unit + 1, 16 + 17), (BLOCK_BYTES_MAX, 16)] {
            let state = vec![0; zeros];
            assert_eq!(file(&state), bytes, "{zeros} zeros");
            assert_eq!(read(&snapshot(&[&state])).unwrap(), state);
        }
        assert_eq!(file(&vec![0; BLOCK_BYTES_MAX + unit]), 32, "no block stands for more zeros than the maximum");
    }

    #[test]
    fn zeros_between_bytes_never_make_a_snapshot_longer() {
        let mut state = vec![0; 40 * ZERO_UNIT_BYTES + 5];
        for (round, place) in [0, 4_000, 2_000, 777, 1_000, 130, 5_124].into_iter().enumerate() {
            state[place] = 7;
            let bytes = snapshot(&[&state]);
            assert!(bytes.len() <= snapshot(&[&[1; 40 * ZERO_UNIT_BYTES + 5]]).len(), "round {round}");
            assert_eq!(read(&bytes).unwrap(), state, "round {round}");
        }
    }

    #[test]
    fn every_changed_byte_and_every_missing_byte_is_noticed() {
        let whole = snapshot(&[b"first", &[0; 2 * ZERO_UNIT_BYTES], b"second"]);
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            assert!(read(&bytes).is_err(), "byte {place}");
            assert!(read(&whole[..place]).is_err(), "cut at {place}");
        }
        assert!(read(&[&whole[..], &[0]].concat()).is_err(), "one byte too many");
    }

    #[test]
    fn blocks_out_of_order_and_left_out_are_noticed() {
        let whole = snapshot(&[b"first", b"other"]);
        let block = 8 + 5 + 8;
        let (header, rest) = whole.split_at(HEADER_BYTES);
        let (one, rest) = rest.split_at(block);
        let (two, trailer) = rest.split_at(block);
        assert!(read(&[header, two, one, trailer].concat()).is_err());
        assert!(read(&[header, one, trailer].concat()).is_err());
        assert!(read(&[header, one, two, trailer].concat()).is_ok());
    }

    #[test]
    fn a_too_long_block_is_refused_before_it_is_read() {
        for length in [BLOCK_BYTES_MAX as u32 + 1, ZEROS | (BLOCK_BYTES_MAX as u32 + 1), ZEROS, u32::MAX] {
            let mut bytes = HEADER.encode();
            BlockWriter::new(&HEADER).put_checked(length, &[], &mut bytes);
            assert!(read(&bytes).unwrap_err().to_string().contains("too long"), "{length:#x}");
        }
    }

    #[test]
    fn a_state_that_leaves_bytes_unread_is_noticed() {
        let bytes = snapshot(&[b"first", b"second", &[0; ZERO_UNIT_BYTES]]);
        for taken in [0, 3, 5, 6, 11, 11 + ZERO_UNIT_BYTES - 1] {
            let mut reader = SnapshotReader::open(&*bytes).unwrap().unwrap();
            reader.read_exact(&mut vec![0; taken]).unwrap();
            assert!(reader.finish().is_err(), "{taken} bytes read");
        }
    }
}
