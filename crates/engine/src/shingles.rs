//! Texts identified by shingles: the index behind rspamd's fuzzy storage.
//!
//! A client describes a text by a digest and, if the text is long enough, 32 shingles. Similar texts share many
//! shingles. A check returns the record with the same digest. If there is none, it returns a record that owns more than
//! half of the shingles ([`AGREEMENT_MIN`]). Neither digests nor shingles are stored. A record contains 64 bits of its
//! digest's fingerprint and has a number; an [`OwnerTableWithoutParts`] stores 30 bits for each shingle.
//!
//! 64 bits are sufficient. With a million records, one check in 2^44 finds a wrong record, and nobody can search for a
//! collision without the realm's key.
//!
//! Record numbers are assigned in ascending order, so a lower number means an older record. [`Shingles::advance`]
//! expires an old epoch by moving one boundary, and each write removes a few expired records. A record that is written
//! again in a later epoch gets a new number, so texts that are still reported do not expire. When the index is full,
//! the oldest records are evicted.
//!
//! A shingle belongs to the newest [`OWNERS_PER_FEATURE_MAX`] texts that have it; in rspamd, it belongs only to the
//! newest text. Most texts share the shingles of common words, and a new text must not make the texts before it
//! impossible to find.
//!
//! ```
//! use bruit_engine::shingles::Shingles;
//! use bruit_engine::time::Time;
//! use bruit_filters::FingerprintKey;
//! use bruit_filters::owners::Votes;
//!
//! let mut shingles = Shingles::new(FingerprintKey::new([7; 16]), 10_000, 8, 0);
//! let text: [u64; 32] = std::array::from_fn(|at| (at as u64 + 1) * 1_000_003);
//! shingles.write(&[1; 64], Some(&text), 11, 10, Time(1_800_000_000));
//!
//! let mut similar = text;
//! similar[..15].fill(0);
//! let found = shingles.check(&[2; 64], Some(&similar), &mut Votes::new()).expect("17 of 32 agree");
//! assert_eq!((found.record.flag, found.record.weight, found.agreed), (11, 10, 17));
//! ```

mod records;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use bruit_filters::owners::{
    Feature, OWNERS_PER_FEATURE_MAX, OWNERS_WITHOUT_PARTS_LIVE_MAX, Owner, OwnerTableWithoutParts, PARTS, Part, Votes,
};
use bruit_filters::sizing::{OWNER_LOAD, owner_table_bytes};
use bruit_filters::{Fingerprint, FingerprintKey, OutOfMemory};

use crate::budget::{multiple, part};
use crate::codec::{Malformed, Reader, put_count};
use crate::engine::resize::{StructurePreview, preview_lines};
use crate::signature::{RSPAMD_DIGEST_BYTES, fingerprint_of_digest, fingerprint_of_short};
use crate::time::Time;

use records::Records;
pub use records::ShingleRecord;

/// Number of shingles in a text.
pub const SHINGLES: usize = 32;

/// Minimum number of shingles that a record must own to match: more than half, as in rspamd.
pub const AGREEMENT_MIN: u8 = SHINGLES as u8 / 2 + 1;

/// Maximum number of shingles stored for a record: two sets, because two rspamd rules may write the same digest with
/// different shingles. The table is sized for one set per text. If all texts had two sets, the oldest texts would lose
/// their shingles.
const STORED_MAX: usize = 2 * SHINGLES;

/// Minimum number of records in an index. With fewer records, each of them would get too many votes by chance.
pub const RECORDS_MIN: u64 = 1_024;

/// Maximum number of records, limited by the range of record numbers.
pub const RECORDS_MAX: u64 = OWNERS_WITHOUT_PARTS_LIVE_MAX - 1;

/// Maximum length of the window, in epochs.
pub const WINDOW_MAX: u64 = 64;

/// Maximum memory for a record, including its slots and its place in the hash table. The maximum is reached when that
/// table has just doubled.
const BYTES_PER_RECORD: u64 = 170;

/// Number of expired records that each write removes. It is above one, so that records are removed faster than they are
/// added.
const CLEANED_PER_WRITE: usize = 4;

