//! The blocks of a snapshot: a state in full, cut into pieces that each have a checksum.
//!
//! Header, blocks, trailer. A block is its length, its index, its bytes and a checksum; the trailer is a block of length
//! 0 that says how many blocks and bytes there were, so that a file that ends early is not taken for a whole one.

use std::io::{self, Read};

use crate::format::{CHECKSUM_BYTES, HEADER_BYTES, Header, HeaderFault, Kind, checksum};

/// The most bytes of state in a block.
pub const BLOCK_BYTES_MAX: usize = 1 << 20;

/// What a block takes before its bytes: length and index.
const BLOCK_HEADER_BYTES: usize = 8;

/// What the trailer has behind its index: total and checksum.
const TRAILER_REST_BYTES: usize = 8 + CHECKSUM_BYTES;

/// Makes blocks of a state.
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
    pub(crate) fn put(&mut self, state: &[u8], out: &mut Vec<u8>) {
        for piece in state.chunks(BLOCK_BYTES_MAX) {
            let length = u32::try_from(piece.len()).expect("BLOCK_BYTES_MAX fits 32 bits");
            self.put_checked(length, piece, out);
            self.blocks = self.blocks.checked_add(1).expect("a snapshot has fewer than 2^32 blocks");
            self.total_bytes += u64::from(length);
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

/// What is wrong with a snapshot, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BlockFault {
    #[error("the file ends within the block at byte {0}")]
    Cut(u64),
    #[error("the block at byte {0} is longer than any or out of order")]
    Header(u64),
    #[error("the checksum of the block at byte {0} does not hold")]
    Checksum(u64),
    #[error("the trailer at byte {0} tells another length than the blocks have")]
    Total(u64),
    #[error("something follows the trailer at byte {0}")]
    Trailing(u64),
    #[error("the state ends before the snapshot does, in the block that ends at byte {0}")]
    Unread(u64),
}

impl From<BlockFault> for io::Error {
    fn from(fault: BlockFault) -> Self {
        Self::new(io::ErrorKind::InvalidData, fault)
    }
}

/// Reads the state in a snapshot; every byte it gives was checked first.
#[derive(Debug)]
pub(crate) struct SnapshotReader<R> {
    input: R,
    header: Header,
    offset: u64,
    blocks: u32,
    total_bytes: u64,
    /// The whole current block, with its header and checksum.
    block: Vec<u8>,
    /// How many bytes of its state were given away.
    given: usize,
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
            ended: false,
        }))
    }

    pub(crate) const fn header(&self) -> &Header {
        &self.header
    }

    /// How many blocks and bytes of state were read so far.
    pub(crate) const fn read_so_far(&self) -> (u32, u64) {
        (self.blocks, self.total_bytes)
    }

    /// Whether nothing but the trailer is left. Reads it.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        if !self.current().is_empty() || self.next_block()? {
            return Err(BlockFault::Unread(self.offset).into());
        }
        Ok(())
    }

    /// Reads all blocks to check them, telling how many bytes each took.
    pub(crate) fn check(&mut self, mut progress: impl FnMut(u64)) -> io::Result<()> {
        while self.next_block()? {
            progress(self.block.len() as u64);
        }
        Ok(())
    }

    /// What is left of the current block.
    fn current(&self) -> &[u8] {
        let end = self.block.len().saturating_sub(CHECKSUM_BYTES);
        self.block.get(BLOCK_HEADER_BYTES + self.given..end).unwrap_or_default()
    }

    /// Reads the next block; false if it is the trailer.
    fn next_block(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        self.block.clear();
        self.given = 0;
        self.more(BLOCK_HEADER_BYTES)?;
        let length = self.block_header()?;
        self.more(if length == 0 { TRAILER_REST_BYTES } else { length + CHECKSUM_BYTES })?;
        self.check_block()?;
        if length == 0 { self.end().map(|()| false) } else { Ok(self.took(length)) }
    }

    fn took(&mut self, length: usize) -> bool {
        self.offset += self.block.len() as u64;
        self.total_bytes += length as u64;
        // An index of 2^32 − 1 cannot be followed by another: the next one would not fit its order.
        self.blocks = self.blocks.saturating_add(1);
        true
    }

    fn more(&mut self, bytes: usize) -> io::Result<()> {
        let read = self.input.by_ref().take(bytes as u64).read_to_end(&mut self.block)?;
        if read < bytes { Err(BlockFault::Cut(self.offset).into()) } else { Ok(()) }
    }

    /// The length in the header of the block, if it can be.
    fn block_header(&self) -> io::Result<usize> {
        let mut reader = bruit_engine::codec::Reader::new(&self.block);
        let fields = reader.u32("length").and_then(|length| Ok((length as usize, reader.u32("index")?)));
        match fields {
            Ok((length, index)) if length <= BLOCK_BYTES_MAX && index == self.blocks => Ok(length),
            _ => Err(BlockFault::Header(self.offset).into()),
        }
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
        if self.current().is_empty() && !self.next_block()? {
            return Ok(0);
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
    fn every_changed_byte_and_every_missing_byte_is_noticed() {
        let whole = snapshot(&[b"first", b"second"]);
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            assert!(read(&bytes).is_err(), "byte {place}");
            assert!(read(&whole[..place]).is_err(), "cut at {place}");
        }
        assert!(read(&[&whole[..], &[0]].concat()).is_err(), "a byte too many");
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
    fn a_block_longer_than_any_is_refused_before_it_is_read() {
        let mut bytes = HEADER.encode();
        bytes.extend((BLOCK_BYTES_MAX as u32 + 1).to_le_bytes());
        bytes.extend([0; 4]);
        assert!(read(&bytes).unwrap_err().to_string().contains("longer than any"));
    }

    #[test]
    fn a_state_that_leaves_bytes_unread_is_noticed() {
        let bytes = snapshot(&[b"first", b"second"]);
        for taken in [0, 3, 5, 6] {
            let mut reader = SnapshotReader::open(&*bytes).unwrap().unwrap();
            reader.read_exact(&mut vec![0; taken]).unwrap();
            assert!(reader.finish().is_err(), "{taken} bytes read");
        }
    }
}
