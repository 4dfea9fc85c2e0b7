//! Generations in bytes: a lane of a ring, cut into parts of which each can be sent by itself.
//!
//! Promises that all parts of a lane, merged into an empty ring of the same size in their order, give the same lane, cell
//! for cell and record for record; that no part is longer than [`LANE_PART_BYTES_MAX`]; and that a part which is refused
//! changes nothing, whatever its bytes. Whoever carries a part says of which ring, epoch and number it is: the bytes do
//! not. `docs/design/filter-files.md` describes them.

use std::ops::Range;

use super::counts::{CELL_BITS, CountsRing, lane_cells, set_lane_cells};
use super::lanes::NotLive;
use super::membership::MembershipRing;
use super::staged::StagedRing;
use crate::delta::block::{BLOCK_WORDS_MAX, BlockEncoder, BlockShape, decode_block};
use crate::file::{FileError, InputWords, expect_end};

/// Lines of a part, of which a lane has a word each; the last part may have fewer.
const PART_LINES: usize = BLOCK_WORDS_MAX;

/// No part takes more bytes.
pub const LANE_PART_BYTES_MAX: usize = 40 << 10;

/// Why there is no part of a lane, or why it was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaneError {
    /// The ring does not hold the epoch.
    #[error(transparent)]
    NotLive(#[from] NotLive),
    /// A lane of the ring has fewer parts.
    #[error("there is no part {part} of a lane: it has {parts}, from 0 on")]
    NoSuchPart {
        /// The number asked for.
        part: usize,
        /// How many there are.
        parts: usize,
    },
    /// The bytes are no part of a lane of this ring.
    #[error("the part of a lane: {0}")]
    Malformed(#[from] FileError),
}

/// A ring whose generations can be sent one by one.
///
/// ```
/// use bruit_filters::FingerprintKey;
/// use bruit_filters::ring::{LaneParts, MembershipRing};
///
/// let key = FingerprintKey::narrow([1; 16]);
/// let mut here = MembershipRing::new(10_000, 64, key.id(), 5);
/// let mut there = here.clone();
/// here.insert(&key.fingerprint(b"known spam"));
/// for part in 0..here.lane_parts() {
///     let mut bytes = Vec::new();
///     here.lane_bytes(5, part, &mut bytes)?;
///     there.merge_lane(5, part, &bytes)?;
/// }
/// assert_eq!(here, there);
/// # Ok::<(), bruit_filters::ring::LaneError>(())
/// ```
pub trait LaneParts {
    /// How many parts a lane has: the same number in every ring of this size.
    fn lane_parts(&self) -> usize;

    /// Appends a part of the generation of a live epoch, at most [`LANE_PART_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// [`LaneError`] if the epoch is not live, or there is no such part.
    fn lane_bytes(&self, epoch: u64, part: usize, out: &mut Vec<u8>) -> Result<(), LaneError>;

    /// Puts what [`lane_bytes`](Self::lane_bytes) wrote into the generation of a live epoch.
    ///
    /// Membership is joined with what is there. Counts are replaced by it, and their parts have to come in order: the first
    /// that has records begins by forgetting those of the lane.
    ///
    /// # Errors
    /// [`LaneError`] if the epoch is not live, there is no such part, or the bytes are none. Nothing is changed then.
    fn merge_lane(&mut self, epoch: u64, part: usize, bytes: &[u8]) -> Result<(), LaneError>;
}

impl LaneParts for MembershipRing {
    fn lane_parts(&self) -> usize {
        self.lines.len().div_ceil(PART_LINES)
    }

    fn lane_bytes(&self, epoch: u64, part: usize, out: &mut Vec<u8>) -> Result<(), LaneError> {
        let lane = self.lanes.lane_of(epoch)?;
        ensure_part(part, self.lane_parts())?;
        let lines = &self.lines[part_lines(part, self.lines.len())];
        let words: Vec<u64> = lines.iter().map(|line| line.0[lane]).collect();
        encode_words(&words, 1, out);
        Ok(())
    }

    fn merge_lane(&mut self, epoch: u64, part: usize, bytes: &[u8]) -> Result<(), LaneError> {
        let lane = self.lanes.lane_of(epoch)?;
        ensure_part(part, self.lane_parts())?;
        let lines = part_lines(part, self.lines.len());
        let words = decode_words(bytes, 1, lines.len())?;
        self.join_lane(lane, lines.start, &words);
        Ok(())
    }
}

/// The parts of the first stage, then those of the second.
impl LaneParts for StagedRing {
    fn lane_parts(&self) -> usize {
        self.stages.iter().map(LaneParts::lane_parts).sum()
    }

    fn lane_bytes(&self, epoch: u64, part: usize, out: &mut Vec<u8>) -> Result<(), LaneError> {
        let (stage, part) = self.stage_of(part)?;
        self.stages[stage].lane_bytes(epoch, part, out)
    }

    fn merge_lane(&mut self, epoch: u64, part: usize, bytes: &[u8]) -> Result<(), LaneError> {
        let (stage, part) = self.stage_of(part)?;
        self.stages[stage].merge_lane(epoch, part, bytes)
    }
}

impl StagedRing {
    /// The stage that a part belongs to, and its number there.
    fn stage_of(&self, part: usize) -> Result<(usize, usize), LaneError> {
        ensure_part(part, self.lane_parts())?;
        let stage_parts = self.stages[0].lane_parts();
        Ok((part / stage_parts, part % stage_parts))
    }
}

/// The parts of the cells, then those of the records.
impl LaneParts for CountsRing {
    fn lane_parts(&self) -> usize {
        self.cell_parts() + self.records.lane_parts()
    }

    fn lane_bytes(&self, epoch: u64, part: usize, out: &mut Vec<u8>) -> Result<(), LaneError> {
        let lane = self.lanes.lane_of(epoch)?;
        ensure_part(part, self.lane_parts())?;
        if let Some(part) = part.checked_sub(self.cell_parts()) {
            self.records.lane_bytes(lane, part, self.keys[lane], out);
        } else {
            let lines = &self.lines[part_lines(part, self.lines.len())];
            let words: Vec<u64> = lines.iter().map(|line| lane_cells(line, lane)).collect();
            encode_words(&words, CELL_BITS, out);
        }
        Ok(())
    }

    fn merge_lane(&mut self, epoch: u64, part: usize, bytes: &[u8]) -> Result<(), LaneError> {
        let lane = self.lanes.lane_of(epoch)?;
        ensure_part(part, self.lane_parts())?;
        let cell_lines = self.lines.len();
        if let Some(part) = part.checked_sub(self.cell_parts()) {
            let keys = self.records.merge_lane(lane, part, cell_lines, bytes)?;
            if let Some(keys) = keys {
                (self.keys[lane], self.copied[lane]) = (keys, 0);
            }
        } else {
            let lines = part_lines(part, cell_lines);
            let words = decode_words(bytes, CELL_BITS, lines.len())?;
            lines.zip(words).for_each(|(line, cells)| self.replace_lane_cells(line, lane, cells));
        }
        Ok(())
    }
}

impl CountsRing {
    /// Parts of a lane that hold cells.
    fn cell_parts(&self) -> usize {
        self.lines.len().div_ceil(PART_LINES)
    }

    fn replace_lane_cells(&mut self, index: usize, lane: usize, cells: u64) {
        // A running snapshot keeps only what does change.
        if lane_cells(&self.lines[index], lane) != cells {
            set_lane_cells(self.lines.changing_one(index), lane, cells);
        }
    }
}

/// Refuses a part that a lane does not have.
const fn ensure_part(part: usize, parts: usize) -> Result<(), LaneError> {
    if part < parts { Ok(()) } else { Err(LaneError::NoSuchPart { part, parts }) }
}

/// The lines of a part, of `lines` in all.
fn part_lines(part: usize, lines: usize) -> Range<usize> {
    part * PART_LINES..((part + 1) * PART_LINES).min(lines)
}

/// Appends `words` of cells of `width` bits: as they are, or as gaps and values where that is shorter.
fn encode_words(words: &[u64], width: u32, out: &mut Vec<u8>) {
    BlockEncoder::new(BlockShape::of_words(width, words.len())).encode(&vec![0; words.len()], words, out);
}

/// Reads what [`encode_words`] wrote, which is `count` words and nothing more.
fn decode_words(bytes: &[u8], width: u32, count: usize) -> Result<Vec<u64>, FileError> {
    let mut words = vec![0; count];
    let mut input = InputWords::new(bytes);
    decode_block(BlockShape::of_words(width, count), 0, &mut words, &mut input)?;
    expect_end(input.input())?;
    Ok(words)
}
