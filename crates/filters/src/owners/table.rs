//! The owner table: lines of slots, and the placement of slots.

use super::feature::{Feature, PARTS, Part};
use super::line::{EMPTY_TAG, SLOTS, Slot, SlotLine, SlotSet};
use super::numbering::{Numbering, Owner, TAG_BITS, WIDE_TAG_BITS, sweep_owners};
use super::place::{FeaturePlace, TableShape, slots_with_check};
use super::votes::Votes;
use crate::kernels::ring::fetch;
use crate::kernels::{IN_FLIGHT, is_cached, pipelined};
use crate::lines::{LINE_BYTES, Line, Lines};
use crate::sizing::{OWNER_LOAD, owner_table_bytes};
use crate::{Fingerprint, OutOfMemory};

/// Maximum number of owners of a feature. Further owners are refused.
///
/// Slots of other features with the same check are counted as well, because they cannot be distinguished. At a load of
/// 0.95, 12 % of the features have one of their four places taken by such a slot, and one feature in 100,000 has all
/// four taken.
pub const OWNERS_PER_FEATURE_MAX: usize = 4;

/// Maximum number of slots moved before one is evicted. With nine million slots, the first eviction occurs at a load of
/// 0.971. If the maximum were 64, it would occur at 0.983. If the table is so full that moving does not help, every
/// insert moves this number of slots.
const KICKS_MAX: usize = 32;

/// Maximum number of growths that are recorded separately. Each growth is at least twofold.
pub(super) const GROWTHS_MAX: usize = 16;

/// A multimap from features to the owners that have them.
///
/// ```
/// use bruit_filters::FingerprintKey;
/// use bruit_filters::owners::{Feature, OwnerTable, Part, Votes};
///
/// let key = FingerprintKey::new([1; 16]);
/// let words = |text: &str| -> Vec<_> { text.split(' ').map(|word| key.fingerprint(word.as_bytes())).collect() };
/// let spam = words("cheap pills without any prescription for all of you");
/// let features: Vec<_> = spam
///     .iter()
///     .enumerate()
///     .map(|(i, &fingerprint)| Feature { fingerprint, part: Part::of(i, spam.len()) })
///     .collect();
/// let mut table = OwnerTable::with_capacity(1000).unwrap();
/// let report = table.add(&features, 48);
/// assert_eq!((report.stored, report.stored_total()), ([3, 2, 2, 2], 9));
///
/// let mut votes = Votes::new();
/// table.votes(&words("very cheap pills sold without our prescription to you"), &mut votes);
/// assert_eq!(votes.of(report.owner), [3, 1, 0, 1]);
/// ```
///
/// `BITS` is the number of bits of a tag: 20, which leaves two for the part, or 22 in a table [without
/// parts](OwnerTable::without_parts).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerTable<const BITS: u32 = TAG_BITS> {
    pub(super) lines: Lines,
    /// The number of lines, and its growth.
    pub(super) shape: TableShape,
    /// The growths in order, each as an owner number and a factor. The table holds `factor` copies of each slot of the
    /// owners before that number.
    pub(super) growths: Vec<(u64, u64)>,
    pub(super) numbering: Numbering<BITS>,
    /// The next line to sweep.
    pub(super) sweep_at: usize,
    /// Number of slots moved so far. This number modulo the number of slots in a line selects the slot that moves next.
    pub(super) kicks: u64,
    /// Number of live slots evicted so far.
    pub(super) evictions: u64,
}

/// The result of storing an owner's features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// The owner.
    pub owner: Owner,
    /// Number of features that this call stored for each part of the text. Compare votes with these numbers.
    pub stored: [u32; PARTS],
    /// Number of features refused because they have [`OWNERS_PER_FEATURE_MAX`] owners.
    pub refused: usize,
    /// Number of evicted slots of other live owners. An evicted slot of this owner is subtracted from `stored` instead,
    /// if this call stored features of the same part.
    pub evicted: usize,
}

