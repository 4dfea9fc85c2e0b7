//! The table: lines of slots, and how slots find their place.

use super::feature::{Feature, PARTS, Part};
use super::line::{EMPTY_TAG, SLOTS, Slot, SlotLine, SlotSet};
use super::numbering::{Numbering, Owner, TAG_BITS, WIDE_TAG_BITS, sweep_owners};
use super::place::{Place, Shape, slots_with_check};
use super::votes::Votes;
use crate::kernels::ring::fetch;
use crate::kernels::{IN_FLIGHT, is_cached, pipelined};
use crate::lines::{LINE_BYTES, Line, Lines};
use crate::sizing::{OWNER_LOAD, owner_table_bytes};
use crate::{Fingerprint, OutOfMemory};

/// Most owners of a feature; it is refused to the next.
///
/// Slots of other features with the same check are counted in, as nothing tells them apart. At a load of 0.95 they take
/// one place of the four for 12 % of features, and all of them for one in 100,000.
pub const OWNERS_PER_FEATURE_MAX: usize = 4;

/// Slots that may move before one is lost. In nine million slots the first loss then comes at a load of 0.971, with 64 at
/// 0.983; but in a table that is over-full, where no move helps, every insert makes them all.
const KICKS_MAX: usize = 32;

/// The most growths that are remembered separately, each at least twofold.
pub(super) const GROWTHS_MAX: usize = 16;

/// Features and the owners that stored them.
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
/// let mut table = OwnerTable::with_capacity(1000);
/// let report = table.add(&features, 48);
/// assert_eq!((report.stored, report.stored_total()), ([3, 2, 2, 2], 9));
///
/// let mut votes = Votes::new();
/// table.votes(&words("very cheap pills sold without our prescription to you"), &mut votes);
/// assert_eq!(votes.of(report.owner), [3, 1, 0, 1]);
/// ```
///
/// `BITS` is the bits of a tag: 20, which leave two for the part, or 22 in a table [without
/// parts](OwnerTable::without_parts).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerTable<const BITS: u32 = TAG_BITS> {
    pub(super) lines: Lines,
    /// Their number, and how it grew.
    pub(super) shape: Shape,
    /// The growths, in order: an owner number and a factor. The slots of owners before that number were copied `factor` times.
    pub(super) growths: Vec<(u64, u64)>,
    pub(super) numbering: Numbering<BITS>,
    /// The line to sweep next.
    pub(super) sweep_at: usize,
    /// Slots moved so far; its remainder chooses which one moves next.
    pub(super) kicks: u64,
    /// Live slots lost so far.
    pub(super) evictions: u64,
}

/// What became of an owner's features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// The owner.
    pub owner: Owner,
    /// How many of its features this call stored, for every part of its text: the n to compare votes with.
    pub stored: [u32; PARTS],
    /// How many were refused because they have [`OWNERS_PER_FEATURE_MAX`] owners.
    pub refused: usize,
    /// Slots of live owners lost to make room, but for the owner's own: these are taken off `stored`, as far as this call
    /// stored any of their part.
    pub evicted: usize,
}

impl Added {
    /// How many features this call stored.
    #[must_use]
    pub fn stored_total(&self) -> usize {
        self.stored.iter().sum::<u32>() as usize
    }
}

impl OwnerTable {
    /// An empty table for `features` features of live owners, at a load of [`OWNER_LOAD`].
    ///
    /// Memory for more than [`OWNERS_LIVE_MAX`](super::OWNERS_LIVE_MAX) owners, 175 MB if they have 48 features each, would
    /// lie idle.
    ///
    /// # Panics
    /// If that is more than a PiB, or the memory cannot be allocated.
    #[must_use]
    pub fn with_capacity(features: u64) -> Self {
        Self::try_with_capacity(features).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`with_capacity`](Self::with_capacity), but fails if the memory cannot be allocated.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    ///
    /// # Panics
    /// If that is more than a PiB.
    pub fn try_with_capacity(features: u64) -> Result<Self, OutOfMemory> {
        Self::try_with_lines(Self::bytes_for(features) as usize / LINE_BYTES)
    }

    /// The memory of a table made for `features` features.
    ///
    /// # Panics
    /// If that is more than a PiB.
    #[must_use]
    pub fn bytes_for(features: u64) -> u64 {
        owner_table_bytes(1, features.max(1), OWNER_LOAD).expect("a table takes less than a PiB")
    }

