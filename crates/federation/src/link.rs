//! A link to a source: asks what there is, takes what is missing, and keeps a record of how that goes.
//!
//! Nothing that goes wrong here can count twice or lose anything: the engine takes the next segment of a chain or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bruit_engine::event::Event;
use bruit_engine::exchange::{Chain, Origin, Received};
use bruit_engine::time::Time;
use bruit_engine::{Engine, ExchangeRefusal, Outcome, Refusal};
use bruit_store::{Clearinghouse, SubmitError};
use tokio::sync::oneshot;

use crate::charges::Charges;
use crate::exporter::begin_again;
use crate::heads::Heads;
use crate::judge::{Drift, Known, Want, accept, drifts, forgot, offered, wanted};
use crate::library::{Library, is_passed_on};
use crate::outage::Outage;
use crate::peer::{Evidence, PeerState, Sighting, Trouble, clock_bound, lag};
use crate::rejected::Rejected;
use crate::transport::paths::digits;
use crate::transport::{Offer, Source, TransportError};

/// How long a source is asked to wait for news.
pub const WAIT: Duration = Duration::from_secs(30);

/// Between two tries of a source that gives nothing, at first and at most.
const RETRY_MIN: Duration = Duration::from_millis(250);
/// See [`RETRY_MIN`].
const RETRY_MAX: Duration = Duration::from_secs(15);

/// Before something is asked for again that could not be taken yet.
const AGAIN: Duration = Duration::from_secs(1);

/// Segments that are submitted together: they take less than half of the queue.
const SUBMITTED_TOGETHER: usize = 64;

/// A chain is repaired this often at most: a server that cannot agree with itself shall not keep us busy.
const REPAIR_SECONDS: u64 = 600;

/// What a link works for.
pub trait Site: Send + Sync + 'static {
    /// The clearinghouse.
    fn store(&self) -> &Clearinghouse;
    /// What it has for others.
    fn library(&self) -> &Library;
    /// Who is heard.
    fn known(&self) -> Arc<Known>;
    /// What time it is.
    fn now(&self) -> Time;
}

/// How a link is doing.
#[derive(Clone, Debug, Default)]
pub struct LinkStatus {
    /// Whether the last try went well.
    pub is_up: bool,
    /// When the source last gave an answer.
    pub heard: Option<Time>,
    /// Bytes of segments that were fetched.
    pub bytes_in: u64,
    /// Segments that were taken.
    pub segments: u64,
    /// The last time when all chains of a server agreed with its heads, by its key.
    pub agreed: BTreeMap<[u8; 32], Time>,
    /// Chains that differed and were taken again.
    pub repairs: u64,
    /// What was not taken, by the short names of the reasons.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Why the last try failed, if so.
    pub trouble: Option<Trouble>,
    /// The reason why segments of a server were refused in the last round, by its key.
    pub refusals: BTreeMap<[u8; 32], String>,
}

/// A link and its record.
#[derive(Debug)]
pub struct Link {
    name: String,
    outage: Outage,
    started: Instant,
    status: Mutex<LinkStatus>,
    repaired: Mutex<BTreeMap<Chain, Time>>,
    offered: Mutex<Offered>,
    charges: Mutex<Charges>,
}

/// The latest offer of the source.
#[derive(Debug, Default)]
struct Offered {
    /// The latest heads of each origin.
    heads: BTreeMap<Origin, Heads>,
    /// Their first sightings.
    sightings: BTreeMap<Origin, Sighting>,
    /// The time of the source's last answer, or none while it is being asked. No news can arrive while segments are fetched.
    answered: Option<Duration>,
}

/// One of the servers whose segments a link fetches.
#[derive(Clone, Debug)]
pub struct PeerView {
    /// Its state.
    pub state: PeerState,
    /// Segments that it has and we lack.
    pub lag_segments: u64,
    /// The seconds by which its clock is ahead of ours, if known.
    pub skew_seconds: Option<i64>,
    /// The time since its heads last changed.
    pub silence: Duration,
}

/// Why a try failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The source gives nothing.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// What was taken could not be kept.
    #[error("failed to keep what was received")]
    Submit(#[from] SubmitError),
    /// What was received is not believed.
    #[error("a segment is not taken: {0}")]
    Rejected(Rejected),
    /// What was received is not what an honest server sends.
    #[error("a segment is not taken: {reason}; the chain is asked for again in {} s", .pause.as_secs())]
    Charged {
        /// Why.
        reason: Rejected,
        /// When it is asked for again.
        pause: Duration,
    },
    /// The engine does not take it.
    #[error("a segment is not taken: {0}")]
    Refused(Refusal),
}