impl Added {
    /// Returns the number of features stored by this call.
    #[must_use]
    pub fn stored_total(&self) -> usize {
        self.stored.iter().sum::<u32>() as usize
    }
}

impl OwnerTable {
    /// Creates an empty table for `features` features of live owners, at a load of [`OWNER_LOAD`].
    ///
    /// Memory that exceeds the needs of [`OWNERS_LIVE_MAX`](super::OWNERS_LIVE_MAX) owners (175 MB with 48 features
    /// each) is never used.
    ///
    /// # Errors
    /// [`OutOfMemory`], also for any size above a PiB.
    pub fn with_capacity(features: u64) -> Result<Self, OutOfMemory> {
        let bytes = owner_table_bytes(1, features.max(1), OWNER_LOAD).map_err(|_| OutOfMemory { bytes: u64::MAX })?;
        Self::with_lines(bytes as usize / LINE_BYTES)
    }

    /// Returns the memory in bytes of a table with capacity for `features` features, or `u64::MAX` if it exceeds a PiB.
    #[must_use]
    pub fn bytes_for(features: u64) -> u64 {
        owner_table_bytes(1, features.max(1), OWNER_LOAD).unwrap_or(u64::MAX)
    }

    /// Creates an empty table of at most `bytes` bytes, but at least two lines.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn with_bytes(bytes: usize) -> Result<Self, OutOfMemory> {
        Self::with_lines(bytes / LINE_BYTES)
    }
}

/// A table that does not store parts, and can distinguish more owners instead. See [`OwnerTable::without_parts`].
pub type OwnerTableWithoutParts = OwnerTable<WIDE_TAG_BITS>;

impl OwnerTableWithoutParts {
    /// Creates an empty table without parts, of at most `bytes` bytes, but at least two lines. Such a table can
    /// distinguish [`OWNERS_WITHOUT_PARTS_LIVE_MAX`](super::OWNERS_WITHOUT_PARTS_LIVE_MAX) owners. It ignores the part
    /// of a feature: all votes count for the first part.
    ///
    /// ```
    /// use bruit_filters::FingerprintKey;
    /// use bruit_filters::owners::{Feature, OwnerTable, Part, Votes};
    ///
    /// let key = FingerprintKey::new([1; 16]);
    /// let shingles: Vec<_> = (0..32u8).map(|i| key.fingerprint(&[i])).collect();
    /// let features: Vec<_> =
    ///     shingles.iter().map(|&fingerprint| Feature { fingerprint, part: Part::default() }).collect();
    /// let mut table = OwnerTable::without_parts(1 << 20)?;
    /// let record = table.add(&features, 32).owner;
    /// let mut votes = Votes::new();
    /// table.votes(&shingles[10..], &mut votes);
    /// assert_eq!(votes.of(record), [22, 0, 0, 0]);
    /// # Ok::<(), bruit_filters::OutOfMemory>(())
    /// ```
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn without_parts(bytes: usize) -> Result<Self, OutOfMemory> {
        Self::with_lines(bytes / LINE_BYTES)
    }
}

impl<const BITS: u32> OwnerTable<BITS> {
    /// Creates an empty table of at most `lines` lines, but at least two.
    pub(super) fn with_lines(lines: usize) -> Result<Self, OutOfMemory> {
        Self::with_shape(TableShape::new((lines / 2 * 2).max(2)))
    }

    /// Creates an empty table of this shape.
    pub(super) fn with_shape(shape: TableShape) -> Result<Self, OutOfMemory> {
        let (lines, numbering) = (Lines::new(shape.base * shape.factor)?, Numbering::new());
        Ok(Self { lines, shape, growths: Vec::new(), numbering, sweep_at: 0, kicks: 0, evictions: 0 })
    }

