//! An isolated environment for the commands of one page. The commands run as root, but in separate namespaces, so they
//! can do no harm.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::Folder;
use crate::compare::agrees;
use crate::page::{Item, Output};

/// Options of `unshare` for separate users, mounts, network and processes. All processes end when the first one does.
const NAMESPACES: [&str; 6] = ["--map-root-user", "--mount", "--net", "--pid", "--fork", "--kill-child"];
/// The example program that creates the captures for the pages about the survey.
const EXAMPLE: &str = "analysts";
/// Time limit for a page. A page that takes longer counts as hanging.
const PATIENCE_SECONDS: &str = "300";

/// Shell functions. `step` runs a command in the shell of the page, and records its output and exit code. `stop_server`
/// stops the running server.
const PRELUDE: &str = r#"
shopt -s expand_aliases
set -o pipefail
step() { # NUMBER CODE, and the command on standard input
    local results=/mnt/results command code=0
    command=$(cat)
    eval "$command" > "$results/$1.out" 2> "$results/$1.err" < /dev/null || code=$?
    echo "$code" > "$results/$1.code"
    [ "$code" -eq "$2" ] || exit 1
}
stop_server() { # [SIGNAL]
    local server
    server=$(cat /mnt/server.pid)
    kill -s "${1:-TERM}" "$server"
    while kill -0 "$server" 2> /dev/null; do sleep 0.02; done
}
"#;

/// Panics if this system does not allow [`NAMESPACES`], so that pages are not skipped silently.
pub(crate) fn ensure_available() {
    let output = Command::new("unshare").args(NAMESPACES).arg("true").output();
    let output = output.unwrap_or_else(|error| panic!("unshare (package util-linux) is missing: {error}"));
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "the commands of the pages cannot be run: this system does not allow new namespaces ({}). Allow them with \
         `sysctl kernel.unprivileged_userns_clone=1` or, in a container, `--security-opt seccomp=unconfined`",
        why.trim()
    );
}

/// Runs a page. Returns the first error, if there is one.
pub(crate) fn run(page: &str, items: &[Item]) -> Result<(), String> {
    let results = Folder::new();
    results.write("page.sh", script(items));
    let output = command(&results).output().unwrap();
    for (number, item) in items.iter().enumerate() {
        check(&results, number, item, items).map_err(|(line, fault)| {
            let log = fs::read_to_string(results.path("server.log")).unwrap_or_default();
            let machine = String::from_utf8_lossy(&output.stderr);
            format!("{page}:{line}: {fault}\n--- machine ---\n{machine}--- server log ---\n{log}")
        })?;
    }
    Ok(())
}

fn command(results: &Folder) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal", "KILL", PATIENCE_SECONDS, "unshare"]).args(NAMESPACES);
    command.args(["bash", "-c", include_str!("machine.sh")]);
    command.env("REPOSITORY", repository()).env("PROGRAM", env!("CARGO_BIN_EXE_bruit"));
    command.env("LABORATORY", laboratory()).env("EXAMPLES", examples()).env("RESULTS", results.path(""));
    command
}

/// Returns the root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the folder in which cargo places the examples.
fn examples() -> PathBuf {
    let folder = built("examples");
    ensure_built(&folder.join(EXAMPLE), &["--example", EXAMPLE]);
    folder
}

/// Returns the path of the laboratory's program.
fn laboratory() -> PathBuf {
    let program = built("bruit-lab");
    ensure_built(&program, &["--bin", "bruit-lab"]);
    program
}

fn built(name: &str) -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_bruit")).with_file_name(name)
}

/// Builds `target` if `file` does not exist. Cargo builds the target when it builds all tests, but not when it builds
/// only this test.
fn ensure_built(file: &Path, target: &[&str]) {
    if file.is_file() {
        return;
    }
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--workspace"]).args(target).current_dir(repository());
    if built("").ends_with("release") {
        cargo.arg("--release");
    }
    assert!(cargo.status().unwrap().success(), "failed to build {target:?}");
}

/// Converts the page to a shell script.
fn script(items: &[Item]) -> String {
    let mut script = PRELUDE.to_owned();
    for (number, item) in items.iter().enumerate() {
        let (code, text) = match item {
            Item::Command(command) => (command.code, command.text.clone()),
            Item::File { path, text, .. } => {
                (0, format!("mkdir -p $(dirname {path}); cat > {path} <<'END_OF_FILE'\n{text}\nEND_OF_FILE"))
            }
            Item::Output { .. } | Item::Skip { .. } => continue,
        };
        writeln!(script, "step {number} {code} <<'END_OF_COMMAND'\n{text}\nEND_OF_COMMAND").unwrap();
    }
    script
}

/// Checks the result of one item. Returns the line and a description of the error.
fn check(results: &Folder, number: usize, item: &Item, items: &[Item]) -> Result<(), (usize, String)> {
    match item {
        Item::Command(command) => {
            succeeded(results, number, &command.text, command.code).map_err(|fault| (command.line, fault))?;
            let output = command.output.as_ref().map_or(Ok(()), |output| is_shown(results, number, output));
            output.map_err(|fault| (command.line, format!("{}\n{fault}", command.text)))
        }
        Item::File { line, path, .. } => succeeded(results, number, path, 0).map_err(|fault| (*line, fault)),
        Item::Output { line, output } => {
            let is_run = |item: &Item| matches!(item, Item::Command(_));
            let last = items
                .iter()
                .take(number)
                .rposition(is_run)
                .ok_or_else(|| (*line, "there is no command before this output".to_owned()))?;
            is_shown(results, last, output).map_err(|fault| (*line, fault))
        }
        Item::Skip { .. } => Ok(()),
    }
}

fn succeeded(results: &Folder, number: usize, what: &str, code: i32) -> Result<(), String> {
    let read = |kind: &str| fs::read_to_string(results.path(&format!("{number}.{kind}"))).unwrap_or_default();
    let found = read("code");
    if found.trim() == code.to_string() {
        return Ok(());
    }
    let found = if found.is_empty() { "none (the command was not reached, or did not end)" } else { found.trim() };
    Err(format!("{what}\nexit code: {found}; expected {code}\n--- printed ---\n{}{}", read("out"), read("err")))
}

fn is_shown(results: &Folder, number: usize, output: &Output) -> Result<(), String> {
    let printed = fs::read_to_string(results.path(&format!("{number}.out"))).unwrap_or_default();
    if agrees(output, &printed) {
        return Ok(());
    }
    Err(format!("--- the page shows ---\n{}\n--- it prints ---\n{printed}", output.text))
}
