//! A ring of refined counts: how often a key arrived in each live generation.
//!
//! A line is sixteen slots of 32 bits, and nibble g of a slot is the cell of generation g. A key has two lines and two
//! slots in each, one among the first eight and one among the last eight; its cells are updated by H1 and H2 within the
//! generation. Where a key passes 15 its count is in one of that generation's `records`, under its first line and a tag;
//! after merges, in the "any" record of its first slot if it has none of its own (see `counts_merge`).

use super::counts_merge::merged_records;
use super::lanes::{LANES, Lanes, NotLive};
use super::records::{OWN_TAG, Records};
use crate::counting::row_merge::add_nibbles;
use crate::hash::{MULTIPLIER_A, mix, reduce};
use crate::kernels::ring::fetch;
use crate::kernels::{is_cached, pipelined};
use crate::lines::{LINE_BITS, LINE_BYTES, LINES_MAX, Line, Lines};
use crate::mismatch::ensure_equal;
use crate::sizing::ring::counts_window_rate;
use crate::{Fingerprint, KeyId, Mismatch, OutOfMemory};

/// The highest value of a cell.
pub(super) const CELL_TOP: u32 = 15;
/// Bits of a cell.
pub(super) const CELL_BITS: u32 = 4;
/// Slots of a line.
const SLOTS: usize = 16;

/// Counts by generation, of which the oldest is forgotten whenever a new one begins. Never too low.
///
/// ```
/// use bruit_filters::ring::CountsRing;
/// use bruit_filters::FingerprintKey;
///
/// let key = FingerprintKey::new([1; 16]);
/// let bulk = key.fingerprint(b"buy now");
/// let mut ring = CountsRing::new(100, key.id(), 0);
/// ring.insert_many(&bulk, 1000);
/// ring.advance();
/// ring.insert(&bulk);
/// assert_eq!(ring.count(&bulk), 1001);
/// assert_eq!(ring.count_in(&bulk, 1), Ok(1));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountsRing {
    pub(super) lines: Lines,
    pub(super) lanes: Lanes,
    pub(super) records: Records,
    /// Arrivals in each lane of keys that read 0 there before: distinct keys, except those that read too high. It includes copies
    /// made when the ring grew.
    pub(super) keys: [u64; LANES as usize],
    /// The number of them that are copies.
    pub(super) copied: [u64; LANES as usize],
    key_id: KeyId,
}

/// The room that one more count takes in a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The key is new to the generation, and sets cells of it.
    pub cells: bool,
    /// The key passes 15, and has no record yet.
    pub record: bool,
}

/// Where the cells of a key are.
struct Place {
    /// Line and slot of each cell.
    slots: [(usize, usize); 4],
    /// What its own record is named by.
    tag: u16,
}

/// The lines of a key among `lines`.
#[inline(always)]
fn lines_of(key: &Fingerprint, lines: usize) -> [usize; 2] {
    [key.high(), mix(key.high(), MULTIPLIER_A)].map(|word| reduce(word, lines as u64) as usize)
}

impl Place {
    #[inline(always)]
    fn of(key: &Fingerprint, lines: usize) -> Self {
        let [first, second] = lines_of(key, lines);
        let field = |i: u32| (key.low() >> (3 * i) & 7) as usize;
        Self {
            slots: [(first, field(0)), (first, 8 + field(1)), (second, field(2)), (second, 8 + field(3))],
            tag: OWN_TAG | key.low() as u16,
        }
    }

    /// The line that its records are filed under.
    const fn line(&self) -> u32 {
        self.slots[0].0 as u32
    }
}

/// A slot: two to a word.
#[inline(always)]
pub(super) fn slot(lines: &[Line], (line, slot): (usize, usize)) -> u32 {
    (lines[line].0[slot / 2] >> (32 * (slot % 2))) as u32
}

