//! A server, a replica of its listings, and checks that query the server only if necessary.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use bruit_engine::exchange::{Book, Chain, Encoding, NO_HASH, Origin, Received};
use bruit_engine::time::Time;
use bruit_federation::replica::ReplicaFile;
use bruit_filters::FingerprintKey;
use bruit_filters::sorted::encode_sorted;
use bruit_store::{FOUNDING_FILE, Founding};
use common::{Answer, Folder, Server, program, run, testdata};
use serde_json::Value;

/// A reported message, and one that is not reported. They have nothing in common.
const SPAM: &str = "razor/text.eml";
const OTHER: &str = "razor/base64.eml";

/// Number of updates after which a report must have arrived. The server puts accepted reports into a segment within
/// about a second.
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

/// Updates the replica once.
fn follow(server: &Server, replica: &str) -> Answer {
    let arguments = ["replica", "--from", &server.url(), "--data", replica, "--capacity", "100k", "--once"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    // On the server's own machine, anyone who can read the administrator's token may fetch the realm.
    run(command.args(arguments).env_remove("BRUIT_TOKEN").env("BRUIT_DATA", server.data()), b"").expect(0, server)
}

/// Updates the replica until it lists more signatures.
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

/// Checks a message with a replica under strace, and returns the answer and the network system calls.
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

fn json_of(answer: &Answer) -> Value {
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
    assert_eq!(calls, Vec::<String>::new(), "there must be no network call");
    let miss = json_of(&answer);
    assert_eq!((&miss["verdict"], &miss["reason"]), (&"unknown".into(), &"not_in_replica".into()));
    assert_eq!(miss["replica"]["asked_server"], false);
    assert!(miss["replica"]["age_seconds"].as_u64().unwrap() < 600, "{miss}");

    let (answer, calls) = check(&server, &replica, SPAM, &[]);
    let hit = json_of(&answer.expect(0, &server));
    assert_eq!((&hit["verdict"], &hit["replica"]["is_hit"]), (&"spam".into(), &true.into()));
    assert!(calls.iter().any(|call| call.contains("connect(")), "{calls:?}");

    report(&server, OTHER);
    follow_until_more(&server, &replica);
    let (answer, _) = check(&server, &replica, OTHER, &[]);
    assert_eq!(json_of(&answer.expect(0, &server))["verdict"], "spam");
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
    assert!(json_of(&answer.expect(1, &server)).get("replica").is_none());
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
    let answer = json_of(&answer.expect(1, &server));
    assert_eq!((&answer["reason"], &answer["replica"]["is_stale"]), (&"not_reported".into(), &true.into()));
    assert!(calls.iter().any(|call| call.contains("connect(")), "{calls:?}");
    server.kill();
    let (answer, _) = check(&server, replica, OTHER, &["--on-error", "75"]);
    let answer = answer.expect(75, &server);
    assert!(answer.complaints.contains("cannot be reached"), "{answer:?}");
}

#[test]
fn a_replica_that_takes_nothing_fails_and_one_that_is_up_to_date_does_not() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let replica = folder.path("replica").to_str().unwrap().to_owned();
    report(&server, SPAM);
    follow_until_more(&server, &replica);
    follow(&server, &replica);

    let (other, url) = (folder.path("other").to_str().unwrap().to_owned(), server.url());
    let key = bruit(&["keys", "new", folder.path("a.key").to_str().unwrap()], b"").text;
    let stranger = bruit(&["replica", "--from", &url, "--data", &other, "--once"], b"").expect(2, &server);
    assert!(stranger.complaints.contains("403 Forbidden"), "{stranger:?}");
    let token = server.data().join("admin.token").to_str().unwrap().to_owned();
    let mut wrong_key = vec!["replica", "--from", &url, "--data", &other, "--once", "--key", key.trim()];
    wrong_key.extend(["--token-file", &token]);
    let refused = bruit(&wrong_key, b"").expect(2, &server);
    let expected = format!("accepted nothing from {url}: none of the 1 offered servers has a key given with --key");
    assert!(refused.complaints.contains(&expected), "{refused:?}");
    let nobody = bruit(&["replica", "--from", "http://127.0.0.1:1", "--data", &replica, "--once"], b"");
    nobody.expect(2, &server);
}

#[test]
fn an_overfull_replica_is_warned_of() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let path = folder.path("replica");
    let realm = Founding::read_file(&folder.path("data").join(FOUNDING_FILE)).unwrap().realm;
    let now = Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs());
    let generation = now.epoch(realm.spam_epoch_seconds());
    let mut file = ReplicaFile::create(&path, realm, 1_000, now).unwrap();
    let replica = path.to_str().unwrap();
    assert_eq!(show(replica)["is_overfull"], false);
    file.take(&far_too_many(generation)).unwrap();
    file.commit().unwrap();
    drop(file);

    let warning = "% of unknown signatures (planned: 1 %)";
    let shown = bruit(&["replica", "--show", "--data", replica, "--json"], b"").expect(0, &server);
    assert!(shown.complaints.contains(warning), "{shown:?}");
    let json_of = json_of(&shown);
    assert_eq!((&json_of["is_overfull"], &json_of["planned_false_hit_rate"]), (&true.into(), &0.01.into()));
    let shown = bruit(&["replica", "--show", "--data", replica], b"").expect(0, &server);
    assert!(shown.text.contains("%): overfull\n"), "{shown:?}");
    let followed = follow(&server, replica);
    assert!(followed.complaints.contains(warning), "{followed:?}");
}

/// Returns a segment of a fictitious server, with far more signatures than fit into a small replica.
fn far_too_many(generation: u64) -> Received {
    let key = FingerprintKey::narrow([7; 16]);
    let mut highs: Vec<u64> = (0..4_800_u32).map(|number| key.fingerprint(&number.to_le_bytes()).high()).collect();
    highs.sort_unstable();
    let mut payload = Vec::new();
    encode_sorted(&highs, &mut payload);
    let chain = Chain { origin: Origin { key: [1; 32], incarnation: 1 }, book: Book::Listed, generation };
    let (bytes, encoding) = (payload.len() as u32, Encoding::of(Book::Listed));
    Received { chain, sequence: 1, previous: NO_HASH, hash: NO_HASH, bytes, encoding, payload }
}

#[test]
fn a_missing_replica_is_told_of_and_costs_no_answer() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    report(&server, SPAM);
    let (answer, _) = check(&server, folder.path("none").to_str().unwrap(), SPAM, &[]);
    let answer = answer.expect(0, &server);
    assert!(answer.complaints.contains("querying the server instead"), "{answer:?}");
    let refused = bruit(&["check", "--local", "none", "--bulk-threshold", "15"], b"").expect(2, &server);
    assert!(refused.complaints.contains("--bulk-threshold"), "{refused:?}");
}
