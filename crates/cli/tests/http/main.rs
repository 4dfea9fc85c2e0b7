//! The HTTP interface of a running server: by our own verbs, and by requests written by hand.

#[path = "../common/mod.rs"]
mod common;
mod raw;

use std::process::{Command, Output, Stdio};

use common::{Folder, Server};
use raw::{Connection, request};
use serde_json::{Value, json};

const SPAM: &str = "From: Ann <ann@example.org>\nSubject: watches\n\nGenuine watches at wholesale prices, delivered within seven \
    days to every country. Order three and the fourth comes without any charge, in a box of walnut wood.\n";
const REPLICA: &str = "From: Bob <bob@example.net>\nSubject: for you\n\nDear Carol,\nGenuine watches at wholesale prices, delivered \
    within seven days to every country. Order three and the fourth comes without any charge, in a box of walnut \
    wood. Yours, 8263\n";
const OTHER: &str = "From: Dan <dan@example.org>\nSubject: minutes\n\nHere are the minutes of our meeting about the bridge, with the \
    decisions on paint, railings and lamps that we took on Tuesday.\n";

/// Runs `bruit` with its words separated by spaces.
fn run(server: &Server, words: &str, input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    command.args(words.split_whitespace()).env("BRUIT_SERVER", server.url()).env_remove("BRUIT_TOKEN");
    command.env("BRUIT_DATA", server.data());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[track_caller]
fn expect(server: &Server, words: &str, input: &str, code: i32) -> String {
    let output = run(server, words, input);
    assert_eq!(output.status.code(), Some(code), "{words}: {output:?}\n{}", server.said());
    text(&output.stdout).to_owned()
}

fn json_of(server: &Server, words: &str, input: &str) -> Value {
    serde_json::from_slice(&run(server, words, input).stdout).unwrap()
}

/// The field that shows the administrator's token.
fn authorization(server: &Server) -> (&'static str, String) {
    ("Authorization", format!("Bearer {}", server.token()))
}

#[test]
fn what_is_reported_is_spam_until_it_is_revoked() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    expect(&server, "check", SPAM, 1);
    let reported = expect(&server, "report", SPAM, 0);
    assert_eq!(reported, "reported: 4 signatures accepted, 4 listed\n", "exact, pyzor, razor_e4 and the text");
    assert_eq!(expect(&server, "check", SPAM, 0), "spam, confidence 95: the site's own users reported it\n");
    expect(&server, "check", OTHER, 1);
    let revoked = expect(&server, "revoke", SPAM, 0);
    assert_eq!(revoked, "revoked: 4 signatures accepted, 4 taken off\n");
    assert_eq!(expect(&server, "check", SPAM, 1), "ham: it was reported, and then revoked\n");
}

#[test]
fn a_replica_is_known_by_its_text_and_reported_under_its_name() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    expect(&server, "report", SPAM, 0);
    let checked = json_of(&server, "check --json", REPLICA);
    let verdicts: Vec<(&str, &str)> = checked["signatures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| (found["scheme"].as_str().unwrap(), found["verdict"].as_str().unwrap()))
        .collect();
    assert!(verdicts.contains(&("bruit", "spam")) && verdicts.contains(&("exact", "unknown")), "{verdicts:?}");
    assert_eq!(checked["verdict"], "spam");
    let tables = |server: &Server| {
        let stats = json_of(server, "stats --json", "");
        let tables = stats["tables"].as_array().unwrap().clone();
        tables.iter().find(|table| table["name"] == "texts").unwrap()["used"].as_u64().unwrap()
    };
    assert_eq!(tables(&server), 1);
    expect(&server, "report", REPLICA, 0);
    assert_eq!(tables(&server), 1, "one text has one name");
    expect(&server, "revoke", REPLICA, 0);
    let replica = json_of(&server, "check --json", SPAM)["signatures"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&replica["scheme"], &replica["verdict"]), (&json!("bruit"), &json!("ham")), "the text was taken back");
}

#[test]
fn everything_is_known_after_the_server_was_killed_or_stopped() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "");
    expect(&server, "report", SPAM, 0);
    server.kill();
    let mut server = server.restart();
    expect(&server, "check", SPAM, 0);
    expect(&server, "report", OTHER, 0);
    assert!(server.terminate().success());
    let server = server.restart();
    expect(&server, "check", REPLICA, 0);
    expect(&server, "check", OTHER, 0);
}

