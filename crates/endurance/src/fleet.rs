//! A run of one network from start to end. Nodes are founded and receive traffic, faults are injected one after
//! another, and the nodes are compared with the model after each fault.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bruit_engine::budget::Plan;
use bruit_engine::realm::Realm;
use bruit_engine::time::Time;
use bruit_engine::trust::Policy;
use bruit_filters::FingerprintKey;
use bruit_store::Founding;

use crate::broker::Broker;
use crate::faults::{Deck, Fault};
use crate::judge::{Findings, compare};
use crate::model::now;
use crate::node::Node;
use crate::proxy::Proxy;
use crate::traffic::Traffic;
use crate::{Network, Options};

/// Time within which a fault must appear among the health conditions of the nodes.
const SHOW_TIMEOUT: Duration = Duration::from_secs(10);
/// Time within which the health conditions of a fault must disappear after the end of the fault. One spam epoch is
/// added to this time.
const CLEAR_TIMEOUT: Duration = Duration::from_secs(75);
/// Time within which the nodes must agree with the model after each fault.
const AGREE_TIMEOUT: Duration = Duration::from_secs(25);
/// Period before a disk loss in which acknowledged requests may be lost.
const UNSENT_SECONDS: f64 = 6.0;
/// Maximum number of requests that a looping script sends if none is refused.
const LOOP_REQUESTS_MAX: u32 = 4_000;
/// Maximum memory that nodes grow to.
const MEMORY_MIB_MAX: u64 = 16;
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The kind of network.
    pub network: &'static str,
    /// Duration of the run.
    pub seconds: u64,
    /// The seed for the traffic and the faults.
    pub seed: u64,
    /// Number of bulk-book generations that ended.
    pub bulk_generations: u64,
    /// Number of spam-book generations that ended.
    pub spam_generations: u64,
    /// Number of acknowledged requests.
    pub acknowledged: u64,
    /// Number of refused requests.
    pub refused: u64,
    /// Number of comparisons of all nodes with the model.
    pub comparisons: u64,
    /// Number of compared answers.
    pub compared: u64,
    /// Number of listings for which nodes answered "revoked" because of filter errors, in the comparison with the most
    /// such listings.
    pub filter_errors: u64,
    /// For each fault, by name: the number of times it was injected, the maximum time until the nodes showed it, and
    /// the maximum time until no node showed it any more. Times are in seconds.
    pub faults: BTreeMap<&'static str, (u64, f64, f64)>,
}

/// The nodes and the connections between them.
struct Fleet<'a> {
    options: &'a Options,
    nodes: Vec<Node>,
    realm: PathBuf,
    /// For each node, all connections that lead to it or from it.
    wires: Vec<Vec<Proxy>>,
    broker: Option<Broker>,
}

/// Runs a network of nodes. Calls `progress` with a line about each fault.
///
/// # Errors
/// Returns the first violation, with the last lines of the nodes' logs.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let folder = tempfile::Builder::new().prefix("bruit-endurance-").tempdir()?;
    let mut fleet = Fleet::start(options, folder.path())?;
    let traffic = Traffic::new(fleet.nodes.len());
    let started = Instant::now();
    let mut report = Report { network: options.network.name(), seed: options.seed, ..Report::default() };
    // Take the nodes out of the fleet, so that the traffic threads can borrow them while the fleet changes.
    let nodes = std::mem::take(&mut fleet.nodes);
    let result = thread::scope(|scope| {
        for (index, node) in nodes.iter().enumerate() {
            let (traffic, seed) = (&traffic, options.seed.wrapping_mul(1_000) + index as u64);
            scope.spawn(move || traffic.run(index, node, seed));
        }
        let result = fleet.endure(&nodes, &traffic, started, &mut report, progress);
        traffic.end();
        result
    });
    let logs =
        || nodes.iter().map(|node| format!("--- {}\n{}\n", node.folder.display(), node.log_tail())).collect::<String>();
    if let Err(error) = result {
        let kept = folder.keep();
        return Err(error.context(format!("the files are kept in {}\n{}", kept.display(), logs())));
    }
    report.seconds = started.elapsed().as_secs();
    report.bulk_generations = report.seconds / options.bulk_epoch;
    report.spam_generations = report.seconds / options.spam_epoch;
    report.acknowledged = traffic.acknowledged.load(Ordering::Relaxed);
    report.refused = traffic.refused.load(Ordering::Relaxed);
    drop(nodes);
    fleet.unmount(folder.path());
    Ok(report)
}

