//! Reports are never lost and count only once, even if programs are stopped or killed, or answers are lost.

mod common;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use bruit_client::Lesson;
use bruit_client::spool::{ClaimKind, Spool, SpooledReport};
use common::dashboard::api;
use common::lossy::Lossy;
use common::{Folder, Server, output_of};
use serde_json::Value;

const TOKENS: &str = "[http]\nlisten = \"127.0.0.1:0\"\n[[http.tokens]]\nname = \"mail\"\ntoken = \"the-token-of-the-mail-site\"\n\
    standing = \"own\"\nreporters = true\n";

/// An address at which nothing listens: the port is privileged and unassigned.
const NOWHERE: &str = "http://127.0.0.1:1";

/// The user `nobody`.
const NOBODY: u32 = 65534;

fn message(number: u32) -> Vec<u8> {
    let line = |at| format!("Genuine watches of series {number} at wholesale prices, offer {at}, sent to your door.\n");
    let body: String = (0..12).map(line).collect();
    format!("From: sales@example.org\nSubject: watches {number}\n\n{body}").into_bytes()
}

fn command(words: &[&str], server: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    command.args(words).env("BRUIT_SERVER", server).env("BRUIT_TOKEN", "the-token-of-the-mail-site");
    command.env_remove("BRUIT_SPOOL");
    command
}

fn run(words: &[&str], server: &str, input: &[u8]) -> Output {
    output_of(&mut command(words, server), input)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Reports or revokes with a spool, and asserts success.
fn claim(verb: &str, spool: &Path, server: &str, input: &[u8]) -> String {
    let words = [verb, "--reporter", "ann@example.org", "--timeout", "10s", "--spool", spool.to_str().unwrap()];
    let output = run(&words, server, input);
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout).to_owned()
}

/// Sends the spool. Returns the exit code and the output.
fn send(spool: &Path, server: &str) -> (i32, String) {
    let output = run(&["spool", "send", spool.to_str().unwrap()], server, b"");
    (output.status.code().unwrap(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
}

/// Returns the entries of the spool and the exit code.
fn list(spool: &Path) -> (i32, Vec<Value>) {
    let output = run(&["spool", "--json", spool.to_str().unwrap()], NOWHERE, b"");
    let entries = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap());
    (output.status.code().unwrap(), entries.collect())
}

/// Returns the files of the waiting reports.
fn reports(spool: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(spool).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|kind| kind == "report")).collect();
    files.sort();
    files
}

/// Returns how often the message was reported and revoked.
fn counts(server: &str, input: &[u8]) -> (u64, u64) {
    let output = run(&["check", "--json"], server, input);
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    // The texts of the messages are similar; only this signature distinguishes them.
    let exact =
        checked["signatures"].as_array().unwrap().iter().find(|signature| signature["scheme"] == "exact").unwrap();
    let count = |name: &str| exact[name].as_u64().unwrap();
    (count("report_count"), count("revoke_count"))
}

