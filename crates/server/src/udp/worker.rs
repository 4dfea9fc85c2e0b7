//! The thread that receives datagrams.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use bruit_engine::Outcome;
use bruit_engine::event::Event;
use bruit_engine::trust::{Reporter, Standing};

use super::batch::Places;
use super::socket::{BATCH, DatagramSource, Inbox, Outbox};
use super::{
    Batch, Change, CompletedBatch, Datagrams, IN_PROGRESS_MAX, NamedAccount, Recipients, Request, SocketState, Step,
    SubmittedChange,
};
use crate::config::Settings;
use crate::duplicates::FirstCopy;
use crate::log::{self, Line, LineLimit, RequestDescription};
use crate::metrics::{Disposition, Tally};
use crate::service::{Limited, Service, signatures};
use crate::sources::Source;

/// Limits log lines about failures to receive.
static FAILURES: LineLimit = LineLimit::new(6);

/// Reasons for dropped requests, for the log.
const TOO_MANY_REQUESTS: &str = "this network exceeds limits.requests";
const TOO_MANY_CLAIMS: &str =
    "the reporter exceeds limits.claims or limits.account_claims, or too many claims wait for the disk";
const TOO_LONG_REPLIES: &str = "this network exceeds limits.longer_replies";

/// Receives datagrams, answers checks, and submits changes.
pub(super) struct Worker<P: Datagrams> {
    protocol: P,
    shared: SocketState,
    completed: Sender<CompletedBatch<P::Pending>>,
    stop: Arc<AtomicBool>,
    inbox: Inbox,
    round: Round<P>,
}

/// The state of one batch.
struct Round<P: Datagrams> {
    batch: Batch,
    /// The account that each datagram names.
    accounts: Vec<Option<NamedAccount>>,
    outbox: Outbox,
    tally: Tally,
    /// True if requests are logged.
    is_logged: bool,
    /// The log lines of the batch. They are written after the engine is unlocked.
    lines: Vec<Line>,
    /// Checks, each with the index of its datagram.
    checks: Vec<(usize, P::Pending, Places)>,
    /// Copies of changes whose first copy was already answered.
    repeats: Vec<(usize, Repeat<P::Pending>)>,
    changes: Vec<SubmittedChange<P::Pending>>,
    events: Vec<Event>,
    /// Recipients that checks count.
    recipients: Vec<Recipients>,
}

impl<P: Datagrams> Worker<P> {
    pub(super) fn new(
        protocol: P,
        shared: SocketState,
        completed: Sender<CompletedBatch<P::Pending>>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let round = Round {
            batch: Batch::default(),
            accounts: Vec::new(),
            outbox: Outbox::new(),
            tally: Tally::default(),
            is_logged: false,
            lines: Vec::new(),
            checks: Vec::with_capacity(BATCH),
            repeats: Vec::new(),
            changes: Vec::new(),
            events: Vec::new(),
            recipients: Vec::new(),
        };
        Self { protocol, shared, completed, stop, inbox: Inbox::new(), round }
    }

