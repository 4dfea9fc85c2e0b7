//! A site's data and configuration survive an upgrade from every earlier release.
//!
//! `testdata/releases/VERSION` contains the files of a site that ran this version and was killed. Before a release, add
//! a folder for it, and never change the folders of earlier releases:
//!
//! `cargo nextest run -p bruit --test e2e_upgrade --run-ignored only make_the_sample`

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::dashboard::Visitor;
use common::wire::Datagrams;
use common::{Folder, Server, administer, output_of, run, testdata};
use serde_json::{Value, json};

/// A configuration with a setting of every section. Only the operator confirms jumps of the clock, so the server
/// continues at the time of the sample's last event, at which nothing has expired.
const CONFIGURATION: &str = r#"# The configuration of a mail site.
data = "/var/lib/bruit"
memory = "8MiB"
own_networks = ["127.0.0.1/32"]
clock_confirm = "operator"
durability = "strict"

[limits]
requests = { per_second = 40, burst = 400 }

[trust]
own_reports_needed = 1
settle_after = "24h"

[learning]
days = 4

[log]
format = "text"

[razor]
listen = "127.0.0.1:2703"

[dcc]
listen = "127.0.0.1:6277"
many = 2000

[pyzor]
listen = "127.0.0.1:24441"

[fuzzy]
listen = "127.0.0.1:11335"
bulk = { flag = 20, threshold = 500 }

[http]
listen = "127.0.0.1:8625"

[dashboard]
enabled = true

[[http.tokens]]
name = "mail-1"
token = "a-secret-of-the-mail-site"
standing = "own"

[[accounts]]
protocol = "pyzor"
name = "bob"
key = "0123456789abcdef0123456789abcdef01234567"

[[accounts]]
protocol = "dcc"
name = "32768"
password = "a-long-password"

[federation]
listen = ["127.0.0.1:8626"]

[[peers]]
name = "friend.example.org"
key = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
relation = "peer"
trust = "pinned"
"#;

/// The ports in [`CONFIGURATION`].
const PORTS: [&str; 6] = ["2703", "6277", "24441", "11335", "8625", "8626"];

/// Two messages: the first was reported before the last snapshot, the second after it.
const REPORTED: [&str; 2] = ["razor/text.eml", "razor/multipart.eml"];
/// A message that was reported before the last snapshot and revoked after it.
const REVOKED: &str = "razor/base64.eml";
/// A checksum, and two numbers of recipients: those counted for it before the last snapshot, and those counted after
/// it.
const COUNTED: ([u8; 16], [u32; 2]) = ([7; 16], [50, 30]);
/// Two digests: the first was reported before the last snapshot, the second after it.
const DIGESTS: [[u8; 64]; 2] = [[8; 64], [9; 64]];
/// Two accounts besides those in the configuration: the first was added before the last snapshot, the second after it.
const ACCOUNTS: [&str; 2] = ["ann@example.org", "zoe@example.org"];
/// Two entries of the whitelist, with their options: the first was added before the last snapshot, the second after it.
const WHITELIST: [(&str, &str); 2] = [("--sender", "newsletter@example.org"), ("--list", "announce.example.org")];
/// Files that identify the server. An upgrade keeps them.
const IDENTITY: [&str; 4] = ["realm.bruit", "node.key", "fuzzy.key", "admin.token"];

#[test]
fn a_site_keeps_everything_when_it_upgrades() {
    let releases = releases();
    assert!(!releases.is_empty());
    for release in releases {
        let folder = Folder::new();
        unpack(&release, &folder.path("data"));
        let identity = IDENTITY.map(|file| fs::read(folder.path("data").join(file)).unwrap());
        let configuration = fs::read_to_string(release.join("bruit.toml")).unwrap();
        let mut server = Server::start_configured(&folder, &on_free_ports(&configuration, &folder));
        assert_complete(&server);
        // The snapshot that the new version writes at the end has everything, too.
        assert!(server.terminate().success(), "{}", server.said());
        let server = server.restart();
        assert_complete(&server);
        assert_template_is_good(&server);
        assert_eq!(identity, IDENTITY.map(|file| fs::read(server.data().join(file)).unwrap()), "{}", release.display());
    }
}

#[test]
fn the_configuration_of_every_release_is_valid_as_it_is() {
    for release in releases() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
        command.args(["serve", "--check-config", "--config"]).arg(release.join("bruit.toml"));
        let answer = run(&mut command, b"");
        assert_eq!(answer.code, Some(0), "{answer:?}");
    }
}

#[test]
#[ignore = "adds the sample of a release"]
fn make_the_sample() {
    let release = testdata("releases").join(env!("CARGO_PKG_VERSION"));
    assert!(!release.exists(), "the folder of a release must not be replaced");
    let folder = Folder::new();
    let mut server = Server::start_configured(&folder, &on_free_ports(CONFIGURATION, &folder));
    fill(&server, 0);
    ask(&server, "report", &read(REVOKED), 0);
    ask(&server, "learn", letter("apples, two garden chairs and a raincoat").as_bytes(), 0);
    ask(&server, "learn", letter("a bicycle pump, candles and printer paper").as_bytes(), 0);
    assert!(server.terminate().success());
    let mut server = server.restart();
    fill(&server, 1);
    ask(&server, "revoke", &read(REVOKED), 0);
    assert_complete(&server);
    server.kill();
    fs::create_dir(&release).unwrap();
    fs::write(release.join("bruit.toml"), CONFIGURATION).unwrap();
    let archive = release.join("data.tar.gz");
    tar(&["--sort=name", "--owner=0", "--group=0", "-czf"], &archive, &server.data(), &["."]);
}

