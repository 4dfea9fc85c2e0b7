//! The commands that `bruit serve` suggests at startup work.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use bruit_engine::time::Time;
use bruit_engine::trust::Policy;
use bruit_store::{Clearinghouse, FOUNDING_FILE, Founding, Options};
use common::{Answer, Folder, Server, bruit, json, printed, program, run, testdata};

/// Returns the commands that the server suggests, changed to run the built program instead of an installed one.
fn suggestions(server: &Server) -> Vec<String> {
    let is_command = |line: &&str| line.starts_with("bruit ") && (line.contains('<') || line.contains("--token-file"));
    let commands = server.greeting.lines().map(str::trim).filter(is_command);
    commands.map(|line| line.replacen("bruit ", concat!(env!("CARGO_BIN_EXE_bruit"), " "), usize::MAX)).collect()
}

#[test]
fn the_commands_it_suggests_work() {
    let folder = Folder::new();
    let server = Server::start(&folder, "");
    let suggestions = suggestions(&server);
    assert!(!suggestions.is_empty(), "{}", server.greeting);
    folder.write("mail", fs::read(testdata("razor/text.eml")).unwrap());
    for suggestion in suggestions {
        let answer = run(program("sh", "dash").args(["-e", "-c", &suggestion]).current_dir(folder.path("")), b"");
        answer.expect(0, &server);
    }
}

/// Regression test: `inspect` listed the server's own keys and logs as files of other programs.
#[test]
fn inspect_knows_every_file_that_a_server_keeps() {
    let folder = Folder::new();
    let mut server = Server::start(&folder, "");
    let mail = fs::read(testdata("razor/text.eml")).unwrap();
    run(Command::new(env!("CARGO_BIN_EXE_bruit")).args(["report", "--server", &server.url()]), &mail)
        .expect(0, &server);
    server.terminate();
    let data = server.data();
    for file in ["node.key", "fuzzy.key", "admin.token", "shelf"] {
        assert!(data.join(file).exists(), "{file}");
    }
    let report = printed(&["store", "inspect", data.to_str().unwrap()]);
    assert!(!report.contains("other files"), "{report}");
    fs::write(data.join("notes.txt"), "").unwrap();
    let report = json(&["store", "inspect", "--json", data.to_str().unwrap()]);
    assert_eq!(report["others"], serde_json::json!(["notes.txt"]));
}

/// Runs `bruit` with its address space limited to this many bytes.
fn limited(bytes: u64, arguments: &[&str]) -> Answer {
    let script = format!("ulimit -v {} && exec \"$0\" \"$@\"", bytes / 1024);
    let mut command = program("sh", "dash");
    run(command.args(["-c", &script, env!("CARGO_BIN_EXE_bruit")]).args(arguments), b"")
}

#[test]
fn a_budget_larger_than_the_memory_is_refused_in_one_line_and_nothing_is_founded() {
    let folder = Folder::new();
    let data = folder.path("data");
    folder.write("bruit.toml", format!("data = {data:?}\nmemory = \"32GiB\"\n"));
    let config = folder.path("bruit.toml");
    let answer = limited(4 << 30, &["serve", "--log", "error", "--config", config.to_str().unwrap()]);
    assert_eq!((answer.code, answer.complaints.lines().count()), (Some(1), 1), "{answer:?}");
    for part in ["not enough memory: ", " GiB for the ", " (budget: 32 GiB)", "lower `memory`"] {
        assert!(answer.complaints.contains(part), "{part:?} in {answer:?}");
    }
    assert!(!data.join(FOUNDING_FILE).exists(), "nothing was created, so a smaller budget can still be chosen");
}

/// Regression test: the new budget was journaled before its memory was allocated. The store could then not be opened
/// again.
#[test]
fn a_budget_that_grows_beyond_the_memory_is_refused_and_the_store_stays_as_it_was() {
    let folder = Folder::new();
    let data = folder.path("data");
    let config = folder.path("bruit.toml");
    let mut server = Server::start(&folder, "");
    assert!(server.terminate().success());
    folder.write("bruit.toml", format!("data = {data:?}\nmemory = \"16GiB\"\n"));
    let answer = limited(4 << 30, &["serve", "--log", "error", "--config", config.to_str().unwrap()]);
    assert_eq!((answer.code, answer.complaints.lines().count()), (Some(1), 1), "{answer:?}");
    assert!(answer.complaints.contains("not changed") && answer.complaints.contains("(budget: 16 GiB)"), "{answer:?}");
    let mut server = Server::start(&folder, "");
    assert!(server.terminate().success());
}

#[test]
fn a_store_that_the_memory_has_no_room_for_is_refused_with_and_without_its_snapshot() {
    const BUDGET: u64 = 1 << 30;
    let folder = Folder::new();
    let data = folder.path("data");
    let found = || Founding::new([7; 16], BUDGET, Policy::default(), Time(1_728_432_000)).unwrap();
    let store = Clearinghouse::open_or_found(&data, &Options::default(), found, &mut |_| {}).unwrap();
    let _ = store.close();
    // The first limit is too low for the empty books. The second is too low for a second set of books, which is needed
    // while the snapshot is read.
    for bytes in [BUDGET / 2, BUDGET * 3 / 2] {
        let answer = limited(bytes, &["store", "inspect", data.to_str().unwrap()]);
        assert_eq!((answer.code, answer.complaints.lines().count()), (Some(2), 1), "{answer:?}");
        for part in ["not enough memory: ", " (budget: 1 GiB)", "nothing was changed"] {
            assert!(answer.complaints.contains(part), "{part:?} in {answer:?}");
        }
    }
}

#[test]
fn dangerous_settings_are_named_before_and_at_the_start() {
    let folder = Folder::new();
    let file = folder.path("bruit.toml");
    folder.write(
        "bruit.toml",
        "own_networks = [\"0.0.0.0/0\"]\nmemory = \"8MiB\"\n[dcc]\npassword = \"a-long-password\"\n",
    );
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let output = bruit(&["serve", "--check-config", "--config", file.to_str().unwrap()]);
    let warnings = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && output.stdout == b"the configuration is valid\n", "{warnings}");
    let lines: Vec<&str> = warnings.lines().collect();
    assert!(lines[0].starts_with("warning: own_networks: 0.0.0.0/0 "), "{warnings}");
    assert!(lines[1].starts_with("warning: configuration file: the file has mode 0666"), "{warnings}");
    assert_eq!(lines.len(), 2, "{warnings}");

    let server = Server::start(&folder, "[fuzzy]\nlisten = \"127.0.0.1:0\"\nrights = { report = \"anyone\" }\n");
    assert!(server.said().contains("\"anyone\" is treated as \"accounts\""), "{}", server.said());
}
