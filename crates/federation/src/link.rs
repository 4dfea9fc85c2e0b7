//! A link to a source: polls its offer, applies missing segments, and records the condition of the link.
//!
//! No failure in this module can count anything twice or lose anything: the engine accepts only the next segment of a
//! chain.

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
use crate::exporter::begin_incarnation;
use crate::heads::Heads;
use crate::judge::{Drift, Known, Want, accept, drifts, has_lost_segments, offered, wanted};
use crate::library::{Library, is_passed_on};
use crate::outage::Outage;
use crate::peer::{Evidence, PeerState, Sighting, Trouble, clock_bound, lag};
use crate::rejected::Rejected;
use crate::transport::paths::digits;
use crate::transport::{Offer, Source, TransportError};

/// Maximum time that a source may wait for news before it answers.
pub const WAIT: Duration = Duration::from_secs(30);

/// Minimum and maximum delay before a failing source is tried again.
const RETRY_MIN: Duration = Duration::from_millis(250);
/// See [`RETRY_MIN`].
const RETRY_MAX: Duration = Duration::from_secs(15);

/// Delay before a segment that could not be applied yet is requested again.
const LATER_DELAY: Duration = Duration::from_secs(1);

/// Number of segments submitted together: less than half of the store's queue.
const SUBMITTED_TOGETHER: usize = 64;

/// Minimum interval between two repairs of a chain, so that an inconsistent server cannot keep us busy.
const REPAIR_SECONDS: u64 = 600;

/// The server that a link works for.
pub trait Site: Send + Sync + 'static {
    /// Returns the clearinghouse.
    fn store(&self) -> &Clearinghouse;
    /// Returns the library.
    fn library(&self) -> &Library;
    /// Returns the known servers.
    fn known(&self) -> Arc<Known>;
    /// Returns the present time.
    fn now(&self) -> Time;
}

/// The condition of a link.
#[derive(Clone, Debug, Default)]
pub struct LinkStatus {
    /// True if the last attempt succeeded.
    pub is_up: bool,
    /// Time of the source's last answer.
    pub heard: Option<Time>,
    /// Number of segment bytes fetched.
    pub bytes_in: u64,
    /// Number of segments applied.
    pub segments: u64,
    /// The last time when all chains of a server matched its heads, by the key of the server.
    pub agreed: BTreeMap<[u8; 32], Time>,
    /// Number of chains that differed and were fetched again.
    pub repairs: u64,
    /// Number of refusals, by the short names of the reasons.
    pub rejected: BTreeMap<&'static str, u64>,
    /// The reason why the last attempt failed, if it did.
    pub trouble: Option<Trouble>,
    /// The reasons why segments were refused in the last round, by the key of the origin's server.
    pub refusals: BTreeMap<[u8; 32], String>,
}

/// A link and its status.
#[derive(Debug)]
pub struct Link {
    name: String,
    outage: Outage,
    started: Instant,
    status: Mutex<LinkStatus>,
    repaired: Mutex<BTreeMap<Chain, Time>>,
    offered: Mutex<LatestOffer>,
    charges: Mutex<Charges>,
}

/// The latest offer of the source.
#[derive(Debug, Default)]
struct LatestOffer {
    /// The latest heads of each origin.
    heads: BTreeMap<Origin, Heads>,
    /// The first sighting of the latest heads of each origin.
    sightings: BTreeMap<Origin, Sighting>,
    /// Time of the source's last answer; `None` while a request is running. No news can arrive while segments are
    /// fetched.
    answered: Option<Duration>,
}

/// One of the servers whose segments a link fetches.
#[derive(Clone, Debug)]
pub struct PeerView {
    /// State of the server.
    pub state: PeerState,
    /// Number of segments that the server has and we lack.
    pub lag_segments: u64,
    /// Seconds by which the server's clock is ahead of ours, if known.
    pub skew_seconds: Option<i64>,
    /// Time since the server's heads last changed.
    pub silence: Duration,
}

/// The reason why an attempt failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The source could not be read.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The segments could not be stored.
    #[error("failed to store the received segments")]
    Submit(#[from] SubmitError),
    /// The received data is invalid.
    #[error("a segment was refused: {0}")]
    Rejected(Rejected),
    /// The received data cannot come from an honest server.
    #[error("a segment was refused: {reason}; the chain is requested again in {} s", .pause.as_secs())]
    Charged {
        /// The reason.
        reason: Rejected,
        /// Time until the data is requested again.
        pause: Duration,
    },
    /// The engine refused the segments.
    #[error("a segment was refused: {0}")]
    Refused(Refusal),
}

