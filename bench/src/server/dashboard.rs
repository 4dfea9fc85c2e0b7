//! The cost of open dashboards: the speed of checks with and without open dashboards, and the memory per dashboard.

use std::io::{self, BufRead as _, BufReader, Error, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::footprint::Known;
use super::process::Processors;
use super::requests::{SignatureRange, pyzor};
use super::rounds::{Round, Rounds, WINDOW};
use super::subject::Subject;
use crate::report::{Figure, Report, Target};
use crate::timing::median;

/// Number of dashboards that are open while checks are sent.
const VIEWERS: usize = 50;
/// Number of open dashboards whose memory is measured. The server allows 128.
const MANY: usize = 120;
/// Number of open dashboards of one session. The server allows 8.
const PER_SESSION: usize = 8;
/// Number of rounds with open dashboards. They alternate with the same number of rounds without dashboards. Each result
/// is a median.
const ROUNDS: usize = 7;
/// Number of batches in a round. A round must last for several seconds, because dashboards are updated every second.
const BATCHES: usize = 14;
/// Number of checks in a batch. It must be below 2^16, because a reply of Pyzor identifies its request by 16 bits.
const CHECKS: usize = 30_000;
/// Signatures that the server knows.
const KNOWN: Known = Known { pyzor: 100_000, dcc: 0, texts: 0 };
const MEMORY: &str = "256MiB";
/// Time for the memory of the server to settle after dashboards were opened. It is long enough for each dashboard to
/// receive some updates.
const SETTLE: Duration = Duration::from_secs(5);

pub(crate) fn figures(report: &mut Report) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let processors = Processors::divide()?;
    let rounds = Rounds::with_window(WINDOW);
    let subject = Subject::start(&processors, folder.path(), MEMORY, "")?;
    KNOWN.report_to(&subject, &rounds, |_, _| Ok(()))?;
    check(&subject, &rounds)?;
    let cookies = sign_in(&subject)?;
    let (mut alone, mut beside, mut updates) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        alone.push(check(&subject, &rounds)?);
        let viewers = Viewers::open(&subject, &cookies, VIEWERS)?;
        beside.push(check(&subject, &rounds)?);
        updates += viewers.updates();
    }
    let ratio = |of: fn(&Round) -> f64| median(beside.iter().zip(&alone).map(|(beside, alone)| of(beside) / of(alone)));
    let (cpu, throughput) = (ratio(|round| round.per_cpu_second), ratio(|round| round.per_second));
    let (alone, beside) = (Round::median(&alone), Round::median(&beside));
    let lost = rounds.lost.get();
    report.add(Figure::new(
        format!("Pyzor checks per second with {VIEWERS} open dashboards, relative to none"),
        throughput,
        Target::AtLeast(0.95),
        format!("{:.0} and {:.0} checks/s, {updates} updates sent, {lost} lost", beside.per_second, alone.per_second),
    ))?;
    report.add(Figure::new(
        format!("Pyzor checks per CPU second with {VIEWERS} open dashboards, relative to none"),
        cpu,
        Target::AtLeast(0.95),
        format!("{:.2} and {:.2} us of CPU per check", 1e6 / beside.per_cpu_second, 1e6 / alone.per_cpu_second),
    ))?;
    memory(report, &subject, &cookies)
}

/// Runs a round, and returns the mean of its batches.
fn check(subject: &Subject, rounds: &Rounds) -> io::Result<Round> {
    let address = subject.address("pyzor")?;
    let batch = |_| {
        let requests = rounds.requests(&pyzor::Check, CHECKS, SignatureRange::HalfBelow(KNOWN.pyzor));
        rounds.measure(address, &requests, || subject.cpu_time())
    };
    let batches = (0..BATCHES).map(batch).collect::<io::Result<Vec<Round>>>()?;
    // Batches have equal numbers of checks, so their times are added up.
    let mean = |of: fn(&Round) -> f64| BATCHES as f64 / batches.iter().map(|round| 1.0 / of(round)).sum::<f64>();
    Ok(Round { per_cpu_second: mean(|round| round.per_cpu_second), per_second: mean(|round| round.per_second) })
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
        Target::None,
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
