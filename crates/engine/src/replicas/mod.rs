//! Reports found again by their near replicas.
//!
//! A report leaves at most [`STORED_MAX`] features in an [`OwnerTable`], as slots of 30 bits under its number, and a record
//! of 24 bytes. A check looks up every feature of its message and counts per report; [`Stored`] says how many it takes.
//! Neither text nor whole features are kept, only what the text is called in the books.
//!
//! The paper's two filters, at the level of features: what good mail says twice, or a revoked message once, does not
//! count. Such features are not stored, and those stored before no longer vote.
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
pub use text::{TEXT_FEATURES_PER_QUARTER, Text};

use good::Good;
pub(crate) use good::sum;

use crate::budget::multiple;
use crate::engine::resize::{ResizedStructure, preview_lines};

/// A check looks up at most this many features, those with the lowest fingerprints. A message must be some hundred and fifty
/// times as long as a report before that hides it.
pub const CHECKED_MAX: usize = 8_192;

/// An index has room for at least this many reports. A feature that nobody reported still finds slots by chance, 0.13 of
/// them when the table is full, and they vote for whoever is there: with this much room, the longest message casts one such
/// vote per report on average, an ordinary one (300 features) 0.04.
pub const REPORTS_MIN: u64 = 1_024;

/// What a report takes at most: 48 slots of 30 bits in lines filled to 95 %, its record, and a whole in a hash map.
const BYTES_PER_REPORT: u64 = 190 + size_of::<Record>() as u64 + 2 * (WHOLE_BYTES as u64 + 1);

/// A text is a template if this share of its features is known from good mail.
const TEMPLATE_PERCENT_MIN: usize = 40;

const WHOLE_BYTES: usize = size_of::<(Fingerprint, Owner)>();

const _: () = assert!(PARTS == QUARTERS, "a slot says in which quarter its feature lies");

/// The reports of a realm, to be found by their replicas.
#[derive(Debug)]
pub struct Replicas {
    key: FingerprintKey,
    table: OwnerTable,
    /// One for each number from the oldest live report on.
    records: VecDeque<Record>,
    /// Most of them.
    records_max: usize,
    /// The slots that the features of live reports take in the table.
    stored: u64,
    /// Reports with too few features for a vote, by the fingerprint of their whole.
    wholes: HashMap<Fingerprint, Owner>,
    /// Features that do not count.
    good: Good,
    /// The live generations, oldest first: their epoch, and the number of their first report.
    generations: VecDeque<(u64, u64)>,
}

/// What is kept of a report beside its slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Record {
    /// What is kept; of its number of features, [`TEMPLATE_BIT`] is none.
    marked: Stored,
    /// What the text is called in the books.
    fingerprint: Fingerprint,
}

/// The bit in the number of features of a record that marks a template.
const TEMPLATE_BIT: u32 = 1 << 31;

impl Record {
    fn new(stored: Stored, is_template: bool, fingerprint: Fingerprint) -> Self {
        let features = stored.features.min(TEMPLATE_BIT - 1) | if is_template { TEMPLATE_BIT } else { 0 };
        Self { marked: Stored { features, ..stored }, fingerprint }
    }

    const fn stored(&self) -> Stored {
        Stored { features: self.marked.features & !TEMPLATE_BIT, ..self.marked }
    }

    /// Whether much of the text was known from good mail.
    const fn is_template(&self) -> bool {
        self.marked.features & TEMPLATE_BIT != 0
    }
}

/// A report that a message is a near replica of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// The report.
    pub owner: Owner,
    /// What is kept of it.
    pub stored: Stored,
    /// How many of those features the message has, by quarters of the report.
    pub found: [u32; PARTS],
    /// How many features the message has that count.
    pub features: u32,
    /// How much they have in common.
    pub overlap: Overlap,
    /// Whether much of the report was known from good mail.
    pub is_template: bool,
}

impl Match {
    /// Whether the message is close to the report, or has exactly its words.
    #[must_use]
    pub fn is_close(&self) -> bool {
        self.stored.is_close(&self.overlap)
    }
}

