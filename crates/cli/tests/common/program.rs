//! Runs third-party programs: finds them, passes input, and stops them if they hang.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Time limit for a program. After this time, coreutils' `timeout` stops the program and exits with 124.
const PATIENCE_SECONDS: &str = "60";

/// Result of running a program.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Exit code, or `None` if a signal terminated the program.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) text: String,
    /// Standard error.
    pub(crate) complaints: String,
}

/// Returns a command for the program `name`. Panics if the Debian package `package` is not installed.
pub(crate) fn program(name: &str, package: &str) -> Command {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_there = env::split_paths(&path).any(|folder| folder.join(name).is_file());
    assert!(is_there, "{name} is missing; `cargo xtask test` installs it, or: apt-get install {package}");
    let mut command = Command::new("timeout");
    command.args([PATIENCE_SECONDS, name]);
    command
}

/// Runs `command` with `input` as standard input, and waits until it exits.
pub(crate) fn run(command: &mut Command, input: &[u8]) -> Answer {
    Answer::from(output_of(command, input))
}

/// Runs `command` with `input` as standard input, and returns its output.
pub(crate) fn output_of(command: &mut Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // Ignore errors: a program that refuses its arguments exits without reading its input.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

/// Returns a path in `testdata/`.
pub(crate) fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata").join(name)
}

impl Answer {
    /// Asserts the exit code, and returns the answer.
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
