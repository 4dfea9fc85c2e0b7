//! A server that cannot write to its shelf, the folder of logs for other servers. It starts, accepts reports, shows the
//! problem, and recovers.

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use bruit_client::Client;
use bruit_client::http::{Condition, NamedSignature, Subject};

use common::{Folder, Server};

/// Maximum wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(50);

/// A configured peer that is away. The server must queue all segments for it.
const PEER: &str = "[[peers]]\nname = \"away\"\nkey = \"3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c\"\n\
                    relation = \"cluster\"\n";

#[test]
fn alone_it_starts_without_its_shelf_and_keeps_nothing_that_nobody_reads() {
    let folder = Folder::new();
    let server = restart_with_a_file_in_place_of_the_shelf(&folder, "");
    assert_eq!(condition(&server, "shelf_fails").unwrap().severity, "warning");
    (0..20).for_each(|number| report(&server, number));
    assert_eq!(waiting_bytes(&server), 0, "{}", server.said());
    assert!(!folder.path("data/shelf").is_dir());

    // Once the server can write to the folder, replicas receive all later reports.
    fs::remove_file(folder.path("data/shelf")).unwrap();
    until(&server, "the server has recovered", || condition(&server, "shelf_fails").is_none());
    report(&server, 100);
    until(&server, "the shelf is written", || folder.path("data/shelf").is_dir() && waiting_bytes(&server) == 0);
}

#[test]
fn alone_it_gives_up_a_shelf_that_fails_while_it_runs() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    report(&server, 1);
    until(&server, "the shelf is written", || waiting_bytes(&server) == 0);
    fs::remove_dir_all(folder.path("data/shelf")).unwrap();
    folder.write("data/shelf", "in the way");
    report(&server, 2);
    until(&server, "the server reports the problem", || condition(&server, "shelf_fails").is_some());
    until(&server, "the queue is empty", || waiting_bytes(&server) == 0);
    report(&server, 3);
    assert_eq!(waiting_bytes(&server), 0);
    fs::remove_file(folder.path("data/shelf")).unwrap();
    until(&server, "the server has recovered", || condition(&server, "shelf_fails").is_none());
    let mut server = server;
    assert!(server.terminate().success());
    let server = server.restart();
    assert_eq!(count(&server, &[1, 2, 3]), [1, 1, 1], "{}", server.said());
}

#[test]
fn with_peers_it_starts_without_its_shelf_and_keeps_everything_for_them() {
    let folder = Folder::new();
    let server = restart_with_a_file_in_place_of_the_shelf(&folder, PEER);
    assert!(condition(&server, "shelf_fails").is_some_and(|condition| condition.text.contains("shelf/")));
    report(&server, 1);
    let waiting = waiting_bytes(&server);
    assert!(waiting > 0);
    // Sleep long enough for a server without peers to drop the queue.
    thread::sleep(Duration::from_secs(11));
    assert_eq!(waiting_bytes(&server), waiting);
    fs::remove_file(folder.path("data/shelf")).unwrap();
    until(&server, "the shelf is written", || {
        waiting_bytes(&server) == 0 && condition(&server, "shelf_fails").is_none()
    });
}

/// Regression test: after a log was deleted, all segments for peers were queued, until the server refused reports.
#[test]
fn with_peers_a_shelf_that_was_deleted_begins_a_new_incarnation() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, PEER);
    report(&server, 1);
    until(&server, "the shelf is written", || waiting_bytes(&server) == 0);
    assert!(server.terminate().success());
    fs::remove_dir_all(folder.path("data/shelf")).unwrap();
    let server = server.restart();
    report(&server, 2);
    until(&server, "the shelf is written again", || waiting_bytes(&server) == 0);
    assert!(server.said().contains("starting a new incarnation"), "{}", server.said());
    assert!(condition(&server, "exports_wait").is_none() && condition(&server, "shelf_fails").is_none());
}

fn restart_with_a_file_in_place_of_the_shelf(folder: &Folder, more: &str) -> Server {
    let mut server = Server::start(folder, more);
    assert!(server.terminate().success());
    fs::remove_dir_all(folder.path("data/shelf")).unwrap();
    folder.write("data/shelf", "in the way");
    let server = server.restart();
    until(&server, "the server reports the problem", || condition(&server, "shelf_fails").is_some());
    server
}

fn client(server: &Server) -> Client {
    Client::new(&server.url(), Some(&server.token()), PATIENCE).unwrap()
}

fn subject(numbers: &[u64]) -> Subject {
    let signature = |number: &u64| NamedSignature {
        scheme: "pyzor".to_owned(),
        value: format!("{:040x}", number + 1),
        piece: None,
    };
    Subject { signatures: numbers.iter().map(signature).collect(), ..Subject::default() }
}

fn report(server: &Server, number: u64) {
    assert_eq!(client(server).report(&subject(&[number])).unwrap().accepted, 1, "{}", server.said());
}

fn count(server: &Server, numbers: &[u64]) -> Vec<u32> {
    let checked = client(server).check(&subject(numbers)).unwrap();
    checked.signatures.iter().map(|signature| signature.report_count).collect()
}

fn condition(server: &Server, state: &str) -> Option<Condition> {
    client(server).stats().unwrap().health.into_iter().find(|condition| condition.state == state)
}

/// Returns the number of bytes queued for other servers, from the metrics.
fn waiting_bytes(server: &Server) -> u64 {
    let address = server.address("http");
    let mut stream = TcpStream::connect(address).unwrap();
    let token = server.token();
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("bruit_exports_waiting_bytes ")).unwrap();
    line.trim().parse().unwrap()
}

#[track_caller]
fn until(server: &Server, what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "timed out waiting until {what}: {}", server.said());
        thread::sleep(GLANCE);
    }
}
