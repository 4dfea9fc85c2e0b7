//! The condition of a receiver, and the state of the servers whose segments it fetches.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bruit_engine::Refusal;
use bruit_engine::exchange::{ExchangeRefusal, Origin};
use bruit_engine::time::Time;

use super::Receiver;
use crate::coordinator::Moment;
use crate::coordinator::judge::Frontiers;
use crate::coordinator::peer::{Evidence, PeerState, Sighting, Trouble, clock_bound, lag};
use crate::heads::Heads;

/// The state of our own chains according to a source's heads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnChains {
    /// The source has not been asked yet.
    #[default]
    Unknown,
    /// The source names no segments that we lack.
    Complete,
    /// The source names segments that we lost, and no new incarnation could be started yet.
    Lost,
}

/// The condition of a link.
#[derive(Clone, Debug, Default)]
pub struct LinkStatus {
    /// True if the last attempt succeeded.
    pub is_up: bool,
    /// Time of the source's last answer.
    pub heard: Option<Time>,
    /// The state of our own chains according to the source's heads, as of the last round.
    pub own: OwnChains,
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

/// The latest offer of the source.
#[derive(Debug, Default)]
pub(super) struct LatestOffer {
    /// The latest heads of each origin.
    heads: BTreeMap<Origin, Heads>,
    /// The first sighting of the latest heads of each origin.
    sightings: BTreeMap<Origin, Sighting>,
    /// Time of the source's last answer to a request for its offer; `None` while such a request is running. While
    /// segments are fetched, no news can arrive.
    pub(super) answered: Option<Duration>,
}

impl Receiver {
    /// Returns the condition of the link.
    #[must_use]
    pub const fn status(&self) -> &LinkStatus {
        &self.status
    }

    /// Returns the number of refused bytes of a server.
    #[must_use]
    pub fn refused_bytes(&self, key: &[u8; 32]) -> u64 {
        self.charges.refused_bytes(key)
    }

    /// Returns the progress of the present round.
    #[must_use]
    pub const fn round(&self) -> &super::Round {
        &self.round
    }

    /// Returns the state of the server with this key, according to the source's offer.
    #[must_use]
    pub fn view<F: Frontiers>(&self, key: &[u8; 32], state: &F, moment: Moment) -> PeerView {
        let Moment { now, uptime } = moment;
        let (heads, sighting, listened) = self.latest.of(key, uptime);
        let seen = sighting.map(|sighting| (sighting, uptime));
        let lag_segments = lag(&heads, state, &self.known, (&self.epochs, now), seen);
        let refused = || self.status.refusals.get(key).cloned().map(Trouble::Refused);
        let trouble = self.status.trouble.clone().or_else(refused);
        let clock_bound = clock_bound(&self.epochs);
        let evidence = Evidence { trouble, sighting, listened, lag_segments, now, clock_bound };
        let skew_seconds = sighting.and_then(|sighting| sighting.skew);
        PeerView { state: evidence.state(), lag_segments, skew_seconds, silence: evidence.silence() }
    }
}

impl LinkStatus {
    pub(super) fn count(&mut self, refusal: &ExchangeRefusal) {
        *self.rejected.entry(refusal.name()).or_default() += 1;
    }

    pub(super) fn count_refusal(&mut self, refusal: &Refusal) {
        let name = if let Refusal::Exchange(refusal) = refusal { refusal.name() } else { "refused" };
        *self.rejected.entry(name).or_default() += 1;
    }
}

impl LatestOffer {
    /// Records a new offer: the latest heads of each origin. If several heads of an origin have the same time, those
    /// with the most chains count as the latest.
    pub(super) fn note(&mut self, offered: &[Heads], moment: Moment) {
        let mut latest: BTreeMap<Origin, Heads> = BTreeMap::new();
        for heads in offered {
            let says_more =
                |kept: &Heads| (kept.time(), kept.chains().count()) < (heads.time(), heads.chains().count());
            if latest.get(&heads.origin()).is_none_or(says_more) {
                latest.insert(heads.origin(), heads.clone());
            }
        }
        let sighting = |(origin, heads): (&Origin, &Heads)| {
            let before = self.sightings.get(origin).copied();
            (*origin, Sighting::next(before, heads.time(), moment.now, moment.uptime))
        };
        self.sightings = latest.iter().map(sighting).collect();
        self.heads = latest;
    }

    /// Returns the keys of the servers in the offer.
    pub(super) fn keys(&self) -> BTreeSet<[u8; 32]> {
        self.heads.keys().map(|origin| origin.key).collect()
    }

    /// Returns a server's heads, the sighting of the latest, and the latest time at which news could have arrived.
    fn of(&self, key: &[u8; 32], uptime: Duration) -> (Vec<Heads>, Option<Sighting>, Duration) {
        let heads = self.heads.values().filter(|heads| heads.origin().key == *key).cloned().collect();
        let sightings = self.sightings.iter().filter(|(origin, _)| origin.key == *key).map(|(_, sighting)| *sighting);
        (heads, sightings.max_by_key(|sighting| (sighting.seen, sighting.time)), self.answered.unwrap_or(uptime))
    }
}
