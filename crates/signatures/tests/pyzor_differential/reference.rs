//! Finds and runs the original client.

use std::env;
use std::fs::{self, File};
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The original's result for a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Digest {
        digest: String,
        lines: Vec<String>,
    },
    /// The original failed with this exception.
    Raised(String),
}

/// Path of the installed client.
pub(crate) fn program() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|folder| folder.join("pyzor")).find(|program| program.is_file());
    found.expect("pyzor is not installed; `cargo xtask test` installs it, or: apt-get install pyzor")
}

/// Path where `cargo xtask test` puts the code of Pyzor 1.1.
pub(crate) fn version_1_1() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("python/pyzor-1.1.2");
    let is_there = folder.join("pyzor/digest.py").is_file();
    assert!(is_there, "pyzor 1.1.2 is not in {}; `cargo xtask test --only nextest` puts it there", folder.display());
    folder
}

/// Returns the results for `messages`. They are computed by the installed client's code or by the code in `folder`, in
/// both cases with the client's interpreter.
pub(crate) fn ask(messages: &[Vec<u8>], folder: Option<&Path>) -> Vec<Answer> {
    let mut input = tempfile::tempfile().unwrap();
    for message in messages {
        input.write_all(&u32::try_from(message.len()).unwrap().to_be_bytes()).unwrap();
        input.write_all(message).unwrap();
    }
    input.rewind().unwrap();
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pyzor_differential/driver.py");
    let output = output(Command::new(interpreter()).arg(driver).args(folder), input);
    let answers: Vec<Answer> = output.lines().map(parse).collect();
    assert_eq!(answers.len(), messages.len());
    answers
}

/// Returns the output of `pyzor digest` for `message`.
pub(crate) fn ask_program(message: &[u8], home: &Path) -> String {
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(message).unwrap();
    input.rewind().unwrap();
    output(Command::new(program()).arg("--homedir").arg(home).arg("digest"), input).trim_end().to_owned()
}

/// Returns the interpreter named in the client's first line.
fn interpreter() -> String {
    let script = fs::read_to_string(program()).unwrap();
    script.lines().next().and_then(|line| line.strip_prefix("#!")).expect("pyzor is a script").trim().to_owned()
}

/// Returns the output of a command, run without environment variables that affect Python.
fn output(command: &mut Command, input: File) -> String {
    let command = command.stdin(input).stderr(Stdio::inherit()).env_remove("PYTHONPATH").env_remove("PYTHONHOME");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?} ended with {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Parses one line of the driver's output.
fn parse(line: &str) -> Answer {
    let mut words = line.split(' ');
    match words.next().unwrap() {
        "!" => Answer::Raised(words.next().unwrap().to_owned()),
        digest => Answer::Digest { digest: digest.to_owned(), lines: words.map(text).collect() },
    }
}

/// Decodes UTF-8 from hex digits.
fn text(digits: &str) -> String {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    String::from_utf8((0..digits.len()).step_by(2).map(byte).collect()).unwrap()
}
