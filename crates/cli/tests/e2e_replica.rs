//! A server, a replica of what it listed, and checks that ask it only if they must.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use bruit_engine::time::Time;
use bruit_federation::replica::ReplicaFile;
use bruit_store::{FOUNDING_FILE, Founding};
use common::{Answer, Folder, Server, program, run, testdata};
use serde_json::Value;

/// A message that is reported, and one that is not. They have nothing in common.
const SPAM: &str = "razor/text.eml";
const OTHER: &str = "razor/base64.eml";

/// Tries before news of a report must have come: the server seals what it accepted within a second or so.
const TRIES: u32 = 200;

fn message(name: &str) -> Vec<u8> {
    fs::read(testdata(name)).unwrap()
}

fn bruit(arguments: &[&str], input: &[u8]) -> Answer {
    run(Command::new(env!("CARGO_BIN_EXE_bruit")).args(arguments).env_remove("BRUIT_TOKEN"), input)
}

fn report(server: &Server, name: &str) {
    bruit(&["report", "--server", &server.url()], &message(name)).expect(0, server);
}

/// Brings the replica up to date, once.
fn follow(server: &Server, replica: &str) -> Answer {
    bruit(&["replica", "--from", &server.url(), "--data", replica, "--capacity", "100k", "--once"], b"")
        .expect(0, server)
}

/// Follows until the replica lists more than it did.
fn follow_until_more(server: &Server, replica: &str) {
    let listed = |shown: &Value| shown["listed"].as_u64().unwrap();
    let before = if Path::new(replica).exists() { listed(&show(replica)) } else { 0 };
    let has_come = (0..TRIES).any(|_| {
        follow(server, replica);
        listed(&show(replica)) > before
    });
    assert!(has_come, "never listed: {}\n{}", show(replica), server.said());
}

fn show(replica: &str) -> Value {
    let shown = bruit(&["replica", "--show", "--data", replica, "--json"], b"");
    assert_eq!(shown.code, Some(0), "{shown:?}");
    serde_json::from_str(&shown.text).unwrap()
}

/// Checks a message with a replica under strace: the answer, and the system calls that have to do with the network.
fn check(server: &Server, replica: &str, name: &str, more: &[&str]) -> (Answer, Vec<String>) {
    let trace = format!("{replica}.trace");
    let mut command = program("strace", "strace");
    command.args(["-f", "-e", "trace=network", "-o", &trace, env!("CARGO_BIN_EXE_bruit"), "check", "--json"]);
    command.args(["--server", &server.url(), "--local", replica]).args(more).env_remove("BRUIT_TOKEN");
    let answer = run(&mut command, &message(name));
    let trace = fs::read_to_string(trace).unwrap();
    let is_call = |line: &&str| line.contains('(') && !line.contains("+++") && !line.contains("---");
    (answer, trace.lines().filter(is_call).map(str::to_owned).collect())
}

fn told(answer: &Answer) -> Value {
    serde_json::from_str(&answer.text).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

#[test]
fn misses_ask_nobody_and_hits_ask_the_server() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let replica = folder.path("replica").to_str().unwrap().to_owned();
    report(&server, SPAM);
    follow_until_more(&server, &replica);

    let (answer, calls) = check(&server, &replica, OTHER, &[]);
    let answer = answer.expect(1, &server);
    assert_eq!(calls, Vec::<String>::new(), "nothing leaves the machine");
    let miss = told(&answer);
    assert_eq!((&miss["verdict"], &miss["reason"]), (&"unknown".into(), &"not_in_replica".into()));
    assert_eq!(miss["replica"]["asked_server"], false);
    assert!(miss["replica"]["age_seconds"].as_u64().unwrap() < 600, "{miss}");

    let (answer, calls) = check(&server, &replica, SPAM, &[]);
    let hit = told(&answer.expect(0, &server));
    assert_eq!((&hit["verdict"], &hit["replica"]["is_hit"]), (&"spam".into(), &true.into()));
    assert!(calls.iter().any(|call| call.contains("connect(")), "{calls:?}");

    report(&server, OTHER);
    follow_until_more(&server, &replica);
    let (answer, _) = check(&server, &replica, OTHER, &[]);
    assert_eq!(told(&answer.expect(0, &server))["verdict"], "spam");
    assert_eq!(show(&replica)["origins"].as_array().unwrap().len(), 1);
}

#[test]
fn a_message_without_anything_to_look_up_asks_the_server() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let replica = folder.path("replica").to_str().unwrap().to_owned();
    report(&server, SPAM);
    follow_until_more(&server, &replica);
    let (answer, calls) = check(&server, &replica, OTHER, &["--scheme", "bruit"]);
    assert!(told(&answer.expect(1, &server)).get("replica").is_none());
    assert!(calls.iter().any(|call| call.contains("connect(")), "{calls:?}");
}

#[test]
fn an_old_replica_asks_the_server_and_fails_as_a_check_does_without_one() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "");
    let replica = folder.path("replica");
    let realm = Founding::read_file(&folder.path("data").join(FOUNDING_FILE)).unwrap().realm;
    let mut file = ReplicaFile::create(&replica, realm, 1_000, Time(1_000_000)).unwrap();
    file.hear(Time(1_000_000));
    file.commit().unwrap();
    drop(file);
    let replica = replica.to_str().unwrap();
    assert_eq!(show(replica)["is_stale"], true);
    let (answer, calls) = check(&server, replica, OTHER, &[]);
    let answer = told(&answer.expect(1, &server));
    assert_eq!((&answer["reason"], &answer["replica"]["is_stale"]), (&"not_reported".into(), &true.into()));
    assert!(calls.iter().any(|call| call.contains("connect(")), "{calls:?}");
    server.kill();
    let (answer, _) = check(&server, replica, OTHER, &["--on-error", "75"]);
    let answer = answer.expect(75, &server);
    assert!(answer.complaints.contains("cannot be reached"), "{answer:?}");
}

#[test]
fn a_missing_replica_is_told_of_and_costs_no_answer() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    report(&server, SPAM);
    let (answer, _) = check(&server, folder.path("none").to_str().unwrap(), SPAM, &[]);
    let answer = answer.expect(0, &server);
    assert!(answer.complaints.contains("the server is asked instead"), "{answer:?}");
    let refused = bruit(&["check", "--local", "none", "--bulk-threshold", "15"], b"").expect(2, &server);
    assert!(refused.complaints.contains("--bulk-threshold"), "{refused:?}");
}
