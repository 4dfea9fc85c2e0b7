//! Reports that users forwarded, and reports that also go to rspamd.

use std::path::Path;
use std::process::Output;

use super::common::Folder;
use super::stand_in::{Answer, Request, StandIn, reply};
use super::{MESSAGE, exit_and_text, run, text};
use serde_json::{Value, json};

fn claimed() -> Answer {
    Answer::json(json!({ "accepted": 3, "listed": 2, "revoked": 1, "ignored": 0, "refused": 0 }))
}

/// Returns a message to which these messages are attached.
fn forwarded(messages: &[&str]) -> String {
    let part = |message: &&str| format!("--b\nContent-Type: message/rfc822\n\n{message}\n");
    let parts: String = messages.iter().map(part).collect();
    format!("From: ann@example.org\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nSpam again.\n{parts}--b--\n")
}

fn bodies(server: &StandIn) -> Vec<Value> {
    server.requests().iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
}

#[test]
fn attached_messages_are_claimed_like_the_originals() {
    let server = StandIn::always(claimed());
    let other = MESSAGE.replace("watches", "purses");
    let report = forwarded(&[MESSAGE, &other]);
    let output = run("report --attached --reporter ann --jobs 1", server.url(), report.as_bytes());
    let line = |number| format!("attached message {number}: reported: 3 signatures accepted, 2 listed\n");
    assert_eq!(exit_and_text(&output), (0, &*[line(1), line(2)].concat(), "bruit: reported 2 messages\n"));
    for message in [MESSAGE, &other] {
        run("report", server.url(), message.as_bytes());
    }
    let bodies = bodies(&server);
    assert_eq!((&bodies[0], &bodies[1]), (&bodies[2], &bodies[3]));
    assert!(
        server.requests()[0].head.to_lowercase().contains("bruit-reporter: ann\r\n"),
        "{}",
        server.requests()[0].head
    );

    let folder = Folder::new();
    folder.write("report.eml", forwarded(&[MESSAGE]));
    let words = format!("revoke --attached --json {}", folder.path("report.eml").display());
    let output = run(&words, server.url(), b"");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &answer["attachment"], &answer["accepted"]), (Some(0), &json!(1), &json!(3)));
}

#[test]
fn a_report_without_attached_messages_is_an_error() {
    let server = StandIn::always(claimed());
    for input in [MESSAGE.to_owned(), forwarded(&[])] {
        let output = run("report --attached", server.url(), input.as_bytes());
        let (code, printed, complaint) = exit_and_text(&output);
        assert_eq!((code, printed), (2, ""));
        assert!(complaint.starts_with("bruit: no message is attached: expected"), "{complaint}");
    }
    assert!(server.requests().is_empty());
    let many = forwarded(&[MESSAGE; 101]);
    let output = run("report --attached", server.url(), many.as_bytes());
    assert!(
        exit_and_text(&output).0 == 2 && exit_and_text(&output).2.contains("some attachments were ignored"),
        "{output:?}"
    );
    assert_eq!(server.requests().len(), 100);
}

fn rspamd(answer: &'static str, status: u16) -> StandIn {
    StandIn::always(Answer::Raw(reply(status, "application/json", answer.as_bytes())))
}

fn learning() -> StandIn {
    rspamd(r#"{"success":true}"#, 200)
}

fn field(request: &Request, name: &str) -> Option<String> {
    let head = request.head.to_lowercase();
    head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")).map(str::to_owned))
}

fn paths(server: &StandIn) -> Vec<String> {
    server.requests().iter().map(|request| request.path().to_owned()).collect()
}

#[test]
fn rspamd_learns_what_is_reported_and_forgets_what_is_revoked() {
    let (server, rspamd) = (StandIn::always(claimed()), learning());
    let folder = Folder::new();
    folder.write("password", "q1 secret\n");
    let password = folder.path("password");
    let options = format!("--rspamd {}/ --rspamd-password-file {}", rspamd.url(), password.display());
    let output = run(&format!("report {options} --rspamd-flag 11 --rspamd-weight 7"), server.url(), MESSAGE.as_bytes());
    assert_eq!(exit_and_text(&output), (0, "reported: 3 signatures accepted, 2 listed\nlearned by rspamd\n", ""));
    let output = run(&format!("revoke --json --rspamd-bayes {options}"), server.url(), MESSAGE.as_bytes());
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["accepted"], &answer["rspamd"]), (&json!(3), &json!({ "learned": true })));
    assert_eq!(paths(&rspamd), ["/fuzzyadd", "/learnham", "/fuzzydel"]);
    let requests = rspamd.requests();
    let fields = |at: usize| ["flag", "weight", "password"].map(|name| field(&requests[at], name));
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(fields(0), [some("11"), some("7"), some("q1 secret")]);
    assert_eq!(fields(1), [None, None, some("q1 secret")]);
    assert_eq!(fields(2), [some("1"), some("10"), some("q1 secret")]);
    assert!(requests.iter().all(|request| request.body == MESSAGE.as_bytes()));
}

