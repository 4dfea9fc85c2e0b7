//! An index of reported texts that recognises near replicas of them.
//!
//! A report stores a record of 24 bytes, and at most [`STORED_MAX`] features as slots of 30 bits in an [`OwnerTable`].
//! A check looks up every feature of its message. Each slot found is a vote for the report that owns the slot, and
//! [`Stored`] decides how many votes a report needs. Neither the text nor whole features are stored. The record
//! contains the text's fingerprint, which identifies the text in the books.
//!
//! Features seen in two good messages, or in one revoked message, do not count. Such features are not stored, and those
//! that are already stored no longer vote. This applies the two filters of Yan and Cho's paper to features.
//!
//! ```
//! use bruit_engine::replicas::{Replicas, Scratch};
//! use bruit_filters::FingerprintKey;
//! use bruit_signatures::bruit::Features;
//! use bruit_signatures::message::Message;
//! use bruit_signatures::reading::Reading;
//!
//! let features = |mail: &str| Features::of(&Reading::of(&Message::read(mail.as_bytes())));
//! let mut replicas = Replicas::new(FingerprintKey::new([7; 16]), 1000, 0);
//! let report = replicas.report(&features("\nBuy cheap pills without any prescription from our certified pharmacy"));
//!
//! let replica = features("\nDear John, buy CHEAP p1lls with0ut any prescriptiоn from our certified pharmacy. Bye!");
//! assert_eq!(replicas.check(&replica, &mut Scratch::default())[0].owner, report);
//! ```

use std::collections::{HashMap, VecDeque};

use bruit_filters::bloom::OneLineFilter;
use bruit_filters::owners::{Feature, OWNERS_LIVE_MAX, Owner, OwnerTable, PARTS, Part, Votes};
use bruit_filters::snapshot::Snapshot;
use bruit_filters::{Fingerprint, FingerprintKey, OutOfMemory};
use bruit_signatures::bruit::{Features, Overlap, QUARTERS, STORED_MAX, STORED_MIN, Stored};

use crate::memory::{out_of_memory, queue};

mod good;
mod state;
mod text;

pub use good::{GOOD_FEATURES, GoodIsFull};
use text::CachedName;
pub use text::{TEXT_FEATURES_PER_QUARTER, Text};

use good::Good;
pub(crate) use good::sum;

use crate::budget::multiple;
use crate::engine::resize::{StructurePreview, preview_lines};

/// Maximum number of features that a check looks up: the ones with the lowest fingerprints. This limit can hide a
/// reported text only in a message that is about 150 times as long as the text.
pub const CHECKED_MAX: usize = 8_192;

/// Minimum number of reports in an index. A feature that was never reported still matches slots by chance (0.13 slots
/// on average in a full table), and each of these slots votes for its owner. With this many reports, such votes are
/// rare: on average, a report gets one from the longest message and 0.04 from an ordinary message (300 features).
pub const REPORTS_MIN: u64 = 1_024;

/// Maximum memory for a report. It consists of a record, an entry in the hash map of whole texts, and 48 slots of 30
/// bits in lines that are 95 % full.
const BYTES_PER_REPORT: u64 = 190 + size_of::<TextRecord>() as u64 + 2 * (WHOLE_BYTES as u64 + 1);

/// Minimum share, in per cent, of a template's features that are known from good mail.
const TEMPLATE_PERCENT_MIN: usize = 40;

const WHOLE_BYTES: usize = size_of::<(Fingerprint, Owner)>();

const _: () = assert!(PARTS == QUARTERS, "a slot stores the quarter of its feature");

/// An index of reported texts, in which checks find near replicas.
#[derive(Debug)]
pub struct Replicas {
    key: FingerprintKey,
    table: OwnerTable,
    /// Records by report number, starting with the oldest live report.
    records: VecDeque<TextRecord>,
    /// Maximum number of records in the index.
    records_max: usize,
    /// Number of table slots used by live reports.
    stored: u64,
    /// Reports with too few features to be found by votes, keyed by the fingerprint of the whole text.
    wholes: HashMap<Fingerprint, Owner>,
    /// Features known from good mail, which do not count.
    good: Good,
    /// Live generations, oldest first. For each, its epoch and the number of its first report.
    generations: VecDeque<(u64, u64)>,
}

