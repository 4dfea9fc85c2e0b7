//! Moving mail in Dovecot reports or revokes it, even while the server is stopped.

mod common;

use std::time::{Duration, Instant};

use common::dovecot::{Dovecot, TOKEN};
use common::{Server, output_of};
use serde_json::Value;

/// Maximum time of a move while the server is stopped.
const MOVE_MAX: Duration = Duration::from_secs(5);

fn message(number: u32) -> Vec<u8> {
    let line = |at| format!("Genuine watches of series {number} at wholesale prices, offer {at}, sent to your door.\n");
    let body: String = (0..12).map(line).collect();
    format!("From: sales@example.org\nSubject: watches {number}\n\n{body}").into_bytes()
}

fn run(words: &[&str], server: &str, input: &[u8]) -> String {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bruit"));
    command.args(words).env("BRUIT_SERVER", server).env("BRUIT_TOKEN", TOKEN).env_remove("BRUIT_SPOOL");
    String::from_utf8(output_of(&mut command, input).stdout).unwrap()
}

/// Returns how often the message was reported and revoked.
fn counts(server: &Server, input: &[u8]) -> (u64, u64) {
    let checked: Value = serde_json::from_str(&run(&["check", "--json"], &server.url(), input)).unwrap();
    // The texts of the messages are similar; only this signature distinguishes them.
    let exact =
        checked["signatures"].as_array().unwrap().iter().find(|signature| signature["scheme"] == "exact").unwrap();
    let count = |name: &str| exact[name].as_u64().unwrap();
    (count("report_count"), count("revoke_count"))
}

#[test]
fn a_move_to_junk_reports_and_a_move_out_of_it_revokes() {
    let folder = common::Folder::new();
    let tokens = format!(
        "[http]\nlisten = \"127.0.0.1:0\"\n[[http.tokens]]\nname = \"dovecot\"\ntoken = \"{TOKEN}\"\nstanding = \"own\"\n\
         reporters = true\n"
    );
    let mut server = Server::start(&folder, &tokens);
    let dovecot = Dovecot::start(&server.url());
    let mut imap = dovecot.connect();
    let (first, second) = (message(1), message(2));
    imap.append("INBOX", &first);
    assert_eq!(counts(&server, &first), (0, 0));
    imap.move_last("INBOX", "Junk");
    assert_eq!(counts(&server, &first), (1, 0), "{}", dovecot.said());
    imap.move_last("Junk", "INBOX");
    assert_eq!(counts(&server, &first), (1, 1), "{}", dovecot.said());
    imap.move_last("INBOX", "Junk");
    imap.move_last("Junk", "Trash");
    assert_eq!(counts(&server, &first), (2, 1), "a move to Trash is no revocation");

    server.terminate();
    imap.append("INBOX", &second);
    let begun = Instant::now();
    imap.move_last("INBOX", "Junk");
    assert!(begun.elapsed() < MOVE_MAX, "{:?}", begun.elapsed());
    let spool = dovecot.spool();
    let waiting: Value =
        serde_json::from_str(&run(&["spool", "--json", spool.to_str().unwrap()], "http://-", b"")).unwrap();
    assert_eq!((&waiting["reporter"], &waiting["claim"]), (&Value::from("alice"), &Value::from("report")));

    let server = server.restart();
    dovecot.set_server(&server.url());
    // The next move also sends the waiting reports.
    imap.append("INBOX", &message(3));
    imap.move_last("INBOX", "Junk");
    assert_eq!((counts(&server, &second), counts(&server, &message(3))), ((1, 0), (1, 0)), "{}", dovecot.said());
    assert_eq!(run(&["spool", spool.to_str().unwrap()], &server.url(), b""), "");
}
