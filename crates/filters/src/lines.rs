//! The memory of a filter: an array of 64-byte lines, on huge pages if it is large enough to benefit from them.
//!
//! Lines are read as a slice. For mutable access, the caller passes the indices of the lines that will change
//! ([`Lines::changing`] and its variants), so that a running snapshot can save their old contents first.

use std::io::{self, Read};
use std::ops::{Deref, Range};

use bytemuck::{Pod, Zeroable};
use memmap2::MmapMut;

use crate::undo::Undo;

/// Number of 64-bit words in a line.
pub const LINE_WORDS: usize = 8;
/// Bits in a line.
pub(crate) const LINE_BITS: u64 = 512;
/// Bytes in a line.
pub(crate) const LINE_BYTES: usize = 64;

/// Maximum number of lines of a filter with one line per key: kernels index lines by 32 bits.
pub(crate) const LINES_MAX: usize = u32::MAX as usize;

/// Arrays of at least this size have their own mapping on huge pages, so that random accesses cause few TLB misses.
const MAPPED_FROM_BYTES: usize = 4 << 20;

/// One cache line, the unit that every operation of the production layouts touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Line(pub [u64; LINE_WORDS]);

/// The error returned when memory cannot be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot allocate {bytes} bytes of memory")]
pub struct OutOfMemory {
    /// Bytes requested.
    pub bytes: u64,
}

impl From<OutOfMemory> for io::Error {
    fn from(error: OutOfMemory) -> Self {
        Self::new(io::ErrorKind::OutOfMemory, error)
    }
}

/// Number of lines to read from an input at a time.
const STEP_LINES: usize = 1024;

/// An array of lines with a fixed size, initially zeroed. Equality compares only the lines; a clone does not copy a
/// running snapshot.
pub struct Lines {
    memory: Memory,
    /// The undo log of a running snapshot.
    undo: Option<Box<Undo>>,
}

enum Memory {
    Heap(Vec<Line>),
    Mapped(MmapMut),
}

