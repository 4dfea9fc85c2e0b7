//! The receiver of a source: what to ask of it, what to accept, repair and forward, when to ask again.
//!
//! [`Receiver::next`] returns the next request. The driver of the receiver carries it out, reports the result with
//! [`offered`](Receiver::offered), [`fetched`](Receiver::fetched) or [`submitted`](Receiver::submitted), and asks for
//! the next request. Reporting a result does not need this server's state, so the state is not locked while answers are
//! verified.
//!
//! No failure here can count anything twice or lose anything: the engine accepts only the next segment of a chain.
//!
//! | module | contents |
//! |---|---|
//! | `status` | the condition of a receiver, and the state of the servers behind it |

mod status;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bruit_engine::event::Event;
use bruit_engine::exchange::{Chain, ExchangeRefusal, Received};
use bruit_engine::realm::RealmId;
use bruit_engine::time::Time;
use bruit_engine::{Outcome, Refusal};

use super::charges::Charges;
use super::judge::{Drift, Frontiers, Known, Want, accept, drifts, has_lost_segments, is_early, offered, wanted};
use super::outage_log::Outage;
use super::peer::Trouble;
use super::{Moment, next_incarnation};
use crate::describe;
use crate::epochs::Epochs;
use crate::heads::{Heads, SignedHeads};
use crate::transport::paths::digits;
use crate::transport::{Offer, TransportError};
use status::LatestOffer;
pub use status::{LinkStatus, OwnChains, PeerView};

/// Maximum time that a source may wait for news before it answers.
pub const WAIT: Duration = Duration::from_secs(30);

/// Delay before a segment that could not be applied yet is requested again.
pub const LATER_DELAY: Duration = Duration::from_secs(1);

/// Maximum number of segments submitted together. They fill less than half of the store's queue.
pub const SUBMITTED_TOGETHER: usize = 64;

/// Minimum interval between two repairs of a chain, so that an inconsistent server cannot keep us busy.
pub const REPAIR_SECONDS: u64 = 600;

/// Maximum number of chains whose last repair is remembered. When this number is reached, no further chain is repaired.
const REPAIRS_MAX: usize = 4_096;

/// The delays before a failing source is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The first delay. Every further failure doubles it.
    pub min: Duration,
    /// The longest delay.
    pub max: Duration,
}

impl Retry {
    /// The delays of a server's link.
    pub const LINK: Self = Self { min: Duration::from_millis(250), max: Duration::from_secs(15) };
    /// The delays of a replica.
    pub const REPLICA: Self = Self { min: Duration::from_secs(1), max: Duration::from_secs(60) };
}

/// The next step for the driver of a receiver.
#[derive(Debug)]
pub enum Request {
    /// Wait before the next request.
    Sleep(Duration),
    /// Ask the source for its offer, and report it with [`Receiver::offered`].
    Offer {
        /// The tag of the last offer that was completely applied.
        seen: Vec<u8>,
        /// Time that the source may wait for another offer.
        wait: Duration,
    },
    /// Fetch a log from an offset, and report it with [`Receiver::fetched`].
    Fetch {
        /// The chain.
        chain: Chain,
        /// The offset in its log.
        offset: u64,
    },
    /// Read at most [`REREAD_BYTES`](super::rereader::REREAD_BYTES) of a log on our own shelf, starting at an offset,
    /// and report them with [`Receiver::read`].
    ReadOwn {
        /// A chain of an earlier incarnation of this server.
        chain: Chain,
        /// The offset in its log.
        offset: u64,
    },
    /// Write events to the journal and apply them, and report the outcomes with [`Receiver::submitted`].
    Submit(Vec<Event>),
    /// Store heads for forwarding. They must be stored before the next request is carried out.
    KeepHeads(Vec<SignedHeads>),
    /// Store a segment for forwarding.
    KeepSegment {
        /// The chain.
        chain: Chain,
        /// The offset in its log.
        offset: u64,
        /// The signed segment.
        bytes: Vec<u8>,
    },
    /// Discard the stored log of a chain that is fetched again.
    ForgetLog(Chain),
    /// A round has ended: the source's offer was processed, or the round failed.
    Finish(Result<Box<Round>, LinkError>),
}

