//! Reports of traps arrive exactly once, even if programs are killed or answers are lost.

mod common;

use std::thread;

use common::lossy::Lossy;
use common::milter::{Milter, deliver};
use common::{Folder, Server, output_of};
use serde_json::Value;

const TRAP: &str = "trap@test.example";

/// An address at which nothing listens: the port is privileged and unassigned.
const NOWHERE: &str = "http://127.0.0.1:1";

fn message(number: u32) -> Vec<u8> {
    let line = |at| format!("Genuine watches of series {number} at wholesale prices, offer {at}, sent to your door.\n");
    let body: String = (0..12).map(line).collect();
    format!("From: sales@mail.example\nSubject: watches {number}\n\n{body}").into_bytes()
}

/// Starts a milter with a trap. All milters started with the same folder share its spool and its retry key.
fn start(folder: &Folder, url: &str) -> Milter {
    let [key, spool] = ["retry.key", "spool"].map(|name| folder.path(name));
    let traps = format!("[traps]\naddresses = [{TRAP:?}]\nspool = {spool:?}\n");
    Milter::start(url, &format!("retry_key = {key:?}\n[server]\nurl = {url:?}\ntimeout = \"60s\"\n{traps}"))
}

/// Returns how often the message was reported.
fn reports(server: &Server, number: u32) -> u64 {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_bruit"));
    command.args(["check", "--json", "--server", &server.url()]).env_remove("BRUIT_TOKEN");
    let output = output_of(&mut command, &message(number));
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    // The texts of the messages are similar; only this signature distinguishes them.
    let all = checked["signatures"].as_array().unwrap();
    all.iter().find(|signature| signature["scheme"] == "exact").unwrap()["report_count"].as_u64().unwrap()
}

#[test]
fn reports_of_traps_arrive_once_although_milter_and_server_are_killed() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "");
    let mut milter = start(&folder, &server.url());
    assert_eq!(milter.field(&[TRAP], &message(0)), "unchecked; reason=trap");
    server.kill();
    for number in 1..4 {
        assert_eq!(milter.field(&[TRAP], &message(number)), "unchecked; reason=trap");
    }
    assert_eq!(milter.count("trap_reports_total{result=\"spooled\"}"), 3, "{}", milter.log());
    milter.kill();

    // A milter that cannot reach the server keeps the reports.
    let mut milter = start(&folder, NOWHERE);
    milter.wait(|milter| milter.count("spool_reports") == 3);
    milter.kill();

    let server = server.restart();
    let mut milter = start(&folder, &server.url());
    milter.wait(|milter| milter.count("spool_sent_total") == 3 && milter.count("spool_reports") == 0);
    milter.kill();
    let milter = start(&folder, &server.url());
    assert_eq!(milter.field(&[TRAP], &message(4)), "unchecked; reason=trap");
    let counts: Vec<u64> = (0..5).map(|number| reports(&server, number)).collect();
    assert_eq!(counts, [1; 5], "{}", milter.log());
}

#[test]
fn a_report_whose_answer_was_lost_arrives_once() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "");
    let lossy = Lossy::start(server.address("http"), false);
    let mut milter = start(&folder, &lossy.url);
    assert_eq!(milter.field(&[TRAP], &message(1)), "unchecked; reason=trap");
    lossy.lost.recv().unwrap();
    assert_eq!((reports(&server, 1), milter.count("trap_reports_total{result=\"spooled\"}")), (1, 1));
    milter.kill();
    server.kill();
    let server = server.restart();
    let milter = start(&folder, &server.url());
    milter.wait(|milter| milter.count("spool_sent_total") == 1);
    assert_eq!(reports(&server, 1), 1);
}

#[test]
fn a_milter_that_is_killed_before_it_has_the_answer_reports_the_retry_under_the_same_id() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "");
    let lossy = Lossy::start(server.address("http"), true);
    let mut milter = start(&folder, &lossy.url);
    let address = milter.socket();
    let mta = thread::spawn(move || deliver(address, &[TRAP], &message(1)));
    lossy.lost.recv().unwrap();
    milter.kill();
    assert!(mta.join().unwrap().is_err(), "the MTA keeps the message");
    assert_eq!(reports(&server, 1), 1);
    server.kill();
    let server = server.restart();
    let milter = start(&folder, &server.url());
    assert_eq!(milter.field(&[TRAP], &message(1)), "unchecked; reason=trap");
    assert_eq!(milter.count("trap_reports_total{result=\"accepted\"}"), 1);
    assert_eq!(reports(&server, 1), 1);
}
