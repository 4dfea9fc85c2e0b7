//! Changes of cells: the gaps between changed cells, and the differences modulo 2^width.

use super::bits::{BitReader, Code};
use crate::counting::cells::{cell_at, set_cell_at};
use crate::file::FileError;

/// The changed cells: a gap and a difference for each.
#[derive(Default)]
pub(super) struct Changes {
    /// For each changed cell, the number of unchanged cells since the previous changed one.
    pub(super) gaps: Vec<u32>,
    /// For each changed cell, (target − base) mod 2^width, minus 1.
    pub(super) steps: Vec<u32>,
}

impl Changes {
    /// Replaces the contents with the changes from `base` to `target`, in cells of `width` bits.
    pub(super) fn find(&mut self, base: &[u64], target: &[u64], width: u32) {
        self.gaps.clear();
        self.steps.clear();
        let mut next_cell = 0;
        for (i, (before, after)) in (0..).zip(base.iter().zip(target)) {
            let mut changed = before ^ after;
            while changed != 0 {
                let cell = (i * 64 + changed.trailing_zeros()) / width;
                // A cell that began in the previous word was counted there.
                if cell >= next_cell {
                    self.push(cell - next_cell, step(base, target, width, cell));
                    next_cell = cell + 1;
                }
                let cell_end = (cell + 1) * width - i * 64;
                changed = if cell_end >= 64 { 0 } else { changed >> cell_end << cell_end };
            }
        }
    }

    fn push(&mut self, gap: u32, step: u32) {
        self.gaps.push(gap);
        self.steps.push(step);
    }
}

fn step(base: &[u64], target: &[u64], width: u32, cell: u32) -> u32 {
    let (before, after) = (cell_at(base, width, cell.into()), cell_at(target, width, cell.into()));
    after.wrapping_sub(before).wrapping_sub(1) & (u32::MAX >> (u32::BITS - width))
}

/// Applies `count` coded changes to `words`, which has `cells` cells of `width` bits.
pub(super) fn change_cells(
    words: &mut [u64],
    width: u32,
    cells: u64,
    count: u32,
    [gap_code, step_code]: [Code; 2],
    codes: &mut BitReader,
) -> Result<(), FileError> {
    let top = u32::MAX >> (u32::BITS - width);
    let mut next_cell = 0u64;
    for _ in 0..count {
        let gap = codes.take_code(gap_code)?;
        let cell = next_cell.checked_add(gap).filter(|&cell| cell < cells);
        let cell = cell.ok_or_else(|| FileError::invalid("the gap to a cell", gap))?;
        let step = if width == 1 { 0 } else { codes.take_code(step_code)? };
        if step >= u64::from(top) {
            return Err(FileError::invalid("the difference of a cell", step));
        }
        let value = cell_at(words, width, cell).wrapping_add(step as u32 + 1) & top;
        set_cell_at(words, width, cell, value);
        next_cell = cell + 1;
    }
    Ok(())
}
