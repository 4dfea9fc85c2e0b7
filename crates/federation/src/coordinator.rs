//! The coordinator: every decision of the exchange, without I/O, clock, threads or randomness.
//!
//! State and time come in as arguments, requests go out, and the answers come back in. So three callers run the same
//! code: the links of a server, the follower of a replica, and the simulated networks. Each of them only carries bytes
//! and submits events.
//!
//! | module | contents |
//! |---|---|
//! | [`receiver`] | what to request from a source, apply, repair and forward; when to retry or start an incarnation |
//! | [`exporter`] | what to seal, hold back, release and tidy, and when |
//! | [`rereader`] | what to read from our own shelf again, to forget a server |
//! | [`publisher`] | what to copy to a sink, such as a broker |
//! | [`judge`] | the segments to request, and the checks of the answers |
//! | [`peer`] | the state of another server, derived from its heads and their time |
//! | [`charges`] | limits on servers that send invalid segments |
//! | [`heads_table`] | the latest heads received from a broker |
//! | [`export`] | the next segment of this server's own chains |
//! | `outage_log` | the log lines of an operation that fails for a while |

pub mod charges;
pub mod export;
pub mod exporter;
pub mod heads_table;
pub mod judge;
mod outage_log;
pub mod peer;
pub mod publisher;
pub mod receiver;
pub mod rereader;

use std::time::Duration;

use bruit_engine::Engine;
use bruit_engine::event::Event;
use bruit_engine::exchange::{Origin, OriginChange};
use bruit_engine::time::Time;

/// The present moment, as shown by two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The server's clock, which may be wrong and may jump.
    pub now: Time,
    /// A monotonic clock.
    pub uptime: Duration,
}

/// Returns the event that starts the incarnation after `own`. The number of the new incarnation is greater than all
/// earlier numbers, even if the clock is wrong.
#[must_use]
pub(crate) fn next_incarnation(own: Origin, is_cluster: bool, now: Time) -> Event {
    let origin = Origin { incarnation: now.0.max(own.incarnation.saturating_add(1)), ..own };
    Event::Origin { now, change: OriginChange::Begin { origin, cluster: is_cluster } }
}

/// Returns the event that starts exporting under `key`, unless the engine already does so with these settings.
#[must_use]
pub(crate) fn start_of_export(engine: &Engine, key: [u8; 32], is_cluster: bool, now: Time) -> Option<Event> {
    let exchange = engine.exchange();
    let begin = |origin| Event::Origin { now, change: OriginChange::Begin { origin, cluster: is_cluster } };
    match exchange.own().filter(|own| own.key == key) {
        Some(_) if exchange.is_cluster() == is_cluster => None,
        Some(own) => Some(begin(own)),
        None => {
            let earlier = exchange.chains().map(|(chain, _)| chain.origin).filter(|origin| origin.key == key);
            let last = earlier.map(|origin| origin.incarnation).max();
            let incarnation = last.map_or(now.0, |last| now.0.max(last.saturating_add(1)));
            Some(begin(Origin { key, incarnation }))
        }
    }
}
