//! Cells of up to 64 bits, packed without gaps.

use super::Neighbourhood;
use bruit_filters::internal::{LINE_WORDS, Lines};
use bruit_filters::internal::{Step, is_cached, look_ahead, prefetch_line};

/// An array of cells, initially zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CellTable {
    lines: Lines,
    cells: u32,
    bits: u32,
}

impl CellTable {
    /// Creates `cells` cells of `bits` bits (1 to 64).
    pub(super) fn new(cells: u32, bits: u32) -> Self {
        assert!((1..=64).contains(&bits), "expected cells of 1 to 64 bits, not {bits}");
        let lines = Lines::for_bits(u64::from(cells) * u64::from(bits));
        Self { lines: lines.unwrap_or_else(|error| panic!("{error}")), cells, bits }
    }

    #[inline]
    pub(super) fn get(&self, cell: u32) -> u64 {
        let (word, shift) = self.place(cell);
        let words = self.lines.words();
        let mut value = words[word] >> shift;
        if shift + self.bits > 64 {
            value |= words[word + 1] << (64 - shift);
        }
        value & self.mask()
    }

    pub(super) fn set(&mut self, cell: u32, value: u64) {
        let (word, shift) = self.place(cell);
        let (mask, bits) = (self.mask(), self.bits);
        assert!(value <= mask, "a value of more than {bits} bits would change the next cell");
        let words = self.lines.words_mut();
        words[word] = words[word] & !(mask << shift) | value << shift;
        if shift + bits > 64 {
            let (mask, value) = (mask >> (64 - shift), value >> (64 - shift));
            words[word + 1] = words[word + 1] & !mask | value;
        }
    }

    /// Returns the mask XOR the cells of a neighbourhood.
    #[inline]
    pub(super) fn sum(&self, neighbourhood: &Neighbourhood) -> u64 {
        let cells = neighbourhood.cells().iter();
        cells.fold(neighbourhood.mask() & self.mask(), |sum, &cell| sum ^ self.get(cell))
    }

    /// Changes the key's own cell, so that the key's [`sum`](Self::sum) becomes `sum`.
    pub(super) fn adjust(&mut self, neighbourhood: &Neighbourhood, own: u32, sum: u64) {
        let change = self.sum(neighbourhood) ^ sum;
        self.set(own, self.get(own) ^ change);
    }

    /// Calls `work` for each key in order, after prefetching its cells.
    pub(super) fn for_each<K>(
        &self,
        keys: &[K],
        of: impl Fn(&K) -> Neighbourhood,
        mut work: impl FnMut(usize, &Neighbourhood),
    ) {
        let lines_per_key = keys.first().map_or(1, |key| of(key).cells().len());
        look_ahead(keys, is_cached(&self.lines), lines_per_key, |step, i, key| match step {
            Step::Fetch => of(key).cells().iter().for_each(|&cell| self.fetch(cell)),
            Step::Work => work(i, &of(key)),
        });
    }

    fn fetch(&self, cell: u32) {
        prefetch_line(&self.lines, self.place(cell).0 / LINE_WORDS);
    }

    pub(super) const fn len(&self) -> u32 {
        self.cells
    }

    /// Returns the size of all cells in bits.
    pub(super) const fn total_bits(&self) -> u64 {
        self.cells as u64 * self.bits as u64
    }

    /// Returns the words that contain cells.
    pub(super) fn words(&self) -> &[u64] {
        &self.lines.words()[..self.total_bits().div_ceil(64) as usize]
    }

    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        let words = self.total_bits().div_ceil(64) as usize;
        &mut self.lines.words_mut()[..words]
    }

    /// Returns the bits after the last cell, which are zero in every valid table.
    pub(super) fn padding(&self) -> u64 {
        let last = self.words().last().copied().unwrap_or(0);
        last.checked_shr(self.used_in_last_word()).unwrap_or(0)
    }

    const fn used_in_last_word(&self) -> u32 {
        match self.total_bits() % 64 {
            0 => 64,
            used => used as u32,
        }
    }

    #[inline]
    const fn place(&self, cell: u32) -> (usize, u32) {
        let bit = cell as u64 * self.bits as u64;
        ((bit / 64) as usize, (bit % 64) as u32)
    }

    #[inline]
    const fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_every_width_keep_what_is_put_there() {
        for bits in 1..=64 {
            let mut table = CellTable::new(100, bits);
            let value = |cell: u32| 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(u64::from(cell) + 1) & table_mask(bits);
            for cell in (0..100).rev() {
                table.set(cell, table_mask(bits));
                table.set(cell, value(cell));
            }
            assert!((0..100).all(|cell| table.get(cell) == value(cell)), "{bits} bits");
            assert_eq!(table.padding(), 0);
        }
    }

    #[test]
    #[should_panic(expected = "would change the next cell")]
    fn a_value_that_is_wider_than_its_cell_is_refused() {
        CellTable::new(100, 7).set(5, 128);
    }

    fn table_mask(bits: u32) -> u64 {
        u64::MAX >> (64 - bits)
    }
}
