//! The exporter: seals the engine's queued entries into segments and makes them readable for peers.
//!
//! The order of writes ensures that every entry is exported exactly once. First the segment is written to its log and
//! synced. Then the journal records that the segment is sealed. Peers may read the segment only when that record is on
//! disk. A crash in between leaves a log that is too long, and the next segment overwrites its end.
//!
//! [`Exporter::next`] returns the requests of a step one after the other. The driver of the exporter carries out each
//! request and reports the result before it asks for the next one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::time::Duration;

use bruit_engine::event::Event;
use bruit_engine::exchange::{Book, Chain, ExchangeRefusal, Frontier, Origin, OriginChange, Relation};
use bruit_engine::realm::RealmId;
use bruit_engine::time::Time;
use bruit_engine::{Engine, Outcome, Refusal};

use super::export::{Export, next_segment};
use super::receiver::OwnChains;
use super::{Moment, next_incarnation, start_of_export};
use crate::describe;
use crate::keys::NodeKey;
use crate::shelf::{HEARTBEAT, ShelfError};

/// Minimum interval between two segments of a chain. The first entries after a longer pause are sealed immediately.
const SEAL_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum interval between two segments of revocations, which release good mail.
const SEAL_INTERVAL_REVOKED: Duration = Duration::from_millis(100);

/// Number of queued bytes at which all queued entries are sealed without waiting for the interval.
const SEAL_BYTES: usize = 256 << 10;

/// Number of queued bytes at which sealing starts, even if no other node has been reached. With fewer bytes, entries
/// are held back, because the server may run on an old copy of its disk. It then learns from the other nodes which
/// segments it lost, and a segment that it sealed before that would fork its history.
pub const HELD_BYTES_MAX: usize = 1 << 20;

/// Maximum time for which entries are held back. The other nodes may be gone for good, and the last remaining node must
/// still export.
pub const HELD_MAX: Duration = Duration::from_secs(300);

/// Interval between two searches for expired logs.
const TIDY_INTERVAL: Duration = Duration::from_secs(600);

/// Interval between attempts after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// Time after which a server without readers drops the queue, if its logs cannot be written. It drops the queue earlier
/// if the size of the queue reaches [`GIVE_UP_BYTES`].
const GIVE_UP: Duration = Duration::from_secs(10);
/// The queue size at which a server without readers drops the queue, if its logs cannot be written.
const GIVE_UP_BYTES: usize = 1 << 20;

/// The facts about the server that an exporter needs, in addition to the engine.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The key that signs.
    pub key: &'a NodeKey,
    /// The realm.
    pub realm: RealmId,
    /// True if all accepted entries are exported, for the operator's other nodes.
    pub is_cluster: bool,
    /// True if there are peers, a broker, or a folder to publish in.
    pub is_wanted: bool,
    /// True if segments of our own chains may be lost: see [`awaits_cluster`].
    pub awaits_cluster: bool,
    /// The journal's sequence number up to which events are on disk.
    pub durable: u64,
}

/// The next step for the driver of an exporter.
#[derive(Debug)]
pub enum ExportRequest {
    /// Check that logs can be written, and report the result with [`Exporter::checked`].
    Check,
    /// Write segments to their logs in this order, sync them, and report the result with [`Exporter::written`].
    Write(Vec<Export>),
    /// Write events to the journal and apply them, and report the outcomes with [`Exporter::submitted`].
    Submit(Vec<Event>),
    /// Make the chains of an origin readable up to these ends, and sign new heads.
    Release {
        /// The origin.
        own: Origin,
        /// Its chains and their ends.
        chains: Vec<(Chain, Frontier)>,
    },
    /// Remove the logs that are no longer needed, and report the result with [`Exporter::tidied`].
    Tidy {
        /// The chains of live generations.
        live: BTreeSet<Chain>,
        /// The time in the engine's state.
        now: Time,
    },
}

/// One part of a step.
#[derive(Debug)]
enum ExportTask {
    Check,
    Start,
    Restart,
    Seal,
    /// Submit these events, whose segments are already in their logs.
    Seals(Vec<Event>),
    Release,
    Tidy,
    /// Clear the error, because all earlier tasks of the step succeeded.
    Well,
    GiveUp,
    Done,
}

