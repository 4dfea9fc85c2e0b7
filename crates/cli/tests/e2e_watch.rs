//! `bruit watch` with real Maildirs: a Dovecot without Sieve moves mail, and the server gets the claims.

mod common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bruit_client::spool::{ClaimKind, Spool, SpooledReport};
use bruit_client::{Lesson, Purpose, Signer};
use common::dashboard::api;
use common::dovecot::{Dovecot, TOKEN};
use common::{Folder, Server, output_of};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// Maximum time for a claim to arrive, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const TOKENS: &str = "[http]\nlisten = \"127.0.0.1:0\"\n[[http.tokens]]\nname = \"mail\"\ntoken = \"the-token-of-the-mail-site\"\n\
    standing = \"own\"\nreporters = true\n";

/// A time shorter than the interval of 60 seconds at which the spool is sent.
const BEFORE_THE_NEXT_SEND: Duration = Duration::from_secs(40);

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

fn message(number: u32) -> Vec<u8> {
    let line = |at| format!("Genuine watches of series {number} at wholesale prices, offer {at}, sent to your door.\n");
    let body: String = (0..12).map(line).collect();
    format!("From: sales@example.org\nSubject: watches {number}\n\n{body}").into_bytes()
}

fn bruit(server: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    command.env("BRUIT_SERVER", server).env("BRUIT_TOKEN", TOKEN).env_remove("BRUIT_SPOOL");
    command
}

/// Returns how often the message was reported and revoked.
fn counts(server: &Server, input: &[u8]) -> (u64, u64) {
    let output = output_of(bruit(&server.url()).args(["check", "--json"]), input);
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    // The texts of the messages are similar; only this signature distinguishes them.
    let exact =
        checked["signatures"].as_array().unwrap().iter().find(|signature| signature["scheme"] == "exact").unwrap();
    let count = |name: &str| exact[name].as_u64().unwrap();
    (count("report_count"), count("revoke_count"))
}

/// A running `bruit watch`, killed on drop.
struct Watch {
    process: Child,
    log: PathBuf,
}

impl Watch {
    /// Watches a Maildir, with alice as the reporter.
    fn start(folder: &Folder, server: &str, maildir: &Path) -> Self {
        let log = folder.path("watch.log");
        let mut command = bruit(server);
        command.args(["watch", "--spool"]).arg(folder.path("spool")).arg("--state").arg(folder.path("state"));
        command.arg(format!("alice={}", maildir.display()));
        let stderr = File::options().create(true).append(true).open(&log).unwrap();
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
        let watch = Self { process, log };
        let is_state = |path: &Path| path.extension().is_some_and(|extension| extension == "json");
        watch.wait_for(|| {
            fs::read_dir(folder.path("state")).is_ok_and(|mut files| files.any(|file| is_state(&file.unwrap().path())))
        });
        watch
    }

    #[track_caller]
    fn wait_for(&self, is_done: impl Fn() -> bool) {
        self.wait_for_within(PATIENCE, is_done);
    }

    #[track_caller]
    fn wait_for_within(&self, patience: Duration, is_done: impl Fn() -> bool) {
        let deadline = Instant::now() + patience;
        while !is_done() {
            assert!(Instant::now() < deadline, "{}", self.said());
            thread::sleep(Duration::from_millis(50));
        }
    }