/// The data that is stored for a report in addition to its slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TextRecord {
    /// Stored features. Their number is combined with [`TEMPLATE_BIT`].
    marked: Stored,
    /// Fingerprint of the text in the books.
    fingerprint: Fingerprint,
}

/// Bit that marks a template, in a record's number of features.
const TEMPLATE_BIT: u32 = 1 << 31;

impl TextRecord {
    fn new(stored: Stored, is_template: bool, fingerprint: Fingerprint) -> Self {
        let features = stored.features.min(TEMPLATE_BIT - 1) | if is_template { TEMPLATE_BIT } else { 0 };
        Self { marked: Stored { features, ..stored }, fingerprint }
    }

    const fn stored(&self) -> Stored {
        Stored { features: self.marked.features & !TEMPLATE_BIT, ..self.marked }
    }

    /// Returns true if much of the text was known from good mail.
    const fn is_template(&self) -> bool {
        self.marked.features & TEMPLATE_BIT != 0
    }
}

/// A match between a message and a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextMatch {
    /// Number of the report.
    pub owner: Owner,
    /// Stored features of the report.
    pub stored: Stored,
    /// Number of stored features found in the message, for each quarter of the report.
    pub found: [u32; PARTS],
    /// Number of the message's features that count.
    pub features: u32,
    /// Overlap of the two texts.
    pub overlap: Overlap,
    /// True if much of the report was known from good mail.
    pub is_template: bool,
}

impl TextMatch {
    /// Returns true if the message is close to the report or has exactly the same words.
    #[must_use]
    pub fn is_close(&self) -> bool {
        self.stored.is_close(&self.overlap)
    }
}

/// Scratch memory for checks, reused from one check to the next.
#[derive(Debug, Default)]
pub struct Scratch {
    fingerprints: Vec<Fingerprint>,
    is_good: Vec<bool>,
    votes: Votes,
}

impl Replicas {
    /// Creates an index for `reports` reports (at least [`REPORTS_MIN`]). It can also learn the features of good mail
    /// and revoked messages: up to `good` messages in each of two generations.
    ///
    /// # Panics
    /// If the memory cannot be allocated.
    #[must_use]
    pub fn new(key: FingerprintKey, reports: u64, good: u64) -> Self {
        Self::try_new(key, reports, good).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`new`](Self::new), but fails if the memory cannot be allocated.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_new(key: FingerprintKey, reports: u64, good: u64) -> Result<Self, OutOfMemory> {
        let records_max = records_max(reports);
        let mut wholes = HashMap::new();
        let wholes_max = wholes_max(records_max);
        wholes.try_reserve(wholes_max).map_err(|_| out_of_memory::<(Fingerprint, Owner)>(wholes_max))?;
        Ok(Self {
            table: OwnerTable::with_capacity(features_of(records_max))?,
            records: queue(records_max)?,
            records_max,
            stored: 0,
            wholes,
            good: Good::new(good, key.id())?,
            generations: VecDeque::from([(0, 1)]),
            key,
        })
    }

