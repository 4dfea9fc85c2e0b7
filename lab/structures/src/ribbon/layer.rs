//! One layer of a ribbon map: the positions of keys, the rule for bumping, and the storage.

use bruit_filters::Fingerprint;
use bruit_filters::internal::finalise;
use bruit_filters::internal::{LINE_WORDS, Line, Lines};
use bruit_filters::internal::{is_cached, prefetch_line};

/// Maximum number of layers. Each layer has a fiftieth of the previous layer's keys, so six are enough for 2^30 keys.
pub const LAYERS_MAX: usize = 16;

/// Number of slots in a block. A word contains one bit of every slot.
pub(crate) const BLOCK_SLOTS: u64 = 64;
/// Number of starts that share a threshold.
pub(super) const BUCKET_STARTS: u64 = 128;
/// The threshold for each two-bit code of a bucket. Keys that start below the threshold are in the next layer.
pub(super) const THRESHOLDS: [u64; 4] = [0, 16, 44, BUCKET_STARTS];
const CODE_BITS: u64 = 2;
const CODES_PER_WORD: u64 = 64 / CODE_BITS;

/// Number of extra words after the last block. They allow several columns to be read at a time.
pub(crate) const PADDING_WORDS: usize = 4;

/// Number of keys per hundred slots, except in small layers. The load is above 100 %, so that every slot is used.
const LOAD_PERCENT: usize = 102;
/// Layers with fewer keys than this are not overloaded, so that the sequence of layers ends.
const SMALL_KEYS: usize = 2000;
const SMALL_LOAD_PERCENT: usize = 80;

/// The shape of a layer, which determines the sizes of all its arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayerShape {
    /// Number of blocks of 64 slots, at least 2.
    blocks: u32,
    /// r, the number of bits of an answer.
    width: u32,
    /// Index of the layer.
    depth: u32,
}

impl LayerShape {
    pub(crate) const BLOCKS_MIN: u32 = 2;

    /// Creates the shape of a layer of `blocks` blocks. At least two are required, because a single block has no valid
    /// start.
    pub(crate) const fn new(blocks: u32, width: u32, depth: u32) -> Self {
        Self { blocks, width, depth }
    }

    /// Creates the shape of a layer for `keys` keys.
    pub(super) fn for_keys(keys: usize, width: u32, depth: u32) -> Self {
        let load = if keys < SMALL_KEYS { SMALL_LOAD_PERCENT } else { LOAD_PERCENT };
        let slots = (keys * 100).div_ceil(load) as u64;
        let blocks = slots.div_ceil(BLOCK_SLOTS).max(1) + 1;
        Self::new(u32::try_from(blocks).expect("a map has at most 2^30 keys"), width, depth)
    }

    pub(crate) const fn blocks(self) -> u32 {
        self.blocks
    }

    pub(super) const fn width(self) -> usize {
        self.width as usize
    }

    pub(super) const fn slots(self) -> u64 {
        self.blocks as u64 * BLOCK_SLOTS
    }

    /// Returns the number of starts. The last start is one block before the end, so that the 64 slots of each start lie
    /// in two blocks.
    const fn starts(self) -> u64 {
        self.slots() - BLOCK_SLOTS
    }

    const fn lines_per_key(self) -> usize {
        let words = 2 * self.width();
        // A block that consists of whole lines begins at a line.
        words.div_ceil(LINE_WORDS) + if self.width().is_multiple_of(LINE_WORDS) { 0 } else { 1 }
    }

    pub(super) const fn buckets(self) -> u64 {
        self.starts().div_ceil(BUCKET_STARTS)
    }

    /// Returns the number of words of the solution.
    pub(crate) const fn solution_words(self) -> u64 {
        self.blocks as u64 * self.width as u64
    }

    /// Returns the number of words of the codes.
    pub(crate) const fn code_words(self) -> u64 {
        self.buckets().div_ceil(CODES_PER_WORD)
    }

    /// Returns the start of `key` and its coefficients. The first coefficient is 1.
    #[inline(always)]
    pub(super) const fn place(self, key: &Fingerprint) -> (u64, u64) {
        place(key, self.salt(), self.starts())
    }

    /// Returns the salt, which gives a key different places in different layers. In the first layer, which has 98 % of
    /// all keys, the salt is 0. So these keys need not be hashed again, and are already in the order of their places.
    const fn salt(self) -> u64 {
        match self.depth {
            0 => 0,
            depth => finalise(depth as u64),
        }
    }
}

#[inline(always)]
const fn place(key: &Fingerprint, salt: u64, starts: u64) -> (u64, u64) {
    let (high, low) = match salt {
        0 => (key.high(), key.low()),
        _ => {
            // The start depends on both halves of the fingerprint, so that keys with the same leading half have
            // different starts, however many such keys there are.
            let low = finalise(key.low() ^ salt);
            (finalise(key.high() ^ low), low)
        }
    };
    (((high as u128 * starts as u128) >> 64) as u64, low | 1)
}