    #[track_caller]
    fn wait_for_counts(&self, server: &Server, input: &[u8], expected: (u64, u64)) {
        let deadline = Instant::now() + PATIENCE;
        while counts(server, input) != expected {
            assert!(Instant::now() < deadline, "{:?}: {}", counts(server, input), self.said());
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn stop(mut self) -> ExitStatus {
        kill(Pid::from_raw(i32::try_from(self.process.id()).unwrap()), Signal::SIGTERM).unwrap();
        self.process.wait().unwrap()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // Ignore errors: both calls fail for a process that has already exited.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn moves_in_a_dovecot_without_sieve_are_reported_and_revoked() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, TOKENS);
    let dovecot = Dovecot::start_without_sieve();
    let mut imap = dovecot.connect();
    let [first, second, third] = [1, 2, 3].map(message);
    imap.append("INBOX", &first);
    let watch = Watch::start(&folder, &server.url(), &dovecot.maildir());
    // Dovecot creates the folder only now.
    imap.move_last("INBOX", "Junk");
    watch.wait_for_counts(&server, &first, (1, 0));
    imap.move_last("Junk", "INBOX");
    watch.wait_for_counts(&server, &first, (1, 1));

    // Move messages while the program and the server are stopped.
    assert!(watch.stop().success());
    server.terminate();
    imap.move_last("INBOX", "Junk");
    imap.append("INBOX", &second);
    imap.move_last("INBOX", "Junk");
    let watch = Watch::start(&folder, &server.url(), &dovecot.maildir());
    watch.wait_for(|| watch.said().contains("claims wait for the server"));
    assert!(watch.stop().success());
    let server = server.restart();
    let watch = Watch::start(&folder, &server.url(), &dovecot.maildir());
    watch.wait_for_counts(&server, &second, (1, 0));
    watch.wait_for_counts(&server, &first, (2, 1));

    // Neither a move to Trash nor a deletion is a revocation.
    imap.move_last("Junk", "Trash");
    imap.delete_last("Junk");
    imap.append("Junk", &third);
    watch.wait_for_counts(&server, &third, (1, 0));
    watch.wait_for(|| watch.said().matches("deleted").count() == 2);
    assert_eq!((counts(&server, &first), counts(&server, &second)), ((2, 1), (1, 0)), "{}", watch.said());
    assert!(watch.stop().success());
}

/// Regression test: a Junk folder that existed for a moment without its subfolders was never watched.
#[test]
fn a_junk_folder_that_is_created_slowly_is_watched() {
    let folder = Folder::new();
    let server = Server::start(&folder, TOKENS);
    let (inbox, junk) = (folder.path("Maildir/cur"), folder.path("Maildir/.Junk"));
    fs::create_dir_all(&inbox).unwrap();
    let watch = Watch::start(&folder, &server.url(), &folder.path("Maildir"));
    fs::create_dir(&junk).unwrap();
    // Give the program time to look at the folder while it is empty.
    thread::sleep(Duration::from_millis(300));
    fs::create_dir(junk.join("cur")).unwrap();
    fs::write(inbox.join("1.M1.host:2,S"), message(1)).unwrap();
    fs::rename(inbox.join("1.M1.host:2,S"), junk.join("cur/1.M1.host:2,S")).unwrap();
    watch.wait_for_counts(&server, &message(1), (1, 0));
    fs::rename(junk.join("cur/1.M1.host:2,S"), inbox.join("1.M1.host:2,S")).unwrap();
    watch.wait_for_counts(&server, &message(1), (1, 1));
}

/// Regression test: after a claim was sent, the list of mail sites showed it as waiting until the next time the spool
/// was sent. A watcher was not listed while the spool contained messages for rspamd, which another program sends.
#[test]
fn the_list_of_mail_sites_shows_how_many_claims_of_a_watcher_wait() {
    let folder = Folder::new();
    let server = Server::start(&folder, TOKENS);
    let junk = folder.path("Maildir/.Junk/cur");
    for path in [folder.path("Maildir/cur"), junk.clone()] {
        fs::create_dir_all(path).unwrap();
    }
    let lesson = Lesson { message: message(2), flag: 1, weight: 1, trains_bayes: false };
    let report = SpooledReport::for_rspamd(ClaimKind::Report, lesson, now()).unwrap();
    drop(Spool::open(&folder.path("spool")).unwrap().store(report).unwrap());
    let spooled = || {
        let list = api(&server, "/v1/sites");
        let site = list["sites"].as_array().unwrap().iter().find(|site| site["program"] == "watch");
        site.map(|site| site["spooled"].as_u64())
    };
    let watch = Watch::start(&folder, &server.url(), &folder.path("Maildir"));
    watch.wait_for_within(BEFORE_THE_NEXT_SEND, || spooled() == Some(Some(0)));
    fs::write(junk.join("1.M1.host:2,S"), message(1)).unwrap();
    watch.wait_for_counts(&server, &message(1), (1, 0));
    watch.wait_for_within(BEFORE_THE_NEXT_SEND, || spooled() == Some(Some(0)));
}

#[test]
fn one_comparison_is_enough_for_cron() {
    let folder = Folder::new();
    let server = Server::start(&folder, TOKENS);
    let junk = folder.path("Maildir/.Junk/cur");
    for path in [folder.path("Maildir/cur"), junk.clone()] {
        fs::create_dir_all(path).unwrap();
    }
    let once = || {
        let mut command = bruit(&server.url());
        command.args(["watch", "--once", "--reporter", "ann", "--spool"]).arg(folder.path("spool"));
        let output = output_of(command.arg("--state").arg(folder.path("state")).arg(folder.path("Maildir")), b"");
        assert!(output.status.success(), "{output:?}");
    };
    once();
    fs::write(junk.join("1.M1.host:2,S"), message(1)).unwrap();
    once();
    once();
    assert_eq!(counts(&server, &message(1)), (1, 0));
}

/// The spool has more claims than one attempt sends, for example because the server was down for a long time.
#[test]
fn one_comparison_sends_all_claims_or_fails() {
    let folder = Folder::new();
    let server = Server::start(&folder, TOKENS);
    fs::create_dir_all(folder.path("Maildir/cur")).unwrap();
    let spool = Spool::open(&folder.path("spool")).unwrap();
    let signer = Signer::new(Purpose::Claim);
    for number in 0..1_001 {
        let subject = signer.subject(&message(number));
        drop(spool.store(SpooledReport::new(ClaimKind::Report, Some("ann"), subject, now()).unwrap()).unwrap());
    }
    let once = |url: &str| {
        let mut command = bruit(url);
        command.args(["watch", "--once", "--spool"]).arg(folder.path("spool")).arg("--state").arg(folder.path("state"));
        output_of(command.arg(folder.path("Maildir")), b"")
    };
    let output = once("http://127.0.0.1:1");
    assert!(output.status.code() == Some(2) && spool.waiting_count().unwrap() == 1_001, "{output:?}");
    let output = once(&server.url());
    assert!(output.status.success() && spool.waiting_count().unwrap() == 0, "{output:?}");
}

#[test]
fn a_folder_that_is_no_maildir_is_an_error() {
    let folder = Folder::new();
    let mut command = bruit("http://127.0.0.1:1");
    command.args(["watch", "--once", "--spool"]).arg(folder.path("spool")).arg("--state").arg(folder.path("state"));
    let output = output_of(command.arg(folder.path("")), b"");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("not a Maildir: it has no folder cur"), "{said}");
}
