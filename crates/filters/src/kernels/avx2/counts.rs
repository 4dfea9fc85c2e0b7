//! Update, count and merge of one-line counts.
//!
//! A line occupies two registers of four words each, with one row per word. Each word is shifted so that the key's cell
//! is in the lowest bits. Once the minimum of all eight cells is known, `max(cell, minimum + 1) - cell` is shifted back
//! and added. If an entry has the key's tag, the same store updates its count, so that a hot line is not read again
//! while a store to it is pending.

use std::arch::x86_64::*;
use std::hint::select_unpredictable;

use super::{Halves, load, store};
use crate::Fingerprint;
use crate::counting::rows::{
    self, CELL_TOP, LAST_ROW, LEFT_OUT_PAIRS, ROWS, entry_arrivals, entry_count, left_out_index,
};
use crate::counting::spill::Spill;
use crate::kernels::by_line;
use crate::kernels::counts::{locate, merge_portable};
use crate::lines::Line;

#[target_feature(enable = "avx2")]
pub(crate) fn insert(lines: &mut [Line], spill: &mut Spill, keys: &[Fingerprint]) {
    let work = |lines: &mut &mut [Line], _, key: &Fingerprint, place: u32| {
        let line = &mut lines[place as usize];
        let cells = LineCells::read(load(line), key.low());
        let below_top = cells.least() ^ CELL_TOP as u32;
        // Only keys with counts above 15 need this number. It is computed for all keys, because a branch would often be
        // mispredicted on real traffic.
        let arrivals = entry_arrivals(line.0[LAST_ROW], key.low());
        store(line, cells.raised(select_unpredictable(below_top == 0, arrivals, 0)));
        if arrivals | u64::from(below_top) == 0 {
            rows::heavy_add(line, place, spill, key.low(), 1);
        }
    };
    by_line(lines, keys, locate, work);
}

#[target_feature(enable = "avx2")]
pub(crate) fn count(lines: &[Line], spill: &Spill, keys: &[Fingerprint], found: &mut [u32]) {
    let work = |lines: &mut &[Line], i: usize, key: &Fingerprint, place: u32| {
        let line = &lines[place as usize];
        let least = LineCells::read(load(line), key.low()).least();
        let below_top = least ^ CELL_TOP as u32;
        let recorded = entry_count(line.0[LAST_ROW], key.low());
        found[i] = select_unpredictable(below_top == 0, recorded, least);
        if recorded | below_top == 0 {
            found[i] = rows::heavy_count(line, place, spill, key.low());
        }
    };
    by_line(lines, keys, locate, work);
}

#[target_feature(enable = "avx2")]
pub(crate) fn merge(lines: &mut [Line], spill: &mut Spill, others: &[Line], other_spill: &Spill) {
    merge_portable(lines, spill, others, other_spill);
}

/// For each pair of skipped rows, a line in which all cells of these rows are 15.
static LEFT_OUT: [Line; LEFT_OUT_PAIRS.len()] = {
    let mut lines = [Line([0; ROWS]); LEFT_OUT_PAIRS.len()];
    let mut i = 0;
    while i < lines.len() {
        lines[i].0[LEFT_OUT_PAIRS[i][0]] = CELL_TOP;
        lines[i].0[LEFT_OUT_PAIRS[i][1]] = CELL_TOP;
        i += 1;
    }
    lines
};

/// A key's cells in a line.
struct LineCells {
    line: Halves,
    /// Shift of each word that moves the cell to the lowest bits.
    shifts: Halves,
    /// Values of the cells; 15 in skipped and dropped rows.
    values: Halves,
    /// The minimum of the cells, in every lane.
    least: __m256i,
}

impl LineCells {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn read(line: Halves, low: u64) -> Self {
        let fields = _mm256_set1_epi64x(low as i64);
        let (sixty, fifteen) = (_mm256_set1_epi64x(60), _mm256_set1_epi64x(15));
        let first = _mm256_and_si256(_mm256_srlv_epi64(fields, _mm256_setr_epi64x(28, 24, 20, 16)), sixty);
        let second = _mm256_and_si256(_mm256_srlv_epi64(fields, _mm256_setr_epi64x(12, 8, 4, 0)), sixty);
        // Row 7 has no cell 15.
        let second = _mm256_min_epi32(second, _mm256_setr_epi64x(60, 60, 60, 56));
        // A row that reads 15 does not lower the minimum and is never raised. The rows that the key skips read 15, and
        // so does a dropped row 7, because its control nibble is then 15.
        let (left_out, left_out_or_given_up) = {
            let skipped = load(&LEFT_OUT[left_out_index(low)]);
            (skipped.0, _mm256_blend_epi32::<0xc0>(skipped.1, _mm256_srli_epi64::<60>(line.1)))
        };
        let values = (
            _mm256_or_si256(_mm256_and_si256(_mm256_srlv_epi64(line.0, first), fifteen), left_out),
            _mm256_or_si256(_mm256_and_si256(_mm256_srlv_epi64(line.1, second), fifteen), left_out_or_given_up),
        );
        let four = _mm256_min_epi32(values.0, values.1);
        let two = _mm256_min_epi32(four, _mm256_shuffle_epi32::<0b01_00_11_10>(four));
        let least = _mm256_min_epi32(two, _mm256_permute2x128_si256::<1>(two, two));
        Self { line, shifts: (first, second), values, least }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn least(&self) -> u32 {
        _mm_cvtsi128_si32(_mm256_castsi256_si128(self.least)) as u32
    }

    /// Returns the line after one more insertion: the lowest cells are incremented, up to 15, and `entries` is added to
    /// the last word.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn raised(&self, entries: u64) -> Halves {
        let level = _mm256_add_epi64(self.least, _mm256_set1_epi64x(1));
        let level = _mm256_min_epi32(level, _mm256_set1_epi64x(15));
        let rise =
            |values, shifts| _mm256_sllv_epi64(_mm256_sub_epi64(_mm256_max_epi32(values, level), values), shifts);
        let entries = _mm256_setr_epi64x(0, 0, 0, entries as i64);
        (
            _mm256_add_epi64(self.line.0, rise(self.values.0, self.shifts.0)),
            _mm256_add_epi64(_mm256_add_epi64(self.line.1, rise(self.values.1, self.shifts.1)), entries),
        )
    }
}
