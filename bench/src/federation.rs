//! Measurements of the exchange between servers: bytes sent, time until a report is visible, speed of applying
//! segments, and checks answered by two nodes.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, io};

use bruit_client::Client;
use bruit_engine::Outcome;
use bruit_engine::budget::{BUDGET_DEFAULT, Plan};
use bruit_engine::event::Event;
use bruit_engine::exchange::{Book, Chain, Encoding, Frontier, NO_HASH, Origin, OriginChange, Relation, Terms};
use bruit_engine::generations::LIVE_GENERATIONS;
use bruit_engine::realm::Realm;
use bruit_engine::time::Time;
use bruit_engine::trust::{Policy, Standing};
use bruit_federation::coordinator::judge::{Known, Want, accept};
use bruit_federation::keys::NodeKey;
use bruit_federation::segment::{Segment, hash};
use bruit_filters::FingerprintKey;
use bruit_filters::ring::StagedRing;
use bruit_filters::sizing::staged_ring_lines_for_rate;
use bruit_filters::sorted::encode_sorted;
use bruit_protocols::http::{NamedSignature, Subject};
use bruit_server::{Config, Server};
use bruit_store::{Clearinghouse, Founding, Options};

use crate::keys::keys;
use crate::report::{Figure, Report, Target};
use crate::server::cluster::{self, ClusterConfig};

/// Number of signatures in a full generation.
const GENERATION: usize = 1_000_000;
/// Number of signatures that a new node has to receive.
const CATCH_UP: usize = 10_000_000;
/// Maximum number of entries in a segment.
const ENTRIES: usize = 6_144;
/// Number of reports sent over each transport, to measure how long they take to reach another node.
const REPORTS: usize = 50;
/// Number of simulated networks.
const SEEDS: u64 = 1_000;
/// The start of an epoch of both books.
const START: Time = Time(4_000 * Realm::SPAM_EPOCH_SECONDS);

pub(crate) fn figures(report: &mut Report) -> io::Result<()> {
    sizes(report)?;
    catching_up(report)?;
    latencies(report)?;
    cluster_checks(report)?;
    networks(report)
}

/// Compares the bytes that segments need for their signatures with the entropy of the changes in the ring of listed
/// signatures.
fn sizes(report: &mut Report) -> io::Result<()> {
    let lines = staged_ring_lines_for_rate(GENERATION as u64, 7, 1e-6).expect("a valid size") as usize;
    let mut base = StagedRing::new(lines, FingerprintKey::narrow([5; 16]).id(), 0).unwrap();
    base.insert_batch(&keys(0, GENERATION));
    let signer = NodeKey::generate([1; 32]);
    for (new, growth, target) in [(1_000, "0.1 %", 0.80), (10_000, "1 %", 0.95), (100_000, "10 %", 1.02)] {
        let news = keys(1 << 40, new);
        let mut grown = base.clone();
        grown.insert_batch(&news);
        let bits = base.bits() as f64 / 8.0;
        let (before, after) = (base.fill(0).expect("live"), grown.fill(0).expect("live"));
        let (zeros, flips) = (bits * (1.0 - before), bits * (after - before));
        let share = flips / zeros;
        let entropy = -zeros * (share * share.log2() + (1.0 - share) * (1.0 - share).log2());
        let mut highs: Vec<u64> = news.iter().map(|key| key.high()).collect();
        highs.sort_unstable();
        let bytes: usize = highs.chunks(ENTRIES).map(|part| segment(&signer, part, 1, NO_HASH).len()).sum();
        let note = format!("{:.2} bytes per signature, including segment headers", bytes as f64 / new as f64);
        let name = format!("segment size / entropy of the change, {growth} growth");
        report.add(Figure::new(name, bytes as f64 * 8.0 / entropy, Target::AtMost(target), note))?;
    }
    Ok(())
}

fn chain(signer: &NodeKey) -> Chain {
    let origin = Origin { key: *signer.public().as_bytes(), incarnation: 1 };
    Chain { origin, book: Book::Listed, generation: START.epoch(Realm::SPAM_EPOCH_SECONDS) }
}

