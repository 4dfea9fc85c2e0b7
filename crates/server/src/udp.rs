//! UDP listeners, i.e. threads that process datagrams in batches.
//!
//! ```text
//!   recvmmsg ──► limits, decode ─► accounts ─► rights ─► one batch of lookups ─► encode ──► sendmmsg  (worker thread)
//!                                               ├─ recipients, if checks count them ─► store.submit_with
//!                                               └─ reports ─► store.submit_with ─► on disk ─► encode ─► sendmmsg
//!                                                                                                (replier thread)
//! ```
//!
//! A protocol implements decoding and encoding ([`Datagrams`]). All protocols share the rest: rate limits, duplicate
//! detection, and limits on replies that are longer than the request. A batch locks the engine at most twice: to copy
//! the accounts that its requests name, and to look up its signatures. The credentials of the requests are verified in
//! between, without the lock.
//!
//! Systems other than Linux have neither `recvmmsg` nor `sendmmsg`. There, a batch is one datagram ([`Transfer`]).

mod batch;
#[cfg(target_os = "linux")]
mod batched;
mod plain;
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

use bruit_engine::accounts::{self, Account, Accounts};
use bruit_engine::event::Event;
use bruit_engine::time::Time;
use bruit_engine::trust::Reporter;
use bruit_engine::{Engine, Outcome, Refusal};
use bruit_filters::Fingerprint;
use bruit_store::SubmitError;

pub(crate) use batch::{Batch, LookupResults, Recipients};
use replier::Replier;
use socket::Socket;
pub(crate) use socket::Transfer;
use worker::Worker;

use crate::config::Settings;
use crate::duplicates::Duplicates;
use crate::fatal::Vital;
use crate::log::RequestDescription;
use crate::metrics::{Disposition, Interface};
use crate::service::Service;
use crate::sources::Source;

/// Maximum number of reports per socket that wait for the disk or for their reply. Further reports are dropped.
/// Strangers can use at most half of this number.
pub(crate) const IN_PROGRESS_MAX: usize = 1 << 16;

