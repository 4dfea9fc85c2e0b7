//! A ring of membership filters, which returns the generations that contain a key.
//!
//! A line is eight words, and word g is the lane of generation g. A key has two lines, and four bits of a word in each
//! line. These bits are the same in every generation. (If all eight bits of a key were in one line, a ring with a
//! false-positive rate of 1 % over all live generations would need 22 bits of memory per key instead of 16.)

use std::io::Read;
use std::ops::Range;

use super::lanes::{Generations, LANES, Lanes, NotLive};
use crate::hash::{FINGERPRINT_BITS_MAX, FINGERPRINT_BITS_MIN, MULTIPLIER_A, MULTIPLIER_B, mix};
use crate::kernels::Path;
use crate::kernels::ring::{self, Shape};
use crate::lines::{LINE_BITS, LINE_WORDS, Line, Lines};
use crate::mismatch::ensure_equal;
use crate::sizing::ring::{LINES_PER_KEY, WORD_BITS, half_keys_by_fill, window_rate};
use crate::{CreateError, Fingerprint, KeyId, Mismatch};

/// A set of keys in eight generations. When a new generation begins, the oldest is dropped.
///
/// ```
/// use bruit_filters::ring::MembershipRing;
/// use bruit_filters::FingerprintKey;
///
/// let key = FingerprintKey::new([1; 16]);
/// let spam = key.fingerprint(b"known spam");
/// let mut ring = MembershipRing::new(100, 40, key.id(), 0).unwrap();
/// ring.insert(&spam);
/// ring.advance();
/// ring.advance();
/// assert_eq!(ring.check(&spam).newest(), Some(2));
/// for _ in 0..6 {
///     ring.advance();
/// }
/// assert!(ring.check(&spam).is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MembershipRing {
    pub(super) lines: Lines,
    pub(super) lanes: Lanes,
    /// Number of bits set in each lane, except in a lane that is being cleared.
    ones: [u64; LINE_WORDS],
    /// For each lane, the estimated number of keys that are copies, made when the ring grew.
    pub(super) copied: [u64; LINE_WORDS],
    pub(super) fingerprint_bits: u32,
    key_id: KeyId,
}

/// Returns the lines of a key among `lines`.
#[inline(always)]
pub(crate) fn lines_of(lead: u64, lines: usize) -> [usize; 2] {
    let reduce = |word| crate::hash::reduce(word, lines as u64) as usize;
    [reduce(lead), reduce(mix(lead, MULTIPLIER_B))]
}

/// Returns the bits of a key for each of its two lines, as masks of one word with at most four bits set.
#[inline(always)]
pub(crate) fn masks_of(lead: u64) -> [u64; 2] {
    let fields = mix(lead, MULTIPLIER_A);
    let four = |fields: u64| {
        1 << (fields & 63) | 1 << (fields >> 6 & 63) | 1 << (fields >> 12 & 63) | 1u64 << (fields >> 18 & 63)
    };
    [four(fields), four(fields >> 24)]
}

/// Returns the lanes of a line in which all bits of `mask` are set, one bit each.
#[inline(always)]
pub(crate) fn lanes_with(line: &Line, mask: u64) -> u8 {
    let words = line.0.iter().enumerate();
    words.fold(0, |set, (lane, word)| set | u8::from(word & mask == mask) << lane)
}

impl MembershipRing {
    /// Creates an empty ring of `lines` lines, with the current epoch `epoch`. See
    /// [`crate::sizing::ring_lines_for_rate`] for the number of lines.
    ///
    /// # Errors
    /// [`CreateError`] if a parameter is out of range or the memory cannot be allocated.
    pub fn new(lines: usize, fingerprint_bits: u32, key_id: KeyId, epoch: u64) -> Result<Self, CreateError> {
        let bits = FINGERPRINT_BITS_MIN.into()..=FINGERPRINT_BITS_MAX.into();
        CreateError::check("the number of lines", lines as u64, 1..=u64::MAX)?;
        CreateError::check("the number of fingerprint bits", fingerprint_bits.into(), bits)?;
        let (lines, lanes) = (Lines::new(lines)?, Lanes::new(epoch));
        Ok(Self { lines, lanes, ones: [0; LINE_WORDS], copied: [0; LINE_WORDS], fingerprint_bits, key_id })
    }

