//! Postfix, `bruit milter` and `bruit serve` together, handling a site's mail.

mod common;

use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use common::milter::Milter;
use common::postfix::{Postfix, free_port};
use common::smtp::Smtp;
use common::{Folder, Server, administer, bruit};

/// The address of a client that the site does not know.
const STRANGER: &str = "192.0.2.77";

const SPAM: &str = "Genuine watches at wholesale prices are delivered within seven days to your own door, and every one \
    of them comes with a certificate and an elegant box. Order two before Friday and receive a third as a gift from \
    our workshop in the mountains: http://watches.example/offer\n";

fn message(text: &str) -> Vec<u8> {
    format!(
        "From: Sender <sender@mail.example>\nTo: you@test.example\nSubject: an offer\nMessage-ID: <1@mail.example>\n\
         Date: Thu, 19 Nov 2026 10:00:00 +0000\n\n{text}"
    )
    .into_bytes()
}

/// Sends a message from a stranger. Returns code and text of the last reply.
fn send(postfix: &Postfix, recipients: &[&str], message: &[u8]) -> (u16, String) {
    let reply = Smtp::open_as(postfix.address(), STRANGER, None).send("sender@mail.example", recipients, message);
    (reply.code, reply.text)
}

/// Runs a verb with a message in a file.
fn claim(server: &Server, verb: &str, file: &std::path::Path) {
    let output = bruit(&[verb, "--server", &server.url(), file.to_str().unwrap()]);
    assert!(output.status.success(), "{verb}: {output:?}");
}

#[test]
fn reported_mail_is_tagged_refused_or_held_until_it_is_revoked() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let mut milter = Milter::start(&server.url(), "");
    let postfix = Postfix::start(&milter.address, &["alice", "bob"], "");
    let spam = message(SPAM);
    let forged = [b"X-Bruit: ham\nx-bruit : ham; forged\n ham\n", &spam[..]].concat();

    assert_eq!(send(&postfix, &["alice@test.example"], &forged).0, 250);
    let first = postfix.wait_for("alice", 1);
    assert_eq!(first.field(), "unknown; confidence=0; reason=not_reported");
    assert!(!String::from_utf8_lossy(&first.bytes).contains("ham"), "forged fields are removed");

    claim(&server, "report", &first.path);
    assert_eq!(send(&postfix, &["bob@test.example"], &spam).0, 250);
    assert_eq!(postfix.wait_for("bob", 1).field(), "spam; confidence=80; reason=own_reports");
    let altered = message(&SPAM.replace("two before Friday", "four before Sunday").replace("Genuine", "Original"));
    assert_eq!(send(&postfix, &["bob@test.example"], &altered).0, 250);
    assert!(postfix.wait_for("bob", 2).field().starts_with("spam; confidence="), "near replica");

    milter.reload(&server.url(), "[spam]\naction = \"reject\"\nconfidence = 60\n");
    let (code, text) = send(&postfix, &["bob@test.example"], &spam);
    assert_eq!(code, 550, "{text}");
    let id = text.strip_prefix("550 5.7.1 message refused: spam (").and_then(|rest| rest.strip_suffix(')')).unwrap();
    let explained = administer(&server, &["explain", "--signature", id]);
    assert!(explained.contains("own users: 1 for spam"), "{id}: {explained}");
    assert_eq!(send(&postfix, &["bob@test.example"], &altered).0, 550);
    milter.reload(&server.url(), "[spam]\naction = \"defer\"\n");
    assert_eq!(send(&postfix, &["bob@test.example"], &spam).0, 451);
    milter.reload(&server.url(), "[spam]\naction = \"reject\"\nconfidence = 90\n");
    assert_eq!(send(&postfix, &["bob@test.example"], &spam).0, 250, "below the threshold, it is tagged");
    assert!(postfix.wait_for("bob", 3).field().starts_with("spam; "));

    milter.reload(&server.url(), "[spam]\naction = \"quarantine\"\n");
    assert_eq!(send(&postfix, &["bob@test.example"], &spam).0, 250);
    let held = postfix.queue();
    assert_eq!((held.len(), held[0]["queue_name"].as_str()), (1, Some("hold")), "{held:?}");

    claim(&server, "revoke", &first.path);
    milter.reload(&server.url(), "[spam]\naction = \"reject\"\n");
    assert_eq!(send(&postfix, &["bob@test.example"], &spam).0, 250);
    assert!(postfix.wait_for("bob", 4).field().starts_with("ham; "));
    assert_eq!(milter.stop(), Some(0));
}

