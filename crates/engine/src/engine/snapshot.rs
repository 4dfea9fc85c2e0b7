//! The state in bytes, written while events go on.
//!
//! What is small is written at once, when a snapshot begins; the rings and tables follow in steps, as they were then
//! (`bruit_filters::snapshot`). `docs/design/snapshots.md` has the bytes. The realm's key is not among them: a snapshot is
//! of use only together with the realm.

use std::io::Read;

use bruit_filters::OutOfMemory;
use bruit_filters::bloom::MembershipFilter;
use bruit_filters::owners::{OwnerTable, OwnerTableWithoutParts};
use bruit_filters::ring::{CountsRing, MembershipRing, StagedRing};
use bruit_filters::snapshot::{RestoreError as FilterError, Snapshot};

use super::Engine;
use super::room::DailyShares;
use crate::accounts::Accounts;
use crate::budget::Plan;
use crate::bulk::Counted;
use crate::codec::{Malformed, Reader, put_count, put_fingerprint};
use crate::exchange::{CLUSTER_ORIGINS_MAX, Exchange, INCARNATIONS_MAX, MEMBERS_MAX, Origin, put_origin, read_origin};
use crate::generations::LIVE_GENERATIONS;
use crate::memory::NotEnoughMemory;
use crate::quota::Quotas;
use crate::realm::{BookSizes, Realm};
use crate::shingles::{Shingles, records_within};
use crate::spam::{REINSTATED_MAX, try_empty_ring};
use crate::time::Time;
use crate::trust::Policy;
use crate::whitelist::Whitelist;

const MAGIC: [u8; 8] = *b"BRUITENG";
/// Since 5 a bit of a text's record marks a template; nothing else differs from 4. Since 4 accounts say who made them, in a byte
/// that was 0 or 1 before; nothing else differs from 3.
const VERSION: u16 = 5;
/// The version before the budget could change and before listings and revocations had daily shares. It has no sizes; they are
/// those of the founding.
const VERSION_FOUNDED: u16 = 2;
/// Before servers exchanged anything: the same without an exchange.
const VERSION_BEFORE_EXCHANGE: u16 = 1;

/// The bytes of the fixed start: magic, version, realm, budget, time, and the length of the small state.
const START_BYTES: usize = 8 + 2 + 16 + 8 + 8 + 8;
/// The bytes after it, from version 3 on: the lines of the four books.
const SIZES_BYTES: usize = 4 * 8;

/// A line, the unit in which large structures are written.
const LINE_BYTES: usize = 64;