/// A request that has not been answered.
#[derive(Debug)]
enum Unanswered {
    Change,
    Write(Vec<Event>),
    Seals,
}

/// A failure to write logs.
#[derive(Debug)]
struct Failing {
    /// The start of the failure; `None` if it is older than the exporter.
    since: Option<Duration>,
    error: String,
}

/// The exporter's state between two steps, which need not survive a restart.
#[derive(Debug, Default)]
pub struct Exporter {
    tasks: VecDeque<ExportTask>,
    pending: Option<Unanswered>,
    sealed: BTreeMap<(Book, u64), Duration>,
    /// The journal's sequence at the last sealed segment that is not yet readable.
    unreleased: Option<u64>,
    released: Option<Duration>,
    tidied: Option<Duration>,
    /// True once the logs were checked.
    is_checked: bool,
    failing: Option<Failing>,
    /// The current error, if the exporter fails for a reason other than the logs.
    stuck: Option<String>,
    tried: Option<Duration>,
}

/// Returns true if segments of our own chains may be lost. This is the case if a source has segments of them that we
/// lack, or if there are other nodes and none of them has been reached since the start. For each link, `links` contains
/// two values: the relation of the server at its other end (`None` for a broker), and the state of our own chains
/// according to the heads received over the link.
#[must_use]
pub fn awaits_cluster(links: impl IntoIterator<Item = (Option<Relation>, OwnChains)>) -> bool {
    let (mut has_nodes, mut is_known) = (false, false);
    for (relation, own) in links {
        if own == OwnChains::Lost {
            return true;
        }
        if relation != Some(Relation::Peer) {
            (has_nodes, is_known) = (true, is_known || own == OwnChains::Complete);
        }
    }
    has_nodes && !is_known
}

impl Exporter {
    /// Returns the current error, if the logs cannot be written.
    #[must_use]
    pub fn log_error(&self) -> Option<&str> {
        self.failing.as_ref().map(|failing| failing.error.as_str())
    }

    /// Returns the current error, if the exporter fails for another reason.
    #[must_use]
    pub fn other_error(&self) -> Option<&str> {
        self.stuck.as_deref()
    }

    /// Returns the next request of the present step, or `None` at its end; the next call then begins another step.
    pub fn next(&mut self, engine: &Engine, around: &Surroundings<'_>, moment: Moment) -> Option<ExportRequest> {
        if self.tasks.is_empty() {
            self.begin_step(around.is_wanted, moment);
        }
        while let Some(task) = self.tasks.pop_front() {
            if matches!(task, ExportTask::Done) {
                break;
            }
            if let Some(request) = self.perform(task, engine, around, moment) {
                return Some(request);
            }
        }
        None
    }

    /// Plans a step. After a failure, the steps until the next attempt only decide whether to give up.
    fn begin_step(&mut self, is_wanted: bool, moment: Moment) {
        let is_well = self.failing.is_none() && self.stuck.is_none();
        let is_due = is_well || self.tried.is_none_or(|tried| moment.uptime.saturating_sub(tried) >= RETRY);
        if is_due {
            self.tried = Some(moment.uptime);
            let check = (!self.is_checked || self.failing.is_some()).then_some(ExportTask::Check);
            // With readers, entries are queued even while logs cannot be written.
            self.tasks.extend(is_wanted.then_some(ExportTask::Start));
            self.tasks.extend(check);
            self.tasks.extend([
                ExportTask::Start,
                ExportTask::Seal,
                ExportTask::Release,
                ExportTask::Tidy,
                ExportTask::Well,
            ]);
        }
        if is_due || self.stuck.is_none() {
            self.tasks.push_back(ExportTask::GiveUp);
        }
        self.tasks.push_back(ExportTask::Done);
    }

