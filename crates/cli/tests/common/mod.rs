//! Runs `bruit`, with a temporary folder for its files.

#![allow(dead_code, reason = "not every test uses all of it")]

pub(crate) mod bank;
pub(crate) mod browser;
mod clients;
pub(crate) mod dashboard;
pub(crate) mod dovecot;
pub(crate) mod lossy;
pub(crate) mod milter;
pub(crate) mod postfix;
mod program;
pub(crate) mod recorder;
pub(crate) mod sendmail;
mod server;
pub(crate) mod smtp;
pub(crate) mod wire;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

#[allow(unused_imports, reason = "not every test runs other programs")]
pub(crate) use clients::{PyzorHome, RazorHome};
#[allow(unused_imports, reason = "not every test runs other programs")]
pub(crate) use program::{Answer, output_of, program, run, testdata};
#[allow(unused_imports, reason = "not every test runs a server")]
pub(crate) use server::{FakeClock, Server};

/// Maximum wait for a condition.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "timed out: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Runs `bruit`.
pub(crate) fn bruit(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bruit")).args(arguments).output().unwrap()
}

/// Runs `bruit`, asserts that it succeeds without error output, and returns its output.
pub(crate) fn printed(arguments: &[&str]) -> String {
    let output = bruit(arguments);
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs `bruit` as an administrator on the server's machine, asserts success, and returns its output.
pub(crate) fn administer(server: &Server, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
    command
        .args(arguments)
        .env("BRUIT_DATA", server.data())
        .env("BRUIT_SERVER", server.url())
        .env_remove("BRUIT_TOKEN");
    let output = command.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}\n{}", server.said());
    String::from_utf8(output.stdout).unwrap()
}

/// Runs `bruit` and returns its output as JSON.
pub(crate) fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments)).unwrap()
}

/// Asserts exit code 2, no output, and one line on stderr. Returns that line.
pub(crate) fn refused(arguments: &[&str]) -> String {
    let output = bruit(arguments);
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    assert!(line.starts_with("bruit: ") && line.ends_with('\n') && line.lines().count() == 1, "{arguments:?}: {line}");
    line
}

/// A folder that is deleted on drop.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn copy(&self, from: &str, to: &str) {
        fs::copy(self.path(from), self.path(to)).unwrap();
    }

    /// Returns the names of all files, including hidden ones, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Runs `bruit filter` with the arguments in `words`, separated by spaces, and with `input` as standard input.
    pub(crate) fn run_with(&self, words: &str, input: &[u8]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bruit"));
        command.arg("filter").args(words.split_whitespace()).current_dir(self.0.path());
        output_of(&mut command, input)
    }

    /// Runs `bruit filter`, asserts success, and returns its output.
    pub(crate) fn run(&self, words: &str) -> Vec<u8> {
        self.printed(words, b"")
    }

    pub(crate) fn printed(&self, words: &str, input: &[u8]) -> Vec<u8> {
        let output = self.run_with(words, input);
        assert!(output.status.success() && output.stderr.is_empty(), "{words}: {output:?}");
        output.stdout
    }

    /// Asserts exit code 2, no output, one line on stderr, and no changed file. Returns that line.
    pub(crate) fn refused(&self, words: &str, input: &[u8]) -> String {
        let before: Vec<_> = self.names().into_iter().map(|name| (self.read(&name), name)).collect();
        let output = self.run_with(words, input);
        let line = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}: {line}");
        assert!(output.stdout.is_empty(), "{words}");
        assert!(line.starts_with("bruit: ") && line.ends_with('\n') && line.lines().count() == 1, "{words}: {line}");
        let after: Vec<_> = self.names().into_iter().map(|name| (self.read(&name), name)).collect();
        assert!(before == after, "{words} changed a file");
        line
    }
}

/// Returns the highest peak memory of any program started by this test process, in bytes.
pub(crate) fn peak_memory_bytes() -> u64 {
    use nix::sys::resource::{UsageWho, getrusage};
    let kibibytes = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
    u64::try_from(kibibytes).unwrap() * 1024
}
