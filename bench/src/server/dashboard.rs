//! The cost of open dashboards: the processor time of checks, measured alternately with and without open dashboards, and
//! the memory that each dashboard uses.
//!
//! Both kinds of rounds alternate within one run of one server. Only the processor time of the server's process is
//! compared, because throughput depends on what else runs on the machine.

use std::io::{self, BufRead as _, BufReader, Error, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::footprint::Known;
use super::process::Processors;
use super::requests::{SignatureRange, pyzor};
use super::rounds::{Rounds, WINDOW};
use super::subject::Subject;
use crate::report::{Figure, Report, Target};
use crate::timing::median;

/// Number of dashboards that are open while checks are sent.
const VIEWERS: usize = 50;
/// Number of open dashboards whose memory is measured. The server allows 128.
const MANY: usize = 120;
/// Number of open dashboards of one session. The server allows 8.
const PER_SESSION: usize = 8;
/// Number of pairs of rounds. The result is the median of their ratios.
const PAIRS: usize = 9;
/// Minimum duration of a round. It must last for several seconds, because dashboards are updated every second.
const ROUND: Duration = Duration::from_secs(4);
/// Number of checks in a batch. Pyzor's replies have 16 bits to name their request.
const CHECKS: usize = 30_000;
/// Signatures that the server knows.
const KNOWN: Known = Known { pyzor: 100_000, dcc: 0, texts: 0 };
const MEMORY: &str = "256MiB";
/// Time for the memory of the server to settle after dashboards were opened. It is long enough for each dashboard to
/// receive some updates.
const SETTLE: Duration = Duration::from_secs(5);

/// Maximum cost of the dashboards, in per cent of the processor time of a check.
const COST_MAX: f64 = 5.0;
/// Maximum memory of an open dashboard, in KiB: the buffers of a connection, and a copy of the figures.
const VIEWER_KIB_MAX: f64 = 64.0;

pub(crate) fn figures(report: &mut Report) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let processors = Processors::divide()?;
    let rounds = Rounds::with_window(WINDOW);
    let subject = Subject::start(&processors, folder.path(), MEMORY, "")?;
    KNOWN.report_to(&subject, &rounds, |_, _| Ok(()))?;
    check(&subject, &rounds)?;
    let cookies = sign_in(&subject)?;
    let (mut pairs, mut updates) = (Vec::new(), 0);
    for number in 0..PAIRS {
        let mut beside = || {
            let viewers = Viewers::open(&subject, &cookies, VIEWERS)?;
            let micros = check(&subject, &rounds);
            updates += viewers.updates();
            micros
        };
        // The order alternates, so that a server that becomes faster or slower favours neither kind.
        pairs.push(if number % 2 == 0 {
            let alone = check(&subject, &rounds)?;
            Pair { alone, beside: beside()? }
        } else {
            let beside = beside()?;
            Pair { alone: check(&subject, &rounds)?, beside }
        });
    }
    if updates == 0 {
        return Err(Error::other("no dashboard got an update"));
    }
    let costs: Vec<f64> = pairs.iter().map(Pair::cost).collect();
    let micros = |of: fn(&Pair) -> f64| median(pairs.iter().map(of));
    report.add(Figure::new(
        format!("cost of {VIEWERS} open dashboards, in per cent of the CPU time of a Pyzor check at full load"),
        median(costs.iter().copied()),
        Target::AtMost(COST_MAX),
        format!(
            "{:.2} and {:.2} us of CPU per check; median of {PAIRS} pairs from {:.1} to {:.1} %; {updates} updates sent, {} \
             replies lost",
            micros(|pair| pair.beside),
            micros(|pair| pair.alone),
            costs.iter().copied().fold(f64::MAX, f64::min),
            costs.iter().copied().fold(f64::MIN, f64::max),
            rounds.lost.get(),
        ),
    ))?;
    memory(report, &subject, &cookies)
}

/// The processor time of a check in two neighbouring rounds, in microseconds.
struct Pair {
    alone: f64,
    beside: f64,
}

impl Pair {
    /// Returns the cost of the dashboards in per cent.
    fn cost(&self) -> f64 {
        100.0 * (self.beside / self.alone - 1.0)
    }
}

