//! Counting recipients without a DCC client: with `curl`, our own verbs, and checks by other clients.

use std::process::Command;
use std::time::{Duration, Instant};

use bruit_signatures::{Context, Scheme, Wanted, sign};
use serde_json::{Value, json};

use crate::common::wire::{self, Datagrams};
use crate::common::{Folder, Server};
use crate::raw::{Connection, request};
use crate::{OTHER, SPAM, expect, json_of, run, text};

/// A message of a mailing list.
const NEWS: &str = "From: Club <club@example.org>\nList-Id: News of the club <news.club.example.org>\nSubject: news\n\nThe annual \
    meeting of the club takes place in the hall by the river on Friday. Members bring a chair, a cup and an opinion.\n";

/// Sends a raw message with `curl`, and returns the answer.
#[track_caller]
fn curl(server: &Server, path: &str, fields: &[&str], message: &str) -> Value {
    let mut command = Command::new("curl");
    command.args(["--silent", "--data-binary", message, "--header", "Content-Type: message/rfc822"]);
    for field in fields {
        command.args(["--header", field]);
    }
    let output = command.arg(format!("{}{path}", server.url())).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn total(server: &Server, message: &str) -> Value {
    json_of(server, "check --json", message)["bulk_count"].clone()
}

#[test]
fn a_message_to_25_in_five_checks_is_bulk_at_20_and_not_at_26_by_the_callers_choice() {
    let folder = Folder::new();
    let server = Server::start(&folder, "[http]\nlisten = \"127.0.0.1:0\"\nbulk_threshold = 22\n");
    for (round, expected) in [(1, "unknown"), (2, "unknown"), (3, "unknown"), (4, "bulk"), (5, "bulk")] {
        let answer = match round % 2 {
            0 => curl(&server, "/v1/check?recipients=5&bulk_threshold=20", &[], SPAM),
            _ => json_of(&server, "check --json --count 5 --bulk-threshold 20", SPAM),
        };
        assert_eq!((&answer["bulk_count"], &answer["counted"]), (&json!(5 * round), &json!(5)), "{answer}");
        assert_eq!((&answer["verdict"], &answer["bulk_threshold"]), (&json!(expected), &json!(20)), "{answer}");
    }
    // A request may use a lower or higher threshold than the server.
    assert_eq!(expect(&server, "check", SPAM, 3), "bulk: it was sent to many recipients\n");
    let line = expect(&server, "check --bulk-threshold 26", SPAM, 1);
    assert_eq!(line, "unknown: no trusted reporter has reported it; 25 recipients counted\n");
    expect(&server, "check --bulk-threshold 25", SPAM, 3);
    assert_eq!(curl(&server, "/v1/check?bulk_threshold=26", &[], SPAM)["verdict"], "unknown");
    assert_eq!(curl(&server, "/v1/check?bulk_threshold=25", &[], SPAM)["verdict"], "bulk");
    assert_eq!(curl(&server, "/v1/check", &[], SPAM)["bulk_threshold"], 22);
    assert_eq!(total(&server, OTHER), 0);
    // A reported message is spam, regardless of its recipients.
    expect(&server, "report", SPAM, 0);
    expect(&server, "check --bulk-threshold 20", SPAM, 0);
}

#[test]
fn signatures_raw_messages_and_dcc_clients_count_one_total() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "");
    assert_eq!(expect(&server, "count", SPAM, 0), "counted 1, now 1 recipient in all\n");
    assert_eq!(curl(&server, "/v1/count?recipients=2", &[], SPAM), json!({"counted": 2, "bulk_count": 3}));
    let answer = json_of(&server, "count --recipients 4 --json", SPAM);
    assert_eq!(answer, json!({"counted": 4, "bulk_count": 7, "file": "standard input"}));
    let signed = sign(SPAM.as_bytes(), &Wanted { dcc: true, ..Wanted::NONE }, &Context::default());
    let body = signed.signatures.iter().find(|signature| signature.scheme() == Scheme::DccBody).unwrap();
    let sum = body.bytes().try_into().unwrap();
    let mut client = Datagrams::to(server.address("dcc"));
    assert_eq!(client.dcc_count(8, sum), 15);
    assert_eq!(total(&server, SPAM), 15);
    let value = body.to_string();
    let subject = json!({"signatures": [{"scheme": "dcc_body", "value": value}]});
    let mut connection = Connection::to(&server);
    let counted = connection.send("POST", "/v1/count", &subject);
    assert_eq!((counted.status, counted.json()), (200, json!({"counted": 1, "bulk_count": 16})));
    server.kill();
    assert_eq!(total(&server.restart(), SPAM), 16, "every acknowledged count is on disk");
}