impl<'a> Fleet<'a> {
    fn start(options: &'a Options, folder: &Path) -> Result<Self> {
        let realm = folder.join("realm.bruit");
        fs::write(&realm, founding(options)?.encode())?;
        let count = options.network.nodes();
        let folders: Vec<PathBuf> = (0..count).map(|index| folder.join(format!("node-{index}"))).collect();
        for folder in &folders {
            fs::create_dir_all(folder.join("data"))?;
            if options.all_faults {
                mount(&folder.join("data"))?;
            }
        }
        let keys: Vec<String> = folders.iter().map(|folder| new_key(&options.bruit, folder)).collect::<Result<_>>()?;
        let broker = if options.network == Network::Nats { Some(Broker::start(folder)?) } else { None };
        let (configs, wires) = wiring(options.network, &keys, broker.as_ref())?;
        let node = |(folder, config): (PathBuf, String)| Node::new(folder, options.bruit.clone(), &config);
        let nodes: Vec<Node> = folders.into_iter().zip(configs).map(node).collect::<Result<_>>()?;
        nodes.iter().try_for_each(|node| node.start(&realm))?;
        Ok(Self { options, nodes, realm, wires, broker })
    }

    /// Injects one fault after another until the time is over and each kind has been injected at least once.
    fn endure(
        &mut self,
        nodes: &[Node],
        traffic: &Traffic,
        started: Instant,
        report: &mut Report,
        progress: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let mut deck = Deck::new(self.options);
        let mut faults = 0;
        while started.elapsed() < self.options.duration || faults < deck.len() {
            let (fault, index) = deck.draw(nodes.len());
            progress(&format!("{:6.0} s  {} at node {index}", started.elapsed().as_secs_f64(), fault.name()));
            self.inject(fault, index, nodes, traffic, report)
                .with_context(|| format!("{} ({fault:?}) at node {index}", fault.name()))?;
            faults += 1;
            self.judge(nodes, traffic, report).with_context(|| format!("after {} at node {index}", fault.name()))?;
        }
        Ok(())
    }

    /// Injects a fault, waits until nodes show it, ends it, and waits until no node shows it.
    fn inject(
        &mut self,
        fault: Fault,
        index: usize,
        nodes: &[Node],
        traffic: &Traffic,
        report: &mut Report,
    ) -> Result<()> {
        let begin = Instant::now();
        self.begin(fault, index, nodes, traffic)?;
        self.wait_until_visible(fault, index, nodes)?;
        let visible = begin.elapsed().as_secs_f64();
        let end = Instant::now();
        self.end(fault, index, nodes, traffic)?;
        self.wait_until_gone(fault, nodes)?;
        let entry = report.faults.entry(fault.name()).or_default();
        *entry = (entry.0 + 1, entry.1.max(visible), entry.2.max(end.elapsed().as_secs_f64()));
        Ok(())
    }

    fn begin(&mut self, fault: Fault, index: usize, nodes: &[Node], traffic: &Traffic) -> Result<()> {
        let node = &nodes[index];
        match fault {
            Fault::Kill => node.kill(),
            Fault::Restart | Fault::Grow => node.stop()?,
            Fault::SmallStep(seconds) | Fault::Clock(seconds) => node.set_clock(seconds)?,
            Fault::Away | Fault::LongAway => {
                traffic.is_quiet[index].store(true, Ordering::Relaxed);
                node.stop()?;
            }
            Fault::Partition => self.wires[index].iter().for_each(|wire| wire.cut(true)),
            Fault::DiskFull => fill_disk(&node.data())?,
            Fault::DiskLoss => {
                traffic.is_quiet[index].store(true, Ordering::Relaxed);
                node.kill();
                traffic.model().doubt(index, now() - UNSENT_SECONDS);
                node.lose_disk()?;
            }
            Fault::BrokerKill | Fault::BrokerLoss => {
                let broker = self.broker.as_mut().context("no broker")?;
                broker.kill();
                if fault == Fault::BrokerLoss {
                    broker.lose_disk();
                }
            }
            Fault::ReportLoop | Fault::RevokeLoop => {
                if !traffic.flood(node, fault == Fault::RevokeLoop, LOOP_REQUESTS_MAX) {
                    bail!("the node accepted all {LOOP_REQUESTS_MAX} requests of a looping script");
                }
            }
        }
        Ok(())
    }