/// Bytes that are no snapshot of this clearinghouse.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The input could not be read, or ends too early.
    #[error("failed to read the snapshot")]
    Io(#[from] std::io::Error),
    /// The input starts with something else.
    #[error("this is no snapshot of a clearinghouse")]
    NotASnapshot,
    /// A snapshot of a later version than this.
    #[error("the snapshot has version {found}, which this program does not know")]
    UnknownVersion {
        /// Its version.
        found: u16,
    },
    /// A snapshot of another realm.
    #[error("the snapshot is of another realm")]
    OtherRealm,
    /// The memory budget is not that of the founding, in a version that cannot change it.
    #[error("the snapshot was made with a memory budget of {theirs} bytes, not {ours}")]
    OtherBudget {
        /// The budget here.
        ours: u64,
        /// The budget of the snapshot.
        theirs: u64,
    },
    /// The memory of the budget cannot be allocated. The snapshot itself is sound.
    #[error(transparent)]
    Memory(#[from] NotEnoughMemory),
    /// The books do not fit the budget, or the budget is out of range.
    #[error("the snapshot's books do not fit its memory budget of {budget} bytes")]
    Sizes {
        /// The budget.
        budget: u64,
    },
    /// The small state is larger than it can be.
    #[error("the snapshot says it has {bytes} bytes of small state")]
    TooLarge {
        /// How large.
        bytes: u64,
    },
    /// The small state is damaged.
    #[error("the snapshot's state is malformed")]
    Malformed(#[from] Malformed),
    /// A ring or table is damaged, or of another size than it should be.
    #[error("the snapshot's {what} is malformed")]
    Structure {
        /// Which one.
        what: &'static str,
        /// How, if it is not the size.
        source: Option<FilterError>,
    },
}

impl RestoreError {
    /// The same, but distinguishes a lack of memory from a damaged structure.
    fn within(self, plan: &Plan) -> Self {
        match self {
            Self::Structure { what, source: Some(FilterError::OutOfMemory(OutOfMemory { bytes })) } => {
                Self::Memory(NotEnoughMemory { what, bytes, budget_bytes: plan.bytes })
            }
            other => other,
        }
    }
}

const fn out_of_memory(what: &'static str, error: OutOfMemory) -> RestoreError {
    RestoreError::Structure { what, source: Some(FilterError::OutOfMemory(error)) }
}

/// How far a snapshot is.
#[derive(Debug)]
pub(super) struct Running {
    /// The heads of the structures, as long as they are not written.
    heads: Vec<Option<Vec<u8>>>,
    /// The structure whose lines are being written.
    at: usize,
    /// Whose rings were there when it began: others may come meanwhile, but none goes.
    others: Present,
}

/// The origins that have rings.
#[derive(Clone, Debug, Default)]
struct Present {
    claims: Vec<Origin>,
    recipients: Vec<Origin>,
}

/// A large structure, as far as writing it goes.
trait Large {
    fn begin(&mut self, head: &mut Vec<u8>);
    fn proceed(&mut self, lines: usize, out: &mut Vec<u8>) -> bool;
}

impl<S: Snapshot> Large for S {
    fn begin(&mut self, head: &mut Vec<u8>) {
        self.begin_snapshot(head);
    }

    fn proceed(&mut self, lines: usize, out: &mut Vec<u8>) -> bool {
        self.continue_snapshot(lines, out)
    }
}

impl Engine {
    /// Starts a snapshot of the state as it is now, and appends its first bytes. One that was running is given up.
    pub fn begin_snapshot(&mut self, out: &mut Vec<u8>) {
        self.snapshot_start(out);
        self.begin_lines();
    }

    /// Appends the first bytes of a snapshot: all that is small. It takes a while, during which checks can go on;
    /// [`begin_lines`](Self::begin_lines) must follow before any event does.
    pub fn snapshot_start(&self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(self.realm.id().0);
        out.extend(self.plan.bytes.to_le_bytes());
        out.extend(self.now.0.to_le_bytes());
        let length_at = out.len();
        out.extend(0_u64.to_le_bytes());
        self.plan.sizes.lines().iter().for_each(|lines| out.extend(lines.to_le_bytes()));
        let small_at = out.len();
        self.encode_small(out);
        let length = (out.len() - small_at) as u64;
        out[length_at..length_at + 8].copy_from_slice(&length.to_le_bytes());
    }

    /// From now on keeps what rings and tables of lines were, for [`continue_snapshot`](Self::continue_snapshot). Takes
    /// microseconds.
    pub fn begin_lines(&mut self) {
        let head = |large: &mut dyn Large| {
            let mut head = Vec::new();
            large.begin(&mut head);
            Some(head)
        };
        let others = Present {
            claims: self.spam.others.keys().copied().collect(),
            recipients: self.bulk.others.keys().copied().collect(),
        };
        let heads = self.large(&others).into_iter().map(head).collect();
        self.running = Some(Running { heads, at: 0, others });
    }

    /// Whether a snapshot is being written.
    pub(super) const fn is_snapshot_running(&self) -> bool {
        self.running.is_some()
    }

    /// Appends about `bytes` more bytes of the running snapshot, of the state as it was when it began. Returns whether it
    /// is complete, which it also is if none runs.
    pub fn continue_snapshot(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool {
        let Some(mut running) = self.running.take() else { return true };
        let end = out.len() + bytes;
        let mut large = self.large(&running.others);
        while let Some(structure) = large.get_mut(running.at) {
            out.extend(running.heads[running.at].take().into_iter().flatten());
            let lines = end.saturating_sub(out.len()).div_ceil(LINE_BYTES);
            if !structure.proceed(lines, out) {
                self.running = Some(running);
                return false;
            }
            running.at += 1;
        }
        true
    }

    /// Lines that are kept twice at the moment, for the rest of the running snapshot.
    #[must_use]
    pub fn logged_lines(&self) -> usize {
        let rings =
            self.spam.listed.logged_lines() + self.spam.revoked.logged_lines() + self.spam.claims.logged_lines();
        let claims = self.spam.others.values().map(CountsRing::logged_lines);
        let recipients = self.bulk.others.values().map(|counted| counted.ring.logged_lines());
        let others = claims.chain(recipients).sum::<usize>();
        let tables = self.replicas.logged_lines() + self.shingles.table().logged_lines();
        rings + self.bulk.counts.logged_lines() + others + tables
    }

    /// Restores a clearinghouse from a snapshot of the same realm. `plan` is the one it was founded with; the snapshot has the
    /// current sizes. [`with_founded`](Self::with_founded) sets the time of the founding.
    ///
    /// # Errors
    /// [`RestoreError`] if the bytes are not of such a one.
    pub fn restore(realm: Realm, plan: Plan, input: &mut dyn Read) -> Result<Self, RestoreError> {
        let start = read_start(&realm, plan, input)?;
        let plan = start.plan;
        Self::restore_from(realm, start, input).map_err(|error| error.within(&plan))
    }

    fn restore_from(realm: Realm, start: Start, input: &mut dyn Read) -> Result<Self, RestoreError> {
        let Start { version, plan, now, small } = start;
        let mut reader = Reader::new(&small);
        let policy = Policy::decode(&mut reader)?;
        let mut engine = Self::try_new(realm, plan, policy, now)?.with_founded(Time(0));
        engine.decode_small(version, &mut reader)?;
        let has_exchange = version > VERSION_BEFORE_EXCHANGE;
        let others = if has_exchange { engine.decode_exchange(&mut reader)? } else { Others::default() };
        engine.restore_large(input)?;
        engine.restore_shingles(&mut reader, input)?;
        engine.restore_others(&others, input)?;
        reader.finish()?;
        engine.ensure_epochs()?;
        Ok(engine)
    }

    /// Rings of one book are in one epoch, and none is ahead of time.
    fn ensure_epochs(&self) -> Result<(), RestoreError> {
        let spam = [self.spam.listed.epoch(), self.spam.revoked.epoch(), self.spam.claims.epoch()];
        let spam_now = self.now.epoch(self.realm.spam_epoch_seconds());
        let bulk_now = self.now.epoch(self.realm.bulk_epoch_seconds());
        let others = self.spam.others.values().all(|ring| ring.epoch() == spam[0])
            && self.bulk.others.values().all(|counted| counted.ring.epoch() == self.bulk.counts.epoch());
        let is_sound = others
            && spam.iter().all(|&epoch| epoch == spam[0] && epoch <= spam_now)
            && self.bulk.counts.epoch() <= bulk_now;
        if is_sound { Ok(()) } else { Err(RestoreError::Structure { what: "epoch of its rings", source: None }) }
    }

    /// Appends everything but rings and tables of lines.
    fn encode_small(&self, out: &mut Vec<u8>) {
        self.trust.policy().encode(out);
        put_count(out, self.spam.reinstated.len());
        self.spam.reinstated.iter().for_each(|fingerprint| put_fingerprint(out, *fingerprint));
        let DailyShares { listed, revoked, recipients, texts } = &self.shares;
        [recipients, texts, listed, revoked].into_iter().for_each(|shares| shares.encode(out));
        self.trust.encode(out);
        self.accounts.encode(out);
        self.whitelist.encode(out);
        self.replicas.encode(out);
        self.encode_exchange(out);
        self.shingles.encode_records(out);
    }

    /// Who is heard, how far, and whose rings follow.
    fn encode_exchange(&self, out: &mut Vec<u8>) {
        self.exchange.encode(out);
        out.extend(self.spam.all_counted_from.to_le_bytes());
        put_count(out, self.spam.others.len());
        self.spam.others.keys().for_each(|origin| put_origin(out, origin));
        put_count(out, self.bulk.others.len());
        for (origin, Counted { cap, ring }) in &self.bulk.others {
            put_origin(out, origin);
            out.extend(cap.to_le_bytes());
            out.extend(ring.lines().to_le_bytes());
        }
    }

    fn decode_exchange(&mut self, reader: &mut Reader<'_>) -> Result<Others, Malformed> {
        self.exchange = Exchange::decode(reader)?;
        self.spam.all_counted_from = reader.u64("from when all claims are counted")?;
        let count = reader.count(CLUSTER_ORIGINS_MAX, 40, "the number of nodes that count claims")?;
        let claims = (0..count).map(|_| read_origin(reader)).collect::<Result<_, _>>()?;
        let most = CLUSTER_ORIGINS_MAX + MEMBERS_MAX * INCARNATIONS_MAX;
        let count = reader.count(most, 52, "the number of servers that count recipients")?;
        let mut read = || {
            let (origin, cap) = (read_origin(reader)?, reader.u32("a cap")?);
            let lines = reader.u64("the lines of a ring")?;
            let is_one = (1..=self.plan.sizes.bulk_lines).contains(&lines);
            if is_one {
                Ok((origin, cap, lines))
            } else {
                Err(Malformed::OutOfRange { what: "the lines of a ring", value: lines })
            }
        };
        let recipients = (0..count).map(|_| read()).collect::<Result<_, _>>()?;
        Ok(Others { claims, recipients })
    }

    fn decode_small(&mut self, version: u16, reader: &mut Reader<'_>) -> Result<(), Malformed> {
        let count = reader.count(REINSTATED_MAX, 16, "the number of reinstated signatures")?;
        let reinstated = (0..count).map(|_| reader.fingerprint("a reinstated signature"));
        self.spam.reinstated = reinstated.collect::<Result<_, _>>()?;
        self.shares.recipients = Quotas::decode(reader)?;
        self.shares.texts = Quotas::decode(reader)?;
        if version > VERSION_FOUNDED {
            self.shares.listed = Quotas::decode(reader)?;
            self.shares.revoked = Quotas::decode(reader)?;
        }
        self.trust.read(reader)?;
        self.accounts = Accounts::decode(reader)?;
        self.whitelist = Whitelist::decode(self.realm.key(), reader)?;
        self.replicas.decode(reader)
    }

    /// The rings and tables of lines, in the order in which they are written.
    fn large(&mut self, others: &Present) -> Vec<&mut dyn Large> {
        let (table, good) = self.replicas.arrays();
        let [first_good, first_seen, second_good, second_seen] = good;
        let mut large: Vec<&mut dyn Large> = vec![
            &mut self.spam.listed,
            &mut self.spam.revoked,
            &mut self.spam.claims,
            &mut self.bulk.counts,
            table,
            first_good,
            first_seen,
            second_good,
            second_seen,
            self.shingles.table_mut(),
        ];
        let claims = self.spam.others.iter_mut().filter(|(origin, _)| others.claims.contains(origin));
        large.extend(claims.map(|(_, ring)| ring as &mut dyn Large));
        let recipients = self.bulk.others.iter_mut().filter(|(origin, _)| others.recipients.contains(origin));
        large.extend(recipients.map(|(_, counted)| &mut counted.ring as &mut dyn Large));
        large
    }

    fn restore_large(&mut self, input: &mut dyn Read) -> Result<(), RestoreError> {
        restore_one(&mut self.spam.listed, "ring of listed signatures", StagedRing::bytes, input)?;
        restore_one(&mut self.spam.revoked, "ring of revoked signatures", MembershipRing::bytes, input)?;
        restore_one(&mut self.spam.claims, "ring of claims", CountsRing::bytes, input)?;
        restore_one(&mut self.bulk.counts, "ring of recipients", CountsRing::bytes, input)?;
        let (table, good) = self.replicas.arrays();
        restore_within(table, "table of texts", OwnerTable::bytes, input)?;
        for filter in good {
            restore_within(filter, "filter of good mail", |filter| filter.bits() / 8, input)?;
        }
        let are_alike = self.replicas.recount();
        if are_alike { Ok(()) } else { Err(RestoreError::Structure { what: "filters of good mail", source: None }) }
    }

    /// What other servers counted comes last.
    fn restore_others(&mut self, others: &Others, input: &mut dyn Read) -> Result<(), RestoreError> {
        for origin in &others.claims {
            let what = "ring of another node's claims";
            let lines = self.spam.claims.lines() as usize;
            let mut ring = try_empty_ring(&self.spam.claims, lines).map_err(|error| out_of_memory(what, error))?;
            restore_one(&mut ring, what, CountsRing::bytes, input)?;
            self.spam.others.insert(*origin, ring);
        }
        for &(origin, cap, lines) in &others.recipients {
            let lines = usize::try_from(lines).expect("a realm's sizes fit the address space");
            let what = "ring of another server's recipients";
            let mut ring = try_empty_ring(&self.bulk.counts, lines).map_err(|error| out_of_memory(what, error))?;
            restore_one(&mut ring, what, CountsRing::bytes, input)?;
            self.bulk.others.insert(origin, Counted { cap, ring });
        }
        Ok(())
    }

    /// The records of shingles come with the small state, and are checked against the table.
    fn restore_shingles(&mut self, reader: &mut Reader<'_>, input: &mut dyn Read) -> Result<(), RestoreError> {
        restore_within(self.shingles.table_mut(), "table of shingles", OwnerTableWithoutParts::bytes, input)?;
        let key = self.realm.key().clone();
        let table = std::mem::replace(self.shingles.table_mut(), OwnerTableWithoutParts::without_parts(0));
        let records = records_within(self.plan.shingle_bytes);
        self.shingles = Shingles::decode_records(key, records, LIVE_GENERATIONS, table, reader)?;
        Ok(())
    }
}

/// Whose rings follow.
#[derive(Default)]
struct Others {
    claims: Vec<Origin>,
    /// With their caps and lines.
    recipients: Vec<(Origin, u32, u64)>,
}

/// Puts what the input has in the place of a structure that must be as large.
fn restore_one<S: Snapshot>(
    place: &mut S,
    what: &'static str,
    bytes: impl Fn(&S) -> u64,
    input: &mut dyn Read,
) -> Result<(), RestoreError> {
    let expected = bytes(place);
    restore_within(place, what, &bytes, input)?;
    if bytes(place) == expected { Ok(()) } else { Err(RestoreError::Structure { what, source: None }) }
}

/// Replaces a structure of the largest allowed size by the one in the input.
fn restore_within<S: Snapshot>(
    place: &mut S,
    what: &'static str,
    bytes: impl Fn(&S) -> u64,
    input: &mut dyn Read,
) -> Result<(), RestoreError> {
    let failed = |source| RestoreError::Structure { what, source: Some(source) };
    *place = S::restore(input, bytes(place)).map_err(failed)?;
    Ok(())
}

/// The start of a snapshot.
struct Start {
    version: u16,
    plan: Plan,
    now: Time,
    small: Vec<u8>,
}

/// Reads the fixed start and the small state of a clearinghouse that was founded with `plan`.
fn read_start(realm: &Realm, founded: Plan, input: &mut dyn Read) -> Result<Start, RestoreError> {
    let mut start = [0; START_BYTES];
    input.read_exact(&mut start)?;
    let mut reader = Reader::new(&start);
    if reader.array("the magic")? != MAGIC {
        return Err(RestoreError::NotASnapshot);
    }
    let version = reader.u16("the version")?;
    if !(VERSION_BEFORE_EXCHANGE..=VERSION).contains(&version) {
        return Err(RestoreError::UnknownVersion { found: version });
    }
    if reader.array("the realm")? != realm.id().0 {
        return Err(RestoreError::OtherRealm);
    }
    let budget = reader.u64("the budget")?;
    if version <= VERSION_FOUNDED && budget != founded.bytes {
        return Err(RestoreError::OtherBudget { ours: founded.bytes, theirs: budget });
    }
    let now = Time(reader.u64("the time")?);
    let bytes = reader.u64("the length of the small state")?;
    let plan = if version <= VERSION_FOUNDED { founded } else { read_plan(founded, budget, input)? };
    // What is small fits the budget, as all of the engine does.
    if bytes > plan.bytes {
        return Err(RestoreError::TooLarge { bytes });
    }
    let mut small = Vec::new();
    input.take(bytes).read_to_end(&mut small)?;
    Ok(Start { version, plan, now, small })
}

/// Reads the sizes of the books. They must fit the budget, so that a damaged number cannot allocate more memory than granted.
fn read_plan(founded: Plan, budget: u64, input: &mut dyn Read) -> Result<Plan, RestoreError> {
    let mut bytes = [0; SIZES_BYTES];
    input.read_exact(&mut bytes)?;
    let mut reader = Reader::new(&bytes);
    let mut lines = [0; 4];
    for lines in &mut lines {
        *lines = reader.u64("the lines of a book")?;
    }
    let sizes = BookSizes::from_lines(lines);
    let planned = Plan::for_budget(budget);
    let is_as_founded = (budget, sizes) == (founded.bytes, founded.sizes);
    let fits = !lines.contains(&0) && planned.is_ok_and(|planned| sizes.fit(&planned.sizes));
    match planned {
        _ if !is_as_founded && !fits => Err(RestoreError::Sizes { budget }),
        Ok(planned) if budget != founded.bytes => Ok(Plan { sizes, ..planned }),
        _ => Ok(Plan { sizes, ..founded }),
    }
}