    fn perform(
        &mut self,
        task: ExportTask,
        engine: &Engine,
        around: &Surroundings<'_>,
        moment: Moment,
    ) -> Option<ExportRequest> {
        match task {
            ExportTask::Check => Some(ExportRequest::Check),
            ExportTask::Start => self.start(engine, around, moment),
            ExportTask::Restart => {
                let event = next_incarnation(engine.exchange().own()?, around.is_cluster, moment.now);
                self.submit(vec![event], Unanswered::Change)
            }
            ExportTask::Seal => self.seal(engine, around, moment),
            ExportTask::Release => self.release(engine, around, moment),
            ExportTask::Tidy => self.tidy(engine, moment),
            ExportTask::GiveUp => self.give_up(engine, around, moment),
            ExportTask::Seals(events) => self.submit(events, Unanswered::Seals),
            ExportTask::Well => {
                self.stuck = None;
                None
            }
            ExportTask::Done => None,
        }
    }

    fn submit(&mut self, events: Vec<Event>, pending: Unanswered) -> Option<ExportRequest> {
        self.pending = Some(pending);
        Some(ExportRequest::Submit(events))
    }

    fn start(&mut self, engine: &Engine, around: &Surroundings<'_>, moment: Moment) -> Option<ExportRequest> {
        let key = *around.key.public().as_bytes();
        let event = start_of_export(engine, key, around.is_cluster, moment.now)?;
        self.submit(vec![event], Unanswered::Change)
    }

    /// Returns true if nothing may be sealed or published: a server on an old copy of its disk must not contradict
    /// segments that peers already have.
    fn is_held(&self, engine: &Engine, around: &Surroundings<'_>, moment: Moment) -> bool {
        let has_room = engine.exchange().pending_bytes() < HELD_BYTES_MAX;
        around.awaits_cluster && moment.uptime < HELD_MAX && has_room
    }

    fn seal(&mut self, engine: &Engine, around: &Surroundings<'_>, moment: Moment) -> Option<ExportRequest> {
        if self.is_held(engine, around, moment) {
            return None;
        }
        let exchange = engine.exchange();
        let is_full = exchange.pending_bytes() >= SEAL_BYTES;
        let due = exchange.pending().filter(|&chain| is_full || self.is_due(chain, moment.uptime));
        let exports: Vec<Export> =
            due.filter_map(|chain| next_segment(exchange, chain, around.realm, around.key, moment.now)).collect();
        if exports.is_empty() {
            return None;
        }
        let chains = exports.iter().map(|export| (export.chain.book, export.chain.generation));
        self.sealed.extend(chains.map(|chain| (chain, moment.uptime)));
        self.pending = Some(Unanswered::Write(exports.iter().map(|export| export.sealed.clone()).collect()));
        Some(ExportRequest::Write(exports))
    }

    fn is_due(&self, chain: (Book, u64), uptime: Duration) -> bool {
        let busy = if chain.0 == Book::Revoked { SEAL_INTERVAL_REVOKED } else { SEAL_INTERVAL };
        self.sealed.get(&chain).is_none_or(|sealed| uptime.saturating_sub(*sealed) >= busy)
    }

    /// Makes sealed segments readable once the journal's records of them are on disk. Under relaxed durability, that
    /// takes a while.
    fn release(&mut self, engine: &Engine, around: &Surroundings<'_>, moment: Moment) -> Option<ExportRequest> {
        let is_silent = self.released.is_none_or(|released| moment.uptime.saturating_sub(released) >= HEARTBEAT);
        let is_durable = self.unreleased.is_none_or(|sequence| around.durable >= sequence);
        let is_due = is_durable && (is_silent || self.unreleased.is_some());
        if !is_due || self.is_held(engine, around, moment) {
            return None;
        }
        (self.released, self.unreleased) = (Some(moment.uptime), None);
        let own = engine.exchange().own()?;
        let chains = engine.exchange().chains().filter(|(chain, _)| chain.origin == own).collect();
        Some(ExportRequest::Release { own, chains })
    }

