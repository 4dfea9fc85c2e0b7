//! Unmodified Pyzor clients (Debian's, Pyzor 1.1, SpamAssassin's in Perl) against a running clearinghouse.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Folder, PyzorHome, Server, bank, program, run, testdata};

const KEY: &str = "0123456789abcdef0123456789abcdef01234567";
const ACCOUNT: &str =
    "[[accounts]]\nprotocol = \"pyzor\"\nname = \"alice\"\nkey = \"0123456789abcdef0123456789abcdef01234567\"\n";
/// Runs checks and reports with SpamAssassin's Perl client. The last two arguments are the address and the digest.
const PERL: &str = r#"
use Mail::SpamAssassin::Pyzor::Client;
my ($host, $port, $digest) = @ARGV;
my $client = Mail::SpamAssassin::Pyzor::Client->new(server_host => $host, server_port => $port, timeout => 5);
for my $operation (qw(check report check)) {
    my $reply = $client->$operation($digest);
    print join(" ", $operation, map { $_ . "=" . ($reply->{$_} // "") } qw(Code Count WL-Count)), "\n";
}
"#;

fn message(name: &str) -> Vec<u8> {
    fs::read(testdata("pyzor").join(name)).unwrap()
}

#[test]
fn a_report_is_found_until_it_is_whitelisted() {
    let folder = Folder::new();
    let server = Server::start(&folder, ACCOUNT);
    let home = PyzorHome::new(&server);
    let spam = message("v1-plain-atomic.eml");
    home.run(&["ping"], b"", 0);
    home.check(&spam, false);
    home.run(&["report"], &spam, 0);
    home.check(&spam, true);
    home.check(&message("v2-plain-pieced.eml"), false);
    let info = home.run(&["info"], &spam, 0).text;
    assert!(info.contains("Entered:") && !info.contains("Never"), "{info}");
    home.run(&["pong"], &spam, 0);

    let owner = PyzorHome::of(&server, "alice", KEY);
    owner.run(&["whitelist"], &spam, 0);
    owner.check(&spam, false);
    home.check(&spam, false);
}

/// After a report of a phish with the bank's logo and footer, the bank's own mail with both is still not spam.
#[test]
fn the_bank_whose_logo_was_copied_is_no_spam() {
    let folder = Folder::new();
    let server = Server::start(&folder, ACCOUNT);
    let home = PyzorHome::new(&server);
    let (phish, genuine) = (bank::phish("Ann Baker"), bank::genuine());
    home.run(&["report"], &phish, 0);
    home.check(&phish, true);
    home.check(&genuine, false);
}

#[test]
fn a_wrong_key_is_refused() {
    let folder = Folder::new();
    let server = Server::start(&folder, ACCOUNT);
    let thief = PyzorHome::of(&server, "alice", "1123456789abcdef0123456789abcdef01234567");
    let answer = thief.run(&["report"], &message("v3-html.eml"), 1);
    assert!(answer.text.contains("401"), "{answer:?}");
    PyzorHome::new(&server).check(&message("v3-html.eml"), false);
}

#[test]
fn digests_are_taken_as_they_are() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let home = PyzorHome::new(&server);
    let digests = b"eb2a0e84c910ecae205eba635c8e442e85f5ee9a\n1b2a0e84c910ecae205eba635c8e442e85f5ee9a\n";
    home.run(&["-s", "digests", "check"], digests, 1);
    home.run(&["-s", "digests", "report"], digests, 0);
    home.run(&["-s", "digests", "check"], digests, 0);
}

#[test]
fn mailboxes_are_reported_whole() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let home = PyzorHome::new(&server);
    let names = ["v1-plain-atomic.eml", "v2-plain-pieced.eml", "v4-multipart.eml"];
    let mbox: Vec<u8> = names
        .iter()
        .flat_map(|name| {
            [b"From a@b.example Mon Jan  2 10:00:00 2023\n".to_vec(), message(name), b"\n".to_vec()].concat()
        })
        .collect();
    home.run(&["-s", "mbox", "report"], &mbox, 0);
    for name in names {
        home.check(&message(name), true);
    }
}

#[test]
fn pyzor_1_1_is_served() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let home = PyzorHome::new(&server);
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("python/pyzor-1.1.2");
    let script = python.join("bin/pyzor");
    assert!(script.is_file(), "pyzor 1.1.2 is missing; `cargo xtask test --only nextest` puts it into {python:?}");
    let spam = message("v5-edge.eml");
    let client = |words: &[&str], code| {
        let mut client: Command = program("python3", "python3");
        home.run_by(client.arg(&script).env("PYTHONPATH", &python), words, &spam, code)
    };
    client(&["ping"], 0);
    client(&["check"], 1);
    client(&["report"], 0);
    client(&["check"], 0);
    home.check(&spam, true);
}

#[test]
fn the_client_of_spamassassin_is_served() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let address = server.address("pyzor");
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let mut perl = program("perl", "spamassassin");
    perl.args(["-e", PERL, &host, &port, "eb2a0e84c910ecae205eba635c8e442e85f5ee9a"]);
    let answer = run(&mut perl, b"").expect(0, &server);
    let lines: Vec<&str> = answer.text.lines().collect();
    assert_eq!(
        lines,
        ["check Code=200 Count=0 WL-Count=0", "report Code=200 Count= WL-Count=", "check Code=200 Count=5 WL-Count=0"]
    );
}