/// A digest as sent by clients.
pub type Digest = [u8; RSPAMD_DIGEST_BYTES];

/// Records of texts, found by digest or shingles.
#[derive(Clone, Debug)]
pub struct Shingles {
    key: FingerprintKey,
    table: OwnerTableWithoutParts,
    records: Records,
    /// Maximum number of records, including the empty records of unused numbers.
    records_max: usize,
    /// Number of epochs for which a record is kept, including the one in which it was written.
    window: u64,
    /// Epochs within the window, and the first record number of each. The last epoch is the current one.
    epochs: VecDeque<(u64, u64)>,
    /// Scratch memory for writes.
    votes: Votes,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShingleMatch {
    /// Matching record.
    pub record: ShingleRecord,
    /// Number of the checked shingles that belong to the record; [`SHINGLES`] if the digest matches.
    pub agreed: u8,
}

impl Shingles {
    /// Creates an index for `records` records ([`RECORDS_MIN`] to [`RECORDS_MAX`]). A record is kept for `window`
    /// epochs (1 to [`WINDOW_MAX`]), including the one in which it was last written. `epoch` is the current epoch.
    ///
    /// # Panics
    /// If the memory cannot be allocated.
    #[must_use]
    pub fn new(key: FingerprintKey, records: u64, window: u64, epoch: u64) -> Self {
        Self::try_new(key, records, window, epoch).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Like [`new`](Self::new), but fails if the memory cannot be allocated.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn try_new(key: FingerprintKey, records: u64, window: u64, epoch: u64) -> Result<Self, OutOfMemory> {
        let records_max = records_max(records);
        let bytes = usize::try_from(table_bytes(records_max)).unwrap_or(usize::MAX);
        let table = OwnerTableWithoutParts::without_parts(bytes)?;
        let next = table.live().end.number();
        Ok(Self {
            key,
            table,
            records: Records::new(records_max, next)?,
            records_max,
            window: window.clamp(1, WINDOW_MAX),
            epochs: VecDeque::from([(epoch, next)]),
            votes: Votes::new(),
        })
    }

    /// Creates an index of at most `bytes` bytes.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn within(key: FingerprintKey, bytes: u64, window: u64, epoch: u64) -> Result<Self, OutOfMemory> {
        Self::try_new(key, records_within(bytes), window, epoch)
    }

    /// Grows the table by the largest whole factor that fits this many bytes. All records are kept.
    pub(crate) fn resize(&mut self, bytes: u64) {
        let planned = records_max(records_within(bytes));
        self.table.grow(multiple(self.table.bytes(), table_bytes(planned)) as usize);
        self.records_max = records_in(planned, &self.table);
        self.records.make_room_for(self.records_max);
    }

    /// Returns the changes that [`resize`](Self::resize) would make.
    pub(crate) fn preview_resize(&self, bytes: u64) -> StructurePreview {
        let planned = records_max(records_within(bytes));
        let (now, most) = (self.table.bytes(), table_bytes(planned));
        let then = part(planned as u64, now * multiple(now, most), most);
        preview_lines("texts with shingles", "texts", now, most, (self.capacity(), then))
    }

    /// Returns true if all records fit in this many bytes.
    pub(crate) fn fits(&self, bytes: u64) -> bool {
        let planned = records_max(records_within(bytes));
        self.table.bytes() <= table_bytes(planned)
            && self.slots_in_records() + 2 <= records_in(planned, &self.table) as u64
    }

    /// Returns the maximum number of texts.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.records_max as u64
    }

    /// Starts an epoch and expires all records last written before the window. Ignores an epoch that is not later than
    /// the current one.
    pub fn advance(&mut self, epoch: u64) {
        if epoch <= self.epoch() {
            return;
        }
        self.epochs.push_back((epoch, self.table.live().end.number()));
        let oldest = epoch.saturating_sub(self.window - 1);
        while self.epochs.front().is_some_and(|&(epoch, _)| epoch < oldest) {
            self.epochs.pop_front();
        }
        let first = self.epochs.front().map_or(0, |&(_, first)| first);
        self.table.expire_before(Owner::from_number(first));
    }