/// The result of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Number of heads that the source offered, accepted or not.
    pub offered: usize,
    /// Number of accepted heads.
    pub accepted: usize,
    /// Time in the latest accepted heads.
    pub newest: Option<Time>,
    /// Number of chains with new segments.
    pub chains: usize,
    /// Number of bytes that were missing when the round began.
    pub bytes_missing: u64,
    /// Number of entries applied.
    pub signatures: u64,
    /// Number of segments applied.
    pub segments: u64,
    /// Number of bytes of these segments.
    pub bytes: u64,
    /// True if the whole offer was applied, except for refused parts.
    pub is_complete: bool,
    /// The refusals.
    pub rejected: Vec<ExchangeRefusal>,
}

/// The reason why a round failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The source could not be read.
    #[error(transparent)]
    Transport(TransportError),
    /// The events could not be stored.
    #[error("failed to store the received segments: {0}")]
    Submit(String),
}

/// Work that remains in the present round.
#[derive(Debug)]
enum Task {
    Judge(Vec<SignedHeads>),
    StartIncarnation,
    Repair(Chain, Drift),
    Choose,
    Follow(ChainProgress),
    Keep { chain: Chain, offset: u64, bytes: Vec<u8> },
    Forget(Chain),
    Finish,
    Fail(LinkError),
    Sleep(Duration),
}

/// A request that has not been answered.
#[derive(Debug)]
enum Pending {
    Offer,
    Own(Want),
    Log(Want),
    Incarnation,
    Repair(Chain),
    Segments(ChainProgress, Batch),
}

/// A chain that is being fetched, and its accepted segments that are not submitted yet.
#[derive(Debug)]
struct ChainProgress {
    want: Want,
    batches: VecDeque<Batch>,
    /// True if our own shelf has nothing more of the chain.
    is_read: bool,
}

impl ChainProgress {
    const fn new(want: Want) -> Self {
        Self { want, batches: VecDeque::new(), is_read: false }
    }
}

/// Segments that are submitted together.
#[derive(Debug)]
struct Batch {
    offset: u64,
    bytes: Vec<u8>,
    segments: Vec<Received>,
    is_forwarded: bool,
}

/// The receiver of one source.
#[derive(Debug)]
pub struct Receiver {
    name: String,
    realm: RealmId,
    epochs: Epochs,
    known: Arc<Known>,
    delays: Retry,
    tasks: VecDeque<Task>,
    pending: Option<Pending>,
    seen: Vec<u8>,
    tag: Vec<u8>,
    wait: Duration,
    retry: Duration,
    heads: Vec<Heads>,
    drifted: Vec<[u8; 32]>,
    /// True if part of the offer could not be applied yet.
    is_later: bool,
    /// True if part of the offer was refused for a reason that does not pause its chain, or if a new incarnation could
    /// not start.
    is_refused: bool,
    /// The state of our own chains according to the current offer.
    own: OwnChains,
    refusals: BTreeMap<[u8; 32], String>,
    round: Round,
    latest: LatestOffer,
    charges: Charges,
    repaired: BTreeMap<Chain, Duration>,
    status: LinkStatus,
    outage: Outage,
}

impl Receiver {
    /// Creates the receiver of a source that is called `name` in the log.
    #[must_use]
    pub fn new(name: &str, realm: RealmId, epochs: Epochs, delays: Retry) -> Self {
        Self {
            name: name.to_owned(),
            realm,
            epochs,
            known: Arc::default(),
            delays,
            tasks: VecDeque::new(),
            pending: None,
            seen: Vec::new(),
            tag: Vec::new(),
            wait: Duration::ZERO,
            retry: delays.min,
            heads: Vec::new(),
            drifted: Vec::new(),
            is_later: false,
            is_refused: false,
            own: OwnChains::Unknown,
            refusals: BTreeMap::new(),
            round: Round::default(),
            latest: LatestOffer::default(),
            charges: Charges::default(),
            repaired: BTreeMap::new(),
            status: LinkStatus::default(),
            outage: Outage::new("link", name),
        }
    }

    /// Returns the next request. `state` is what this server has applied.
    pub fn next<F: Frontiers>(&mut self, state: &F, moment: Moment) -> Request {
        loop {
            let request = match self.tasks.pop_front() {
                Some(task) => self.perform(task, state, moment),
                None => Some(self.ask()),
            };
            if let Some(request) = request {
                return request;
            }
        }
    }

    fn ask(&mut self) -> Request {
        self.pending = Some(Pending::Offer);
        self.latest.answered = None;
        Request::Offer { seen: self.seen.clone(), wait: self.wait }
    }

