//! The programs of others, run as they are: found, given an input, and ended if they hang.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A program that runs longer than this hangs; coreutils' `timeout` ends it then, with exit code 124.
const PATIENCE_SECONDS: &str = "60";

/// What a program has left behind.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Its exit code; none if a signal ended it.
    pub(crate) code: Option<i32>,
    /// What it printed.
    pub(crate) text: String,
    /// What it printed to stderr.
    pub(crate) complaints: String,
}

/// A command for the program `name` of the Debian package `package`, which must be there.
pub(crate) fn program(name: &str, package: &str) -> Command {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = env::split_paths(&path).any(|folder| folder.join(name).is_file());
    assert!(is_there, "{name} is missing; `cargo xtask test` installs it, or: apt-get install {package}");
    let mut command = Command::new("timeout");
    command.args([PATIENCE_SECONDS, name]);
    command
}

/// Runs `command` with `input`, to its end.
pub(crate) fn run(command: &mut Command, input: &[u8]) -> Answer {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        // A program that has seen enough closes its end, which is no fault here.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    });
    Answer::from(output)
}

/// A file of `testdata/`.
pub(crate) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

impl Answer {
    /// Asserts the exit code, and passes the rest on.
    #[track_caller]
    pub(crate) fn expect(self, code: i32, server: &super::Server) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}\n--- the server ---\n{}", server.said());
        self
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), text: text(&output.stdout), complaints: text(&output.stderr) }
    }
}