impl CountsRing {
    /// No counts, in `lines` lines; 32 bits per key and generation are usual.
    ///
    /// # Panics
    /// If `lines` is 0 or does not fit 32 bits.
    #[must_use]
    pub fn new(lines: usize, key_id: KeyId, epoch: u64) -> Self {
        Self::try_new(lines, key_id, epoch).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`new`](Self::new), but fails if the memory cannot be allocated.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    ///
    /// # Panics
    /// As [`new`](Self::new), except for lack of memory.
    pub fn try_new(lines: usize, key_id: KeyId, epoch: u64) -> Result<Self, OutOfMemory> {
        assert!((1..=LINES_MAX).contains(&lines), "a ring has 1 to 2^32 - 1 lines, not {lines}");
        let (cells, records) = (Lines::try_new(lines)?, Records::try_new(lines)?);
        let none = [0; LANES as usize];
        Ok(Self { lines: cells, lanes: Lanes::new(epoch), records, keys: none, copied: none, key_id })
    }

    /// Grows the ring by `factor` without changing a count, by repeating each line together with its records. A running snapshot
    /// is abandoned.
    ///
    /// The room for records grows by the same factor, so that none is lost. Only if the ring has fewer than 1,280 lines can
    /// counts past 15 become too high; they never become too low. Generations stay as full as they were; see
    /// [`copied`](Self::copied).
    ///
    /// # Panics
    /// If `factor` is 0, the number of lines would not fit 32 bits, or the memory cannot be allocated.
    pub fn grow(&mut self, factor: usize) {
        let lines = self.lines.len().saturating_mul(factor);
        assert!((1..=LINES_MAX).contains(&lines), "a ring has 1 to 2^32 - 1 lines, not {lines}");
        for lane in 0..LANES as usize {
            let copies = self.keys[lane].saturating_mul(factor as u64 - 1);
            self.copied[lane] = self.copied[lane].saturating_add(copies);
            self.keys[lane] = self.keys[lane].saturating_add(copies);
        }
        self.lines = self.lines.repeated(factor);
        self.records = self.records.repeated(factor as u32, lines, self.lanes.live());
        self.lanes.grow(factor);
    }

    /// Counts one more arrival of `key` in the current epoch.
    pub fn insert(&mut self, key: &Fingerprint) {
        self.add(key, self.lanes.current(), 1);
    }

    /// Counts one more arrival of each of `keys` in the current epoch.
    pub fn insert_batch(&mut self, keys: &[Fingerprint]) {
        let lane = self.lanes.current();
        let cached = is_cached(&self.lines);
        let locate = |ring: &&mut Self, key: &Fingerprint| lines_of(key, ring.lines.len());
        let fetch = |ring: &&mut Self, places| fetch(&ring.lines, places);
        pipelined(self, keys, cached, locate, fetch, |ring, _, key, _| ring.add(key, lane, 1));
    }

    /// Counts `amount` arrivals of `key` in the current epoch.
    pub fn insert_many(&mut self, key: &Fingerprint, amount: u32) {
        self.add(key, self.lanes.current(), amount);
    }

    /// Counts `amount` arrivals of `key` in a live epoch.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not.
    pub fn insert_many_at(&mut self, epoch: u64, key: &Fingerprint, amount: u32) -> Result<(), NotLive> {
        let lane = self.lanes.lane_of(epoch)?;
        self.add(key, lane, amount);
        Ok(())
    }

    /// Starts to load what `key` will be counted in, and does not wait for it. It changes no answer.
    pub fn prefetch(&self, key: &Fingerprint) {
        fetch(&self.lines, lines_of(key, self.lines.len()));
    }

    /// How often `key` arrived in the live generations together.
    #[must_use]
    pub fn count(&self, key: &Fingerprint) -> u32 {
        self.window_count(key)
    }

    /// Writes the count of `keys[i]` over the live generations to `found[i]`.
    ///
    /// # Panics
    /// If the two slices differ in length.
    pub fn count_batch(&self, keys: &[Fingerprint], found: &mut [u32]) {
        assert_eq!(keys.len(), found.len(), "one answer per key");
        let locate = |ring: &&Self, key: &Fingerprint| lines_of(key, ring.lines.len());
        let fetch = |ring: &&Self, places| fetch(&ring.lines, places);
        let cached = is_cached(&self.lines);
        pipelined(self, keys, cached, locate, fetch, |ring, i, key, _| found[i] = ring.window_count(key));
    }

