//! Three nodes over three brokers. Whatever is killed meanwhile, every report that was acknowledged is counted exactly once, by all.

#[path = "../../federation/tests/brokers/mod.rs"]
mod brokers;
mod common;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bruit_client::Client;
use bruit_client::http::{NamedSignature, SIGNATURES_MAX, Subject};

use brokers::Brokers;
use common::{Folder, Server, printed};

const NODES: usize = 3;
/// What does not happen within this never will.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a report may take; a node that was killed does not answer at all.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(20);
/// Reports that are acknowledged between one blow and the next.
const REPORTS_BETWEEN: u64 = 100;
/// Signatures that every node reports again and again.
const SHARED: u64 = 8;

/// What happens while reports come in. All brokers away at once comes last but one: nodes take reports all the same.
const BLOWS: [Blow; 8] = [
    Blow::Node(0),
    Blow::Broker(0),
    Blow::Node(1),
    Blow::Broker(1),
    Blow::Node(2),
    Blow::Broker(2),
    Blow::AllBrokers,
    Blow::Node(0),
];

#[derive(Clone, Copy, Debug)]
enum Blow {
    Node(usize),
    Broker(usize),
    AllBrokers,
}

#[test]
fn every_acknowledged_report_is_counted_once_whatever_is_killed() {
    let mut brokers = Brokers::start(NODES);
    let folders: Vec<Folder> = (0..NODES).map(|_| Folder::new()).collect();
    let mut nodes = start_nodes(&folders, &brokers);
    let load = Load::new(&nodes);
    thread::scope(|scope| {
        let ends = EndsOnDrop(&load.is_over);
        for index in 0..NODES {
            let load = &load;
            scope.spawn(move || load.run(index));
        }
        for blow in BLOWS {
            load.wait_for_more();
            strike(blow, &mut brokers, &mut nodes, &load);
        }
        load.wait_for_more();
        drop(ends);
    });
    let told = load.told.into_inner().unwrap();
    let begin = Instant::now();
    let agreed = agree(&nodes, &told);
    let shown = nodes.iter().map(Server::said).collect::<Vec<_>>().join("\n");
    assert!(agreed.is_ok(), "after {:?}: {}\n{shown}", begin.elapsed(), agreed.unwrap_err());
}

/// Three servers of one realm that know each other's keys.
fn start_nodes(folders: &[Folder], brokers: &Brokers) -> Vec<Server> {
    let realm = folders[0].path("data/realm.bruit");
    for (index, folder) in folders.iter().enumerate() {
        let mut server = if index == 0 { Server::start(folder, "") } else { Server::start_in_realm(folder, &realm) };
        assert!(server.terminate().success(), "{}", server.said());
    }
    let keys: Vec<String> = folders.iter().map(public_key).collect();
    let broker = format!("[nats]\nurl = {:?}\nreplicas = 3\nmax_bytes = \"64MiB\"\n", brokers.urls());
    let peer = |other: usize| {
        format!("\n[[peers]]\nname = \"node-{other}\"\nkey = \"{}\"\nrelation = \"cluster\"\n", keys[other])
    };
    let more = |index: usize| {
        let others: String = (0..NODES).filter(|other| *other != index).map(peer).collect();
        format!("{broker}{others}")
    };
    folders.iter().enumerate().map(|(index, folder)| Server::start(folder, &more(index))).collect()
}

fn public_key(folder: &Folder) -> String {
    printed(&["keys", "show", "--data", folder.path("data").to_str().unwrap()]).trim().to_owned()
}

/// Kills, and starts again when others have gone on without.
fn strike(blow: Blow, brokers: &mut Brokers, nodes: &mut Vec<Server>, load: &Load) {
    match blow {
        Blow::Node(index) => {
            let mut node = nodes.remove(index);
            node.kill();
            load.wait_for_more();
            nodes.insert(index, node.restart());
            *load.urls[index].lock().unwrap() = nodes[index].url();
        }
        Blow::Broker(index) => {
            brokers.kill(index);
            load.wait_for_more();
            brokers.launch(index);
            brokers.wait_until_ready();
        }
        Blow::AllBrokers => {
            (0..NODES).for_each(|index| brokers.kill(index));
            load.wait_for_more();
            (0..NODES).for_each(|index| brokers.launch(index));
            brokers.wait_until_ready();
        }
    }
}

/// Reports to all nodes, until it is over.
struct Load {
    urls: Vec<Mutex<String>>,
    next: AtomicU64,
    acknowledged: AtomicU64,
    is_over: AtomicBool,
    told: Mutex<Told>,
}