fn realm() -> Realm {
    let sizes = Plan::for_budget(BUDGET_DEFAULT).expect("the default budget is valid").sizes;
    let key = FingerprintKey::narrow([5; 16]);
    Realm::new(key, Realm::SPAM_EPOCH_SECONDS, Realm::BULK_EPOCH_SECONDS, sizes).expect("valid epochs")
}

/// Builds a signed segment of sorted signatures.
fn segment(signer: &NodeKey, highs: &[u64], sequence: u64, previous: [u8; 32]) -> Vec<u8> {
    segment_of(signer, chain(signer), highs, sequence, previous)
}

fn segment_of(signer: &NodeKey, chain: Chain, highs: &[u64], sequence: u64, previous: [u8; 32]) -> Vec<u8> {
    let mut payload = Vec::new();
    encode_sorted(highs, &mut payload);
    let realm = realm().id();
    let (encoding, entries) = (Encoding::Sorted, highs.len() as u32);
    Segment { realm, chain, sequence, previous, encoding, entries, payload: &payload }.sign(signer)
}

/// Measures how fast a new node processes ten million signatures, in the chains of all live generations. The node
/// verifies, journals and applies them as a link does.
fn catching_up(report: &mut Report) -> io::Result<()> {
    let signer = NodeKey::generate([2; 32]);
    let current = chain(&signer).generation;
    let chains = (0..LIVE_GENERATIONS).map(|age| Chain { generation: current - age, ..chain(&signer) });
    let logs: Vec<(Chain, Vec<u8>, u64)> =
        chains.enumerate().map(|(part, chain)| log_of(&signer, chain, part)).collect();
    let folder = tempfile::tempdir()?;
    let founding = Founding { realm: realm(), budget_bytes: BUDGET_DEFAULT, policy: Policy::default(), founded: START };
    let store = Clearinghouse::open_or_found(folder.path(), &Options::default(), || founding, &mut |_| {})
        .map_err(io::Error::other)?;
    hear(&store, &signer);
    let begin = Instant::now();
    let known = Known::new([(signer.public(), Relation::Cluster)]);
    for (chain, log, sequence) in &logs {
        take(&store, *chain, log, *sequence, &known)?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let listed = store.check(|engine| keys(0, 1_000).iter().all(|key| !engine.spam().entry(key).listed.is_empty()));
    assert!(listed, "all signatures are listed");
    let bytes: usize = logs.iter().map(|(_, log, _)| log.len()).sum();
    let segments: u64 = logs.iter().map(|(_, _, sequence)| sequence).sum();
    let note = format!("{} MB in {segments} segments, verified, journaled and applied", bytes / 1_000_000);
    report.add(Figure::new("seconds until a new node has 10,000,000 signatures", seconds, Target::None, note))?;
    let note = format!("{ENTRIES} signatures per segment, {:.1} M signatures/s", CATCH_UP as f64 / seconds / 1e6);
    report.add(Figure::new("segments applied per second", segments as f64 / seconds, Target::None, note))
}

/// Builds the log of one generation's share of the signatures. Returns the log and its number of segments.
fn log_of(signer: &NodeKey, chain: Chain, part: usize) -> (Chain, Vec<u8>, u64) {
    let each = CATCH_UP / LIVE_GENERATIONS as usize;
    let (mut log, mut sequence, mut previous) = (Vec::new(), 0, NO_HASH);
    for from in (0..each).step_by(ENTRIES) {
        let first = (part * each + from) as u64;
        let mut highs: Vec<u64> = keys(first, ENTRIES.min(each - from)).iter().map(|key| key.high()).collect();
        highs.sort_unstable();
        sequence += 1;
        let bytes = segment_of(signer, chain, &highs, sequence, previous);
        previous = hash(&bytes);
        log.extend(bytes);
    }
    (chain, log, sequence)
}

fn take(store: &Clearinghouse, chain: Chain, log: &[u8], sequence: u64, known: &Known) -> io::Result<()> {
    let to = Frontier { sequence, ..Frontier::default() };
    let mut want = Want { chain, from: Frontier::default(), to };
    while want.from.sequence < sequence {
        let at = want.from.offset as usize;
        let part = &log[at..(at + (4 << 20)).min(log.len())];
        let (received, _) = accept(part, &want, realm().id(), known);
        let events = received.into_iter().map(|segment| Event::Received { now: START, segment: Box::new(segment) });
        for events in events.collect::<Vec<_>>().chunks(64) {
            store.submit(events.to_vec()).map_err(io::Error::other)?;
        }
        let before = want.from.sequence;
        want.from = store.check(|engine| engine.exchange().frontier(&want.chain));
        if want.from.sequence == before {
            return Err(io::Error::other("a segment was not accepted"));
        }
    }
    Ok(())
}

fn hear(store: &Clearinghouse, signer: &NodeKey) {
    let own = Origin { key: [9; 32], incarnation: 1 };
    let terms = Terms { relation: Relation::Cluster, standing: Standing::Pinned, group: 1, cap: 0 };
    for change in [
        OriginChange::Begin { origin: own, cluster: true },
        OriginChange::Join { key: *signer.public().as_bytes(), terms },
    ] {
        let outcomes = store.submit(vec![Event::Origin { now: START, change }]);
        assert!(matches!(outcomes.as_deref(), Ok([Outcome::Done])), "{outcomes:?}");
    }
}

/// Measures the time from the acknowledgement of a report at one node until another node answers that the signature is
/// spam.
fn latencies(report: &mut Report) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let nodes = Nodes::over_https(folder.path())?;
    latency(report, "HTTPS", &nodes)?;
    drop(nodes);
    let folder = tempfile::tempdir()?;
    match Broker::start(folder.path()) {
        Ok(broker) => latency(report, "NATS", &Nodes::over_nats(folder.path(), &broker)?),
        Err(_) => report.missing("seconds until a report is visible on another node, NATS", "none", "nats-server"),
    }
}

