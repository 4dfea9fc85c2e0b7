//! The milter signs the bytes that Postfix delivers, and serves many sessions at once.

mod common;

use std::path::{Path, PathBuf};
use std::{env, fs, thread};

use common::milter::Milter;
use common::postfix::Postfix;
use common::recorder::{Differences, Recorder, expect_plain_to_agree, messages, note};
use common::smtp::Smtp;
use common::testdata;

const STRANGER: &str = "192.0.2.77";

/// Number of SMTP sessions at the same time.
const SESSIONS: usize = 200;

/// Variable that names a folder of real mail.
const CORPUS: &str = "BRUIT_CORPUS";

/// Maximum number of messages from that folder.
const REAL_MESSAGES: usize = 1_000;

/// The differences between the milter's signatures and those computed from files.
#[derive(Default)]
struct Comparison {
    /// Differences from the original files, which have none of the fields that Postfix adds.
    from_file: Differences,
    /// Differences from the delivered messages, which have all of the fields that Postfix adds.
    from_delivered: Differences,
}

/// Sends messages through Postfix and the milter, and compares the signatures. `client` is the address of the SMTP
/// client; for a client on its own machine, Postfix adds missing fields before the milter sees the message.
fn compare(client: Option<&str>, messages: &[(String, Vec<u8>)]) -> Comparison {
    let recorder = Recorder::start();
    let mut milter = Milter::start(&recorder.url(), "");
    let more = "recipient_delimiter = +\nmessage_size_limit = 0\nvirtual_mailbox_limit = 0";
    let postfix = Postfix::start(&milter.address, &["alice"], more);
    let address = postfix.address();
    let mut smtp = client.map_or_else(|| Smtp::open(address), |client| Smtp::open_as(address, client, None));
    for (number, (name, bytes)) in messages.iter().enumerate() {
        // The recipient identifies the delivered message.
        let reply = smtp.send("sender@mail.example", &[&format!("alice+{number}@test.example")], bytes);
        assert_eq!(reply.code, 250, "{name}: {reply:?}");
    }
    postfix.wait_for("alice", messages.len());
    let subjects = recorder.subjects();
    assert_eq!(subjects.len(), messages.len(), "one request per message: {}", milter.log());
    let mut found = Comparison::default();
    for delivered in postfix.mailbox("alice") {
        let text = String::from_utf8_lossy(&delivered.bytes).into_owned();
        let number: usize =
            text.split("\nDelivered-To: alice+").nth(1).unwrap().split('@').next().unwrap().parse().unwrap();
        let (name, bytes) = &messages[number];
        note(&mut found.from_file, name, bytes, &subjects[number]);
        note(&mut found.from_delivered, name, &delivered.bytes, &subjects[number]);
    }
    assert_eq!(milter.stop(), Some(0));
    found
}

/// Asserts that the milter's signatures equal the signatures of the files and of the delivered messages.
fn expect_agreement(client: Option<&str>, messages: &[(String, Vec<u8>)]) {
    let found = compare(client, messages);
    let client = client.unwrap_or("this machine");
    expect_plain_to_agree(&format!("client {client}, file"), &found.from_file, messages);
    expect_plain_to_agree(&format!("client {client}, delivered message"), &found.from_delivered, messages);
    // Postfix adds fields on delivery. Only the signatures of Razor can cover the header.
    assert!(found.from_delivered.keys().all(|scheme| scheme.starts_with("razor_")), "{:?}", found.from_delivered);
}

#[test]
fn the_signatures_are_those_of_the_files_and_of_the_delivered_messages() {
    let messages = messages();
    assert!(messages.len() >= 300, "{}", messages.len());
    for client in [Some(STRANGER), None] {
        expect_agreement(client, &messages);
    }
}

/// Returns the messages of the folder that `BRUIT_CORPUS` names, at most [`REAL_MESSAGES`] of them, evenly spaced. An
/// mbox `From ` line above a message is not part of the message.
fn real_messages() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    collect_files(Path::new(&env::var_os(CORPUS).unwrap_or_default()), &mut files);
    files.sort();
    let step = (files.len() / REAL_MESSAGES).max(1);
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap();
        let line = if bytes.starts_with(b"From ") { bytes.iter().position(|byte| *byte == b'\n') } else { None };
        (path.display().to_string(), bytes[line.map_or(0, |end| end + 1)..].to_vec())
    };
    files.into_iter().step_by(step).take(REAL_MESSAGES).map(read).collect()
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        if entry.file_type().unwrap().is_dir() {
            collect_files(&entry.path(), files);
        } else {
            files.push(entry.path());
        }
    }
}

/// Runs only if `BRUIT_CORPUS` names a folder of real mail.
#[test]
fn the_signatures_of_real_messages_are_those_of_the_files() {
    if env::var_os(CORPUS).is_none() {
        return;
    }
    let messages = real_messages();
    for client in [Some(STRANGER), None] {
        expect_agreement(client, &messages);
    }
}

#[test]
fn many_sessions_at_once_all_deliver() {
    let recorder = Recorder::start();
    let milter = Milter::start(&recorder.url(), "");
    let postfix = Postfix::start(
        &milter.address,
        &["alice"],
        "default_process_limit = 250\nsmtpd_client_connection_count_limit = 0",
    );
    let message = fs::read(testdata("razor/text.eml")).unwrap();
    thread::scope(|scope| {
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|_| {
                scope.spawn(|| {
                    let mut smtp = Smtp::open_as(postfix.address(), STRANGER, None);
                    smtp.send("sender@mail.example", &["alice@test.example"], &message).code
                })
            })
            .collect();
        let codes: Vec<u16> = sessions.into_iter().map(|session| session.join().unwrap()).collect();
        assert_eq!(codes, vec![250; SESSIONS]);
    });
    postfix.wait_for("alice", SESSIONS);
    let is_checked = |mail: &common::postfix::Delivered| mail.field().starts_with("unknown; ");
    assert!(postfix.mailbox("alice").iter().all(is_checked), "{}\n{}", milter.log(), milter.metrics());
    assert_eq!(milter.count("refused_connections_total"), 0);
}
