//! Tests of the verbs that connect to a server, with a server that misbehaves on purpose.

mod claims;
#[path = "../common/mod.rs"]
mod common;
mod stand_in;

use std::fs;
use std::process::{Command, Output, Stdio};

use common::{Folder, output_of};
use serde_json::{Value, json};
use stand_in::{Answer, StandIn};

const MESSAGE: &str = "From: Ann <ann@example.org>\nSubject: watches\n\nGenuine watches at wholesale prices, delivered within \
    seven days.\n";

/// Runs `bruit` with the arguments in `words`, separated by spaces, and without the environment variables that it
/// reads.
fn run(words: &str, server: &str, input: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    command.args(words.split_whitespace()).env("BRUIT_SERVER", server).env_remove("BRUIT_TOKEN");
    output_of(&mut command, input)
}

fn checked(verdict: &str, confidence: u8, reason: &str, bulk_count: u32) -> Answer {
    Answer::json(json!({
        "verdict": verdict, "reason": reason, "confidence": confidence, "bulk_count": bulk_count, "signatures": [],
    }))
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Returns the exit code, the output and the error output.
fn exit_and_text(output: &Output) -> (i32, &str, &str) {
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_exit_code_of_a_check_is_the_verdict() {
    for (verdict, confidence, reason, code, line) in [
        ("spam", 95, "own_reports", 0, "spam, confidence 95: the site's own users reported it\n"),
        ("ham", 0, "revoked", 1, "ham: it was revoked\n"),
        ("bulk", 0, "many_recipients", 3, "bulk: it was sent to many recipients\n"),
        ("unknown", 0, "not_reported", 1, "unknown: no trusted reporter has reported it\n"),
        ("unknown", 60, "new\u{1b}word", 1, "unknown, confidence 60: new\\u{1b}word\n"),
    ] {
        let server = StandIn::always(checked(verdict, confidence, reason, 0));
        let output = run("check", server.url(), MESSAGE.as_bytes());
        assert_eq!(exit_and_text(&output), (code, line, ""), "{verdict}");
    }
}

#[test]
fn a_check_sends_signatures_and_the_sender_and_no_text() {
    let server = StandIn::always(checked("unknown", 0, "not_reported", 0));
    run("check", server.url(), MESSAGE.as_bytes());
    run("check --no-sender", server.url(), MESSAGE.as_bytes());
    run("check --sender bounce@example.net --scheme pyzor,bruit", server.url(), MESSAGE.as_bytes());
    run("report", server.url(), MESSAGE.as_bytes());
    let requests = server.requests();
    let bodies: Vec<Value> = requests.iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect();
    let schemes = |at: usize| -> Vec<&str> {
        bodies[at]["signatures"].as_array().unwrap().iter().map(|named| named["scheme"].as_str().unwrap()).collect()
    };
    assert_eq!(schemes(0), ["exact", "pyzor", "razor_e4", "dcc_body", "dcc_fuz1"]);
    assert_eq!(schemes(2), ["pyzor"]);
    assert_eq!(schemes(3), ["exact", "pyzor", "razor_e4"]);
    let senders: Vec<&Value> = bodies.iter().map(|body| &body["sender"]).collect();
    assert_eq!(senders, [&json!("ann@example.org"), &Value::Null, &json!("bounce@example.net"), &Value::Null]);
    for request in &requests {
        let (head, body) = (request.head.to_lowercase(), text(&request.body));
        assert!(head.contains("content-type: application/json\r\n") && !head.contains("authorization"), "{head}");
        assert!(!body.contains("watches") && !body.contains("Subject"), "{body}");
    }
    assert!(requests[3].head.starts_with("POST /v1/report HTTP/1.1\r\n"), "{}", requests[3].head);
}

#[test]
fn a_token_is_shown_from_a_file_or_the_environment() {
    let folder = Folder::new();
    folder.write("token", "file-token \nnot this\n");
    folder.write("empty", "\n");
    let server = StandIn::always(checked("unknown", 0, "not_reported", 0));
    let file = format!("check --token-file {}", folder.path("token").display());
    assert_eq!(exit_and_text(&run(&file, server.url(), b"x")).0, 1);
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    command.arg("check").env("BRUIT_SERVER", server.url()).env("BRUIT_TOKEN", "environment-token").stdin(Stdio::null());
    assert_eq!(command.output().unwrap().status.code(), Some(1));
    let heads: Vec<String> = server.requests().iter().map(|request| request.head.to_lowercase()).collect();
    assert!(heads[0].contains("authorization: bearer file-token\r\n"), "{}", heads[0]);
    assert!(heads[1].contains("authorization: bearer environment-token\r\n"), "{}", heads[1]);
    for name in ["empty", "none"] {
        let output = run(&format!("check --token-file {}", folder.path(name).display()), server.url(), b"x");
        assert_eq!(exit_and_text(&output).0, 2, "{output:?}");
    }
}

#[test]
fn a_server_that_is_not_there_lets_mail_pass() {
    let url = StandIn::nobody();
    let output = run("check", &url, MESSAGE.as_bytes());
    let (code, printed, complaint) = exit_and_text(&output);
    assert_eq!((code, printed), (1, ""));
    assert!(complaint.starts_with(&format!("bruit: {url} cannot be reached: ")), "{complaint}");
    assert_eq!(complaint.lines().count(), 1);
    assert_eq!(exit_and_text(&run("check --on-error 75", &url, b"x")).0, 75);
    for verb in [
        "report",
        "revoke",
        "learn",
        "explain",
        "stats",
        "peers",
        "whitelist list",
        "whitelist add --sender a@example.org",
    ] {
        assert_eq!(exit_and_text(&run(verb, &url, b"x")).0, 2, "{verb}");
    }
    assert_eq!(exit_and_text(&run("check", "http://host.invalid:1", b"x")).0, 1, "a host name that does not exist");
}

#[test]
fn a_server_that_is_slow_lets_mail_pass() {
    for answer in [Answer::Silence, Answer::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_vec())] {
        let server = StandIn::always(answer);
        let output = run("check --timeout 100ms", server.url(), MESSAGE.as_bytes());
        let expected = format!("bruit: {} did not answer within 100ms\n", server.url());
        assert_eq!(exit_and_text(&output), (1, "", &*expected));
        assert_eq!(exit_and_text(&run("check --timeout 100ms --on-error 2", server.url(), b"x")).0, 2);
        assert_eq!(exit_and_text(&run("report --timeout 100ms", server.url(), b"x")).0, 2);
    }
}

#[test]
fn answers_that_are_none_do_not_hold_up_mail() {
    let length = bruit_client::ANSWER_BYTES_MAX + 1;
    let mut huge = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    huge.resize(huge.len() + length as usize, b' ');
    let html = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>".to_vec();
    for raw in [b"garbage\r\n\r\n".to_vec(), b"SSH-2.0-x\r\n".to_vec(), html, huge] {
        let shown = String::from_utf8_lossy(&raw[..raw.len().min(20)]).into_owned();
        let server = StandIn::always(Answer::Raw(raw));
        let output = run("check", server.url(), MESSAGE.as_bytes());
        let (code, printed, complaint) = exit_and_text(&output);
        assert_eq!((code, printed), (1, ""), "{shown}: {complaint}");
        assert!(complaint.contains("is not a Bruit server") && complaint.lines().count() == 1, "{complaint}");
    }
    let redirect = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n".to_vec();
    let server = StandIn::always(Answer::Raw(redirect));
    let output = run("check", server.url(), MESSAGE.as_bytes());
    assert!(exit_and_text(&output).2.contains("HTTP status 302"), "redirections are not followed: {output:?}");
    assert_eq!(exit_and_text(&output).0, 2);
}

#[test]
fn an_answer_at_the_bound_is_read() {
    let body =
        json!({"verdict": "spam", "reason": "listed", "confidence": 88, "bulk_count": 0, "signatures": []}).to_string();
    let blanks = " ".repeat(bruit_client::ANSWER_BYTES_MAX as usize - body.len());
    let padded = format!("{body}{blanks}");
    let server = StandIn::always(Answer::Raw(stand_in::reply(200, "application/json", padded.as_bytes())));
    assert_eq!(exit_and_text(&run("check", server.url(), MESSAGE.as_bytes())).0, 0);
}

#[test]
fn refusals_are_told_as_the_server_words_them() {
    let problem =
        json!({"type": "about:blank", "title": "not allowed", "status": 403, "detail": "reports need a token"});
    let refusal =
        |status: u16| Answer::Raw(stand_in::reply(status, "application/problem+json", problem.to_string().as_bytes()));
    let server = StandIn::always(refusal(403));
    let output = run("report", server.url(), MESSAGE.as_bytes());
    let expected = format!("bruit: {} refused: not allowed: reports need a token\n", server.url());
    assert_eq!(exit_and_text(&output), (2, "", &*expected));
    assert_eq!(exit_and_text(&run("check", server.url(), b"x")).0, 2);
    assert_eq!(exit_and_text(&run("check --on-error 1", server.url(), b"x")).0, 1);
    // A proxy answers in place of a server that is down.
    let server = StandIn::always(Answer::Raw(stand_in::reply(502, "text/html", b"<h1>Bad Gateway</h1>")));
    let output = run("check", server.url(), b"x");
    assert_eq!(exit_and_text(&output).0, 1, "the error may be temporary");
    assert!(exit_and_text(&output).2.contains("HTTP status 502: Bad Gateway"), "{output:?}");
}

#[test]
fn bad_arguments_are_told_before_anything_is_sent() {
    let server = StandIn::always(checked("spam", 95, "own_reports", 0));
    for words in [
        "check --server ftp://example.org",
        "check --timeout 0",
        "check --scheme md5",
        "check --jobs 0",
        "check --jobs 65",
        "check --bulk-threshold 0",
        "check --header --json",
        "check --header file",
        "check --sender a@example.org --no-sender",
        "whitelist add",
        "whitelist add --scheme pyzor",
        "whitelist add --scheme pyzor --value 00",
        "whitelist add --sender a@example.org --scheme pyzor --value 00",
    ] {
        let output = run(words, server.url(), b"x");
        let (code, printed, complaint) = exit_and_text(&output);
        assert_eq!((code, printed, complaint.lines().count()), (2, "", 1), "{words}: {complaint}");
    }
    assert!(server.requests().is_empty());
}

#[test]
fn many_messages_are_answered_in_their_order() {
    let folder = Folder::new();
    let count = 40;
    let mbox: String = (0..count).map(|at| format!("From a\nSubject: {at}\n\nmessage {at}\n\n")).collect();
    folder.write("mbox", mbox);
    // Answer out of order: the first request waits until four parallel requests have arrived.
    let server = StandIn::answering(move |request, at| {
        if at == 0 {
            request.wait_for(4);
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let value = body["signatures"][0]["value"].as_str().unwrap().to_owned();
        Answer::json(json!({
            "verdict": "unknown", "reason": value, "confidence": 0, "bulk_count": 0, "signatures": [],
        }))
    });
    let path = folder.path("mbox");
    let signed = common::printed(&["sign", "--scheme", "exact", "--json", path.to_str().unwrap()]);
    let expected: Vec<String> = signed
        .lines()
        .map(|line| {
            let object: Value = serde_json::from_str(line).unwrap();
            object["signatures"][0]["signature"].as_str().unwrap().to_owned()
        })
        .collect();
    let output = run(&format!("check --json --scheme exact {}", path.display()), server.url(), b"");
    let found: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reasons: Vec<&str> = found.iter().map(|object| object["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, expected);
    let numbers: Vec<u64> = found.iter().map(|object| object["message"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=count).collect::<Vec<u64>>());
}

#[test]
fn of_several_messages_one_that_is_spam_is_enough() {
    let folder = Folder::new();
    fs::create_dir(folder.path("box")).unwrap();
    ["1", "2", "3"].iter().for_each(|name| folder.write(&format!("box/{name}"), MESSAGE));
    let server = StandIn::answering(|_, at| match at {
        0 => Answer::Silence,
        1 => checked("spam", 88, "listed", 0),
        _ => checked("unknown", 0, "not_reported", 0),
    });
    let words = format!("check --jobs 1 --timeout 200ms {0}/none {0}", folder.path("box").display());
    let output = run(&words, server.url(), b"");
    let (code, printed, complaint) = exit_and_text(&output);
    assert_eq!(code, 0, "{complaint}");
    assert_eq!(printed.lines().count(), 2);
    assert!(
        printed
            .lines()
            .next()
            .unwrap()
            .ends_with("/2: spam, confidence 88: it was listed, but the details have expired")
    );
    assert!(
        complaint.contains("none: No such file") && complaint.contains("/1: ") && complaint.contains("200ms"),
        "{complaint}"
    );
    let server = StandIn::always(checked("unknown", 0, "not_reported", 0));
    assert_eq!(exit_and_text(&run(&words, server.url(), b"")).0, 2, "an unreadable file is an error");
    let server = StandIn::always(checked("bulk", 0, "many_recipients", 30));
    assert_eq!(exit_and_text(&run(&words, server.url(), b"")).0, 2, "even if another message is bulk");
    let words = format!("check {}", folder.path("box").display());
    assert_eq!(exit_and_text(&run(&words, server.url(), b"")).0, 3, "one bulk message is enough if none is spam");
}

#[test]
fn standard_input_is_one_message_whatever_is_in_it() {
    let server = StandIn::always(checked("spam", 88, "listed", 0));
    let input = b"From a\nSubject: x\n\ntext\n\nFrom b\nmore text\n";
    let output = run("check", server.url(), input);
    assert_eq!(text(&output.stdout).lines().count(), 1);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_message_is_bulk_from_the_threshold_on() {
    for (verdict, count, expected) in [
        ("unknown", 9, "unknown"),
        ("unknown", 10, "bulk"),
        ("bulk", 9, "unknown"),
        ("ham", 10, "ham"),
        ("spam", 10, "spam"),
    ] {
        let server = StandIn::always(checked(verdict, 0, "listed", count));
        let output = run("check --json --bulk-threshold 10", server.url(), MESSAGE.as_bytes());
        let object: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(object["verdict"], expected, "{verdict} {count}");
        let code = match expected {
            "spam" => 0,
            "bulk" => 3,
            _ => 1,
        };
        assert_eq!(output.status.code(), Some(code), "{verdict} {count}");
    }
}

#[test]
fn a_message_comes_back_marked_and_otherwise_unchanged() {
    let server = StandIn::always(checked("spam", 95, "own_reports", 0));
    let body: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let message = |forged: &str| [format!("From x Mon\r\n{forged}Subject: a\r\n b\r\n\r\n").as_bytes(), &body].concat();
    let output = run("check --header", server.url(), &message("x-bruit: ham\r\n\tmore\r\n"));
    let marked = message("X-Bruit: spam; confidence=95; reason=own_reports\r\n");
    assert!(output.stdout == marked, "{:?}", String::from_utf8_lossy(&output.stdout[..200]));
    assert_eq!((output.status.code(), output.stderr), (Some(0), vec![]));
}

#[test]
fn a_message_that_cannot_be_checked_comes_back_all_the_same() {
    let silent = StandIn::always(Answer::Silence);
    let garbled = StandIn::always(Answer::Raw(b"garbage\r\n\r\n".to_vec()));
    let refusing = StandIn::always(Answer::Raw(stand_in::reply(403, "text/plain", b"no")));
    for (url, reason) in [
        (silent.url(), "timed_out"),
        (&*StandIn::nobody(), "unreachable"),
        (garbled.url(), "malformed"),
        (refusing.url(), "refused"),
    ] {
        let output = run("check --header --timeout 200ms", url, MESSAGE.as_bytes());
        let (code, printed, complaint) = exit_and_text(&output);
        assert_eq!((code, complaint.lines().count()), (0, 1), "{complaint}");
        assert_eq!(printed, format!("X-Bruit: unchecked; reason={reason}\n{MESSAGE}"));
    }
}

#[test]
fn a_message_too_long_to_be_checked_comes_back_all_the_same() {
    let server = StandIn::always(checked("spam", 95, "own_reports", 0));
    let mut message = b"X-Bruit: ham\nSubject: a\n\n".to_vec();
    message.resize((64 << 20) + 100_000, b'x');
    let output = run("check --header", server.url(), &message);
    let start = b"X-Bruit: unchecked; reason=too_long\n";
    assert!(output.stdout.starts_with(start) && output.stdout[start.len()..] == message[b"X-Bruit: ham\n".len()..]);
    assert_eq!(output.status.code(), Some(0));
    assert!(server.requests().is_empty());
}

#[test]
fn a_message_that_cannot_be_written_back_is_a_failure() {
    let server = StandIn::always(checked("spam", 95, "own_reports", 0));
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("this test needs /dev/full");
    command.args(["check", "--header"]).env("BRUIT_SERVER", server.url()).stdin(Stdio::null()).stdout(full);
    assert_eq!(command.output().unwrap().status.code(), Some(1));
}

#[test]
fn claims_tell_what_was_taken() {
    let claimed = |accepted: u32, refused: u32| {
        Answer::json(json!({
            "accepted": accepted, "listed": 2, "revoked": 1, "ignored": 0, "refused": refused, "reason": "enough for today",
        }))
    };
    let server = StandIn::always(claimed(3, 0));
    let reported = run("report", server.url(), MESSAGE.as_bytes());
    assert_eq!(exit_and_text(&reported), (0, "reported: 3 signatures accepted, 2 listed; enough for today\n", ""));
    let revoked = run("revoke", server.url(), MESSAGE.as_bytes());
    assert_eq!(exit_and_text(&revoked), (0, "revoked: 3 signatures accepted, 1 delisted; enough for today\n", ""));
    let paths: Vec<String> = server.requests().iter().map(|request| request.path().to_owned()).collect();
    assert_eq!(paths, ["/v1/report", "/v1/revoke"]);
    let server = StandIn::always(claimed(2, 1));
    let output = run("report --json", server.url(), MESSAGE.as_bytes());
    assert_eq!(
        (exit_and_text(&output).0, exit_and_text(&output).2),
        (2, "bruit: 1 signature refused: enough for today\n")
    );
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["accepted"], 2);
}

#[test]
fn the_whitelist_is_changed_and_listed_page_by_page() {
    let server = StandIn::answering(|request, _| match request.path() {
        "/v1/whitelist?offset=0" => Answer::json(json!({
            "senders": ["a@example.org"], "sender_count": 2, "next_offset": 1, "signature_count": 7,
        })),
        "/v1/whitelist?offset=1" => Answer::json(json!({
            "senders": [".example.net"], "sender_count": 2, "signature_count": 7,
        })),
        _ => Answer::json(json!({ "changed": !request.head.starts_with("DELETE") })),
    });
    let list = run("whitelist list", server.url(), b"");
    assert_eq!(exit_and_text(&list), (0, "a@example.org\n.example.net\nsenders 2, signatures 7\n", ""));
    let add = run("whitelist add --sender .example.net", server.url(), b"");
    assert_eq!(exit_and_text(&add), (0, "whitelisted\n", ""));
    let digits = "00".repeat(20);
    let remove = run(&format!("whitelist remove --scheme pyzor --value {digits}"), server.url(), b"");
    assert_eq!(exit_and_text(&remove), (1, "not whitelisted\n", ""));
    let requests = server.requests();
    assert_eq!(text(&requests[2].body), r#"{"sender":".example.net"}"#);
    assert_eq!(text(&requests[3].body), format!(r#"{{"signature":{{"scheme":"pyzor","value":"{digits}"}}}}"#));
    assert!(requests[3].head.starts_with("DELETE /v1/whitelist HTTP/1.1"), "{}", requests[3].head);
}

#[test]
fn connections_are_used_again() {
    let folder = Folder::new();
    let mbox: String = (0..20).map(|at| format!("From a\n\nmessage {at}\n\n")).collect();
    folder.write("mbox", mbox);
    let server = StandIn::always(checked("unknown", 0, "not_reported", 0));
    run(&format!("check --jobs 2 {}", folder.path("mbox").display()), server.url(), b"");
    assert_eq!(server.requests().len(), 20);
    assert!(server.connections() <= 2, "{}", server.connections());
}
