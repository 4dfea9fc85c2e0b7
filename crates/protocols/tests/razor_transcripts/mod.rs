//! Transcripts of real clients, from `testdata/wire/razor`. The test passes the client's bytes to a conversation and
//! performs its actions as the transcript says. Actions and replies must match the transcript byte for byte.

use std::path::Path;
use std::sync::Arc;

use bruit_protocols::razor::{Action, Conversation, ErrorCode, Reply, ServerList, Signature, Terms};
use bruit_signatures::razor::Ep4;

macro_rules! transcripts {
    ($($name:ident: $file:literal,)*) => { $(
        #[test]
        fn $name() {
            replay($file);
        }
    )* };
}

transcripts! {
    t01_first_contact_and_registration: "t01-register.txt",
    t02_check_of_an_unknown_message: "t02-check-unknown.txt",
    t03_report_with_its_body: "t03-report.txt",
    t04_check_of_a_known_message: "t04-check-known.txt",
    t05_report_of_a_known_message: "t05-report-known.txt",
    t06_revocation: "t06-revoke.txt",
    t07_report_of_four_parts: "t07-report-multipart.txt",
    t08_registration_after_the_users_were_lost: "t08-lost-users.txt",
    t09_rotation_of_ep4: "t09-rotation.txt",
    t10_spamassassin: "t10-spamassassin.txt",
}

#[test]
fn every_transcript_is_replayed() {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let transcripts = files.filter(|name| name.to_string_lossy().ends_with(".txt")).count();
    assert_eq!(transcripts, 10, "a transcript has no test: add it to the list above");
}

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/wire/razor")
}

/// One entry of a transcript: a letter and its lines.
struct Entry {
    letter: char,
    bytes: Vec<u8>,
}

fn replay(file: &str) {
    let text = std::fs::read_to_string(folder().join(file)).unwrap();
    let (preamble, connections) = text.split_once("-- connection\n").unwrap();
    let announced = |key: &str| preamble.lines().find_map(|line| line.strip_prefix(key));
    let epochs = announced("ep4: ").unwrap_or("7542-10").split(' ').map(|ep4| ep4.parse().unwrap());
    let revision = announced("srl: ").unwrap_or("1").parse().unwrap();
    let terms = Arc::new(Terms::new(0, epochs.collect::<Vec<Ep4>>(), revision).unwrap());
    for connection in connections.split("-- connection\n") {
        replay_connection(&terms, &entries(connection));
    }
}

fn replay_connection(terms: &Arc<Terms>, entries: &[Entry]) {
    let servers = ServerList::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let mut conversation = Conversation::new(Arc::clone(terms), servers);
    let (greeting, entries) = entries.split_first().unwrap();
    assert_eq!(greeting.bytes.escape_ascii().to_string(), terms.greeting().escape_ascii().to_string());
    for Entry { letter, bytes } in entries {
        let text = std::str::from_utf8(bytes).unwrap().trim_end();
        match letter {
            'C' => {
                assert_eq!(conversation.next_action(), None, "an unexpected action before {text}");
                conversation.receive(bytes);
            }
            'A' => {
                let action =
                    conversation.next_action().unwrap_or_else(|| panic!("expected the action {text}, found none"));
                assert_eq!(written(&action), text);
                if action == Action::Pause {
                    conversation.resume();
                }
            }
            'D' => conversation.answer(decisions(text)),
            'S' => {
                let Some(Action::Reply(reply)) = conversation.next_action() else {
                    panic!("expected the reply {text}")
                };
                assert_eq!(reply.escape_ascii().to_string(), bytes.escape_ascii().to_string());
            }
            other => panic!("unknown entry {other:?} in a transcript"),
        }
    }
    assert_eq!(conversation.next_action(), None);
}

/// Returns the entries of one connection.
fn entries(text: &str) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (letter, rest) = line.split_at_checked(3).unwrap();
        if letter != "   " {
            entries.push(Entry { letter: letter.chars().next().unwrap(), bytes: Vec::new() });
        }
        entries.last_mut().unwrap().bytes.extend(line_bytes(rest));
    }
    entries
}

/// Returns the bytes that a line represents.
fn line_bytes(line: &str) -> Vec<u8> {
    match line.strip_suffix("[LF]") {
        Some(bare) => format!("{bare}\n").into_bytes(),
        None => format!("{}\r\n", line.strip_suffix("[CR LF]").unwrap_or(line)).into_bytes(),
    }
}

/// Formats an action as in the transcripts.
fn written(action: &Action) -> String {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let optional = |bytes: &Option<Vec<u8>>| bytes.as_deref().map_or_else(|| "-".to_owned(), text);
    let joined = |signatures: &[Signature], by: &str| signatures.iter().map(spelt).collect::<Vec<_>>().join(by);
    match action {
        Action::Reply(bytes) => format!("reply {}", text(bytes)),
        Action::Check(signatures) => format!("check {}", joined(signatures, " ")),
        Action::Revoke(signatures) => format!("revoke {}", joined(signatures, " ")),
        Action::Report(signatures) => {
            format!("report {}", signatures.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        }
        Action::ReportBodies(parts) => {
            format!(
                "bodies {}",
                parts.parts.iter().map(|part| joined(&part.signatures, ",")).collect::<Vec<_>>().join(" ")
            )
        }
        Action::Register { user, password } => format!("register {} {}", optional(user), optional(password)),
        Action::Challenge { user } => format!("challenge {}", text(user)),
        Action::Verify { user, challenge, response } => {
            format!("verify {} {} {}", text(user), text(challenge), text(response))
        }
        Action::Pause => "pause".to_owned(),
        Action::Close => "close".to_owned(),
    }
}

fn spelt(signature: &Signature) -> String {
    match signature {
        Signature::E4(e4) => e4.to_string(),
        Signature::E8(e8) => e8.to_string(),
    }
}

/// Parses decisions as written in the transcripts.
fn decisions(text: &str) -> Vec<Reply> {
    let bytes = |word: &str| word.as_bytes().to_vec();
    match text.split(' ').collect::<Vec<_>>()[..] {
        ["registered", user, password] => vec![Reply::Registered { user: bytes(user), password: bytes(password) }],
        ["challenge", challenge] => vec![Reply::Challenge(bytes(challenge))],
        ref words => words.iter().map(|word| decision(word)).collect(),
    }
}

fn decision(word: &str) -> Reply {
    match word {
        "not-spam" => Reply::NotSpam,
        "spam-100" => Reply::Spam { confidence: 100, contested: false },
        "done" => Reply::Done,
        "body-wanted" => Reply::Error(ErrorCode::BODY_WANTED),
        "unknown-user" => Reply::Error(ErrorCode::UNKNOWN_USER),
        other => panic!("unknown decision {other:?}"),
    }
}