#[test]
fn a_repeated_request_of_the_same_name_counts_once() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let named = |name: &str, message: &str| {
        curl(&server, "/v1/count?recipients=5", &[&format!("Idempotency-Key: {name}")], message)["bulk_count"].clone()
    };
    assert_eq!([named("a", SPAM), named("a", SPAM), named("b", SPAM)], [json!(5), json!(5), json!(10)]);
    assert_eq!(named("a", OTHER), 5, "the same name with another message is another request");
    for _ in 0..2 {
        let answer = json_of(&server, "check --json --count 7 --idempotency-key c", SPAM);
        assert_eq!((&answer["counted"], &answer["bulk_count"]), (&json!(7), &json!(17)));
    }
    expect(&server, "count --recipients 7 --idempotency-key c", SPAM, 0);
    assert_eq!(total(&server, SPAM), 17);
}

#[test]
fn whitelisted_senders_and_lists_are_neither_counted_nor_bulk() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    for message in [SPAM, NEWS] {
        expect(&server, "check --count 30 --bulk-threshold 20", message, 3);
    }
    expect(&server, "whitelist add --sender ann@example.org", "", 0);
    expect(&server, "whitelist add --list .club.example.org", "", 0);
    let output = run(&server, "check --count 30 --bulk-threshold 20", SPAM);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("the sender is whitelisted"), "{output:?}");
    let output = run(&server, "check --count 30 --bulk-threshold 20", NEWS);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("the mailing list is whitelisted"), "{output:?}");
    assert!(expect(&server, "count", NEWS, 0).starts_with("not counted: the mailing list is whitelisted"));
    assert_eq!(curl(&server, "/v1/check?bulk_threshold=20", &[], NEWS)["verdict"], "unknown");
    assert_eq!((total(&server, SPAM), total(&server, NEWS)), (json!(30), json!(30)));
    expect(&server, "check --bulk-threshold 20 --no-sender", NEWS, 3);
    expect(&server, "report", NEWS, 0);
    expect(&server, "check", NEWS, 0);
    assert_eq!(expect(&server, "whitelist list", "", 0).lines().last(), Some("senders 2, signatures 0"));
    expect(&server, "whitelist remove --list .club.example.org", "", 0);
}

#[test]
fn only_who_may_report_counts_and_accounts_count_few() {
    let folder = Folder::new();
    let token = "[[http.tokens]]\nname = \"account\"\ntoken = \"token-of-an-account-holder\"\n[http.rights]\nreport = \"anyone\"\n";
    let server = Server::start(&folder, token);
    // A client of an untrusted proxy is a stranger, regardless of the proxy's address.
    let stranger = ["X-Forwarded-For: 192.0.2.1"];
    let refused = curl(&server, "/v1/count?recipients=5", &stranger, SPAM);
    assert_eq!(refused["status"], 403, "{refused}");
    let answer = curl(&server, "/v1/check?recipients=5", &stranger, SPAM);
    assert_eq!((&answer["verdict"], &answer["counted"]), (&json!("unknown"), &json!(0)));
    assert!(answer["count_reason"].is_string(), "{answer}");
    let account = ["X-Forwarded-For: 192.0.2.1", "Authorization: Bearer token-of-an-account-holder"];
    let answer = curl(&server, "/v1/check?recipients=5", &account, SPAM);
    assert_eq!((&answer["counted"], &answer["bulk_count"]), (&json!(1), &json!(1)), "a new account: {answer}");
    assert!(answer["count_reason"].as_str().unwrap().contains("is 1 recipients"), "{answer}");
}

