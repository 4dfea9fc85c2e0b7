//! A ring of refined counts: the number of insertions of a key in each live generation.
//!
//! A line is sixteen slots of 32 bits, and nibble g of a slot is the cell of generation g. A key has two lines and two
//! slots in each, one among the first eight and one among the last eight. Within a generation, its cells are updated by
//! the paper's heuristics H1 and H2. A count above 15 is in one of the generation's `records`, stored under the key's
//! first line and a tag. A ring restored from a snapshot may also have "any" records. Such a record counts all keys
//! that have the same first slot and no record of their own.

use super::lanes::{LANES, Lanes, NotLive};
use super::records::{OWN_TAG, Records};
use crate::hash::{MULTIPLIER_A, mix, reduce};
use crate::kernels::ring::fetch;
use crate::kernels::{is_cached, pipelined};
use crate::lines::{LINE_BITS, LINE_BYTES, LINES_MAX, Line, Lines};
use crate::sizing::ring::counts_window_rate;
use crate::{CreateError, Fingerprint, KeyId};

/// The highest value of a cell.
pub(super) const CELL_TOP: u32 = 15;

/// Counts of keys in eight generations. When a new generation begins, the oldest is dropped. Counts are never too low.
///
/// ```
/// use bruit_filters::ring::CountsRing;
/// use bruit_filters::FingerprintKey;
///
/// let key = FingerprintKey::new([1; 16]);
/// let bulk = key.fingerprint(b"buy now");
/// let mut ring = CountsRing::new(100, key.id(), 0).unwrap();
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
    /// For each lane, the number of keys whose count was 0 when they were first inserted. These are the distinct keys,
    /// except those whose count was already too high. Includes copies made when the ring grew.
    pub(super) keys: [u64; LANES as usize],
    /// For each lane, the number of `keys` that are copies.
    pub(super) copied: [u64; LANES as usize],
    key_id: KeyId,
}

/// The resources that an insertion needs in its generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// True if the key is new to the generation and will raise cells from 0.
    pub cells: bool,
    /// True if the count will exceed 15 and has no record yet.
    pub record: bool,
}

/// The positions of a key's cells.
struct CellPlace {
    /// Line and slot of each cell.
    slots: [(usize, usize); 4],
    /// Tag of the key's own record.
    tag: u16,
}

/// Returns the lines of a key among `lines`.
#[inline(always)]
fn lines_of(key: &Fingerprint, lines: usize) -> [usize; 2] {
    [key.high(), mix(key.high(), MULTIPLIER_A)].map(|word| reduce(word, lines as u64) as usize)
}

impl CellPlace {
    #[inline(always)]
    fn of(key: &Fingerprint, lines: usize) -> Self {
        let [first, second] = lines_of(key, lines);
        let field = |i: u32| (key.low() >> (3 * i) & 7) as usize;
        Self {
            slots: [(first, field(0)), (first, 8 + field(1)), (second, field(2)), (second, 8 + field(3))],
            tag: OWN_TAG | key.low() as u16,
        }
    }

    /// Returns the line that identifies the key's records.
    const fn line(&self) -> u32 {
        self.slots[0].0 as u32
    }
}

/// Returns the content of a slot. A word consists of two slots.
#[inline(always)]
pub(super) fn slot(lines: &[Line], (line, slot): (usize, usize)) -> u32 {
    (lines[line].0[slot / 2] >> (32 * (slot % 2))) as u32
}

impl CountsRing {
    /// Creates an empty ring of `lines` lines. The usual size is 32 bits per key and generation.
    ///
    /// # Errors
    /// [`CreateError`] if a parameter is out of range or the memory cannot be allocated.
    pub fn new(lines: usize, key_id: KeyId, epoch: u64) -> Result<Self, CreateError> {
        CreateError::check("the number of lines", lines as u64, 1..=LINES_MAX as u64)?;
        let (cells, records) = (Lines::new(lines)?, Records::new(lines)?);
        let none = [0; LANES as usize];
        Ok(Self { lines: cells, lanes: Lanes::new(epoch), records, keys: none, copied: none, key_id })
    }

