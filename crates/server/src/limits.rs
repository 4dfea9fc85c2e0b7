//! Rate limits per source, implemented as token buckets in a table of fixed size.
//!
//! A keyed hash assigns each source one cell in each of two rows. A source is refused only if neither cell has a token
//! left. Sources share cells, as in a Bloom filter. No bucket is ever evicted, so a flood from many networks cannot
//! regain its used tokens. A source within its limit is refused only if it shares both cells with sources over their
//! limit. With 1,000 such sources, the probability is one in 4,300.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of cells in a row.
const CELLS: usize = 1 << 16;

/// Number of rows. Every source has one cell in each.
const ROWS: usize = 2;

/// A rate limit: a long-term rate and a maximum burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Long-term rate. Zero refuses everything.
    pub per_second: f64,
    /// Maximum number of requests in a burst.
    pub burst: u32,
}

/// The buckets of all sources for one kind of request.
///
/// A cell contains the time when its bucket will be full again, in nanoseconds. One number thus represents the level,
/// and a full bucket needs no refill (the generic cell rate algorithm).
#[derive(Debug)]
pub(crate) struct Buckets {
    cells: Box<[AtomicU64]>,
}

impl Buckets {
    pub(crate) fn new() -> Self {
        Self { cells: (0..ROWS * CELLS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Takes a token from the buckets of the source with this hash, and returns true if one was available. `now` is the
    /// time since the server started.
    pub(crate) fn admit(&self, source: u64, rate: Rate, now: Duration) -> bool {
        self.admit_many(source, 1, rate, now)
    }

    /// Takes `count` tokens, or none if fewer are available.
    pub(crate) fn admit_many(&self, source: u64, count: u32, rate: Rate, now: Duration) -> bool {
        let Some((interval, depth)) = rate.nanoseconds() else { return false };
        let interval = interval.saturating_mul(count.into());
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let taken = |(row, at): (usize, usize)| {
            self.cells.get(row * CELLS + at).is_some_and(|cell| take(cell, now, interval, depth))
        };
        // Both rows must be updated, so do not stop at the first.
        let of_rows = [(0, source as usize % CELLS), (1, (source >> 32) as usize % CELLS)];
        of_rows.map(taken).contains(&true)
    }
}

/// Takes tokens: adds `interval` to the time when the bucket will be full, and returns true. If this would overdraw the
/// bucket, changes nothing and returns false.
fn take(cell: &AtomicU64, now: u64, interval: u64, depth: u64) -> bool {
    let moved = cell.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| {
        let next = full_at.max(now).saturating_add(interval);
        (next - now <= depth).then_some(next)
    });
    moved.is_ok()
}

impl Rate {
    /// Returns the time to refill one token and the whole bucket, or `None` if the rate admits nothing.
    fn nanoseconds(self) -> Option<(u64, u64)> {
        if self.per_second <= 0.0 || self.burst == 0 {
            return None;
        }
        let interval = (1e9 / self.per_second).max(1.0) as u64;
        Some((interval, interval.saturating_mul(self.burst.into())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { per_second: 10.0, burst: 5 };

    fn admitted(buckets: &Buckets, source: u64, times: usize, now: Duration) -> usize {
        (0..times).filter(|_| buckets.admit(source, RATE, now)).count()
    }

    #[test]
    fn a_burst_is_admitted_and_then_the_rate() {
        let buckets = Buckets::new();
        assert_eq!(admitted(&buckets, 7, 100, Duration::ZERO), 5);
        assert_eq!(admitted(&buckets, 7, 100, Duration::from_millis(100)), 1);
        assert_eq!(admitted(&buckets, 7, 100, Duration::from_millis(150)), 0);
        assert_eq!(admitted(&buckets, 7, 100, Duration::from_secs(60)), 5);
    }

    #[test]
    fn many_tokens_are_taken_together_or_not_at_all() {
        let buckets = Buckets::new();
        assert!(!buckets.admit_many(7, 6, RATE, Duration::ZERO));
        assert!(buckets.admit_many(7, 4, RATE, Duration::ZERO));
        assert!(!buckets.admit_many(7, 2, RATE, Duration::ZERO));
        assert!(buckets.admit_many(7, 1, RATE, Duration::ZERO));
    }

    #[test]
    fn one_source_does_not_use_up_the_tokens_of_another() {
        let buckets = Buckets::new();
        admitted(&buckets, 7, 100, Duration::ZERO);
        assert_eq!(admitted(&buckets, 8 | 9 << 32, 100, Duration::ZERO), 5);
    }

    #[test]
    fn sharing_one_cell_of_two_costs_nothing() {
        let buckets = Buckets::new();
        admitted(&buckets, 7 | 1 << 32, 100, Duration::ZERO);
        assert_eq!(admitted(&buckets, 7 | 2 << 32, 100, Duration::ZERO), 5);
    }

    #[test]
    fn sharing_both_cells_is_being_one_source() {
        let buckets = Buckets::new();
        admitted(&buckets, 7 | 1 << 32, 100, Duration::ZERO);
        let same_cells = (7 + CELLS as u64) | (1 + CELLS as u64) << 32;
        assert_eq!(admitted(&buckets, same_cells, 100, Duration::ZERO), 0);
    }

    #[test]
    fn no_rate_admits_nothing() {
        let buckets = Buckets::new();
        assert!(!buckets.admit(1, Rate { per_second: 0.0, burst: 5 }, Duration::ZERO));
        assert!(!buckets.admit(1, Rate { per_second: 5.0, burst: 0 }, Duration::ZERO));
    }
}