/// What the nodes were told.
#[derive(Default)]
struct Told {
    /// Signatures that were reported once, and whether that was acknowledged.
    once: Vec<(u64, bool)>,
    /// How many reports of each shared signature were acknowledged, and how many may have been taken or not.
    shared: [(u32, u32); SHARED as usize],
}

impl Load {
    fn new(nodes: &[Server]) -> Self {
        Self {
            urls: nodes.iter().map(|node| Mutex::new(node.url())).collect(),
            next: AtomicU64::new(SHARED),
            acknowledged: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            told: Mutex::default(),
        }
    }

    fn run(&self, node: usize) {
        while !self.is_over.load(Ordering::Relaxed) {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let is_acknowledged = self.report(node, number);
            self.told.lock().unwrap().once.push((number, is_acknowledged));
            let shared = number % SHARED;
            let is_acknowledged = self.report(node, shared);
            let (sure, perhaps) = &mut self.told.lock().unwrap().shared[shared as usize];
            *(if is_acknowledged { sure } else { perhaps }) += 1;
        }
    }

    /// Reports a signature; whether that was acknowledged.
    fn report(&self, node: usize, number: u64) -> bool {
        let url = self.urls[node].lock().unwrap().clone();
        let client = Client::new(&url, None, REPORT_TIMEOUT).unwrap();
        let is_acknowledged = client.report(&subject(&[number])).is_ok_and(|claimed| claimed.accepted == 1);
        if is_acknowledged {
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
        } else {
            // A node that is down refuses at once: whoever asks takes a breath.
            thread::sleep(GLANCE);
        }
        is_acknowledged
    }

    /// Waits until some more reports were acknowledged.
    fn wait_for_more(&self) {
        let target = self.acknowledged.load(Ordering::Relaxed) + REPORTS_BETWEEN;
        let deadline = Instant::now() + PATIENCE;
        while self.acknowledged.load(Ordering::Relaxed) < target {
            assert!(Instant::now() < deadline, "nobody acknowledges reports");
            thread::sleep(GLANCE);
        }
    }
}

/// Ends the load, also when an assertion fails.
struct EndsOnDrop<'a>(&'a AtomicBool);

impl Drop for EndsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until all nodes count every report, and the same; what is wrong if they never do.
fn agree(nodes: &[Server], told: &Told) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let wrong = match compare(nodes, told) {
            Ok(()) => return Ok(()),
            Err(wrong) => wrong,
        };
        // Too few may become enough; too many never will.
        if wrong.contains("too often") || Instant::now() > deadline {
            return Err(wrong);
        }
        thread::sleep(GLANCE);
    }
}

fn compare(nodes: &[Server], told: &Told) -> Result<(), String> {
    let numbers: Vec<u64> = (0..SHARED).chain(told.once.iter().map(|(number, _)| *number)).collect();
    let bounds = told.shared.iter().map(|(sure, perhaps)| (*sure, sure + perhaps));
    let bounds = bounds.chain(told.once.iter().map(|(_, is_acknowledged)| (u32::from(*is_acknowledged), 1)));
    let counts: Vec<Vec<u32>> = nodes.iter().map(|node| counts(node, &numbers)).collect();
    for (index, (least, most)) in bounds.enumerate() {
        let found: Vec<u32> = counts.iter().map(|counts| counts[index]).collect();
        let number = numbers[index];
        if found.iter().any(|count| *count > most) {
            return Err(format!("signature {number} is counted too often: {found:?}, reported {most} times"));
        }
        if found.iter().any(|count| *count < least || *count != found[0]) {
            return Err(format!("signature {number} is counted {found:?} times, acknowledged {least} times"));
        }
    }
    Ok(())
}

/// How many reports of each signature a node counts.
fn counts(node: &Server, numbers: &[u64]) -> Vec<u32> {
    let client = Client::new(&node.url(), None, PATIENCE).unwrap();
    let check = |numbers: &[u64]| client.check(&subject(numbers)).unwrap().signatures;
    numbers.chunks(SIGNATURES_MAX).flat_map(check).map(|signature| signature.report_count).collect()
}

fn subject(numbers: &[u64]) -> Subject {
    let signature = |number: &u64| NamedSignature { scheme: "pyzor".to_owned(), value: format!("{:040x}", number + 1) };
    Subject { signatures: numbers.iter().map(signature).collect(), ..Subject::default() }
}