/// The memory of a check, kept from one to the next.
#[derive(Debug, Default)]
pub struct Scratch {
    fingerprints: Vec<Fingerprint>,
    is_good: Vec<bool>,
    votes: Votes,
}

impl Replicas {
    /// An index for `reports` reports at a time (at least [`REPORTS_MIN`]), that can learn the features of `good` good or revoked messages.
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
            table: OwnerTable::try_with_capacity(features_of(records_max))?,
            records: queue(records_max)?,
            records_max,
            stored: 0,
            wholes,
            good: Good::new(good, key.id())?,
            generations: VecDeque::from([(0, 1)]),
            key,
        })
    }

    /// An index in at most `bytes` bytes, with `good_bytes` more for what good mail says, whose first epoch is `epoch`.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn within(key: FingerprintKey, bytes: u64, good_bytes: u64, epoch: u64) -> Result<Self, OutOfMemory> {
        let generations = VecDeque::from([(epoch, 1)]);
        Ok(Self { generations, ..Self::try_new(key, bytes / BYTES_PER_REPORT, good_messages(good_bytes))? })
    }

    /// Grows the index by the largest whole factors of its table and filters that fit this many bytes; nothing is lost.
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

    /// The changes that [`resize`](Self::resize) would make.
    pub(crate) fn preview_resize(&self, bytes: u64, good_bytes: u64) -> [ResizedStructure; 2] {
        let planned = records_max(bytes / BYTES_PER_REPORT);
        let then = self.table.capacity() * multiple(self.table.bytes(), table_bytes(planned));
        let reports = |features: u64, records: usize| (features / STORED_MAX as u64).min(records as u64);
        let capacity = (reports(self.table.capacity(), self.records_max), reports(then, planned));
        let texts = preview_lines("texts", "texts", self.table.bytes(), table_bytes(planned), capacity);
        [texts, self.good.preview_resize(good_messages(good_bytes))]
    }

    /// Returns true if everything would fit into this many bytes.
    pub(crate) fn fits(&self, bytes: u64, good_bytes: u64) -> bool {
        let records_max = records_max(bytes / BYTES_PER_REPORT);
        self.records.len() <= records_max
            && self.wholes.len() <= wholes_max(records_max)
            && self.table.bytes() <= table_bytes(records_max)
            && self.good.fits(good_messages(good_bytes))
    }

    /// Adopts the sizes of the restored arrays; false if they do not match.
    pub(crate) fn recount(&mut self) -> bool {
        self.stored = self.count_stored();
        self.good.recount()
    }

    /// The slots of live reports.
    fn count_stored(&self) -> u64 {
        let oldest = self.table.live().start.number();
        let owners = (oldest..).map(Owner::from_number);
        let stored = |(owner, record): (Owner, &Record)| record.marked.total().saturating_mul(self.table.copies(owner));
        owners.zip(&self.records).map(stored).fold(0, u64::saturating_add)
    }

    /// Keeps a report. When there is no more room, the oldest ones go.
    pub fn report(&mut self, features: &Features) -> Owner {
        let text = self.text_of(features, usize::MAX);
        self.report_text(&text, text.fingerprint(&self.key))
    }

    /// What a report of a message would bring, without the features that do not count.
    #[must_use]
    pub fn text(&self, features: &Features) -> Text {
        self.text_of(features, TEXT_FEATURES_PER_QUARTER)
    }

    /// Keeps a report of a text under the name it has in the books.
    pub fn report_text(&mut self, text: &Text, fingerprint: Fingerprint) -> Owner {
        while self.is_full() {
            self.expire_oldest();
        }
        let owner = self.table.add(&[], 0).owner;
        let stored = Stored { by_quarter: self.store(owner, self.candidates(text)), features: text.features };
        self.stored += stored.total();
        self.record(owner, Record::new(stored, text.is_template, fingerprint));
        if stored.total() < STORED_MIN as u64
            && let Some(whole) = self.counted_whole(text.whole)
        {
            self.wholes.insert(whole, owner);
        }
        owner
    }

    /// Begins a generation; those that began `live` epochs before it or earlier are forgotten.
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

    /// Begins a generation of good mail; the one before the last is forgotten.
    pub fn turn_good(&mut self) {
        self.good.turn();
    }

    /// Whether a report is of the current generation.
    #[must_use]
    pub fn is_current(&self, owner: Owner) -> bool {
        self.generations.back().is_some_and(|current| owner.number() >= current.1)
    }

    /// The reports that a message is a near replica of, the oldest first.
    pub fn check(&self, features: &Features, scratch: &mut Scratch) -> Vec<Match> {
        let own = self.count_own(features, scratch);
        self.look_up(features.all(), scratch);
        self.table.votes(&scratch.fingerprints, &mut scratch.votes);
        let matched = |(owner, found): (Owner, [u32; PARTS])| {
            let stored = self.record_of(owner)?;
            let (overlap, is_template) = (stored.overlap(found, own)?, self.is_template(owner));
            Some(Match { owner, stored, found, features: own, overlap, is_template })
        };
        let mut matches: Vec<Match> = scratch.votes.iter().filter_map(matched).collect();
        let whole = self.counted_whole(features.whole).and_then(|whole| self.wholes.get(&whole).copied());
        if let Some(stored) = whole.and_then(|owner| self.record_of(owner)) {
            let overlap = Overlap { of_report: 100, of_message: 100, is_even: true };
            let found = |owner| Match { owner, stored, found: [0; PARTS], features: own, overlap, is_template: false };
            matches.extend(whole.map(found));
        }
        // Of two matches of one report, the better one is kept.
        matches.sort_unstable_by_key(|found| (found.owner, std::cmp::Reverse(found.overlap.of_report)));
        matches.dedup_by_key(|found| found.owner);
        matches
    }

    /// Learns a good message: what two different ones say does not count any more. Of a long message, the
    /// [`GOOD_FEATURES`] features with the lowest fingerprints are learnt.
    ///
    /// # Errors
    /// [`GoodIsFull`] when as many have been learnt as there is room for; nothing is learnt then.
    pub fn learn_good(&mut self, features: &Features) -> Result<(), GoodIsFull> {
        self.learn_good_features(&self.good_features_of(features))
    }

    /// Whether a good message can still be learnt.
    ///
    /// # Errors
    /// [`GoodIsFull`] if not.
    pub const fn ensure_room_for_good(&self) -> Result<(), GoodIsFull> {
        self.good.ensure_room()
    }

    /// The features of a good message that [`learn_good`](Self::learn_good) would learn, for a journal.
    #[must_use]
    pub fn good_features_of(&self, features: &Features) -> Vec<u64> {
        select_good(&self.key, features).into_iter().map(|(_, feature)| feature).collect()
    }

    /// Learns a good message by its features; see [`learn_good`](Self::learn_good).
    ///
    /// # Errors
    /// [`GoodIsFull`], as there.
    pub fn learn_good_features(&mut self, features: &[u64]) -> Result<(), GoodIsFull> {
        let mut features: Vec<_> = features.iter().map(|&feature| self.fingerprint(feature)).collect();
        features.sort_unstable();
        features.dedup();
        self.good.learn(&features)
    }

    /// Takes a message back: nothing that it says counts any more, in this report or any other. Of a long message, that holds
    /// for as much as [`learn_good`](Self::learn_good) learns.
    ///
    /// # Errors
    /// [`GoodIsFull`], as for good mail.
    pub fn revoke(&mut self, features: &Features) -> Result<(), GoodIsFull> {
        self.make_good(&self.good_features_of(features))
    }

    /// Makes features good at once.
    ///
    /// # Errors
    /// [`GoodIsFull`], as for good mail.
    pub fn make_good(&mut self, features: &[u64]) -> Result<(), GoodIsFull> {
        let features: Vec<_> = features.iter().map(|&feature| self.fingerprint(feature)).collect();
        self.good.learn_all(&features)
    }

    /// Whether a feature is known from good mail.
    pub(crate) fn is_good(&self, feature: u64) -> bool {
        self.good.contains(&self.fingerprint(feature))
    }

    /// Keeps the features that the current generation does not know to be good, so that learning them is worth its room.
    pub fn retain_unlearnt(&self, features: &mut Vec<u64>) {
        features.retain(|&feature| !self.good.is_learnt(&self.fingerprint(feature)));
    }

    /// How many good messages the current generation has learnt, and how many it has room for.
    #[must_use]
    pub const fn good_fill(&self) -> (u64, u64) {
        self.good.fill()
    }

    /// The memory of the filters of good mail.
    #[must_use]
    pub fn good_bytes(&self) -> u64 {
        self.good.bytes()
    }

    /// The features kept of a report, and how many it had.
    #[must_use]
    pub fn record_of(&self, owner: Owner) -> Option<Stored> {
        self.full_record(owner).map(Record::stored)
    }

    /// Whether much of a report was known from good mail when it was made.
    fn is_template(&self, owner: Owner) -> bool {
        self.full_record(owner).is_some_and(Record::is_template)
    }

    /// What a live report is called in the books.
    #[must_use]
    pub fn fingerprint_of(&self, owner: Owner) -> Option<Fingerprint> {
        self.full_record(owner).map(|record| record.fingerprint)
    }

    /// The memory of the reports: slots, records, and wholes with the room a hash map leaves.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let records = self.records.len() * size_of::<Record>();
        let wholes = self.wholes.capacity() * size_of::<(Fingerprint, Owner)>();
        self.table.bytes() + (records + wholes) as u64
    }

    /// How many reports it holds, and how many it has room for.
    #[must_use]
    pub fn fill(&self) -> (u64, u64) {
        (self.records.len() as u64, self.records_max as u64)
    }

    /// All memory it sets aside, with the filters of good mail.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let records = self.records.capacity() * size_of::<Record>();
        let wholes = self.wholes.capacity() * (WHOLE_BYTES + 1);
        self.table.bytes() + (records + wholes) as u64 + self.good.bytes()
    }

    /// The share of slots in use.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.table.load()
    }

    /// The large arrays: the table, and the filters of good mail.
    pub(crate) fn arrays(&mut self) -> (&mut OwnerTable, [&mut OneLineFilter; 4]) {
        let [first, second] = &mut self.good.generations;
        (&mut self.table, [&mut first.good, &mut first.seen, &mut second.good, &mut second.seen])
    }

    /// Lines of the arrays that a running snapshot keeps twice.
    pub(crate) fn logged_lines(&self) -> usize {
        let filters = self.good.generations.iter().flat_map(|generation| [&generation.good, &generation.seen]);
        self.table.logged_lines() + filters.map(Snapshot::logged_lines).sum::<usize>()
    }

    fn fingerprint(&self, feature: u64) -> Fingerprint {
        fingerprint(&self.key, feature)
    }

    fn full_record(&self, owner: Owner) -> Option<&Record> {
        let oldest = self.table.live().start;
        self.records.get(usize::try_from(owner.number().checked_sub(oldest.number())?).ok()?)
    }

    /// The fingerprint of the whole, if it counts.
    fn counted_whole(&self, whole: Option<u64>) -> Option<Fingerprint> {
        whole.map(|whole| self.fingerprint(whole)).filter(|whole| !self.good.contains(whole))
    }

    /// What a report may keep, by quarters, in the order in which it is kept; at most `limit` of each.
    fn text_of(&self, features: &Features, limit: usize) -> Text {
        let own = features.own();
        let length = own.len();
        let mut quarters: [Vec<(Fingerprint, u64)>; QUARTERS] = Default::default();
        for (at, feature) in own.enumerate() {
            let fingerprint = self.fingerprint(feature);
            if !self.good.contains(&fingerprint) {
                quarters[Part::of(at, length).index()].push((fingerprint, feature));
            }
        }
        let counted = quarters.iter().map(Vec::len).sum::<usize>();
        let lowest = |mut quarter: Vec<(Fingerprint, u64)>| {
            quarter.sort_unstable();
            quarter.into_iter().map(|(_, feature)| feature).take(limit).collect()
        };
        Text {
            quarters: quarters.map(lowest),
            features: u32::try_from(counted).unwrap_or(u32::MAX),
            whole: features.whole,
            is_template: (length - counted) * 100 >= length * TEMPLATE_PERCENT_MIN && counted < length,
        }
    }

    /// The features of a text as they go to the table.
    fn candidates(&self, text: &Text) -> [Vec<Feature>; QUARTERS] {
        std::array::from_fn(|quarter| {
            let part = Part::of(quarter, QUARTERS);
            let feature = |&feature: &u64| Feature { fingerprint: self.fingerprint(feature), part };
            text.quarters[quarter].iter().map(feature).collect()
        })
    }

    /// Stores as many of each quarter, and then whatever there is.
    fn store(&mut self, owner: Owner, quarters: [Vec<Feature>; QUARTERS]) -> [u8; QUARTERS] {
        let mut stored = [0_usize; QUARTERS];
        let mut rest = Vec::new();
        for (quarter, candidates) in quarters.into_iter().enumerate() {
            let added = self.table.extend(owner, &candidates, STORED_MAX / QUARTERS);
            stored[quarter] = added.stored_total();
            // What was tried was stored, refused, or there already: the rest begins here, or a little earlier.
            rest.extend(candidates.into_iter().skip(added.stored_total() + added.refused));
        }
        rest.sort_unstable_by_key(|feature| feature.fingerprint);
        let left = STORED_MAX - stored.iter().sum::<usize>();
        let added = self.table.extend(owner, &rest, left);
        std::array::from_fn(|quarter| u8::try_from(stored[quarter] + added.stored[quarter] as usize).unwrap_or(u8::MAX))
    }

    fn record(&mut self, owner: Owner, record: Record) {
        let oldest = self.table.live().start;
        // A number that was never handed out has a record of nothing.
        while oldest.number() + (self.records.len() as u64) < owner.number() {
            self.records.push_back(Record::default());
        }
        self.records.push_back(record);
    }

    /// Whether one more report might not fit.
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

    /// The fingerprints of the features that count, at most [`CHECKED_MAX`].
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

    /// How many features the message would have as a report, with what is appended to its text.
    fn count_own(&self, features: &Features, scratch: &mut Scratch) -> u32 {
        let own = features.own().len() + features.appended.len();
        self.look_up(features.own().chain(features.appended.iter().copied()), scratch);
        // Of very many, a sample was looked at.
        let looked_at = own.clamp(1, CHECKED_MAX);
        u32::try_from(own * scratch.fingerprints.len() / looked_at).unwrap_or(u32::MAX)
    }
}