    /// Multiplies the number of lines by `factor`; each line is repeated that many times. No answer changes, because
    /// the lines of a key are among the copies of its former lines. Cancels a running snapshot.
    ///
    /// Existing generations keep their fill and false-positive rate. New keys fill only the capacity that the copies
    /// leave; see [`copied`](Self::copied).
    ///
    /// # Panics
    /// Panics if `factor` is 0, or if the memory cannot be allocated.
    pub fn grow(&mut self, factor: usize) {
        assert!(factor > 0, "the growth factor must be at least 1");
        for lane in 0..LINE_WORDS {
            let seeming = self.keys_by_fill(lane).round() as u64;
            self.copied[lane] = self.copied[lane].saturating_add(seeming.saturating_mul(factor as u64 - 1));
            self.ones[lane] *= factor as u64;
        }
        self.lines = self.lines.repeated(factor);
        self.lanes.grow(factor);
    }

    /// Reads a ring with these lanes from the lines of a snapshot; the other arguments are as in [`new`](Self::new).
    pub(super) fn read(
        lines: usize,
        fingerprint_bits: u32,
        key_id: KeyId,
        lanes: Lanes,
        input: &mut dyn Read,
    ) -> std::io::Result<Self> {
        let mut ring = Self { lanes, ..Self::new(lines, fingerprint_bits, key_id, 0)? };
        ring.lines.read(input)?;
        ring.ones = std::array::from_fn(|lane| if lanes.is_live(lane) { ones_of(&ring.lines, lane) } else { 0 });
        Ok(ring)
    }

    /// Adds `key` to the current generation.
    pub fn insert(&mut self, key: &Fingerprint) {
        self.insert_batch(std::slice::from_ref(key));
    }

    /// Adds all `keys` to the current generation.
    pub fn insert_batch(&mut self, keys: &[Fingerprint]) {
        self.insert_in(self.lanes.current(), keys);
    }

    /// Adds all `keys` to the generation of a live epoch.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not live.
    pub fn insert_batch_at(&mut self, epoch: u64, keys: &[Fingerprint]) -> Result<(), NotLive> {
        let lane = self.lanes.lane_of(epoch)?;
        self.insert_in(lane, keys);
        Ok(())
    }

    fn insert_in(&mut self, lane: usize, keys: &[Fingerprint]) {
        let (shape, count) = (self.shape(), self.lines.len());
        let lines = self.lines.changing(|| keys.iter().flat_map(|key| lines_of(shape.lead(key), count)));
        self.ones[lane] += ring::insert(Path::best(), shape, lines, lane, keys);
    }

    /// Prefetches the lines of `key` without waiting for them.
    pub fn prefetch(&self, key: &Fingerprint) {
        ring::fetch(&self.lines, self.shape().locate(&self.lines, key));
    }

    /// Returns the live generations that contain `key`.
    #[must_use]
    pub fn check(&self, key: &Fingerprint) -> Generations {
        let mut found = [Generations::default()];
        self.check_batch(std::slice::from_ref(key), &mut found);
        found[0]
    }

    /// Sets `found[i]` to the live generations that contain `keys[i]`.
    ///
    /// # Panics
    /// Panics if the two slices differ in length.
    pub fn check_batch(&self, keys: &[Fingerprint], found: &mut [Generations]) {
        assert_eq!(keys.len(), found.len(), "the slices differ in length");
        let lanes = self.lanes;
        ring::check(Path::best(), self.shape(), &self.lines, keys, |i, set| found[i] = lanes.generations(set));
    }