    /// Adds `weight` to the record of a text and returns the new record. If the text is on another list, it moves to
    /// the list `flag`. Its old weight is then discarded, because weights on different lists are not comparable. If a
    /// text is written again in a later epoch, but without its shingles, it is found only by its digest.
    pub fn write(
        &mut self,
        digest: &Digest,
        shingles: Option<&[u64; SHINGLES]>,
        flag: u8,
        weight: i32,
        now: Time,
    ) -> ShingleRecord {
        let digest = self.digest(digest);
        let features = shingles.map(|shingles| self.features(shingles));
        let mut record = ShingleRecord::new(digest, flag, weight, hour(now));
        let before = self.records.find(digest);
        if let Some(known) = before.and_then(|number| self.live(number)) {
            record.first_hour = known.first_hour;
            record.last_hour = known.last_hour.max(record.last_hour);
            let added = if known.flag == flag { known.weight } else { 0 };
            record.weight = weight.saturating_add(added);
        }
        let number = self.place(before, record, features.as_ref());
        if let Some(features) = features {
            self.store(number, &features);
        }
        self.records.get(number).copied().unwrap_or(record)
    }

    /// Deletes a text and returns true if it was known. If its shingles are given, their slots are freed at once.
    pub fn delete(&mut self, digest: &Digest, shingles: Option<&[u64; SHINGLES]>) -> bool {
        let Some(number) = self.records.find(self.digest(digest)) else { return false };
        let was_known = self.live(number).is_some();
        if let Some(features) = shingles.map(|shingles| self.features(shingles)) {
            self.erase(number, &features);
        }
        self.records.retire(number);
        was_known
    }

    /// Returns true if there is a record with this digest.
    #[must_use]
    pub fn knows(&self, digest: &Digest) -> bool {
        self.records.find(self.digest(digest)).and_then(|number| self.live(number)).is_some()
    }

    /// Returns the record with this digest. If there is none, returns the record that owns the most shingles, if these
    /// are more than half. If several records own equally many, returns the newest of them.
    pub fn check(
        &self,
        digest: &Digest,
        shingles: Option<&[u64; SHINGLES]>,
        votes: &mut Votes,
    ) -> Option<ShingleMatch> {
        let exact = self.records.find(self.digest(digest)).and_then(|number| self.live(number));
        if let Some(&record) = exact {
            return Some(ShingleMatch { record, agreed: SHINGLES as u8 });
        }
        let fingerprints = self.features(shingles?).map(|feature| feature.fingerprint);
        self.table.votes(&fingerprints, votes);
        let named = votes.iter().filter_map(|(owner, by_part)| {
            let agreed = by_part.iter().sum::<u32>().min(SHINGLES as u32) as u8;
            let record = *self.live(owner.number()).filter(|_| agreed >= AGREEMENT_MIN)?;
            Some(ShingleMatch { record, agreed })
        });
        // Votes are sorted by age, oldest record first, and `max_by_key` returns the last maximum, so the newest record
        // wins.
        named.max_by_key(|found| found.agreed)
    }

