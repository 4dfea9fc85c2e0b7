//! A histogram of request durations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bruit_protocols::prometheus::{Family, Labels};

/// Number of buckets with an upper bound. The first bound is [`FIRST`], and each further bound is twice the previous
/// one. The last is 5 s.
const BOUNDED: usize = 20;

/// Number of buckets.
pub(crate) const BUCKETS: usize = BOUNDED + 1;

/// Upper bound of the first bucket.
const FIRST: Duration = Duration::from_micros(10);

/// Counts of durations by size. All threads share the counts without locks.
#[derive(Debug)]
pub(super) struct Histogram {
    /// Number of durations in each bucket, not cumulative. The last bucket has no upper bound.
    buckets: [AtomicU64; BUCKETS],
    sum_nanos: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), sum_nanos: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Counts `count` requests of this duration each.
    pub(super) fn observe(&self, time: Duration, count: u64) {
        if count == 0 {
            return;
        }
        if let Some(bucket) = self.buckets.get(place(time)) {
            bucket.fetch_add(count, Ordering::Relaxed);
        }
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.sum_nanos.fetch_add(nanos.saturating_mul(count), Ordering::Relaxed);
    }

    /// Returns the number of durations in each bucket.
    pub(super) fn counts(&self) -> [u64; BUCKETS] {
        std::array::from_fn(|place| self.buckets.get(place).map_or(0, |bucket| bucket.load(Ordering::Relaxed)))
    }

    /// Adds the buckets, sum and count to a family.
    pub(super) fn write(&self, family: &mut Family, labels: &Labels) {
        let mut count = 0;
        for (place, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            let bound = if place < BOUNDED { bound(place).as_secs_f64().to_string() } else { "+Inf".to_owned() };
            family.add_part("_bucket", labels.clone().and("le", &bound), count as f64);
        }
        let sum = Duration::from_nanos(self.sum_nanos.load(Ordering::Relaxed)).as_secs_f64();
        family.add_part("_sum", labels.clone(), sum);
        // Sum up the buckets read above. They may have grown since, so a separate counter could contradict them.
        family.add_part("_count", labels.clone(), count as f64);
    }
}

/// Returns the upper bound of the bucket that contains a quantile, or `None` if there are no durations. The last bucket
/// has no bound, so its lower bound is returned.
pub(crate) fn quantile(counts: &[u64; BUCKETS], share: f64) -> Option<Duration> {
    let total = counts.iter().fold(0_u64, |total, count| total.saturating_add(*count));
    let wanted = (total as f64 * share).ceil().max(1.0) as u64;
    let mut seen = 0_u64;
    let found = counts.iter().position(|count| {
        seen = seen.saturating_add(*count);
        seen >= wanted
    });
    (total > 0).then(|| bound(found.unwrap_or(BOUNDED).min(BOUNDED - 1)))
}

/// Returns the upper bound of a bucket.
fn bound(place: usize) -> Duration {
    FIRST * (1 << place)
}

fn place(time: Duration) -> usize {
    (0..BOUNDED).find(|&place| time <= bound(place)).unwrap_or(BOUNDED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bruit_protocols::prometheus;

    #[test]
    fn times_go_to_the_first_bucket_that_is_large_enough() {
        assert_eq!((place(Duration::ZERO), place(FIRST)), (0, 0));
        assert_eq!(place(FIRST + Duration::from_nanos(1)), 1);
        let last = bound(BOUNDED - 1);
        assert_eq!((place(last), place(last + Duration::from_nanos(1))), (BOUNDED - 1, BOUNDED));
        assert!(last > Duration::from_secs(5));
    }

    #[test]
    fn a_quantile_is_the_bound_of_its_bucket() {
        let mut counts = [0; BUCKETS];
        assert_eq!(quantile(&counts, 0.5), None);
        (counts[0], counts[3]) = (99, 1);
        assert_eq!(quantile(&counts, 0.99), Some(FIRST));
        assert_eq!(quantile(&counts, 0.995), Some(bound(3)));
        counts[BOUNDED] = u64::MAX;
        assert_eq!(quantile(&counts, 1.0), Some(bound(BOUNDED - 1)));
    }

    #[test]
    fn buckets_are_cumulative_and_the_last_is_the_count() {
        let histogram = Histogram::default();
        histogram.observe(Duration::from_micros(15), 3);
        histogram.observe(Duration::from_secs(60), 1);
        histogram.observe(Duration::from_secs(60), 0);
        let mut family = Family::histogram("t_seconds", "Time.");
        histogram.write(&mut family, &Labels::default());
        let text = prometheus::text([family]);
        for line in [
            "t_seconds_bucket{le=\"0.00001\"} 0\nt_seconds_bucket{le=\"0.00002\"} 3\n",
            "t_seconds_bucket{le=\"5.24288\"} 3\nt_seconds_bucket{le=\"+Inf\"} 4\nt_seconds_sum 60.000045\nt_seconds_count 4\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