/// What a try came to.
enum Round {
    /// All there is was taken.
    Complete,
    /// Some of it cannot be taken yet.
    Later,
    /// Some of it is refused, and will be for a while.
    Refused,
}

impl Round {
    /// The same, but not complete.
    const fn or_later(self) -> Self {
        match self {
            Self::Complete | Self::Later => Self::Later,
            Self::Refused => Self::Refused,
        }
    }
}

impl Link {
    /// A link to a server or broker that the log calls `name`.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            outage: Outage::new("the link", name.as_str()),
            name,
            started: Instant::now(),
            status: Mutex::default(),
            repaired: Mutex::default(),
            offered: Mutex::default(),
            charges: Mutex::default(),
        }
    }

    /// How it is doing.
    #[must_use]
    pub fn status(&self) -> LinkStatus {
        self.lock().clone()
    }

    /// The state of the server with this key, according to the source's offer.
    #[must_use]
    pub fn view<T: Site>(&self, key: &[u8; 32], site: &T) -> PeerView {
        let (uptime, now, epochs) = (self.started.elapsed(), site.now(), site.library().epochs());
        let (heads, sighting, listened) = self.offered().of(key, uptime);
        let known = site.known();
        let seen = sighting.map(|sighting| (sighting, uptime));
        let lag_segments = site.store().check(|engine| lag(&heads, engine, &known, (&epochs, now), seen));
        let trouble = {
            let status = self.lock();
            status.trouble.clone().or_else(|| status.refusals.get(key).cloned().map(Trouble::Refused))
        };
        let clock_bound = clock_bound(&epochs);
        let evidence = Evidence { trouble, sighting, listened, lag_segments, now, clock_bound };
        let skew_seconds = sighting.and_then(|sighting| sighting.skew);
        PeerView { state: evidence.state(), lag_segments, skew_seconds, silence: evidence.silence() }
    }

    /// Bytes of a server's segments that were refused.
    #[must_use]
    pub fn refused_bytes(&self, key: &[u8; 32]) -> u64 {
        self.charges().refused_bytes(key)
    }

    /// Follows a source for ever: ends when the future is dropped.
    pub async fn follow<S: Source, T: Site>(&self, source: &S, site: &T) {
        let (mut seen, mut wait, mut retry) = (Vec::new(), Duration::ZERO, RETRY_MIN);
        loop {
            match self.round(source, site, &mut seen, wait).await {
                Ok(Round::Complete) => (wait, retry) = (self.wait(), RETRY_MIN),
                Ok(Round::Later) => {
                    (wait, retry) = (Duration::ZERO, RETRY_MIN);
                    seen.clear();
                    tokio::time::sleep(AGAIN).await;
                }
                Ok(Round::Refused) => {
                    wait = Duration::ZERO;
                    seen.clear();
                    retry = (retry * 2).min(RETRY_MAX);
                    tokio::time::sleep(retry).await;
                }
                Err(error) => {
                    self.note_failure(&error);
                    seen.clear();
                    wait = Duration::ZERO;
                    tokio::time::sleep(retry).await;
                    retry = (retry * 2).min(RETRY_MAX);
                }
            }
        }
    }

    /// How long to wait for news: not longer than until a chain may be asked for again that was refused.
    fn wait(&self) -> Duration {
        let pause = self.charges().shortest_pause(self.started.elapsed());
        pause.map_or(WAIT, |pause| pause.clamp(AGAIN, WAIT))
    }

    /// Asks once what there is, and takes it.
    async fn round<S: Source, T: Site>(
        &self,
        source: &S,
        site: &T,
        seen: &mut Vec<u8>,
        wait: Duration,
    ) -> Result<Round, LinkError> {
        let offer = self.ask(source, seen, wait).await?;
        let known = site.known();
        let (heads, rejected) = offered(&offer.heads, site.library().realm(), &known);
        rejected.iter().for_each(|rejected| self.count(rejected.name()));
        self.keep_heads(site, &heads);
        let heads: Vec<Heads> = heads.into_iter().map(|(heads, _)| heads).collect();
        self.offered().note(latest(&heads), site.now(), self.started.elapsed());
        if site.store().check(|engine| heads.iter().any(|heads| forgot(heads, engine))) {
            begin_new_life(site).await;
        }
        let drifted = self.repair(site, &heads).await?;
        let round = self.take_all(source, site, &heads, &known).await?;
        self.note_round(site, &drifted, rejected.first().filter(|_| heads.is_empty()));
        *seen = offer.tag;
        let is_early = site.store().check(|engine| heads.iter().any(|heads| is_early(heads, engine)));
        Ok(if is_early { round.or_later() } else { round })
    }

    /// Asks the source for its offer. News can arrive only while this call runs.
    async fn ask<S: Source>(&self, source: &S, seen: &[u8], wait: Duration) -> Result<Offer, TransportError> {
        self.offered().answered = None;
        let offer = source.offer(seen, wait).await;
        self.offered().answered = Some(self.started.elapsed());
        offer
    }

    /// Notes a successful round: the servers whose chains all agree now, and the reason if nothing on offer can be believed.
    fn note_round<T: Site>(&self, site: &T, drifted: &BTreeSet<[u8; 32]>, rejected: Option<&Rejected>) {
        let keys: BTreeSet<[u8; 32]> = self.offered().heads.keys().map(|origin| origin.key).collect();
        let agreeing = keys.difference(drifted).filter_map(|key| {
            let view = self.view(key, site);
            (view.lag_segments == 0).then(|| (*key, Time(site.now().0.saturating_sub(view.silence.as_secs()))))
        });
        let agreeing: Vec<([u8; 32], Time)> = agreeing.collect();
        // Something arrived, even if it is not believed; why not has a line of its own.
        self.outage.recover();
        let mut status = self.lock();
        status.is_up = true;
        status.heard = Some(site.now());
        status.trouble = rejected.map(|rejected| Trouble::Refused(format!("its heads: {rejected}")));
        status.agreed.extend(agreeing);
    }

    /// Heads of nodes are passed on.
    fn keep_heads<T: Site>(&self, site: &T, heads: &[(Heads, &[u8])]) {
        for (heads, bytes) in heads {
            let is_kept = site.store().check(|engine| {
                is_passed_on(engine, &heads.origin()) && engine.exchange().own() != Some(heads.origin())
            });
            if is_kept {
                site.library().keep(heads, bytes);
            }
        }
    }

    /// Fetches again the chains that differ from their origins' heads, and returns the keys of these origins.
    async fn repair<T: Site>(&self, site: &T, heads: &[Heads]) -> Result<BTreeSet<[u8; 32]>, LinkError> {
        let drifted: Vec<(Chain, Drift)> =
            site.store().check(|engine| heads.iter().flat_map(|heads| drifts(heads, engine)).collect());
        for (chain, drift) in &drifted {
            self.repair_one(site, chain, *drift).await?;
        }
        Ok(drifted.iter().map(|(chain, _)| chain.origin.key).collect())
    }

    /// Takes a chain again, unless that was done lately.
    async fn repair_one<T: Site>(&self, site: &T, chain: &Chain, drift: Drift) -> Result<(), LinkError> {
        if !self.may_repair(chain, site.now()) {
            return Ok(());
        }
        tracing::warn!(
            book = chain.book.name(),
            generation = chain.generation,
            ?drift,
            "a chain differs from its origin's: it is taken again"
        );
        submit(site, vec![Event::Repair { now: site.now(), chain: *chain }]).await?;
        if let Err(error) = site.library().forget(chain) {
            tracing::warn!(%error, "failed to remove the log of a chain that is taken again");
        }
        self.lock().repairs += 1;
        Ok(())
    }

    fn may_repair(&self, chain: &Chain, now: Time) -> bool {
        let mut repaired = self.repaired.lock().unwrap_or_else(PoisonError::into_inner);
        repaired.retain(|_, at| now.since(*at) < REPAIR_SECONDS);
        let is_due = !repaired.contains_key(chain);
        if is_due {
            repaired.insert(*chain, now);
        }
        is_due
    }

    async fn take_all<S: Source, T: Site>(
        &self,
        source: &S,
        site: &T,
        heads: &[Heads],
        known: &Known,
    ) -> Result<Round, LinkError> {
        let wants = site.store().check(|engine| wanted(heads, engine, known));
        let (mut round, mut refusals) = (Round::Complete, BTreeMap::new());
        for want in wants {
            let key = want.chain.origin.key;
            if !self.charges().may_ask(&want.chain, self.started.elapsed()) {
                let reason = self.lock().refusals.get(&key).cloned();
                let unsaid = || "its segments were refused lately".to_owned();
                refusals.entry(key).or_insert_with(|| reason.unwrap_or_else(unsaid));
                continue;
            }
            match self.take(source, site, want, known).await {
                Ok(Round::Complete) => {}
                Ok(Round::Later | Round::Refused) => round = round.or_later(),
                // One chain that goes wrong does not keep the others from coming: who offers it may not have it yet.
                Err(LinkError::Transport(TransportError::Missing)) => round = round.or_later(),
                // The generation begins or ends a moment earlier or later here than there.
                Err(LinkError::Refused(Refusal::Exchange(
                    ExchangeRefusal::NotYet | ExchangeRefusal::NotNext | ExchangeRefusal::Expired,
                ))) => round = round.or_later(),
                // It is asked for again when its pause is over; the others need not wait for that.
                Err(error @ LinkError::Charged { .. }) => {
                    refusals.insert(key, describe(&error));
                }
                Err(error @ (LinkError::Rejected(_) | LinkError::Refused(_))) => {
                    refusals.insert(key, describe(&error));
                    round = Round::Refused;
                }
                Err(error) => return Err(error),
            }
        }
        self.note_refusals(refusals);
        Ok(round)
    }

    fn note_refusals(&self, refusals: BTreeMap<[u8; 32], String>) {
        let mut status = self.lock();
        for (key, reason) in refusals.iter().filter(|(key, reason)| status.refusals.get(*key) != Some(*reason)) {
            let (peer, origin) = (self.name.as_str(), digits(key));
            tracing::warn!(peer, origin, reason, "segments of another server are not taken");
        }
        status.refusals = refusals;
    }

    /// Takes one chain as far as it goes.
    async fn take<S: Source, T: Site>(
        &self,
        source: &S,
        site: &T,
        mut want: Want,
        known: &Known,
    ) -> Result<Round, LinkError> {
        while want.from.sequence < want.to.sequence {
            let log = source.fetch(&want.chain, want.from.offset).await?;
            if log.is_empty() {
                return Ok(Round::Later);
            }
            let (received, rejected) = accept(&log, &want, site.library().realm(), known);
            let is_stuck = received.is_empty();
            self.take_segments(site, &want, &log, received).await?;
            want.from = site.store().check(|engine| engine.exchange().frontier(&want.chain));
            if let Some(rejected) = rejected.filter(|_| is_stuck) {
                self.count(rejected.name());
                if rejected == Rejected::Forked {
                    self.repair_one(site, &want.chain, Drift::Forked).await?;
                }
                return Err(self.charge(&want.chain, log.len(), rejected));
            }
            self.charges().forgive(&want.chain);
        }
        Ok(Round::Complete)
    }

    async fn take_segments<T: Site>(
        &self,
        site: &T,
        want: &Want,
        log: &[u8],
        received: Vec<Received>,
    ) -> Result<(), LinkError> {
        let (mut offset, mut rest) = (want.from.offset, log);
        let is_passed_on = site.store().check(|engine| is_passed_on(engine, &want.chain.origin));
        let mut segments = received.into_iter();
        loop {
            let together: Vec<Received> = segments.by_ref().take(SUBMITTED_TOGETHER).collect();
            if together.is_empty() {
                return Ok(());
            }
            let lengths: Vec<usize> = together.iter().map(|segment| segment.bytes as usize).collect();
            let now = site.now();
            let events = together.into_iter().map(|segment| Event::Received { now, segment: Box::new(segment) });
            let outcomes = submit(site, events.collect()).await?;
            for (outcome, length) in outcomes.iter().zip(lengths) {
                let Some((bytes, behind)) = rest.split_at_checked(length) else { return Ok(()) };
                self.note_taken(outcome, bytes.len())?;
                if is_passed_on && let Err(error) = site.library().keep_segment(&want.chain, offset, bytes) {
                    tracing::warn!(%error, "a segment will not be passed on");
                }
                offset += length as u64;
                rest = behind;
            }
        }
    }

    fn note_taken(&self, outcome: &Outcome, bytes: usize) -> Result<(), LinkError> {
        let mut status = self.lock();
        match outcome {
            Outcome::Taken { .. } => {
                status.segments += 1;
                status.bytes_in += bytes as u64;
                Ok(())
            }
            // Another link was faster.
            Outcome::Refused(Refusal::Exchange(ExchangeRefusal::AlreadyTaken)) => Ok(()),
            Outcome::Refused(refusal) => {
                *status.rejected.entry(refusal_name(refusal)).or_default() += 1;
                Err(LinkError::Refused(*refusal))
            }
            _ => Ok(()),
        }
    }

    fn note_failure(&self, error: &LinkError) {
        let text = describe(error);
        self.outage.fail(&text);
        let trouble = match error {
            LinkError::Transport(TransportError::Unreachable(_)) => Trouble::Unreachable(text),
            _ => Trouble::Refused(text),
        };
        let mut status = self.lock();
        status.is_up = false;
        status.trouble = Some(trouble);
    }

    /// Charges a refused log to its origin, if it is to blame.
    fn charge(&self, chain: &Chain, bytes: usize, rejected: Rejected) -> LinkError {
        if !rejected.is_charged() {
            return LinkError::Rejected(rejected);
        }
        let pause = self.charges().charge(chain, bytes as u64, self.started.elapsed());
        LinkError::Charged { reason: rejected, pause }
    }

    fn charges(&self) -> MutexGuard<'_, Charges> {
        self.charges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, reason: &'static str) {
        *self.lock().rejected.entry(reason).or_default() += 1;
    }

    fn offered(&self) -> MutexGuard<'_, Offered> {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing here panics half-way, so a poisoned status is a good one.
    fn lock(&self) -> MutexGuard<'_, LinkStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Offered {
    /// Records the heads of a new offer.
    fn note(&mut self, heads: BTreeMap<Origin, Heads>, now: Time, uptime: Duration) {
        let sighting = |(origin, heads): (&Origin, &Heads)| {
            (*origin, Sighting::next(self.sightings.get(origin).copied(), heads.time(), now, uptime))
        };
        self.sightings = heads.iter().map(sighting).collect();
        self.heads = heads;
    }

    /// A server's heads, the sighting of the latest, and the latest time at which news could have arrived.
    fn of(&self, key: &[u8; 32], uptime: Duration) -> (Vec<Heads>, Option<Sighting>, Duration) {
        let heads = self.heads.values().filter(|heads| heads.origin().key == *key).cloned().collect();
        let sightings = self.sightings.iter().filter(|(origin, _)| origin.key == *key).map(|(_, sighting)| *sighting);
        (heads, sightings.max_by_key(|sighting| (sighting.seen, sighting.time)), self.answered.unwrap_or(uptime))
    }
}