    /// Returns the current epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epochs.back().map_or(0, |&(epoch, _)| epoch)
    }

    /// Returns the number of known texts, including expired ones not yet removed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.live()
    }

    /// Returns true if there are no texts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory of slots, records and index. This memory changes only by a resize.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.table.bytes() + self.records.bytes()
    }

    /// Returns the table, to write a snapshot of it.
    pub(crate) const fn table_mut(&mut self) -> &mut OwnerTableWithoutParts {
        &mut self.table
    }

    /// Returns the table of shingles, which is encoded separately from the records.
    #[must_use]
    pub const fn table(&self) -> &OwnerTableWithoutParts {
        &self.table
    }

    /// Appends the records by number, and the epochs: everything except the [`table`](Self::table). Equal histories
    /// have equal encodings.
    pub fn encode_records(&self, out: &mut Vec<u8>) {
        put_count(out, self.epochs.len());
        for (epoch, first) in &self.epochs {
            out.extend(epoch.to_le_bytes());
            out.extend(first.to_le_bytes());
        }
        self.records.encode(out);
    }

    /// Decodes the output of [`encode_records`](Self::encode_records). The parameters must be the same as when the
    /// index was created, and `table` must have been saved at the same time. The table may be smaller than the table of
    /// a new index.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not a valid encoding or do not match the table.
    pub fn decode_records(
        key: FingerprintKey,
        records: u64,
        window: u64,
        table: OwnerTableWithoutParts,
        reader: &mut Reader<'_>,
    ) -> Result<Self, Malformed> {
        let (records_max, window) = (records_in(records_max(records), &table), window.clamp(1, WINDOW_MAX));
        let epochs = decode_epochs(reader, window, &table)?;
        let records = Records::decode(reader, records_max)?;
        // The next number may be one above the end of the records, because some numbers are skipped.
        let live = table.live();
        let is_of_table = records.front() <= live.start.number()
            && records.end() <= live.end.number()
            && live.end.number() - records.end() <= 1;
        if !is_of_table {
            return Err(Malformed::OutOfRange { what: "the oldest shingle record", value: records.front() });
        }
        Ok(Self { key, table, records, records_max, window, epochs, votes: Votes::new() })
    }

    /// Stores a record and returns its number. The number `before` is kept if it belongs to the current epoch.
    fn place(&mut self, before: Option<u64>, record: ShingleRecord, features: Option<&[Feature; SHINGLES]>) -> u64 {
        let begun = self.epochs.back().map_or(0, |&(_, first)| first);
        if let Some(number) = before {
            if let Some(known) = self.records.get_mut(number).filter(|_| number >= begun) {
                *known = ShingleRecord { stored: known.stored, ..record };
                return number;
            }
            if let Some(features) = features {
                self.erase(number, features);
            }
            self.records.retire(number);
        }
        self.make_room();
        let owner = self.table.add(&[], 0).owner;
        self.records.push(owner.number(), record);
        owner.number()
    }

    /// Stores the missing shingles of a record. First stores the shingles with fewer than the maximum number of owners.
    /// Then replaces the oldest owner of each remaining shingle.
    fn store(&mut self, number: u64, features: &[Feature; SHINGLES]) {
        if self.extend(number, features) == 0 {
            return;
        }
        for feature in features {
            if self.room(number) > 0 {
                self.free_owner(&feature.fingerprint, Owner::from_number(number));
                self.extend(number, std::slice::from_ref(feature));
            }
        }
    }

    /// Stores shingles until the record is full. Returns the number of shingles that were refused because they have too
    /// many owners.
    fn extend(&mut self, number: u64, features: &[Feature]) -> usize {
        let added = self.table.extend(Owner::from_number(number), features, self.room(number));
        self.count_stored(number, |before| before + added.stored_total());
        added.refused
    }

    /// Returns the number of shingles that can still be stored for a record.
    fn room(&self, number: u64) -> usize {
        self.records.get(number).map_or(0, |record| STORED_MAX.saturating_sub(record.stored.into()))
    }

    /// Removes a shingle from the oldest of its owners, if it has the maximum number of owners and `owner` is not one
    /// of them.
    fn free_owner(&mut self, shingle: &Fingerprint, owner: Owner) {
        if self.table.owners_of(shingle) < OWNERS_PER_FEATURE_MAX {
            return;
        }
        let shingle = std::slice::from_ref(shingle);
        self.table.votes(shingle, &mut self.votes);
        if self.votes.of(owner) != [0; PARTS] {
            return;
        }
        let oldest = self.votes.iter().next();
        if let Some((oldest, _)) = oldest {
            let removed = self.table.remove(shingle, oldest);
            self.count_stored(oldest.number(), |before| before.saturating_sub(removed));
        }
    }

    /// Removes the shingles of a record that is about to be replaced or deleted.
    fn erase(&mut self, number: u64, features: &[Feature; SHINGLES]) {
        let fingerprints = features.map(|feature| feature.fingerprint);
        self.table.remove(&fingerprints, Owner::from_number(number));
    }

    fn count_stored(&mut self, number: u64, change: impl FnOnce(usize) -> usize) {
        if let Some(record) = self.records.get_mut(number) {
            record.stored = change(record.stored.into()) as u8;
        }
    }

    /// Removes expired records, then evicts the oldest records until one more fits.
    fn make_room(&mut self) {
        let oldest = self.table.live().start.number();
        for _ in 0..CLEANED_PER_WRITE {
            if self.records.front() >= oldest {
                break;
            }
            self.records.pop_front();
        }
        // Reserve space for two records, because the table may skip a number, which then gets an empty record.
        while self.records.len() > 0 && self.slots_in_records() + 2 > self.records_max as u64 {
            self.records.pop_front();
        }
        self.table.expire_before(Owner::from_number(self.records.front()));
    }

    /// Returns the table space used by all records, in units of one record. A record written before the table grew uses
    /// more than one unit, because growth copied its slots.
    fn slots_in_records(&self) -> u64 {
        let [front, end] = [self.records.front(), self.records.end()].map(Owner::from_number);
        self.table.copies_of_all(front..end)
    }

    /// Returns the fingerprint under which the books know a record's text.
    #[must_use]
    pub fn fingerprint_of(&self, record: &ShingleRecord) -> Fingerprint {
        fingerprint_of_short(&self.key, record.digest)
    }

    /// Returns the record with this number, if it is in use and has not expired.
    fn live(&self, number: u64) -> Option<&ShingleRecord> {
        self.records.get(number).filter(|_| number >= self.table.live().start.number())
    }

    fn digest(&self, digest: &Digest) -> u64 {
        fingerprint_of_digest(&self.key, digest).high()
    }

    /// Returns the shingles combined with their positions, because a shingle matches only at the same position.
    fn features(&self, shingles: &[u64; SHINGLES]) -> [Feature; SHINGLES] {
        std::array::from_fn(|at| {
            let mut bytes = [at as u8; 9];
            bytes[1..].copy_from_slice(&shingles[at].to_le_bytes());
            Feature { fingerprint: self.key.fingerprint(&bytes), part: Part::default() }
        })
    }
}