/// Returns the folders of all releases.
fn releases() -> Vec<PathBuf> {
    let entries = fs::read_dir(testdata("releases")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

/// Unpacks the data directory of a release.
fn unpack(release: &Path, data: &Path) {
    fs::create_dir(data).unwrap();
    tar(&["--no-same-owner", "-xzf"], &release.join("data.tar.gz"), data, &[]);
}

/// Runs tar in `folder`.
fn tar(options: &[&str], archive: &Path, folder: &Path, files: &[&str]) {
    let mut command = Command::new("tar");
    let output = output_of(command.args(options).arg(archive).arg("-C").arg(folder).args(files), b"");
    assert!(output.status.success(), "{output:?}");
}

/// Returns a configuration with free ports and with its data in `folder`.
fn on_free_ports(configuration: &str, folder: &Folder) -> String {
    let data = folder.path("data").display().to_string();
    PORTS.iter().fold(configuration.replace("/var/lib/bruit", &data), |text, port| {
        text.replace(&format!("127.0.0.1:{port}\""), "127.0.0.1:0\"")
    })
}

/// Adds the data of the sample from before the last snapshot (`part` 0), or from after it (`part` 1).
fn fill(server: &Server, part: usize) {
    let (option, entry) = WHITELIST[part];
    ask(server, "report", &read(REPORTED[part]), 0);
    Datagrams::to(server.address("dcc")).dcc_count(COUNTED.1[part], COUNTED.0);
    Datagrams::to(server.address("fuzzy")).fuzzy_add(DIGESTS[part]);
    administer(server, &["whitelist", "add", option, entry]);
    let secret = server.data().with_file_name("secret");
    fs::write(&secret, "correct horse battery staple\n").unwrap();
    let secret = secret.to_str().unwrap();
    administer(server, &["accounts", "add", "razor", ACCOUNTS[part], "--standing", "pinned", "--secret-file", secret]);
}

/// Asserts that a server has all data of a sample.
fn assert_complete(server: &Server) {
    for message in REPORTED {
        ask(server, "check", &read(message), 0);
    }
    let revoked = ask(server, "check", &read(REVOKED), 1);
    assert_eq!(revoked["reason"], "revoked", "{revoked}");
    let recipients = Datagrams::to(server.address("dcc")).dcc_total(COUNTED.0);
    assert_eq!(recipients, COUNTED.1.iter().sum::<u32>());
    for digest in DIGESTS {
        assert_eq!(Datagrams::to(server.address("fuzzy")).fuzzy_check(digest).0, 1);
    }
    let whitelist = administer(server, &["whitelist", "list", "--json"]);
    let accounts = administer(server, &["accounts", "list", "--json"]);
    assert!(WHITELIST.iter().all(|(_, entry)| whitelist.contains(entry)), "{whitelist}");
    assert!(ACCOUNTS.iter().chain(&["bob", "32768"]).all(|name| accounts.contains(name)), "{accounts}");
    assert!(accounts.matches("\"pinned\"").count() >= ACCOUNTS.len(), "{accounts}");
    assert!(administer(server, &["peers", "--json"]).contains("friend.example.org"));
    assert!(reports_in_history(server) > 0);
}

/// Asserts that the sample's good mail is still known: after a report of spam that copies its text, another message
/// with this text is not spam.
fn assert_template_is_good(server: &Server) {
    let phish = letter("tickets to the opera and a new kettle") + "Confirm your password within twelve hours.\n";
    ask(server, "report", phish.as_bytes(), 0);
    ask(server, "check", letter("walking boots, a tent and rye flour").as_bytes(), 1);
}

/// Returns the number of reports over HTTP in the history of the last day.
fn reports_in_history(server: &Server) -> u64 {
    let mut visitor = Visitor::new(server);
    visitor.fields.push(("authorization", format!("Bearer {}", server.token())));
    let history: Value = serde_json::from_str(&visitor.get("/v1/history?span=day").text).unwrap();
    let counts = history["slots"].as_array().unwrap().iter().flat_map(|slot| slot["requests"].as_array().unwrap());
    let of_reports = counts.filter(|count| count["protocol"] == "http" && count["answered"] == "accepted");
    of_reports.map(|count| count["count"].as_u64().unwrap()).sum()
}

/// Returns a bank's letter that mentions these purchases.
fn letter(purchases: &str) -> String {
    format!(
        "From: Savings Bank <bank@example.org>\nSubject: your statement\n\nDear customer, please find below a summary of your \
         account movements for the last quarter, together with notes on interest, charges and standing orders. Our branches \
         are open on weekdays from nine until four, and our telephone advisers answer questions about mortgages, pensions \
         and insurance. This quarter you bought {purchases}.\n"
    )
}

/// Runs a verb on a message and asserts its exit code. Returns its answer.
fn ask(server: &Server, verb: &str, message: &[u8], code: i32) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    let answer = run(command.args([verb, "--json", "--server", &server.url()]), message).expect(code, server);
    serde_json::from_str(&answer.text).unwrap_or_else(|_| json!(answer.text))
}

fn read(name: &str) -> Vec<u8> {
    fs::read(testdata(name)).unwrap()
}
