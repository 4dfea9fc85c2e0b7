//! How payloads are cut.

use std::ops::Range;

/// Longest block.
pub const BLOCK_BYTES_MAX: u32 = 1024;

/// Most levels of doubled blocks, the base level included: the longest payload of shortest blocks has no more.
pub const LEVELS_MAX: u32 = 17;

/// Longest payload: what is longer has to be recorded in pieces. It is the longest that an IP packet has, in whole KiB.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024;

/// Why payloads cannot be cut so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// Blocks are empty, or too long.
    #[error("a block has 1 to {BLOCK_BYTES_MAX} bytes, not {0}")]
    BlockBytes(u32),
    /// There is no level, or there are more than payloads can fill.
    #[error("there are 1 to {LEVELS_MAX} levels, not {0}")]
    Levels(u32),
}

/// How payloads are cut: the size of a block, and how many levels of doubled ones there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockShape {
    block_bytes: u32,
    levels: u32,
}

impl BlockShape {
    /// Blocks of `block_bytes`, and `levels` levels: one is the block-based filter, more are the hierarchical one.
    ///
    /// # Errors
    /// [`ShapeError`] outside 1..=[`BLOCK_BYTES_MAX`] and 1..=[`LEVELS_MAX`].
    pub const fn new(block_bytes: u32, levels: u32) -> Result<Self, ShapeError> {
        if block_bytes == 0 || block_bytes > BLOCK_BYTES_MAX {
            return Err(ShapeError::BlockBytes(block_bytes));
        }
        if levels == 0 || levels > LEVELS_MAX {
            return Err(ShapeError::Levels(levels));
        }
        Ok(Self { block_bytes, levels })
    }

    /// Bytes of a block of the base level.
    #[must_use]
    pub const fn block_bytes(self) -> u32 {
        self.block_bytes
    }

    /// How many levels there are.
    #[must_use]
    pub const fn levels(self) -> u32 {
        self.levels
    }

    /// The same blocks without doubled ones.
    #[must_use]
    pub const fn flat(self) -> Self {
        Self { levels: 1, ..self }
    }

    /// Whole blocks in so many bytes.
    #[must_use]
    pub const fn blocks_in(self, bytes: usize) -> usize {
        bytes / self.block_bytes as usize
    }

    /// How many digests a payload of `blocks` blocks has.
    #[must_use]
    pub fn digests_of(self, blocks: usize) -> usize {
        self.digests_at(0, blocks)
    }

    /// How many digests tell of `blocks` blocks from `offset` on: their own, and those of doubled blocks that lie within.
    #[must_use]
    pub fn digests_at(self, offset: usize, blocks: usize) -> usize {
        (0..self.levels).map(|level| self.doubled_at(level, offset, blocks).len()).sum()
    }

    /// The blocks of `level`, by their offsets there, that lie within `blocks` base blocks from `offset` on.
    pub(super) fn doubled_at(self, level: u32, offset: usize, blocks: usize) -> Range<usize> {
        let first = offset.div_ceil(1 << level);
        first..((offset + blocks) >> level).max(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_end_at_their_bounds() {
        assert!(BlockShape::new(BLOCK_BYTES_MAX, LEVELS_MAX).is_ok());
        assert_eq!(BlockShape::new(BLOCK_BYTES_MAX + 1, 1), Err(ShapeError::BlockBytes(BLOCK_BYTES_MAX + 1)));
        assert_eq!(BlockShape::new(0, 1), Err(ShapeError::BlockBytes(0)));
        assert_eq!(BlockShape::new(1, LEVELS_MAX + 1), Err(ShapeError::Levels(LEVELS_MAX + 1)));
        assert_eq!(BlockShape::new(1, 0), Err(ShapeError::Levels(0)));
        assert_eq!(PAYLOAD_BYTES_MAX, 1 << (LEVELS_MAX - 1), "the last level has one block at most");
    }

    #[test]
    fn doubled_blocks_lie_at_whole_multiples_of_their_size() {
        let shape = BlockShape::new(1, 3).unwrap();
        assert_eq!(shape.digests_of(5), 5 + 2 + 1);
        assert_eq!(shape.digests_at(1, 2), 2, "two blocks at an odd offset have no doubled one");
        assert_eq!(shape.digests_at(2, 2), 2 + 1);
        assert_eq!(shape.digests_at(3, 5), 5 + 2 + 1, "4 to 8 is a block of level 2");
        assert_eq!(shape.digests_at(1, 0), 0);
        assert_eq!(shape.flat().digests_at(3, 5), 5);
    }
}