    fn end(&mut self, fault: Fault, index: usize, nodes: &[Node], traffic: &Traffic) -> Result<()> {
        let node = &nodes[index];
        let epochs = |epochs: u64| Duration::from_secs(epochs * self.options.bulk_epoch);
        match fault {
            Fault::Kill | Fault::Restart | Fault::DiskLoss => self.revive(index, node, traffic)?,
            Fault::Grow => self.grow(index, nodes, traffic)?,
            Fault::SmallStep(_) | Fault::Clock(_) => {
                thread::sleep(Duration::from_secs(5));
                node.set_clock(0)?;
            }
            Fault::Away => {
                thread::sleep(epochs(2));
                self.revive(index, node, traffic)?;
            }
            Fault::LongAway => {
                thread::sleep(epochs(9).max(Duration::from_secs(8 * self.options.spam_epoch)));
                self.revive(index, node, traffic)?;
            }
            Fault::Partition => self.wires[index].iter().for_each(|wire| wire.cut(false)),
            Fault::DiskFull => fs::remove_file(node.data().join("filler"))?,
            Fault::BrokerKill | Fault::BrokerLoss => {
                self.broker.as_mut().context("no broker")?.launch()?;
            }
            Fault::ReportLoop | Fault::RevokeLoop => {}
        }
        Ok(())
    }

    /// Restarts a node with twice the memory, and then all others, one after another.
    fn grow(&self, index: usize, nodes: &[Node], traffic: &Traffic) -> Result<()> {
        let order = std::iter::once(index).chain((0..nodes.len()).filter(|other| *other != index));
        for (index, node) in order.filter_map(|index| Some((index, nodes.get(index)?))) {
            node.stop()?;
            if node.memory_mib() < MEMORY_MIB_MAX {
                node.double_memory();
            }
            self.revive(index, node, traffic)?;
        }
        Ok(())
    }

    /// Starts a node. Confirms its clock if the node was down for so long that it reports a clock jump.
    fn revive(&self, index: usize, node: &Node, traffic: &Traffic) -> Result<()> {
        traffic.is_quiet[index].store(true, Ordering::Relaxed);
        node.start(&self.realm)?;
        thread::sleep(Duration::from_secs(2));
        if shows(node, &["clock_jump"])? {
            node.accept_clock()?;
            wait(SHOW_TIMEOUT, || Ok(!shows(node, &["clock_jump", "catching_up"])?))
                .context("the node still reports a clock jump after the clock was accepted")?;
        }
        traffic.is_quiet[index].store(false, Ordering::Relaxed);
        Ok(())
    }

    fn wait_until_visible(&self, fault: Fault, index: usize, nodes: &[Node]) -> Result<()> {
        if !fault.own_states().is_empty() {
            wait(SHOW_TIMEOUT, || shows(&nodes[index], fault.own_states()))
                .with_context(|| format!("node {index} does not show any of {:?}", fault.own_states()))?;
        }
        if fault.others_states().is_empty() {
            return Ok(());
        }
        for (other, node) in nodes.iter().enumerate().filter(|(other, _)| *other != index) {
            wait(SHOW_TIMEOUT, || shows(node, fault.others_states()))
                .with_context(|| format!("node {other} does not show any of {:?}", fault.others_states()))?;
        }
        Ok(())
    }

    fn wait_until_gone(&self, fault: Fault, nodes: &[Node]) -> Result<()> {
        let states: Vec<&str> = [fault.own_states(), fault.others_states()].concat();
        let patience = CLEAR_TIMEOUT + Duration::from_secs(self.options.spam_epoch);
        for (index, node) in nodes.iter().enumerate() {
            let mut last = Vec::new();
            let gone = wait(patience, || {
                last = node
                    .health()
                    .map(|health| health.iter().map(|row| format!("{row:?}")).collect())
                    .unwrap_or_default();
                Ok(!shows(node, &states)?)
            });
            gone.with_context(|| format!("node {index} still shows one of {states:?}: {last:#?}"))?;
        }
        Ok(())
    }

    /// Compares the nodes with the model until they agree.
    fn judge(&self, nodes: &[Node], traffic: &Traffic, report: &mut Report) -> Result<()> {
        for (index, node) in nodes.iter().enumerate() {
            if !node.is_running() {
                bail!("node {index} has exited");
            }
        }
        let deadline = Instant::now() + AGREE_TIMEOUT;
        loop {
            traffic.model().forget(now(), self.options.spam_epoch, self.options.bulk_epoch);
            let findings = self.compare(nodes, traffic)?;
            report.comparisons += 1;
            report.compared += findings.compared;
            if let Some(wrong) = findings.wrong.first() {
                bail!("{wrong} ({} in total)", findings.wrong.len());
            }
            let is_over = Instant::now() > deadline;
            match (findings.late.first(), findings.missed.first()) {
                (None, None) => return Ok(()),
                (Some(late), _) if is_over => bail!("{late} ({} in total)", findings.late.len()),
                (None, Some(missed)) if is_over && findings.missed.len() > findings.missed_max() => {
                    bail!("{missed} ({} in total)", findings.missed.len());
                }
                (None, Some(_)) if is_over => {
                    report.filter_errors = report.filter_errors.max(findings.missed.len() as u64);
                    return Ok(());
                }
                _ => thread::sleep(POLL_INTERVAL),
            }
        }
    }

