//! One block of the array: unchanged, whole, or coded, whichever is shortest.

use std::io::Read;

use super::bits::{BitReader, BitWriter, Code};
use super::changes::{Changes, change_cells, find_gaps, set_zeros};
use crate::file::{FileError, Header, InputWords};

/// Maximum number of words in a block: 32 KiB.
pub(crate) const BLOCK_WORDS_MAX: usize = 4096;

const UNCHANGED: u8 = 0;
const WHOLE: u8 = 1;
const ZERO_GAPS: u8 = 2;
const DIFFERENCES: u8 = 3;

/// Bytes of the tag and the length that precede a coded block.
const FRAME_BYTES: usize = 3;
/// Bytes of the parameter and the count that precede the gaps between zeros.
const ZERO_GAPS_BYTES: usize = 5;
/// Bytes of the parameters and the count that precede the differences of cells.
const DIFFERENCES_BYTES: usize = 6;

/// The parameters of a filter that a block depends on.
#[derive(Clone, Copy)]
pub(crate) struct BlockShape {
    width: u32,
    is_membership: bool,
    cells: u64,
}

impl BlockShape {
    pub(super) const fn new(header: &Header) -> Self {
        Self { width: header.cell_bits, is_membership: !header.kind.counts(), cells: header.cells }
    }

    /// Returns the number of words of every block except the last. A block contains a whole number of cells.
    pub(super) const fn block_words(&self) -> usize {
        BLOCK_WORDS_MAX - BLOCK_WORDS_MAX % self.width as usize
    }

    /// Returns the number of cells in `words` words, starting at word `start`.
    fn cells(&self, start: u64, words: usize) -> u64 {
        let width = u64::from(self.width);
        (words as u64 * 64 / width).min(self.cells - start * 64 / width)
    }
}

/// Encodes blocks, reusing its memory.
pub(crate) struct BlockEncoder {
    shape: BlockShape,
    gaps: Vec<u32>,
    changes: Changes,
}

impl BlockEncoder {
    pub(crate) fn new(shape: BlockShape) -> Self {
        Self { shape, gaps: Vec::new(), changes: Changes::default() }
    }

    /// Appends the change from block `base` to block `target`.
    pub(crate) fn encode(&mut self, base: &[u64], target: &[u64], output: &mut Vec<u8>) {
        if base == target {
            return output.push(UNCHANGED);
        }
        self.gaps.clear();
        if self.shape.is_membership && find_gaps(base, target, &mut self.gaps) {
            self.encode_zero_gaps(target, output);
        } else {
            self.changes.find(base, target, self.shape.width);
            self.encode_differences(target, output);
        }
    }

    fn encode_zero_gaps(&self, target: &[u64], output: &mut Vec<u8>) {
        let code = Code::best(&self.gaps);
        let mut codes = BitWriter::default();
        self.gaps.iter().for_each(|&gap| codes.put_code(gap.into(), code));
        let fixed = [&[code.parameter()][..], &count_bytes(&self.gaps)].concat();
        encode_shorter(ZERO_GAPS, &fixed, &codes.finish(), target, output);
    }

    fn encode_differences(&self, target: &[u64], output: &mut Vec<u8>) {
        let Changes { gaps, steps } = &self.changes;
        let (gap_code, step_code) = (Code::best(gaps), Code::best(steps));
        let mut codes = BitWriter::default();
        for (&gap, &step) in gaps.iter().zip(steps) {
            codes.put_code(gap.into(), gap_code);
            if self.shape.width > 1 {
                codes.put_code(step.into(), step_code);
            }
        }
        let fixed = [&[gap_code.parameter(), step_code.parameter()][..], &count_bytes(gaps)].concat();
        encode_shorter(DIFFERENCES, &fixed, &codes.finish(), target, output);
    }
}

fn count_bytes(gaps: &[u32]) -> [u8; 4] {
    (gaps.len() as u32).to_le_bytes()
}

/// Appends a coded block, or the whole of `target` if that is shorter.
fn encode_shorter(tag: u8, fixed: &[u8], codes: &[u8], target: &[u64], output: &mut Vec<u8>) {
    let length = fixed.len() + codes.len();
    // A coded block is shorter than a whole one of 32 KiB, so its length fits in 16 bits.
    match u16::try_from(length) {
        Ok(short) if length + FRAME_BYTES < whole_bytes(target) => {
            output.push(tag);
            output.extend_from_slice(&short.to_le_bytes());
            output.extend_from_slice(fixed);
            output.extend_from_slice(codes);
        }
        _ => encode_whole(target, output),
    }
}

