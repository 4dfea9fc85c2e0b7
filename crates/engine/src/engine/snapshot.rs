//! Encoding of the state, written while events are still applied.
//!
//! Small structures are written at once when a snapshot begins. Rings and tables follow in steps, with the contents
//! that they had when the snapshot began (`bruit_filters::snapshot`). `docs/design/snapshots.md` specifies the format.
//! The realm's key is not included: a snapshot is useful only together with its realm.

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
use crate::bulk::OriginCounts;
use crate::claim_ids::ClaimIds;
use crate::codec::{Malformed, Reader, put_count, put_fingerprint};
use crate::exchange::{Exchange, INCARNATIONS_MAX, MEMBERS_MAX, Origin, SEPARATE_ORIGINS_MAX, put_origin, read_origin};
use crate::generations::LIVE_GENERATIONS;
use crate::memory::NotEnoughMemory;
use crate::quota::Quotas;
use crate::realm::{BookSizes, Realm};
use crate::shingles::{Shingles, records_within};
use crate::spam::{REINSTATED_MAX, node_claim_lines, try_empty_ring};
use crate::time::Time;
use crate::trust::Policy;
use crate::whitelist::Whitelist;

const MAGIC: [u8; 8] = *b"BRUITENG";
/// Current version of the format. Version 7 added the IDs of claims. Version 6 added the rings that all other nodes
/// share. Version 5 added a bit for templates to the records of texts. Version 4 added the registration of an account,
/// in the byte of its enabled flag.
const VERSION: u16 = 7;
/// The last version without the IDs of claims.
const VERSION_BEFORE_CLAIM_IDS: u16 = 6;
/// The last version in which every other node had rings of its own.
const VERSION_SEPARATE: u16 = 5;
/// The last version before the budget could change and before listings and revocations had daily quotas. A snapshot of
/// this version or an older one contains no sizes, so the sizes chosen when the clearinghouse was founded apply.
const VERSION_FOUNDED: u16 = 2;
/// The last version without exchange between servers.
const VERSION_BEFORE_EXCHANGE: u16 = 1;

/// Length of the fixed header: magic, version, realm, budget, time, and length of the small state.
const START_BYTES: usize = 8 + 2 + 16 + 8 + 8 + 8;
/// Encoded length of the line counts of the four books, which follow the header in version 3 and later.
const SIZES_BYTES: usize = 4 * 8;

/// Length of a line, the unit in which large structures are written.
const LINE_BYTES: usize = 64;

