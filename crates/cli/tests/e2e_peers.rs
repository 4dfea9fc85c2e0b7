//! A server's view of other nodes, derived from the heads they sign. The test simulates the other nodes and sets their
//! clocks.

#[path = "../../federation/tests/brokers/mod.rs"]
mod brokers;
mod common;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bruit_client::http::{Condition, PeerName, PeerStatus, Peers};
use bruit_client::{Client, ClientError};
use bruit_engine::exchange::{Book, Chain, Frontier, Origin};
use bruit_engine::time::Time;
use bruit_federation::epochs::Epochs;
use bruit_federation::heads::Heads;
use bruit_federation::keys::NodeKey;
use bruit_federation::transport::Sink as _;
use bruit_federation::transport::nats::{Login, NatsBroker, NatsSettings};
use bruit_store::Founding;
use tokio::runtime::Runtime;

use brokers::Brokers;
use common::{Folder, Server, administer};

const DAY: i64 = 86_400;
const NAMES: [&str; 3] = ["anna", "berta", "carla"];
/// Maximum wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_wrong_clock_is_named_and_segments_that_are_not_live_here_are_missed_all_the_same() {
    let brokers = Brokers::start(1);
    let folder = Folder::new();
    let peers: String = (0..).zip(NAMES).map(|(number, name)| peer_section(name, &key(number))).collect();
    let server = Server::start(&folder, &format!("[nats]\nurl = {:?}\nmax_bytes = \"64MiB\"\n{peers}", brokers.urls()));
    let realm = Founding::read_file(&folder.path("data/realm.bruit")).unwrap().realm;
    let actors = Actors::new(&brokers, &realm);

    // One clock is wrong: the output names it, and the other nodes are up to date.
    let skews = [0, 0, 40 * DAY];
    actors.until(&server, skews, &[], "carla's clock is named", || {
        let [anna, berta, carla] = states(&server);
        let named = conditions(&server, "peer_clock");
        let is_right =
            |peer: &PeerStatus| peer.state == "up_to_date" && peer.clock_skew_seconds.unwrap_or(9).abs() <= 5;
        let is_wrong =
            carla.state == "clock_differs" && carla.clock_skew_seconds.is_some_and(|skew| (skew - 40 * DAY).abs() <= 5);
        is_right(&anna) && is_right(&berta) && is_wrong && subjects(&named) == ["carla"]
    });
    assert!(conditions(&server, "peer_clock")[0].text.contains("the clock of carla is"), "{}", server.said());
    let table = administer(&server, &["peers"]);
    assert!(table.contains("clock differs") && table.contains("carla: its clock is"), "{table}");

    // Most other clocks agree with each other, but not with ours.
    actors.until(&server, [50 * DAY, 50 * DAY, 0], &[], "our own clock is named", || {
        let named = conditions(&server, "peer_clock");
        subjects(&named) == [""] && named[0].text.contains("our own clock is probably wrong")
    });

    // The last node announces segments that this server lacks. Some are of the current generation, the others of a
    // generation that has not begun here.
    let current = now().epoch(realm.spam_epoch_seconds());
    let missing = [(Book::Listed, current, 5), (Book::Listed, current + 3, 7)];
    actors.until(&server, [60 * DAY, 60 * DAY, 0], &missing, "carla is behind", || {
        let [.., carla] = states(&server);
        carla.state == "behind" && carla.lag_segments == 12
    });
}