impl PartialEq for Shingles {
    /// Returns true if both indexes have the same state, and so will behave in the same way.
    fn eq(&self, other: &Self) -> bool {
        let records = |shingles: &Self| {
            let mut bytes = Vec::new();
            shingles.encode_records(&mut bytes);
            bytes
        };
        self.table == other.table && records(self) == records(other)
    }
}

impl Eq for Shingles {}

/// Returns the number of records that fit in this many bytes.
pub(crate) const fn records_within(bytes: u64) -> u64 {
    bytes / BYTES_PER_RECORD
}

fn records_max(records: u64) -> usize {
    usize::try_from(records.clamp(RECORDS_MIN, RECORDS_MAX)).unwrap_or(usize::MAX)
}

/// Returns the size of a table for this many records.
fn table_bytes(records: usize) -> u64 {
    owner_table_bytes(records as u64, SHINGLES as u64, OWNER_LOAD).expect("the table is smaller than a PiB")
}

/// Returns the number of records that fit in a table, in proportion to a table planned for `planned` records.
fn records_in(planned: usize, table: &OwnerTableWithoutParts) -> usize {
    let records = part(planned as u64, table.bytes(), table_bytes(planned));
    usize::try_from(records).unwrap_or(usize::MAX)
}

fn decode_epochs(
    reader: &mut Reader<'_>,
    window: u64,
    table: &OwnerTableWithoutParts,
) -> Result<VecDeque<(u64, u64)>, Malformed> {
    let what = "an epoch of the shingle index";
    let count = reader.count(window as usize, 16, what)?;
    let mut epochs = VecDeque::with_capacity(count);
    for _ in 0..count {
        let (epoch, first) = (reader.u64(what)?, reader.u64(what)?);
        let is_later = epochs.back().is_none_or(|&(before, earlier)| before < epoch && earlier <= first);
        if !is_later || first > table.live().end.number() {
            return Err(Malformed::OutOfRange { what, value: epoch });
        }
        epochs.push_back((epoch, first));
    }
    if epochs.is_empty() { Err(Malformed::OutOfRange { what, value: 0 }) } else { Ok(epochs) }
}

/// Returns the hours since the start of 1970, which fit in 32 bits for half a million years.
fn hour(now: Time) -> u32 {
    u32::try_from(now.epoch(Time::HOUR)).unwrap_or(u32::MAX)
}
