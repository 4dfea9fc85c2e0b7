//! The publisher: decides which parts of the shelf to copy to a sink.
//!
//! The log is authoritative. At the start and after every failure, the publisher queries the sink for the end of each
//! chain, and publishes the rest of the chain again. [`Publisher::next`] returns the requests one after the other. The
//! driver of the publisher carries out each request and reports the result with [`Publisher::answered`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bruit_engine::exchange::Chain;

use super::outage_log::Outage;
use crate::describe;
use crate::shelf::{Reader, Shelf};
use crate::transport::{ARCHIVED_BYTES_MAX, TransportError};

/// Minimum and maximum delay before a failing sink is tried again.
const RETRY_MIN: Duration = Duration::from_millis(250);
/// See [`RETRY_MIN`].
const RETRY_MAX: Duration = Duration::from_secs(10);

/// The next step for the driver of a publisher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishRequest {
    /// Remove all other chains from the sink.
    Retain(Vec<Chain>),
    /// Return the published length of a chain's log.
    Length(Chain),
    /// Publish the segments of a log between two offsets.
    Publish {
        /// The chain.
        chain: Chain,
        /// The published length.
        at: u64,
        /// The readable length.
        end: u64,
    },
    /// Publish signed heads.
    Announce(Vec<u8>),
    /// Archive the log of a chain whose generation is over, up to this length.
    Archive(Chain, u64),
    /// Wait until the shelf changes.
    Wait,
    /// Wait before the next request.
    Sleep(Duration),
}

/// The publisher of our own chains.
#[derive(Debug)]
pub struct Publisher {
    reader: Reader,
    requests: VecDeque<PublishRequest>,
    pending: Option<PublishRequest>,
    published: BTreeMap<Chain, u64>,
    archived: BTreeSet<Chain>,
    /// The heads that the sink has. They are published only if they changed: the shelf also changes when heads of other
    /// servers arrive, and the sink would send ours to every server each time.
    announced: Vec<u8>,
    is_fresh: bool,
    retry: Duration,
    outage: Outage,
}

impl Publisher {
    /// Creates a publisher of the chains that `reader` may read. The sink is called `name` in the log.
    #[must_use]
    pub fn new(reader: Reader, name: &str) -> Self {
        Self {
            reader,
            requests: VecDeque::new(),
            pending: None,
            published: BTreeMap::new(),
            archived: BTreeSet::new(),
            announced: Vec::new(),
            is_fresh: true,
            retry: RETRY_MIN,
            outage: Outage::new("publishing", name),
        }
    }

    /// Returns the next request.
    pub fn next(&mut self, shelf: &Shelf) -> PublishRequest {
        if self.requests.is_empty() {
            self.plan(shelf);
        }
        let request = self.requests.pop_front().unwrap_or(PublishRequest::Wait);
        self.pending = Some(request.clone());
        request
    }

    /// Plans the requests that bring the sink up to date.
    fn plan(&mut self, shelf: &Shelf) {
        // Take the heads before the logs, so that they never name more than is published.
        let heads = shelf.own_heads(self.reader);
        let chains = shelf.own_chains();
        let before = self.published.len();
        self.published.retain(|chain, _| chains.iter().any(|(own, _)| own == chain));
        if self.is_fresh || self.published.len() < before {
            self.requests.push_back(PublishRequest::Retain(chains.iter().map(|(chain, _)| *chain).collect()));
            self.is_fresh = false;
        }
        for &(chain, end) in chains.iter().filter(|(chain, _)| self.reader.may_have(chain.book)) {
            match self.published.get(&chain) {
                Some(at) if *at < end => {
                    self.requests.push_back(PublishRequest::Publish { chain, at: *at, end });
                }
                Some(_) => {}
                None => self.requests.push_back(PublishRequest::Length(chain)),
            }
        }
        // Lengths are known before anything is published, and everything is published before heads name it.
        if self.requests.iter().any(|request| matches!(request, PublishRequest::Length(_))) {
            self.requests.retain(|request| !matches!(request, PublishRequest::Publish { .. }));
            return;
        }
        self.requests.extend(heads.filter(|heads| *heads != self.announced).map(PublishRequest::Announce));
        self.plan_archive(&chains);
        self.requests.push_back(PublishRequest::Wait);
    }

    /// Plans to archive the chains of expired generations, once each.
    fn plan_archive(&mut self, chains: &[(Chain, u64)]) {
        self.archived.retain(|chain| chains.iter().any(|(own, _)| own == chain));
        let is_over =
            |chain: &Chain| chains.iter().any(|(own, _)| own.book == chain.book && own.generation > chain.generation);
        for &(chain, end) in chains.iter().filter(|(chain, _)| self.reader.may_have(chain.book) && is_over(chain)) {
            if end <= ARCHIVED_BYTES_MAX as u64 && self.archived.insert(chain) {
                self.requests.push_back(PublishRequest::Archive(chain, end));
            }
        }
    }

    /// Reports the result of the last request: the published length of a chain, for the requests that ask for it.
    pub fn answered(&mut self, result: Result<u64, TransportError>, uptime: Duration) {
        let Some(request) = self.pending.take() else { return };
        match (request, result) {
            // Failures are retried after the next start; until then, the servers still have the logs.
            (PublishRequest::Archive(..), Err(error)) => {
                tracing::warn!(error = describe(&error), "failed to archive an expired generation");
            }
            (_, Err(error)) => self.fail(&error, uptime),
            (PublishRequest::Length(chain) | PublishRequest::Publish { chain, .. }, Ok(length)) => {
                self.published.insert(chain, length);
            }
            (PublishRequest::Announce(heads), Ok(_)) => {
                self.announced = heads;
                self.outage.recover(uptime);
                self.retry = RETRY_MIN;
            }
            (_, Ok(_)) => {}
        }
    }

    fn fail(&mut self, error: &TransportError, uptime: Duration) {
        self.outage.fail(&describe(error), uptime);
        self.requests.clear();
        self.published.clear();
        self.announced.clear();
        self.is_fresh = true;
        self.requests.push_back(PublishRequest::Sleep(self.retry));
        self.retry = (self.retry * 2).min(RETRY_MAX);
    }
}
