//! A membership ring for very low false-positive rates: two stages that must both contain the key.
//!
//! Both stages are membership rings of the same size. The second uses the fingerprint with its halves swapped, so that
//! the two are independent and their rates multiply. For a rate of 10^-6 over all live generations, a single ring would
//! have to be 2.3 times as large as both stages together, because it has only eight positions per key.
//!
//! A batch check queries the second stage only for keys that are in the first one. So an absent key costs two line
//! reads, and very rarely four.

use std::ops::Range;

use super::lanes::{Generations, NotLive};
use super::membership::MembershipRing;
use crate::hash::FINGERPRINT_BITS_MAX;
use crate::sizing::ring::{STAGED_LINES_PER_KEY, window_rate};
use crate::{CreateError, Fingerprint, KeyId, Mismatch};

/// Number of keys processed at a time when inserting into the second stage.
const STEP_KEYS: usize = 512;

/// A set of keys in eight generations with very few false positives.
///
/// ```
/// use bruit_filters::FingerprintKey;
/// use bruit_filters::ring::{Generations, StagedRing, StagedScratch};
/// use bruit_filters::sizing::staged_ring_lines_for_rate;
///
/// let key = FingerprintKey::new([1; 16]);
/// let lines = staged_ring_lines_for_rate(10_000, 8, 1e-6)?;
/// let mut ring = StagedRing::new(lines as usize, key.id(), 0).unwrap();
/// let keys: Vec<_> = (0..10_000u32).map(|i| key.fingerprint(&i.to_le_bytes())).collect();
/// ring.insert_batch(&keys);
/// ring.advance();
///
/// let mut found = vec![Generations::default(); keys.len()];
/// ring.check_batch(&keys, &mut found, &mut StagedScratch::default());
/// assert!(found.iter().all(|found| found.contains(1)));
/// assert!(ring.check(&key.fingerprint(b"never seen")).is_empty());
/// # Ok::<(), bruit_filters::sizing::SizingError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedRing {
    /// The stages always have the same epoch and expiry state.
    pub(super) stages: [MembershipRing; 2],
}

/// Working memory of [`StagedRing::check_batch`], reused by later calls.
///
/// The memory grows to the largest number of keys that ever passed the first stage in one call.
#[derive(Clone, Debug, Default)]
pub struct StagedScratch {
    /// Indices of the keys that passed the first stage.
    passed: Vec<usize>,
    /// The fingerprints of the keys that passed the first stage, with their halves swapped.
    keys: Vec<Fingerprint>,
    /// Results of the second stage.
    found: Vec<Generations>,
}

/// Returns the fingerprint for the second stage.
const fn swapped(key: &Fingerprint) -> Fingerprint {
    Fingerprint::new(key.low(), key.high())
}

impl StagedRing {
    /// Creates an empty ring with two stages of `lines_per_stage` lines each, and with the current epoch `epoch`. See
    /// [`crate::sizing::staged_ring_lines_for_rate`] for the number of lines.
    ///
    /// # Errors
    /// [`CreateError`] if a parameter is out of range or the memory cannot be allocated.
    pub fn new(lines_per_stage: usize, key_id: KeyId, epoch: u64) -> Result<Self, CreateError> {
        let stage = || MembershipRing::new(lines_per_stage, FINGERPRINT_BITS_MAX, key_id, epoch);
        Ok(Self { stages: [stage()?, stage()?] })
    }

    /// Grows both stages by `factor`, one after the other, as [`MembershipRing::grow`] does.
    ///
    /// # Panics
    /// Panics if `factor` is 0, or if the memory cannot be allocated.
    pub fn grow(&mut self, factor: usize) {
        self.stages.iter_mut().for_each(|stage| stage.grow(factor));
    }

    /// Adds `key` to the current generation.
    pub fn insert(&mut self, key: &Fingerprint) {
        let [first, second] = &mut self.stages;
        first.insert(key);
        second.insert(&swapped(key));
    }

    /// Adds all `keys` to the current generation.
    pub fn insert_batch(&mut self, keys: &[Fingerprint]) {
        self.insert_batch_at(self.epoch(), keys).expect("the current epoch is live");
    }

    /// Adds all `keys` to the generation of a live epoch.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not live.
    pub fn insert_batch_at(&mut self, epoch: u64, keys: &[Fingerprint]) -> Result<(), NotLive> {
        let [first, second] = &mut self.stages;
        first.insert_batch_at(epoch, keys)?;
        let mut step = [Fingerprint::default(); STEP_KEYS];
        for keys in keys.chunks(STEP_KEYS) {
            let step = &mut step[..keys.len()];
            step.iter_mut().zip(keys).for_each(|(place, key)| *place = swapped(key));
            second.insert_batch_at(epoch, step)?;
        }
        Ok(())
    }

    /// Prefetches the lines of `key`; see [`MembershipRing::prefetch`].
    pub fn prefetch(&self, key: &Fingerprint) {
        let [first, second] = &self.stages;
        first.prefetch(key);
        second.prefetch(&swapped(key));
    }

