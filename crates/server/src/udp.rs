//! Languages over UDP: threads that take datagrams by the batch.
//!
//! ```text
//!   recvmmsg ──► decode ─► limits, rights ─► one batch of look-ups ─► encode ──► sendmmsg      (worker thread)
//!                  ├─ recipients, if checks count them ─► store.submit_with
//!                  └─ reports ─► store.submit_with ─► on disk ─► encode ─► sendmmsg            (replier thread)
//! ```
//!
//! A language supplies the two ends ([`Datagrams`]), and everything between is the same for all: a source's limits, copies of
//! requests, that a stranger gets no more bytes than he sent. A batch takes one read lock, and no memory.

mod batch;
mod replier;
mod socket;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bruit_engine::event::Event;
use bruit_engine::time::Time;
use bruit_engine::trust::Reporter;
use bruit_engine::{Engine, Outcome, Refusal};
use bruit_filters::Fingerprint;
use bruit_store::SubmitError;

pub(crate) use batch::{Batch, Found, Recipients};
use replier::Replier;
use socket::Socket;
use worker::Worker;

use crate::config::Settings;
use crate::duplicates::Duplicates;
use crate::fatal::Vital;
use crate::log::Described;
use crate::metrics::{Answered, Language};
use crate::service::Service;
use crate::sources::Source;

/// Most reports of a socket that wait for the disk or for their reply; more are dropped. Half of them are for others than
/// strangers.
pub(crate) const UNDER_WAY_MAX: usize = 1 << 16;

/// One language over UDP: the two ends of the request path.
pub(crate) trait Datagrams: Send + 'static {
    /// Which one.
    const LANGUAGE: Language;

    /// What is kept of a request until its answer is known.
    type Waiting: Send + 'static;

    /// Reads a request, judges what its sender may, and says what it takes to answer: gives `batch` signatures to look up, or
    /// writes a reply that needs none.
    fn decode(&mut self, request: &Request<'_>, batch: &mut Batch, reply: &mut Vec<u8>) -> Step<Self::Waiting>;

    /// What the log says about a request; `waiting` is what was kept of it, if it was read. Asked only if that is logged.
    fn describe(&self, request: &Request<'_>, waiting: Option<&Self::Waiting>) -> Described;

    /// Writes the reply to a check whose signatures were looked up.
    fn answer_check(
        &mut self,
        waiting: &Self::Waiting,
        request: &Request<'_>,
        found: Found<'_>,
        reply: &mut Vec<u8>,
    ) -> Answered;

    /// Writes the reply to a change: what its events came to, or why they could not be kept. No bytes are no reply.
    fn answer_change(
        service: &Service,
        waiting: &Self::Waiting,
        outcomes: Result<&[Outcome], &SubmitError>,
        reply: &mut Vec<u8>,
    ) -> Answered;
}

/// A datagram, and what there is to judge it by.
pub(crate) struct Request<'r> {
    pub(crate) packet: &'r [u8],
    pub(crate) from: SocketAddr,
    pub(crate) source: Source,
    pub(crate) engine: &'r Engine,
    pub(crate) service: &'r Service,
    pub(crate) settings: &'r Settings,
    /// The time of day.
    pub(crate) now: Time,
    /// Time since the server started.
    pub(crate) uptime: Duration,
}

/// What a request takes.
pub(crate) enum Step<W> {
    /// It gets no reply.
    Drop(Answered),
    /// Its reply is written.
    Reply(Answered),
    /// The batch has its signatures.
    Check(W),
    /// It changes something, and is answered when that is on disk.
    Change(Change<W>),
}

/// A request that changes something.
pub(crate) struct Change<W> {
    pub(crate) waiting: W,
    pub(crate) events: Vec<Event>,
    pub(crate) reporter: Reporter,
    /// A keyed hash of what identifies the request among copies of it.
    pub(crate) request: Fingerprint,
}

/// The reason why changes were refused, if any was. A claim about a whitelisted signature changes nothing and is not reported.
pub(crate) fn refusal_of(outcomes: &[Outcome]) -> Option<Refusal> {
    outcomes.iter().filter_map(Outcome::refusal).find(|refusal| *refusal != Refusal::Whitelisted)
}

/// The threads of one language.
pub(crate) struct Listener {
    addresses: Vec<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
}

impl Listener {
    /// Listens at `addresses`, with `threads` threads for each. `make` makes each thread's end of the language.
    pub(crate) fn start<P: Datagrams>(
        service: &Arc<Service>,
        addresses: &[SocketAddr],
        threads: u32,
        stop: &Arc<AtomicBool>,
        make: impl Fn() -> P,
    ) -> io::Result<Self> {
        let mut listener = Self { addresses: Vec::new(), threads: Vec::new() };
        for &address in addresses {
            // Sockets that share an address let those of other programs share it, too: first see that it is free.
            drop(Socket::bind(address, false)?);
            let first = Socket::bind(address, threads > 1)?;
            let address = first.address();
            listener.addresses.push(address);
            listener.spawn(service, first, stop, make())?;
            for _ in 1..threads {
                listener.spawn(service, Socket::bind(address, true)?, stop, make())?;
            }
        }
        Ok(listener)
    }

    fn spawn<P: Datagrams>(
        &mut self,
        service: &Arc<Service>,
        socket: Socket,
        stop: &Arc<AtomicBool>,
        protocol: P,
    ) -> io::Result<()> {
        let (sender, receiver) = mpsc::channel();
        let shared = Shared {
            service: Arc::clone(service),
            socket: Arc::new(socket),
            duplicates: Arc::new(Duplicates::default()),
            under_way: Arc::new(AtomicUsize::new(0)),
        };
        let name = P::LANGUAGE.name();
        let (of_replier, stop) = (shared.clone(), Arc::clone(stop));
        let replier = thread::Builder::new().name(format!("bruit-{name}-re"));
        let vital = Vital::new(service, format!("a thread that answers {name}"));
        self.threads.push(replier.spawn(move || {
            let _vital = vital;
            Replier::<P>::new(of_replier, receiver).run();
        })?);
        let worker = thread::Builder::new().name(format!("bruit-{name}"));
        let vital = Vital::new(service, format!("a thread that listens for {name}"));
        self.threads.push(worker.spawn(move || {
            let _vital = vital;
            Worker::new(protocol, shared, sender, stop).run();
        })?);
        Ok(())
    }

    /// Where it listens.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Waits for the threads, which end when they are told to stop and everything under way is answered.
    pub(crate) fn join(self) {
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a listener panicked");
            }
        }
    }
}

/// What the two threads of a socket share.
#[derive(Clone)]
struct Shared {
    service: Arc<Service>,
    socket: Arc<Socket>,
    duplicates: Arc<Duplicates>,
    under_way: Arc<AtomicUsize>,
}

/// Changes that were submitted together, and what they came to.
struct Completed<W> {
    changes: Vec<Submitted<W>>,
    /// Checks that counted recipients, one event each, and were answered already.
    counts: Vec<Fingerprint>,
    result: Result<Vec<Outcome>, SubmitError>,
    received: std::time::Instant,
}

/// A change that was submitted.
struct Submitted<W> {
    waiting: W,
    peer: socket::Peer,
    /// Its source is a stranger, and sent so many bytes.
    bytes_max: Option<usize>,
    request: Fingerprint,
    events: usize,
    /// What the log says about it, if that is wanted.
    described: Option<Box<Described>>,
}
