//! The servers that Bruit can stand in for, if they are installed: pyzord, and rspamd's fuzzy storage on Redis.

use std::fs;
use std::io::{self, BufWriter, Error, ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::process::{Processors, Server};
use super::requests::{About, Kind, Reading, fuzzy, pyzor};
use super::rounds::{Round, Rounds};
use super::speed;
use super::subject::Subject;
use crate::report::{Figure, Report, Target};
use crate::timing::median;

/// Rounds of which the median counts.
const ROUNDS: usize = 3;
/// Requests under way at a time: more of them do not fit into the sockets of the peers.
const WINDOW: usize = 64;
/// The same for reports of many digests.
const REPORTS_UNDER_WAY: usize = 8;
/// Digests that pyzord knows, and how many are in one report.
const PYZOR_KNOWN: u64 = 200_000;
const DIGESTS: u64 = 100;
/// Texts that rspamd knows.
const TEXTS_KNOWN: u64 = 30_000;
/// rspamd refreshes what was found when it writes next, a second or a second and a half later.
const RSPAMD_SYNC: Duration = Duration::from_millis(1_600);
/// How long a peer may take to start, or to store what it was told.
const PATIENCE: Duration = Duration::from_secs(60);
const REPLY_BYTES_MAX: usize = 256;

/// A comparison with a peer.
struct Comparison<'a> {
    name: &'a str,
    kind: &'a dyn Kind,
    /// Signatures that the peer knows.
    known: u64,
    requests: usize,
    /// How long the peer has more to do after its last answer.
    settles: Duration,
    /// How many times the peer's requests per CPU second are wanted.
    wanted: f64,
}

/// A running peer: all its processes.
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

/// The bench's subject, what it knows, and who counts its requests.
pub(crate) struct Beside<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) known: super::footprint::Known,
    pub(crate) rounds: &'a Rounds,
}

/// All comparisons.
pub(crate) fn figures(
    report: &mut Report,
    processors: &Processors,
    folder: &Path,
    beside: &Beside<'_>,
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
    compare_with(report, pyzord(processors, folder), beside, "pyzor", beside.known.pyzor, &[check])?;
    compare_with(report, rspamd(processors, folder), beside, "fuzzy", beside.known.texts, &[digests, shingles])
}

/// Makes `comparisons` with a peer, or says that it is not installed.
fn compare_with(
    report: &mut Report,
    peer: io::Result<Peer>,
    beside: &Beside<'_>,
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
            report.missing(&format!("{name}, requests per CPU second"), &format!(">= {wanted}"), reason)
        });
    }
    let peer = peer?;
    let address = beside.subject.address(protocol)?;
    comparisons.iter().try_for_each(|comparison| compare(report, &peer, beside, address, known, comparison))
}

fn compare(
    report: &mut Report,
    peer: &Peer,
    beside: &Beside<'_>,
    address: SocketAddr,
    known: u64,
    comparison: &Comparison<'_>,
) -> io::Result<()> {
    let Comparison { name, kind, known: known_to_peer, requests, settles, wanted } = *comparison;
    let of_peer = Rounds::with_window(WINDOW);
    let mut found = Vec::new();
    for _ in 0..ROUNDS {
        let theirs = of_peer.requests(kind, requests, About::HalfBelow(known_to_peer));
        let ours = beside.rounds.requests(kind, speed::REQUESTS, About::HalfBelow(known));
        let theirs = of_peer.measure(peer.address, &theirs, || peer.cpu_time(settles))?;
        let ours = beside.rounds.measure(address, &ours, || beside.subject.cpu_time())?;
        found.push((theirs, ours));
    }
    let ratio = median(found.iter().map(|(theirs, ours)| ours.per_cpu_second / theirs.per_cpu_second));
    let (theirs, ours): (Vec<Round>, Vec<Round>) = found.into_iter().unzip();
    let micros = |rounds: &[Round]| 1e6 / Round::median(rounds).per_cpu_second;
    let (lost, forgotten) = (of_peer.lost.get(), of_peer.forgotten.get());
    let (ours, theirs) = (micros(&ours), micros(&theirs));
    let note = format!("{ours:.2} us of CPU beside {theirs:.0}; the peer lost {lost} and forgot {forgotten}");
    let name = format!("{name}, requests per CPU second");
    report.add(Figure::new(name, ratio, Target::AtLeast(wanted), note))
}

/// Starts pyzord and tells it of digests.
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
    rounds.saturate(address, &rounds.requests(&report, (PYZOR_KNOWN / DIGESTS) as usize, About::From(0)))?;
    Ok(peer)
}

/// Starts rspamd's fuzzy storage with a Redis of its own, which is given the texts: told of them, rspamd would take a minute.
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
    // In the foreground, and as whoever runs the bench.
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

/// The fuzzy storage alone, with nothing of the installed configuration.
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

/// An address of loopback that nobody uses now, neither over UDP nor over TCP.
fn free_address() -> io::Result<SocketAddr> {
    loop {
        let address = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
}

/// Asks `peer` about `signature` until the answer is what is `wanted`.
fn until(peer: &mut Peer, kind: &dyn Kind, signature: u64, wanted: fn(Reading) -> bool) -> io::Result<()> {
    let start = Instant::now();
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(peer.address)?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    let (mut packet, mut reply) = (Vec::new(), [0; REPLY_BYTES_MAX]);
    kind.write(0, signature, &mut packet);
    while start.elapsed() < PATIENCE {
        // Until it listens, the network says that nobody does.
        let length = socket.send(&packet).and_then(|_| socket.recv(&mut reply)).unwrap_or(0);
        if kind.read(&reply[..length]).is_some_and(wanted) {
            return Ok(());
        }
        peer.servers.iter_mut().try_for_each(Server::must_run)?;
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(Error::new(ErrorKind::TimedOut, "a peer does not start, or does not learn"))
}