#[test]
fn recipients_in_several_transactions_make_a_message_bulk() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let milter = Milter::start(&server.url(), "[bulk]\naction = \"tag\"\nrecipients = 20\n");
    let users: Vec<String> = (0..25).map(|number| format!("r{number}")).collect();
    let names: Vec<&str> = users.iter().map(String::as_str).collect();
    let postfix = Postfix::start(&milter.address, &names, "");
    let addresses: Vec<String> = users.iter().map(|user| format!("{user}@test.example")).collect();
    let mut verdicts = Vec::new();
    for (at, five) in addresses.chunks(5).enumerate() {
        let five: Vec<&str> = five.iter().map(String::as_str).collect();
        assert_eq!(send(&postfix, &five, &message(SPAM)).0, 250);
        // The same transaction once more, as after a lost reply, does not count again.
        assert_eq!(send(&postfix, &five, &message(SPAM)).0, 250);
        let field = postfix.wait_for(names[at * 5], 2).field();
        verdicts.push(field.split(';').next().unwrap().to_owned());
    }
    assert_eq!(verdicts, ["unknown", "unknown", "unknown", "bulk", "bulk"]);
    assert_eq!(milter.count("uncounted_total"), 0);
}

#[test]
fn a_trap_lists_what_it_gets() {
    let folder = Folder::new();
    let token = "a-token-of-the-traps";
    let more = format!("\n[[http.tokens]]\nname = \"traps\"\ntoken = {token:?}\nstanding = \"trap\"\n");
    let server = Server::start(&folder, &more);
    folder.write("token", token);
    let traps = "[traps]\naddresses = [\"trap@test.example\", \"nobody@test.example\"]\n";
    let with_token = format!("{traps}token_file = {:?}\n", folder.path("token"));
    let mut milter = Milter::start(&server.url(), &with_token);
    let postfix = Postfix::start(&milter.address, &["alice", "trap"], "");
    let spam = message(SPAM);

    // A known user is among the recipients: nothing is reported.
    assert_eq!(send(&postfix, &["trap@test.example", "alice@test.example"], &spam).0, 250);
    assert!(postfix.wait_for("alice", 1).field().starts_with("unknown; "));
    // An unknown user that is a trap does not prevent the report by the other trap.
    assert_eq!(send(&postfix, &["nobody@test.example", "trap@test.example"], &spam).0, 250);
    let trapped = postfix.wait_for("trap", 2);
    assert_eq!(trapped.field(), "unchecked; reason=trap");
    assert_eq!(milter.count("trap_reports_total{result=\"accepted\"}"), 1, "{}", milter.log());
    let explained = administer(&server, &["explain", trapped.path.to_str().unwrap()]);
    assert!(explained.contains("1 of them anchored, a trap"), "{explained}");

    // Without the token, the milter reports as an own user, so a single report lists the message.
    milter.reload(&server.url(), traps);
    assert_eq!(send(&postfix, &["trap@test.example"], &spam).0, 250);
    postfix.wait_for("trap", 3);
    assert_eq!(send(&postfix, &["alice@test.example"], &spam).0, 250);
    assert!(postfix.wait_for("alice", 2).field().starts_with("spam; "));
}

#[test]
fn own_networks_and_authenticated_senders_are_not_checked() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let milter = Milter::start(&server.url(), "own_networks = [\"127.0.0.0/8\"]\n");
    let postfix = Postfix::start(&milter.address, &["alice"], "");
    let mail = message(SPAM);
    let mut local = Smtp::open(postfix.address());
    assert_eq!(local.send("a@test.example", &["alice@test.example"], &mail).code, 250);
    assert!(postfix.wait_for("alice", 1).fields().is_empty());
    let forged = [b"X-Bruit: ham\n", &mail[..]].concat();
    let mut user = Smtp::open_as(postfix.address(), STRANGER, Some("alice"));
    assert_eq!(user.send("a@test.example", &["alice@test.example"], &forged).code, 250);
    assert!(postfix.wait_for("alice", 2).fields().is_empty(), "forged fields are removed");
    assert_eq!(send(&postfix, &["alice@test.example"], &mail).0, 250);
    assert!(postfix.wait_for("alice", 3).field().starts_with("unknown; "));
    assert!(milter.count("skipped_total{reason=\"own_network\"}") >= 1);
    assert_eq!(milter.count("skipped_total{reason=\"authenticated\"}"), 1);
}

#[test]
fn mail_flows_unchecked_while_the_server_is_away() {
    let folder = Folder::new();
    let more = format!("[http]\nlisten = \"127.0.0.1:{}\"\n", free_port());
    let mut server = Server::start(&folder, &more);
    let url = server.url();
    let mut milter = Milter::start(&url, "");
    let postfix = Postfix::start(&milter.address, &["alice"], "");
    let mail = message(SPAM);
    let sent = |count| {
        let start = Instant::now();
        assert_eq!(send(&postfix, &["alice@test.example"], &mail).0, 250);
        (postfix.wait_for("alice", count).field(), start.elapsed())
    };
    assert!(sent(1).0.starts_with("unknown; "));
    server.terminate();
    for count in 2..5 {
        let (field, time) = sent(count);
        assert_eq!(field, "unchecked; reason=unreachable");
        assert!(time < Duration::from_secs(3), "{time:?}");
    }
    let server = server.restart();
    milter.wait(|_| {
        let count = postfix.mailbox("alice").len() + 1;
        sent(count).0.starts_with("unknown; ")
    });
    let log = milter.log();
    assert_eq!(log.matches("the server does not answer").count(), 1, "{log}");
    assert_eq!(log.matches("the server answers again").count(), 1, "{log}");
    drop(server);

    // A server that accepts connections but never answers costs one message the whole timeout, and the next messages no
    // time.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    milter.reload(&url, "");
    let (field, time) = sent(postfix.mailbox("alice").len() + 1);
    assert_eq!(field, "unchecked; reason=timed_out");
    assert!(time < Duration::from_secs(6), "{time:?}");
    assert_eq!(milter.stop(), Some(0));
}