    fn perform<F: Frontiers>(&mut self, task: Task, state: &F, moment: Moment) -> Option<Request> {
        match task {
            Task::Judge(heads) => return self.judge(heads, state, moment),
            Task::StartIncarnation => return self.start_incarnation(state, moment),
            Task::Repair(chain, drift) => return self.repair(chain, drift, moment),
            Task::Choose => self.choose(state),
            Task::Follow(progress) => return self.follow(progress, state, moment),
            Task::Keep { chain, offset, bytes } => return Some(Request::KeepSegment { chain, offset, bytes }),
            Task::Forget(chain) => return Some(Request::ForgetLog(chain)),
            Task::Finish => return Some(self.finish(state, moment)),
            Task::Fail(error) => return Some(Request::Finish(Err(error))),
            Task::Sleep(delay) => return Some(Request::Sleep(delay)),
        }
        None
    }

    /// Reports the source's answer to [`Request::Offer`]. `known` contains the servers whose data is accepted.
    pub fn offered(&mut self, offer: Result<Offer, TransportError>, known: &Arc<Known>, moment: Moment) {
        if !matches!(self.pending, Some(Pending::Offer)) {
            return;
        }
        self.pending = None;
        self.latest.answered = Some(moment.uptime);
        let offer = match offer {
            Ok(offer) => offer,
            Err(error) => return self.fail(LinkError::Transport(error), moment),
        };
        self.known = known.for_offer(&offer.heads);
        let (signed, rejected) = offered(&offer.heads, self.realm, &self.known);
        rejected.iter().for_each(|rejected| self.status.count(rejected));
        self.tag = offer.tag;
        self.heads = signed.iter().map(|signed| signed.heads.clone()).collect();
        self.round = Round {
            offered: Heads::read_all(&offer.heads).len(),
            accepted: signed.len(),
            newest: self.heads.iter().map(Heads::time).max(),
            rejected,
            ..Round::default()
        };
        (self.is_later, self.is_refused, self.own) = (false, false, OwnChains::Complete);
        self.refusals.clear();
        self.drifted.clear();
        self.latest.note(&self.heads, moment);
        self.tasks.push_back(Task::Judge(signed));
    }

    /// Decides what to do with verified heads: keep, repair, apply.
    fn judge<F: Frontiers>(&mut self, signed: Vec<SignedHeads>, state: &F, moment: Moment) -> Option<Request> {
        if self.heads.iter().any(|heads| has_lost_segments(heads, state)) {
            self.tasks.push_back(Task::StartIncarnation);
        }
        let drifts: Vec<(Chain, Drift)> = self.heads.iter().flat_map(|heads| drifts(heads, state)).collect();
        self.drifted = drifts.iter().map(|(chain, _)| chain.origin.key).collect();
        self.repaired.retain(|_, at| moment.uptime.saturating_sub(*at) < Duration::from_secs(REPAIR_SECONDS));
        self.tasks.extend(drifts.into_iter().map(|(chain, drift)| Task::Repair(chain, drift)));
        self.tasks.extend([Task::Choose, Task::Finish]);
        let is_kept = |signed: &SignedHeads| {
            let origin = signed.heads.origin();
            state.is_forwarded(&origin) && state.own() != Some(origin)
        };
        let kept: Vec<SignedHeads> = signed.into_iter().filter(is_kept).collect();
        (!kept.is_empty()).then_some(Request::KeepHeads(kept))
    }

    fn start_incarnation<F: Frontiers>(&mut self, state: &F, moment: Moment) -> Option<Request> {
        let event = next_incarnation(state.own()?, state.exports_all(), moment.now);
        self.pending = Some(Pending::Incarnation);
        Some(Request::Submit(vec![event]))
    }

    /// Fetches a chain again, unless that was done recently.
    fn repair(&mut self, chain: Chain, drift: Drift, moment: Moment) -> Option<Request> {
        if self.repaired.contains_key(&chain) || self.repaired.len() >= REPAIRS_MAX {
            return None;
        }
        self.repaired.insert(chain, moment.uptime);
        let (book, generation) = (chain.book.name(), chain.generation);
        tracing::warn!(book, generation, ?drift, "chain differs from its origin; fetching it again");
        if drift == Drift::Forked {
            self.round.rejected.push(ExchangeRefusal::Forked);
        }
        self.pending = Some(Pending::Repair(chain));
        Some(Request::Submit(vec![Event::Repair { now: moment.now, chain }]))
    }

