//! Rounds of requests, sent to a server and to the echo server for comparison.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Error};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::load::{self, Answers};
use super::process::{Processors, Server};
use super::requests::{Kind, Requests, SignatureRange};
use crate::timing::median;

/// The hidden argument that runs this program as the echo server.
pub(crate) const ECHO_ARGUMENT: &str = "--echo";

/// Default number of requests in flight.
pub(crate) const WINDOW: usize = 256;

/// Results of one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Requests per second of the server's processor time.
    pub(crate) per_cpu_second: f64,
    /// Requests per second of wall-clock time.
    pub(crate) per_second: f64,
}

/// Runs rounds of requests with unique serial numbers. Counts lost requests and forgotten signatures.
pub(crate) struct Rounds {
    /// Number of requests in flight.
    window: usize,
    serial: Cell<u32>,
    network: Cell<u8>,
    /// Number of requests sent so far.
    pub(crate) requests: Cell<usize>,
    /// Number of requests without an answer.
    pub(crate) lost: Cell<usize>,
    /// Number of checks of reported signatures that the server did not know.
    pub(crate) forgotten: Cell<usize>,
}

impl Rounds {
    /// Creates rounds with `window` requests in flight.
    pub(crate) fn with_window(window: usize) -> Self {
        let [requests, lost, forgotten] = [(); 3].map(|()| Cell::new(0));
        Self { window, serial: Cell::new(0), network: Cell::new(0), requests, lost, forgotten }
    }

    /// Creates `count` requests with serial numbers that earlier rounds did not use.
    pub(crate) fn requests<'a>(&self, kind: &'a dyn Kind, count: usize, about: SignatureRange) -> Requests<'a> {
        let first = self.serial.replace(self.serial.get().wrapping_add(count as u32));
        Requests::new(kind, first, count, about)
    }

    /// Sends `requests` to `server`, as fast as the server answers, and evaluates every answer.
    pub(crate) fn saturate(&self, address: SocketAddr, requests: &Requests<'_>) -> io::Result<Answers> {
        let answers = load::saturate(self.next_client(), address, &requests.packets, self.window)?;
        self.read(requests, &answers, Duration::ZERO)?;
        Ok(answers)
    }

    /// Runs a round at the maximum rate. `cpu_time` returns the processor time of the server.
    pub(crate) fn measure(
        &self,
        address: SocketAddr,
        requests: &Requests<'_>,
        cpu_time: impl Fn() -> io::Result<Duration>,
    ) -> io::Result<Round> {
        let before = cpu_time()?;
        let answers = load::saturate(self.next_client(), address, &requests.packets, self.window)?;
        let used = cpu_time()? - before;
        self.read(requests, &answers, Duration::ZERO)?;
        Ok(Round::new(requests.packets.count(), used, answers.elapsed))
    }

    /// Sends `per_second` requests per second. Returns the latency of each answered request.
    pub(crate) fn pace(
        &self,
        address: SocketAddr,
        requests: &Requests<'_>,
        per_second: f64,
    ) -> io::Result<Vec<Duration>> {
        let interval = Duration::from_secs_f64(1.0 / per_second);
        let answers = load::pace(self.next_client(), address, &requests.packets, interval)?;
        self.read(requests, &answers, interval)
    }

    /// Returns a client address for a round. Each round uses a different network, because the number of reports per
    /// network and day is limited.
    fn next_client(&self) -> Ipv4Addr {
        let network = self.network.get();
        self.network.set(network.wrapping_add(1));
        Ipv4Addr::new(127, 0, network, 1)
    }

    /// Evaluates every answer. Returns the latencies.
    fn read(&self, requests: &Requests<'_>, answers: &Answers, interval: Duration) -> io::Result<Vec<Duration>> {
        let findings = requests.read(answers, interval)?;
        self.requests.update(|count| count + requests.packets.count());
        self.lost.update(|lost| lost + answers.lost);
        self.forgotten.update(|forgotten| forgotten + findings.forgotten);
        Ok(findings.waits)
    }
}

impl Round {
    fn new(requests: usize, used: Duration, elapsed: Duration) -> Self {
        let requests = requests as f64;
        Self { per_cpu_second: requests / used.as_secs_f64(), per_second: requests / elapsed.as_secs_f64() }
    }

    /// Returns the medians of both figures.
    pub(crate) fn median(rounds: &[Self]) -> Self {
        Self {
            per_cpu_second: median(rounds.iter().map(|round| round.per_cpu_second)),
            per_second: median(rounds.iter().map(|round| round.per_second)),
        }
    }
}

/// The running reference server.
pub(crate) struct Echo {
    server: Server,
    address: SocketAddr,
}

impl Echo {
    /// Starts an echo server with replies of `reply_bytes` bytes.
    pub(crate) fn start(processors: &Processors, reply_bytes: usize) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([ECHO_ARGUMENT, &reply_bytes.to_string()]).stdout(Stdio::piped());
        let mut server = processors.start(&mut command)?;
        let mut line = String::new();
        BufReader::new(server.output()?).read_line(&mut line)?;
        let port: u16 = line.trim_end().parse().map_err(Error::other)?;
        Ok(Self { server, address: (Ipv4Addr::LOCALHOST, port).into() })
    }

    /// Sends one round of `requests`, without evaluating the answers.
    pub(crate) fn measure(&self, requests: &Requests<'_>) -> io::Result<Round> {
        let before = self.server.cpu_time()?;
        let answers = load::saturate(Ipv4Addr::LOCALHOST, self.address, &requests.packets, WINDOW)?;
        let used = self.server.cpu_time()? - before;
        if answers.lost > 0 {
            return Err(Error::other("the echo server lost requests"));
        }
        Ok(Round::new(requests.packets.count(), used, answers.elapsed))
    }
}
