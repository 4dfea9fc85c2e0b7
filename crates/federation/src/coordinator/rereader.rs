//! The rereader: what to read from our own shelf while the engine rebuilds its books without a forgotten server.
//!
//! [`Rereader::next`] returns the next request. The driver of the rereader carries it out, and reports the result with
//! [`read`](Rereader::read) or [`submitted`](Rereader::submitted). If a request fails, the driver reports nothing, and
//! the next call of [`Rereader::next`] starts again.
//!
//! A crash loses nothing: the progress is part of the engine's state. A log that is missing or damaged is fetched from
//! other servers. If it is one of our own, a new incarnation starts, as after any loss of our logs.

use bruit_engine::event::Event;
use bruit_engine::exchange::{Chain, ExchangeRefusal, Frontier, Relation};
use bruit_engine::realm::RealmId;
use bruit_engine::time::Time;
use bruit_engine::{Engine, Outcome, Refusal, Rereading};

use super::judge::{Known, Want, accept};
use super::next_incarnation;
use crate::keys::PublicKey;

/// Number of bytes of a log that are read at once. Checks can run between any two segments in these bytes.
pub const REREAD_BYTES: usize = 1 << 20;

/// The next step for the driver of a rereader.
#[derive(Debug)]
pub enum RereadRequest {
    /// Nothing is being forgotten.
    Idle,
    /// The engine cannot continue yet, for example because a snapshot is being written. Ask again later.
    Wait,
    /// Read at most [`REREAD_BYTES`] of a log on the shelf, starting at an offset, and report them with
    /// [`Rereader::read`]. The bytes include segments of our own that are not released yet.
    Read {
        /// The chain.
        chain: Chain,
        /// The offset in its log.
        offset: u64,
    },
    /// Write events to the journal and apply them, and report the outcomes with [`Rereader::submitted`].
    Submit(Vec<Event>),
    /// Discard the stored log of a chain that is fetched again.
    ForgetLog(Chain),
}

/// The request that has not been answered yet, or the next step.
#[derive(Debug, Default)]
enum Step {
    #[default]
    Begin,
    Read(Rereading),
    Accepted(Chain, Vec<Event>),
    Submit(Chain),
    Lost(Chain),
    Replace(Chain),
    Discard(Chain),
    EndStage,
    Wait,
}

/// The reader of our own logs.
#[derive(Debug, Default)]
pub struct Rereader {
    step: Step,
}

impl Rereader {
    /// Returns the next request.
    pub fn next(&mut self, engine: &Engine, now: Time) -> RereadRequest {
        match std::mem::take(&mut self.step) {
            Step::Accepted(chain, events) => {
                self.step = Step::Submit(chain);
                RereadRequest::Submit(events)
            }
            Step::Lost(chain) => self.replace(chain, engine, now),
            Step::Discard(chain) => RereadRequest::ForgetLog(chain),
            Step::Wait => RereadRequest::Wait,
            // A request without an answer has failed.
            Step::Begin | Step::Read(_) | Step::Submit(_) | Step::Replace(_) | Step::EndStage => {
                self.begin(engine, now)
            }
        }
    }

    fn begin(&mut self, engine: &Engine, now: Time) -> RereadRequest {
        if !engine.is_forgetting() {
            return RereadRequest::Idle;
        }
        let Some(part) = engine.rereading() else {
            self.step = Step::EndStage;
            return RereadRequest::Submit(vec![Event::Rebuild { now }]);
        };
        self.step = Step::Read(part);
        RereadRequest::Read { chain: part.chain, offset: part.from.offset }
    }

    /// Reports the result of [`RereadRequest::Read`], which is empty if there is no log.
    pub fn read(&mut self, log: &[u8], realm: RealmId, now: Time) {
        let Step::Read(part) = &self.step else { return };
        let events = events(log, part, realm, now);
        self.step = if events.is_empty() { Step::Lost(part.chain) } else { Step::Accepted(part.chain, events) };
    }

    /// Reports the outcomes of [`RereadRequest::Submit`].
    pub fn submitted(&mut self, outcomes: &[Outcome]) {
        let is_refused = matches!(outcomes.first(), Some(Outcome::Refused(_)));
        self.step = match std::mem::take(&mut self.step) {
            Step::Submit(chain) if outcomes.iter().any(is_unusable) => Step::Lost(chain),
            Step::Replace(_) | Step::EndStage if is_refused => Step::Wait,
            Step::Replace(chain) => Step::Discard(chain),
            _ => Step::Begin,
        };
    }

    /// Replaces a lost log. Its segments are fetched from other servers, which have everything that we have published.
    fn replace(&mut self, chain: Chain, engine: &Engine, now: Time) -> RereadRequest {
        tracing::warn!(book = chain.book.name(), generation = chain.generation, "a log in shelf/ is lost or damaged");
        let exchange = engine.exchange();
        let event = match exchange.own().filter(|own| *own == chain.origin) {
            // After this event, the chain belongs to an earlier incarnation, and the next step fetches it.
            Some(own) => {
                self.step = Step::EndStage;
                next_incarnation(own, exchange.is_cluster(), now)
            }
            None => {
                self.step = Step::Replace(chain);
                Event::Repair { now, chain }
            }
        };
        RereadRequest::Submit(vec![event])
    }
}

/// Returns the events for the next segments of a log, or no events if these segments are lost or damaged.
fn events(log: &[u8], part: &Rereading, realm: RealmId, now: Time) -> Vec<Event> {
    let Ok(key) = PublicKey::from_bytes(&part.chain.origin.key) else { return Vec::new() };
    let known = Known::new([(key, Relation::Cluster)]);
    let to = Frontier { sequence: part.until, ..Frontier::default() };
    let (received, _) = accept(log, &Want { chain: part.chain, from: part.from, to }, realm, &known);
    received.into_iter().map(|segment| Event::Reread { now, segment: Box::new(segment) }).collect()
}

/// Returns true if the engine can never apply the segment.
const fn is_unusable(outcome: &Outcome) -> bool {
    let Outcome::Refused(Refusal::Exchange(refusal)) = outcome else { return false };
    matches!(refusal, ExchangeRefusal::NotNext | ExchangeRefusal::Payload(_))
}
