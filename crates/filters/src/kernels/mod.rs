//! The inner loops: one definition in portable Rust, one in AVX2 chosen at run time, with the same bits on both.
//!
//! Everything `unsafe` in this crate is here: whole-line loads and stores in [`avx2`], the calls that enter it after the
//! processor was asked, the prefetch hint and the comparison of [`bytes`]. All of it stands behind functions over slices
//! and arrays.
//!
//! The loops take batches. At any moment the lines of [`IN_FLIGHT`] keys are on their way from memory, so that a key costs
//! its share of the memory's throughput and not its latency. They are fetched into the *second* level of the cache, where
//! more of them can wait than at the first: `cargo xtask bench --only membership` shows both.

#[cfg(target_arch = "x86_64")]
mod avx2;
pub(crate) mod bytes;
pub(crate) mod counts;
pub(crate) mod membership;
pub(crate) mod merge;
pub(crate) mod ribbon;
pub(crate) mod ring;

use crate::lines::Line;

/// Keys whose lines are on their way while one is worked on. 32 lose a seventh, 128 gain nothing.
pub(crate) const IN_FLIGHT: usize = 64;

/// Filters up to this many lines (1 MiB) sit in the second-level cache, where prefetching only costs.
const CACHED_LINES: usize = (1 << 20) / size_of::<Line>();

/// Whether `lines` are few enough to do without prefetching.
#[inline]
pub(crate) fn is_cached(lines: &[Line]) -> bool {
    lines.len() <= CACHED_LINES
}

/// Which inner loops to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(HasAvx2),
}

/// Proof that the processor was asked, and has AVX2 and, as all that have it, POPCNT. Only [`Path::best`] makes it.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HasAvx2(());

impl Path {
    /// The fastest path of this processor.
    #[inline]
    pub(crate) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("popcnt") {
            return Self::Avx2(HasAvx2(()));
        }
        Self::Portable
    }
}

/// Calls `work` for each key in order with the place that `locate` found for it; [`IN_FLIGHT`] keys earlier the place was
/// found and, unless `cached`, given to `fetch`. All get at the lines through `lines`.
#[inline(always)]
pub(crate) fn pipelined<L, T, P: Copy + Default>(
    mut lines: L,
    keys: &[T],
    cached: bool,
    locate: impl Fn(&L, &T) -> P,
    fetch: impl Fn(&L, P),
    mut work: impl FnMut(&mut L, usize, &T, P),
) {
    // Alone, a key has nothing to wait behind, and clearing the places would take longer than the key does.
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

/// [`pipelined`] for layouts in which a key has one line.
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

/// Asks for the work of each key in order, and for its fetch about [`IN_FLIGHT`] lines earlier, for layouts in which a key
/// has `lines_per_key` lines; not at all if `cached`. Unlike [`pipelined`] it keeps no places: a key of the classical
/// layouts has any number of them, and is located again when its turn comes.
pub(crate) fn look_ahead<T>(keys: &[T], cached: bool, lines_per_key: usize, mut step: impl FnMut(Step, usize, &T)) {
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

/// What [`look_ahead`] asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Start to load what the key needs.
    Fetch,
    /// Do the work of the key.
    Work,
}

/// Starts to load line `index` of `lines`.
#[inline(always)]
pub(crate) fn prefetch_line(lines: &[Line], index: usize) {
    prefetch(lines.as_ptr().wrapping_add(index));
}

/// Starts to load the cache line at `place`, where the processor takes such hints.
#[inline(always)]
#[expect(unsafe_code, reason = "prefetching is a hint that only an intrinsic can give")]
fn prefetch<T>(place: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing and cannot fault, wherever it points; SSE is part of every x86-64.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
