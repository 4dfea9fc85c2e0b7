//! The thread that takes datagrams.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use bruit_engine::Outcome;
use bruit_engine::event::Event;
use bruit_engine::trust::{Reporter, Standing};

use super::batch::Places;
use super::socket::{BATCH, Inbox, Outbox, Peer};
use super::{Batch, Change, Completed, Datagrams, Request, Shared, Step, Submitted, UNDER_WAY_MAX};
use crate::config::Settings;
use crate::duplicates::Copy;
use crate::metrics::{Answered, Tally};
use crate::service::{Limited, Service, signatures};
use crate::sources::Source;

/// Takes datagrams, answers checks, and submits changes.
pub(super) struct Worker<P: Datagrams> {
    protocol: P,
    shared: Shared,
    completed: Sender<Completed<P::Waiting>>,
    stop: Arc<AtomicBool>,
    inbox: Inbox,
    round: Round<P>,
}

/// What happens to the datagrams of one batch.
struct Round<P: Datagrams> {
    batch: Batch,
    outbox: Outbox,
    tally: Tally,
    /// Checks, by the number of their datagram.
    checks: Vec<(usize, P::Waiting, Places)>,
    /// Copies of changes that were answered before.
    repeats: Vec<(usize, P::Waiting, Arc<[Outcome]>)>,
    changes: Vec<Submitted<P::Waiting>>,
    events: Vec<Event>,
}

impl<P: Datagrams> Worker<P> {
    pub(super) fn new(
        protocol: P,
        shared: Shared,
        completed: Sender<Completed<P::Waiting>>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let round = Round {
            batch: Batch::default(),
            outbox: Outbox::new(),
            tally: Tally::default(),
            checks: Vec::with_capacity(BATCH),
            repeats: Vec::new(),
            changes: Vec::new(),
            events: Vec::new(),
        };
        Self { protocol, shared, completed, stop, inbox: Inbox::new(), round }
    }