    /// Compares the nodes with the model. Pauses the traffic, so that the model does not change.
    fn compare(&self, nodes: &[Node], traffic: &Traffic) -> Result<Findings> {
        let _pause = traffic.pause();
        let model = traffic.model();
        compare(nodes, &model, self.options)
    }

    fn unmount(&self, folder: &Path) {
        if self.options.all_faults {
            for index in 0..self.options.network.nodes() {
                let _ = Command::new("umount").arg(folder.join(format!("node-{index}")).join("data")).status();
            }
        }
    }
}

/// Returns true if a node shows any of these health states.
fn shows(node: &Node, states: &[&str]) -> Result<bool> {
    Ok(node.health()?.iter().any(|row| states.contains(&row.state.as_str())))
}

/// Waits until a condition holds. A check that returns an error is retried.
fn wait(patience: Duration, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        match is_so() {
            Ok(true) => return Ok(()),
            Ok(false) if Instant::now() > deadline => bail!("timed out after {patience:?}"),
            Err(error) if Instant::now() > deadline => return Err(error),
            Ok(false) | Err(_) => thread::sleep(POLL_INTERVAL),
        }
    }
}

/// Returns a realm with epochs of a few seconds.
fn founding(options: &Options) -> Result<Founding> {
    let budget_bytes = 8 << 20;
    let sizes = Plan::for_budget(budget_bytes)?.sizes;
    let key = FingerprintKey::narrow(u128::from(options.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
    let realm =
        Realm::new(key, options.spam_epoch, options.bulk_epoch, sizes).map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(Founding { realm, budget_bytes, policy: Policy::default(), founded: Time(now() as u64) })
}

/// Creates a node's key, and returns its public half.
fn new_key(bruit: &Path, folder: &Path) -> Result<String> {
    let key = folder.join("data").join("node.key");
    let made = Command::new(bruit).args(["keys", "new"]).arg(&key).output()?;
    let shown = Command::new(bruit).args(["keys", "show", "--data"]).arg(folder.join("data")).output()?;
    if !made.status.success() || !shown.status.success() {
        bail!("bruit keys: {}{}", String::from_utf8_lossy(&made.stderr), String::from_utf8_lossy(&shown.stderr));
    }
    Ok(String::from_utf8(shown.stdout)?.trim().to_owned())
}

/// Returns each node's configuration for the exchange, and the connections between the nodes.
fn wiring(network: Network, keys: &[String], broker: Option<&Broker>) -> Result<(Vec<String>, Vec<Vec<Proxy>>)> {
    let count = keys.len();
    let mut configs = vec![String::new(); count];
    let mut wires = vec![Vec::new(); count];
    let addresses: Vec<SocketAddr> =
        (0..count).map(|_| Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)).collect::<Result<_>>()?;
    for (index, config) in configs.iter_mut().enumerate() {
        match (network, broker) {
            (Network::Alone, _) => continue,
            (Network::Https, _) => write!(config, "\n[federation]\nlisten = \"{}\"\n", addresses[index])?,
            (Network::Nats, Some(broker)) => {
                let wire = Proxy::start(broker.address())?;
                write!(
                    config,
                    "\n[nats]\nurl = [\"nats://{}\"]\nreplicas = 1\nmax_bytes = \"64MiB\"\n",
                    wire.address()
                )?;
                wires[index].push(wire);
            }
            (Network::Nats, None) => bail!("a NATS network needs a broker"),
        }
        for other in (0..count).filter(|other| *other != index) {
            write!(
                config,
                "\n[[peers]]\nname = \"node-{other}\"\nkey = \"{}\"\nrelation = \"cluster\"\n",
                keys[other]
            )?;
            if network == Network::Https {
                let wire = Proxy::start(addresses[other])?;
                writeln!(config, "url = \"https://{}\"", wire.address())?;
                wires[index].push(wire.clone());
                wires[other].push(wire);
            }
        }
    }
    Ok((configs, wires))
}

/// Mounts a small disk for a node.
fn mount(data: &Path) -> Result<()> {
    let status = Command::new("mount").args(["-t", "tmpfs", "-o", "size=768m", "tmpfs"]).arg(data).status()?;
    if status.success() { Ok(()) } else { bail!("failed to mount a tmpfs at {}: this needs root", data.display()) }
}

/// Fills a node's disk to the last byte.
fn fill_disk(data: &Path) -> Result<()> {
    use std::io::Write as _;
    let mut file = fs::File::create(data.join("filler"))?;
    let block = vec![0x5a; 1 << 16];
    while file.write_all(&block).is_ok() {}
    while file.write_all(&[0x5a]).is_ok() {}
    Ok(())
}