    /// Creates an index that uses at most `bytes` bytes, plus `good_bytes` for the filters of good mail. Its first
    /// epoch is `epoch`.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn within(key: FingerprintKey, bytes: u64, good_bytes: u64, epoch: u64) -> Result<Self, OutOfMemory> {
        let generations = VecDeque::from([(epoch, 1)]);
        Ok(Self { generations, ..Self::try_new(key, bytes / BYTES_PER_REPORT, good_messages(good_bytes))? })
    }

    /// Grows the table and filters by the largest whole factors that fit this many bytes. All reports are kept.
    pub(crate) fn resize(&mut self, bytes: u64, good_bytes: u64) {
        self.records_max = records_max(bytes / BYTES_PER_REPORT);
        let factor = multiple(self.table.bytes(), table_bytes(self.records_max));
        self.table.grow(factor as usize);
        let mut records = VecDeque::with_capacity(self.records_max);
        records.append(&mut self.records);
        let mut wholes = HashMap::with_capacity(wholes_max(self.records_max));
        wholes.extend(self.wholes.drain());
        (self.records, self.wholes) = (records, wholes);
        self.stored = self.count_stored();
        self.good.resize(good_messages(good_bytes));
    }

    /// Returns the changes that [`resize`](Self::resize) would make.
    pub(crate) fn preview_resize(&self, bytes: u64, good_bytes: u64) -> [StructurePreview; 2] {
        let planned = records_max(bytes / BYTES_PER_REPORT);
        let then = self.table.capacity() * multiple(self.table.bytes(), table_bytes(planned));
        let reports = |features: u64, records: usize| (features / STORED_MAX as u64).min(records as u64);
        let capacity = (reports(self.table.capacity(), self.records_max), reports(then, planned));
        let texts = preview_lines("texts", "texts", self.table.bytes(), table_bytes(planned), capacity);
        [texts, self.good.preview_resize(good_messages(good_bytes))]
    }

    /// Returns true if all reports and filters fit in this many bytes.
    pub(crate) fn fits(&self, bytes: u64, good_bytes: u64) -> bool {
        let records_max = records_max(bytes / BYTES_PER_REPORT);
        self.records.len() <= records_max
            && self.wholes.len() <= wholes_max(records_max)
            && self.table.bytes() <= table_bytes(records_max)
            && self.good.fits(good_messages(good_bytes))
    }

    /// Recomputes the number of used slots and the capacity for good mail after the arrays were restored. Returns false
    /// if the filters of good mail differ in size.
    pub(crate) fn recount(&mut self) -> bool {
        self.stored = self.count_stored();
        self.good.recount()
    }

    /// Returns the number of slots used by live reports.
    fn count_stored(&self) -> u64 {
        let oldest = self.table.live().start.number();
        let owners = (oldest..).map(Owner::from_number);
        let stored =
            |(owner, record): (Owner, &TextRecord)| record.marked.total().saturating_mul(self.table.copies(owner));
        owners.zip(&self.records).map(stored).fold(0, u64::saturating_add)
    }

    /// Stores a report. If the index is full, evicts the oldest reports.
    pub fn report(&mut self, features: &Features) -> Owner {
        let text = self.text_of(features, usize::MAX);
        self.report_text(&text, text.fingerprint(&self.key))
    }

    /// Returns the text to store for a report of a message, without the features that do not count.
    #[must_use]
    pub fn text(&self, features: &Features) -> Text {
        self.text_of(features, TEXT_FEATURES_PER_QUARTER)
    }

    /// Stores a report of a text under its fingerprint in the books.
    pub fn report_text(&mut self, text: &Text, fingerprint: Fingerprint) -> Owner {
        while self.is_full() {
            self.expire_oldest();
        }
        let owner = self.table.add(&[], 0).owner;
        let stored = Stored { by_quarter: self.store(owner, self.candidates(text)), features: text.features };
        self.stored += stored.total();
        self.record(owner, TextRecord::new(stored, text.is_template, fingerprint));
        if stored.total() < STORED_MIN as u64
            && let Some(whole) = self.counted_whole(text.whole)
        {
            self.wholes.insert(whole, owner);
        }
        owner
    }

    /// Starts a generation and drops generations that began `live` or more epochs earlier.
    pub fn turn(&mut self, epoch: u64, live: u64) {
        self.generations.push_back((epoch, self.table.live().end.number()));
        while self.generations.len() > 1 && self.generations.front().is_some_and(|first| first.0 + live <= epoch) {
            self.generations.pop_front();
        }
        let oldest = self.generations.front().map_or(0, |first| first.1);
        while !self.records.is_empty() && self.table.live().start.number() < oldest {
            self.expire_oldest();
        }
    }

    /// Starts a generation of good mail. The filters of the oldest generation are cleared and reused.
    pub fn turn_good(&mut self) {
        self.good.turn();
    }

    /// Returns true if a report belongs to the current generation.
    #[must_use]
    pub fn is_current(&self, owner: Owner) -> bool {
        self.generations.back().is_some_and(|current| owner.number() >= current.1)
    }

    /// Returns the reports that a message matches as a near replica, oldest first.
    pub fn check(&self, features: &Features, scratch: &mut Scratch) -> Vec<TextMatch> {
        let own = self.count_own(features, scratch);
        self.look_up(features.all(), scratch);
        self.table.votes(&scratch.fingerprints, &mut scratch.votes);
        let matched = |(owner, found): (Owner, [u32; PARTS])| {
            let stored = self.record_of(owner)?;
            let (overlap, is_template) = (stored.overlap(found, own)?, self.is_template(owner));
            Some(TextMatch { owner, stored, found, features: own, overlap, is_template })
        };
        let mut matches: Vec<TextMatch> = scratch.votes.iter().filter_map(matched).collect();
        let whole = self.counted_whole(features.whole).and_then(|whole| self.wholes.get(&whole).copied());
        if let Some(stored) = whole.and_then(|owner| self.record_of(owner)) {
            let overlap = Overlap { of_report: 100, of_message: 100, is_even: true };
            let found =
                |owner| TextMatch { owner, stored, found: [0; PARTS], features: own, overlap, is_template: false };
            matches.extend(whole.map(found));
        }
        // If a report matches twice, keep only the better match.
        matches.sort_unstable_by_key(|found| (found.owner, std::cmp::Reverse(found.overlap.of_report)));
        matches.dedup_by_key(|found| found.owner);
        matches
    }

    /// Learns a good message. Features seen in two different good messages no longer count. For a long message, the
    /// [`GOOD_FEATURES`] features with the lowest fingerprints are learnt.
    ///
    /// # Errors
    /// [`GoodIsFull`] if the current generation is full; nothing is learnt then.
    pub fn learn_good(&mut self, features: &Features) -> Result<(), GoodIsFull> {
        self.learn_good_features(&self.good_features_of(features))
    }

    /// Checks that one more good message can be learnt.
    ///
    /// # Errors
    /// [`GoodIsFull`] if not.
    pub const fn ensure_room_for_good(&self) -> Result<(), GoodIsFull> {
        self.good.ensure_room()
    }

    /// Returns the features of a good message that [`learn_good`](Self::learn_good) would learn, for the journal.
    #[must_use]
    pub fn good_features_of(&self, features: &Features) -> Vec<u64> {
        select_good(&self.key, features).into_iter().map(|(_, feature)| feature).collect()
    }

    /// Learns a good message from its features; see [`learn_good`](Self::learn_good).
    ///
    /// # Errors
    /// [`GoodIsFull`] if the current generation is full.
    pub fn learn_good_features(&mut self, features: &[u64]) -> Result<(), GoodIsFull> {
        let mut features: Vec<_> = features.iter().map(|&feature| self.fingerprint(feature)).collect();
        features.sort_unstable();
        features.dedup();
        self.good.learn(&features)
    }

    /// Revokes a message. Its features then no longer count in any report. In a long message, this applies to the same
    /// features that [`learn_good`](Self::learn_good) would learn.
    ///
    /// # Errors
    /// [`GoodIsFull`] if the current generation is full.
    pub fn revoke(&mut self, features: &Features) -> Result<(), GoodIsFull> {
        self.make_good(&self.good_features_of(features))
    }

    /// Marks features as good, without waiting for a second message.
    ///
    /// # Errors
    /// [`GoodIsFull`] if the current generation is full.
    pub fn make_good(&mut self, features: &[u64]) -> Result<(), GoodIsFull> {
        let features: Vec<_> = features.iter().map(|&feature| self.fingerprint(feature)).collect();
        self.good.learn_all(&features)
    }

    /// Returns true if a feature is known from good mail.
    pub(crate) fn is_good(&self, feature: u64) -> bool {
        self.good.contains(&self.fingerprint(feature))
    }

    /// Removes the features that the current generation already considers good, so that they use no capacity.
    pub fn retain_unlearnt(&self, features: &mut Vec<u64>) {
        features.retain(|&feature| !self.good.is_learnt(&self.fingerprint(feature)));
    }

    /// Returns the number of good messages that the current generation has learnt, and the maximum.
    #[must_use]
    pub const fn good_fill(&self) -> (u64, u64) {
        self.good.fill()
    }

    /// Returns the memory used by the filters of good mail.
    #[must_use]
    pub fn good_bytes(&self) -> u64 {
        self.good.bytes()
    }

    /// Returns the stored features of a report.
    #[must_use]
    pub fn record_of(&self, owner: Owner) -> Option<Stored> {
        self.full_record(owner).map(TextRecord::stored)
    }

    /// Returns true if much of a report's text was known from good mail when the report was made.
    fn is_template(&self, owner: Owner) -> bool {
        self.full_record(owner).is_some_and(TextRecord::is_template)
    }

    /// Returns the fingerprint under which the books know the text of a live report.
    #[must_use]
    pub fn fingerprint_of(&self, owner: Owner) -> Option<Fingerprint> {
        self.full_record(owner).map(|record| record.fingerprint)
    }

    /// Returns the memory used by reports: slots, records, and the hash map of whole texts with its spare capacity.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let records = self.records.len() * size_of::<TextRecord>();
        let wholes = self.wholes.capacity() * size_of::<(Fingerprint, Owner)>();
        self.table.bytes() + (records + wholes) as u64
    }

    /// Returns the number of reports and the maximum.
    #[must_use]
    pub fn fill(&self) -> (u64, u64) {
        (self.records.len() as u64, self.records_max as u64)
    }

    /// Returns all allocated memory, including the filters of good mail.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let records = self.records.capacity() * size_of::<TextRecord>();
        let wholes = self.wholes.capacity() * (WHOLE_BYTES + 1);
        self.table.bytes() + (records + wholes) as u64 + self.good.bytes()
    }

    /// Returns the share of slots in use.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.table.load()
    }

    /// Returns the large arrays: the table, and the filters of good mail.
    pub(crate) fn arrays(&mut self) -> (&mut OwnerTable, [&mut OneLineFilter; 4]) {
        let [first, second] = &mut self.good.generations;
        (&mut self.table, [&mut first.good, &mut first.seen, &mut second.good, &mut second.seen])
    }

    /// Returns the number of array lines that a running snapshot has copied.
    pub(crate) fn logged_lines(&self) -> usize {
        let filters = self.good.generations.iter().flat_map(|generation| [&generation.good, &generation.seen]);
        self.table.logged_lines() + filters.map(Snapshot::logged_lines).sum::<usize>()
    }

    fn fingerprint(&self, feature: u64) -> Fingerprint {
        fingerprint(&self.key, feature)
    }

    fn full_record(&self, owner: Owner) -> Option<&TextRecord> {
        let oldest = self.table.live().start;
        self.records.get(usize::try_from(owner.number().checked_sub(oldest.number())?).ok()?)
    }

    /// Returns the fingerprint of the whole text, unless the text is known from good mail.
    fn counted_whole(&self, whole: Option<u64>) -> Option<Fingerprint> {
        whole.map(|whole| self.fingerprint(whole)).filter(|whole| !self.good.contains(whole))
    }

    /// Returns the features that a report may store, in order of preference, at most `limit` for each quarter.
    fn text_of(&self, features: &Features, limit: usize) -> Text {
        let own = features.own();
        let length = own.len();
        let mut quarters: [Vec<Candidate>; QUARTERS] = Default::default();
        for (at, feature) in own.enumerate() {
            let fingerprint = self.fingerprint(feature);
            if !self.good.contains(&fingerprint) {
                let passage = at * STORED_MAX / length;
                quarters[Part::of(at, length).index()].push(Candidate { passage, fingerprint, feature });
            }
        }
        let counted = quarters.iter().map(Vec::len).sum::<usize>();
        Text {
            quarters: quarters.map(|quarter| in_order_of_keeping(quarter).into_iter().take(limit).collect()),
            features: u32::try_from(counted).unwrap_or(u32::MAX),
            whole: features.whole,
            is_template: (length - counted) * 100 >= length * TEMPLATE_PERCENT_MIN && counted < length,
            name: CachedName::default(),
        }
    }

    /// Returns the features of a text in the form in which they are added to the table.
    fn candidates(&self, text: &Text) -> [Vec<Feature>; QUARTERS] {
        std::array::from_fn(|quarter| {
            let part = Part::of(quarter, QUARTERS);
            let feature = |&feature: &u64| Feature { fingerprint: self.fingerprint(feature), part };
            text.quarters[quarter].iter().map(feature).collect()
        })
    }

    /// Stores the same number of features from each quarter, then further features while there is space.
    fn store(&mut self, owner: Owner, quarters: [Vec<Feature>; QUARTERS]) -> [u8; QUARTERS] {
        let mut stored = [0_usize; QUARTERS];
        let mut rest = Vec::new();
        for (quarter, candidates) in quarters.into_iter().enumerate() {
            let added = self.table.extend(owner, &candidates, STORED_MAX / QUARTERS);
            stored[quarter] = added.stored_total();
            // Every feature tried so far was stored, refused, or already present. So the untried features begin here or
            // slightly later. It does no harm to try a feature again.
            rest.extend(candidates.into_iter().skip(added.stored_total() + added.refused));
        }
        rest.sort_unstable_by_key(|feature| feature.fingerprint);
        let left = STORED_MAX - stored.iter().sum::<usize>();
        let added = self.table.extend(owner, &rest, left);
        std::array::from_fn(|quarter| u8::try_from(stored[quarter] + added.stored[quarter] as usize).unwrap_or(u8::MAX))
    }

    fn record(&mut self, owner: Owner, record: TextRecord) {
        let oldest = self.table.live().start;
        // The table may skip numbers. A skipped number gets an empty record.
        while oldest.number() + (self.records.len() as u64) < owner.number() {
            self.records.push_back(TextRecord::default());
        }
        self.records.push_back(record);
    }

    /// Returns true if one more report might not fit.
    fn is_full(&self) -> bool {
        let has_no_slots = self.stored + STORED_MAX as u64 > self.table.capacity();
        !self.records.is_empty() && (has_no_slots || self.records.len() >= self.records_max)
    }

    fn expire_oldest(&mut self) {
        let Some(expired) = self.records.pop_front() else { return };
        let slots = expired.marked.total().saturating_mul(self.table.copies(self.table.live().start));
        self.stored = self.stored.saturating_sub(slots);
        self.table.expire_before(Owner::from_number(self.table.live().start.number() + 1));
        if self.wholes.len() >= wholes_max(self.records.len()) {
            let live = self.table.live();
            self.wholes.retain(|_, owner| live.contains(owner));
        }
    }

    /// Writes to `scratch` the fingerprints of the features that count, at most [`CHECKED_MAX`].
    fn look_up(&self, features: impl Iterator<Item = u64>, scratch: &mut Scratch) {
        let fingerprints = &mut scratch.fingerprints;
        fingerprints.clear();
        fingerprints.extend(features.map(|feature| self.fingerprint(feature)));
        if fingerprints.len() > CHECKED_MAX {
            fingerprints.select_nth_unstable(CHECKED_MAX);
            fingerprints.truncate(CHECKED_MAX);
        }
        self.good.retain_others(fingerprints, &mut scratch.is_good);
    }

    /// Returns the number of the message's features that count. Features of appended text are included, although a
    /// report does not store them.
    fn count_own(&self, features: &Features, scratch: &mut Scratch) -> u32 {
        let own = features.own().len() + features.appended.len();
        self.look_up(features.own().chain(features.appended.iter().copied()), scratch);
        // If there were too many features, only a sample was looked up. Extrapolate from it.
        let looked_at = own.clamp(1, CHECKED_MAX);
        u32::try_from(own * scratch.fingerprints.len() / looked_at).unwrap_or(u32::MAX)
    }
}