#[test]
fn a_raw_message_is_signed_by_the_server_as_by_the_client() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let mut connection = Connection::to(&server);
    let claimed =
        connection.ask(&request("POST", "/v1/report", &[("Content-Type", "message/rfc822")], SPAM.as_bytes()));
    assert_eq!((claimed.status, &claimed.json()["accepted"]), (200, &json!(4)));
    for media in ["message/rfc822", "text/plain; charset=utf-8", "application/octet-stream"] {
        let checked = connection.ask(&request("POST", "/v1/check", &[("Content-Type", media)], SPAM.as_bytes()));
        let by_client = json_of(&server, "check --json", SPAM);
        assert_eq!(checked.json()["signatures"], by_client["signatures"], "{media}");
        assert_eq!(checked.json()["verdict"], "spam");
    }
}

#[test]
fn senders_on_the_whitelist_send_no_spam() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "");
    expect(&server, "report", SPAM, 0);
    expect(&server, "whitelist add --sender ANN@example.org", "", 0);
    expect(&server, "whitelist add --sender ann@example.org", "", 0);
    assert_eq!(expect(&server, "check", SPAM, 1), "ham: its sender is whitelisted\n");
    expect(&server, "check --no-sender", SPAM, 0);
    expect(&server, "check --sender eve@example.com", SPAM, 0);
    server.kill();
    let server = server.restart();
    assert_eq!(expect(&server, "whitelist list", "", 0), "ann@example.org\nsenders 1, signatures 0\n");
    expect(&server, "whitelist remove --sender ann@example.org", "", 0);
    expect(&server, "whitelist remove --sender ann@example.org", "", 1);
    expect(&server, "check", SPAM, 0);
    assert!(
        text(&run(&server, "whitelist add --sender @", "").stderr).contains("example.org"),
        "a pattern is explained"
    );
}

#[test]
fn signatures_on_the_whitelist_are_not_claimed() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let signed = json_of(&server, "sign --json --scheme exact", SPAM);
    let exact = signed["signatures"][0]["signature"].as_str().unwrap();
    expect(&server, &format!("whitelist add --scheme exact --value {exact}"), "", 0);
    assert_eq!(expect(&server, "report", SPAM, 0), "reported: 3 signatures accepted, 3 listed, 1 whitelisted\n");
    let output = run(&server, "report --scheme exact", SPAM);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("all of its signatures are whitelisted"), "{output:?}");
}

#[test]
fn an_explanation_says_why() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    expect(&server, "report", SPAM, 0);
    let text = expect(&server, "explain", SPAM, 0);
    for line in [
        "spam, confidence 95: the site's own users reported it",
        "  the sender is not whitelisted",
        "    listed in generations 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} in\n{text}");
    }
    let explained = json_of(&server, "explain --json", SPAM);
    let exact = &explained["signatures"][0];
    assert_eq!((&exact["scheme"], &exact["evidence"]["own_reports"]), (&json!("exact"), &json!(1)));
    assert!(exact["first_seen"].as_u64().unwrap() > 1_700_000_000);
    let replica = explained["signatures"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&replica["scheme"], &replica["listed"]), (&json!("bruit"), &json!([0])));
}