#[test]
fn a_peer_is_paused_and_resumed_by_the_command_line() {
    let folder = Folder::new();
    let section = |number, name: &str, rest: &str| {
        format!("\n[[peers]]\nname = \"{name}\"\nkey = \"{}\"\nrelation = \"peer\"\n{rest}", key(number).public())
    };
    let asked = section(0, "bruit.example.net", "url = \"https://127.0.0.1:1\"\n");
    let server = Server::start(&folder, &format!("{asked}{}", section(1, "bruit.example.org", "")));
    let is_paused = || {
        let text = administer(&server, &["peers", "--json"]);
        let peers = serde_json::from_str::<Peers>(&text).unwrap().peers;
        peers.iter().any(|peer| peer.name == "bruit.example.net" && peer.state == "paused")
    };
    let change = |verb: &str| administer(&server, &["peers", verb, "bruit.example.net"]);
    common::until("the peer is known", || administer(&server, &["peers"]).contains("bruit.example.net"));
    assert!(!is_paused());
    assert_eq!(change("pause"), "paused until 'bruit peers resume' or a restart\n");
    common::until("the peer is paused", is_paused);
    assert_eq!(change("pause"), "already paused\n");
    assert_eq!(change("resume"), "resumed\n");
    common::until("the peer is resumed", || !is_paused());
    assert_eq!(change("resume"), "not paused\n");
    assert_eq!(administer(&server, &["peers", "resume", "bruit.example.org"]), "not paused\n", "it has no URL");
    for action in ["peer.pause", "peer.resume"] {
        assert!(server.said().contains(action), "{action} is in the audit trail: {}", server.said());
    }

    let client = Client::new(&server.url(), Some(&server.token()), PATIENCE).unwrap();
    for (name, expected) in [("bruit.example.org", 409), ("bruit.example.com", 400)] {
        match client.pause_peer(&PeerName { peer: name.to_owned() }) {
            Err(ClientError::Refused { problem, .. }) => assert_eq!(problem.status, expected, "{name}: {problem}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

/// Nodes simulated by the test.
struct Actors {
    runtime: Runtime,
    broker: NatsBroker,
    realm: bruit_engine::realm::RealmId,
}

impl Actors {
    fn new(brokers: &Brokers, realm: &bruit_engine::realm::Realm) -> Self {
        let runtime = Runtime::new().unwrap();
        let settings = NatsSettings {
            urls: brokers.urls(),
            login: Login::Anonymous,
            tls_roots: None,
            domain: None,
            replicas: 1,
            max_age: Duration::from_secs(3600),
            max_bytes: 64 << 20,
        };
        let (id, epochs) = (realm.id(), Epochs::of(realm));
        let started = NatsBroker::start(&settings, (id, epochs), public(0), [], Arc::new(|_, _, _| None));
        let broker = runtime.block_on(started).unwrap();
        Self { runtime, broker, realm: id }
    }

    /// Makes all nodes sign heads every half second, until `is_so` returns true. `skews` are the differences between
    /// their clocks and ours. Only the last node announces `chains`.
    fn until(
        &self,
        server: &Server,
        skews: [i64; 3],
        chains: &[(Book, u64, u64)],
        what: &str,
        is_so: impl Fn() -> bool,
    ) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(
                Instant::now() < deadline,
                "timed out waiting until {what}: {:#?}\n{}",
                states(server),
                server.said()
            );
            for (number, skew) in (0..).zip(skews) {
                let chains = if number == 2 { chains } else { &[] };
                // The broker may not be connected yet.
                let _ = self.runtime.block_on(self.broker.announce(&self.heads(number, skew, chains)));
            }
            thread::sleep(Duration::from_millis(500));
        }
    }

    fn heads(&self, number: u8, skew: i64, chains: &[(Book, u64, u64)]) -> Vec<u8> {
        // A node whose clock is set back needs a new incarnation, because heads with an earlier time are treated as
        // old.
        let origin = Origin { key: public(number), incarnation: 1_000 - (skew / DAY).unsigned_abs() };
        let chain = |&(book, generation, sequence): &(Book, u64, u64)| {
            let frontier = Frontier { sequence, hash: [7; 32], offset: 200 * sequence, entries: sequence, digest: 5 };
            (Chain { origin, book, generation }, frontier)
        };
        let time = Time(now().0.saturating_add_signed(skew));
        Heads::new(self.realm, origin, time, chains.iter().map(chain)).sign(&key(number))
    }
}

fn key(number: u8) -> NodeKey {
    NodeKey::generate([number + 1; 32])
}

fn public(number: u8) -> [u8; 32] {
    *key(number).public().as_bytes()
}

fn peer_section(name: &str, key: &NodeKey) -> String {
    format!("\n[[peers]]\nname = \"{name}\"\nkey = \"{}\"\nrelation = \"cluster\"\n", key.public())
}

fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs())
}

fn states(server: &Server) -> [PeerStatus; 3] {
    let text = administer(server, &["peers", "--json"]);
    let peers = serde_json::from_str::<Peers>(&text).unwrap().peers;
    assert!(peers.iter().map(|peer| &*peer.name).eq(NAMES) || peers.is_empty(), "{peers:?}");
    peers.try_into().unwrap_or_default()
}

fn conditions(server: &Server, state: &str) -> Vec<Condition> {
    let client = Client::new(&server.url(), Some(&server.token()), PATIENCE).unwrap();
    client.stats().unwrap().health.into_iter().filter(|condition| condition.state == state).collect()
}

fn subjects(conditions: &[Condition]) -> Vec<&str> {
    conditions.iter().map(|condition| &*condition.subject).collect()
}
