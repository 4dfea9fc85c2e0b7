//! The memory of a filter: an array of 64-byte lines, on huge pages where it is large enough to gain from them.

use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, Zeroable};
use memmap2::MmapMut;

/// Words of 64 bits in a line.
pub(crate) const LINE_WORDS: usize = 8;
/// Bits in a line.
pub(crate) const LINE_BITS: u64 = 512;
/// Bytes in a line.
pub(crate) const LINE_BYTES: usize = 64;

/// Most lines of a filter whose keys each have one: kernels name a line by 32 bits.
pub(crate) const LINES_MAX: usize = u32::MAX as usize;

/// Arrays from this size on get a mapping of their own, on huge pages: a random access then costs no TLB miss.
const MAPPED_FROM_BYTES: usize = 4 << 20;

/// One cache line, the unit that every operation of the production layouts touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u64; LINE_WORDS]);

/// A zeroed array of lines that keeps its size.
pub(crate) struct Lines(Memory);

enum Memory {
    Heap(Vec<Line>),
    Mapped(MmapMut),
}

impl Lines {
    /// `count` zeroed lines.
    ///
    /// # Panics
    /// If the memory cannot be had, as `Vec` does.
    pub(crate) fn new(count: usize) -> Self {
        let bytes = count.checked_mul(LINE_BYTES).expect("a filter fits the address space");
        if bytes < MAPPED_FROM_BYTES {
            return Self(Memory::Heap(vec![Line::default(); count]));
        }
        let map = MmapMut::map_anon(bytes).unwrap_or_else(|error| panic!("failed to map {bytes} bytes: {error}"));
        // Advice only: without huge pages everything works, more slowly.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Self(Memory::Mapped(map))
    }

    /// The lines needed to hold `bits`, zeroed.
    pub(crate) fn for_bits(bits: u64) -> Self {
        let count = usize::try_from(bits.div_ceil(LINE_BITS)).expect("a filter fits the address space");
        Self::new(count)
    }

    /// All words, in order.
    pub(crate) fn words(&self) -> &[u64] {
        bytemuck::cast_slice(self)
    }

    /// All words, in order, to change.
    pub(crate) fn words_mut(&mut self) -> &mut [u64] {
        bytemuck::cast_slice_mut(self)
    }
}

impl Deref for Lines {
    type Target = [Line];

    #[inline(always)]
    fn deref(&self) -> &[Line] {
        match &self.0 {
            Memory::Heap(lines) => lines,
            Memory::Mapped(map) => bytemuck::cast_slice(map),
        }
    }
}

impl DerefMut for Lines {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Line] {
        match &mut self.0 {
            Memory::Heap(lines) => lines,
            Memory::Mapped(map) => bytemuck::cast_slice_mut(map),
        }
    }
}

impl Clone for Lines {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.len());
        copy.copy_from_slice(self);
        copy
    }
}

impl PartialEq for Lines {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Lines {}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} lines", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_and_small_arrays_start_zeroed_and_aligned() {
        for count in [0, 1, 1000, MAPPED_FROM_BYTES / LINE_BYTES + 1] {
            let lines = Lines::new(count);
            assert_eq!(lines.len(), count);
            assert!(lines.words().iter().all(|&word| word == 0));
            assert_eq!(lines.as_ptr().align_offset(LINE_BYTES), 0);
        }
    }
}