    fn choose<F: Frontiers>(&mut self, state: &F) {
        let wants = wanted(&self.heads, state, &self.known);
        self.round.chains = wants.len();
        self.round.bytes_missing = wants.iter().map(|want| want.to.offset.saturating_sub(want.from.offset)).sum();
        let wants = wants.into_iter().map(|want| Task::Follow(ChainProgress::new(want)));
        let rest = std::mem::take(&mut self.tasks);
        self.tasks = wants.chain(rest).collect();
    }

    /// Submits the next batch of a chain, or fetches more of it.
    fn follow<F: Frontiers>(&mut self, mut progress: ChainProgress, state: &F, moment: Moment) -> Option<Request> {
        let chain = progress.want.chain;
        if let Some(mut batch) = progress.batches.pop_front() {
            batch.is_forwarded = state.is_forwarded(&chain.origin);
            let event = |segment: &Received| Event::Received { now: moment.now, segment: Box::new(segment.clone()) };
            let events = batch.segments.iter().map(event).collect();
            self.pending = Some(Pending::Segments(progress, batch));
            return Some(Request::Submit(events));
        }
        progress.want.from = state.frontier(&chain);
        let Want { from, to, .. } = progress.want;
        if from.sequence >= to.sequence {
            return None;
        }
        if !progress.is_read && state.own().is_some_and(|own| own.key == chain.origin.key) {
            self.pending = Some(Pending::Own(progress.want));
            return Some(Request::ReadOwn { chain, offset: from.offset });
        }
        if !self.charges.may_ask(&chain, moment.uptime) {
            let reason = self.status.refusals.get(&chain.origin.key).cloned();
            let unsaid = || "its segments were refused recently".to_owned();
            self.refusals.entry(chain.origin.key).or_insert_with(|| reason.unwrap_or_else(unsaid));
            return None;
        }
        self.pending = Some(Pending::Log(progress.want));
        Some(Request::Fetch { chain, offset: from.offset })
    }

    /// Reports the result of [`Request::ReadOwn`], which is empty if there is no log.
    ///
    /// The log of an earlier incarnation may have segments that no other server has fetched. If the source has another
    /// version of the chain, the next fetch finds a fork, and the chain is fetched from the start.
    pub fn read(&mut self, log: &[u8]) {
        let want = match self.pending.take() {
            Some(Pending::Own(want)) => want,
            other => return self.pending = other,
        };
        let (received, _) = accept(log, &want, self.realm, &self.known);
        let is_read = received.is_empty();
        let batches = batches(log, want.from.offset, received);
        self.tasks.push_front(Task::Follow(ChainProgress { want, batches, is_read }));
    }

    /// Reports the source's answer to [`Request::Fetch`].
    pub fn fetched(&mut self, log: Result<Vec<u8>, TransportError>, moment: Moment) {
        let want = match self.pending.take() {
            Some(Pending::Log(want)) => want,
            other => return self.pending = other,
        };
        match log {
            Ok(log) if !log.is_empty() => self.accept(&log, want, moment),
            // The source may not have the chain yet. This does not stop the other chains.
            Ok(_) | Err(TransportError::Missing) => self.is_later = true,
            Err(error) => self.fail(LinkError::Transport(error), moment),
        }
    }

    fn accept(&mut self, log: &[u8], want: Want, moment: Moment) {
        let (received, rejected) = accept(log, &want, self.realm, &self.known);
        if let Some(rejected) = rejected.filter(|_| received.is_empty()) {
            return self.reject(&want.chain, log.len(), rejected, moment);
        }
        self.charges.forgive(&want.chain);
        let batches = batches(log, want.from.offset, received);
        self.tasks.push_front(Task::Follow(ChainProgress { want, batches, is_read: true }));
    }

    /// Notes that a log has no valid segment. A lying origin is charged: its chain is requested again after a pause,
    /// which does not delay the other chains.
    fn reject(&mut self, chain: &Chain, bytes: usize, rejected: ExchangeRefusal, moment: Moment) {
        self.status.count(&rejected);
        let mut reason = format!("a segment was refused: {rejected}");
        if rejected.is_charged() {
            let pause = self.charges.charge(chain, bytes as u64, moment.uptime);
            reason = format!("{reason}; the chain is requested again in {} s", pause.as_secs());
        } else {
            self.is_refused = true;
        }
        self.refusals.insert(chain.origin.key, reason);
        match rejected {
            ExchangeRefusal::Forked => self.tasks.push_front(Task::Repair(*chain, Drift::Forked)),
            rejected => self.round.rejected.push(rejected),
        }
    }

