//! `bruit peers forget` on three nodes under load: the claims of the forgotten node disappear from the other two, and
//! nothing else changes.

mod common;

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bruit_client::Client;
use bruit_client::http::{NamedSignature, Peers, Subject};

use common::{Folder, Server, administer, printed};

/// Maximum wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time within which the data of the forgotten node must be gone from both other nodes. One of these is restarted
/// within this time.
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(30);
const NAMES: [&str; 3] = ["anna", "berta", "carla"];

/// Signatures that all nodes report, and messages that all nodes count.
const COMMON: u32 = 200;
/// First of the signatures that only the third node claims.
const FORGED: u32 = 10_000;
/// First of the signatures that are reported under load.
const UNDER_LOAD: u32 = 50_000;

#[test]
fn what_a_node_said_is_gone_from_all_others_while_they_are_under_load() {
    let folders = [Folder::new(), Folder::new(), Folder::new()];
    let [anna, berta, carla] = cluster(&folders);
    let clients = [&anna, &berta, &carla].map(client);
    for signature in 0..COMMON {
        for client in &clients {
            client.report(&one("exact", signature)).unwrap();
            client.count(&one("dcc_body", signature), 9).unwrap();
        }
        clients[2].report(&one("exact", FORGED + signature)).unwrap();
        clients[2].count(&one("dcc_body", FORGED + signature), 50).unwrap();
    }
    for signature in 0..COMMON / 4 {
        clients[2].revoke(&one("exact", signature)).unwrap();
    }
    for client in &clients[..2] {
        until("everything has arrived", || {
            facts(client, "exact", FORGED + COMMON - 1).0 == "spam"
                && facts(client, "exact", 0).0 == "ham"
                && facts(client, "dcc_body", COMMON - 1).2 == 27
                && facts(client, "dcc_body", FORGED + COMMON - 1).2 == 50
        });
    }

    let (is_over, reported) = (AtomicBool::new(false), AtomicU32::new(0));
    let (berta, took) = thread::scope(|scope| {
        let load = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let signature = UNDER_LOAD + reported.load(Ordering::Relaxed);
                clients[0].report(&one("exact", signature)).unwrap();
                clients[0].count(&one("dcc_body", signature), 3).unwrap();
                assert_eq!(facts(&clients[0], "exact", signature).0, "spam", "checks go on");
                reported.fetch_add(1, Ordering::Relaxed);
            }
        });
        let started = Instant::now();
        administer(&anna, &["peers", "forget", "carla"]);
        until("the other node has received the decision", || state(&berta, "carla").starts_with("forg"));
        // A node that is killed now continues to forget after its restart.
        let mut berta = berta;
        berta.kill();
        let berta = berta.restart();
        for server in [&anna, &berta] {
            until("it is forgotten", || state(server, "carla") == "forgotten");
        }
        let took = started.elapsed();
        thread::sleep(Duration::from_millis(500));
        is_over.store(true, Ordering::Relaxed);
        load.join().unwrap();
        (berta, took)
    });
    assert!(took < FORGOTTEN_WITHIN, "{took:?}");
    assert!(anna.said().contains("forgetting begins") && anna.said().contains("forgetting ends"));

    let clients = [client(&anna), client(&berta)];
    let last = UNDER_LOAD + reported.load(Ordering::Relaxed) - 1;
    until("the rest has arrived", || facts(&clients[1], "dcc_body", last).2 == 3);
    for client in &clients {
        for signature in 0..COMMON {
            assert_eq!(facts(client, "exact", signature), ("spam".into(), 2, 0), "signature {signature}");
            assert_eq!(facts(client, "dcc_body", signature).2, 18, "recipients of {signature}");
            assert_eq!(facts(client, "exact", FORGED + signature).0, "unknown");
            assert_eq!(facts(client, "dcc_body", FORGED + signature).2, 0);
        }
        for signature in UNDER_LOAD..=last {
            assert_eq!(facts(client, "exact", signature), ("spam".into(), 1, 0), "signature {signature}");
            assert_eq!(facts(client, "dcc_body", signature).2, 3);
        }
    }

    // The forgotten node continues to report. Its reports are refused until it is accepted again.
    let intruder = Client::new(&carla.url(), Some(&carla.token()), PATIENCE).unwrap();
    intruder.report(&one("exact", 2 * FORGED)).unwrap();
    clients[0].report(&one("exact", 3 * FORGED)).unwrap();
    until("a later report of an honest node is here", || facts(&clients[1], "exact", 3 * FORGED).0 == "spam");
    assert_eq!(facts(&clients[1], "exact", 2 * FORGED).0, "unknown");
    administer(&berta, &["peers", "restore", "carla"]);
    for client in &clients {
        until("its data is back", || {
            facts(client, "exact", 2 * FORGED).0 == "spam" && facts(client, "dcc_body", 0).2 == 27
        });
    }
}

/// Starts three nodes that fetch from each other over HTTPS.
fn cluster(folders: &[Folder; 3]) -> [Server; 3] {
    let realm = folders[0].path("realm");
    let mut first = Server::start(&folders[0], "");
    printed(&["keys", "realm", realm.to_str().unwrap(), "--data", folders[0].path("data").to_str().unwrap()]);
    first.terminate();
    for folder in &folders[1..] {
        Server::start_in_realm(folder, &realm).terminate();
    }
    let key = |folder: &Folder| printed(&["keys", "show", "--data", folder.path("data").to_str().unwrap()]);
    let keys = folders.each_ref().map(|folder| key(folder).trim().to_owned());
    let listeners = [(); 3].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let ports = listeners.map(|listener| listener.local_addr().unwrap().port());
    let start = |own: usize| {
        let peer = |other: usize| {
            format!(
                "\n[[peers]]\nname = {:?}\nurl = \"https://127.0.0.1:{}\"\nkey = {:?}\nrelation = \"cluster\"\n",
                NAMES[other], ports[other], keys[other]
            )
        };
        let peers: String = (0..3).filter(|other| *other != own).map(peer).collect();
        Server::start(&folders[own], &format!("[federation]\nlisten = \"127.0.0.1:{}\"\n{peers}", ports[own]))
    };
    [start(0), start(1), start(2)]
}

fn client(server: &Server) -> Client {
    Client::new(&server.url(), Some(&server.token()), PATIENCE).unwrap()
}

/// Returns a request about one signature.
fn one(scheme: &str, signature: u32) -> Subject {
    let digits = if scheme == "exact" { 64 } else { 32 };
    let named = NamedSignature { scheme: scheme.into(), value: format!("{signature:0digits$x}"), piece: None };
    Subject { signatures: vec![named], ..Subject::default() }
}

/// Returns the verdict on a signature, the number of its reports, and a second number: its recipients for a checksum of
/// DCC, otherwise its revocations.
fn facts(client: &Client, scheme: &str, signature: u32) -> (String, u32, u32) {
    let checked = client.check(&one(scheme, signature)).unwrap();
    let known = &checked.signatures[0];
    let verdict = serde_json::to_value(known.verdict).unwrap().as_str().unwrap().to_owned();
    let counted = if scheme == "exact" { known.revoke_count } else { known.bulk_count };
    (verdict, known.report_count, counted)
}

fn state(server: &Server, name: &str) -> String {
    let peers: Peers = serde_json::from_str(&administer(server, &["peers", "--json"])).unwrap();
    peers.peers.into_iter().find(|peer| peer.name == name).map(|peer| peer.state).unwrap_or_default()
}

#[track_caller]
fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        thread::sleep(Duration::from_millis(50));
    }
}
