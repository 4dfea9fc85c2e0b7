//! Encoding of the trust state. Equal states have equal encodings.
//!
//! Only contents and the orders of eviction are encoded, not the layout in memory. Hash tables and sums are rebuilt.
//! All numbers are little-endian.
//!
//! | bytes | contents |
//! |---|---|
//! | 1 | version, 1 |
//! | 3 × (4 + n × 49) | reporters by tier, in the order of eviction |
//! | 4, then n × (44 or 52, and 20 per vote) | entries: settled ones in the order of settlement, then others by age |
//! | 4, then n × 20 | groups without entries, in the order of eviction |
//! | 4, then n × (24 + entries × 4) | groups with entries, by id, each with its entries in the order of charging |
//! | 4 × (4 + n × 4) | for each tier, the numbers of its entries in the order of eviction |

use std::collections::BTreeSet;

use super::evidence::{TIERS, Vote};
use super::nursery::{Nursery, NurseryEntry};
use super::policy::{Policy, VOTES_MAX, WEIGHT_MAX};
use super::precision::WEIGHT_PARTS;
use super::reporters::{RECORD_TIERS, ReporterRecord, Reporters};
use super::{Claim, Reporter, Standing, Trust};
use crate::codec::{Malformed, Reader, put_count, put_fingerprint};
use crate::time::Time;

const VERSION: u8 = 1;

/// Minimum lengths of encoded items. Counts are checked against them before anything is allocated.
const RECORD_BYTES: usize = 49;
const ENTRY_BYTES: usize = 44;
const GROUP_BYTES: usize = 20;
const NUMBER_BYTES: usize = 4;

/// Flags of an entry.
const SETTLED: u8 = 1;
const PROMOTED: u8 = 2;
/// Flags of a vote.
const REVOKE: u8 = 1;
const EARLY: u8 = 2;
const OVERRULED: u8 = 4;
const VOTE_SETTLED: u8 = 8;

impl Trust {
    /// Appends the encoded state to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        put_reporters(out, &self.reporters);
        put_entries(out, &self.nursery);
        let numbers = numbers(&self.nursery);
        put_groups(out, &self.nursery, &numbers);
        for tier in 0..TIERS {
            put_numbers(out, &numbers, self.nursery.tier(tier));
        }
    }

    /// Decodes the output of [`encode`](Self::encode) into tables that use `bytes` bytes of memory.
    ///
    /// # Errors
    /// [`Malformed`] if the input is not a valid state, or if it does not fit in `bytes`.
    ///
    /// # Panics
    /// See [`new`](Self::new).
    pub fn decode(policy: Policy, bytes: u64, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let mut trust = Self::new(policy, bytes);
        trust.read(reader)?;
        Ok(trust)
    }

    /// Decodes a state into empty tables with the same policy and size.
    ///
    /// # Errors
    /// [`Malformed`]; the state must then be discarded.
    pub(crate) fn read(&mut self, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let version = reader.u8("the version of the trust state")?;
        if version != VERSION {
            return Err(out_of_range("the version of the trust state", version.into()));
        }
        read_reporters(reader, &self.policy, &mut self.reporters)?;
        read_entries(reader, &self.policy, &mut self.nursery)?;
        read_groups(reader, &mut self.nursery)?;
        read_tiers(reader, &mut self.nursery)
    }
}

fn put_reporters(out: &mut Vec<u8>, reporters: &Reporters) {
    for tier in 0..RECORD_TIERS {
        put_count(out, reporters.tier_len(tier) as usize);
        reporters.tier_records(tier).for_each(|record| put_record(out, record));
    }
}

fn put_record(out: &mut Vec<u8>, record: &ReporterRecord) {
    for long in [record.id, record.group, record.day] {
        out.extend(long.to_le_bytes());
    }
    let ReporterRecord { good, bad, credited, confirmed, refuted, unconfirmed, .. } = *record;
    for short in [good, bad, credited, confirmed, refuted, unconfirmed] {
        out.extend(short.to_le_bytes());
    }
    out.push(record.standing as u8);
}