/// One protocol over UDP: decodes requests and encodes replies.
pub(crate) trait Datagrams: Send + 'static {
    /// The protocol.
    const PROTOCOL: Interface;

    /// A decoded request.
    type Decoded<'p>;

    /// The state of a request until its reply is written.
    type Pending: Send + 'static;

    /// Decodes a request. A request that fails gets no reply.
    fn decode<'p>(packet: &'p [u8], from: SocketAddr) -> Result<Self::Decoded<'p>, Disposition>;

    /// Returns true if [`account`](Self::account) has to look for the account of a request.
    fn is_named(&self, decoded: &Self::Decoded<'_>) -> bool;

    /// Returns the account that a request names. Called while the engine is locked, so it verifies nothing.
    fn account(&self, decoded: &Self::Decoded<'_>, accounts: &Accounts) -> Option<NamedAccount>;

    /// Verifies the sender of a request and checks its rights. Adds the signatures to look up to `batch`, or writes the
    /// reply if no lookup is needed.
    fn start(
        &mut self,
        decoded: Self::Decoded<'_>,
        request: &Request<'_>,
        batch: &mut Batch,
        reply: &mut Vec<u8>,
    ) -> Step<Self::Pending>;

    /// Performs the lookups that the batch of signatures does not cover. Called while the engine is locked.
    fn look_up(&mut self, _waiting: &mut Self::Pending, _request: &Request<'_>, _engine: &Engine) {}

    /// Describes a request for the log. `waiting` is the request's state if it was decoded. Called only if requests are
    /// logged.
    fn describe(&self, request: &Request<'_>, waiting: Option<&Self::Pending>) -> RequestDescription;

    /// Writes the reply to a check after the lookup of its signatures.
    fn answer_check(
        &mut self,
        waiting: &Self::Pending,
        request: &Request<'_>,
        found: LookupResults<'_>,
        reply: &mut Vec<u8>,
    ) -> Disposition;

    /// Writes the reply to a change, from its outcomes or the error of the store. An empty reply is not sent.
    fn answer_change(
        service: &Service,
        waiting: &Self::Pending,
        outcomes: Result<&[Outcome], &SubmitError>,
        reply: &mut Vec<u8>,
    ) -> Disposition;
}

/// A datagram and its context.
pub(crate) struct Request<'r> {
    pub(crate) packet: &'r [u8],
    pub(crate) from: SocketAddr,
    pub(crate) source: Source,
    /// The account that the request names. It is not necessarily the sender's account.
    pub(crate) account: Option<&'r NamedAccount>,
    pub(crate) service: &'r Service,
    pub(crate) settings: &'r Settings,
    /// The time of the clearinghouse.
    pub(crate) now: Time,
    /// The time since the server started.
    pub(crate) uptime: Duration,
}

/// A copy of an account, with its name.
pub(crate) struct NamedAccount {
    pub(crate) name: Box<[u8]>,
    pub(crate) account: Account,
}

impl NamedAccount {
    /// Returns the account that a protocol knows under this name.
    pub(crate) fn find(accounts: &Accounts, protocol: accounts::Protocol, name: &[u8]) -> Option<Self> {
        accounts.get(protocol, name).map(|account| Self { name: name.into(), account: account.clone() })
    }
}

/// The next step of a request after decoding.
pub(crate) enum Step<W> {
    /// The request gets no reply.
    Drop(Disposition),
    /// The reply is in the buffer, and only has to be sent.
    Reply(Disposition),
    /// The signatures of the request are in the batch.
    Check(W),
    /// The request changes something. It is answered once the change is on disk.
    Change(Change<W>),
}

/// A request that changes something.
pub(crate) struct Change<W> {
    pub(crate) waiting: W,
    pub(crate) events: Vec<Event>,
    pub(crate) reporter: Reporter,
    /// A keyed hash that is equal for copies of the request.
    pub(crate) request: Fingerprint,
}

/// Returns the first refusal among the outcomes. A claim about a whitelisted signature is ignored without a refusal.
pub(crate) fn refusal_of(outcomes: &[Outcome]) -> Option<Refusal> {
    outcomes.iter().filter_map(Outcome::refusal).find(|refusal| *refusal != Refusal::Whitelisted)
}

/// The threads of one protocol.
pub(crate) struct Listener {
    addresses: Vec<SocketAddr>,
    threads: Vec<JoinHandle<()>>,
}

impl Listener {
    /// Listens on `addresses`, with `threads` threads for each address. `make` creates the handler of each thread.
    pub(crate) fn start<P: Datagrams>(
        service: &Arc<Service>,
        addresses: &[SocketAddr],
        threads: u32,
        transfer: Transfer,
        stop: &Arc<AtomicBool>,
        make: impl Fn() -> P,
    ) -> io::Result<Self> {
        let mut listener = Self { addresses: Vec::new(), threads: Vec::new() };
        for &address in addresses {
            // Our sockets share an address, and other programs could share it, too. So check first that it is free.
            drop(Socket::bind(address, false, transfer)?);
            let first = Socket::bind(address, threads > 1, transfer)?;
            let address = first.address();
            listener.addresses.push(address);
            listener.spawn(service, first, stop, make())?;
            for _ in 1..threads {
                listener.spawn(service, Socket::bind(address, true, transfer)?, stop, make())?;
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
        let shared = SocketState {
            service: Arc::clone(service),
            socket: Arc::new(socket),
            duplicates: Arc::new(Duplicates::default()),
            under_way: Arc::new(AtomicUsize::new(0)),
        };
        let name = P::PROTOCOL.name();
        let (of_replier, stop) = (shared.clone(), Arc::clone(stop));
        let replier = thread::Builder::new().name(format!("bruit-{name}-re"));
        let vital = Vital::new(service, format!("a replier thread of {name}"));
        self.threads.push(replier.spawn(move || {
            let _vital = vital;
            Replier::<P>::new(of_replier, receiver).run();
        })?);
        let worker = thread::Builder::new().name(format!("bruit-{name}"));
        let vital = Vital::new(service, format!("a listener thread of {name}"));
        self.threads.push(worker.spawn(move || {
            let _vital = vital;
            Worker::new(protocol, shared, sender, stop).run();
        })?);
        Ok(())
    }

    /// Returns the listen addresses.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Waits until the threads end. After the stop signal, they still answer every request in progress.
    pub(crate) fn join(self) {
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a listener panicked");
            }
        }
    }
}

/// State shared by both threads of a socket.
#[derive(Clone)]
struct SocketState {
    service: Arc<Service>,
    socket: Arc<Socket>,
    duplicates: Arc<Duplicates>,
    under_way: Arc<AtomicUsize>,
}

/// Changes that were submitted together, and their outcomes.
struct CompletedBatch<W> {
    changes: Vec<SubmittedChange<W>>,
    /// Keyed hashes of checks that counted recipients, one for each event. The checks are already answered.
    counts: Vec<Fingerprint>,
    result: Result<Vec<Outcome>, SubmitError>,
    received: std::time::Instant,
}

/// A submitted change.
struct SubmittedChange<W> {
    waiting: W,
    peer: socket::DatagramSource,
    /// Length of the request, if the source is not in an own network. The reply to such a request may be twice as long,
    /// but not longer.
    bytes_max: Option<usize>,
    request: Fingerprint,
    events: usize,
    /// The description for the log, if requests are logged.
    described: Option<Box<RequestDescription>>,
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::atomic::Ordering;

    use bruit_engine::budget::BUDGET_MIN;
    use bruit_engine::trust::Policy;
    use bruit_store::{Clearinghouse, Founding, Options};

    use super::*;
    use crate::clock::system_time;
    use crate::config::Config;
    use crate::pyzor::Pyzor;

    /// Number of checks that are sent before the first answer is read.
    const AT_ONCE: usize = 20;

    /// A Pyzor client.
    struct Client(UdpSocket);

    impl Client {
        fn send(&self, operation: &str, digest: &str) {
            let request = format!("Op: {operation}\nOp-Digest: {digest}\nThread: 2000\nPV: 2.1\n\n");
            self.0.send(request.as_bytes()).unwrap();
        }

        fn receive(&self) -> String {
            let mut buffer = [0; 1_024];
            let bytes = self.0.recv(&mut buffer).unwrap();
            String::from_utf8(buffer[..bytes].to_vec()).unwrap()
        }

        fn ask(&self, operation: &str, digest: &str) -> String {
            self.send(operation, digest);
            self.receive()
        }
    }

    #[test]
    fn every_kind_of_transfer_answers_checks_and_reports() {
        let folder = tempfile::tempdir().unwrap();
        let found = || Founding::new([3; 16], BUDGET_MIN, Policy::default(), system_time()).unwrap();
        let store = Clearinghouse::open_or_found(folder.path(), &Options::default(), found, &mut |_| {}).unwrap();
        let settings = Config::parse("own_networks = [\"127.0.0.1/32\"]\n").unwrap().settings;
        let service = Arc::new(Service::new(store, settings));
        let transfers = [
            #[cfg(target_os = "linux")]
            Transfer::Batched,
            Transfer::Plain,
        ];
        let addresses = ["127.0.0.1:0", "0.0.0.0:0"];
        let cases = transfers.iter().flat_map(|transfer| addresses.map(|address| (*transfer, address)));
        for (number, (transfer, address)) in cases.enumerate() {
            let stop = Arc::new(AtomicBool::new(false));
            let make = || Pyzor::new(Arc::default());
            let listener = Listener::start(&service, &[address.parse().unwrap()], 1, transfer, &stop, make).unwrap();
            let client = Client(UdpSocket::bind("127.0.0.1:0").unwrap());
            client.0.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            client.0.connect(("127.0.0.1", listener.addresses()[0].port())).unwrap();
            let digest = number.to_string().repeat(40);
            assert!(client.ask("check", &digest).contains("\nCount: 0\n"), "{transfer:?} {address}");
            assert!(client.ask("report", &digest).contains("Code: 200\n"), "{transfer:?} {address}");
            (0..AT_ONCE).for_each(|_| client.send("check", &digest));
            let answers: Vec<String> = (0..AT_ONCE).map(|_| client.receive()).collect();
            let is_known = |answer: &String| answer.contains("Code: 200\n") && answer.contains("\nCount: 5\n");
            assert!(answers.iter().all(is_known), "{transfer:?} {address}: {answers:?}");
            stop.store(true, Ordering::Relaxed);
            listener.join();
        }
    }
}
