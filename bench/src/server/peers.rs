//! Comparisons with servers that Bruit can replace, if they are installed: pyzord, and rspamd's fuzzy storage on Redis.

use std::fs;
use std::io::{self, BufWriter, Error, ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::process::{Processors, Server};
use super::requests::{Kind, Reading, SignatureRange, fuzzy, pyzor};
use super::rounds::{Round, Rounds};
use super::speed;
use super::subject::Subject;
use crate::report::{Figure, Report, Target};
use crate::timing::median;

/// Number of rounds. The result is the median of the rounds.
const ROUNDS: usize = 3;
/// Number of requests in flight. The socket buffers of the peers have no room for more.
const WINDOW: usize = 64;
/// Number of requests in flight, for reports of many digests.
const REPORTS_UNDER_WAY: usize = 8;
/// Number of digests stored in pyzord, and number of digests per report.
const PYZOR_KNOWN: u64 = 200_000;
const DIGESTS: u64 = 100;
/// Number of texts stored in rspamd.
const TEXTS_KNOWN: u64 = 30_000;
/// Delay until rspamd has renewed the expiry of the texts that it found. rspamd does that with its next write, 1 to 1.5
/// seconds later.
const RSPAMD_SYNC: Duration = Duration::from_millis(1_600);
/// Maximum time for a peer to start, or to store data.
const PATIENCE: Duration = Duration::from_secs(60);
const REPLY_BYTES_MAX: usize = 256;

/// A comparison with another program (pyzord or rspamd).
struct Comparison<'a> {
    name: &'a str,
    kind: &'a dyn Kind,
    /// Number of signatures stored in the peer.
    known: u64,
    requests: usize,
    /// Time that the peer needs after its last answer to finish its work.
    settles: Duration,
    /// Target for the ratio of our requests per CPU second to the peer's.
    wanted: f64,
}

/// A running peer and all its processes.
struct Peer {
    address: SocketAddr,
    servers: Vec<Server>,
}

impl Peer {
    fn cpu_time(&self, settles: Duration) -> io::Result<Duration> {
        std::thread::sleep(settles);
        self.servers.iter().map(Server::cpu_time).sum()
    }
}

/// The server under test, the signatures that it knows, and the counter of its requests.
pub(crate) struct Baseline<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) known: super::footprint::Known,
    pub(crate) rounds: &'a Rounds,
}

/// Runs all comparisons.
pub(crate) fn figures(
    report: &mut Report,
    processors: &Processors,
    folder: &Path,
    baseline: &Baseline<'_>,
) -> io::Result<()> {
    let check = Comparison {
        name: "Pyzor check / pyzord on gdbm",
        kind: &pyzor::Check,
        known: PYZOR_KNOWN,
        requests: 1_500,
        settles: Duration::ZERO,
        wanted: 50.0,
    };
    let digests = Comparison {
        name: "fuzzy check by digest / rspamd on Redis",
        kind: &fuzzy::Digests,
        known: TEXTS_KNOWN,
        requests: 8_000,
        settles: RSPAMD_SYNC,
        wanted: 6.0,
    };
    let shingles = Comparison {
        name: "fuzzy check by 32 shingles / rspamd on Redis",
        kind: &fuzzy::NearCopies,
        requests: 4_000,
        wanted: 12.0,
        ..digests
    };
    compare_with(report, pyzord(processors, folder), baseline, "pyzor", baseline.known.pyzor, &[check])?;
    compare_with(report, rspamd(processors, folder), baseline, "fuzzy", baseline.known.texts, &[digests, shingles])
}