    /// An empty table in at most `bytes` bytes, but never less than two lines.
    ///
    /// # Panics
    /// If the memory cannot be allocated, as `Vec` does.
    #[must_use]
    pub fn with_bytes(bytes: usize) -> Self {
        Self::try_with_lines(bytes / LINE_BYTES).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// A table that does not know parts, and tells more owners apart instead; see [`OwnerTable::without_parts`].
pub type OwnerTableWithoutParts = OwnerTable<WIDE_TAG_BITS>;

impl OwnerTableWithoutParts {
    /// An empty table in at most `bytes` bytes, but never less than two lines, that does not know parts and tells
    /// [`OWNERS_WITHOUT_PARTS_LIVE_MAX`](super::OWNERS_WITHOUT_PARTS_LIVE_MAX) owners apart instead. Whatever part a
    /// feature says it is of, it is stored and votes as one of the first.
    ///
    /// # Panics
    /// If the memory cannot be allocated, as `Vec` does.
    ///
    /// ```
    /// use bruit_filters::FingerprintKey;
    /// use bruit_filters::owners::{Feature, OwnerTable, Part, Votes};
    ///
    /// let key = FingerprintKey::new([1; 16]);
    /// let shingles: Vec<_> = (0..32u8).map(|i| key.fingerprint(&[i])).collect();
    /// let features: Vec<_> =
    ///     shingles.iter().map(|&fingerprint| Feature { fingerprint, part: Part::default() }).collect();
    /// let mut table = OwnerTable::without_parts(1 << 20);
    /// let record = table.add(&features, 32).owner;
    /// let mut votes = Votes::new();
    /// table.votes(&shingles[10..], &mut votes);
    /// assert_eq!(votes.of(record), [22, 0, 0, 0]);
    /// ```
    #[must_use]
    pub fn without_parts(bytes: usize) -> Self {
        Self::try_without_parts(bytes).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`without_parts`](Self::without_parts), but fails if the memory cannot be allocated.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_without_parts(bytes: usize) -> Result<Self, OutOfMemory> {
        Self::try_with_lines(bytes / LINE_BYTES)
    }
}

impl<const BITS: u32> OwnerTable<BITS> {
    /// An empty table of at most `lines` lines, but never less than two.
    pub(super) fn try_with_lines(lines: usize) -> Result<Self, OutOfMemory> {
        Self::try_with_shape(Shape::new((lines / 2 * 2).max(2)))
    }

    /// An empty table of this shape.
    pub(super) fn try_with_shape(shape: Shape) -> Result<Self, OutOfMemory> {
        let (lines, numbering) = (Lines::try_new(shape.base * shape.factor)?, Numbering::new());
        Ok(Self { lines, shape, growths: Vec::new(), numbering, sweep_at: 0, kicks: 0, evictions: 0 })
    }

    /// Grows the table by `factor` without changing a vote, by repeating each line: a feature's lines are among the copies of its
    /// former lines. A running snapshot is abandoned.
    ///
    /// The table stays as full as it was. As owners expire, all copies of their slots become free; see
    /// [`copies`](Self::copies).
    ///
    /// # Panics
    /// If `factor` is 0, or the memory cannot be allocated.
    pub fn grow(&mut self, factor: usize) {
        assert!(factor > 0, "a table does not vanish");
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
            // Treats the oldest owners as if they had been copied once more: they count for too much, never too little.
            let (_, oldest) = self.growths.remove(0);
            self.growths[0].1 = self.growths[0].1.saturating_mul(oldest);
        }
    }

    /// The number of slots that a feature of an owner takes: more than one if the table grew since it was stored.
    #[must_use]
    pub fn copies(&self, owner: Owner) -> u64 {
        let since = self.growths.iter().filter(|(before, _)| owner.number() < *before);
        since.fold(1, |copies: u64, (_, factor)| copies.saturating_mul(*factor))
    }

    /// The total number of slots that one feature of each of these owners takes: the number of owners if the table never grew.
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
    /// A feature that occurs twice is stored once, with the part it has first. If as many owners are live as can be, which
    /// is [`OWNERS_LIVE_MAX`](super::OWNERS_LIVE_MAX) where parts are known, the oldest expires. It never fails: an owner
    /// of which nothing could be stored is an owner without features.
    pub fn add(&mut self, candidates: &[Feature], wanted: usize) -> Added {
        self.numbering.make_room();
        // Before the number is handed out: what has the same tag now is of an owner long expired.
        self.sweep();
        let owner = self.numbering.hand_out();
        self.extend(owner, candidates, wanted)
    }

    /// Stores up to `wanted` more features for an owner, from `candidates` as [`add`](Self::add) does: the second choice
    /// when the first gave too few. Nothing is stored if the owner has expired.
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

    /// Stores features whose lines can all be on their way together.
    fn add_ready(&mut self, features: &[Feature], added: &mut Added) {
        let shape = self.shape;
        if !is_cached(&self.lines) {
            features.iter().for_each(|feature| fetch(&self.lines, Place::of(&feature.fingerprint, shape).lines));
        }
        for feature in features {
            self.add_one(Place::of(&feature.fingerprint, shape), feature.part, added);
        }
    }

    fn add_one(&mut self, place: Place, part: Part, added: &mut Added) {
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
        // In a table too small for it, an owner may push out itself: what this call stored, or what an earlier one did.
        let own = &mut added.stored[lost.part.index()];
        if lost.tag == tag && *own > 0 {
            *own -= 1;
        } else {
            added.evicted += 1;
        }
    }

    /// The tags of the live slots that could be this feature's.
    #[inline(always)]
    fn live_tags(&self, place: Place) -> impl Iterator<Item = u32> {
        let numbering = self.numbering;
        slots_with_check::<BITS>(&self.lines, place).map(|slot| slot.tag).filter(move |&tag| numbering.is_live_tag(tag))
    }

    /// Puts `slot` into one of its lines; returns the live slot that was lost for it, if any.
    fn insert(&mut self, place: Place, slot: Slot) -> Option<Slot> {
        let free = place.lines.map(|line| self.free_slots(line));
        let emptier = usize::from(free[1].len() > free[0].len());
        let line = place.lines[emptier];
        match free[emptier].first() {
            Some(i) => self.line_mut(line).set::<BITS>(i, slot),
            None => return self.insert_by_kicks(line, slot),
        }
        None
    }

    /// Puts `slot` into a full line, a slot of which moves to its other line, and so on until one finds room.
    ///
    /// Which one moves only depends on how many have moved before: equal histories give equal tables.
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

    /// Of the slots of a full line and `homeless`, gives up the oldest: the newest knowledge wins.
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

    /// The slots of a line that may be written: empty ones and those of expired owners.
    fn free_slots(&self, line: usize) -> SlotSet {
        let numbering = self.numbering;
        SlotLine::of(&self.lines[line]).with_tag::<BITS>(|tag| !numbering.is_live_tag(tag))
    }

    fn line_mut(&mut self, line: usize) -> &mut SlotLine {
        SlotLine::of_mut(self.lines.changing_one(line))
    }

    /// Empties the slots of expired owners in the next few lines, as many as it takes for all lines to have their turn
    /// while [`sweep_owners`] owners are added.
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

    /// Counts, for every live owner and part of its text, how many of `features` may be its. A feature given twice votes
    /// twice.
    pub fn votes(&self, features: &[Fingerprint], votes: &mut Votes) {
        votes.clear();
        let (numbering, shape) = (self.numbering, self.shape);
        let locate = |_: &&[Line], feature: &Fingerprint| Place::of(feature, shape);
        let work = |lines: &mut &[Line], _, _: &Fingerprint, place: Place| {
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

    /// How many live slots could be this feature's: from [`OWNERS_PER_FEATURE_MAX`] on, [`add`](Self::add) refuses it.
    #[must_use]
    pub fn owners_of(&self, feature: &Fingerprint) -> usize {
        self.live_tags(Place::of(feature, self.shape)).count()
    }

    /// Erases the features of a revoked owner; returns how many slots that were. Give all it may have stored.
    pub fn remove(&mut self, features: &[Fingerprint], owner: Owner) -> usize {
        if !self.numbering.is_live(owner) {
            return 0;
        }
        let shape = self.shape;
        features.iter().map(|feature| self.remove_one(Place::of(feature, shape), owner.tag::<BITS>())).sum()
    }

    fn remove_one(&mut self, place: Place, tag: u32) -> usize {
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

    /// Forgets all owners before `oldest_live`, at once: their slots are free from now on. What has expired stays so.
    pub fn expire_before(&mut self, oldest_live: Owner) {
        self.numbering.expire_before(oldest_live.number());
    }

    /// The live owners: from the first to before the second, which will be the next.
    #[must_use]
    pub const fn live(&self) -> std::ops::Range<Owner> {
        self.numbering.oldest()..self.numbering.next()
    }

    /// Features of live owners that the table is made for. Up to there nothing is lost; beyond, the oldest slots go.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        (OWNER_LOAD * self.slots() as f64) as u64
    }

    /// The share of slots that belong to live owners. Reads the whole table.
    #[must_use]
    pub fn load(&self) -> f64 {
        let free: u64 = (0..self.lines.len()).map(|line| u64::from(self.free_slots(line).len())).sum();
        1.0 - free as f64 / self.slots() as f64
    }

    /// Slots of live owners that were lost because the table was too full.
    #[must_use]
    pub const fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Slots moved to make room so far.
    #[must_use]
    pub const fn kicks(&self) -> u64 {
        self.kicks
    }

    /// The memory of the slots.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.lines.len() * LINE_BYTES) as u64
    }

    fn slots(&self) -> u64 {
        (self.lines.len() * SLOTS) as u64
    }
}