    pub(super) fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            match self.inbox.receive(&self.shared.socket) {
                Ok(()) if self.inbox.len() > 0 => self.serve(),
                Ok(()) => {}
                // Either no datagram arrived, or the system returned an ICMP error for an earlier reply.
                Err(error) if is_harmless(&error) => {}
                Err(error) => {
                    if let Some(suppressed) = FAILURES.admit() {
                        tracing::error!(protocol = P::PROTOCOL.name(), %error, suppressed, "failed to receive");
                    }
                    // Avoid a busy loop of failures.
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    fn serve(&mut self) {
        let received = Instant::now();
        self.round.is_logged = log::is_on();
        self.answer_checks();
        self.round.outbox.send(&self.shared.socket);
        let metrics = self.shared.service.metrics.of(P::PROTOCOL);
        // Add only checks here, because changes are counted when they are answered.
        metrics.add(&std::mem::take(&mut self.round.tally), received.elapsed());
        self.submit(received);
        self.submit_recipients(received);
        self.round.lines.drain(..).for_each(|line| line.write());
    }

    /// Decodes all datagrams, looks up all signatures, and writes the replies that are ready.
    fn answer_checks(&mut self) {
        let Self { protocol, shared, inbox, round, .. } = self;
        let service = &*shared.service;
        let settings = service.settings();
        let (now, uptime) = (service.now(), service.uptime());
        let request = |peer: &DatagramSource, packet, account| Request {
            packet,
            from: peer.address,
            source: Source::new(peer.address.ip(), &settings.own_networks),
            account,
            service,
            settings: &settings,
            now,
            uptime,
        };
        round.batch.clear();
        let mut decoded = Vec::with_capacity(inbox.len());
        for (at, (peer, packet)) in inbox.datagrams().enumerate() {
            decoded.extend(round.decode(protocol, &request(peer, packet, None)).map(|one| (at, one)));
        }
        let accounts = round.find_accounts(protocol, &decoded, inbox.len(), service);
        let named = |at: usize| accounts.get(at).and_then(Option::as_ref);
        for (at, one) in decoded {
            let Some((peer, packet)) = inbox.datagram(at) else { continue };
            round.start(protocol, shared, at, peer, one, &request(peer, packet, named(at)));
        }
        let mut checks = std::mem::take(&mut round.checks);
        if !checks.is_empty() {
            service.store.check(|engine| {
                round.batch.look_up(engine);
                for (at, waiting, _) in &mut checks {
                    let Some((peer, packet)) = inbox.datagram(*at) else { continue };
                    protocol.look_up(waiting, &request(peer, packet, named(*at)), engine);
                }
            });
        }
        for (at, waiting, places) in checks.drain(..) {
            let Some((peer, packet)) = inbox.datagram(at) else { continue };
            let request = request(peer, packet, named(at));
            let found = round.batch.found(&places);
            let answered = protocol.answer_check(&waiting, &request, found, round.outbox.space());
            let (answered, reason) = round.reply(peer, &ReplyContext::of(&request), answered);
            round.note(protocol, &request, Some(&waiting), answered, reason);
            round.note_signatures(&places);
        }
        round.checks = checks;
        round.accounts = accounts;
        // Answer copies of changes only now that the engine is unlocked: the answer may lock it.
        for (at, Repeat { waiting, outcomes, described }) in std::mem::take(&mut round.repeats) {
            let Some((peer, packet)) = inbox.datagram(at) else { continue };
            P::answer_change(service, &waiting, Ok(&outcomes), round.outbox.space());
            let source = Source::new(peer.address.ip(), &settings.own_networks);
            let sent = ReplyContext { bytes: packet.len(), source, service, settings: &settings, uptime };
            let (answered, reason) = round.reply(peer, &sent, Disposition::Duplicate);
            round.count(source.address, described, answered, reason);
        }
    }

    /// Submits the changes of the batch to the clearinghouse.
    fn submit(&mut self, received: Instant) {
        let events = std::mem::take(&mut self.round.events);
        let changes = std::mem::take(&mut self.round.changes);
        if changes.is_empty() {
            return;
        }
        self.shared.under_way.fetch_add(changes.len(), Ordering::Relaxed);
        let completed = self.completed.clone();
        self.shared.service.store.submit_with(events, move |result| {
            // Cannot fail, because the replier outlives all workers.
            let _ = completed.send(CompletedBatch { changes, counts: Vec::new(), result, received });
        });
    }

    /// Submits the recipients counted by checks of the batch. The checks are already answered.
    fn submit_recipients(&mut self, received: Instant) {
        let recipients = std::mem::take(&mut self.round.recipients);
        if recipients.is_empty() {
            return;
        }
        let (counts, events): (Vec<_>, Vec<_>) = recipients.into_iter().map(|one| (one.request, one.event)).unzip();
        self.shared.under_way.fetch_add(counts.len(), Ordering::Relaxed);
        let completed = self.completed.clone();
        self.shared.service.store.submit_with(events, move |result| {
            let _ = completed.send(CompletedBatch { changes: Vec::new(), counts, result, received });
        });
    }
}

impl<P: Datagrams> Round<P> {
    /// Decodes one datagram, unless it exceeds the limit on requests.
    fn decode<'p>(&mut self, protocol: &P, request: &Request<'p>) -> Option<P::Decoded<'p>> {
        if !request.service.admits(&request.source, Limited::Request, request.settings, request.uptime) {
            self.note_refused(protocol, request, Disposition::Limited, Some(TOO_MANY_REQUESTS));
            return None;
        }
        let decoded = P::decode(request.packet, request.from);
        decoded.map_err(|answered| self.note(protocol, request, None, answered, None)).ok()
    }