    pub(super) fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            match self.inbox.receive(&self.shared.socket) {
                Ok(()) if self.inbox.len() > 0 => self.serve(),
                Ok(()) => {}
                // Nobody asked anything, or the network says that somebody has gone.
                Err(error) if is_harmless(&error) => {}
                Err(error) => {
                    tracing::error!(protocol = P::LANGUAGE.name(), %error, "failed to receive");
                    // Not a loop that does nothing but fail.
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    fn serve(&mut self) {
        let received = Instant::now();
        self.answer_checks();
        self.round.outbox.send(&self.shared.socket);
        let metrics = self.shared.service.metrics.of(P::LANGUAGE);
        metrics.add(&std::mem::take(&mut self.round.tally));
        metrics.took(received.elapsed());
        self.submit(received);
    }

    /// Decodes all datagrams, looks up all signatures, and writes all replies that can be.
    fn answer_checks(&mut self) {
        let Self { protocol, shared, inbox, round, .. } = self;
        let service = &*shared.service;
        let settings = service.settings();
        let (now, uptime) = (service.now(), service.uptime());
        service.store.check(|engine| {
            let request = |peer: &Peer, packet| Request {
                packet,
                from: peer.address,
                source: Source::new(peer.address.ip(), &settings.own_networks),
                engine,
                service,
                settings: &settings,
                now,
                uptime,
            };
            round.batch.clear();
            for (at, (peer, packet)) in inbox.datagrams().enumerate() {
                round.take(protocol, shared, at, peer, &request(peer, packet));
            }
            round.batch.look_up(engine);
            let mut checks = std::mem::take(&mut round.checks);
            for (at, waiting, places) in checks.drain(..) {
                let Some((peer, packet)) = inbox.datagram(at) else { continue };
                let request = request(peer, packet);
                let found = round.batch.found(&places);
                let answered = protocol.answer_check(&waiting, &request, found, round.outbox.space());
                round.reply(peer, &Sent::of(&request), answered);
            }
            round.checks = checks;
        });
        // Without the lock: an answer to a change may ask the clearinghouse itself.
        for (at, waiting, outcomes) in std::mem::take(&mut round.repeats) {
            let Some((peer, packet)) = inbox.datagram(at) else { continue };
            P::answer_change(service, &waiting, Ok(&outcomes), round.outbox.space());
            let source = Source::new(peer.address.ip(), &settings.own_networks);
            let sent = Sent { bytes: packet.len(), source, service, settings: &settings, uptime };
            round.reply(peer, &sent, Answered::Duplicate);
        }
    }

    /// Hands the changes of the batch to the clearinghouse.
    fn submit(&mut self, received: Instant) {
        let events = std::mem::take(&mut self.round.events);
        let changes = std::mem::take(&mut self.round.changes);
        if changes.is_empty() {
            return;
        }
        self.shared.under_way.fetch_add(changes.len(), Ordering::Relaxed);
        let completed = self.completed.clone();
        self.shared.service.store.submit_with(events, move |result| {
            // The replier goes when all workers have gone, so somebody listens.
            let _ = completed.send(Completed { changes, result, received });
        });
    }
}

impl<P: Datagrams> Round<P> {
    /// Takes one datagram as far as it goes before signatures are looked up.
    fn take(&mut self, protocol: &mut P, shared: &Shared, at: usize, peer: &Peer, request: &Request<'_>) {
        if !request.service.admits(&request.source, Limited::Request, request.settings, request.uptime) {
            return self.tally.count(Answered::Limited);
        }
        self.batch.begin();
        match protocol.decode(request, &mut self.batch, self.outbox.space()) {
            Step::Check(waiting) => self.checks.push((at, waiting, self.batch.places())),
            Step::Reply(answered) => self.reply(peer, &Sent::of(request), answered),
            Step::Change(change) => {
                self.batch.abandon();
                self.change(shared, at, peer, request, change);
            }
            Step::Drop(answered) => {
                self.outbox.discard();
                self.batch.abandon();
                self.tally.count(answered);
            }
        }
    }

    /// Queues a change, unless it is a copy or too much.
    fn change(&mut self, shared: &Shared, at: usize, peer: &Peer, request: &Request<'_>, change: Change<P::Waiting>) {
        let Change { waiting, events, reporter, request: identity } = change;
        match shared.duplicates.find(identity, request.uptime) {
            Some(Copy::UnderWay) => self.tally.count(Answered::Duplicate),
            Some(Copy::Answered(outcomes)) => self.repeats.push((at, waiting, outcomes)),
            None if self.has_room(shared, &reporter, &events, request) => {
                shared.duplicates.begin(identity, request.uptime);
                let bytes_max = (!request.source.is_own).then_some(request.packet.len());
                let count = events.len();
                self.events.extend(events);
                self.changes.push(Submitted { waiting, peer: *peer, bytes_max, request: identity, events: count });
            }
            None => self.tally.count(Answered::Limited),
        }
    }

    /// Whether a change may wait for the disk. Strangers leave half of the room to others.
    fn has_room(&self, shared: &Shared, reporter: &Reporter, events: &[Event], request: &Request<'_>) -> bool {
        let under_way = shared.under_way.load(Ordering::Relaxed) + self.changes.len();
        let most = if reporter.standing == Standing::Stranger { UNDER_WAY_MAX / 2 } else { UNDER_WAY_MAX };
        let Request { source, settings, uptime, service, .. } = request;
        under_way < most && service.admits_claims(reporter, source, signatures(events), settings, *uptime)
    }

    /// Keeps a reply, unless it would give a stranger more bytes than he sent, too often: addresses can be forged, and then
    /// somebody else gets them.
    fn reply(&mut self, peer: &Peer, sent: &Sent<'_>, answered: Answered) {
        let written = self.outbox.written();
        if written == 0 {
            return self.tally.count(answered);
        }
        if written > sent.bytes && !sent.service.admits(&sent.source, Limited::LongerReply, sent.settings, sent.uptime)
        {
            self.outbox.discard();
            return self.tally.count(Answered::Limited);
        }
        self.outbox.finish(peer);
        self.tally.count(answered);
    }
}

/// What a reply is measured by.
struct Sent<'r> {
    bytes: usize,
    source: Source,
    service: &'r Service,
    settings: &'r Settings,
    uptime: Duration,
}

impl<'r> Sent<'r> {
    const fn of(request: &Request<'r>) -> Self {
        let &Request { packet, source, service, settings, uptime, .. } = request;
        Self { bytes: packet.len(), source, service, settings, uptime }
    }
}

fn is_harmless(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted | ConnectionRefused)
}