/// Error for bytes that are not a snapshot of this clearinghouse.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The input cannot be read or ends too early.
    #[error("failed to read the snapshot")]
    Io(#[from] std::io::Error),
    /// The input does not start with the magic of a snapshot.
    #[error("not a snapshot of a clearinghouse")]
    NotASnapshot,
    /// The snapshot has an unsupported version.
    #[error("unsupported snapshot version {found}")]
    UnknownVersion {
        /// Version of the snapshot.
        found: u16,
    },
    /// The snapshot belongs to another realm.
    #[error("the snapshot belongs to another realm")]
    OtherRealm,
    /// The budget of the snapshot is not the one chosen at the founding. Snapshots of this old version do not support
    /// changes of the budget.
    #[error("the snapshot was made with a memory budget of {theirs} bytes, not {ours}")]
    OtherBudget {
        /// Budget chosen at the founding, in bytes.
        ours: u64,
        /// Budget of the snapshot in bytes.
        theirs: u64,
    },
    /// The memory for the budget cannot be allocated. The snapshot itself is intact.
    #[error(transparent)]
    Memory(#[from] NotEnoughMemory),
    /// The books do not fit the budget, or the budget is out of range.
    #[error("the snapshot's books do not fit its memory budget of {budget} bytes")]
    Sizes {
        /// Budget of the snapshot in bytes.
        budget: u64,
    },
    /// The small state exceeds its maximum size.
    #[error("the snapshot's small state is too large: {bytes} bytes")]
    TooLarge {
        /// Size in bytes.
        bytes: u64,
    },
    /// The small state cannot be decoded.
    #[error("the snapshot's state is malformed")]
    Malformed(#[from] Malformed),
    /// A ring or table cannot be decoded or has the wrong size.
    #[error("the snapshot's {what} is malformed")]
    Structure {
        /// Name of the structure.
        what: &'static str,
        /// Error of the structure; `None` if its size is wrong.
        source: Option<FilterError>,
    },
}

impl RestoreError {
    /// Converts a failed allocation of a structure to [`Memory`](Self::Memory), to distinguish it from damage.
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

/// The progress of a snapshot.
#[derive(Debug)]
pub(super) struct RunningSnapshot {
    /// The first bytes of each structure, which precede its lines; `None` once written.
    heads: Vec<Option<Vec<u8>>>,
    /// Index of the structure whose lines are being written.
    at: usize,
    /// The origins that had rings when the snapshot began. Rings may be added during a snapshot, but are never dropped.
    others: RingOrigins,
}

/// The origins that have rings.
#[derive(Clone, Debug, Default)]
struct RingOrigins {
    /// True if the other nodes had a ring for claims.
    node_claims: bool,
    /// True if the other nodes had a ring for recipients.
    node_recipients: bool,
    claims: Vec<Origin>,
    recipients: Vec<Origin>,
}

/// A large structure that is written in steps.
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
    /// Starts a snapshot of the current state and appends its first bytes. A running snapshot is aborted.
    pub fn begin_snapshot(&mut self, out: &mut Vec<u8>) {
        self.snapshot_start(out);
        self.begin_lines();
    }

    /// Appends the first bytes of a snapshot: all small structures. This takes some time, but checks can run meanwhile.
    /// [`begin_lines`](Self::begin_lines) must be called before the next event.
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

    /// Starts copy-on-write of rings and tables of lines, for [`continue_snapshot`](Self::continue_snapshot). This
    /// takes microseconds.
    pub fn begin_lines(&mut self) {
        let head = |large: &mut dyn Large| {
            let mut head = Vec::new();
            large.begin(&mut head);
            Some(head)
        };
        let others = RingOrigins {
            node_claims: self.spam.nodes.is_some(),
            node_recipients: self.bulk.nodes.is_some(),
            claims: self.spam.others.keys().copied().collect(),
            recipients: self.bulk.others.keys().copied().collect(),
        };
        let heads = self.large(&others).into_iter().map(head).collect();
        self.running = Some(RunningSnapshot { heads, at: 0, others });
    }

    /// Returns true if a snapshot is being written.
    pub(super) const fn is_snapshot_running(&self) -> bool {
        self.running.is_some()
    }

    /// Appends about `bytes` more bytes of the running snapshot, with the state as it was at the start. Returns true if
    /// the snapshot is complete or none is running.
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

    /// Returns the number of lines currently kept as copies for the running snapshot.
    #[must_use]
    pub fn logged_lines(&self) -> usize {
        let rings =
            self.spam.listed.logged_lines() + self.spam.revoked.logged_lines() + self.spam.claims.logged_lines();
        let claims = self.spam.others.values().map(CountsRing::logged_lines);
        let recipients = self.bulk.others.values().map(|counted| counted.ring.logged_lines());
        let nodes = [&self.spam.nodes, &self.bulk.nodes].into_iter().flatten().map(CountsRing::logged_lines);
        let others = nodes.chain(claims).chain(recipients).sum::<usize>();
        let tables = self.replicas.logged_lines() + self.shingles.table().logged_lines();
        rings + self.bulk.counts.logged_lines() + others + tables
    }

    /// Restores a clearinghouse from a snapshot of the same realm. `plan` is the plan chosen at the founding; the
    /// snapshot contains the current sizes. Call [`with_founded`](Self::with_founded) to set the time of the founding.
    ///
    /// # Errors
    /// [`RestoreError`] if the bytes are not a valid snapshot of this realm.
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
        let others = if has_exchange { engine.decode_exchange(version, &mut reader)? } else { OtherRings::default() };
        engine.restore_large(input)?;
        engine.restore_shingles(&mut reader, input)?;
        engine.restore_others(&others, input)?;
        reader.finish()?;
        engine.ensure_epochs()?;
        engine.resume_rebuild();
        Ok(engine)
    }

    /// Checks that the rings of each book are in the same epoch, and that no ring is ahead of the time.
    fn ensure_epochs(&self) -> Result<(), RestoreError> {
        let spam = [self.spam.listed.epoch(), self.spam.revoked.epoch(), self.spam.claims.epoch()];
        let spam_now = self.now.epoch(self.realm.spam_epoch_seconds());
        let bulk_now = self.now.epoch(self.realm.bulk_epoch_seconds());
        let counted = self.bulk.others.values().map(|counted| &counted.ring);
        let others = self.spam.others.values().chain(&self.spam.nodes).all(|ring| ring.epoch() == spam[0])
            && counted.chain(&self.bulk.nodes).all(|ring| ring.epoch() == self.bulk.counts.epoch());
        let is_sound = others
            && spam.iter().all(|&epoch| epoch == spam[0] && epoch <= spam_now)
            && self.bulk.counts.epoch() <= bulk_now;
        if is_sound { Ok(()) } else { Err(RestoreError::Structure { what: "set of ring epochs", source: None }) }
    }

    /// Appends everything except rings and tables of lines.
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
        self.claim_ids.encode(out);
        self.encode_exchange(out);
        self.shingles.encode_records(out);
    }

    /// Appends the state of the exchange and the origins whose rings follow.
    fn encode_exchange(&self, out: &mut Vec<u8>) {
        self.exchange.encode(out);
        out.extend(self.spam.all_counted_from.to_le_bytes());
        put_count(out, self.spam.others.len());
        self.spam.others.keys().for_each(|origin| put_origin(out, origin));
        put_count(out, self.bulk.others.len());
        for (origin, OriginCounts { cap, ring }) in &self.bulk.others {
            put_origin(out, origin);
            out.extend(cap.to_le_bytes());
            out.extend(ring.lines().to_le_bytes());
        }
        out.extend([u8::from(self.spam.nodes.is_some()), u8::from(self.bulk.nodes.is_some())]);
        self.exchange.encode_forgotten(out);
    }

    fn decode_exchange(&mut self, version: u16, reader: &mut Reader<'_>) -> Result<OtherRings, Malformed> {
        self.exchange = Exchange::decode(reader)?;
        self.spam.all_counted_from = reader.u64("the first epoch with all claims counted")?;
        let count = reader.count(SEPARATE_ORIGINS_MAX, 40, "the number of nodes that count claims")?;
        let claims = (0..count).map(|_| read_origin(reader)).collect::<Result<_, _>>()?;
        let most = SEPARATE_ORIGINS_MAX + MEMBERS_MAX * INCARNATIONS_MAX;
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
        let of_nodes = |reader: &mut Reader<'_>| if version > VERSION_SEPARATE { has_ring(reader) } else { Ok(false) };
        let (node_claims, node_recipients) = (of_nodes(reader)?, of_nodes(reader)?);
        if version > VERSION_SEPARATE {
            self.exchange.decode_forgotten(reader)?;
        }
        Ok(OtherRings { node_claims, node_recipients, claims, recipients })
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
        self.replicas.decode(reader)?;
        if version > VERSION_BEFORE_CLAIM_IDS {
            self.claim_ids = ClaimIds::decode(self.now, reader)?;
        }
        Ok(())
    }

    /// Returns the rings and tables of lines in the order in which they are written.
    fn large(&mut self, others: &RingOrigins) -> Vec<&mut dyn Large> {
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
        large.extend(self.spam.nodes.iter_mut().filter(|_| others.node_claims).map(|ring| ring as &mut dyn Large));
        large.extend(self.bulk.nodes.iter_mut().filter(|_| others.node_recipients).map(|ring| ring as &mut dyn Large));
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
        if are_alike { Ok(()) } else { Err(RestoreError::Structure { what: "set of good-mail filters", source: None }) }
    }

    /// Restores the counts of other servers, the last part of a snapshot.
    fn restore_others(&mut self, others: &OtherRings, input: &mut dyn Read) -> Result<(), RestoreError> {
        if others.node_claims {
            let lines = node_claim_lines(&self.spam.claims);
            self.spam.nodes = Some(restore_ring(&self.spam.claims, lines, "ring of all nodes' claims", input)?);
        }
        if others.node_recipients {
            let lines = self.bulk.counts.lines() as usize;
            self.bulk.nodes = Some(restore_ring(&self.bulk.counts, lines, "ring of all nodes' recipients", input)?);
        }
        for origin in &others.claims {
            let lines = self.spam.claims.lines() as usize;
            let ring = restore_ring(&self.spam.claims, lines, "ring of another node's claims", input)?;
            self.spam.others.insert(*origin, ring);
        }
        for &(origin, cap, lines) in &others.recipients {
            let lines = usize::try_from(lines).expect("a realm's sizes fit the address space");
            let ring = restore_ring(&self.bulk.counts, lines, "ring of another server's recipients", input)?;
            self.bulk.others.insert(origin, OriginCounts { cap, ring });
        }
        Ok(())
    }

    /// Restores the table of shingles, and checks the records in the small state against it.
    fn restore_shingles(&mut self, reader: &mut Reader<'_>, input: &mut dyn Read) -> Result<(), RestoreError> {
        restore_within(self.shingles.table_mut(), "table of shingles", OwnerTableWithoutParts::bytes, input)?;
        let key = self.realm.key().clone();
        let placeholder = OwnerTableWithoutParts::without_parts(0).map_err(std::io::Error::from)?;
        let table = std::mem::replace(self.shingles.table_mut(), placeholder);
        let records = records_within(self.plan.shingle_bytes);
        self.shingles = Shingles::decode_records(key, records, LIVE_GENERATIONS, table, reader)?;
        Ok(())
    }
}