    /// Copies the accounts that the datagrams name. Returns one for each of the `count` datagrams.
    fn find_accounts(
        &mut self,
        protocol: &P,
        decoded: &[(usize, P::Decoded<'_>)],
        count: usize,
        service: &Service,
    ) -> Vec<Option<NamedAccount>> {
        let mut accounts = std::mem::take(&mut self.accounts);
        accounts.clear();
        accounts.resize_with(count, || None);
        if decoded.iter().any(|(_, one)| protocol.is_named(one)) {
            service.store.check(|engine| {
                for (at, one) in decoded.iter().filter(|(_, one)| protocol.is_named(one)) {
                    if let Some(place) = accounts.get_mut(*at) {
                        *place = protocol.account(one, engine.accounts());
                    }
                }
            });
        }
        accounts
    }

    /// Counts a request that was refused before it was decoded. Decodes it if the log needs its account.
    fn note_refused(&mut self, protocol: &P, request: &Request<'_>, answered: Disposition, reason: Option<&str>) {
        let decoded = if self.is_logged { P::decode(request.packet, request.from).ok() } else { None };
        let named = decoded.filter(|one| protocol.is_named(one));
        let account =
            named.and_then(|one| request.service.store.check(|engine| protocol.account(&one, engine.accounts())));
        self.note(protocol, &Request { account: account.as_ref(), ..*request }, None, answered, reason);
    }

    /// Processes one request up to the lookup of its signatures. The lookup is done later for the whole batch.
    fn start(
        &mut self,
        protocol: &mut P,
        shared: &SocketState,
        at: usize,
        peer: &DatagramSource,
        decoded: P::Decoded<'_>,
        request: &Request<'_>,
    ) {
        self.batch.begin();
        match protocol.start(decoded, request, &mut self.batch, self.outbox.space()) {
            Step::Check(waiting) => {
                self.checks.push((at, waiting, self.batch.places()));
                self.count_recipients(shared, request);
            }
            Step::Reply(answered) => {
                let (answered, reason) = self.reply(peer, &ReplyContext::of(request), answered);
                self.note(protocol, request, None, answered, reason);
            }
            Step::Change(change) => {
                self.batch.abandon();
                self.change(protocol, shared, at, peer, request, change);
            }
            Step::Drop(answered) => {
                self.outbox.discard();
                self.batch.abandon();
                self.note(protocol, request, None, answered, None);
            }
        }
    }

    /// Queues a change, unless it is a copy or exceeds a limit.
    fn change(
        &mut self,
        protocol: &P,
        shared: &SocketState,
        at: usize,
        peer: &DatagramSource,
        request: &Request<'_>,
        change: Change<P::Pending>,
    ) {
        let Change { waiting, events, reporter, request: identity } = change;
        match shared.duplicates.find(identity, request.uptime) {
            Some(FirstCopy::InProgress) => self.note(protocol, request, Some(&waiting), Disposition::Duplicate, None),
            Some(FirstCopy::Answered(outcomes)) => {
                let described = self.describe(protocol, request, Some(&waiting));
                self.repeats.push((at, Repeat { waiting, outcomes, described }));
            }
            None if self.has_room(shared, &reporter, &events, request) => {
                shared.duplicates.begin(identity, request.uptime);
                let bytes_max = (!request.source.is_own).then_some(request.packet.len());
                let count = events.len();
                self.events.extend(events);
                let described = self.describe(protocol, request, Some(&waiting)).map(Box::new);
                let submitted =
                    SubmittedChange { waiting, peer: *peer, bytes_max, request: identity, events: count, described };
                self.changes.push(submitted);
            }
            None => self.note(protocol, request, Some(&waiting), Disposition::Limited, Some(TOO_MANY_CLAIMS)),
        }
    }

    /// Queues the recipients that a check counts, unless the check is a copy or exceeds a limit.
    fn count_recipients(&mut self, shared: &SocketState, request: &Request<'_>) {
        let Some(recipients) = self.batch.take_recipients() else { return };
        let event = std::slice::from_ref(&recipients.event);
        let is_copy = shared.duplicates.find(recipients.request, request.uptime).is_some();
        if !is_copy && self.has_room(shared, &recipients.reporter, event, request) {
            shared.duplicates.begin(recipients.request, request.uptime);
            self.recipients.push(recipients);
        }
    }

    /// Returns true if a change may wait for the disk. Strangers can use only half of the queue.
    fn has_room(&self, shared: &SocketState, reporter: &Reporter, events: &[Event], request: &Request<'_>) -> bool {
        let under_way = shared.under_way.load(Ordering::Relaxed) + self.changes.len() + self.recipients.len();
        let most = if reporter.standing == Standing::Stranger { IN_PROGRESS_MAX / 2 } else { IN_PROGRESS_MAX };
        let Request { source, settings, uptime, service, .. } = request;
        under_way < most && service.admits_claims(reporter, source, signatures(events), settings, *uptime)
    }

    /// Queues a reply. A reply that is longer than its request is dropped if a stranger exceeds the limit on such
    /// replies. The limit protects victims whose address a stranger may have forged. Returns the result to count, and
    /// the reason if the reply was dropped.
    fn reply(
        &mut self,
        peer: &DatagramSource,
        sent: &ReplyContext<'_>,
        answered: Disposition,
    ) -> (Disposition, Option<&'static str>) {
        let written = self.outbox.written();
        if written == 0 {
            return (answered, None);
        }
        if written > sent.bytes && !sent.service.admits(&sent.source, Limited::LongerReply, sent.settings, sent.uptime)
        {
            self.outbox.discard();
            return (Disposition::Limited, Some(TOO_LONG_REPLIES));
        }
        self.outbox.finish(peer);
        (answered, None)
    }

    /// Describes a request if requests are logged.
    fn describe(
        &self,
        protocol: &P,
        request: &Request<'_>,
        waiting: Option<&P::Pending>,
    ) -> Option<RequestDescription> {
        self.is_logged.then(|| protocol.describe(request, waiting))
    }

    /// Counts a completed request, and logs it if requests are logged.
    fn note(
        &mut self,
        protocol: &P,
        request: &Request<'_>,
        waiting: Option<&P::Pending>,
        answered: Disposition,
        reason: Option<&str>,
    ) {
        let described = self.describe(protocol, request, waiting);
        self.count(request.source.address, described, answered, reason);
    }

    fn count(
        &mut self,
        from: IpAddr,
        described: Option<RequestDescription>,
        answered: Disposition,
        reason: Option<&str>,
    ) {
        self.tally.count(answered);
        if let Some(described) = described {
            let reason = reason.map(ToOwned::to_owned);
            self.lines.push(Line { protocol: P::PROTOCOL, from, described, answered, reason, judged: Vec::new() });
        }
    }

    /// Adds the verdicts on the signatures to the last line, if the log includes verdicts.
    fn note_signatures(&mut self, places: &Places) {
        if let Some(line) = self.lines.last_mut().filter(|_| log::is_trace_on()) {
            line.judged = self.batch.judged(places).map(|(fingerprint, verdict)| (*fingerprint, *verdict)).collect();
        }
    }
}

/// A copy of a change whose first copy was already answered.
struct Repeat<W> {
    waiting: W,
    outcomes: Arc<[Outcome]>,
    described: Option<RequestDescription>,
}

/// The request's size and sender, which limit the length of the reply.
struct ReplyContext<'r> {
    bytes: usize,
    source: Source,
    service: &'r Service,
    settings: &'r Settings,
    uptime: Duration,
}

impl<'r> ReplyContext<'r> {
    const fn of(request: &Request<'r>) -> Self {
        let &Request { packet, source, service, settings, uptime, .. } = request;
        Self { bytes: packet.len(), source, service, settings, uptime }
    }
}

fn is_harmless(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted | ConnectionRefused)
}