    /// How often `key` arrived in a live epoch.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not.
    pub fn count_in(&self, key: &Fingerprint, epoch: u64) -> Result<u32, NotLive> {
        let lane = self.lanes.lane_of(epoch)?;
        let place = Place::of(key, self.lines.len());
        Ok(self.lane_count(lane, (self.least(&place) >> (8 * lane)) as u32 & CELL_TOP, &place))
    }

    /// The room that counting `amount` more arrivals of `key` in a live epoch would take.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not.
    pub fn needs(&self, key: &Fingerprint, epoch: u64, amount: u32) -> Result<Needs, NotLive> {
        let lane = self.lanes.lane_of(epoch)?;
        let place = Place::of(key, self.lines.len());
        let cell = (self.least(&place) >> (8 * lane)) as u32 & CELL_TOP;
        let passes_top = cell.saturating_add(amount) > CELL_TOP;
        let record = passes_top && !self.records.has_record(lane, place.line(), place.tag);
        Ok(Needs { cells: cell == 0 && amount > 0, record })
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

    /// Clears the oldest generation in at most `lines` more lines; returns whether it is clear in all.
    pub fn expire(&mut self, lines: usize) -> bool {
        let (lane, count) = (self.lanes.outgoing(), self.lines.len());
        let step = self.lanes.next_step(lines, count);
        for line in self.lines.changing_range(step.clone()) {
            line.0.iter_mut().for_each(|word| *word &= !nibbles_of(1 << lane));
        }
        // Records go when the generation does, not before: a budget of no lines changes nothing.
        if !self.lanes.is_live(lane) {
            self.records.expire(lane, step, count);
            (self.keys[lane], self.copied[lane]) = (0, 0);
        }
        self.lanes.is_clear(count)
    }

    /// Returns true if the oldest generation is cleared in all lines, so that [`expire`](Self::expire) has nothing left to do.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.lanes.is_clear(self.lines.len())
    }