/// The most records of an index for `reports` reports.
fn records_max(reports: u64) -> usize {
    usize::try_from(reports.clamp(REPORTS_MIN, OWNERS_LIVE_MAX)).unwrap_or(usize::MAX)
}

/// The most features of this many reports.
const fn features_of(records: usize) -> u64 {
    records as u64 * STORED_MAX as u64
}

/// The bytes of a table for this many reports.
fn table_bytes(records: usize) -> u64 {
    OwnerTable::bytes_for(features_of(records))
}

/// The fingerprint of a feature.
fn fingerprint(key: &FingerprintKey, feature: u64) -> Fingerprint {
    key.fingerprint(&feature.to_le_bytes())
}

/// The features of a good message that are learnt, with their fingerprints: its files, and of its text as many of the
/// lowest as make [`GOOD_FEATURES`] with them.
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

/// The number of good messages that can be learnt in this many bytes, with two generations of two filters.
const fn good_messages(bytes: u64) -> u64 {
    bytes / 4 / good::BYTES_PER_MESSAGE
}

/// Most wholes beside so many records: some of reports that have gone since are left.
const fn wholes_max(records: usize) -> usize {
    records + records / 4 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: FingerprintKey = FingerprintKey::new([3; 16]);

    /// A message of `length` features from `start` on.
    fn message(start: u64, length: u64) -> Features {
        Features { pairs: (start..start + length).collect(), ..Features::default() }
    }

    fn matched(replicas: &Replicas, features: &Features) -> Vec<Owner> {
        replicas.check(features, &mut Scratch::default()).iter().map(|found| found.owner).collect()
    }

    #[test]
    fn a_report_keeps_as_much_of_every_quarter() {
        let mut replicas = Replicas::new(KEY, 10, 0);
        let report = replicas.report(&message(0, 400));
        assert_eq!(replicas.record_of(report), Some(Stored { by_quarter: [12; 4], features: 400 }));
        let report = replicas.report(&message(1000, 30));
        assert_eq!(replicas.record_of(report), Some(Stored { by_quarter: [8, 7, 8, 7], features: 30 }));
    }

    #[test]
    fn replicas_are_found_among_many_reports() {
        let mut replicas = Replicas::new(KEY, 1000, 0);
        let reports: Vec<Owner> = (0..1000).map(|at| replicas.report(&message(at * 1000, 200))).collect();
        for (at, report) in (0..).zip(&reports) {
            assert_eq!(matched(&replicas, &message(at * 1000, 1000)), [*report]);
        }
        assert_eq!(matched(&replicas, &message(5_000_000, 8_000)), []);
    }

    #[test]
    fn a_lone_report_is_not_drowned_in_chance() {
        let mut replicas = Replicas::new(KEY, 0, 0);
        let report = replicas.report(&message(0, 6));
        for start in 1..100 {
            assert_eq!(matched(&replicas, &message(start * 10_000, 8_192)), []);
        }
        assert_eq!(matched(&replicas, &message(0, 8_000)), [report]);
    }

    #[test]
    fn what_everybody_says_is_not_kept() {
        let mut replicas = Replicas::new(KEY, 100, 0);
        let owners: Vec<Owner> = (0..5).map(|_| replicas.report(&message(0, 24))).collect();
        assert_eq!(replicas.record_of(owners[4]).map(|stored| stored.by_quarter), Some([0; 4]));
        assert_eq!(matched(&replicas, &message(0, 24)), &owners[..4]);
    }

    #[test]
    fn features_of_good_mail_neither_count_nor_are_kept() {
        let mut replicas = Replicas::new(KEY, 10, 100);
        let report = replicas.report(&message(0, 40));
        replicas.learn_good(&message(0, 40)).unwrap();
        replicas.learn_good(&message(0, 40)).unwrap();
        assert_eq!(matched(&replicas, &message(0, 40)), [report], "one message is not enough");
        replicas.learn_good(&message(0, 41)).unwrap();
        assert_eq!(matched(&replicas, &message(0, 40)), []);
        let mixed = replicas.report(&message(20, 60));
        assert_eq!(replicas.record_of(mixed).map(|stored| stored.features), Some(40));
    }

    #[test]
    fn what_was_revoked_is_gone_at_once() {
        let mut replicas = Replicas::new(KEY, 10, 100);
        let short = Features { whole: Some(77), ..message(0, 4) };
        let report = replicas.report(&message(100, 40));
        assert_eq!(matched(&replicas, &short), []);
        let thin = replicas.report(&short);
        assert_eq!(matched(&replicas, &short), [thin]);
        replicas.revoke(&short).unwrap();
        replicas.revoke(&message(100, 40)).unwrap();
        assert_eq!((matched(&replicas, &short), matched(&replicas, &message(100, 40))), (vec![], vec![]));
        assert!(replicas.record_of(report).is_some());
        replicas.report(&short);
        assert_eq!(matched(&replicas, &short), [], "reported again, it stays revoked");
    }

    #[test]
    fn good_links_do_not_make_a_message_part_of_a_report() {
        let mut replicas = Replicas::new(KEY, 10, 100);
        replicas.report(&message(0, 100));
        let half = |links: u64| Features { links: (5000..5000 + links).collect(), ..message(50, 100) };
        assert_eq!(matched(&replicas, &half(0)), []);
        for other in [20_000, 30_000] {
            let good = Features { links: half(100).links, ..message(other, 10) };
            replicas.learn_good(&good).unwrap();
        }
        assert_eq!(matched(&replicas, &half(100)), []);
    }

    #[test]
    fn good_mail_is_learnt_as_far_as_there_is_room() {
        let mut replicas = Replicas::new(KEY, 10, 3);
        let reports: Vec<Owner> = (0..20).map(|at| replicas.report(&message(at * 1000, 40))).collect();
        replicas.revoke(&message(1_000_000, 200_000)).unwrap();
        replicas.learn_good(&message(2_000_000, 200_000)).unwrap();
        replicas.learn_good(&message(3_000_000, 200_000)).unwrap();
        assert_eq!(replicas.learn_good(&message(0, 40)), Err(GoodIsFull));
        assert_eq!(replicas.revoke(&message(0, 40)), Err(GoodIsFull));
        for (at, report) in (0..).zip(&reports) {
            assert_eq!(matched(&replicas, &message(at * 1000, 40)), [*report]);
        }
    }

    #[test]
    fn records_stay_with_their_reports_however_many_come() {
        let mut replicas = Replicas::new(KEY, 0, 0);
        for _ in 0..OWNERS_LIVE_MAX + 1000 {
            replicas.report(&Features::default());
        }
        assert_eq!(replicas.records.len() as u64, REPORTS_MIN);
        let report = replicas.report(&message(0, 100));
        assert_eq!(matched(&replicas, &message(0, 100)), [report]);
    }

    #[test]
    fn a_long_message_is_looked_at_in_part() {
        let mut replicas = Replicas::new(KEY, 10, 0);
        let report = replicas.report(&message(0, 20_000));
        assert_eq!(matched(&replicas, &message(0, 20_000)), [report]);
        assert_eq!(replicas.count_own(&message(0, 20_000), &mut Scratch::default()), 20_000);
    }

    #[test]
    fn the_oldest_reports_make_room() {
        let mut replicas = Replicas::new(KEY, 0, 0);
        let bytes = replicas.table.bytes();
        let reports: Vec<Owner> = (0..5000).map(|at| replicas.report(&message(at * 1000, 100))).collect();
        assert_eq!(matched(&replicas, &message(4_999_000, 100)), [reports[4999]]);
        assert_eq!(matched(&replicas, &message(0, 100)), []);
        assert_eq!(replicas.record_of(reports[0]), None);
        assert!(replicas.records.len() as u64 >= REPORTS_MIN, "{}", replicas.records.len());
        assert_eq!(replicas.table.bytes(), bytes);
    }

    #[test]
    fn reports_age_by_generation() {
        let mut replicas = Replicas::new(KEY, 100, 0);
        let first = replicas.report(&message(0, 100));
        for epoch in 1..7 {
            replicas.turn(epoch, 7);
            assert_eq!(matched(&replicas, &message(0, 100)), [first]);
        }
        assert!(!replicas.is_current(first));
        let second = replicas.report(&message(1000, 100));
        assert!(replicas.is_current(second));
        replicas.turn(7, 7);
        assert_eq!(matched(&replicas, &message(0, 100)), []);
        assert_eq!(matched(&replicas, &message(1000, 100)), [second]);
        replicas.turn(20, 7);
        assert_eq!((matched(&replicas, &message(1000, 100)), replicas.records.len()), (vec![], 0));
    }

    #[test]
    fn a_text_carries_enough_to_be_found_by() {
        let mut replicas = Replicas::new(KEY, 100, 0);
        let text = replicas.text(&message(0, 4000));
        assert!(text.quarters.iter().all(|quarter| quarter.len() == TEXT_FEATURES_PER_QUARTER));
        let owner = replicas.report_text(&text, Fingerprint::new(7, 8));
        assert_eq!(replicas.record_of(owner), Some(Stored { by_quarter: [12; 4], features: 4000 }));
        assert_eq!(replicas.fingerprint_of(owner), Some(Fingerprint::new(7, 8)));
        assert_eq!(matched(&replicas, &message(0, 4000)), [owner]);
    }

    #[test]
    fn wholes_do_not_outgrow_the_reports() {
        let mut replicas = Replicas::new(KEY, 0, 0);
        for at in 0..5000 {
            replicas.report(&message(at * 1000, 100));
            replicas.report(&Features { whole: Some(at), ..Features::default() });
        }
        assert!(replicas.wholes.len() <= wholes_max(replicas.records_max), "{}", replicas.wholes.len());
    }

    #[test]
    fn a_check_looks_up_no_more_than_it_may() {
        let mut replicas = Replicas::new(KEY, 10, 0);
        replicas.report(&message(0, 100));
        let mut scratch = Scratch::default();
        replicas.check(&message(0, 100_000), &mut scratch);
        assert_eq!(scratch.fingerprints.len(), CHECKED_MAX);
    }
}
