//! A link to a source: asks what there is, takes what is missing, and keeps a record of how that goes.
//!
//! Nothing that goes wrong here can count twice or lose anything: the engine takes the next segment of a chain or nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bruit_engine::event::Event;
use bruit_engine::exchange::{Book, Chain, Frontier, Origin, Received};
use bruit_engine::generations::LIVE_GENERATIONS;
use bruit_engine::time::Time;
use bruit_engine::{Engine, ExchangeRefusal, Outcome, Refusal};
use bruit_store::{Clearinghouse, SubmitError};
use tokio::sync::oneshot;

use crate::exporter::begin_again;
use crate::heads::Heads;
use crate::judge::{Drift, Known, Want, accept, drifts, forgot, offered, wanted};
use crate::library::{Library, is_passed_on};
use crate::rejected::Rejected;
use crate::transport::{Source, TransportError};

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
    /// Segments that the heads name and we lack, after the last try.
    pub lag_segments: u64,
    /// When all chains agreed with the heads of their origins.
    pub agreed: Option<Time>,
    /// Chains that differed and were taken again.
    pub repairs: u64,
    /// What was not taken, by the short names of the reasons.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Why the last try failed, if so.
    pub error: Option<String>,
}

/// A link and its record.
#[derive(Debug, Default)]
pub struct Link {
    status: Mutex<LinkStatus>,
    repaired: Mutex<BTreeMap<Chain, Time>>,
    /// The latest heads of each origin that the source offered.
    heads: Mutex<BTreeMap<Origin, Heads>>,
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
    /// How it is doing.
    #[must_use]
    pub fn status(&self) -> LinkStatus {
        self.lock().clone()
    }

    /// How many segments of the server with this key the source has and we lack; nothing if it offers none of it.
    #[must_use]
    pub fn lag_of<T: Site>(&self, key: &[u8; 32], site: &T) -> Option<u64> {
        let heads: Vec<Heads> = {
            let heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
            heads.values().filter(|heads| heads.origin().key == *key).cloned().collect()
        };
        let known = site.known();
        (!heads.is_empty()).then(|| site.store().check(|engine| lag(&wanted(&heads, engine, &known))))
    }

    /// Follows a source for ever: ends when the future is dropped.
    pub async fn follow<S: Source, T: Site>(&self, source: &S, site: &T) {
        let (mut seen, mut wait, mut retry) = (Vec::new(), Duration::ZERO, RETRY_MIN);
        loop {
            match self.round(source, site, &mut seen, wait).await {
                Ok(Round::Complete) => (wait, retry) = (WAIT, RETRY_MIN),
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

    /// Asks once what there is, and takes it.
    async fn round<S: Source, T: Site>(
        &self,
        source: &S,
        site: &T,
        seen: &mut Vec<u8>,
        wait: Duration,
    ) -> Result<Round, LinkError> {
        let offer = source.offer(seen, wait).await?;
        let known = site.known();
        let (heads, rejected) = offered(&offer.heads, site.library().realm(), &known);
        rejected.iter().for_each(|rejected| self.count(rejected.name()));
        self.keep_heads(site, &heads);
        let heads: Vec<Heads> = heads.into_iter().map(|(heads, _)| heads).collect();
        *self.heads.lock().unwrap_or_else(PoisonError::into_inner) = latest(&heads);
        if site.store().check(|engine| heads.iter().any(|heads| forgot(heads, engine))) {
            begin_new_life(site).await;
        }
        let is_agreed = self.repair(site, &heads).await?;
        let round = self.take_all(source, site, &heads, &known).await?;
        let lag = site.store().check(|engine| lag(&wanted(&heads, engine, &known)));
        let mut status = self.lock();
        status.is_up = true;
        if !matches!(round, Round::Refused) {
            status.error = None;
        }
        status.heard = Some(site.now());
        status.lag_segments = lag;
        if is_agreed && lag == 0 {
            status.agreed = Some(site.now());
        }
        drop(status);
        *seen = offer.tag;
        Ok(round)
    }

    /// Heads of nodes are passed on.
    fn keep_heads<T: Site>(&self, site: &T, heads: &[(Heads, &[u8])]) {
        // Asked beforehand: whoever has the library's lock must not wait for the engine's.
        let live: BTreeSet<(Book, u64)> = site.store().check(live_generations);
        for (heads, bytes) in heads {
            let is_kept = site.store().check(|engine| {
                is_passed_on(engine, &heads.origin()) && engine.exchange().own() != Some(heads.origin())
            });
            if is_kept {
                site.library().keep(heads, bytes, &live);
            }
        }
    }

    /// Chains that differ from what their origins say are taken again. Whether there were none.
    async fn repair<T: Site>(&self, site: &T, heads: &[Heads]) -> Result<bool, LinkError> {
        let drifted: Vec<(Chain, Drift)> =
            site.store().check(|engine| heads.iter().flat_map(|heads| drifts(heads, engine)).collect());
        for (chain, drift) in &drifted {
            self.repair_one(site, chain, *drift).await?;
        }
        Ok(drifted.is_empty())
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
        let mut round = Round::Complete;
        for want in wants {
            match self.take(source, site, want, known).await {
                Ok(Round::Complete) => {}
                Ok(Round::Later | Round::Refused) => round = round.or_later(),
                // One chain that goes wrong does not keep the others from coming: who offers it may not have it yet.
                Err(LinkError::Transport(TransportError::Missing)) => round = round.or_later(),
                Err(LinkError::Refused(Refusal::Exchange(ExchangeRefusal::NotYet | ExchangeRefusal::NotNext))) => {
                    round = round.or_later();
                }
                Err(error @ (LinkError::Rejected(_) | LinkError::Refused(_))) => {
                    self.note_failure(&error);
                    round = Round::Refused;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(round)
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
                return Err(LinkError::Rejected(rejected));
            }
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
        let mut status = self.lock();
        if status.error.as_ref() != Some(&text) {
            tracing::warn!(error = %text, "a link to another server fails");
        }
        status.is_up = false;
        status.error = Some(text);
    }

    fn count(&self, reason: &'static str) {
        *self.lock().rejected.entry(reason).or_default() += 1;
    }

    /// Nothing here panics half-way, so a poisoned status is a good one.
    fn lock(&self) -> MutexGuard<'_, LinkStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

/// The generations of every book that are live.
fn live_generations(engine: &Engine) -> BTreeSet<(Book, u64)> {
    let of = |book: Book| {
        let current = engine.now().epoch(book.epoch_seconds(engine.realm()));
        (current.saturating_sub(LIVE_GENERATIONS)..=current).map(move |generation| (book, generation))
    };
    Book::ALL.into_iter().flat_map(of).filter(|&(book, generation)| engine.is_live(book, generation)).collect()
}

/// Of each origin the heads that say most: those of all books.
fn latest(heads: &[Heads]) -> BTreeMap<Origin, Heads> {
    let mut latest: BTreeMap<Origin, Heads> = BTreeMap::new();
    for heads in heads {
        let says_more = |kept: &Heads| kept.chains().count() < heads.chains().count();
        if latest.get(&heads.origin()).is_none_or(says_more) {
            latest.insert(heads.origin(), heads.clone());
        }
    }
    latest
}

/// How many segments are missing.
fn lag(wants: &[Want]) -> u64 {
    let missing = |(from, to): (Frontier, Frontier)| to.sequence.saturating_sub(from.sequence);
    wants.iter().map(|want| missing((want.from, want.to))).sum()
}

/// An error with its causes, in one line.
fn describe(error: &dyn std::error::Error) -> String {
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
