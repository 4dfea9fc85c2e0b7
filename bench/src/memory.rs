//! The memory operations with which filters are compared: random line reads, random line read-modify-writes, and
//! memcpy.
//!
//! The loops are the fastest that were found on the machine of docs/benchmarks.md: 64 lines in flight, prefetched into
//! the second-level cache. Prefetching into the first-level cache is the usual choice, and is measured for comparison.

use bruit_filters::Fingerprint;
use memmap2::MmapMut;

const IN_FLIGHT: usize = 64;

/// The x86-64 hints for prefetching into the first-level cache (T0) and into the second-level cache (T1).
const FIRST_LEVEL: i32 = 3;
const SECOND_LEVEL: i32 = 2;

type Line = [u64; 8];

/// A buffer in huge pages.
pub(crate) struct Buffer(MmapMut);

impl Buffer {
    /// Allocates `bytes` zeroed bytes, and touches all pages.
    pub(crate) fn new(bytes: usize) -> Self {
        let mut map = MmapMut::map_anon(bytes).expect("the machine has enough memory");
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        map.fill(1);
        Self(map)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn lines(&self) -> &[Line] {
        bytemuck::cast_slice(&self.0)
    }

    /// Reads one line for each key.
    pub(crate) fn read_lines(&self, keys: &[Fingerprint]) -> Line {
        self.read_lines_through::<SECOND_LEVEL>(keys)
    }

    /// Reads one line for each key, prefetching into the first-level cache.
    pub(crate) fn read_lines_through_first_level(&self, keys: &[Fingerprint]) -> Line {
        self.read_lines_through::<FIRST_LEVEL>(keys)
    }

    fn read_lines_through<const LEVEL: i32>(&self, keys: &[Fingerprint]) -> Line {
        let lines = self.lines();
        let mut sum = [0; 8];
        in_flight(
            keys,
            |i| prefetch::<LEVEL>(line_at(lines, keys[i])),
            |i| {
                for (sum, word) in sum.iter_mut().zip(line_at(lines, keys[i])) {
                    *sum ^= word;
                }
            },
        );
        sum
    }

    /// Reads, changes and writes one line for each key.
    pub(crate) fn change_lines(&mut self, keys: &[Fingerprint]) {
        let zero = std::hint::black_box(0);
        let lines: &mut [Line] = bytemuck::cast_slice_mut(&mut self.0);
        let count = lines.len();
        for i in 0..keys.len() {
            if let Some(next) = keys.get(i + IN_FLIGHT) {
                prefetch::<SECOND_LEVEL>(line_at(lines, *next));
            }
            lines[index_of(keys[i], count)].iter_mut().for_each(|word| *word += zero);
        }
    }
}

fn in_flight(keys: &[Fingerprint], fetch: impl Fn(usize), mut work: impl FnMut(usize)) {
    let end = keys.len();
    (0..IN_FLIGHT.min(end)).for_each(&fetch);
    for i in 0..end.saturating_sub(IN_FLIGHT) {
        fetch(i + IN_FLIGHT);
        work(i);
    }
    (end.saturating_sub(IN_FLIGHT)..end).for_each(work);
}

#[inline(always)]
fn index_of(key: Fingerprint, count: usize) -> usize {
    ((u128::from(key.high()) * count as u128) >> 64) as usize
}

#[inline(always)]
fn line_at(lines: &[Line], key: Fingerprint) -> &Line {
    &lines[index_of(key, lines.len())]
}

#[inline(always)]
#[expect(unsafe_code, reason = "prefetching needs an intrinsic")]
fn prefetch<const LEVEL: i32>(line: &Line) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and cannot fault. Every x86-64 processor has SSE.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<LEVEL>(std::ptr::from_ref(line).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
