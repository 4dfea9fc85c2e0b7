//! The log of a real server: requests at level debug, JSON, the audit trail, and links that fail and recover.

#[allow(dead_code, reason = "the nodes are not put under load here")]
mod agreement;
mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use common::wire::{self, Datagrams};
use common::{Folder, Server, refused};
use serde_json::Value;

/// Maximum wait for a log line.
const PATIENCE: Duration = Duration::from_secs(30);

const DIGEST: &str = "0123456789abcdef0123456789abcdef01234567";
const E8: &str = "A1X0JdhQilUA";

#[test]
fn debug_has_a_line_for_a_check_over_every_protocol_and_info_has_none() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "[log]\nlevel = \"debug\"\n");
    check_everywhere(&server);
    for (protocol, operation) in
        [("pyzor", "check"), ("dcc", "query"), ("fuzzy", "check"), ("razor", "check"), ("http", "POST /v1/check")]
    {
        let words = [
            "DEBUG bruit::request: request".to_owned(),
            format!("protocol=\"{protocol}\""),
            "from=127.0.0.1".to_owned(),
            format!("operation=\"{operation}\""),
            "signatures=1".to_owned(),
            "answered=\"unknown\"".to_owned(),
        ];
        until_line(&folder, &words);
    }
    // The line names the user and the reason for the refusal.
    let request = format!("Op: check\nOp-Digest: {DIGEST}\nThread: 2000\nPV: 2.1\nUser: mallory\nTime: 1\nSig: 00\n\n");
    send(server.address("pyzor"), request.as_bytes());
    until_line(&folder, &["account=\"mallory\"", "answered=\"unverified\"", "reason=\"unknown account"]);
    send(server.address("dcc"), b"rubbish");
    until_line(&folder, &["protocol=\"dcc\"", "answered=\"malformed\"", "reason=\"malformed request\""]);
    let log = log(&folder);
    assert!(!log.contains(DIGEST) && !log.contains(E8), "the log contains a whole signature: {log}");
    assert!(!log.contains("bruit::request: signature"), "single signatures may be logged only at level trace: {log}");

    server.terminate();
    fs::write(folder.path("server.log"), "").unwrap();
    folder.write("bruit.toml", config(&folder).replace("level = \"debug\"", "level = \"info\""));
    let server = server.restart();
    check_everywhere(&server);
    assert!(!self::log(&folder).contains("bruit::request"), "{}", server.said());
}

#[test]
fn trace_has_what_is_thought_of_each_signature() {
    let folder = Folder::new();
    let server = Server::start(&folder, "[log]\nlevel = \"info,bruit::request=trace\"\n");
    check_everywhere(&server);
    for protocol in ["pyzor", "dcc", "razor", "http"] {
        let protocol = format!("protocol=\"{protocol}\"");
        until_line(&folder, &["TRACE bruit::request: signature", &*protocol, "fingerprint=", "verdict=\"unknown\""]);
    }
}

#[test]
fn json_lines_have_timestamp_level_target_and_fields() {
    let folder = Folder::new();
    let server = Server::start(&folder, "[log]\nlevel = \"debug\"\nformat = \"json\"\n");
    check_everywhere(&server);
    until_line(&folder, &["bruit::request", "\"protocol\":\"razor\""]);
    until_line(&folder, &["bruit::request", "\"protocol\":\"http\""]);
    for line in log(&folder).lines() {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for key in ["timestamp", "level", "target"] {
            assert!(object[key].is_string(), "no {key}: {line}");
        }
        assert!(object["fields"]["message"].is_string(), "{line}");
        if object["target"] == "bruit::request" && object["fields"]["message"] == "request" {
            assert!(object["fields"]["protocol"].is_string() && object["fields"]["signatures"].is_u64(), "{line}");
        }
    }
}

#[test]
fn a_level_that_is_none_is_refused_by_name() {
    let folder = Folder::new();
    folder.write("bruit.toml", "[log]\nlevel = \"bruit=loud\"\n");
    let config = folder.path("bruit.toml");
    let line = refused(&["serve", "--check-config", "--config", config.to_str().unwrap()]);
    assert!(line.contains("log.level \"bruit=loud\""), "{line}");
    let line = refused(&["serve", "--check-config", "--log", "bruit=loud"]);
    assert!(line.contains("--log \"bruit=loud\""), "{line}");
}