    fn tidy(&mut self, engine: &Engine, moment: Moment) -> Option<ExportRequest> {
        let is_past = |then: &Duration| moment.uptime.saturating_sub(*then) >= TIDY_INTERVAL;
        if self.tidied.is_some_and(|tidied| !is_past(&tidied)) {
            return None;
        }
        self.tidied = Some(moment.uptime);
        self.sealed.retain(|_, sealed| !is_past(sealed));
        let live = engine.exchange().chains().map(|(chain, _)| chain).collect();
        Some(ExportRequest::Tidy { live, now: engine.now() })
    }

    /// Stops exporting and drops the queue, if the logs cannot be written and have no readers.
    fn give_up(&mut self, engine: &Engine, around: &Surroundings<'_>, moment: Moment) -> Option<ExportRequest> {
        let failing = self.failing.as_ref().filter(|_| !around.is_wanted)?;
        let exchange = engine.exchange();
        let is_long = failing.since.is_none_or(|since| moment.uptime.saturating_sub(since) >= GIVE_UP);
        let is_over = is_long || exchange.pending_bytes() >= GIVE_UP_BYTES;
        if exchange.own().is_none() || !is_over {
            return None;
        }
        let end = Event::Origin { now: moment.now, change: OriginChange::End };
        self.submit(vec![end], Unanswered::Change)
    }

    /// Reports the result of [`ExportRequest::Check`].
    pub fn checked(&mut self, result: io::Result<()>, moment: Moment) {
        match result {
            Ok(()) => self.failing = None,
            Err(error) => self.fail(error.to_string(), moment),
        }
        self.is_checked = true;
    }

    /// Reports the result of [`ExportRequest::Write`].
    pub fn written(&mut self, result: Result<(), ShelfError>, moment: Moment) {
        let events = match self.pending.take() {
            Some(Unanswered::Write(events)) => events,
            other => return self.pending = other,
        };
        match result {
            Ok(()) => self.tasks.push_front(ExportTask::Seals(events)),
            // The log of the present incarnation, or part of it, is gone.
            Err(error @ ShelfError::Gap { .. }) => {
                let error = describe(&error);
                tracing::warn!(error, "a log in shelf/ is gone; starting a new incarnation");
                self.skip_to_end();
                self.tasks.push_front(ExportTask::Restart);
            }
            Err(error) => self.fail(describe(&error), moment),
        }
    }

    /// Reports the outcomes of the events of [`ExportRequest::Submit`], or the reason why they were not stored.
    /// `sequence` is the journal's sequence number after these events.
    pub fn submitted(&mut self, outcomes: Result<Vec<Outcome>, String>, sequence: u64) {
        if let (Some(Unanswered::Seals), Ok(_)) = (self.pending.take(), &outcomes) {
            self.unreleased = Some(sequence);
        }
        let refusal = |outcome: &Outcome| match outcome {
            // The generation has ended since then, or another incarnation has started. The next segment overwrites the
            // end of the log.
            Outcome::Refused(Refusal::Exchange(ExchangeRefusal::NothingWaits)) => None,
            Outcome::Refused(refusal) => Some(format!("the engine refused the sealed segment: {refusal}")),
            _ => None,
        };
        let outcome = outcomes.map(|outcomes| outcomes.iter().find_map(refusal));
        if let Some(error) = outcome.unwrap_or_else(Some) {
            self.note_stuck(error);
        }
    }

    /// Reports the result of [`ExportRequest::Tidy`].
    pub fn tidied(&mut self, result: io::Result<usize>, moment: Moment) {
        if let Err(error) = result {
            self.fail(format!("failed to remove expired logs: {error}"), moment);
        }
    }

    fn fail(&mut self, error: String, moment: Moment) {
        let first = self.is_checked.then_some(moment.uptime);
        let since = self.failing.as_ref().map_or(first, |failing| failing.since);
        self.failing = Some(Failing { since, error });
        self.skip_to_end();
    }

    fn note_stuck(&mut self, error: String) {
        if self.stuck.is_none() {
            tracing::error!(error, "failed to write logs for other servers");
        }
        self.stuck = Some(error);
        self.skip_to_end();
    }

    /// Skips the rest of this step, except for the decision whether to give up.
    fn skip_to_end(&mut self) {
        self.tasks.retain(|task| matches!(task, ExportTask::GiveUp | ExportTask::Done));
    }
}