#[test]
fn what_cannot_be_counted_is_refused_by_name() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let mut connection = Connection::to(&server);
    for (path, named) in [
        ("/v1/check?recipients=0", "recipients: expected 1 to 16777200"),
        ("/v1/count?recipients=16777201", "recipients: expected"),
        ("/v1/check?bulk_threshold=0", "bulk_threshold: expected"),
        ("/v1/count?bulk_threshold=5", "returns no verdict"),
        ("/v1/check?threshold=5", "threshold"),
        ("/v1/count?recipients=-1", "recipients"),
    ] {
        let answer = connection.ask(&request("POST", path, &[("Content-Type", "message/rfc822")], SPAM.as_bytes()));
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(named), "{path}: {}", answer.json());
    }
    let body = |byte: &str| json!({"scheme": "dcc_body", "value": byte.repeat(16)});
    let pyzor = json!({"scheme": "pyzor", "value": "00".repeat(20)});
    for (signatures, named) in
        [(json!([body("01"), body("02")]), "contains more"), (json!([pyzor]), "contains neither")]
    {
        let answer = connection.send("POST", "/v1/count", &json!({"signatures": signatures}));
        assert_eq!(answer.status, 400, "{}", answer.json());
        assert!(answer.json()["detail"].as_str().unwrap().contains(named), "{}", answer.json());
        let answer = connection.send("POST", "/v1/check?recipients=5", &json!({"signatures": signatures})).json();
        assert!(answer["counted"] == 0 && answer["count_reason"].as_str().unwrap().contains(named), "{answer}");
    }
    for words in ["count --recipients 0", "count --recipients 17M", "check --count 0", "check --count 1 --local x"] {
        assert_eq!(run(&server, words, SPAM).status.code(), Some(2), "{words}");
    }
}

/// Makes three checks with each of the clients of Pyzor, Razor and rspamd. Waits until the totals are as `expected`.
/// Returns the totals, and the list number in the reply to rspamd.
fn count_by_checks(server: &Server, expected: (u64, u64, u32)) -> (u64, u64, u32) {
    const DIGEST: &str = "eb2a0e84c910ecae205eba635c8e442e85f5ee9a";
    const PART: &str = "16Zk7WBkwtND3NokefwLHWhxUAUA";
    let mut pyzor = Datagrams::to(server.address("pyzor"));
    let mut fuzzy = Datagrams::to(server.address("fuzzy"));
    for _ in 0..3 {
        pyzor.pyzor("check", DIGEST);
        fuzzy.fuzzy_check([7; 64]);
        wire::razor_check_part(server.address("razor"), PART);
    }
    let mut connection = Connection::to(server);
    let mut total = |scheme: &str, value: &str| {
        let subject = json!({"signatures": [{"scheme": scheme, "value": value}]});
        connection.send("POST", "/v1/check", &subject).json()["bulk_count"].as_u64().unwrap()
    };
    // Checks are answered before their recipients are counted.
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let found = (total("pyzor", DIGEST), total("razor_e4", PART), fuzzy.fuzzy_check([7; 64]).0);
        if found == expected || Instant::now() > deadline {
            return found;
        }
    }
}

#[test]
fn checks_of_other_clients_count_one_recipient_if_a_setting_says_so() {
    let folder = Folder::new();
    assert_eq!(count_by_checks(&Server::start(&folder, ""), (0, 0, 0)), (0, 0, 0), "off by default");
    let section = |name: &str, more: &str| format!("[{name}]\nlisten = \"127.0.0.1:0\"\ncount_checks = true\n{more}");
    let fuzzy = section("fuzzy", "bulk = { flag = 20, threshold = 3 }\n");
    let folder = Folder::new();
    let server = Server::start(&folder, &[section("pyzor", ""), section("razor", ""), fuzzy].concat());
    assert_eq!(count_by_checks(&server, (3, 3, 20)), (3, 3, 20));
}
