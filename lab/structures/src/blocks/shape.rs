//! The shape of blocks: their size and their levels.

use std::ops::Range;

/// Maximum size of a block.
pub const BLOCK_BYTES_MAX: u32 = 1024;

/// Maximum number of levels, including the base level. Even the longest payload, in the shortest blocks, has no more
/// levels.
pub const LEVELS_MAX: u32 = 17;

/// Maximum length of a payload: the maximum length of an IP packet, rounded up to whole KiB. Longer payloads must be
/// recorded in pieces.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024;

/// The reason why a shape is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// The size of a block is 0 or too large.
    #[error("the block size must be 1 to {BLOCK_BYTES_MAX} bytes, not {0}")]
    BlockBytes(u32),
    /// The number of levels is 0 or too large.
    #[error("the number of levels must be 1 to {LEVELS_MAX}, not {0}")]
    Levels(u32),
}

/// The size of a block, and the number of levels of doubled blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockShape {
    block_bytes: u32,
    levels: u32,
}

impl BlockShape {
    /// Creates a shape with blocks of `block_bytes` bytes and `levels` levels. A block-based filter has one level; a
    /// hierarchical filter has several.
    ///
    /// # Errors
    /// [`ShapeError`] if `block_bytes` is not in 1..=[`BLOCK_BYTES_MAX`], or `levels` not in 1..=[`LEVELS_MAX`].
    pub const fn new(block_bytes: u32, levels: u32) -> Result<Self, ShapeError> {
        if block_bytes == 0 || block_bytes > BLOCK_BYTES_MAX {
            return Err(ShapeError::BlockBytes(block_bytes));
        }
        if levels == 0 || levels > LEVELS_MAX {
            return Err(ShapeError::Levels(levels));
        }
        Ok(Self { block_bytes, levels })
    }

    /// Returns the size in bytes of a block of the base level.
    #[must_use]
    pub const fn block_bytes(self) -> u32 {
        self.block_bytes
    }

    /// Returns the number of levels.
    #[must_use]
    pub const fn levels(self) -> u32 {
        self.levels
    }

    /// Returns the shape with the same blocks and only one level.
    #[must_use]
    pub const fn flat(self) -> Self {
        Self { levels: 1, ..self }
    }

    /// Returns the number of whole blocks in this many bytes.
    #[must_use]
    pub const fn blocks_in(self, bytes: usize) -> usize {
        bytes / self.block_bytes as usize
    }

    /// Returns the number of digests of a payload of `blocks` blocks.
    #[must_use]
    pub fn digests_of(self, blocks: usize) -> usize {
        self.digests_at(0, blocks)
    }

    /// Returns the number of digests for `blocks` blocks that begin at `offset`: those of the blocks, and those of the
    /// doubled blocks within them.
    #[must_use]
    pub fn digests_at(self, offset: usize, blocks: usize) -> usize {
        (0..self.levels).map(|level| self.doubled_at(level, offset, blocks).len()).sum()
    }

    /// Returns the blocks of `level` that lie within `blocks` base blocks from `offset` on, as a range of offsets on
    /// that level.
    pub(super) fn doubled_at(self, level: u32, offset: usize, blocks: usize) -> Range<usize> {
        let first = offset.div_ceil(1 << level);
        first..((offset + blocks) >> level).max(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_limited() {
        assert!(BlockShape::new(BLOCK_BYTES_MAX, LEVELS_MAX).is_ok());
        assert_eq!(BlockShape::new(BLOCK_BYTES_MAX + 1, 1), Err(ShapeError::BlockBytes(BLOCK_BYTES_MAX + 1)));
        assert_eq!(BlockShape::new(0, 1), Err(ShapeError::BlockBytes(0)));
        assert_eq!(BlockShape::new(1, LEVELS_MAX + 1), Err(ShapeError::Levels(LEVELS_MAX + 1)));
        assert_eq!(BlockShape::new(1, 0), Err(ShapeError::Levels(0)));
        assert_eq!(PAYLOAD_BYTES_MAX, 1 << (LEVELS_MAX - 1), "the last level has at most one block");
    }

    #[test]
    fn doubled_blocks_lie_at_whole_multiples_of_their_size() {
        let shape = BlockShape::new(1, 3).unwrap();
        assert_eq!(shape.digests_of(5), 5 + 2 + 1);
        assert_eq!(shape.digests_at(1, 2), 2, "no doubled block covers two blocks at an odd offset");
        assert_eq!(shape.digests_at(2, 2), 2 + 1);
        assert_eq!(shape.digests_at(3, 5), 5 + 2 + 1, "4 to 8 is a block of level 2");
        assert_eq!(shape.digests_at(1, 0), 0);
        assert_eq!(shape.flat().digests_at(3, 5), 5);
    }
}
