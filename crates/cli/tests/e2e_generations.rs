//! Three nodes over a broker, in a realm with generations of a few seconds: the exchange continues, and the output of
//! `bruit peers` is correct.

#[path = "../../federation/tests/brokers/mod.rs"]
mod brokers;
mod common;

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bruit_client::Client;
use bruit_client::http::{NamedSignature, PeerStatus, Peers, Subject};
use bruit_engine::realm::Realm;
use bruit_engine::time::Time;
use bruit_engine::trust::Policy;
use bruit_store::Founding;

use brokers::Brokers;
use common::{Folder, Server, administer, printed};

const NODES: usize = 3;
/// Length of an epoch in seconds, the same for both books.
const EPOCH: u64 = 3;
/// Number of generations in the test. It exceeds the number of generations that are live at the same time.
const GENERATIONS: u64 = 10;
/// Number of past generations whose reports must still be counted.
const SURELY_LIVE: u64 = 4;
const MEMORY_BYTES: u64 = 8 << 20;
/// Maximum wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time within which a report must reach all nodes, much shorter than the lifetime of a generation.
const SOON: Duration = Duration::from_secs(10);
const GLANCE: Duration = Duration::from_millis(50);

#[test]
fn exchange_over_a_broker_outlives_generations_and_peers_are_told_right() {
    let brokers = Brokers::start(1);
    let folders: Vec<Folder> = (0..NODES).map(|_| Folder::new()).collect();
    let mut nodes = start_nodes(&folders, &brokers);
    let mut reports: Vec<(u64, u64)> = Vec::new();
    for _ in 0..GENERATIONS {
        report_to_all(&nodes, &mut reports);
        assert_everywhere(&nodes, &reports);
        assert_up_to_date(&nodes);
        wait_for_next_epoch();
    }

    // A node that was away for two generations fetches the missing segments and continues.
    let mut away = nodes.pop().unwrap();
    away.kill();
    for _ in 0..2 {
        report_to_all(&nodes, &mut reports);
        assert_everywhere(&nodes, &reports);
        wait_for_next_epoch();
    }
    nodes.push(away.restart());
    report_to_all(&nodes, &mut reports);
    assert_everywhere(&nodes, &reports);
    assert_up_to_date(&nodes);

    // The broker still has the heads of the node that is gone for good, but these no longer change.
    nodes.pop().unwrap().kill();
    let is_silent = |peer: &PeerStatus| peer.name == "node-2" && peer.state == "silent" && peer.silent_seconds >= 7;
    until("the node that is gone has the state silent", PATIENCE, &nodes, || {
        nodes.iter().all(|node| peers(node).iter().any(is_silent))
    });
    let others = peers(&nodes[0]).into_iter().find(|peer| peer.name == "node-1").unwrap();
    assert_eq!((&*others.state, others.lag_segments), ("up_to_date", 0));
    until("health names the silent node", SOON, &nodes, || {
        let admin = Client::new(&nodes[0].url(), Some(&nodes[0].token()), PATIENCE).unwrap();
        let conditions = admin.stats().unwrap().health;
        conditions.iter().any(|condition| condition.state == "peer_silent" && condition.subject == "node-2")
    });
}

/// Starts three servers of one realm with short epochs. Each has the others' keys.
fn start_nodes(folders: &[Folder], brokers: &Brokers) -> Vec<Server> {
    let founding = Founding::new([7; 16], MEMORY_BYTES, Policy::default(), now()).unwrap();
    let realm = Realm::new(founding.realm.key().clone(), EPOCH, EPOCH, founding.realm.sizes()).unwrap();
    folders[0].write("realm.bruit", Founding { realm, ..founding }.encode());
    for folder in folders {
        let mut server = Server::start_in_realm(folder, &folders[0].path("realm.bruit"));
        assert!(server.terminate().success(), "{}", server.said());
    }
    let key = |folder: &Folder| printed(&["keys", "show", "--data", folder.path("data").to_str().unwrap()]);
    let keys: Vec<String> = folders.iter().map(|folder| key(folder).trim().to_owned()).collect();
    let peer = |other: usize| {
        format!("\n[[peers]]\nname = \"node-{other}\"\nkey = \"{}\"\nrelation = \"cluster\"\n", keys[other])
    };
    let more = |index: usize| {
        let others: String = (0..NODES).filter(|other| *other != index).map(peer).collect();
        format!("[nats]\nurl = {:?}\nmax_bytes = \"64MiB\"\n{others}", brokers.urls())
    };
    folders.iter().enumerate().map(|(index, folder)| Server::start(folder, &more(index))).collect()
}

fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs())
}

fn wait_for_next_epoch() {
    let epoch = now().epoch(EPOCH);
    while now().epoch(EPOCH) == epoch {
        thread::sleep(GLANCE);
    }
}

fn client(node: &Server) -> Client {
    Client::new(&node.url(), None, PATIENCE).unwrap()
}

/// Reports a different signature to each node, and adds its epoch and number to `reports`.
fn report_to_all(nodes: &[Server], reports: &mut Vec<(u64, u64)>) {
    for node in nodes {
        let (epoch, number) = (now().epoch(EPOCH), reports.len() as u64);
        until("a report is accepted", SOON, nodes, || {
            client(node).report(&subject(&[number])).is_ok_and(|claimed| claimed.accepted == 1)
        });
        reports.push((epoch, number));
    }
}

fn subject(numbers: &[u64]) -> Subject {
    let signature = |number: &u64| NamedSignature {
        scheme: "pyzor".to_owned(),
        value: format!("{:040x}", number + 1),
        piece: None,
    };
    Subject { signatures: numbers.iter().map(signature).collect(), ..Subject::default() }
}

/// Asserts that every node counts every report of the last [`SURELY_LIVE`] generations once.
fn assert_everywhere(nodes: &[Server], reports: &[(u64, u64)]) {
    until("every report is on every node", SOON, nodes, || {
        let oldest = now().epoch(EPOCH) - SURELY_LIVE;
        let live: Vec<u64> = reports.iter().filter(|(epoch, _)| *epoch >= oldest).map(|(_, number)| *number).collect();
        nodes.iter().all(|node| {
            let checked = client(node).check(&subject(&live)).unwrap();
            checked.signatures.iter().all(|signature| signature.report_count == 1)
        })
    });
}

/// Asserts that every node is up to date with every other node. Also asserts that their clocks agree, as all of them
/// use the same clock.
fn assert_up_to_date(nodes: &[Server]) {
    let is_right = |peer: &PeerStatus| {
        peer.state == "up_to_date"
            && peer.lag_segments == 0
            && peer.clock_skew_seconds.is_none_or(|skew| skew.abs() <= 5)
            && peer.reason.is_none()
    };
    until("all nodes are up to date", SOON, nodes, || nodes.iter().all(|node| peers(node).iter().all(is_right)));
}

/// Returns the output of `bruit peers --json`.
fn peers(node: &Server) -> Vec<PeerStatus> {
    let text = administer(node, &["peers", "--json"]);
    serde_json::from_str::<Peers>(&text).unwrap().peers
}

#[track_caller]
fn until(what: &str, patience: Duration, nodes: &[Server], condition: impl Fn() -> bool) {
    let deadline = Instant::now() + patience;
    while !condition() {
        let shown = || {
            let each = nodes.iter().map(|node| format!("{:#?}\n{}", peers(node), node.said()));
            each.collect::<Vec<_>>().join("\n")
        };
        assert!(Instant::now() < deadline, "timed out waiting until {what}: {}", shown());
        thread::sleep(GLANCE);
    }
}