/// A layer: the solution, and a code for each bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    shape: LayerShape,
    /// The words, one for each of the r bits, block by block.
    solution: Lines,
    codes: Vec<u64>,
}

impl Layer {
    /// Creates a layer in which all slots are zero and no keys are bumped.
    pub(crate) fn empty(shape: LayerShape) -> Self {
        let solution = Lines::for_bits((shape.solution_words() + PADDING_WORDS as u64) * 64);
        let solution = solution.unwrap_or_else(|error| panic!("{error}"));
        Self { shape, solution, codes: vec![0; shape.code_words() as usize] }
    }

    pub(crate) const fn shape(&self) -> LayerShape {
        self.shape
    }

    /// Returns the size of the solution and the codes in bits.
    pub(crate) const fn total_bits(&self) -> u64 {
        (self.shape.solution_words() + self.shape.code_words()) * 64
    }

    /// Returns a view with the data that lookups need.
    #[inline(always)]
    pub(crate) fn view(&self) -> LayerView<'_> {
        LayerView {
            lines: &self.solution,
            words: self.solution.words(),
            codes: &self.codes,
            width: self.shape.width(),
            salt: self.shape.salt(),
            starts: self.shape.starts(),
            lines_per_key: self.shape.lines_per_key(),
            is_cached: is_cached(&self.solution),
        }
    }

    pub(super) fn set_code(&mut self, bucket: u64, code: u64) {
        self.codes[(bucket / CODES_PER_WORD) as usize] |= code << (bucket % CODES_PER_WORD * CODE_BITS);
    }

    pub(crate) fn words(&self) -> [&[u64]; 2] {
        [&self.solution.words()[..self.shape.solution_words() as usize], &self.codes]
    }

    pub(crate) fn words_mut(&mut self) -> [&mut [u64]; 2] {
        let words = self.shape.solution_words() as usize;
        [&mut self.solution.words_mut()[..words], &mut self.codes]
    }

    /// Returns the bits after the code of the last bucket. They are zero in every valid layer.
    pub(crate) fn padding(&self) -> u64 {
        match self.shape.buckets() % CODES_PER_WORD * CODE_BITS {
            0 => 0,
            used => self.codes.last().map_or(0, |word| word >> used),
        }
    }
}

/// A view of a layer for lookups.
#[derive(Clone, Copy)]
pub(crate) struct LayerView<'a> {
    lines: &'a [Line],
    words: &'a [u64],
    codes: &'a [u64],
    width: usize,
    salt: u64,
    starts: u64,
    /// Maximum number of lines that two neighbouring blocks span.
    lines_per_key: usize,
    /// True if the layer is so small that prefetching does not help.
    is_cached: bool,
}

impl<'a> LayerView<'a> {
    /// Returns r, the number of bits of an answer.
    #[inline(always)]
    pub(crate) const fn width(self) -> usize {
        self.width
    }

    /// Returns the start of `key` and its coefficients, as [`LayerShape::place`] does.
    #[inline(always)]
    pub(crate) const fn place(self, key: &Fingerprint) -> (u64, u64) {
        place(key, self.salt, self.starts)
    }

    /// Returns true if a key that starts at `start` was bumped to the next layer.
    #[inline(always)]
    pub(crate) fn is_bumped(self, start: u64) -> bool {
        let bucket = start / BUCKET_STARTS;
        let code = self.codes[(bucket / CODES_PER_WORD) as usize] >> (bucket % CODES_PER_WORD * CODE_BITS);
        start % BUCKET_STARTS < THRESHOLDS[(code % 4) as usize]
    }

    /// Returns the first `columns` words of the block that contains `start`, and of the next block. `columns` may
    /// exceed the width by up to [`PADDING_WORDS`]; the extra words belong to other blocks.
    #[inline(always)]
    pub(crate) fn blocks_at(self, start: u64, columns: usize) -> (&'a [u64], &'a [u64]) {
        let first = (start / BLOCK_SLOTS) as usize * self.width;
        (&self.words[first..first + columns], &self.words[first + self.width..first + self.width + columns])
    }

    /// Prefetches the words that [`blocks_at`](Self::blocks_at) returns.
    #[inline(always)]
    pub(crate) fn fetch(self, start: u64) {
        if self.is_cached {
            return;
        }
        let first = (start / BLOCK_SLOTS) as usize * self.width;
        let last = first + 2 * self.width - 1;
        // Prefetch the same number of lines for every key, some of them twice, so that the number of iterations is
        // predictable.
        for line in 0..self.lines_per_key {
            prefetch_line(self.lines, (first + line * LINE_WORDS).min(last) / LINE_WORDS);
        }
    }
}