    /// Multiplies the number of lines by `factor`; each line is repeated that many times. No vote changes, because the
    /// lines of a feature are among the copies of its former lines. Cancels a running snapshot.
    ///
    /// The load of the table stays the same. When an owner expires, all copies of its slots become free; see
    /// [`copies`](Self::copies).
    ///
    /// # Panics
    /// Panics if `factor` is 0, or if the memory cannot be allocated.
    pub fn grow(&mut self, factor: usize) {
        assert!(factor > 0, "the growth factor must be at least 1");
        if factor == 1 {
            return;
        }
        self.lines = self.lines.repeated(factor);
        self.shape.factor *= factor;
        self.sweep_at *= factor;
        let [oldest, next] = self.numbering.fields();
        self.growths.retain(|&(before, _)| before > oldest);
        if oldest < next {
            self.growths.push((next, factor as u64));
        }
        if self.growths.len() > GROWTHS_MAX {
            // Joins the two oldest growths. Owners added between them then count as if both growths had copied their
            // slots. So their share of the table may be overestimated but is never underestimated.
            let (_, oldest) = self.growths.remove(0);
            self.growths[0].1 = self.growths[0].1.saturating_mul(oldest);
        }
    }

    /// Returns the number of slots that a feature of an owner occupies: more than one if the table grew after the
    /// feature was stored.
    #[must_use]
    pub fn copies(&self, owner: Owner) -> u64 {
        let since = self.growths.iter().filter(|(before, _)| owner.number() < *before);
        since.fold(1, |copies: u64, (_, factor)| copies.saturating_mul(*factor))
    }

    /// Returns the total number of slots for one feature of each of these owners. It equals the number of owners if the
    /// table never grew.
    #[must_use]
    pub fn copies_of_all(&self, owners: std::ops::Range<Owner>) -> u64 {
        let (mut from, end) = (owners.start.number(), owners.end.number());
        let mut sum = 0_u64;
        for before in self.growths.iter().map(|growth| growth.0).chain([end]) {
            let until = before.clamp(from, end.max(from));
            sum = sum.saturating_add((until - from).saturating_mul(self.copies(Owner::from_number(from))));
            from = until;
        }
        sum
    }

    /// Stores the first `wanted` features of `candidates` that are not refused, under a new owner.
    ///
    /// A feature that occurs twice is stored once, with its first part. If the maximum number of owners is live
    /// ([`OWNERS_LIVE_MAX`](super::OWNERS_LIVE_MAX) in a table with parts), the oldest expires. The call never fails:
    /// if no feature can be stored, the owner has no features.
    pub fn add(&mut self, candidates: &[Feature], wanted: usize) -> Added {
        self.numbering.make_room();
        // The sweep comes before the number is allocated. Once it is allocated, slots of a long-expired owner with the
        // same tag would look live.
        self.sweep();
        let owner = self.numbering.hand_out();
        self.extend(owner, candidates, wanted)
    }

    /// Stores up to `wanted` more features for an owner, from `candidates`, as [`add`](Self::add) does. Use it to try
    /// other features if the first choice stored too few. Stores nothing if the owner has expired.
    pub fn extend(&mut self, owner: Owner, candidates: &[Feature], wanted: usize) -> Added {
        let mut added = Added { owner, stored: [0; PARTS], refused: 0, evicted: 0 };
        let mut rest = if self.numbering.is_live(owner) { candidates } else { &[] };
        loop {
            let ready = rest.len().min(IN_FLIGHT).min(wanted - added.stored_total());
            if ready == 0 {
                return added;
            }
            let (now, later) = rest.split_at(ready);
            self.add_ready(now, &mut added);
            rest = later;
        }
    }

    /// Stores a batch of features whose lines can all be prefetched together.
    fn add_ready(&mut self, features: &[Feature], added: &mut Added) {
        let shape = self.shape;
        if !is_cached(&self.lines) {
            features.iter().for_each(|feature| fetch(&self.lines, FeaturePlace::of(&feature.fingerprint, shape).lines));
        }
        for feature in features {
            self.add_one(FeaturePlace::of(&feature.fingerprint, shape), feature.part, added);
        }
    }