/// Runs `comparisons` with a peer, or reports that it is not installed.
fn compare_with(
    report: &mut Report,
    peer: io::Result<Peer>,
    baseline: &Baseline<'_>,
    protocol: &str,
    known: u64,
    comparisons: &[Comparison<'_>],
) -> io::Result<()> {
    let missing = match &peer {
        Err(error) if error.kind() == ErrorKind::NotFound => Some("not installed"),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Some("installed, but does not start"),
        _ => None,
    };
    if let Some(reason) = missing {
        return comparisons.iter().try_for_each(|Comparison { name, wanted, .. }| {
            report.missing(&format!("requests per CPU second, {name}"), &format!(">= {wanted}"), reason)
        });
    }
    let peer = peer?;
    let address = baseline.subject.address(protocol)?;
    comparisons.iter().try_for_each(|comparison| compare(report, &peer, baseline, address, known, comparison))
}

fn compare(
    report: &mut Report,
    peer: &Peer,
    baseline: &Baseline<'_>,
    address: SocketAddr,
    known: u64,
    comparison: &Comparison<'_>,
) -> io::Result<()> {
    let Comparison { name, kind, known: known_to_peer, requests, settles, wanted } = *comparison;
    let of_peer = Rounds::with_window(WINDOW);
    let mut found = Vec::new();
    for _ in 0..ROUNDS {
        let theirs = of_peer.requests(kind, requests, SignatureRange::HalfBelow(known_to_peer));
        let ours = baseline.rounds.requests(kind, speed::REQUESTS, SignatureRange::HalfBelow(known));
        let theirs = of_peer.measure(peer.address, &theirs, || peer.cpu_time(settles))?;
        let ours = baseline.rounds.measure(address, &ours, || baseline.subject.cpu_time())?;
        found.push((theirs, ours));
    }
    let ratio = median(found.iter().map(|(theirs, ours)| ours.per_cpu_second / theirs.per_cpu_second));
    let (theirs, ours): (Vec<Round>, Vec<Round>) = found.into_iter().unzip();
    let micros = |rounds: &[Round]| 1e6 / Round::median(rounds).per_cpu_second;
    let (lost, forgotten) = (of_peer.lost.get(), of_peer.forgotten.get());
    let (ours, theirs) = (micros(&ours), micros(&theirs));
    let note = format!(
        "{ours:.2} us of CPU, peer {theirs:.0} us; the peer lost {lost} requests and forgot {forgotten} signatures"
    );
    let name = format!("requests per CPU second, {name}");
    report.add(Figure::new(name, ratio, Target::AtLeast(wanted), note))
}

/// Starts pyzord and stores digests in it.
fn pyzord(processors: &Processors, folder: &Path) -> io::Result<Peer> {
    let home = folder.join("pyzord");
    fs::create_dir_all(&home)?;
    let address = free_address()?;
    let mut command = Command::new("pyzord");
    command.arg("--homedir").arg(&home).args(["-a", "127.0.0.1", "-e", "gdbm"]);
    command.args(["-p", &address.port().to_string()]).arg("--dsn").arg(home.join("pyzord.db"));
    let mut peer = Peer { address, servers: vec![quiet(processors, &mut command)?] };
    until(&mut peer, &pyzor::Check, 0, |_| true)?;
    let (rounds, report) = (Rounds::with_window(REPORTS_UNDER_WAY), pyzor::Report { digests: DIGESTS });
    rounds.saturate(address, &rounds.requests(&report, (PYZOR_KNOWN / DIGESTS) as usize, SignatureRange::From(0)))?;
    Ok(peer)
}

/// Starts rspamd's fuzzy storage, with its own Redis. The texts are written to Redis directly, because writing them
/// through rspamd would take a minute.
fn rspamd(processors: &Processors, folder: &Path) -> io::Result<Peer> {
    let home = folder.join("rspamd");
    fs::create_dir_all(&home)?;
    let (address, redis) = (free_address()?, free_address()?);
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.args(["--port", &redis.port().to_string()]).arg("--dir").arg(&home);
    let redis_server = quiet(processors, &mut command)?;
    fs::write(home.join("rspamd.conf"), rspamd_configuration(&home, address, redis))?;
    let mut command = Command::new("rspamd");
    // Runs rspamd in the foreground, as the current user.
    command.args(["-f", "-i", "-c"]).arg(home.join("rspamd.conf"));
    let mut peer = Peer { address, servers: vec![quiet(processors, &mut command)?, redis_server] };
    until(&mut peer, &fuzzy::Digests, 0, |_| true)?;
    let mut redis = BufWriter::new(TcpStream::connect(redis)?);
    redis.write_all(b"CLIENT REPLY OFF\r\n")?;
    (0..TEXTS_KNOWN).try_for_each(|text| fuzzy::write_to_redis(text, &mut redis))?;
    redis.flush()?;
    until(&mut peer, &fuzzy::Digests, TEXTS_KNOWN - 1, |reading| reading.is_known)?;
    Ok(peer)
}

/// Returns a configuration for the fuzzy storage alone. It does not use the installed configuration.
fn rspamd_configuration(home: &Path, address: SocketAddr, redis: SocketAddr) -> String {
    let home = home.display();
    format!(
        r#"
options {{
  pidfile = "{home}/rspamd.pid"; tempdir = "{home}"; control_socket = "{home}/control.sock mode=0600";
  filters = ""; url_tld = "/dev/null";
  dns {{ nameserver = ["127.0.0.1:9"]; timeout = 0.1s; retransmits = 1; }}
}}
logging {{ type = "file"; filename = "{home}/rspamd.log"; level = "warning"; }}
worker "fuzzy" {{
  bind_socket = "{address}"; count = 1; backend = "redis"; servers = "{redis}"; timeout = 60s;
  expire = 90d; sync = 1s; allow_update = ["127.0.0.0/8"];
}}
"#
    )
}

fn quiet(processors: &Processors, command: &mut Command) -> io::Result<Server> {
    processors.start(command.stdout(Stdio::null()).stderr(Stdio::null()))
}

/// Returns a loopback address with a port that is free for both UDP and TCP.
fn free_address() -> io::Result<SocketAddr> {
    loop {
        let address = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
}

/// Sends checks of `signature` to `peer` until the answer is `wanted`.
fn until(peer: &mut Peer, kind: &dyn Kind, signature: u64, wanted: fn(Reading) -> bool) -> io::Result<()> {
    let start = Instant::now();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(peer.address)?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let (mut packet, mut reply) = (Vec::new(), [0; REPLY_BYTES_MAX]);
    kind.write(0, signature, &mut packet);
    while start.elapsed() < PATIENCE {
        // As long as the peer does not listen, sending may fail with "connection refused".
        let length = socket.send(&packet).and_then(|_| socket.recv(&mut reply)).unwrap_or(0);
        if kind.read(&reply[..length]).is_some_and(wanted) {
            return Ok(());
        }
        peer.servers.iter_mut().try_for_each(Server::must_run)?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(Error::new(ErrorKind::TimedOut, "a peer did not start, or did not store the signature"))
}