#[test]
fn recipients_that_disagree_get_a_tag_or_a_split() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    folder.write("rules", "bob@test.example spam=quarantine\n@off.example off\n");
    let rules = folder.path("rules");
    let mut milter = Milter::start(&server.url(), &format!("[recipients]\nfile = {rules:?}\n"));
    let postfix = Postfix::start(&milter.address, &["alice", "bob", "held"], "");
    let both = ["alice@test.example", "bob@test.example"];
    let spam = message(SPAM);
    folder.write("spam", &spam);
    claim(&server, "report", &folder.path("spam"));
    assert_eq!(send(&postfix, &both, &spam).0, 250);
    assert!(postfix.wait_for("bob", 1).field().starts_with("spam; "));
    let split = format!("[recipients]\nfile = {rules:?}\ndisagreement = \"split\"\nsplit_to = \"held@test.example\"\n");
    milter.reload(&server.url(), &split);
    assert_eq!(send(&postfix, &both, &spam).0, 250);
    postfix.wait_for("alice", 2);
    assert!(postfix.wait_for("held", 1).field().starts_with("spam; "));
    assert_eq!(postfix.mailbox("bob").len(), 1);
    assert_eq!(send(&postfix, &both[1..], &spam).0, 250);
    assert_eq!(postfix.queue().len(), 1, "a single recipient's mail is held");
}

#[test]
fn unknown_bulk_mail_is_deferred_once_if_greylisting_is_on() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let milter = Milter::start(&server.url(), "[greylist]\nrecipients = 2\ndelay = \"0s\"\n");
    let postfix = Postfix::start(&milter.address, &["alice", "bob"], "");
    let both = ["alice@test.example", "bob@test.example"];
    assert_eq!(send(&postfix, &both, &message(SPAM)), (451, "451 4.7.1 try again later".to_owned()));
    assert_eq!(send(&postfix, &both, &message(SPAM)).0, 250);
    assert_eq!((milter.count("greylisted_total"), milter.count("recipients_total")), (1, 4));
    let sign =
        bruit(&["check", "--json", "--server", &server.url(), postfix.wait_for("bob", 1).path.to_str().unwrap()]);
    let answer: serde_json::Value = serde_json::from_slice(&sign.stdout).unwrap();
    assert_eq!(answer["bulk_count"], 2, "the retry does not count again");
}

#[test]
fn postfix_reaches_a_socket_inside_its_queue_directory() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    // Postfix's processes can connect to the socket because of its group.
    let socket = folder.path("milter.sock");
    fs::set_permissions(folder.path(""), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let toml = format!(
        "listen = {{ path = {socket:?}, mode = \"0660\", group = \"postfix\" }}\nmetrics = \"127.0.0.1:0\"\n\
         own_networks = []\n[server]\nurl = {:?}\n",
        server.url()
    );
    let mut milter = Milter::start_with(&toml);
    let postfix = Postfix::start(&format!("unix:{}", socket.display()), &["alice"], "");
    assert_eq!(send(&postfix, &["alice@test.example"], &message(SPAM)).0, 250);
    assert!(postfix.wait_for("alice", 1).field().starts_with("unknown; "));
    assert_eq!(milter.stop(), Some(0));
    assert!(!socket.exists(), "the socket is removed");
}

#[test]
fn a_wrong_configuration_is_named_and_a_reload_keeps_the_old_one() {
    let folder = Folder::new();
    folder.write("milter.toml", "[spam]\naction = \"drop\"\n");
    let file = folder.path("milter.toml");
    let line = common::refused(&["milter", "--check-config", "--config", file.to_str().unwrap()]);
    assert!(line.contains("milter.toml: line 2: unknown variant `drop`"), "{line}");
    let example = common::testdata("../packaging/milter.toml");
    let output = common::printed(&["milter", "--check-config", "--config", example.to_str().unwrap()]);
    assert_eq!(output, "the configuration is valid\n");
    let milter = Milter::start("http://127.0.0.1:1", "");
    milter.break_configuration();
    milter.wait(|milter| milter.log().contains("failed to reload the configuration; keeping the old one"));
    assert_eq!(milter.count("connections_open"), 0);
    let metrics = milter.metrics();
    let body = metrics.split("\r\n\r\n").nth(1).unwrap();
    let mut promtool = Command::new("promtool");
    let checked = common::run(promtool.args(["check", "metrics"]), body.as_bytes());
    assert_eq!((checked.code, &*checked.complaints), (Some(0), ""), "{metrics}");
}