fn latency(report: &mut Report, transport: &str, nodes: &Nodes) -> io::Result<()> {
    let clients = nodes.clients()?;
    let mut seconds = Vec::new();
    for number in 0..REPORTS as u64 {
        let subject = subject(number);
        clients[0].report(&subject).map_err(io::Error::other)?;
        let begin = Instant::now();
        while clients[1].check(&subject).map_err(io::Error::other)?.signatures[0].report_count == 0 {
            if begin.elapsed() > Duration::from_secs(30) {
                return Err(io::Error::other("a report did not become visible on the other node"));
            }
            thread::sleep(Duration::from_millis(2));
        }
        seconds.push(begin.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    for (name, at) in [("p50", REPORTS / 2), ("p99", REPORTS * 99 / 100)] {
        let name = format!("seconds until a report is visible on another node, {transport}, {name}");
        report.add(Figure::new(
            name,
            seconds[at],
            Target::None,
            format!("{REPORTS} reports, sent one after the other"),
        ))?;
    }
    Ok(())
}

fn subject(number: u64) -> Subject {
    let signature = NamedSignature { scheme: "pyzor".to_owned(), value: format!("{:040x}", number + 1), piece: None };
    Subject { signatures: vec![signature], ..Subject::default() }
}

/// Two servers of one realm, running in this process.
struct Nodes {
    servers: Vec<Server>,
}

impl Nodes {
    fn over_https(folder: &Path) -> io::Result<Self> {
        let addresses = free_addresses()?;
        Self::start(folder, |other, key| peer(&addresses, other, key), |own| listening(&addresses, own))
    }

    fn over_nats(folder: &Path, broker: &Broker) -> io::Result<Self> {
        Self::start(
            folder,
            |other, key| format!("[[peers]]\nname = \"node-{other}\"\nkey = \"{key}\"\nrelation = \"cluster\"\n"),
            |_| format!("[nats]\nurl = \"{}\"\n", broker.url),
        )
    }

    fn start(folder: &Path, peer: impl Fn(usize, &str) -> String, more: impl Fn(usize) -> String) -> io::Result<Self> {
        let folders = [folder.join("a"), folder.join("b")];
        let keys = found(&folders)?;
        let start = |own: usize| {
            let text = format!("{}{}", more(own), peer(1 - own, &keys[1 - own]));
            serve(&folders[own], "", &text)
        };
        Ok(Self { servers: vec![start(0)?, start(1)?] })
    }

    fn clients(&self) -> io::Result<Vec<Client>> {
        let client = |server: &Server| {
            let http = server.listening().iter().find(|listening| listening.protocol == "http");
            let url = format!("http://{}", http.expect("it listens").address);
            Client::new(&url, None, Duration::from_secs(10)).map_err(io::Error::other)
        };
        self.servers.iter().map(client).collect()
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for server in self.servers.drain(..) {
            let _ = server.stop();
        }
    }
}

/// Creates two clearinghouses of one realm, and returns their keys.
fn found(folders: &[PathBuf; 2]) -> io::Result<Vec<String>> {
    let realm = format!("realm = {:?}\n", folders[0].join("realm.bruit"));
    let mut keys = Vec::new();
    for (folder, first) in folders.iter().zip(["", &realm]) {
        let server = serve(folder, first, "")?;
        keys.push(server.key().public().to_string());
        let _ = server.stop();
    }
    Ok(keys)
}

/// Returns the configuration of the address on which node number `own` listens.
fn listening(addresses: &[SocketAddr], own: usize) -> String {
    format!("[federation]\nlisten = \"{}\"\n", addresses[own])
}

/// Returns the configuration of node number `other` as a peer over HTTPS.
fn peer(addresses: &[SocketAddr], other: usize, key: &str) -> String {
    let address = addresses[other];
    format!(
        "[[peers]]\nname = \"node-{other}\"\nurl = \"https://{address}\"\nkey = \"{key}\"\nrelation = \"cluster\"\n"
    )
}

/// Starts a small server that listens only for HTTP.
fn serve(folder: &Path, first: &str, more: &str) -> io::Result<Server> {
    let silent = "[razor]\nlisten = []\n[dcc]\nlisten = []\n[pyzor]\nlisten = []\n[fuzzy]\nlisten = []\n";
    let text = format!("{first}memory = \"16MiB\"\n{silent}[http]\nlisten = \"127.0.0.1:0\"\n{more}");
    let config = Config::parse(&text).map_err(io::Error::other)?;
    Server::start(&config, folder, &mut |_| {}).map_err(io::Error::other)
}

fn free_addresses() -> io::Result<Vec<SocketAddr>> {
    let listeners = [TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?];
    listeners.iter().map(TcpListener::local_addr).collect()
}

/// A nats-server with JetStream.
struct Broker {
    process: Child,
    url: String,
}

impl Broker {
    fn start(folder: &Path) -> io::Result<Self> {
        let address = free_addresses()?[0];
        let mut command = Command::new("nats-server");
        command.args(["-a", "127.0.0.1", "-js", "-p", &address.port().to_string(), "-sd"]).arg(folder.join("js"));
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Self { process, url: format!("nats://{address}") })
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Compares the checks per second of two nodes, each on its own processor, with those of a single node.
fn cluster_checks(report: &mut Report) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let (addresses, names) = (free_addresses()?, ["alone", "a", "b"]);
    let [alone, a, b] = names.map(|name| folder.path().join(name));
    let data = [a.join("data"), b.join("data")];
    for folder in [&alone, &data[0], &data[1]] {
        fs::create_dir_all(folder)?;
    }
    let keys = found(&data)?;
    let texts =
        [0, 1].map(|own| format!("{}{}", listening(&addresses, own), peer(&addresses, 1 - own, &keys[1 - own])));
    cluster::figure(report, &alone, &ClusterConfig { folders: [a, b], texts })
}

/// Simulates networks with faults, and reports how many have wrong counts after all faults have ended.
fn networks(report: &mut Report) -> io::Result<()> {
    let (mut failed, mut all) = (0, bruit_federation::simulation::Summary::default());
    let begin = Instant::now();
    for seed in 0..SEEDS {
        match bruit_federation::simulation::run(seed) {
            Ok(summary) => all.add(&summary),
            Err(_) => failed += 1,
        }
    }
    let rejected: u64 = all.rejected.values().sum::<u64>();
    let note = format!(
        "{SEEDS} networks, {} nodes, {} reports, {} segments accepted, {} messages lost, {} repeated, {} crashes, \
         {} disks lost, {rejected} segments rejected, {:.0} s",
        all.nodes,
        all.acknowledged,
        all.taken,
        all.lost,
        all.repeated,
        all.crashes,
        all.disks_lost,
        begin.elapsed().as_secs_f64(),
    );
    report.add(Figure::new(
        "networks with wrong counts after all faults have ended",
        f64::from(failed),
        Target::AtMost(0.0),
        note,
    ))
}