    fn add_one(&mut self, place: FeaturePlace, part: Part, added: &mut Added) {
        let tag = added.owner.tag::<BITS>();
        let part = if BITS == TAG_BITS { part } else { Part::default() };
        if self.live_tags(place).any(|other| other == tag) {
            return;
        }
        if self.live_tags(place).count() >= OWNERS_PER_FEATURE_MAX {
            added.refused += 1;
            return;
        }
        added.stored[part.index()] += 1;
        let Some(lost) = self.insert(place, Slot { tag, check: place.check, part }) else { return };
        self.evictions += 1;
        // If the table is too small, an owner may evict its own slots, from this call or an earlier one.
        let own = &mut added.stored[lost.part.index()];
        if lost.tag == tag && *own > 0 {
            *own -= 1;
        } else {
            added.evicted += 1;
        }
    }

    /// Returns the tags of the live slots that may belong to this feature.
    #[inline(always)]
    fn live_tags(&self, place: FeaturePlace) -> impl Iterator<Item = u32> {
        let numbering = self.numbering;
        slots_with_check::<BITS>(&self.lines, place).map(|slot| slot.tag).filter(move |&tag| numbering.is_live_tag(tag))
    }

    /// Writes `slot` to one of its two lines. Returns the live slot that was evicted for it, if any.
    fn insert(&mut self, place: FeaturePlace, slot: Slot) -> Option<Slot> {
        let free = place.lines.map(|line| self.free_slots(line));
        let emptier = usize::from(free[1].len() > free[0].len());
        let line = place.lines[emptier];
        match free[emptier].first() {
            Some(i) => self.line_mut(line).set::<BITS>(i, slot),
            None => return self.insert_by_kicks(line, slot),
        }
        None
    }

    /// Writes `slot` to a full line. A slot of that line moves to its other line, and so on until a line has a free
    /// slot.
    ///
    /// The choice depends only on the number of earlier moves, so equal histories produce equal tables.
    fn insert_by_kicks(&mut self, mut line: usize, slot: Slot) -> Option<Slot> {
        let mut homeless = slot;
        for _ in 0..KICKS_MAX {
            let victim = (self.kicks % SLOTS as u64) as usize;
            self.kicks += 1;
            homeless = self.line_mut(line).replace::<BITS>(victim, homeless);
            line = self.shape.other_line(line, homeless.check);
            if let Some(i) = self.free_slots(line).first() {
                self.line_mut(line).set::<BITS>(i, homeless);
                return None;
            }
        }
        Some(self.displace_oldest(line, homeless))
    }

    /// Compares `homeless` with the slots of a full line, evicts the oldest of them, and stores the others in the line.
    /// Returns the evicted slot.
    fn displace_oldest(&mut self, line: usize, homeless: Slot) -> Slot {
        let numbering = self.numbering;
        let age_order = |slot: Slot| numbering.place_of(slot.tag);
        let slots = SlotLine::of(&self.lines[line]);
        let oldest = (0..SLOTS).min_by_key(|&i| age_order(slots.slot::<BITS>(i))).unwrap_or_default();
        if age_order(homeless) < age_order(slots.slot::<BITS>(oldest)) {
            return homeless;
        }
        self.line_mut(line).replace::<BITS>(oldest, homeless)
    }

    /// Returns the slots of a line that may be overwritten: empty ones and those of expired owners.
    fn free_slots(&self, line: usize) -> SlotSet {
        let numbering = self.numbering;
        SlotLine::of(&self.lines[line]).with_tag::<BITS>(|tag| !numbering.is_live_tag(tag))
    }

    fn line_mut(&mut self, line: usize) -> &mut SlotLine {
        SlotLine::of_mut(self.lines.changing_one(line))
    }