    /// Returns true if all generations are empty and the oldest is cleared.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.is_expired() && self.keys.iter().all(|keys| *keys == 0)
    }

    /// Begins a later epoch at once, like repeated calls of [`advance`](Self::advance). The ring must be [clear](Self::is_clear).
    ///
    /// # Panics
    /// If the ring is not clear, or the epoch is not later.
    pub fn begin_epoch(&mut self, epoch: u64) {
        assert!(self.is_clear() && epoch > self.epoch(), "a clear ring goes forward");
        self.lanes.begin(epoch);
    }

    /// Adds all counts of `other` to the same generations here: each key then has at least the sum of its two counts.
    ///
    /// A key past 15 on one side only is credited with the lesser cell of its first line on the other.
    ///
    /// # Errors
    /// [`Mismatch`] if the rings were made with different parameters or are not in the same epoch; nothing is changed
    /// then.
    pub fn merge(&mut self, other: &Self) -> Result<(), Mismatch> {
        ensure_equal("the number of lines", &self.lines.len(), &other.lines.len())?;
        ensure_equal("the key id", &self.key_id, &other.key_id)?;
        self.lanes.ensure_same(&other.lanes)?;
        let live = self.lanes.live() & other.lanes.live();
        let records = merged_records([self, other], live);
        for (index, other) in other.lines.iter().enumerate() {
            let line = self.lines[index];
            let sums = Line(std::array::from_fn(|i| add_nibbles(line.0[i], other.0[i] & nibbles_of(live)).0));
            // Line by line, so that a running snapshot keeps only what does change.
            if sums != line {
                *self.lines.changing_one(index) = sums;
            }
        }
        for (lane, unlisted, records) in records {
            self.records.replace(lane, unlisted, records);
            self.keys[lane] = self.keys[lane].saturating_add(other.keys[lane]);
            self.copied[lane] = self.copied[lane].saturating_add(other.copied[lane]);
        }
        Ok(())
    }

    /// The number of distinct keys that arrived in a live epoch, except those that read too high when they first arrived. Merging
    /// adds the numbers of both rings, so keys known to both count twice. It includes [`copied`](Self::copied) ones: compare it
    /// with the number the ring was made for.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not.
    pub fn keys(&self, epoch: u64) -> Result<u64, NotLive> {
        Ok(self.keys[self.lanes.lane_of(epoch)?])
    }

    /// The number of [`keys`](Self::keys) of a live epoch that never arrived but are copies, made when the ring
    /// [grew](Self::grow). They take room as keys do.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not.
    pub fn copied(&self, epoch: u64) -> Result<u64, NotLive> {
        Ok(self.copied[self.lanes.lane_of(epoch)?])
    }

    /// The probability that a key which never arrived reads above 0 over the live generations, by the keys of each.
    #[must_use]
    pub fn estimated_rate(&self) -> f64 {
        let live = (0..LANES as usize).filter(|&lane| self.lanes.is_live(lane));
        let keys: Vec<_> = live.map(|lane| self.keys[lane]).collect();
        counts_window_rate(&keys, self.lines.len() as u64)
    }

    /// How many keys of a live epoch have a count past 15 on record, and how many can.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not.
    pub fn records(&self, epoch: u64) -> Result<(usize, usize), NotLive> {
        Ok((self.records.held(self.lanes.lane_of(epoch)?), self.records.limit()))
    }

    /// Forgets all counts of a live epoch.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not.
    pub fn clear(&mut self, epoch: u64) -> Result<(), NotLive> {
        let lane = self.lanes.lane_of(epoch)?;
        let count = self.lines.len();
        for line in self.lines.changing_range(0..count) {
            line.0.iter_mut().for_each(|word| *word &= !nibbles_of(1 << lane));
        }
        self.records.expire(lane, 0..count, count);
        (self.keys[lane], self.copied[lane]) = (0, 0);
        Ok(())
    }

    /// The lines of its cells.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines.len() as u64
    }

    /// The bits of the whole ring, without records.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.lines.len() as u64 * LINE_BITS
    }

    /// The bytes of the whole ring with the room for records: all that it ever takes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        ((self.lines.len() + self.records.lines.len()) * LINE_BYTES) as u64
    }

    /// The key under which the fingerprints were made.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// All ones in the byte of every live lane.
    #[inline(always)]
    const fn live_bytes(&self) -> u64 {
        if self.lanes.live() == u8::MAX { u64::MAX } else { !(0xff << (8 * self.lanes.outgoing())) }
    }

    /// The least of a key's cells in every generation, a byte each.
    #[inline(always)]
    fn least(&self, place: &Place) -> u64 {
        let [a, b, c, d] = place.slots.map(|at| spread(slot(&self.lines, at)));
        least_bytes(least_bytes(a, b), least_bytes(c, d))
    }

    #[inline(always)]
    fn window_count(&self, key: &Fingerprint) -> u32 {
        let place = Place::of(key, self.lines.len());
        let least = self.least(&place) & self.live_bytes();
        // 15 + 1 carries into the fifth bit of a byte.
        let heavy = (least + 0x0101_0101_0101_0101) & 0x1010_1010_1010_1010;
        if heavy != 0 {
            return self.heavy_window_count(least, &place);
        }
        // The product gathers the sum of all bytes in the top one.
        (least.wrapping_mul(0x0101_0101_0101_0101) >> 56) as u32
    }

    #[inline(never)]
    fn heavy_window_count(&self, least: u64, place: &Place) -> u32 {
        let cells = least.to_le_bytes().into_iter().enumerate();
        cells.fold(0, |sum: u32, (lane, cell)| sum.saturating_add(self.lane_count(lane, u32::from(cell), place)))
    }

    /// The count in one generation of a key whose least cell there is `cell`.
    fn lane_count(&self, lane: usize, cell: u32, place: &Place) -> u32 {
        if cell < CELL_TOP { cell } else { self.records.heavy_count(lane, place.line(), place.tag) }
    }

    #[inline(always)]
    fn add(&mut self, key: &Fingerprint, lane: usize, amount: u32) {
        let place = Place::of(key, self.lines.len());
        let shift = 4 * lane;
        let cells = place.slots.map(|at| slot(&self.lines, at) >> shift & CELL_TOP);
        let least = cells.into_iter().min().expect("a key has cells");
        let level = least.saturating_add(amount).min(CELL_TOP);
        self.keys[lane] += u64::from((least == 0) & (level > 0));
        let [(first, _), _, (second, _), _] = place.slots;
        let lines = self.lines.changing(|| [first, second]);
        for (line, slot) in place.slots {
            let word = &mut lines[line].0[slot / 2];
            let shift = shift + 32 * (slot % 2);
            let cell = (*word >> shift) as u32 & CELL_TOP;
            *word += u64::from(cell.max(level) - cell) << shift;
        }
        let rest = amount - (level - least);
        if rest > 0 {
            self.records.add_heavy(lane, place.line(), place.tag, rest);
        }
    }
}