    /// Returns the current epoch.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.lanes.epoch()
    }

    /// Begins the next epoch in the lane of the oldest generation. First clears the part of that lane that
    /// [`expire`](Self::expire) has not cleared.
    pub fn advance(&mut self) {
        self.expire(usize::MAX);
        self.lanes.advance();
    }

    /// Clears the oldest generation in at most `lines` more lines. Returns true if it is cleared in all lines. If this
    /// method is called regularly towards the end of an epoch, [`advance`](Self::advance) has nothing left to clear.
    pub fn expire(&mut self, lines: usize) -> bool {
        let lane = self.lanes.outgoing();
        let count = self.lines.len();
        for line in self.lines.changing_range(self.lanes.next_step(lines, count)) {
            line.0[lane] = 0;
        }
        if !self.lanes.is_live(lane) {
            (self.ones[lane], self.copied[lane]) = (0, 0);
        }
        self.lanes.is_clear(count)
    }

    /// Returns true if the oldest generation is cleared in all lines, so that [`expire`](Self::expire) has nothing left
    /// to do.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.lanes.is_clear(self.lines.len())
    }

    /// Returns true if all generations are empty and the oldest is cleared.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.is_expired() && self.ones.iter().all(|ones| *ones == 0)
    }

    /// Begins a later epoch directly, with the same result as repeated calls of [`advance`](Self::advance). The ring
    /// must be [clear](Self::is_clear).
    ///
    /// # Panics
    /// Panics if the ring is not clear, or if `epoch` is not after the current epoch.
    pub fn begin_epoch(&mut self, epoch: u64) {
        assert!(self.is_clear() && epoch > self.epoch(), "the ring must be clear and the epoch later");
        self.lanes.begin(epoch);
    }

    /// Adds all keys of `other` to the same generations of this ring.
    ///
    /// # Errors
    /// [`Mismatch`] if the rings differ in parameters or epoch; nothing is changed in that case.
    pub fn merge(&mut self, other: &Self) -> Result<(), Mismatch> {
        self.merge_lines(other, 0..other.lines.len(), |_| true)
    }

    /// Merges a range of lines of `other`, in the generations whose epoch satisfies a condition. A check is certain to
    /// find the keys of `other` only after all lines have been merged.
    ///
    /// # Errors
    /// [`Mismatch`] if the rings differ in parameters or epoch; nothing is changed in that case.
    pub fn merge_lines(
        &mut self,
        other: &Self,
        lines: Range<usize>,
        is_merged: impl Fn(u64) -> bool,
    ) -> Result<(), Mismatch> {
        ensure_equal("the number of lines", &self.lines.len(), &other.lines.len())?;
        ensure_equal("the number of fingerprint bits", &self.fingerprint_bits, &other.fingerprint_bits)?;
        ensure_equal("the key id", &self.key_id, &other.key_id)?;
        self.lanes.ensure_same(&other.lanes)?;
        let mut masks = [0_u64; LINE_WORDS];
        let oldest = self.lanes.oldest().max(other.lanes.oldest());
        let merged = (oldest..=self.lanes.epoch()).filter(|&epoch| is_merged(epoch));
        merged.filter_map(|epoch| self.lanes.lane_of(epoch).ok()).for_each(|lane| masks[lane] = u64::MAX);
        let count = self.lines.len();
        for index in lines.start.min(count)..lines.end.min(count) {
            let (line, other) = (self.lines[index], &other.lines[index]);
            let joined = Line(std::array::from_fn(|lane| line.0[lane] | other.0[lane] & masks[lane]));
            // Updates line by line, so that a running snapshot copies only lines that change.
            if joined != line {
                *self.lines.changing_one(index) = joined;
                count_fresh(&mut self.ones, &line, &joined);
            }
        }
        for (lane, copied) in self.copied.iter_mut().enumerate().filter(|(lane, _)| masks[*lane] != 0) {
            *copied = (*copied).max(other.copied[lane]);
        }
        Ok(())
    }

    /// Returns the fraction of bits that are set in the generation of a live epoch. The number of set bits is
    /// maintained, so this call is cheap.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not live.
    pub fn fill(&self, epoch: u64) -> Result<f64, NotLive> {
        Ok(self.lane_fill(self.lanes.lane_of(epoch)?))
    }

    /// Returns the number of distinct keys, estimated from the fill of a live epoch's generation. Includes
    /// [`copied`](Self::copied) keys. Compare it with the number that the ring was sized for.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not live.
    pub fn estimated_keys(&self, epoch: u64) -> Result<f64, NotLive> {
        Ok(self.keys_by_fill(self.lanes.lane_of(epoch)?))
    }

    /// Returns how many of the [`estimated_keys`](Self::estimated_keys) of a live epoch are copies, made when the ring
    /// [grew](Self::grow). Copies use as much capacity as inserted keys.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not live.
    pub fn copied(&self, epoch: u64) -> Result<u64, NotLive> {
        Ok(self.copied[self.lanes.lane_of(epoch)?])
    }

    /// Returns the probability that a check finds an absent key in any live generation, computed from the current fill.
    /// Takes a few microseconds, independent of the size of the ring.
    #[must_use]
    pub fn estimated_rate(&self) -> f64 {
        window_rate(&self.half_keys(), LINES_PER_KEY)
    }

    /// Returns, for every live generation, the mean number of half-keys in a word. A half-key consists of the bits of a
    /// key in one of its two lines.
    pub(super) fn half_keys(&self) -> Vec<f64> {
        let live = (0..LANES as usize).filter(|&lane| self.lanes.is_live(lane));
        live.map(|lane| half_keys_by_fill(self.lane_fill(lane), self.lines.len())).collect()
    }

    fn keys_by_fill(&self, lane: usize) -> f64 {
        let half_keys = half_keys_by_fill(self.lane_fill(lane), self.lines.len());
        half_keys * self.lines.len() as f64 / f64::from(LINES_PER_KEY)
    }

    /// Returns the number of lines.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines.len() as u64
    }

    fn lane_fill(&self, lane: usize) -> f64 {
        self.ones[lane] as f64 / (self.lines.len() as f64 * WORD_BITS)
    }

    /// Returns the size of the whole ring in bits.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.lines.len() as u64 * LINE_BITS
    }

    /// Returns the size of the whole ring in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bits() / 8
    }

    /// Returns the id of the key that made the fingerprints.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    fn shape(&self) -> Shape {
        Shape::new(self.fingerprint_bits)
    }
}