impl Lines {
    /// Creates an array of `count` zeroed lines.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn new(count: usize) -> Result<Self, OutOfMemory> {
        let bytes = count.checked_mul(LINE_BYTES).ok_or(OutOfMemory { bytes: u64::MAX })?;
        let out_of_memory = OutOfMemory { bytes: bytes as u64 };
        if bytes < MAPPED_FROM_BYTES {
            let mut lines = Vec::new();
            lines.try_reserve_exact(count).map_err(|_| out_of_memory)?;
            lines.resize(count, Line::default());
            return Ok(Self { memory: Memory::Heap(lines), undo: None });
        }
        let map = MmapMut::map_anon(bytes).map_err(|_| out_of_memory)?;
        // This is only a hint. Without huge pages everything works, but more slowly.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Self { memory: Memory::Mapped(map), undo: None })
    }

    /// Creates zeroed lines that hold at least `bits` bits.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn for_bits(bits: u64) -> Result<Self, OutOfMemory> {
        let count = usize::try_from(bits.div_ceil(LINE_BITS)).map_err(|_| OutOfMemory { bytes: u64::MAX })?;
        Self::new(count)
    }

    /// Returns an array that repeats each line `factor` times in a row. If the line index of a key is proportional to
    /// the length of the array, the key finds a copy of its former line.
    ///
    /// # Panics
    /// Panics if the memory cannot be allocated.
    pub(crate) fn repeated(&self, factor: usize) -> Self {
        let count = self.len().checked_mul(factor).expect("a filter fits in the address space");
        let mut repeated = Self::new(count).unwrap_or_else(|error| panic!("{error}"));
        // Zero lines are skipped, because the new lines are already zeroed and untouched pages use no memory.
        for (copies, line) in repeated.all_mut().chunks_exact_mut(factor.max(1)).zip(self.iter()) {
            if *line != Line::default() {
                copies.fill(*line);
            }
        }
        repeated
    }

    /// Returns all words, in order.
    pub fn words(&self) -> &[u64] {
        bytemuck::cast_slice(self)
    }

    /// Returns all words, in order. The caller may change any of them, as in [`changing_all`](Self::changing_all).
    pub fn words_mut(&mut self) -> &mut [u64] {
        bytemuck::cast_slice_mut(self.changing_all())
    }

    /// Returns all lines. The caller may change only the lines that `which` lists. `which` is called only during a
    /// snapshot.
    #[inline(always)]
    pub(crate) fn changing<I: IntoIterator<Item = usize>>(&mut self, which: impl FnOnce() -> I) -> &mut [Line] {
        if self.undo.is_some() {
            self.keep(which());
        }
        self.all_mut()
    }

    /// Returns the line `index`, which the caller may change.
    #[inline(always)]
    pub(crate) fn changing_one(&mut self, index: usize) -> &mut Line {
        &mut self.changing(|| [index])[index]
    }

    /// Returns the lines of `range`, which the caller may change.
    pub(crate) fn changing_range(&mut self, range: Range<usize>) -> &mut [Line] {
        &mut self.changing(|| range.clone())[range]
    }

    /// Returns all lines, which the caller may change. During a snapshot this copies all lines not yet written.
    pub(crate) fn changing_all(&mut self) -> &mut [Line] {
        self.changing_range(0..self.len())
    }

    /// Starts a snapshot of the current lines. Cancels one that is running.
    pub(crate) fn begin_snapshot(&mut self) {
        self.undo = Some(Box::default());
    }

    /// Cancels a running snapshot.
    pub(crate) fn cancel_snapshot(&mut self) {
        self.undo = None;
    }

    /// Appends up to `limit` further lines as they were when the snapshot began, and returns their number. The snapshot
    /// ends after the last line. Returns 0 if no snapshot is running.
    pub fn continue_snapshot(&mut self, limit: usize, out: &mut Vec<u8>) -> usize {
        let Some(mut undo) = self.undo.take() else { return 0 };
        let written = undo.append_next(self, limit, out);
        if undo.next() < self.len() {
            self.undo = Some(undo);
        }
        written
    }

    /// Returns true if a snapshot has lines left to write.
    pub(crate) const fn has_snapshot(&self) -> bool {
        self.undo.is_some()
    }

    /// Returns the number of lines in the undo log of a running snapshot.
    pub(crate) fn logged(&self) -> usize {
        self.undo.as_ref().map_or(0, |undo| undo.logged())
    }

    /// Reads all lines from the output of [`continue_snapshot`](Self::continue_snapshot).
    pub(crate) fn read(&mut self, input: &mut dyn Read) -> io::Result<()> {
        let mut bytes = Vec::new();
        for step in self.changing_all().chunks_mut(STEP_LINES) {
            bytes.resize(step.len() * LINE_BYTES, 0);
            input.read_exact(&mut bytes)?;
            let words: &mut [u64] = bytemuck::cast_slice_mut(step);
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
                *word = u64::from_le_bytes(*bytes);
            }
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn keep(&mut self, which: impl IntoIterator<Item = usize>) {
        if let Some(mut undo) = self.undo.take() {
            which.into_iter().for_each(|index| undo.keep(index, &self[index]));
            self.undo = Some(undo);
        }
    }

    #[inline(always)]
    fn all_mut(&mut self) -> &mut [Line] {
        match &mut self.memory {
            Memory::Heap(lines) => lines,
            Memory::Mapped(map) => bytemuck::cast_slice_mut(map),
        }
    }
}

impl Deref for Lines {
    type Target = [Line];

    #[inline(always)]
    fn deref(&self) -> &[Line] {
        match &self.memory {
            Memory::Heap(lines) => lines,
            Memory::Mapped(map) => bytemuck::cast_slice(map),
        }
    }
}

impl Clone for Lines {
    fn clone(&self) -> Self {
        // `Clone` cannot return an error.
        let mut copy = Self::new(self.len()).unwrap_or_else(|error| panic!("{error}"));
        copy.all_mut().copy_from_slice(self);
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
    fn failing_to_allocate_is_an_error() {
        let bytes = 1 << 60;
        assert_eq!(Lines::new(bytes / LINE_BYTES).unwrap_err(), OutOfMemory { bytes: bytes as u64 });
    }

    #[test]
    fn large_and_small_arrays_start_zeroed_and_aligned() {
        for count in [0, 1, 1000, MAPPED_FROM_BYTES / LINE_BYTES + 1] {
            let lines = Lines::new(count).unwrap();
            assert_eq!(lines.len(), count);
            assert!(lines.words().iter().all(|&word| word == 0));
            assert_eq!(lines.as_ptr().align_offset(LINE_BYTES), 0);
        }
    }
}
