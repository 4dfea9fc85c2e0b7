//! The inner loops, in portable Rust compiled for what the processor has.

pub(crate) mod merge;

/// Which inner loops to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Path {
    /// The fastest path of this processor.
    #[inline]
    pub(crate) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            return Self::Avx2;
        }
        Self::Portable
    }
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
