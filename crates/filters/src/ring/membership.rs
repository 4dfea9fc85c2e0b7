//! A ring of membership filters: which generations hold a key.
//!
//! A line is eight words, and word g is the lane of generation g. A key has two lines, and four bits of a word in each,
//! the same in every generation. (One line with eight bits would need 22 bits per key where two need 16, at a
//! false-positive rate of 1 % over the window.)

use super::lanes::{Generations, Lanes, NotLive};
use crate::hash::{FINGERPRINT_BITS_MAX, FINGERPRINT_BITS_MIN, MULTIPLIER_A, MULTIPLIER_B, mix};
use crate::kernels::Path;
use crate::kernels::ring::{self, Shape};
use crate::lines::{LINE_BITS, Lines};
use crate::mismatch::ensure_equal;
use crate::{Fingerprint, KeyId, Mismatch};

/// Generations of a set, of which the oldest is forgotten whenever a new one begins.
///
/// ```
/// use bruit_filters::ring::MembershipRing;
/// use bruit_filters::FingerprintKey;
///
/// let key = FingerprintKey::new([1; 16]);
/// let spam = key.fingerprint(b"known spam");
/// let mut ring = MembershipRing::new(100, 40, key.id(), 0);
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
    lines: Lines,
    lanes: Lanes,
    fingerprint_bits: u32,
    key_id: KeyId,
}

/// The lines of a key among `lines`.
#[inline(always)]
pub(crate) fn lines_of(lead: u64, lines: usize) -> [usize; 2] {
    let reduce = |word| crate::hash::reduce(word, lines as u64) as usize;
    [reduce(lead), reduce(mix(lead, MULTIPLIER_B))]
}

/// The bits of a key in a word of each of its lines: eight fields of six bits.
#[inline(always)]
pub(crate) fn masks_of(lead: u64) -> [u64; 2] {
    let fields = mix(lead, MULTIPLIER_A);
    let four = |fields: u64| {
        1 << (fields & 63) | 1 << (fields >> 6 & 63) | 1 << (fields >> 12 & 63) | 1u64 << (fields >> 18 & 63)
    };
    [four(fields), four(fields >> 24)]
}

impl MembershipRing {
    /// An empty ring of `lines` lines whose current epoch is `epoch`; [`crate::sizing::ring_lines_for_rate`] says how
    /// many.
    ///
    /// # Panics
    /// If `lines` is 0 or `fingerprint_bits` is outside [`FINGERPRINT_BITS_MIN`]`..=`[`FINGERPRINT_BITS_MAX`].
    #[must_use]
    pub fn new(lines: usize, fingerprint_bits: u32, key_id: KeyId, epoch: u64) -> Self {
        assert!(lines > 0, "a ring has at least one line");
        assert!((FINGERPRINT_BITS_MIN..=FINGERPRINT_BITS_MAX).contains(&fingerprint_bits));
        Self { lines: Lines::new(lines), lanes: Lanes::new(epoch), fingerprint_bits, key_id }
    }

    /// Adds `key` to the current generation.
    pub fn insert(&mut self, key: &Fingerprint) {
        self.insert_batch(std::slice::from_ref(key));
    }

    /// Adds all `keys` to the current generation.
    pub fn insert_batch(&mut self, keys: &[Fingerprint]) {
        ring::insert(self.shape(), &mut self.lines, self.lanes.current(), keys);
    }

    /// Adds all `keys` to the generation of a live epoch.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not.
    pub fn insert_batch_at(&mut self, epoch: u64, keys: &[Fingerprint]) -> Result<(), NotLive> {
        let lane = self.lanes.lane_of(epoch)?;
        ring::insert(self.shape(), &mut self.lines, lane, keys);
        Ok(())
    }

    /// The live generations that hold `key`.
    #[must_use]
    pub fn check(&self, key: &Fingerprint) -> Generations {
        let mut found = [Generations::default()];
        self.check_batch(std::slice::from_ref(key), &mut found);
        found[0]
    }

    /// Writes the live generations that hold `keys[i]` to `found[i]`.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn check_batch(&self, keys: &[Fingerprint], found: &mut [Generations]) {
        assert_eq!(keys.len(), found.len(), "one answer per key");
        let lanes = self.lanes;
        ring::check(Path::best(), self.shape(), &self.lines, keys, |i, set| found[i] = lanes.generations(set));
    }

    /// The current epoch.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.lanes.epoch()
    }

    /// Begins the next epoch, in the lane of the oldest generation, of which [`expire`](Self::expire) may have cleared
    /// most already; the rest is cleared here.
    pub fn advance(&mut self) {
        self.expire(usize::MAX);
        self.lanes.advance();
    }

    /// Clears the oldest generation in at most `lines` more lines; returns whether it is clear in all. Called now and
    /// then towards the end of an epoch, it spares [`advance`](Self::advance) the work.
    pub fn expire(&mut self, lines: usize) -> bool {
        let lane = self.lanes.outgoing();
        let count = self.lines.len();
        for line in &mut self.lines[self.lanes.next_step(lines, count)] {
            line.0[lane] = 0;
        }
        self.lanes.is_clear(count)
    }

    /// Adds all keys of `other` to the same generations here.
    ///
    /// # Errors
    /// [`Mismatch`] if the rings were made with different parameters or are not in the same epoch; nothing is changed
    /// then.
    pub fn merge(&mut self, other: &Self) -> Result<(), Mismatch> {
        ensure_equal("the number of lines", &self.lines.len(), &other.lines.len())?;
        ensure_equal("the number of fingerprint bits", &self.fingerprint_bits, &other.fingerprint_bits)?;
        ensure_equal("the key id", &self.key_id, &other.key_id)?;
        self.lanes.ensure_same(&other.lanes)?;
        let both_live = self.lanes.live() & other.lanes.live();
        let live: [u64; 8] = std::array::from_fn(|lane| if both_live >> lane & 1 == 1 { u64::MAX } else { 0 });
        for (line, other) in self.lines.iter_mut().zip(other.lines.iter()) {
            for (word, (other, live)) in line.0.iter_mut().zip(other.0.iter().zip(live)) {
                *word |= other & live;
            }
        }
        Ok(())
    }

    /// The share of bits that are set in the generation of a live epoch.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not.
    pub fn fill(&self, epoch: u64) -> Result<f64, NotLive> {
        let lane = self.lanes.lane_of(epoch)?;
        let ones: u64 = self.lines.iter().map(|line| u64::from(line.0[lane].count_ones())).sum();
        Ok(ones as f64 / (self.lines.len() as f64 * 64.0))
    }

    /// The bits of the whole ring.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.lines.len() as u64 * LINE_BITS
    }

    /// The key under which the fingerprints were made.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    fn shape(&self) -> Shape {
        Shape::new(self.fingerprint_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_keys;

    #[test]
    fn a_key_is_found_in_the_generations_it_was_inserted_in_until_they_expire() {
        let mut ring = MembershipRing::new(3000, 64, KeyId(1), 100);
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
        // What has expired is gone but for false positives.
        let gone = batches[..12].iter().flatten().filter(|key| !ring.check(key).is_empty()).count();
        assert!(gone < 60, "{gone} of 6,000");
    }

    #[test]
    fn expiry_in_steps_ends_with_the_same_bits() {
        let mut at_once = MembershipRing::new(100, 64, KeyId(1), 0);
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
            let mut ring = MembershipRing::new(500, 64, KeyId(1), 0);
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