/// All ones in the nibbles of `lanes` in both slots of a word.
const fn nibbles_of(lanes: u8) -> u64 {
    let mut slot = 0;
    let mut lane = 0;
    while lane < LANES {
        slot |= ((lanes >> lane & 1) as u64 * 15) << (4 * lane);
        lane += 1;
    }
    slot | slot << 32
}

/// The cells of a lane in a line, one after the other.
pub(super) fn lane_cells(line: &Line, lane: usize) -> u64 {
    let cell = |i: usize| u64::from(slot(std::slice::from_ref(line), (0, i)) >> (4 * lane) & CELL_TOP);
    (0..SLOTS).fold(0, |cells, i| cells | cell(i) << (4 * i))
}

/// Makes `cells` those of a lane in a line.
pub(super) fn set_lane_cells(line: &mut Line, lane: usize, cells: u64) {
    for (i, word) in line.0.iter_mut().enumerate() {
        let [first, second] = [2 * i, 2 * i + 1].map(|slot| cells >> (4 * slot) & u64::from(CELL_TOP));
        *word = *word & !nibbles_of(1 << lane) | (first | second << 32) << (4 * lane);
    }
}

/// Eight nibbles to eight bytes.
#[inline(always)]
const fn spread(nibbles: u32) -> u64 {
    let pairs = (nibbles as u64 | (nibbles as u64) << 16) & 0x0000_ffff_0000_ffff;
    let bytes = (pairs | pairs << 8) & 0x00ff_00ff_00ff_00ff;
    (bytes | bytes << 4) & 0x0f0f_0f0f_0f0f_0f0f
}