fn read_reporters(reader: &mut Reader<'_>, policy: &Policy, reporters: &mut Reporters) -> Result<(), Malformed> {
    let mut left = reporters.records_max() as usize;
    for _ in 0..RECORD_TIERS {
        let count = reader.count(left, RECORD_BYTES, "the number of reporters")?;
        left -= count;
        for _ in 0..count {
            let record = read_record(reader)?;
            if reporters.find(record.id).is_some() {
                return Err(out_of_range("the id of a duplicate reporter", record.id));
            }
            reporters.append(policy, record);
        }
    }
    Ok(())
}

fn read_record(reader: &mut Reader<'_>) -> Result<ReporterRecord, Malformed> {
    const WHAT: &str = "a reporter";
    Ok(ReporterRecord {
        id: reader.u64(WHAT)?,
        group: reader.u64(WHAT)?,
        day: reader.u64(WHAT)?,
        good: reader.u32(WHAT)?,
        bad: reader.u32(WHAT)?,
        credited: reader.u32(WHAT)?,
        confirmed: reader.u32(WHAT)?,
        refuted: reader.u32(WHAT)?,
        unconfirmed: reader.u32(WHAT)?,
        standing: read_standing(reader)?,
    })
}

pub(crate) fn read_standing(reader: &mut Reader<'_>) -> Result<Standing, Malformed> {
    const STANDINGS: [Standing; 5] =
        [Standing::Trap, Standing::Own, Standing::Pinned, Standing::Account, Standing::Stranger];
    let byte = reader.u8("a standing")?;
    STANDINGS.get(usize::from(byte)).copied().ok_or_else(|| out_of_range("a standing", byte.into()))
}

fn put_entries(out: &mut Vec<u8>, nursery: &Nursery) {
    put_count(out, nursery.len());
    for entry in nursery.by_age().map(|slot| nursery.get(slot)) {
        put_entry(out, entry);
        out.extend((entry.votes_len() as u16).to_le_bytes());
        nursery.votes(entry).for_each(|vote| put_vote(out, vote));
    }
}

fn put_entry(out: &mut Vec<u8>, entry: &NurseryEntry) {
    put_fingerprint(out, entry.fingerprint);
    out.extend(entry.first.0.to_le_bytes());
    out.extend(entry.last.0.to_le_bytes());
    out.extend(entry.report_count.to_le_bytes());
    out.extend(entry.revoke_count.to_le_bytes());
    out.push(entry.charged_as as u8);
    out.push(flag(SETTLED, entry.settled) | flag(PROMOTED, entry.promoted.is_some()));
    if let Some(promoted) = entry.promoted {
        out.extend(promoted.0.to_le_bytes());
    }
}

fn put_vote(out: &mut Vec<u8>, vote: &Vote) {
    out.extend(vote.reporter.to_le_bytes());
    out.extend(vote.group.to_le_bytes());
    out.extend(vote.weight.to_le_bytes());
    out.push(vote.standing as u8);
    out.push(
        flag(REVOKE, vote.claim == Claim::Revoke)
            | flag(EARLY, vote.early)
            | flag(OVERRULED, vote.overruled)
            | flag(VOTE_SETTLED, vote.settled),
    );
}

fn read_entries(reader: &mut Reader<'_>, policy: &Policy, nursery: &mut Nursery) -> Result<(), Malformed> {
    let count = reader.count(nursery.entries_max() as usize, ENTRY_BYTES, "the number of signatures")?;
    let mut unsettled = false;
    for _ in 0..count {
        let entry = read_entry(reader)?;
        if nursery.find(&entry.fingerprint).is_some() || (unsettled && entry.settled) {
            return Err(out_of_range("a signature out of order", entry.fingerprint.high()));
        }
        unsettled = !entry.settled;
        let slot = nursery.append(entry);
        read_votes(reader, nursery, slot)?;
        nursery.refresh(policy, slot);
    }
    Ok(())
}