#[test]
fn a_failure_of_rspamd_is_told_and_loses_no_claim() {
    let server = StandIn::always(claimed());
    let report = |rspamd: &str, words: &str| {
        run(&format!("report --timeout 5s --rspamd {rspamd} {words}"), server.url(), MESSAGE.as_bytes())
    };
    let reported = "reported: 3 signatures accepted, 2 listed\n";
    let refusing = rspamd(r#"{"error":"Unauthorized"}"#, 403);
    let expected = format!("bruit: rspamd at {} refused: Unauthorized (HTTP status 403)\n", refusing.url());
    assert_eq!(exit_and_text(&report(refusing.url(), "")), (3, reported, &*expected));
    let nobody = StandIn::nobody();
    let output = report(&nobody, "");
    let (code, printed, complaint) = exit_and_text(&output);
    assert_eq!((code, printed), (3, reported));
    assert!(complaint.starts_with(&format!("bruit: rspamd at {nobody} cannot be reached: ")), "{complaint}");
    for (answer, status) in [("<html>", 200), ("{}", 200), (r#"{"success":false,"error":"no"}"#, 200), ("", 404)] {
        assert_eq!(exit_and_text(&report(rspamd(answer, status).url(), "")).0, 3, "{answer}");
    }
    // Status of rspamd 3.4, and of later versions.
    for status in [404, 208] {
        let known = rspamd(r#"{"error":"<1@spam.example> has been already learned as spam, ignore it"}"#, status);
        assert_eq!(exit_and_text(&report(known.url(), "")).0, 0, "the classifier knows the message");
    }
    assert_eq!(server.requests().len(), 8);
    // If the claim fails, rspamd still learns the message, and the exit code is that of the failed claim.
    let learning = learning();
    let output = run(&format!("report --rspamd {}", learning.url()), &nobody, MESSAGE.as_bytes());
    assert_eq!((exit_and_text(&output).0, exit_and_text(&output).1), (2, "learned by rspamd\n"));
    for url in ["ftp://example.org", "127.0.0.1:11334"] {
        assert!(exit_and_text(&report(url, "")).2.contains("invalid rspamd URL"), "{url}");
    }
}

/// Returns the number of files in the spool that have this extension.
fn files(spool: &Path, extension: &str) -> usize {
    let entries = std::fs::read_dir(spool).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|found| found == extension)).count()
}

#[test]
fn a_spool_keeps_what_rspamd_did_not_take() {
    let server = StandIn::always(claimed());
    let folder = Folder::new();
    let spool = folder.path("spool");
    let at = |words: &str, rspamd: &str, input: &str| -> Output {
        run(&format!("{words} --timeout 5s --rspamd {rspamd}"), server.url(), input.as_bytes())
    };
    let report = format!("report --rspamd-flag 11 --rspamd-bayes --spool {}", spool.display());
    let nobody = StandIn::nobody();
    let output = at(&report, &nobody, MESSAGE);
    assert_eq!((exit_and_text(&output).0, exit_and_text(&output).2), (0, ""));
    assert!(
        exit_and_text(&output).1.contains(&format!("\nspooled for rspamd: rspamd at {nobody} cannot be reached")),
        "{output:?}"
    );
    assert_eq!((server.requests().len(), files(&spool, "report"), files(&spool, "rspamd")), (1, 0, 1));
    let listed = run(&format!("spool --json {}", spool.display()), &nobody, b"");
    let entry: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!((&entry["to"], &entry["state"]), (&json!("rspamd"), &json!("waiting")));
    assert!(!text(&listed.stdout).contains("watches"));

    // The message waits if rspamd's address is not given, and while rspamd refuses the password.
    let send = format!("spool send {}", spool.display());
    let output = run(&send, server.url(), b"");
    let expected = (1, "0 reports sent, 1 waiting\n", "bruit: 1 message waits for rspamd: pass --rspamd URL\n");
    assert_eq!(exit_and_text(&output), expected);
    let refusing = rspamd(r#"{"error":"Unauthorized"}"#, 403);
    assert_eq!(exit_and_text(&at(&send, refusing.url(), "")).0, 1);
    let learning = learning();
    let output = at(&send, learning.url(), "");
    assert_eq!(exit_and_text(&output), (0, "0 reports sent, 1 message learned by rspamd, 0 waiting\n", ""));
    assert_eq!(paths(&learning), ["/learnspam", "/fuzzyadd"]);
    let requests = learning.requests();
    assert_eq!((field(&requests[1], "flag").as_deref(), &*requests[1].body), (Some("11"), MESSAGE.as_bytes()));

    // A report of one message also sends the waiting ones.
    at(&report, &nobody, MESSAGE);
    let output = at(&report, learning.url(), &MESSAGE.replace("watches", "purses"));
    assert_eq!(exit_and_text(&output).2, "bruit: 0 reports sent, 1 message learned by rspamd from the spool\n");
    // rspamd never accepts some messages.
    at(&report, &nobody, MESSAGE);
    let output = at(&send, rspamd(r#"{"error":"no hashes"}"#, 404).url(), "");
    assert!(exit_and_text(&output).0 == 2 && exit_and_text(&output).2.contains("set aside: "), "{output:?}");
    assert_eq!((files(&spool, "rspamd"), files(&spool, "refused")), (0, 1));
}
