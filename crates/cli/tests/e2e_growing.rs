//! A change of `memory` in the configuration takes effect at the next start, and no data is lost.

mod common;

use std::fs;
use std::process::Command;

use bruit_engine::budget::BUDGET_MIN;
use common::wire::Datagrams;
use common::{Folder, Server, bruit, json, printed, refused, run, testdata};

const MESSAGES: [&str; 3] = ["razor/base64.eml", "razor/multipart.eml", "razor/text.eml"];

/// Runs `bruit report` or `bruit check` for a message against `server`.
fn tell(verb: &str, server: &Server, message: &str, code: i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    let message = fs::read(testdata(message)).unwrap();
    run(command.args([verb, "--server", &server.url()]), &message).expect(code, server);
}

fn check_all(server: &Server) {
    MESSAGES.iter().for_each(|message| tell("check", server, message, 0));
    assert!(Datagrams::to(server.address("dcc")).dcc_is_many([1; 16]));
    let (flag, probability) = Datagrams::to(server.address("fuzzy")).fuzzy_check([1; 64]);
    assert_eq!((flag == 1, probability > 0.5), (true, true));
}

/// Changes the memory in the configuration.
fn set_memory(folder: &Folder, from: &str, to: &str) {
    let text = fs::read_to_string(folder.path("bruit.toml")).unwrap();
    let (from, to) = (format!("memory = \"{from}\""), format!("memory = \"{to}\""));
    assert!(text.contains(&from));
    folder.write("bruit.toml", text.replace(&from, &to));
}

fn budget(folder: &Folder) -> u64 {
    let data = folder.path("data");
    json(&["store", "inspect", "--json", data.to_str().unwrap()])["clearinghouse"]["budget_bytes"].as_u64().unwrap()
}

#[test]
fn a_larger_memory_takes_effect_at_the_next_start_and_all_is_found() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "");
    assert!(server.terminate().success());
    // Create the data directory again, with the smallest memory.
    fs::remove_dir_all(folder.path("data")).unwrap();
    set_memory(&folder, "16MiB", "8MiB");
    let mut server = server.restart();
    MESSAGES.iter().for_each(|message| tell("report", &server, message, 0));
    Datagrams::to(server.address("dcc")).dcc_report_spam([1; 16]);
    Datagrams::to(server.address("fuzzy")).fuzzy_add([1; 64]);
    check_all(&server);
    assert!(server.terminate().success(), "{}", server.said());
    assert_eq!(budget(&folder), BUDGET_MIN);

    set_memory(&folder, "8MiB", "256MiB");
    let mut server = server.restart();
    assert!(server.said().contains("memory budget changed from=8388608 to=268435456"), "{}", server.said());
    check_all(&server);
    // Kill the server instead of stopping it, so that the growth is only in the journal.
    server.kill();
    assert_eq!(budget(&folder), 256 << 20);
    let mut server = server.restart();
    check_all(&server);
    assert_eq!(server.said().matches("memory budget changed").count(), 1, "{}", server.said());
    assert!(server.terminate().success());

    set_memory(&folder, "256MiB", "64MiB");
    for option in ["--log=info", "--shrink"] {
        let config = folder.path("bruit.toml");
        let output = bruit(&["serve", "--config", config.to_str().unwrap(), option]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{said}");
        assert!(said.contains("67108864") && said.contains("268435456"), "the error must contain both budgets: {said}");
    }
    // Without `memory` in the configuration, the server keeps its budget.
    let text = fs::read_to_string(folder.path("bruit.toml")).unwrap();
    folder.write("bruit.toml", text.replace("memory = \"64MiB\"\n", ""));
    let server = server.restart();
    check_all(&server);
    assert_eq!(budget(&folder), 256 << 20);
}

#[test]
fn a_server_that_joins_a_realm_has_its_own_memory() {
    let (first, second) = (Folder::new(), Folder::new());
    let server = Server::start(&first, "");
    let realm = first.path("data").join("realm.bruit");
    for memory in ["8MiB", "64MiB"] {
        let mut joined = Server::start_in_realm(&second, &realm);
        assert!(joined.terminate().success());
        fs::remove_dir_all(second.path("data")).unwrap();
        set_memory(&second, "16MiB", memory);
        let text = fs::read_to_string(second.path("bruit.toml")).unwrap();
        folder_realm(&second, &text, &realm);
        let mut joined = joined.restart();
        let inspect = json(&["store", "inspect", "--json", second.path("data").to_str().unwrap()]);
        let [ours, theirs] = [&first, &second].map(realm_id);
        assert_eq!(ours, theirs);
        let (mebibytes, bytes) = (memory.trim_end_matches("MiB"), &inspect["clearinghouse"]["memory_bytes"]);
        let mebibytes = mebibytes.parse::<u64>().unwrap();
        assert!(bytes.as_u64().unwrap() > (mebibytes << 20) / 10 * 7, "{bytes} of {memory}");
        assert!(joined.terminate().success());
        fs::remove_dir_all(second.path("data")).unwrap();
    }
    drop(server);
}

/// Sets the realm in the configuration, because a restart does not repeat command-line options.
fn folder_realm(folder: &Folder, text: &str, realm: &std::path::Path) {
    folder.write("bruit.toml", format!("realm = {realm:?}\n{text}"));
}

fn realm_id(folder: &Folder) -> String {
    let report = json(&["store", "inspect", "--json", folder.path("data").to_str().unwrap()]);
    report["clearinghouse"]["realm"].as_str().unwrap().to_owned()
}

#[test]
fn resize_tells_what_it_would_do_and_does_it_on_a_store_that_is_not_in_use() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "");
    tell("report", &server, MESSAGES[0], 0);
    let data = folder.path("data");
    let data = data.to_str().unwrap();
    let report = printed(&["store", "resize", data, "--memory", "64MiB", "--dry-run"]);
    assert!(report.starts_with("the memory budget would change from 16.0 MiB to 64.0 MiB\n"), "{report}");
    assert!(report.contains("listed signatures: ") && report.contains("4 times as many"), "{report}");
    let report = json(&["store", "resize", data, "--memory", "30MiB", "--dry-run", "--json"]);
    let listed = &report["structures"][0];
    assert_eq!((&report["done"], &listed["lines_now"]), (&false.into(), &listed["lines_then"]));
    assert_eq!(listed["capacity_now"], listed["capacity_then"]);
    // The server is still running.
    refused(&["store", "resize", data, "--memory", "64MiB"]);
    assert!(server.terminate().success());
    let line = refused(&["store", "resize", data, "--memory", "8MiB"]);
    assert!(line.contains("16.0 MiB") && line.contains("8.0 MiB") && line.contains("--shrink"), "{line}");
    let line = refused(&["store", "resize", data, "--memory", "8MiB", "--shrink"]);
    assert!(line.contains("do not fit"), "{line}");
    refused(&["store", "resize", data, "--memory", "1MiB"]);
    refused(&["store", "resize", folder.path("nowhere").to_str().unwrap(), "--memory", "64MiB"]);
    let report = json(&["store", "resize", data, "--memory", "64MiB", "--json"]);
    assert_eq!((&report["done"], &report["to_bytes"]), (&true.into(), &(64_u64 << 20).into()));
    assert_eq!(budget(&folder), 64 << 20);
    set_memory(&folder, "16MiB", "64MiB");
    let server = server.restart();
    tell("check", &server, MESSAGES[0], 0);
    assert!(!server.said().contains("memory budget changed"));
}