    /// Reports the outcomes of the events of [`Request::Submit`], or the reason why they were not stored.
    pub fn submitted(&mut self, outcomes: Result<Vec<Outcome>, String>, moment: Moment) {
        let Some(pending) = self.pending.take() else { return };
        let outcomes = match (outcomes, &pending) {
            (Ok(outcomes), _) => outcomes,
            (Err(error), Pending::Incarnation) => return self.note_incarnation(Err(error)),
            (Err(error), _) => return self.fail(LinkError::Submit(error), moment),
        };
        match pending {
            Pending::Segments(progress, batch) => self.note_batch(progress, batch, &outcomes),
            Pending::Repair(chain) => self.note_repair(chain, &outcomes),
            Pending::Incarnation => self.note_incarnation(match outcomes.first() {
                Some(Outcome::Refused(refusal)) => Err(refusal.to_string()),
                _ => Ok(()),
            }),
            other @ (Pending::Offer | Pending::Own(_) | Pending::Log(_)) => self.pending = Some(other),
        }
    }

    /// Notes whether a new incarnation was started. If it was not, the next round tries again soon, and the exporter
    /// waits until then.
    fn note_incarnation(&mut self, result: Result<(), String>) {
        match result {
            Ok(()) => tracing::warn!("peers hold segments we lost; starting a new incarnation"),
            Err(error) => {
                tracing::warn!(error, "failed to start a new incarnation");
                (self.own, self.is_refused) = (OwnChains::Lost, true);
            }
        }
    }

    fn note_repair(&mut self, chain: Chain, outcomes: &[Outcome]) {
        // A chain that cannot be applied again keeps its log.
        if !matches!(outcomes.first(), Some(Outcome::Refused(_))) {
            self.status.repairs += 1;
            self.tasks.push_front(Task::Forget(chain));
        }
    }

    fn note_batch(&mut self, progress: ChainProgress, batch: Batch, outcomes: &[Outcome]) {
        let chain = progress.want.chain;
        let (mut offset, mut rest, mut kept) = (batch.offset, &batch.bytes[..], Vec::new());
        let mut refusal = None;
        for (outcome, segment) in outcomes.iter().zip(&batch.segments) {
            let Some((bytes, behind)) = rest.split_at_checked(segment.bytes as usize) else { break };
            refusal = self.note_outcome(outcome, bytes.len());
            if refusal.is_some() {
                break;
            }
            if batch.is_forwarded {
                kept.push(Task::Keep { chain, offset, bytes: bytes.to_vec() });
            }
            (offset, rest) = (offset + bytes.len() as u64, behind);
        }
        match refusal {
            None => self.tasks.push_front(Task::Follow(progress)),
            Some(refusal) => self.note_refusal(&chain, &refusal),
        }
        kept.into_iter().rev().for_each(|task| self.tasks.push_front(task));
    }

    /// Counts a segment. Returns the reason if it was not applied.
    fn note_outcome(&mut self, outcome: &Outcome, bytes: usize) -> Option<Refusal> {
        match outcome {
            Outcome::Taken { entries, .. } => {
                self.status.segments += 1;
                self.status.bytes_in += bytes as u64;
                self.round.segments += 1;
                self.round.bytes += bytes as u64;
                self.round.signatures += u64::from(*entries);
                None
            }
            // Another link has already applied the segment.
            Outcome::Refused(Refusal::Exchange(ExchangeRefusal::AlreadyTaken)) => None,
            Outcome::Refused(refusal) => Some(*refusal),
            _ => None,
        }
    }

    fn note_refusal(&mut self, chain: &Chain, refusal: &Refusal) {
        self.status.count_refusal(refusal);
        match refusal {
            // The generation begins or ends slightly earlier or later on this server than at the segment's origin.
            Refusal::Exchange(ExchangeRefusal::NotYet | ExchangeRefusal::NotNext | ExchangeRefusal::Expired) => {
                self.is_later = true
            }
            refusal => {
                self.is_refused = true;
                self.refusals.insert(chain.origin.key, format!("a segment was refused: {refusal}"));
                if let Refusal::Exchange(refusal) = refusal {
                    self.round.rejected.push(*refusal);
                }
            }
        }
    }

