//! One layer: where a key lies in it, whether it was bumped, and what is stored for it.

use crate::hash::finalise;
use crate::lines::{LINE_WORDS, Line, Lines};
use crate::{Fingerprint, kernels};

/// Most layers of a map. Each has a fiftieth of the keys of the one before: six are enough for 2^30 keys.
pub const LAYERS_MAX: usize = 16;

/// Slots whose bits share words: bit j of all of them is one word.
pub(crate) const BLOCK_SLOTS: u64 = 64;
/// Starts that share a threshold.
pub(super) const BUCKET_STARTS: u64 = 128;
/// What the two bits of a bucket mean: keys that start below are in the next layer.
pub(super) const THRESHOLDS: [u64; 4] = [0, 16, 44, BUCKET_STARTS];
const CODE_BITS: u64 = 2;
const CODES_PER_WORD: u64 = 64 / CODE_BITS;

/// Words behind the last block, so that columns can be read several at a time.
pub(crate) const PADDING_WORDS: usize = 4;

/// Keys per hundred slots, but for small layers: too many, so that every slot is used.
const LOAD_PERCENT: usize = 102;
/// Layers of fewer keys are not overloaded, or there would be no end of them.
const SMALL_KEYS: usize = 2000;
const SMALL_LOAD_PERCENT: usize = 80;

/// The size of a layer, from which all its arrays follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LayerShape {
    /// Blocks of 64 slots, at least 2.
    blocks: u32,
    /// r.
    width: u32,
    /// Which layer it is.
    depth: u32,
}

impl LayerShape {
    pub(crate) const BLOCKS_MIN: u32 = 2;

    /// A layer of `blocks` blocks; at least two, or there is no room to start.
    pub(crate) const fn new(blocks: u32, width: u32, depth: u32) -> Self {
        Self { blocks, width, depth }
    }

    /// A layer to be built with `keys` keys.
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

    /// Where keys can start: a block before the end, so that the 64 slots of each lie in two blocks that exist.
    const fn starts(self) -> u64 {
        self.slots() - BLOCK_SLOTS
    }

    const fn lines_per_key(self) -> usize {
        let words = 2 * self.width();
        // Blocks of whole lines begin with a line.
        words.div_ceil(LINE_WORDS) + if self.width().is_multiple_of(LINE_WORDS) { 0 } else { 1 }
    }

    pub(super) const fn buckets(self) -> u64 {
        self.starts().div_ceil(BUCKET_STARTS)
    }

    /// Words of the solution.
    pub(crate) const fn solution_words(self) -> u64 {
        self.blocks as u64 * self.width as u64
    }

    /// Words of the codes.
    pub(crate) const fn code_words(self) -> u64 {
        self.buckets().div_ceil(CODES_PER_WORD)
    }

    /// Where `key` starts, and its coefficients, of which the first is 1.
    #[inline(always)]
    pub(super) const fn place(self, key: &Fingerprint) -> (u64, u64) {
        place(key, self.salt(), self.starts())
    }

    /// What makes places in one layer another than in the next. In the first it is 0: nothing is hashed twice for the
    /// keys that lie there, all but 2 of 100, and in their order, they lie in order.
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
            // The start rests on both halves: keys of equal leading ones, however many, are told apart here.
            let low = finalise(key.low() ^ salt);
            (finalise(key.high() ^ low), low)
        }
    };
    (((high as u128 * starts as u128) >> 64) as u64, low | 1)
}

/// A layer: the solution, and a code per bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layer {
    shape: LayerShape,
    /// Block by block the words of its r bits.
    solution: Lines,
    codes: Vec<u64>,
}

impl Layer {
    /// A layer whose keys are all bumped nowhere and whose slots are zeros.
    pub(crate) fn empty(shape: LayerShape) -> Self {
        let solution = Lines::for_bits((shape.solution_words() + PADDING_WORDS as u64) * 64);
        Self { shape, solution, codes: vec![0; shape.code_words() as usize] }
    }

    pub(crate) const fn shape(&self) -> LayerShape {
        self.shape
    }

    /// Bits of solution and codes.
    pub(crate) const fn total_bits(&self) -> u64 {
        (self.shape.solution_words() + self.shape.code_words()) * 64
    }

    /// What look-ups need of it, at hand.
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
            is_cached: kernels::is_cached(&self.solution),
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

    /// What lies behind the code of the last bucket: nothing, in every layer that was made here.
    pub(crate) fn padding(&self) -> u64 {
        match self.shape.buckets() % CODES_PER_WORD * CODE_BITS {
            0 => 0,
            used => self.codes.last().map_or(0, |word| word >> used),
        }
    }
}

/// A layer to look keys up in.
#[derive(Clone, Copy)]
pub(crate) struct LayerView<'a> {
    lines: &'a [Line],
    words: &'a [u64],
    codes: &'a [u64],
    width: usize,
    salt: u64,
    starts: u64,
    /// Lines that two neighbouring blocks lie in, at most.
    lines_per_key: usize,
    /// Whether it is small enough to do without prefetching.
    is_cached: bool,
}

impl<'a> LayerView<'a> {
    /// r.
    #[inline(always)]
    pub(crate) const fn width(self) -> usize {
        self.width
    }

    /// As [`LayerShape::place`].
    #[inline(always)]
    pub(crate) const fn place(self, key: &Fingerprint) -> (u64, u64) {
        place(key, self.salt, self.starts)
    }

    /// Whether a key that starts at `start` went to the next layer.
    #[inline(always)]
    pub(crate) fn is_bumped(self, start: u64) -> bool {
        let bucket = start / BUCKET_STARTS;
        let code = self.codes[(bucket / CODES_PER_WORD) as usize] >> (bucket % CODES_PER_WORD * CODE_BITS);
        start % BUCKET_STARTS < THRESHOLDS[(code % 4) as usize]
    }

    /// The first `columns` words of the block that `start` lies in, and of the next. Past the width, by up to
    /// [`PADDING_WORDS`], they are those of other blocks.
    #[inline(always)]
    pub(crate) fn blocks_at(self, start: u64, columns: usize) -> (&'a [u64], &'a [u64]) {
        let first = (start / BLOCK_SLOTS) as usize * self.width;
        (&self.words[first..first + columns], &self.words[first + self.width..first + self.width + columns])
    }

    /// Starts to load what [`blocks_at`](Self::blocks_at) gives.
    #[inline(always)]
    pub(crate) fn fetch(self, start: u64) {
        if self.is_cached {
            return;
        }
        let first = (start / BLOCK_SLOTS) as usize * self.width;
        let last = first + 2 * self.width - 1;
        // As many for every key, some of them twice: how often a loop runs should be foreseen.
        for line in 0..self.lines_per_key {
            kernels::prefetch_line(self.lines, (first + line * LINE_WORDS).min(last) / LINE_WORDS);
        }
    }
}