    /// Multiplies the number of lines by `factor`; each line is repeated that many times, together with its records. No
    /// count changes. Cancels a running snapshot.
    ///
    /// The capacity for records grows by the same factor, so that no record is lost. This does not hold for a ring of
    /// fewer than 1,280 lines: its counts above 15 can become too high, but never too low. The fill of the generations
    /// stays the same; see [`copied`](Self::copied).
    ///
    /// # Panics
    /// Panics if `factor` is 0, if the number of lines would not fit in 32 bits, or if the memory cannot be allocated.
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

    /// Counts one insertion of `key` in the current epoch.
    pub fn insert(&mut self, key: &Fingerprint) {
        self.add(key, self.lanes.current(), 1);
    }

    /// Counts one insertion of each of `keys` in the current epoch.
    pub fn insert_batch(&mut self, keys: &[Fingerprint]) {
        let lane = self.lanes.current();
        let cached = is_cached(&self.lines);
        let locate = |ring: &&mut Self, key: &Fingerprint| lines_of(key, ring.lines.len());
        let fetch = |ring: &&mut Self, places| fetch(&ring.lines, places);
        pipelined(self, keys, cached, locate, fetch, |ring, _, key, _| ring.add(key, lane, 1));
    }

    /// Counts `amount` insertions of `key` in the current epoch.
    pub fn insert_many(&mut self, key: &Fingerprint, amount: u32) {
        self.add(key, self.lanes.current(), amount);
    }

    /// Counts `amount` insertions of `key` in a live epoch.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not live.
    pub fn insert_many_at(&mut self, epoch: u64, key: &Fingerprint, amount: u32) -> Result<(), NotLive> {
        let lane = self.lanes.lane_of(epoch)?;
        self.add(key, lane, amount);
        Ok(())
    }

    /// Prefetches the lines of `key` without waiting for them.
    pub fn prefetch(&self, key: &Fingerprint) {
        fetch(&self.lines, lines_of(key, self.lines.len()));
    }

    /// Returns the count of `key` over all live generations.
    #[must_use]
    pub fn count(&self, key: &Fingerprint) -> u32 {
        self.window_count(key)
    }

    /// Sets `found[i]` to the count of `keys[i]` over all live generations.
    ///
    /// # Panics
    /// Panics if the two slices differ in length.
    pub fn count_batch(&self, keys: &[Fingerprint], found: &mut [u32]) {
        assert_eq!(keys.len(), found.len(), "the slices differ in length");
        let locate = |ring: &&Self, key: &Fingerprint| lines_of(key, ring.lines.len());
        let fetch = |ring: &&Self, places| fetch(&ring.lines, places);
        let cached = is_cached(&self.lines);
        pipelined(self, keys, cached, locate, fetch, |ring, i, key, _| found[i] = ring.window_count(key));
    }

    /// Returns the count of `key` in a live epoch.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not live.
    pub fn count_in(&self, key: &Fingerprint, epoch: u64) -> Result<u32, NotLive> {
        let lane = self.lanes.lane_of(epoch)?;
        let place = CellPlace::of(key, self.lines.len());
        Ok(self.lane_count(lane, (self.least(&place) >> (8 * lane)) as u32 & CELL_TOP, &place))
    }