fn read_entry(reader: &mut Reader<'_>) -> Result<NurseryEntry, Malformed> {
    const WHAT: &str = "a signature";
    let fingerprint = reader.fingerprint(WHAT)?;
    let (first, last) = (Time(reader.u64(WHAT)?), Time(reader.u64(WHAT)?));
    let (report_count, revoke_count) = (reader.u32(WHAT)?, reader.u32(WHAT)?);
    let standing = read_standing(reader)?;
    let flags = read_flags(reader, SETTLED | PROMOTED)?;
    let promoted = if flags & PROMOTED != 0 { Some(Time(reader.u64(WHAT)?)) } else { None };
    // The group that is charged is decoded later.
    let nobody = Reporter { id: 0, standing, group: 0 };
    let mut entry = NurseryEntry::new(first, fingerprint, &nobody);
    (entry.last, entry.promoted, entry.settled) = (last, promoted, flags & SETTLED != 0);
    (entry.report_count, entry.revoke_count) = (report_count, revoke_count);
    Ok(entry)
}

fn read_votes(reader: &mut Reader<'_>, nursery: &mut Nursery, slot: u32) -> Result<(), Malformed> {
    let count = u64::from(reader.u16("the number of votes")?);
    if count > u64::from(VOTES_MAX) {
        return Err(out_of_range("the number of votes", count));
    }
    for _ in 0..count {
        let vote = read_vote(reader)?;
        let is_known = nursery.votes(nursery.get(slot)).any(|other| other.reporter == vote.reporter);
        if is_known || !nursery.has_vote_room() {
            return Err(out_of_range("the reporter of an excess vote", vote.reporter));
        }
        nursery.append_vote(slot, vote);
    }
    Ok(())
}

fn read_vote(reader: &mut Reader<'_>) -> Result<Vote, Malformed> {
    const WHAT: &str = "a vote";
    let (id, group) = (reader.u64(WHAT)?, reader.u64(WHAT)?);
    let weight = reader.u16(WHAT)?;
    let standing = read_standing(reader)?;
    if f64::from(weight) > WEIGHT_MAX * WEIGHT_PARTS || standing == Standing::Stranger {
        return Err(out_of_range("the weight of a vote", weight.into()));
    }
    let flags = read_flags(reader, REVOKE | EARLY | OVERRULED | VOTE_SETTLED)?;
    let claim = if flags & REVOKE != 0 { Claim::Revoke } else { Claim::Report };
    let vote = Vote::new(&Reporter { id, standing, group }, weight, claim, flags & EARLY != 0);
    Ok(Vote { overruled: flags & OVERRULED != 0, settled: flags & VOTE_SETTLED != 0, ..vote })
}

fn put_groups(out: &mut Vec<u8>, nursery: &Nursery, numbers: &[u32]) {
    put_count(out, nursery.groups.idle_len() as usize);
    for group in nursery.groups.idle() {
        put_group(out, group.id, group.day, group.inserts);
    }
    let charged = nursery.by_age().map(|slot| nursery.get(slot).group).collect::<BTreeSet<_>>();
    put_count(out, charged.len());
    for id in charged {
        let (group, entries) = nursery.groups.get(id).expect("a charged group is known");
        put_group(out, id, group.day, group.inserts);
        put_numbers(out, numbers, entries);
    }
}

fn put_group(out: &mut Vec<u8>, id: u64, day: u64, inserts: u32) {
    out.extend(id.to_le_bytes());
    out.extend(day.to_le_bytes());
    out.extend(inserts.to_le_bytes());
}