/// The lesser of each pair of bytes, all below 128.
#[inline(always)]
const fn least_bytes(a: u64, b: u64) -> u64 {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let a_is_not_less = (((a | HIGH) - b) & HIGH) >> 7;
    let choose_b = a_is_not_less * 0xff;
    a & !choose_b | b & choose_b
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::test_keys;

    #[test]
    fn only_new_keys_and_new_records_need_room() {
        let mut ring = CountsRing::new(100, KeyId(1), 4);
        let key = &test_keys(0, 1)[0];
        let needs = |ring: &CountsRing, amount| ring.needs(key, 4, amount).unwrap();
        assert_eq!(needs(&ring, 0), Needs::default());
        assert_eq!(needs(&ring, 15), Needs { cells: true, record: false });
        assert_eq!(needs(&ring, 16), Needs { cells: true, record: true });
        ring.insert_many(key, 10);
        assert_eq!((needs(&ring, 5), needs(&ring, 6)), (Needs::default(), Needs { cells: false, record: true }));
        ring.insert_many(key, 10);
        assert_eq!(needs(&ring, u32::MAX), Needs::default());
        ring.advance();
        assert_eq!(ring.needs(key, 5, 1).unwrap(), Needs { cells: true, record: false });
    }

    #[test]
    fn counts_are_never_too_low_through_ageing_merging_and_large_counts() {
        let keys = test_keys(0, 300);
        let mut rings = [0, 1].map(|_| CountsRing::new(8, KeyId(1), 0));
        let mut truth: HashMap<(usize, u64), u32> = HashMap::new();
        for epoch in 0..16u64 {
            for (i, key) in keys.iter().enumerate() {
                let amount = [0, 1, 3, 14, 16, 200_000][(i + epoch as usize) % 6];
                rings[i % 2].insert_many(key, amount);
                rings[1].insert(key);
                *truth.entry((i, epoch)).or_default() += amount + 1;
            }
            let mut merged = rings[0].clone();
            merged.merge(&rings[1]).unwrap();
            for (i, key) in keys.iter().enumerate() {
                let window = epoch.saturating_sub(7)..=epoch;
                let expected: u32 = window.clone().map(|epoch| truth[&(i, epoch)]).sum();
                assert!(merged.count(key) >= expected, "{} of {expected}", merged.count(key));
                let parts: u32 = window.map(|epoch| merged.count_in(key, epoch).unwrap()).sum();
                assert_eq!(parts, merged.count(key));
            }
            rings.iter_mut().for_each(CountsRing::advance);
        }
    }

    #[test]
    fn counts_are_exact_where_keys_are_few() {
        let keys = test_keys(0, 100);
        let mut ring = CountsRing::new(10_000, KeyId(1), 3);
        for round in 0..40 {
            ring.insert_batch(&keys);
            if round % 10 == 9 {
                ring.advance();
            }
        }
        let mut found = vec![0; keys.len()];
        ring.count_batch(&keys, &mut found);
        assert!(found.iter().all(|&count| count == 40), "{found:?}");
    }

    #[test]
    fn keys_that_pass_15_only_in_the_sum_of_two_rings_are_not_counted_too_low() {
        let keys = test_keys(0, 50);
        let mut ring = CountsRing::new(1000, KeyId(1), 0);
        keys.iter().for_each(|key| ring.insert_many(key, 10));
        ring.insert_many(&keys[0], 90);
        let other = ring.clone();
        ring.merge(&other).unwrap();
        assert_eq!(ring.count(&keys[0]), 200);
        assert!(keys[1..].iter().all(|key| (20..=25).contains(&ring.count(key))));
        ring.insert(&keys[1]);
        assert!(ring.count(&keys[1]) >= 21);
    }

    #[test]
    fn merging_others_in_again_and_again_does_not_raise_the_counts_of_a_key() {
        let keys = test_keys(0, 2);
        let mut ring = CountsRing::new(1000, KeyId(1), 0);
        ring.insert_many(&keys[0], 16);
        let mut other = CountsRing::new(1000, KeyId(1), 0);
        other.insert_many(&keys[1], 16);
        for merges in 1..=100 {
            ring.merge(&other).unwrap();
            assert_eq!((ring.count(&keys[0]), ring.count(&keys[1])), (16, 16 * merges));
        }
    }

    #[test]
    fn a_step_of_no_lines_expires_nothing() {
        let key = test_keys(0, 1)[0];
        let mut ring = CountsRing::new(10, KeyId(1), 0);
        ring.insert_many(&key, 1000);
        (0..7).for_each(|_| ring.advance());
        ring.expire(0);
        assert_eq!(ring.count(&key), 1000);
        ring.expire(1);
        assert_eq!(ring.count(&key), 0);
    }

    #[test]
    fn a_lane_without_room_for_records_counts_too_high_not_too_low() {
        let keys = test_keys(0, 5000);
        let mut ring = CountsRing::new(1, KeyId(1), 0);
        for key in &keys {
            ring.insert_many(key, 20);
        }
        assert!(keys.iter().all(|key| ring.count(key) >= 20));
    }
}