/// Returns the number of bits set in a lane.
fn ones_of(lines: &[Line], lane: usize) -> u64 {
    lines.iter().map(|line| u64::from(line.0[lane].count_ones())).sum()
}

/// Adds to `ones`, for each lane, the number of bits that are set in `after` but not in `before`.
fn count_fresh(ones: &mut [u64; LINE_WORDS], before: &Line, after: &Line) {
    for (ones, (before, after)) in ones.iter_mut().zip(before.0.iter().zip(after.0)) {
        *ones += u64::from((after & !before).count_ones());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_keys;

    #[test]
    fn the_bits_of_each_generation_are_counted_through_inserts_merges_and_expiry() {
        let mut rings = [0, 1].map(|_| MembershipRing::new(50, 64, KeyId(1), 7).unwrap());
        for epoch in 0..20 {
            rings[0].insert_batch(&test_keys(epoch * 60, 100));
            rings[1].insert_batch(&test_keys(epoch * 70, 100));
            let [first, second] = &mut rings;
            first.merge(second).unwrap();
            let live = (0..8).filter(|&lane| first.lanes.is_live(lane));
            live.for_each(|lane| assert_eq!(first.ones[lane], ones_of(&first.lines, lane), "lane {lane}"));
            assert!(!first.expire(20) && first.ones[first.lanes.outgoing()] == 0);
            rings.iter_mut().for_each(MembershipRing::advance);
        }
    }

    #[test]
    fn keys_and_rate_are_estimated_from_the_fill() {
        let mut ring = MembershipRing::new(3000, 64, KeyId(1), 0).unwrap();
        let keys = test_keys(0, 24_000);
        for batch in keys.chunks(3000) {
            ring.advance();
            ring.insert_batch(batch);
            // Each batch is inserted twice, but keys already present are not counted again.
            ring.insert_batch(batch);
            let estimated = ring.estimated_keys(ring.epoch()).unwrap();
            assert!((estimated / 3000.0 - 1.0).abs() < 0.02, "{estimated}");
        }
        let (estimated, predicted) = (ring.estimated_rate(), crate::sizing::ring_rate(3000, 3000).window);
        assert!((estimated / predicted - 1.0).abs() < 0.05, "{estimated:e} and {predicted:e}");
        assert_eq!(MembershipRing::new(10, 64, KeyId(1), 0).unwrap().estimated_rate(), 0.0);
    }

    #[test]
    fn a_key_is_found_in_the_generations_it_was_inserted_in_until_they_expire() {
        let mut ring = MembershipRing::new(3000, 64, KeyId(1), 100).unwrap();
        let batches: Vec<_> = (0..20).map(|epoch| test_keys(epoch * 1000, 500)).collect();
        for (epoch, batch) in batches.iter().enumerate() {
            if epoch > 0 {
                ring.advance();
            }
            ring.insert_batch(batch);
            for (earlier, keys) in batches[..=epoch].iter().enumerate() {
                let age = (epoch - earlier) as u32;
                let found = keys.iter().filter(|key| ring.check(key).contains(age)).count();
                assert!(age >= super::super::GENERATIONS || found == keys.len(), "age {age}: {found}");
            }
        }
        // Expired keys are found only as false positives.
        let gone = batches[..12].iter().flatten().filter(|key| !ring.check(key).is_empty()).count();
        assert!(gone < 60, "{gone} of 6,000");
    }

    #[test]
    fn expiry_in_steps_ends_with_the_same_bits() {
        let mut at_once = MembershipRing::new(100, 64, KeyId(1), 0).unwrap();
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
    fn merging_is_union_by_generation_and_leaves_out_the_expired() {
        let (ours, theirs) = (test_keys(0, 700), test_keys(5000, 700));
        let mut rings = [&ours, &theirs].map(|keys| {
            let mut ring = MembershipRing::new(500, 64, KeyId(1), 0).unwrap();
            ring.insert_batch(&test_keys(90_000, 1000));
            for batch in keys.chunks(100) {
                ring.advance();
                ring.insert_batch(batch);
            }
            ring
        });
        let (first, second) = rings.split_at_mut(1);
        first[0].merge(&second[0]).unwrap();
        for keys in [&ours, &theirs] {
            for (age, batch) in keys.chunks(100).rev().enumerate() {
                assert!(batch.iter().all(|key| first[0].check(key).contains(age as u32)));
            }
        }
        second[0].advance();
        assert_eq!(first[0].merge(&second[0]).unwrap_err().what, "the current epoch");
    }
}