fn read_groups(reader: &mut Reader<'_>, nursery: &mut Nursery) -> Result<(), Malformed> {
    let groups_max = nursery.groups.groups_max() as usize;
    for _ in 0..reader.count(groups_max, GROUP_BYTES, "the number of idle groups")? {
        read_group(reader, nursery)?;
    }
    let mut charged = Numbers::new(nursery);
    let mut before = None;
    for _ in 0..reader.count(groups_max, GROUP_BYTES + 2 * NUMBER_BYTES, "the number of groups")? {
        let id = read_group(reader, nursery)?;
        if before.replace(id) > Some(id) {
            return Err(out_of_range("a group out of order", id));
        }
        let entries = reader.count(nursery.len(), NUMBER_BYTES, "the signatures of a group")?;
        if entries == 0 {
            return Err(out_of_range("the signatures of a group", 0));
        }
        for _ in 0..entries {
            let slot = charged.read(reader)?;
            nursery.charge_restored(slot, id);
        }
    }
    charged.finish()
}

fn read_group(reader: &mut Reader<'_>, nursery: &mut Nursery) -> Result<u64, Malformed> {
    const WHAT: &str = "a group";
    let (id, day, inserts) = (reader.u64(WHAT)?, reader.u64(WHAT)?, reader.u32(WHAT)?);
    if nursery.groups.restore(id, day, inserts) { Ok(id) } else { Err(out_of_range("the id of an excess group", id)) }
}

fn read_tiers(reader: &mut Reader<'_>, nursery: &mut Nursery) -> Result<(), Malformed> {
    let mut placed = Numbers::new(nursery);
    for tier in 0..TIERS {
        for _ in 0..reader.count(nursery.len(), NUMBER_BYTES, "the signatures of a tier")? {
            let slot = placed.read(reader)?;
            if nursery.tier_of(slot) != tier {
                return Err(out_of_range("a signature of another tier", slot.into()));
            }
            nursery.move_last_in_tier(slot);
        }
    }
    placed.finish()
}

/// Returns the number of the entry in each slot. The number is the entry's position by age. In tables that were just
/// decoded, number and slot are the same.
fn numbers(nursery: &Nursery) -> Vec<u32> {
    let mut numbers = vec![0; nursery.entries_max() as usize];
    for (number, slot) in (0..).zip(nursery.by_age()) {
        numbers[slot as usize] = number;
    }
    numbers
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u32], slots: impl Iterator<Item = u32>) {
    let start = out.len();
    put_count(out, 0);
    let mut count = 0_u32;
    for slot in slots {
        out.extend(numbers[slot as usize].to_le_bytes());
        count += 1;
    }
    out[start..start + NUMBER_BYTES].copy_from_slice(&count.to_le_bytes());
}

/// A check that the number of every entry is read exactly once.
struct Numbers {
    seen: Vec<bool>,
    left: usize,
}

impl Numbers {
    fn new(nursery: &Nursery) -> Self {
        Self { seen: vec![false; nursery.len()], left: nursery.len() }
    }

    fn read(&mut self, reader: &mut Reader<'_>) -> Result<u32, Malformed> {
        const WHAT: &str = "the number of a signature";
        let number = reader.u32(WHAT)?;
        let seen = self.seen.get_mut(number as usize).ok_or_else(|| out_of_range(WHAT, number.into()))?;
        if std::mem::replace(seen, true) {
            return Err(out_of_range(WHAT, number.into()));
        }
        self.left -= 1;
        Ok(number)
    }

    fn finish(self) -> Result<(), Malformed> {
        if self.left == 0 { Ok(()) } else { Err(out_of_range("the number of missing signatures", self.left as u64)) }
    }
}

const fn flag(flag: u8, is_set: bool) -> u8 {
    if is_set { flag } else { 0 }
}

fn read_flags(reader: &mut Reader<'_>, known: u8) -> Result<u8, Malformed> {
    let flags = reader.u8("flags")?;
    if flags & !known == 0 { Ok(flags) } else { Err(out_of_range("flags", flags.into())) }
}

const fn out_of_range(what: &'static str, value: u64) -> Malformed {
    Malformed::OutOfRange { what, value }
}
