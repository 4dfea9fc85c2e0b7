//! Runs `bruit-lab`, with a temporary folder for its files.

#![allow(dead_code, reason = "not every test uses every function")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Runs `bruit-lab`.
pub(crate) fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bruit-lab")).args(arguments).output().unwrap()
}

/// Runs `bruit-lab`, asserts that it succeeds without error output, and returns its output.
pub(crate) fn printed(arguments: &[&str]) -> String {
    let output = lab(arguments);
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs `bruit-lab` and parses its output as JSON.
pub(crate) fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments)).unwrap()
}

/// Asserts exit code 2, no output, and one line on stderr. Returns that line.
pub(crate) fn refused(arguments: &[&str]) -> String {
    let output = lab(arguments);
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {line}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    let is_one_line = line.ends_with('\n') && line.lines().count() == 1;
    assert!(line.starts_with("bruit-lab: ") && is_one_line, "{arguments:?}: {line}");
    line
}

/// A temporary folder, removed when the test ends.
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
}

/// Returns the peak memory of all programs started by this test process, in bytes.
pub(crate) fn peak_memory_bytes() -> u64 {
    use nix::sys::resource::{UsageWho, getrusage};
    let kibibytes = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
    u64::try_from(kibibytes).unwrap() * 1024
}