/// Runs batches of checks for the duration of a round. Returns the server's processor time for a check in microseconds,
/// including that of open dashboards.
fn check(subject: &Subject, rounds: &Rounds) -> io::Result<f64> {
    let (address, begun) = (subject.address("pyzor")?, Instant::now());
    let (mut micros, mut batches) = (0.0, 0);
    while begun.elapsed() < ROUND {
        let requests = rounds.requests(&pyzor::Check, CHECKS, SignatureRange::HalfBelow(KNOWN.pyzor));
        // Requests are made and replies are read outside of the measured time.
        micros += 1e6 / rounds.measure(address, &requests, || subject.cpu_time())?.per_cpu_second;
        batches += 1;
    }
    Ok(micros / f64::from(batches))
}

/// Measures the memory of an open dashboard.
fn memory(report: &mut Report, subject: &Subject, cookies: &[String]) -> io::Result<()> {
    // The server takes a moment to notice that the previous dashboards were closed.
    thread::sleep(SETTLE);
    let before = subject.server.resident_bytes()?;
    let viewers = Viewers::open(subject, cookies, MANY)?;
    thread::sleep(SETTLE);
    let more = subject.server.resident_bytes()?.saturating_sub(before);
    let note = format!("{MANY} dashboards, {} updates sent; the server allows 128", viewers.updates());
    report.add(Figure::new(
        "KiB of resident memory for an open dashboard",
        more as f64 / 1024.0 / MANY as f64,
        Target::AtMost(VIEWER_KIB_MAX),
        note,
    ))
}

/// Open streams of updates, closed when dropped.
struct Viewers {
    streams: Vec<TcpStream>,
    updates: Arc<AtomicU64>,
}

impl Viewers {
    fn open(subject: &Subject, cookies: &[String], count: usize) -> io::Result<Self> {
        let address = subject.address("http")?;
        let mut viewers = Self { streams: Vec::new(), updates: Arc::default() };
        let cookies = cookies.iter().flat_map(|cookie| [cookie; PER_SESSION]);
        cookies.take(count).try_for_each(|cookie| viewers.follow(address, cookie))?;
        Ok(viewers)
    }

    /// Opens one stream, and counts its updates on another thread.
    fn follow(&mut self, address: SocketAddr, cookie: &str) -> io::Result<()> {
        let mut stream = TcpStream::connect(address)?;
        write!(stream, "GET /live HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n")?;
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        let status = lines.next().transpose()?.unwrap_or_default();
        if !status.contains(" 200 ") {
            return Err(Error::other(format!("the server opens no stream: {status}")));
        }
        self.streams.push(stream);
        let updates = Arc::clone(&self.updates);
        thread::spawn(move || {
            let is_update = |line: &String| line.starts_with("data:");
            lines.map_while(Result::ok).filter(is_update).for_each(|_| {
                updates.fetch_add(1, Ordering::Relaxed);
            });
        });
        Ok(())
    }

    fn updates(&self) -> u64 {
        self.updates.load(Ordering::Relaxed)
    }
}

impl Drop for Viewers {
    fn drop(&mut self) {
        // The threads end with their streams.
        self.streams.iter().for_each(|stream| drop(stream.shutdown(std::net::Shutdown::Both)));
    }
}

/// Opens the sessions for [`MANY`] dashboards, and returns their cookies. The server allows 20 attempts at once.
fn sign_in(subject: &Subject) -> io::Result<Vec<String>> {
    let (address, token) = (subject.address("http")?, subject.token()?);
    let session = |_| -> io::Result<String> {
        let answer = ask_for_session(address, &token)?;
        let cookie = answer.iter().find_map(|line| line.strip_prefix("set-cookie: "));
        let refused = || Error::other(format!("the server opens no session: {:?}", answer.first()));
        Ok(cookie.and_then(|cookie| cookie.split(';').next()).ok_or_else(refused)?.to_owned())
    };
    (0..MANY.div_ceil(PER_SESSION)).map(session).collect()
}

/// Returns the lines of the response's header.
fn ask_for_session(address: SocketAddr, token: &str) -> io::Result<Vec<String>> {
    let mut stream = TcpStream::connect(address)?;
    let body = format!("token={token}");
    write!(
        stream,
        "POST /sign-in HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    BufReader::new(stream).lines().take_while(|line| !matches!(line, Ok(line) if line.is_empty())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_what_dashboards_add_to_a_check() {
        assert_eq!(Pair { alone: 4.0, beside: 4.2 }.cost().round(), 5.0);
        assert!(Pair { alone: 4.0, beside: 3.9 }.cost() < 0.0, "noise may have either sign");
    }
}