    /// Returns the live generations that contain `key`.
    #[must_use]
    pub fn check(&self, key: &Fingerprint) -> Generations {
        let first = self.stages[0].check(key);
        if first.is_empty() { first } else { first.and(self.stages[1].check(&swapped(key))) }
    }

    /// Sets `found[i]` to the live generations that contain `keys[i]`.
    ///
    /// # Panics
    /// Panics if the two slices differ in length.
    pub fn check_batch(&self, keys: &[Fingerprint], found: &mut [Generations], scratch: &mut StagedScratch) {
        let [first, second] = &self.stages;
        first.check_batch(keys, found);
        let StagedScratch { passed, keys: swapped_keys, found: second_found } = scratch;
        passed.clear();
        passed.extend((0..keys.len()).filter(|&i| !found[i].is_empty()));
        swapped_keys.clear();
        swapped_keys.extend(passed.iter().map(|&i| swapped(&keys[i])));
        second_found.resize(passed.len(), Generations::default());
        second.check_batch(swapped_keys, second_found);
        for (&i, &second) in passed.iter().zip(&*second_found) {
            found[i] = found[i].and(second);
        }
    }

    /// Returns the current epoch.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.stages[0].epoch()
    }

    /// Begins the next epoch, as [`MembershipRing::advance`] does.
    pub fn advance(&mut self) {
        self.stages.iter_mut().for_each(MembershipRing::advance);
    }

    /// Clears the oldest generation in at most `lines` more lines of each stage. Returns true if it is cleared in all
    /// lines.
    pub fn expire(&mut self, lines: usize) -> bool {
        let [first, second] = self.stages.each_mut().map(|stage| stage.expire(lines));
        first && second
    }

    /// Returns true if the oldest generation is cleared in all lines; see [`MembershipRing::is_expired`].
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.stages.iter().all(MembershipRing::is_expired)
    }

    /// Returns true if all generations are empty and the oldest is cleared.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.stages.iter().all(MembershipRing::is_clear)
    }

    /// Begins a later epoch directly, as [`MembershipRing::begin_epoch`] does.
    ///
    /// # Panics
    /// Panics if the ring is not [clear](Self::is_clear), or if `epoch` is not after the current epoch.
    pub fn begin_epoch(&mut self, epoch: u64) {
        self.stages.iter_mut().for_each(|stage| stage.begin_epoch(epoch));
    }

    /// Merges a range of lines of each stage of `other`, as [`MembershipRing::merge_lines`] does.
    ///
    /// # Errors
    /// [`Mismatch`] if the rings differ in parameters or epoch; nothing is changed in that case.
    pub fn merge_lines(
        &mut self,
        other: &Self,
        lines: Range<usize>,
        is_merged: impl Fn(u64) -> bool,
    ) -> Result<(), Mismatch> {
        let stages = self.stages.iter_mut().zip(&other.stages);
        stages.into_iter().try_for_each(|(ours, theirs)| ours.merge_lines(theirs, lines.clone(), &is_merged))
    }

    /// Adds all keys of `other` to the same generations of this ring.
    ///
    /// # Errors
    /// [`Mismatch`] if the rings differ in parameters or epoch; nothing is changed in that case.
    pub fn merge(&mut self, other: &Self) -> Result<(), Mismatch> {
        // Both stages have the same parameters, so the second merge can fail only if the first one fails.
        self.stages.iter_mut().zip(&other.stages).try_for_each(|(stage, other)| stage.merge(other))
    }

    /// Returns the fraction of bits that are set in the generation of a live epoch, in both stages together. The number
    /// of set bits is maintained, so this call is cheap.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not live.
    pub fn fill(&self, epoch: u64) -> Result<f64, NotLive> {
        self.mean(|stage| stage.fill(epoch))
    }

    /// Returns how many of the [`estimated_keys`](Self::estimated_keys) of a live epoch are copies, made when the ring
    /// grew: see [`MembershipRing::copied`].
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not live.
    pub fn copied(&self, epoch: u64) -> Result<u64, NotLive> {
        let [first, second] = &self.stages;
        Ok(first.copied(epoch)?.midpoint(second.copied(epoch)?))
    }

    /// Returns the number of distinct keys, estimated from the fill of a live epoch's generation. Includes
    /// [`copied`](Self::copied) keys.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not live.
    pub fn estimated_keys(&self, epoch: u64) -> Result<f64, NotLive> {
        self.mean(|stage| stage.estimated_keys(epoch))
    }

    /// Returns the probability that a check finds an absent key in any live generation, computed from the current fill.
    /// Takes less than a millisecond, independent of the size of the ring.
    #[must_use]
    pub fn estimated_rate(&self) -> f64 {
        let [first, second] = self.stages.each_ref().map(MembershipRing::half_keys);
        let mean: Vec<_> = first.iter().zip(second).map(|(first, second)| (first + second) / 2.0).collect();
        window_rate(&mean, STAGED_LINES_PER_KEY)
    }

    /// Returns the number of lines of each stage.
    #[must_use]
    pub fn lines_per_stage(&self) -> u64 {
        self.stages[0].lines()
    }

    /// Returns the size of the whole ring in bits.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.stages.iter().map(MembershipRing::bits).sum()
    }

    /// Returns the size of the whole ring in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bits() / 8
    }

    /// Returns the id of the key that made the fingerprints.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        self.stages[0].key_id()
    }

    fn mean(&self, of: impl Fn(&MembershipRing) -> Result<f64, NotLive>) -> Result<f64, NotLive> {
        Ok((of(&self.stages[0])? + of(&self.stages[1])?) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_keys;

    #[test]
    fn a_key_is_in_the_generations_that_both_stages_find() {
        let mut ring = StagedRing::new(60, KeyId(1), 5).unwrap();
        let batches: Vec<_> = (0..12).map(|epoch| test_keys(epoch * 1000, 600)).collect();
        for batch in &batches {
            ring.advance();
            ring.insert_batch(batch);
        }
        let (keys, mut scratch) = (batches.concat(), StagedScratch::default());
        let mut found = vec![Generations::default(); keys.len()];
        ring.check_batch(&keys, &mut found, &mut scratch);
        for (i, (key, &found)) in keys.iter().zip(&found).enumerate() {
            let both = ring.stages[0].check(key).and(ring.stages[1].check(&swapped(key)));
            assert_eq!((found, ring.check(key)), (both, both));
            let age = 11 - i as u32 / 600;
            assert!(age >= 8 || found.contains(age), "key {i}");
        }
        // The ring is so full that the first stage alone has many false positives, but both stages together have few.
        let ages = |found: &[Generations]| found.iter().map(|found| found.ages().count()).sum::<usize>();
        let first: Vec<_> = keys.iter().map(|key| ring.stages[0].check(key)).collect();
        assert!(ages(&first) > ages(&found) + 1000, "{} and {}", ages(&first), ages(&found));
    }

    #[test]
    fn checks_allocate_nothing_once_the_scratch_has_grown() {
        let mut ring = StagedRing::new(1000, KeyId(1), 0).unwrap();
        let keys = test_keys(0, 2000);
        ring.insert_batch(&keys);
        let (mut found, mut scratch) = (vec![Generations::default(); 2000], StagedScratch::default());
        ring.check_batch(&keys, &mut found, &mut scratch);
        let capacities =
            |scratch: &StagedScratch| [scratch.passed.capacity(), scratch.keys.capacity(), scratch.found.capacity()];
        let before = capacities(&scratch);
        for start in 0..50 {
            ring.check_batch(&test_keys(start * 60, 2000), &mut found, &mut scratch);
            assert_eq!(capacities(&scratch), before);
        }
    }

    #[test]
    fn expiry_in_steps_ends_with_the_same_bits() {
        let mut at_once = StagedRing::new(100, KeyId(1), 0).unwrap();
        let mut in_steps = at_once.clone();
        for epoch in 0..12 {
            for ring in [&mut at_once, &mut in_steps] {
                ring.insert_batch(&test_keys(epoch * 100, 100));
            }
            while !in_steps.expire(7) {}
            at_once.advance();
            in_steps.advance();
        }
        at_once.expire(usize::MAX);
        in_steps.expire(usize::MAX);
        assert_eq!(at_once, in_steps);
    }

    #[test]
    fn a_clear_ring_begins_a_later_epoch_as_if_it_had_advanced_to_it() {
        let mut ring = StagedRing::new(50, KeyId(1), 3).unwrap();
        ring.insert_batch(&test_keys(0, 10));
        let mut advanced = ring.clone();
        while !ring.is_clear() {
            ring.advance();
            ring.expire(usize::MAX);
        }
        assert_eq!(ring.epoch(), 3 + 7, "the ring is clear when its last generation has expired");
        ring.begin_epoch(1_000);
        (3..1_000).for_each(|_| advanced.advance());
        assert_eq!(ring, advanced);
    }

    #[test]
    fn rings_merge_to_the_union_and_refuse_others() {
        let (ours, theirs) = (test_keys(0, 500), test_keys(900, 500));
        let filled = |batches: &[&[Fingerprint]]| {
            let mut ring = StagedRing::new(500, KeyId(1), 3).unwrap();
            batches.iter().for_each(|keys| ring.insert_batch(keys));
            ring
        };
        let mut merged = filled(&[&ours]);
        merged.merge(&filled(&[&theirs])).unwrap();
        assert_eq!(merged, filled(&[&ours, &theirs]));
        let mut later = merged.clone();
        later.advance();
        assert_eq!(merged.merge(&later).unwrap_err().what, "the current epoch");
        assert_eq!(merged.merge(&StagedRing::new(501, KeyId(1), 3).unwrap()).unwrap_err().what, "the number of lines");
        assert_eq!(merged, filled(&[&ours, &theirs]));
    }
}