/// Returns the maximum number of records of an index for `reports` reports.
fn records_max(reports: u64) -> usize {
    usize::try_from(reports.clamp(REPORTS_MIN, OWNERS_LIVE_MAX)).unwrap_or(usize::MAX)
}

/// Returns the maximum number of features in this many reports.
const fn features_of(records: usize) -> u64 {
    records as u64 * STORED_MAX as u64
}

/// Returns the size of a table for this many reports.
fn table_bytes(records: usize) -> u64 {
    OwnerTable::bytes_for(features_of(records))
}

/// A feature that a report may keep.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Number of the passage that contains the feature. A text has [`STORED_MAX`] passages.
    passage: usize,
    fingerprint: Fingerprint,
    feature: u64,
}

/// Returns the features of a quarter in the order in which a report prefers them: the lowest of each passage, then the
/// second lowest of each, and so on.
///
/// Spammers replace text in blocks. If a report kept the lowest features of a whole quarter, several could be in one
/// block and none in another. With one feature from each passage, the share of replaced text is estimated much more
/// accurately.
fn in_order_of_keeping(mut quarter: Vec<Candidate>) -> Vec<u64> {
    quarter.sort_unstable();
    let passages = quarter.chunk_by(|one, other| one.passage == other.passage);
    let mut ranked: Vec<_> = passages.flat_map(|passage| passage.iter().enumerate()).collect();
    ranked.sort_unstable_by_key(|(rank, candidate)| (*rank, candidate.fingerprint));
    ranked.into_iter().map(|(_, candidate)| candidate.feature).collect()
}