#[test]
fn reports_made_while_the_server_is_stopped_arrive_once() {
    let folder = Folder::new();
    let spool = folder.path("spool");
    let mut server = Server::start(&folder, TOKENS);
    let gone = server.url();
    server.terminate();
    thread::scope(|scope| {
        for number in 0..8 {
            let (gone, spool) = (&gone, &spool);
            scope.spawn(move || assert!(claim("report", spool, gone, &message(number)).starts_with("spooled: ")));
        }
    });
    let (code, entries) = list(&spool);
    assert_eq!((code, entries.len()), (1, 8));
    for entry in &entries {
        assert_eq!((&entry["state"], &entry["claim"]), (&Value::from("waiting"), &Value::from("report")));
        assert_eq!((&entry["reporter"], &entry["attempts"]), (&Value::from("ann@example.org"), &Value::from(1)));
    }
    let (code, said) = send(&spool, &gone);
    assert!(code == 1 && said.contains("0 reports sent, 8 waiting") && said.contains("cannot be reached"), "{said}");
    let server = server.restart();
    // Several senders at once, and a new report that also sends the waiting ones.
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_ne!(send(&spool, &server.url()).0, 2));
        }
        scope.spawn(|| claim("report", &spool, &server.url(), &message(0)));
    });
    assert_eq!(send(&spool, &server.url()), (0, "0 reports sent, 0 waiting\n".to_owned()));
    assert_eq!(list(&spool), (0, vec![]));
    let reports: Vec<_> = (0..8).map(|number| counts(&server.url(), &message(number)).0).collect();
    assert_eq!(reports, [2, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn a_report_whose_answer_was_lost_counts_once_even_if_the_server_is_killed() {
    let folder = Folder::new();
    let spool = folder.path("spool");
    let mut server = Server::start(&folder, TOKENS);
    let lossy = Lossy::start(server.address("http"), false);
    claim("report", &spool, &server.url(), &message(2));
    // A revocation of the same message would wait for its report.
    for (verb, number) in [("report", 1), ("revoke", 2)] {
        assert!(claim(verb, &spool, &lossy.url, &message(number)).starts_with("spooled: "));
        lossy.lost.recv().unwrap();
    }
    let found = |server: &Server| [1, 2].map(|number| counts(&server.url(), &message(number)));
    assert_eq!(found(&server), [(1, 0), (1, 1)], "the claims arrived");
    server.kill();
    let server = server.restart();
    let (code, said) = send(&spool, &server.url());
    assert_eq!((code, said.as_str()), (0, "2 reports sent, 0 waiting\n"));
    assert_eq!(found(&server), [(1, 0), (1, 1)]);
}

#[test]
fn a_sender_that_is_killed_before_it_has_the_answer_loses_nothing() {
    let folder = Folder::new();
    let spool = folder.path("spool");
    let mut server = Server::start(&folder, TOKENS);
    let lossy = Lossy::start(server.address("http"), true);
    let words = ["report", "--timeout", "60s", "--spool", spool.to_str().unwrap()];
    let mut sender: Child =
        command(&words, &lossy.url).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    sender.stdin.take().unwrap().write_all(&message(1)).unwrap();
    lossy.lost.recv().unwrap();
    assert_eq!(send(&spool, &server.url()), (1, "0 reports sent, 1 waiting\n".to_owned()), "another process sends it");
    sender.kill().unwrap();
    sender.wait().unwrap();
    server.kill();
    let server = server.restart();
    assert_eq!(send(&spool, &server.url()), (0, "1 report sent, 0 waiting\n".to_owned()));
    assert_eq!(counts(&server.url(), &message(1)).0, 1);
}

#[test]
fn damaged_reports_are_named_and_never_sent() {
    let folder = Folder::new();
    let spool = folder.path("spool");
    for number in [1, 2] {
        claim("report", &spool, NOWHERE, &message(number));
    }
    let [damaged, other] = &reports(&spool)[..] else { panic!("two reports") };
    fs::write(damaged, "bruit-spool 1 0123456789abcdef\n{}").unwrap();
    let server = Server::start(&folder, TOKENS);
    let (code, said) = send(&spool, &server.url());
    let name = damaged.with_extension("damaged");
    assert!(code == 2 && said.contains("1 report sent, 0 waiting"), "{said}");
    assert!(said.contains(&format!("set aside: {} is damaged", name.display())), "{said}");
    assert!(name.exists() && !other.exists());
    let (code, entries) = list(&spool);
    assert_eq!((code, entries.len(), &entries[0]["state"]), (2, 1, &Value::from("damaged")));
    assert_eq!(counts(&server.url(), &message(1)).0 + counts(&server.url(), &message(2)).0, 1);
}

/// Regression test: a file that belonged to another user prevented all later reports from being sent.
#[test]
fn a_file_that_cannot_be_read_does_not_block_the_others() {
    let folder = Folder::new();
    let spool = folder.path("spool");
    for number in [1, 2] {
        claim("report", &spool, NOWHERE, &message(number));
    }
    let first = reports(&spool).remove(0);
    let server = Server::start(&folder, TOKENS);
    // Root can read everything, so the user `nobody` owns the spool, except for one file.
    fs::set_permissions(folder.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&first, fs::Permissions::from_mode(0o000)).unwrap();
    let is_root = nix::unistd::geteuid().is_root();
    let program = folder.path("bruit");
    fs::copy(env!("CARGO_BIN_EXE_bruit"), &program).unwrap();
    if is_root {
        let others = fs::read_dir(&spool).unwrap().map(|entry| entry.unwrap().path()).filter(|path| *path != first);
        others.chain([spool.clone()]).for_each(|path| chown(path, Some(NOBODY), Some(NOBODY)).unwrap());
    }
    let run = |words: &[&str]| {
        let mut command = Command::new(&program);
        command.args(words).arg(&spool).env("BRUIT_SERVER", server.url());
        command.env("BRUIT_TOKEN", "the-token-of-the-mail-site");
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = output_of(&mut command, b"");
        (output.status.code().unwrap(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
    };
    let (code, said) = run(&["spool", "send"]);
    assert!(code == 2 && said.contains("1 report sent, 0 waiting"), "{code}: {said}");
    assert!(said.contains(&format!("left in the spool: {}: Permission denied", first.display())), "{said}");
    let (code, said) = run(&["spool", "--json"]);
    let entry: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &entry["state"]), (2, &Value::from("unreadable")));
    let (code, said) = run(&["spool"]);
    assert!(code == 2 && said.contains("unreadable: Permission denied"), "{said}");
    // The report is sent once it can be read.
    fs::set_permissions(&first, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(send(&spool, &server.url()), (0, "1 report sent, 0 waiting\n".to_owned()));
    for number in [1, 2] {
        assert_eq!(counts(&server.url(), &message(number)).0, 1);
    }
}

/// Regression test: after a run, the list of mail sites showed how many reports had waited before it. A spool in which
/// only messages for rspamd waited was never listed.
#[test]
fn the_list_of_mail_sites_shows_how_many_reports_wait_after_sending() {
    let folder = Folder::new();
    let spool = folder.path("spool");
    claim("report", &spool, NOWHERE, &message(1));
    let server = Server::start(&folder, TOKENS);
    let spooled = || {
        let list = api(&server, "/v1/sites");
        let [site] = &list["sites"].as_array().unwrap()[..] else { panic!("one program: {list}") };
        assert_eq!((&site["program"], &site["name"]), (&Value::from("spool"), &Value::from("mail")));
        site["spooled"].as_u64()
    };
    assert_eq!(send(&spool, &server.url()), (0, "1 report sent, 0 waiting\n".to_owned()));
    assert_eq!(spooled(), Some(0));
    let lesson = Lesson { message: message(2), flag: 1, weight: 1, trains_bayes: false };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let stored = Spool::open(&spool).unwrap().store(SpooledReport::for_rspamd(ClaimKind::Report, lesson, now).unwrap());
    drop(stored.unwrap());
    let (code, said) = send(&spool, &server.url());
    assert!(code == 1 && said.contains("0 reports sent, 1 waiting"), "{said}");
    assert_eq!(spooled(), Some(1));
}

#[test]
fn a_mistyped_folder_does_not_become_a_spool() {
    let folder = Folder::new();
    let missing = folder.path("missing");
    for words in [&["spool"][..], &["spool", "send"]] {
        let output = run(&[words, &[missing.to_str().unwrap()]].concat(), NOWHERE, b"");
        assert!(output.status.code() == Some(2) && text(&output.stderr).contains("no such folder"), "{output:?}");
    }
    assert!(!missing.exists());
}
