//! The inner loops: one definition in portable Rust and one in AVX2, chosen at run time, with identical results.
//!
//! All `unsafe` code of this crate is here: whole-line loads and stores in [`avx2`], the calls into that module (after
//! the processor was checked), the prefetch hint, and the comparison in [`bytes`]. The interface of this module
//! consists of functions over slices and arrays.
//!
//! The loops process batches. At any moment the lines of [`IN_FLIGHT`] keys are being prefetched, so that memory
//! throughput, not latency, limits the speed. Lines are prefetched into the *second* level of the cache, which allows
//! more outstanding requests than the first: `cargo xtask bench --only membership` measures both.

#[cfg(target_arch = "x86_64")]
mod avx2;
pub(crate) mod bytes;
pub(crate) mod counts;
pub(crate) mod membership;
pub(crate) mod merge;
pub(crate) mod ring;

use crate::lines::Line;

/// Number of keys prefetched ahead. With 32, batches are a seventh slower; with 128, they are no faster.
pub const IN_FLIGHT: usize = 64;

/// Maximum number of lines (1 MiB) of a filter that fits in the second-level cache. Prefetching would only slow such a
/// filter down.
const CACHED_LINES: usize = (1 << 20) / size_of::<Line>();

/// Returns true if there are too few `lines` for prefetching to have a benefit.
#[inline]
pub fn is_cached(lines: &[Line]) -> bool {
    lines.len() <= CACHED_LINES
}

/// The implementation of the inner loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Portable Rust.
    Portable,
    /// AVX2 and POPCNT.
    #[cfg(target_arch = "x86_64")]
    Avx2(HasAvx2),
}

/// Proof that the processor has AVX2 and POPCNT (every processor with AVX2 has both). Created only by [`Path::best`].
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HasAvx2(());

impl Path {
    /// Returns the fastest path of this processor.
    #[inline]
    pub fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("popcnt") {
            return Self::Avx2(HasAvx2(()));
        }
        Self::Portable
    }
}

/// Calls `work` for each key in order, with the place that `locate` returned for the key. Calls `locate` [`IN_FLIGHT`]
/// keys ahead of `work` and, unless `cached`, passes the place to `fetch`. All three functions access the lines through
/// `lines`.
#[inline(always)]
pub(crate) fn pipelined<L, T, P: Copy + Default>(
    mut lines: L,
    keys: &[T],
    cached: bool,
    locate: impl Fn(&L, &T) -> P,
    fetch: impl Fn(&L, P),
    mut work: impl FnMut(&mut L, usize, &T, P),
) {
    // The work for a single key cannot overlap with other work, and clearing the array of places would take longer than
    // that work.
    if let [key] = keys {
        let place = locate(&lines, key);
        return work(&mut lines, 0, key, place);
    }
    let mut places = [P::default(); IN_FLIGHT];
    let arrive = |lines: &L, key: &T| {
        let place = locate(lines, key);
        if !cached {
            fetch(lines, place);
        }
        place
    };
    for (place, key) in places.iter_mut().zip(keys) {
        *place = arrive(&lines, key);
    }
    for (i, key) in keys.iter().enumerate() {
        let waiting = &mut places[i % IN_FLIGHT];
        let place = *waiting;
        if let Some(next) = keys.get(i + IN_FLIGHT) {
            *waiting = arrive(&lines, next);
        }
        work(&mut lines, i, key, place);
    }
}

/// Runs [`pipelined`] for a layout in which a key has one line.
#[inline(always)]
fn by_line<L: AsRef<[Line]>, T>(
    lines: L,
    keys: &[T],
    locate: impl Fn(&[Line], &T) -> u32,
    work: impl FnMut(&mut L, usize, &T, u32),
) {
    let cached = is_cached(lines.as_ref());
    let locate = |lines: &L, key: &T| locate(lines.as_ref(), key);
    pipelined(lines, keys, cached, locate, |lines, line| prefetch_line(lines.as_ref(), line as usize), work);
}

/// Calls `step` with [`Step::Work`] for each key in order and, unless `cached`, with [`Step::Fetch`] about
/// [`IN_FLIGHT`] lines ahead. A key has `lines_per_key` lines. Unlike `pipelined`, this function does not store places,
/// because a key of the classical layouts can have any number of them. So `step` locates the places twice.
pub fn look_ahead<T>(keys: &[T], cached: bool, lines_per_key: usize, mut step: impl FnMut(Step, usize, &T)) {
    let ahead = if cached { keys.len() } else { (IN_FLIGHT / lines_per_key.max(1)).max(1).min(keys.len()) };
    if !cached {
        (0..ahead).for_each(|i| step(Step::Fetch, i, &keys[i]));
    }
    for (i, key) in keys.iter().enumerate() {
        if let Some(next) = keys.get(i + ahead) {
            step(Step::Fetch, i + ahead, next);
        }
        step(Step::Work, i, key);
    }
}

/// The two steps of [`look_ahead`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Prefetch the lines of the key.
    Fetch,
    /// Do the work for the key.
    Work,
}

/// Prefetches line `index` of `lines`.
#[inline(always)]
pub fn prefetch_line(lines: &[Line], index: usize) {
    prefetch(lines.as_ptr().wrapping_add(index));
}

/// Prefetches the cache line at `place`, on processors that support it.
#[inline(always)]
#[expect(unsafe_code, reason = "prefetching needs an intrinsic")]
fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and cannot fault for any address; SSE is part of every x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