/// Returns the size in bytes of a block that is written as a whole.
const fn whole_bytes(target: &[u64]) -> usize {
    1 + target.len() * 8
}

fn encode_whole(target: &[u64], output: &mut Vec<u8>) {
    output.push(WHOLE);
    target.iter().for_each(|word| output.extend_from_slice(&word.to_le_bytes()));
}

/// Turns `words`, the block of the base that begins at word `start`, into the block of the target.
pub(crate) fn decode_block<R: Read>(
    shape: BlockShape,
    start: u64,
    words: &mut [u64],
    input: &mut InputWords<R>,
) -> Result<(), FileError> {
    match take(input)? {
        [UNCHANGED] => Ok(()),
        [WHOLE] => input.take(words),
        [ZERO_GAPS] if shape.is_membership => decode_zero_gaps(shape, start, words, input),
        [DIFFERENCES] => decode_differences(shape, start, words, input),
        [tag] => Err(FileError::invalid("the form of a block", tag)),
    }
}

fn decode_zero_gaps<R: Read>(
    shape: BlockShape,
    start: u64,
    words: &mut [u64],
    input: &mut InputWords<R>,
) -> Result<(), FileError> {
    let length = take_length(input, ZERO_GAPS_BYTES)?;
    let [parameter] = take(input)?;
    let code = Code::new(parameter)?;
    let count = take_count(input, shape.cells(start, words.len()))?;
    let mut codes = take_codes(input, length)?;
    set_zeros(words, count, code, &mut codes)?;
    codes.finish()
}

fn decode_differences<R: Read>(
    shape: BlockShape,
    start: u64,
    words: &mut [u64],
    input: &mut InputWords<R>,
) -> Result<(), FileError> {
    let length = take_length(input, DIFFERENCES_BYTES)?;
    let [gap_parameter, step_parameter] = take(input)?;
    let pair = [Code::new(gap_parameter)?, Code::new(step_parameter)?];
    let cells = shape.cells(start, words.len());
    let count = take_count(input, cells)?;
    let mut codes = take_codes(input, length)?;
    change_cells(words, shape.width, cells, count, pair, &mut codes)?;
    codes.finish()
}

/// Reads the next `N` bytes.
pub(super) fn take<R: Read, const N: usize>(input: &mut InputWords<R>) -> Result<[u8; N], FileError> {
    let mut bytes = [0; N];
    input.take_bytes(&mut bytes)?;
    Ok(bytes)
}

/// Reads the length of a coded block, and subtracts the `fixed` bytes at its start.
fn take_length<R: Read>(input: &mut InputWords<R>, fixed: usize) -> Result<usize, FileError> {
    let length = u16::from_le_bytes(take(input)?);
    let codes = usize::from(length).checked_sub(fixed);
    codes.ok_or_else(|| FileError::invalid("the length of a block", length))
}

fn take_count<R: Read>(input: &mut InputWords<R>, cells: u64) -> Result<u32, FileError> {
    let count = u32::from_le_bytes(take(input)?);
    let fits = (1..=cells).contains(&count.into());
    if fits { Ok(count) } else { Err(FileError::invalid("the number of changes in a block", count)) }
}

/// Reads the next `length` bytes, at most 64 KiB, as codes.
pub(super) fn take_codes<R: Read>(input: &mut InputWords<R>, length: usize) -> Result<BitReader, FileError> {
    let mut bytes = Vec::with_capacity(length + 8);
    bytes.resize(length, 0);
    input.take_bytes(&mut bytes)?;
    Ok(BitReader::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::CELL_BITS_MAX;

    #[test]
    fn no_block_ends_within_a_cell() {
        for width in 1..=CELL_BITS_MAX {
            let shape = BlockShape { width, is_membership: false, cells: 1 << 20 };
            assert!((shape.block_words() * 64).is_multiple_of(width as usize));
            assert!(shape.block_words() + width as usize > BLOCK_WORDS_MAX);
        }
    }

    #[test]
    fn the_cells_of_the_last_block_end_with_the_filter() {
        let shape = BlockShape { width: 3, is_membership: false, cells: 4095 * 64 / 3 + 5 };
        assert_eq!(shape.cells(0, 4095), 4095 * 64 / 3);
        assert_eq!(shape.cells(4095, 1), 5);
    }
}
