//! A milter with a replica: its answers while the server cannot be reached.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::milter::Milter;
use common::{Folder, Server, json, run, testdata};

/// A reported message, and one that is not reported. They have nothing in common.
const SPAM: &str = "razor/text.eml";
const OTHER: &str = "razor/base64.eml";

/// Number of updates after which a report must have arrived. The server puts accepted reports into a segment within
/// about a second.
const TRIES: u32 = 200;

const USER: &[&str] = &["alice@test.example"];

fn message(name: &str) -> Vec<u8> {
    fs::read(testdata(name)).unwrap()
}

/// Creates a replica that lists something.
fn follow(server: &Server, replica: &Path) {
    let data = replica.to_str().unwrap();
    let update = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
        command.args(["replica", "--server", &server.url(), "--data", data, "--capacity", "100k", "--once"]);
        run(command.env_remove("BRUIT_TOKEN").env("BRUIT_DATA", server.data()), b"").expect(0, server);
        json(&["replica", "--show", "--data", data, "--json"])["listed"] != 0
    };
    assert!((0..TRIES).any(|_| update()), "never listed: {}", server.said());
}

#[test]
fn a_replica_answers_while_the_server_is_away() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "");
    let (url, replica) = (server.url(), folder.path("replica"));
    let report = ["report", "--server", &url];
    run(Command::new(env!("CARGO_BIN_EXE_bruit")).args(report).env_remove("BRUIT_TOKEN"), &message(SPAM))
        .expect(0, &server);
    follow(&server, &replica);
    let configuration = |url: &str, max_age: &str| {
        let server = format!("[server]\nurl = {url:?}\nreplica = {replica:?}\nreplica_max_age = {max_age:?}\n");
        format!("{server}[spam]\naction = \"reject\"\nconfidence = 90\n")
    };
    let mut milter = Milter::start(&url, &configuration(&url, "1d"));
    assert_eq!(milter.field(USER, &message(OTHER)), "unknown; confidence=0; reason=not_reported");
    assert!(milter.field(USER, &message(SPAM)).starts_with("spam; "));

    server.kill();
    assert_eq!(milter.field(USER, &message(OTHER)), "unknown; confidence=0; reason=not_in_replica");
    assert_eq!(milter.field(USER, &message(SPAM)), "unchecked; reason=in_replica");
    assert_eq!(milter.count("server_up"), 0);
    assert_eq!(milter.count("unchecked_total{reason=\"in_replica\"}"), 1);

    // Once the replica is too old, it is not used.
    milter.reload(&url, &configuration(&url, "1s"));
    milter.wait(|milter| milter.field(USER, &message(OTHER)) == "unchecked; reason=unreachable");

    let server = server.restart();
    milter.reload(&server.url(), &configuration(&server.url(), "1d"));
    milter.wait(|milter| milter.field(USER, &message(SPAM)).starts_with("spam; "));
}