/// Returns the fingerprint of a feature.
fn fingerprint(key: &FingerprintKey, feature: u64) -> Fingerprint {
    key.fingerprint(&feature.to_le_bytes())
}

/// Returns the features to learn from a good message, with their fingerprints. If there are more than
/// [`GOOD_FEATURES`], files take precedence over the text, and lower fingerprints over higher ones.
pub(crate) fn select_good(key: &FingerprintKey, features: &Features) -> Vec<(Fingerprint, u64)> {
    let lowest = |features: &mut dyn Iterator<Item = u64>, most: usize| {
        let mut selected: Vec<_> = features.map(|feature| (fingerprint(key, feature), feature)).collect();
        selected.sort_unstable();
        selected.dedup();
        selected.truncate(most);
        selected
    };
    let files = lowest(&mut features.files.iter().copied(), GOOD_FEATURES as usize);
    let mut selected = lowest(&mut features.all().chain(features.whole), GOOD_FEATURES as usize - files.len());
    selected.extend(files);
    selected.sort_unstable();
    selected.dedup();
    selected
}

/// Returns the number of good messages that can be learnt in this many bytes. There are two generations of two filters
/// each.
const fn good_messages(bytes: u64) -> u64 {
    bytes / 4 / good::BYTES_PER_MESSAGE
}

/// Returns the maximum number of whole texts for this many records. Some whole texts may belong to evicted reports,
/// because these texts are removed in batches.
const fn wholes_max(records: usize) -> usize {
    records + records / 4 + 1
}

#[cfg(test)]
mod tests;