    /// Ends a round whose offer was processed.
    fn finish<F: Frontiers>(&mut self, state: &F, moment: Moment) -> Request {
        self.note_refusals();
        self.note_round(state, moment);
        let is_later = self.is_later || self.heads.iter().any(|heads| is_early(heads, state));
        self.round.is_complete = !is_later;
        self.seen = std::mem::take(&mut self.tag);
        if self.is_refused {
            self.retry = (self.retry * 2).min(self.delays.max);
            self.pause(self.retry);
        } else {
            self.retry = self.delays.min;
            match is_later {
                true => self.pause(LATER_DELAY),
                false => self.wait = self.next_wait(moment),
            }
        }
        Request::Finish(Ok(Box::new(std::mem::take(&mut self.round))))
    }

    /// Plans a new round after `delay`, in which the source sends its offer even if it has not changed.
    fn pause(&mut self, delay: Duration) {
        self.seen.clear();
        self.wait = Duration::ZERO;
        self.tasks.push_back(Task::Sleep(delay));
    }

    /// Returns the time to wait for news, at most until the next pause of a refused chain ends.
    fn next_wait(&self, moment: Moment) -> Duration {
        let pause = self.charges.shortest_pause(moment.uptime);
        pause.map_or(WAIT, |pause| pause.clamp(LATER_DELAY, WAIT))
    }

    /// Ends a round that failed.
    fn fail(&mut self, error: LinkError, moment: Moment) {
        let text = describe(&error);
        self.outage.fail(&text, moment.uptime);
        let trouble = match error {
            LinkError::Transport(TransportError::Unreachable(_)) => Trouble::Unreachable(text),
            _ => Trouble::Refused(text),
        };
        (self.status.is_up, self.status.trouble) = (false, Some(trouble));
        self.tasks.clear();
        self.tasks.push_back(Task::Fail(error));
        self.pause(self.retry);
        self.retry = (self.retry * 2).min(self.delays.max);
    }

    fn note_refusals(&mut self) {
        let refusals = std::mem::take(&mut self.refusals);
        for (key, reason) in refusals.iter().filter(|(key, reason)| self.status.refusals.get(*key) != Some(*reason)) {
            let (peer, origin) = (self.name.as_str(), digits(key));
            tracing::warn!(peer, origin, reason, "segments refused");
        }
        self.status.refusals = refusals;
    }

    /// Notes the servers with which we agree on all chains. If the offer has no valid heads, notes the reason.
    fn note_round<F: Frontiers>(&mut self, state: &F, moment: Moment) {
        let keys = self.latest.keys();
        let agreeing: Vec<_> = keys
            .into_iter()
            .filter(|key| !self.drifted.contains(key))
            .map(|key| (key, self.view(&key, state, moment)))
            .filter(|(_, view)| view.lag_segments == 0)
            .map(|(key, view)| (key, Time(moment.now.0.saturating_sub(view.silence.as_secs()))))
            .collect();
        // The source answered, even if the answer is invalid; that is logged separately.
        self.outage.recover(moment.uptime);
        let rejected = self.round.rejected.first().filter(|_| self.heads.is_empty());
        self.status.trouble = rejected.map(|rejected| Trouble::Refused(format!("its heads: {rejected}")));
        self.status.is_up = true;
        self.status.heard = Some(moment.now);
        self.status.own = self.own;
        self.status.agreed.extend(agreeing);
    }
}

/// Divides accepted segments into batches. Each batch also contains the bytes of its segments in `log`, for forwarding.
fn batches(log: &[u8], mut offset: u64, received: Vec<Received>) -> VecDeque<Batch> {
    let (mut rest, mut segments, mut batches) = (log, received.into_iter().peekable(), VecDeque::new());
    while segments.peek().is_some() {
        let segments: Vec<Received> = segments.by_ref().take(SUBMITTED_TOGETHER).collect();
        let length = segments.iter().map(|segment| segment.bytes as usize).sum();
        let Some((bytes, behind)) = rest.split_at_checked(length) else { break };
        batches.push_back(Batch { offset, bytes: bytes.to_vec(), segments, is_forwarded: false });
        (offset, rest) = (offset + length as u64, behind);
    }
    batches
}
