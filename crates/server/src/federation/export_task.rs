//! Carries out what the exporter decides, and shows its failures in the health table.
//!
//! The exporter is wanted if the server has peers, a broker, or a folder to publish in. While the folder of the logs
//! cannot be written, a server whose exporter is wanted queues all segments, and refuses reports when the queue is
//! full. If the exporter is not wanted, no other server waits for the segments. In that case, the server drops the
//! queue, and starts a new incarnation once the folder can be written.

use bruit_engine::exchange::Relation;
use bruit_federation::coordinator::Moment;
use bruit_federation::coordinator::exporter::{ExportRequest, Exporter, Surroundings, awaits_cluster};
use bruit_federation::coordinator::receiver::OwnChains;
use bruit_federation::describe;
use bruit_federation::shelf::Shelf;

use super::links::PeerLink;
use super::local::LocalServer;
use crate::health::State;
use crate::service::Service;

/// The exporter and its settings.
pub(super) struct ExportTask {
    exporter: Exporter,
    has_broker: bool,
    /// True if there is a broker or a folder to publish in.
    is_wanted: bool,
}

impl ExportTask {
    /// Starts the exporter, without publishing anything.
    ///
    /// # Errors
    /// If `is_wanted` is true, returns the reason why the exporter cannot start. Otherwise, the server runs without the
    /// exporter, and each later step retries.
    pub(super) fn start(service: &Service, shelf: &Shelf, has_broker: bool, is_wanted: bool) -> Result<Self, String> {
        let mut task = Self { exporter: Exporter::default(), has_broker, is_wanted };
        task.carry_out(service, shelf, true);
        match task.exporter.other_error().filter(|_| task.is_wanted(service)) {
            Some(error) => Err(error.to_owned()),
            None => Ok(task),
        }
    }

    /// Writes pending segments, or checks whether the folder works again.
    pub(super) fn step(&mut self, local: &LocalServer, links: &[PeerLink]) {
        self.carry_out(&local.service, &local.shelf, awaits_cluster(own_chains(&local.service, links)));
        self.note(local);
    }

    fn carry_out(&mut self, service: &Service, shelf: &Shelf, is_waiting: bool) {
        let store = &service.store;
        let (is_wanted, is_cluster) = (self.is_wanted(service), self.is_cluster(service));
        loop {
            let moment = Moment { now: service.now(), uptime: service.uptime() };
            let around = Surroundings {
                key: shelf.key(),
                realm: shelf.realm(),
                is_cluster,
                is_wanted,
                awaits_cluster: is_waiting,
                durable: store.status().durable,
            };
            let Some(request) = store.check(|engine| self.exporter.next(engine, &around, moment)) else { return };
            match request {
                ExportRequest::Check => self.exporter.checked(shelf.check(), moment),
                ExportRequest::Write(exports) => {
                    let written = exports.iter().try_for_each(|e| shelf.put_own(&e.chain, e.offset, &e.bytes));
                    self.exporter.written(written, moment);
                }
                ExportRequest::Submit(events) => {
                    let outcomes = store.submit(events).map_err(|error| describe(&error));
                    self.exporter.submitted(outcomes, store.status().sequence);
                }
                ExportRequest::Release { own, chains } => shelf.release(own, &chains, moment.now),
                ExportRequest::Tidy { live, now } => self.exporter.tidied(shelf.tidy(&live, now), moment),
            }
        }
    }

    /// Returns true if this server is a node of a cluster. A node may have been added since the start.
    fn is_cluster(&self, service: &Service) -> bool {
        self.has_broker || service.settings().peers.iter().any(|peer| peer.relation == Relation::Cluster)
    }

    /// Returns true if other servers read the logs. A peer may have been added since the start.
    fn is_wanted(&self, service: &Service) -> bool {
        self.is_wanted || !service.settings().peers.is_empty()
    }

    fn note(&self, local: &LocalServer) {
        let (service, now) = (&local.service, local.now());
        let (has_room, waiting) =
            service.store.check(|engine| (engine.exchange().has_room(), engine.exchange().pending_bytes()));
        let consequence = match self.is_wanted(service) {
            true => "other servers receive no updates, and reports are refused once 4 MiB are queued",
            false => "reports are kept, but replicas will miss the reports accepted while this lasts",
        };
        let fails = self.exporter.log_error().map(|error| {
            format!(
                "failed to write to the folder shelf/ in the data directory ({error}): {consequence}; check the disk"
            )
        });
        let is_stuck = |error: &str| format!("failed to write logs for other servers ({error}): {consequence}");
        let health = &service.health;
        health.set(State::ShelfFails, "", fails.or_else(|| self.exporter.other_error().map(is_stuck)), now);
        let waits = (!has_room).then(|| {
            format!(
                "reports are refused: {waiting} bytes for other servers are queued and cannot be written; see shelf_fails or the log"
            )
        });
        health.set(State::ExportsWait, "", waits, now);
    }
}

/// Returns the relation of each link's server, and what its heads say about our own chains.
fn own_chains(service: &Service, links: &[PeerLink]) -> Vec<(Option<Relation>, OwnChains)> {
    let relation = |key: [u8; 32]| {
        let member = service.store.check(|engine| engine.exchange().member(&key));
        member.map_or(Relation::Peer, |member| member.terms.relation)
    };
    links.iter().map(|link| (link.key.map(relation), link.link.status().own)).collect()
}