#[test]
fn changes_by_administrators_are_in_the_log_and_refusals_are_bounded() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let http = server.address("http");
    let token = format!("Authorization: Bearer {}\r\n", server.token());
    let json = &*format!("Content-Type: application/json\r\n{token}");
    assert_eq!(ask(http, "POST /v1/whitelist", json, "{\"sender\":\".example.org\"}"), 200);
    until_line(
        &folder,
        &[
            "INFO bruit::audit:",
            "from=127.0.0.1",
            "name=\"admin.token\"",
            "action=\"whitelist.add\"",
            "sender .example.org",
            "outcome=\"done\"",
        ],
    );
    let account = "{\"protocol\":\"razor\",\"name\":\"alice\",\"secret\":\"tin whistle 7\"}";
    assert_eq!(ask(http, "POST /v1/accounts", json, account), 200);
    until_line(&folder, &["bruit::audit:", "action=\"account.add\"", "subject=\"razor alice\"", "outcome=\"done\""]);
    assert_eq!(ask(http, "POST /v1/accounts", json, account), 409);
    until_line(&folder, &["bruit::audit:", "action=\"account.add\"", "outcome=\"failed\"", "reason="]);
    assert_eq!(ask(http, "GET /v1/federation/realm", &token, ""), 200);
    until_line(&folder, &["bruit::audit:", "action=\"realm.read\""]);
    for _ in 0..100 {
        assert_eq!(ask(http, "GET /v1/stats", "Authorization: Bearer guessed-wrong\r\n", ""), 401);
    }
    until_line(&folder, &["bruit::audit:", "action=\"GET /v1/stats\"", "outcome=\"refused\"", "from=127.0.0.1"]);
    let log = log(&folder);
    assert!(log.matches("outcome=\"refused\"").count() <= 11, "{log}");
    let secrets = ["tin whistle", "guessed-wrong", &server.token()];
    assert!(!secrets.iter().any(|secret| log.contains(secret)), "the log contains a secret: {log}");
}

#[test]
fn a_link_that_fails_is_named_once_with_the_reason_and_so_is_its_return() {
    let folders = [Folder::new(), Folder::new()];
    let keys = agreement::found(&folders);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let peer = |name: &str, key: &str, url: &str| {
        format!("\n[[peers]]\nname = \"{name}\"\nkey = \"{key}\"\nrelation = \"cluster\"\n{url}")
    };
    fs::remove_file(folders[0].path("server.log")).unwrap();
    let _here = Server::start(&folders[0], &peer("berta", &keys[1], &format!("url = \"https://{address}\"\n")));
    let fails = ["WARN", "link failed; retrying", "peer=\"berta\"", "reason="];
    let line = until_line(&folders[0], &fails);
    assert!(line.contains("refused"), "the line must show that the connection was refused: {line}");
    // Sleep long enough for the server to try several times.
    thread::sleep(Duration::from_secs(3));
    assert_eq!(lines_with(&log(&folders[0]), &fails).len(), 1, "{}", log(&folders[0]));
    let more = format!("[federation]\nlisten = \"{address}\"\n{}", peer("anna", &keys[0], ""));
    let _there = Server::start(&folders[1], &more);
    let line = until_line(&folders[0], &["INFO", "link recovered", "peer=\"berta\"", "seconds="]);
    let seconds: u64 = line.rsplit("seconds=").next().unwrap().split_whitespace().next().unwrap().parse().unwrap();
    assert!((3..600).contains(&seconds), "{line}");
}

/// Checks an unknown message over each protocol.
fn check_everywhere(server: &Server) {
    assert_eq!(Datagrams::to(server.address("pyzor")).pyzor("check", DIGEST).0, 200);
    assert!(!Datagrams::to(server.address("dcc")).dcc_is_many([7; 16]));
    assert_eq!(Datagrams::to(server.address("fuzzy")).fuzzy_check([9; 64]).1, 0.0);
    assert_eq!(wire::razor_check(server.address("razor"), E8), "p=0");
    assert_eq!(wire::http_check(server.address("http"), DIGEST), "unknown");
}

/// Sends a datagram without waiting for an answer.
fn send(server: SocketAddr, datagram: &[u8]) {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(datagram, server).unwrap();
}

/// Returns the status of an HTTP request.
fn ask(server: SocketAddr, request: &str, fields: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(server).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).unwrap();
    String::from_utf8_lossy(&reply).split(' ').nth(1).unwrap().parse().unwrap()
}

fn config(folder: &Folder) -> String {
    fs::read_to_string(folder.path("bruit.toml")).unwrap()
}

fn log(folder: &Folder) -> String {
    fs::read_to_string(folder.path("server.log")).unwrap()
}

fn lines_with<'l>(log: &'l str, words: &[impl AsRef<str>]) -> Vec<&'l str> {
    log.lines().filter(|line| words.iter().all(|word| line.contains(word.as_ref()))).collect()
}

/// Waits for a line with all these words. The wait is needed because lines are written after the answers.
#[track_caller]
fn until_line(folder: &Folder, words: &[impl AsRef<str>]) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let log = log(folder);
        if let Some(line) = lines_with(&log, words).first() {
            return (*line).to_owned();
        }
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        assert!(Instant::now() < deadline, "no line with {words:?} in:\n{log}");
        thread::sleep(Duration::from_millis(20));
    }
}