/// The rings of other servers that follow in the snapshot.
#[derive(Default)]
struct OtherRings {
    node_claims: bool,
    node_recipients: bool,
    /// Origins with a ring of their own.
    claims: Vec<Origin>,
    /// Origins with their caps and numbers of lines.
    recipients: Vec<(Origin, u32, u64)>,
}

/// Reads the flag that is true if the snapshot contains the ring of all other nodes.
fn has_ring(reader: &mut Reader<'_>) -> Result<bool, Malformed> {
    match reader.u8("the ring of all nodes")? {
        0 => Ok(false),
        1 => Ok(true),
        value => Err(Malformed::OutOfRange { what: "the ring of all nodes", value: value.into() }),
    }
}

/// Restores a ring of `lines` lines that ages together with the ring `beside`.
fn restore_ring(
    beside: &CountsRing,
    lines: usize,
    what: &'static str,
    input: &mut dyn Read,
) -> Result<CountsRing, RestoreError> {
    let mut ring = try_empty_ring(beside, lines).map_err(|error| out_of_memory(what, error))?;
    restore_one(&mut ring, what, CountsRing::bytes, input)?;
    Ok(ring)
}

/// Replaces a structure with the one in the input, which must have the same size.
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

/// Replaces a structure with the one in the input, which must not be larger.
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

/// The decoded start of a snapshot.
struct Start {
    version: u16,
    plan: Plan,
    now: Time,
    small: Vec<u8>,
}

/// Reads the fixed header and the small state of a clearinghouse that was founded with `plan`.
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
    // The small state is part of the budget, so it cannot be larger.
    if bytes > plan.bytes {
        return Err(RestoreError::TooLarge { bytes });
    }
    let mut small = Vec::new();
    input.take(bytes).read_to_end(&mut small)?;
    Ok(Start { version, plan, now, small })
}

/// Reads the sizes of the books. They must fit the budget, so that a damaged number cannot cause a larger allocation.
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