    /// Returns the resources that `amount` more insertions of `key` in a live epoch would need.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not live.
    pub fn needs(&self, key: &Fingerprint, epoch: u64, amount: u32) -> Result<Needs, NotLive> {
        let lane = self.lanes.lane_of(epoch)?;
        let place = CellPlace::of(key, self.lines.len());
        let cell = (self.least(&place) >> (8 * lane)) as u32 & CELL_TOP;
        let passes_top = cell.saturating_add(amount) > CELL_TOP;
        let record = passes_top && !self.records.has_record(lane, place.line(), place.tag);
        Ok(Needs { cells: cell == 0 && amount > 0, record })
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

    /// Clears the oldest generation in at most `lines` more lines. Returns true if it is cleared in all lines.
    pub fn expire(&mut self, lines: usize) -> bool {
        let (lane, count) = (self.lanes.outgoing(), self.lines.len());
        let step = self.lanes.next_step(lines, count);
        for line in self.lines.changing_range(step.clone()) {
            line.0.iter_mut().for_each(|word| *word &= !nibbles_of(1 << lane));
        }
        // If `lines` is 0, nothing changes: the generation is still live, so its records are kept.
        if !self.lanes.is_live(lane) {
            self.records.expire(lane, step, count);
            (self.keys[lane], self.copied[lane]) = (0, 0);
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
        self.is_expired() && self.keys.iter().all(|keys| *keys == 0)
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

    /// Returns the number of distinct keys inserted in a live epoch, except keys whose count was already above 0 when
    /// first inserted. Includes [`copied`](Self::copied) keys. Compare it with the number that the ring was sized for.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not live.
    pub fn keys(&self, epoch: u64) -> Result<u64, NotLive> {
        Ok(self.keys[self.lanes.lane_of(epoch)?])
    }

    /// Returns how many of the [`keys`](Self::keys) of a live epoch are copies, made when the ring [grew](Self::grow).
    /// Copies use as much capacity as inserted keys.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not live.
    pub fn copied(&self, epoch: u64) -> Result<u64, NotLive> {
        Ok(self.copied[self.lanes.lane_of(epoch)?])
    }

    /// Returns the probability that an absent key has a count above 0 over the live generations, computed from the
    /// number of keys in each.
    #[must_use]
    pub fn estimated_rate(&self) -> f64 {
        let live = (0..LANES as usize).filter(|&lane| self.lanes.is_live(lane));
        let keys: Vec<_> = live.map(|lane| self.keys[lane]).collect();
        counts_window_rate(&keys, self.lines.len() as u64)
    }

    /// Returns the number of records (counts above 15) of a live epoch, and the maximum number of records.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not live.
    pub fn records(&self, epoch: u64) -> Result<(usize, usize), NotLive> {
        Ok((self.records.held(self.lanes.lane_of(epoch)?), self.records.limit()))
    }

    /// Removes all counts of a live epoch.
    ///
    /// # Errors
    /// [`NotLive`] if the epoch is not live.
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

    /// Returns the number of lines of cells.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.lines.len() as u64
    }

    /// Returns the size of the ring without records, in bits.
    #[must_use]
    pub fn bits(&self) -> u64 {
        self.lines.len() as u64 * LINE_BITS
    }

    /// Returns the size of the whole ring in bytes. Includes the memory reserved for records, which changes only with
    /// [`grow`](Self::grow).
    #[must_use]
    pub fn bytes(&self) -> u64 {
        ((self.lines.len() + self.records.lines.len()) * LINE_BYTES) as u64
    }

    /// Returns the id of the key that made the fingerprints.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// Returns a mask with all ones in the byte of every live lane.
    #[inline(always)]
    const fn live_bytes(&self) -> u64 {
        if self.lanes.live() == u8::MAX { u64::MAX } else { !(0xff << (8 * self.lanes.outgoing())) }
    }

    /// Returns the minimum of a key's cells in every generation, one byte each.
    #[inline(always)]
    fn least(&self, place: &CellPlace) -> u64 {
        let [a, b, c, d] = place.slots.map(|at| spread(slot(&self.lines, at)));
        least_bytes(least_bytes(a, b), least_bytes(c, d))
    }

    #[inline(always)]
    fn window_count(&self, key: &Fingerprint) -> u32 {
        let place = CellPlace::of(key, self.lines.len());
        let least = self.least(&place) & self.live_bytes();
        // Adding 1 sets the fifth bit of every byte that is 15.
        let heavy = (least + 0x0101_0101_0101_0101) & 0x1010_1010_1010_1010;
        if heavy != 0 {
            return self.heavy_window_count(least, &place);
        }
        // The multiplication adds all bytes in the top byte.
        (least.wrapping_mul(0x0101_0101_0101_0101) >> 56) as u32
    }

    #[inline(never)]
    fn heavy_window_count(&self, least: u64, place: &CellPlace) -> u32 {
        let cells = least.to_le_bytes().into_iter().enumerate();
        cells.fold(0, |sum: u32, (lane, cell)| sum.saturating_add(self.lane_count(lane, u32::from(cell), place)))
    }

    /// Returns the count of a key in one generation. `cell` is the minimum of the key's cells in that generation.
    fn lane_count(&self, lane: usize, cell: u32, place: &CellPlace) -> u32 {
        if cell < CELL_TOP { cell } else { self.records.heavy_count(lane, place.line(), place.tag) }
    }

    #[inline(always)]
    fn add(&mut self, key: &Fingerprint, lane: usize, amount: u32) {
        let place = CellPlace::of(key, self.lines.len());
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

/// Returns a mask with all ones in the nibbles of `lanes` in both slots of a word.
const fn nibbles_of(lanes: u8) -> u64 {
    let mut slot = 0;
    let mut lane = 0;
    while lane < LANES {
        slot |= ((lanes >> lane & 1) as u64 * 15) << (4 * lane);
        lane += 1;
    }
    slot | slot << 32
}

/// Spreads eight nibbles to eight bytes.
#[inline(always)]
const fn spread(nibbles: u32) -> u64 {
    let pairs = (nibbles as u64 | (nibbles as u64) << 16) & 0x0000_ffff_0000_ffff;
    let bytes = (pairs | pairs << 8) & 0x00ff_00ff_00ff_00ff;
    (bytes | bytes << 4) & 0x0f0f_0f0f_0f0f_0f0f
}

/// Returns the minimum of each pair of bytes. All bytes must be below 128.
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
        let mut ring = CountsRing::new(100, KeyId(1), 4).unwrap();
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
    fn counts_are_never_too_low_through_ageing_and_large_counts() {
        let keys = test_keys(0, 300);
        let mut ring = CountsRing::new(8, KeyId(1), 0).unwrap();
        let mut truth: HashMap<(usize, u64), u32> = HashMap::new();
        for epoch in 0..16u64 {
            for (i, key) in keys.iter().enumerate() {
                let amount = [0, 1, 3, 14, 16, 200_000][(i + epoch as usize) % 6];
                ring.insert_many(key, amount);
                ring.insert(key);
                *truth.entry((i, epoch)).or_default() += amount + 1;
            }
            for (i, key) in keys.iter().enumerate() {
                let window = epoch.saturating_sub(7)..=epoch;
                let expected: u32 = window.clone().map(|epoch| truth[&(i, epoch)]).sum();
                assert!(ring.count(key) >= expected, "{} of {expected}", ring.count(key));
                let parts: u32 = window.map(|epoch| ring.count_in(key, epoch).unwrap()).sum();
                assert_eq!(parts, ring.count(key));
            }
            ring.advance();
        }
    }

    #[test]
    fn counts_are_exact_where_keys_are_few() {
        let keys = test_keys(0, 100);
        let mut ring = CountsRing::new(10_000, KeyId(1), 3).unwrap();
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
    fn a_step_of_no_lines_expires_nothing() {
        let key = test_keys(0, 1)[0];
        let mut ring = CountsRing::new(10, KeyId(1), 0).unwrap();
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
        let mut ring = CountsRing::new(1, KeyId(1), 0).unwrap();
        for key in &keys {
            ring.insert_many(key, 20);
        }
        assert!(keys.iter().all(|key| ring.count(key) >= 20));
    }
}
