//! Rounds of requests to a server, beside the same to the echo.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Error};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::load::{self, Answers};
use super::process::{Processors, Server};
use super::requests::{About, Kind, Requests};
use crate::timing::median;

/// The hidden argument that makes this program the echo.
pub(crate) const ECHO_ARGUMENT: &str = "--echo";

/// Requests under way at a time, unless a server cannot take as many.
pub(crate) const WINDOW: usize = 256;

/// What one round found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Requests per second of the server's processor time.
    pub(crate) per_cpu_second: f64,
    /// Requests per second by the clock on the wall.
    pub(crate) per_second: f64,
}

/// Makes rounds, with serial numbers of their own and all losses counted.
pub(crate) struct Rounds {
    /// Requests under way at a time.
    window: usize,
    serial: Cell<u32>,
    network: Cell<u8>,
    /// Requests so far.
    pub(crate) requests: Cell<usize>,
    /// Those without an answer.
    pub(crate) lost: Cell<usize>,
    /// Checks of signatures that were reported and are not known.
    pub(crate) forgotten: Cell<usize>,
}

impl Rounds {
    /// Rounds with so many requests under way at a time.
    pub(crate) fn with_window(window: usize) -> Self {
        let [requests, lost, forgotten] = [(); 3].map(|()| Cell::new(0));
        Self { window, serial: Cell::new(0), network: Cell::new(0), requests, lost, forgotten }
    }

    /// `count` requests that no round made before.
    pub(crate) fn requests<'a>(&self, kind: &'a dyn Kind, count: usize, about: About) -> Requests<'a> {
        let first = self.serial.replace(self.serial.get().wrapping_add(count as u32));
        Requests::new(kind, first, count, about)
    }

    /// Sends `requests` to `server` and looks at every answer.
    pub(crate) fn saturate(&self, address: SocketAddr, requests: &Requests<'_>) -> io::Result<Answers> {
        let answers = load::saturate(self.next_client(), address, &requests.packets, self.window)?;
        self.read(requests, &answers, Duration::ZERO)?;
        Ok(answers)
    }

    /// The same, with the processor time that `cpu_time` tells of.
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

    /// How long each of `requests` took when `per_second` of them came.
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

    /// An address of another network than that of the round before: what one network may report in a day is limited.
    fn next_client(&self) -> Ipv4Addr {
        let network = self.network.get();
        self.network.set(network.wrapping_add(1));
        Ipv4Addr::new(127, 0, network, 1)
    }

    /// Looks at every answer; how long each took.
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

    /// The medians of both figures.
    pub(crate) fn median(rounds: &[Self]) -> Self {
        Self {
            per_cpu_second: median(rounds.iter().map(|round| round.per_cpu_second)),
            per_second: median(rounds.iter().map(|round| round.per_second)),
        }
    }
}

/// The reference, running.
pub(crate) struct Echo {
    server: Server,
    address: SocketAddr,
}

impl Echo {
    /// An echo whose replies have `reply_bytes` bytes.
    pub(crate) fn start(processors: &Processors, reply_bytes: usize) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([ECHO_ARGUMENT, &reply_bytes.to_string()]).stdout(Stdio::piped());
        let mut server = processors.start(&mut command)?;
        let mut line = String::new();
        BufReader::new(server.output()?).read_line(&mut line)?;
        let port: u16 = line.trim_end().parse().map_err(Error::other)?;
        Ok(Self { server, address: (Ipv4Addr::LOCALHOST, port).into() })
    }

    /// One round of `requests`, whose answers say nothing.
    pub(crate) fn measure(&self, requests: &Requests<'_>) -> io::Result<Round> {
        let before = self.server.cpu_time()?;
        let answers = load::saturate(Ipv4Addr::LOCALHOST, self.address, &requests.packets, WINDOW)?;
        let used = self.server.cpu_time()? - before;
        if answers.lost > 0 {
            return Err(Error::other("the echo lost requests"));
        }
        Ok(Round::new(requests.packets.count(), used, answers.elapsed))
    }
}