/// Returns true if heads have segments of the next generation, which begins soon here if both clocks are right.
fn is_early(heads: &Heads, engine: &Engine) -> bool {
    heads.chains().any(|(chain, _)| {
        !engine.is_live(chain.book, chain.generation)
            && chain.generation > 0
            && engine.is_live(chain.book, chain.generation - 1)
    })
}

/// Goes on as another incarnation; if that cannot be now, the next round tries again.
async fn begin_new_life<T: Site>(site: &T) {
    match begin_again(site.store(), site.now()) {
        Ok(origin) => tracing::warn!(
            incarnation = origin.incarnation,
            "others know more of what this server said than it does itself: it goes on as another incarnation"
        ),
        Err(error) => tracing::warn!(%error, "failed to go on as another incarnation"),
    }
}

async fn submit<T: Site>(site: &T, events: Vec<Event>) -> Result<Vec<Outcome>, LinkError> {
    let (sender, receiver) = oneshot::channel();
    site.store().submit_with(events, move |result| drop(sender.send(result)));
    Ok(receiver.await.unwrap_or(Err(SubmitError::Closed))?)
}

/// The latest heads of each origin; among equally late ones, those with the most chains.
fn latest(heads: &[Heads]) -> BTreeMap<Origin, Heads> {
    let mut latest: BTreeMap<Origin, Heads> = BTreeMap::new();
    for heads in heads {
        let says_more = |kept: &Heads| (kept.time(), kept.chains().count()) < (heads.time(), heads.chains().count());
        if latest.get(&heads.origin()).is_none_or(says_more) {
            latest.insert(heads.origin(), heads.clone());
        }
    }
    latest
}

/// An error with its causes, in one line.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// What the engine's refusals are called in counters.
const fn refusal_name(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Exchange(ExchangeRefusal::AlreadyTaken) => "already_taken",
        Refusal::Exchange(ExchangeRefusal::NotNext) => "not_next",
        Refusal::Exchange(ExchangeRefusal::UnknownOrigin) => "unknown_origin",
        Refusal::Exchange(ExchangeRefusal::NotShared) => "not_shared",
        Refusal::Exchange(ExchangeRefusal::Payload) => "payload",
        Refusal::Exchange(ExchangeRefusal::Saturated) => "saturated",
        Refusal::Exchange(ExchangeRefusal::NoRoom) => "no_room",
        Refusal::Exchange(ExchangeRefusal::NotYet) => "not_yet",
        Refusal::Exchange(ExchangeRefusal::Expired) => "expired",
        _ => "refused",
    }
}