#[test]
fn statistics_tell_requests_and_fill() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    expect(&server, "report", SPAM, 0);
    expect(&server, "check", SPAM, 0);
    let stats = json_of(&server, "stats --json", "");
    let count = |answered: &str| {
        let counts = stats["requests"].as_array().unwrap().iter();
        counts
            .filter(|count| count["protocol"] == "http" && count["answered"] == answered)
            .map(|count| count["count"].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!((count("accepted"), count("spam")), (1, 1));
    assert!(stats["store"]["sequence"].as_u64().unwrap() > 0);
    let text = expect(&server, "stats", "", 0);
    assert!(text.contains("listed signatures") && text.contains("nursery"), "{text}");
    let (name, token) = authorization(&server);
    let metrics = Connection::to(&server).ask(&request("GET", "/metrics", &[(name, &token)], b""));
    let head = metrics.head.to_lowercase();
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    let body = String::from_utf8(metrics.body).unwrap();
    assert!(body.contains(r#"bruit_requests_total{protocol="http",answered="accepted"} 1"#), "{body}");
}

#[test]
fn reporters_are_registered_disabled_and_removed() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let mut connection = Connection::to(&server);
    connection.authorize(&server.token());
    let (name, token) = authorization(&server);
    let new =
        json!({ "protocol": "razor", "name": "ann@example.org", "secret": "tin whistle 77", "standing": "pinned" });
    let named = |enabled: Option<bool>| {
        let mut value = json!({ "protocol": "razor", "name": "ann@example.org" });
        if let Some(enabled) = enabled {
            value["enabled"] = json!(enabled);
        }
        value
    };
    assert_eq!(connection.send("POST", "/v1/reporters", &new).status, 200);
    assert_eq!(connection.send("POST", "/v1/reporters", &new).status, 409, "the name is taken");
    assert_eq!(connection.send("PATCH", "/v1/reporters", &named(Some(false))).status, 200);
    let page = connection.ask(&request("GET", "/v1/reporters", &[(name, &token)], b"")).json();
    assert_eq!((&page["total"], &page["next_offset"]), (&json!(1), &Value::Null));
    let found = &page["reporters"][0];
    assert_eq!(
        (&found["name"], &found["standing"], &found["enabled"]),
        (&json!("ann@example.org"), &json!("pinned"), &json!(false))
    );
    assert_eq!(connection.send("DELETE", "/v1/reporters", &named(Some(true))).status, 400);
    assert_eq!(connection.send("DELETE", "/v1/reporters", &named(None)).status, 200);
    assert_eq!(connection.send("DELETE", "/v1/reporters", &named(None)).status, 404);
    for wrong in [
        json!({ "protocol": "smtp", "name": "a", "secret": "tin whistle 77" }),
        json!({ "protocol": "fuzzy", "name": "a", "secret": "00" }),
        json!({ "protocol": "razor", "name": "a", "secret": "123" }),
        json!({ "protocol": "razor", "name": "a", "secret": "tin whistle 77", "standing": "king" }),
        json!({ "protocol": "razor", "name": "a", "secret": "tin whistle 77", "colour": "red" }),
    ] {
        assert_eq!(connection.send("POST", "/v1/reporters", &wrong).status, 400, "{wrong}");
    }
}

#[test]
fn a_token_gives_rights_and_what_came_through_a_proxy_has_none_of_its_own() {
    let folder = Folder::new();
    folder.write("token", "a-token-of-some-length");
    folder.write("wrong", "another-token-of-a-length");
    let more = "[http]\nlisten = \"127.0.0.1:0\"\n[[http.tokens]]\nname = \"reader\"\ntoken = \"a-token-of-some-length\"\n\
        [[http.tokens]]\nname = \"chief\"\ntoken = \"the-token-of-the-chief\"\nadmin = true\n";
    let server = Server::start(&folder, more);
    let mut connection = Connection::to(&server);
    let mut ask = |method: &str, path: &str, token: &str| {
        let mut fields = vec![("Via", "1.1 proxy"), ("Content-Type", "message/rfc822")];
        let bearer = format!("Bearer {token}");
        if !token.is_empty() {
            fields.push(("Authorization", &bearer));
        }
        connection.ask(&request(method, path, &fields, SPAM.as_bytes())).status
    };
    let (reader, chief) = ("a-token-of-some-length", "the-token-of-the-chief");
    for (method, path, expected) in [
        ("POST", "/v1/check", [200, 200, 200]),
        ("POST", "/v1/report", [403, 200, 200]),
        ("POST", "/v1/revoke", [403, 200, 200]),
        ("POST", "/v1/explain", [403, 403, 200]),
        ("GET", "/v1/stats", [403, 403, 200]),
        ("GET", "/v1/reporters", [403, 403, 200]),
        ("GET", "/v1/whitelist", [403, 403, 200]),
        ("GET", "/metrics", [403, 403, 200]),
        ("GET", "/v1/health", [204, 204, 204]),
    ] {
        // Something to take back, whoever reported it.
        assert_eq!(ask("POST", "/v1/report", chief), 200);
        assert_eq!(["", reader, chief].map(|token| ask(method, path, token)), expected, "{method} {path}");
        assert_eq!(ask(method, path, "nobody-has-this-token"), 401, "{method} {path}");
    }
    let file = |name: &str| folder.path(name).display().to_string();
    for (name, refusal) in [("token", "an administrator's token"), ("wrong", "nobody has this token")] {
        let output = run(&server, &format!("stats --token-file {}", file(name)), "");
        assert!(output.status.code() == Some(2) && text(&output.stderr).contains(refusal), "{output:?}");
    }
    folder.write("chief", "the-token-of-the-chief");
    expect(&server, &format!("stats --token-file {}", file("chief")), "", 0);
}

#[test]
fn a_strangers_report_changes_nothing() {
    let (folder, closed) = (Folder::new(), Folder::new());
    let server = Server::start(&folder, "[http]\nlisten = \"127.0.0.1:0\"\nrights = { report = \"anyone\" }\n");
    let fields = [("X-Forwarded-For", "127.0.0.1"), ("Content-Type", "message/rfc822")];
    let report = request("POST", "/v1/report", &fields, SPAM.as_bytes());
    assert_eq!(Connection::to(&Server::start(&closed, "")).ask(&report).status, 403, "unless it is allowed");
    let answer = Connection::to(&server).ask(&report);
    assert_eq!((answer.status, &answer.json()["listed"]), (200, &json!(0)));
    expect(&server, "check", SPAM, 1);
}

#[test]
fn strangers_are_limited_whether_they_ask_or_guess() {
    let folder = Folder::new();
    let more = "[limits]\nrequests = { per_second = 0.0001, burst = 6 }\nclaims = { per_second = 0.0001, burst = 4 }\n\
        costly = { per_second = 0.0001, burst = 2 }\n[http]\nlisten = \"127.0.0.1:0\"\nrights = { report = \"anyone\" }\n";
    let server = Server::start(&folder, more);
    let mut connection = Connection::to(&server);
    let mut ask = |path: &str, media: &str, fields: &[(&str, &str)]| {
        let fields = [&[("Via", "1.1 proxy"), ("Content-Type", media)], fields].concat();
        // A message has three signatures that are reported, this has two.
        let signature = |digit: &str| json!({"scheme": "pyzor", "value": digit.repeat(40)});
        let json = json!({"signatures": [signature("1"), signature("2")]}).to_string();
        let body = if media == "message/rfc822" { SPAM } else { &json };
        let answer = connection.ask(&request("POST", path, &fields, body.as_bytes()));
        assert!(answer.status != 429 || answer.head.to_lowercase().contains("retry-after: "), "{}", answer.head);
        answer.status
    };
    let (json, message) = ("application/json", "message/rfc822");
    assert_eq!(ask("/v1/check", message, &[]), 200);
    assert_eq!(ask("/v1/report", message, &[]), 200);
    assert_eq!(ask("/v1/check", message, &[]), 429, "no more messages to be signed");
    assert_eq!(ask("/v1/report", json, &[]), 429, "no more reports");
    assert_eq!(ask("/v1/check", json, &[]), 200);
    assert_eq!(ask("/v1/check", json, &[("Authorization", "Bearer guess")]), 401);
    assert_eq!(ask("/v1/check", json, &[("Authorization", "Bearer guess")]), 429);
    assert_eq!(ask("/v1/check", json, &[]), 429);
    expect(&server, "check", SPAM, 1);
}

#[test]
fn pages_of_other_sites_and_names_of_others_get_nothing_done() {
    let folder = Folder::new();
    let server = Server::start(&folder, "[http]\nlisten = \"127.0.0.1:0\"\nhosts = [\"bruit.example.org\"]\n");
    let mut connection = Connection::to(&server);
    let mut report = |fields: &[(&str, &str)]| {
        let fields = [&[("Content-Type", "text/plain")], fields].concat();
        connection.ask(&request("POST", "/v1/report", &fields, SPAM.as_bytes())).status
    };
    for fields in [
        &[("Origin", "https://evil.example")][..],
        &[("Origin", "null")],
        &[("Sec-Fetch-Site", "cross-site")],
        &[("Origin", "http://127.0.0.1"), ("Sec-Fetch-Site", "same-site")],
    ] {
        assert_eq!(report(fields), 403, "{fields:?}");
    }
    assert_eq!(report(&[("Host", "rebound.evil.example")]), 421);
    assert_eq!(report(&[("Host", "127.0.0.1"), ("Host", "rebound.evil.example")]), 421);
    expect(&server, "check", SPAM, 1);
    assert_eq!(
        report(&[("Host", "bruit.example.org"), ("Origin", "https://bruit.example.org")]),
        403,
        "a proxy may have it"
    );
    expect(&server, "check", SPAM, 1);
    let bearer = format!("Bearer {}", server.token());
    assert_eq!(report(&[("Host", "bruit.example.org"), ("Authorization", &bearer)]), 200);
    expect(&server, "check", SPAM, 0);
}

#[test]
fn what_is_wrong_is_told_as_a_problem() {
    let folder = Folder::new();
    let server = Server::start(&folder, "[http]\nlisten = \"127.0.0.1:0\"\nbody_max = \"64KiB\"\n");
    let json = &[("Content-Type", "application/json")][..];
    let long = vec![b' '; (64 << 10) + 1];
    for (method, path, fields, body, status) in [
        ("GET", "/", &[][..], &b""[..], 404),
        ("GET", "/v1/check", &[], b"", 405),
        ("DELETE", "/v1/stats", &[], b"", 405),
        ("POST", "/v1/check", &[], b"{}", 415),
        ("POST", "/v1/check", &[("Content-Type", "text/html")], b"{}", 415),
        ("POST", "/v1/check", json, b"", 400),
        ("POST", "/v1/check", json, b"{}", 400),
        ("POST", "/v1/check", json, br#"{"message": "x"}"#, 400),
        ("POST", "/v1/check", json, br#"{"signatures": [{"scheme": "pyzor", "value": "00"}]}"#, 400),
        ("POST", "/v1/check", json, &long, 413),
        ("POST", "/v1/check", &[("Content-Type", "message/rfc822")], &long, 413),
        ("POST", "/v1/whitelist", &[("Content-Type", "text/plain")], b"{}", 415),
        ("POST", "/v1/whitelist", json, b"{}", 400),
        ("GET", "/v1/whitelist?offset=x", &[], b"", 400),
        ("GET", "/v1/whitelist?page=1", &[], b"", 400),
    ] {
        // A refused body may end the connection.
        let (name, token) = authorization(&server);
        let fields = [fields, &[(name, &*token)]].concat();
        let answer = Connection::to(&server).ask(&request(method, path, &fields, body));
        assert_eq!(answer.status, status, "{method} {path} {fields:?}: {:?}", text(&answer.body));
        assert!(answer.head.to_lowercase().contains("content-type: application/problem+json\r\n"), "{}", answer.head);
        assert_eq!(answer.json()["status"], status);
        assert!(!answer.json()["detail"].as_str().unwrap().is_empty());
    }
    let exact = [&b"\n"[..], &vec![b'x'; (64 << 10) - 1]].concat();
    let answer =
        Connection::to(&server).ask(&request("POST", "/v1/check", &[("Content-Type", "message/rfc822")], &exact));
    assert_eq!(answer.status, 200, "a message at the bound is signed");
}

#[test]
fn headers_without_end_are_cut_off() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let many: String = (0..100).map(|at| format!("X-{at}: y\r\n")).collect();
    let long = format!("X: {}\r\n", "y".repeat(64 << 10));
    for fields in [many, long] {
        let answer = Connection::to(&server)
            .ask(format!("GET /v1/health HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").as_bytes());
        assert_eq!(answer.status, 431);
    }
    expect(&server, "check", SPAM, 1);
}

#[test]
fn the_server_says_that_it_is_alive_and_ready_and_what_it_can_do() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let mut connection = Connection::to(&server);
    assert_eq!(connection.ask(&request("GET", "/v1/health", &[], b"")).status, 204);
    assert_eq!(connection.ask(&request("GET", "/v1/ready", &[], b"")).status, 204);
    let document = connection.ask(&request("GET", "/v1/openapi.json", &[], b"")).json();
    assert_eq!(document["openapi"], "3.1.0");
    assert!(document["paths"]["/v1/check"]["post"].is_object());
}

#[test]
fn requests_under_way_are_answered_when_the_server_stops() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "");
    let mut connection = Connection::to(&server);
    let whole = request(
        "POST",
        "/v1/report",
        &[("Content-Type", "message/rfc822"), ("Expect", "100-continue")],
        SPAM.as_bytes(),
    );
    let (head, body) = whole.split_at(whole.len() - SPAM.len());
    // The server asks for the body when the request is under way.
    connection.write(head);
    assert_eq!(connection.read().status, 100);
    let stopping = std::thread::scope(|scope| {
        let stopped = scope.spawn(|| server.terminate());
        connection.wait_until_refused();
        connection.write(body);
        let answer = connection.read();
        assert_eq!(answer.status, 200, "{}", answer.head);
        stopped.join().unwrap()
    });
    assert!(stopping.success());
    expect(&server.restart(), "check", SPAM, 0);
}