/// The result of a round.
enum Round {
    /// The whole offer was applied.
    Complete,
    /// Part of the offer cannot be applied yet.
    Later,
    /// Part of the offer was refused, and will be refused for a while.
    Refused,
}

impl Round {
    /// Downgrades `Complete` to `Later`.
    const fn or_later(self) -> Self {
        match self {
            Self::Complete | Self::Later => Self::Later,
            Self::Refused => Self::Refused,
        }
    }
}

impl Link {
    /// Creates a link to a server or broker called `name` in the log.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            outage: Outage::new("link", name.as_str()),
            name,
            started: Instant::now(),
            status: Mutex::default(),
            repaired: Mutex::default(),
            offered: Mutex::default(),
            charges: Mutex::default(),
        }
    }

    /// Returns the condition of the link.
    #[must_use]
    pub fn status(&self) -> LinkStatus {
        self.lock().clone()
    }

    /// Returns the state of the server with this key, according to the source's offer.
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

    /// Returns the number of refused bytes of a server.
    #[must_use]
    pub fn refused_bytes(&self, key: &[u8; 32]) -> u64 {
        self.charges().refused_bytes(key)
    }

    /// Follows a source until the future is dropped.
    pub async fn follow<S: Source, T: Site>(&self, source: &S, site: &T) {
        let (mut seen, mut wait, mut retry) = (Vec::new(), Duration::ZERO, RETRY_MIN);
        loop {
            match self.round(source, site, &mut seen, wait).await {
                Ok(Round::Complete) => (wait, retry) = (self.wait(), RETRY_MIN),
                Ok(Round::Later) => {
                    (wait, retry) = (Duration::ZERO, RETRY_MIN);
                    seen.clear();
                    tokio::time::sleep(LATER_DELAY).await;
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

    /// Returns the time to wait for news: at most until the next pause of a refused chain ends.
    fn wait(&self) -> Duration {
        let pause = self.charges().shortest_pause(self.started.elapsed());
        pause.map_or(WAIT, |pause| pause.clamp(LATER_DELAY, WAIT))
    }

    /// Requests the offer once, and applies it.
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
        if site.store().check(|engine| heads.iter().any(|heads| has_lost_segments(heads, engine))) {
            start_incarnation(site).await;
        }
        let drifted = self.repair(site, &heads).await?;
        let round = self.take_all(source, site, &heads, &known).await?;
        self.note_round(site, &drifted, rejected.first().filter(|_| heads.is_empty()));
        *seen = offer.tag;
        let is_early = site.store().check(|engine| heads.iter().any(|heads| is_early(heads, engine)));
        Ok(if is_early { round.or_later() } else { round })
    }

    /// Requests the source's offer. News can arrive only during this call.
    async fn ask<S: Source>(&self, source: &S, seen: &[u8], wait: Duration) -> Result<Offer, TransportError> {
        self.offered().answered = None;
        let offer = source.offer(seen, wait).await;
        self.offered().answered = Some(self.started.elapsed());
        offer
    }

    /// Notes a successful round: the servers with which we agree on all chains, and the reason if nothing on offer is
    /// valid. `drifted` has the keys of servers with chains that differ.
    fn note_round<T: Site>(&self, site: &T, drifted: &BTreeSet<[u8; 32]>, rejected: Option<&Rejected>) {
        let keys: BTreeSet<[u8; 32]> = self.offered().heads.keys().map(|origin| origin.key).collect();
        let agreeing = keys.difference(drifted).filter_map(|key| {
            let view = self.view(key, site);
            (view.lag_segments == 0).then(|| (*key, Time(site.now().0.saturating_sub(view.silence.as_secs()))))
        });
        let agreeing: Vec<([u8; 32], Time)> = agreeing.collect();
        // The source answered, even if the answer is invalid; that is logged separately.
        self.outage.recover();
        let mut status = self.lock();
        status.is_up = true;
        status.heard = Some(site.now());
        status.trouble = rejected.map(|rejected| Trouble::Refused(format!("its heads: {rejected}")));
        status.agreed.extend(agreeing);
    }

    /// Stores heads of nodes for forwarding.
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

    /// Fetches the chains that differ from their origins' heads again, and returns the keys of these origins.
    async fn repair<T: Site>(&self, site: &T, heads: &[Heads]) -> Result<BTreeSet<[u8; 32]>, LinkError> {
        let drifted: Vec<(Chain, Drift)> =
            site.store().check(|engine| heads.iter().flat_map(|heads| drifts(heads, engine)).collect());
        for (chain, drift) in &drifted {
            self.repair_one(site, chain, *drift).await?;
        }
        Ok(drifted.iter().map(|(chain, _)| chain.origin.key).collect())
    }

    /// Fetches a chain again, unless that was done recently.
    async fn repair_one<T: Site>(&self, site: &T, chain: &Chain, drift: Drift) -> Result<(), LinkError> {
        if !self.may_repair(chain, site.now()) {
            return Ok(());
        }
        tracing::warn!(
            book = chain.book.name(),
            generation = chain.generation,
            ?drift,
            "chain differs from its origin; fetching it again"
        );
        submit(site, vec![Event::Repair { now: site.now(), chain: *chain }]).await?;
        if let Err(error) = site.library().forget(chain) {
            tracing::warn!(%error, "failed to remove the log of a chain to fetch again");
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
                let unsaid = || "its segments were refused recently".to_owned();
                refusals.entry(key).or_insert_with(|| reason.unwrap_or_else(unsaid));
                continue;
            }
            match self.take(source, site, want, known).await {
                Ok(Round::Complete) => {}
                Ok(Round::Later | Round::Refused) => round = round.or_later(),
                // A failing chain does not stop the others: the source may not have it yet.
                Err(LinkError::Transport(TransportError::Missing)) => round = round.or_later(),
                // The generation begins or ends slightly earlier or later on this server than on its origin.
                Err(LinkError::Refused(Refusal::Exchange(
                    ExchangeRefusal::NotYet | ExchangeRefusal::NotNext | ExchangeRefusal::Expired,
                ))) => round = round.or_later(),
                // The chain is requested again after its pause; the other chains do not wait for that.
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
            tracing::warn!(peer, origin, reason, "segments refused");
        }
        status.refusals = refusals;
    }

    /// Fetches and applies one chain to its end.
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
                    tracing::warn!(%error, "segment will not be forwarded");
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
            // Another link has already applied the segment.
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

    /// Charges a refused log to its origin, if the origin is to blame.
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

    fn offered(&self) -> MutexGuard<'_, LatestOffer> {
        self.offered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the status. A poisoned lock is ignored, because no code here panics between related changes.
    fn lock(&self) -> MutexGuard<'_, LinkStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LatestOffer {
    /// Records the heads of a new offer.
    fn note(&mut self, heads: BTreeMap<Origin, Heads>, now: Time, uptime: Duration) {
        let sighting = |(origin, heads): (&Origin, &Heads)| {
            (*origin, Sighting::next(self.sightings.get(origin).copied(), heads.time(), now, uptime))
        };
        self.sightings = heads.iter().map(sighting).collect();
        self.heads = heads;
    }

    /// Returns a server's heads, the sighting of the latest, and the latest time at which news could have arrived.
    fn of(&self, key: &[u8; 32], uptime: Duration) -> (Vec<Heads>, Option<Sighting>, Duration) {
        let heads = self.heads.values().filter(|heads| heads.origin().key == *key).cloned().collect();
        let sightings = self.sightings.iter().filter(|(origin, _)| origin.key == *key).map(|(_, sighting)| *sighting);
        (heads, sightings.max_by_key(|sighting| (sighting.seen, sighting.time)), self.answered.unwrap_or(uptime))
    }
}

/// Returns true if heads have segments of the next generation, which will soon begin on this server if both clocks are
/// right.
fn is_early(heads: &Heads, engine: &Engine) -> bool {
    heads.chains().any(|(chain, _)| {
        !engine.is_live(chain.book, chain.generation)
            && chain.generation > 0
            && engine.is_live(chain.book, chain.generation - 1)
    })
}

/// Starts a new incarnation. If that fails, the next round tries again.
async fn start_incarnation<T: Site>(site: &T) {
    match begin_incarnation(site.store(), site.now()) {
        Ok(origin) => {
            tracing::warn!(incarnation = origin.incarnation, "peers hold segments we lost; starting a new incarnation")
        }
        Err(error) => tracing::warn!(%error, "failed to start a new incarnation"),
    }
}

async fn submit<T: Site>(site: &T, events: Vec<Event>) -> Result<Vec<Outcome>, LinkError> {
    let (sender, receiver) = oneshot::channel();
    site.store().submit_with(events, move |result| drop(sender.send(result)));
    Ok(receiver.await.unwrap_or(Err(SubmitError::Closed))?)
}

/// Returns the latest heads of each origin; among equally late ones, those with the most chains.
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

/// Formats an error with its causes on one line. A cause that the text already contains is not repeated.
pub fn describe(error: &dyn std::error::Error) -> String {
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

/// Returns the name of a refusal in counters.
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
