//! A server's view of other nodes, derived from the heads they sign. The test simulates the other nodes and sets their
//! clocks.

#[path = "../../federation/tests/brokers/mod.rs"]
mod brokers;
mod common;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bruit_client::http::{Condition, NewPeer, PeerName, PeerStatus, Peers};
use bruit_client::{Client, ClientError};
use bruit_engine::exchange::{Book, Chain, Frontier, Origin};
use bruit_engine::time::Time;
use bruit_federation::epochs::Epochs;
use bruit_federation::heads::Heads;
use bruit_federation::keys::NodeKey;
use bruit_federation::transport::Sink as _;
use bruit_federation::transport::nats::{Login, NatsBroker, NatsSettings};
use bruit_store::Founding;
use nix::sys::signal::Signal;
use tokio::runtime::Runtime;

use brokers::Brokers;
use common::{Folder, Server, administer, bruit, printed, testdata};

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

#[test]
fn a_pause_ends_when_a_reload_removes_the_peer() {
    // A paused peer that was removed and added again by SIGHUP was still paused, without anyone having paused it.
    let folder = Folder::new();
    let section = format!("{}url = \"https://127.0.0.1:1\"\n", peer_section("anna", &key(0)));
    let server = Server::start(&folder, &section);
    let state = || {
        let peers: Peers = serde_json::from_str(&administer(&server, &["peers", "--json"])).unwrap();
        peers.peers.first().map(|peer| peer.state.clone()).unwrap_or_default()
    };
    let reload = |configuration: &str| {
        folder.write("bruit.toml", configuration);
        server.signal(Signal::SIGHUP);
    };
    common::until("the peer is asked", || state() == "unreachable");
    administer(&server, &["peers", "pause", "anna"]);
    common::until("the peer is paused", || state() == "paused");
    let configuration = String::from_utf8(folder.read("bruit.toml")).unwrap();
    reload(&configuration.replace(&section, ""));
    common::until("the peer is gone", || state().is_empty());
    reload(&configuration);
    common::until("the peer is asked again", || state() == "unreachable");
}

#[test]
fn nodes_are_added_and_removed_at_run_time_and_exchange_reports_without_a_restart() {
    let folders = [Folder::new(), Folder::new()];
    let realm = folders[0].path("realm");
    Server::start(&folders[0], "").terminate();
    printed(&["keys", "realm", realm.to_str().unwrap(), "--data", folders[0].path("data").to_str().unwrap()]);
    Server::start_in_realm(&folders[1], &realm).terminate();
    let ports = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let ports = ports.map(|listener| listener.local_addr().unwrap().port());
    let start =
        |own: usize| Server::start(&folders[own], &format!("[federation]\nlisten = \"127.0.0.1:{}\"\n", ports[own]));
    let [anna, berta] = [start(0), start(1)];
    let add = |to: &Server, name: &str, other: usize| {
        let data = folders[other].path("data");
        let key = printed(&["keys", "show", "--data", data.to_str().unwrap()]);
        let url = format!("https://127.0.0.1:{}", ports[other]);
        let more = ["--url", &url, "--key", key.trim(), "--relation", "cluster"];
        administer(to, &[&["peers", "add", name], &more[..]].concat())
    };
    assert_eq!(add(&anna, "berta", 1), "added; 'bruit peers' shows its state\n");
    assert!(anna.said().contains("berta, relation cluster, key "), "{}", anna.said());
    add(&berta, "anna", 0);
    let is_known = |server: &Server, message: &str| {
        let message = testdata(message);
        bruit(&["check", "--server", &server.url(), message.to_str().unwrap()]).status.code() == Some(0)
    };
    let report = |server: &Server, message: &str| {
        let reported = bruit(&["report", "--server", &server.url(), testdata(message).to_str().unwrap()]);
        assert!(reported.status.success(), "{reported:?}");
    };
    report(&anna, "razor/text.eml");
    common::until("the new node has the report", || is_known(&berta, "razor/text.eml"));
    report(&berta, "razor/html.eml");
    common::until("the exchange works in both directions", || is_known(&anna, "razor/html.eml"));

    let mut berta = berta;
    berta.kill();
    let berta = berta.restart();
    report(&anna, "razor/base64.eml");
    common::until("the node is asked after a kill", || is_known(&berta, "razor/base64.eml"));
    assert_eq!(administer(&berta, &["peers", "remove", "anna"]), "removed\n");
    common::until("the node is gone", || administer(&berta, &["peers"]).contains("no other servers"));
    report(&anna, "razor/multipart.eml");
    common::until("a removed node cannot ask", || {
        let peers: Peers = serde_json::from_str(&administer(&anna, &["peers", "--json"])).unwrap();
        matches!(&*peers.peers[0].state, "refused" | "unreachable")
    });
    assert!(!is_known(&berta, "razor/multipart.eml"), "nothing is asked of a removed node");
    assert!(is_known(&berta, "razor/text.eml"), "what was learned stays");
    let mut berta = berta;
    assert!(berta.terminate().success());
    let berta = berta.restart();
    assert!(administer(&berta, &["peers"]).contains("no other servers"));
}

#[test]
fn a_peer_that_cannot_be_is_not_added() {
    let folder = Folder::new();
    let asked = peer_section("anna", &key(0));
    let server = Server::start(&folder, &asked);
    let own = administer(&server, &["peers"]).lines().next().unwrap().rsplit(' ').next().unwrap().to_owned();
    let other = key(1).public().to_string();
    let client = Client::new(&server.url(), Some(&server.token()), PATIENCE).unwrap();
    let new = |name: &str, url: &str, key: &str, relation: &str| NewPeer {
        name: name.to_owned(),
        url: Some(url.to_owned()),
        key: key.to_owned(),
        relation: relation.to_owned(),
    };
    const URL: &str = "https://127.0.0.1:1";
    for (new, status, reason) in [
        (new("berta", URL, "abc", "peer"), 400, "key"),
        (new("berta", URL, &own, "peer"), 409, "the key of this server"),
        (new("berta", URL, &key(0).public().to_string(), "peer"), 409, "anna has the same key"),
        (new("anna", URL, &other, "peer"), 409, "another peer has the name"),
        (new("a b", URL, &other, "peer"), 400, "invalid name"),
        (new("berta", "ftp://x", &other, "peer"), 400, "url"),
        (new("berta", URL, &other, "friend"), 400, "relation"),
    ] {
        match client.add_peer(&new) {
            Err(ClientError::Refused { problem, .. }) => {
                assert_eq!(problem.status, status, "{new:?}: {problem}");
                assert!(problem.to_string().contains(reason), "{reason}: {problem}");
            }
            other => panic!("{new:?}: {other:?}"),
        }
    }
    match client.remove_peer(&PeerName { peer: "anna".to_owned() }) {
        Err(ClientError::Refused { problem, .. }) => assert!(problem.to_string().contains("in the configuration file")),
        other => panic!("{other:?}"),
    }
    assert!(!server.data().join("peers.toml").exists(), "nothing was written");
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
