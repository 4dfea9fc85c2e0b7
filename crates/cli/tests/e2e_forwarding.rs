//! A user forwards spam as an attachment to an address of the site; Postfix passes it to `bruit report --attached`. The
//! settings of Postfix are those of docs/operators/postfix.md.

mod common;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use common::dovecot::Dovecot;
use common::postfix::Postfix;
use common::smtp::Smtp;
use common::{Folder, Server, output_of};
use serde_json::Value;

/// Maximum time for a delivery, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The user `nobody`, who runs the program.
const NOBODY: u32 = 65_534;
const TOKENS: &str = "[http]\nlisten = \"127.0.0.1:0\"\n[[http.tokens]]\nname = \"mail\"\ntoken = \"the-token-of-the-mail-site\"\n\
    standing = \"own\"\nreporters = true\n";
/// The login of alice: her name and password in base64.
const LOGIN: &str = "AUTH PLAIN AGFsaWNlAHNlY3JldA==";
const SPAM: &str = "From: sales@example.org\nSubject: watches\n\nGenuine watches at wholesale prices, delivered to your door \
    in a week.\n";

/// Returns the settings and services of the page, with the paths of this test.
fn settings(folder: &Folder, server: &Server) -> (String, String) {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operators/postfix.md")).unwrap();
    let (_, section) = page.split_once("## Reports that users forward").unwrap();
    let settings = section.lines().filter_map(|line| line.strip_prefix("postconf -e '"));
    let settings = settings.map(|line| line.trim_end_matches('\'').replace("' '", "\n") + "\n").collect::<String>();
    let (_, service) = section.split_once("postconf -M 'bruit-report/unix=").unwrap();
    let (service, _) = service.split_once('\'').unwrap();
    let path = |name: &str| folder.path(name).display().to_string();
    let token = format!("--server {} --token-file {} --timeout", server.url(), path("token"));
    let service = service.replace("/usr/bin/bruit", &path("bruit")).replace("/var/spool/bruit", &path("spool"));
    let settings = settings.replace("example.org", "test.example");
    (settings, service.replace("--timeout 5s", &format!("{token} 30s")) + "\n")
}

fn report_count(server: &Server) -> u64 {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    command.args(["check", "--json"]).env("BRUIT_SERVER", server.url()).env_remove("BRUIT_TOKEN");
    let output = output_of(&mut command, SPAM.as_bytes());
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let signatures = checked["signatures"].as_array().unwrap();
    signatures.iter().find(|found| found["scheme"] == "exact").unwrap()["report_count"].as_u64().unwrap()
}

#[test]
fn a_forwarded_report_counts_if_its_sender_is_authenticated() {
    let folder = Folder::new();
    let server = Server::start(&folder, TOKENS);
    fs::set_permissions(folder.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_bruit"), folder.path("bruit")).unwrap();
    folder.write("token", "the-token-of-the-mail-site\n");
    fs::create_dir(folder.path("spool")).unwrap();
    chown(folder.path("spool"), Some(NOBODY), Some(NOBODY)).unwrap();
    let (settings, service) = settings(&folder, &server);
    let dovecot = Dovecot::start_without_sieve();
    let sasl = format!(
        "smtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = dovecot\nsmtpd_sasl_path = {}\n",
        dovecot.sasl().display()
    );
    let postfix = Postfix::start_with("", &["spam", "alice"], &format!("{sasl}{settings}"), &service);
    let spam = SPAM.replace('\n', "\r\n");
    let forwarded = format!(
        "From: alice@test.example\r\nSubject: Fwd: watches\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n\
         --b\r\n\r\nSpam.\r\n--b\r\nContent-Type: message/rfc822\r\n\r\n{spam}\r\n--b--\r\n"
    );

    // Not even the site's own hosts may write to this address without a login.
    let mut stranger = Smtp::open(postfix.address());
    stranger.command("MAIL FROM:<alice@test.example>");
    let reply = stranger.command("RCPT TO:<spam@test.example>");
    assert!(reply.code == 554 && reply.text.contains("Access denied"), "{reply:?}");
    assert_eq!(report_count(&server), 0);

    let mut alice = Smtp::open(postfix.address());
    assert_eq!(alice.command(LOGIN).code, 235, "{}", dovecot.said());
    let reply = alice.send("alice@test.example", &["spam@test.example"], forwarded.as_bytes());
    assert_eq!(reply.code, 250, "{reply:?}");
    let deadline = Instant::now() + PATIENCE;
    while report_count(&server) == 0 {
        assert!(Instant::now() < deadline, "{}\n{}", postfix.log(), server.said());
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(report_count(&server), 1);

    // A report without an attachment goes back to its sender, with the reason.
    let reply = alice.send("alice@test.example", &["spam@test.example"], b"Subject: spam\r\n\r\nSee below.\r\n");
    assert_eq!(reply.code, 250, "{reply:?}");
    let bounce = postfix.wait_for("alice", 1);
    let text = String::from_utf8_lossy(&bounce.bytes).replace("\n    ", " ");
    assert!(text.contains("no message is attached"), "{text}");
    assert_eq!(report_count(&server), 1);
}