    /// Erases the slots of expired owners in the next few lines, at a rate that covers all lines while [`sweep_owners`]
    /// owners are added.
    fn sweep(&mut self) {
        let count = self.lines.len();
        for _ in 0..(count as u64).div_ceil(sweep_owners(BITS)) {
            let line = self.sweep_at;
            self.sweep_at = (line + 1) % count;
            let numbering = self.numbering;
            let slots = self.line_mut(line);
            for i in slots.with_tag::<BITS>(|tag| tag != EMPTY_TAG && !numbering.is_live_tag(tag)) {
                slots.set::<BITS>(i, Slot::default());
            }
        }
    }

    /// Counts the matches of `features` for every live owner and part of its text. A feature that occurs twice votes
    /// twice.
    pub fn votes(&self, features: &[Fingerprint], votes: &mut Votes) {
        votes.clear();
        let (numbering, shape) = (self.numbering, self.shape);
        let locate = |_: &&[Line], feature: &Fingerprint| FeaturePlace::of(feature, shape);
        let work = |lines: &mut &[Line], _, _: &Fingerprint, place: FeaturePlace| {
            for slot in slots_with_check::<BITS>(lines, place) {
                if let Some(place) = numbering.place_of(slot.tag) {
                    votes.cast(place, slot.part);
                }
            }
        };
        let lines: &[Line] = &self.lines;
        pipelined(lines, features, is_cached(lines), locate, |lines, place| fetch(lines, place.lines), work);
        votes.count(&self.numbering);
    }

    /// Returns the number of live slots that may belong to this feature. If it is [`OWNERS_PER_FEATURE_MAX`] or more,
    /// [`add`](Self::add) refuses the feature.
    #[must_use]
    pub fn owners_of(&self, feature: &Fingerprint) -> usize {
        self.live_tags(FeaturePlace::of(feature, self.shape)).count()
    }

    /// Erases the features of a revoked owner and returns the number of erased slots. Pass all features that the owner
    /// may have stored.
    pub fn remove(&mut self, features: &[Fingerprint], owner: Owner) -> usize {
        if !self.numbering.is_live(owner) {
            return 0;
        }
        let shape = self.shape;
        features.iter().map(|feature| self.remove_one(FeaturePlace::of(feature, shape), owner.tag::<BITS>())).sum()
    }

    fn remove_one(&mut self, place: FeaturePlace, tag: u32) -> usize {
        let mut removed = 0;
        for line in place.lines {
            let line = self.line_mut(line);
            for i in line.with_check(place.check) {
                if line.tag::<BITS>(i) == tag {
                    line.set::<BITS>(i, Slot::default());
                    removed += 1;
                }
            }
        }
        removed
    }

    /// Expires all owners before `oldest_live`, which frees their slots immediately. Has no effect on owners that have
    /// already expired.
    pub fn expire_before(&mut self, oldest_live: Owner) {
        self.numbering.expire_before(oldest_live.number());
    }

    /// Returns the range of live owners. Its end is the next owner to be added.
    #[must_use]
    pub const fn live(&self) -> std::ops::Range<Owner> {
        self.numbering.oldest()..self.numbering.next()
    }

    /// Returns the number of features of live owners that fit without evictions. Above this number, the oldest slots
    /// are evicted.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        (OWNER_LOAD * self.slots() as f64) as u64
    }

    /// Returns the fraction of slots that belong to live owners. Reads the whole table.
    #[must_use]
    pub fn load(&self) -> f64 {
        let free: u64 = (0..self.lines.len()).map(|line| u64::from(self.free_slots(line).len())).sum();
        1.0 - free as f64 / self.slots() as f64
    }

    /// Returns the number of live owners' slots that were evicted because the table was too full.
    #[must_use]
    pub const fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Returns the number of slots moved so far to free a slot for another feature.
    #[must_use]
    pub const fn kicks(&self) -> u64 {
        self.kicks
    }

    /// Returns the memory of the slots in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.lines.len() * LINE_BYTES) as u64
    }

    fn slots(&self) -> u64 {
        (self.lines.len() * SLOTS) as u64
    }
}
