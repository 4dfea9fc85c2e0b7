//! Comparison of our digests with those of the original client, which must be installed.
//!
//! Messages are generated from fixed seeds. If the environment variable `BRUIT_CORPUS` names a folder, all files in it
//! are compared too.

mod generator;
mod pieces;
mod reference;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use bruit_signatures::pyzor::{Digest, Version, digest, predigest};

use self::reference::Answer;

/// Number of generated messages.
const MESSAGES: u64 = 5000;
/// Exceptions that the original client raises on messages without a digest. See `bruit_signatures::pyzor`.
const RAISED: [&str; 4] = ["AttributeError", "TypeError", "UnicodeError", "ValueError"];
/// Maximum percentage of messages on which the original client raises an exception.
const RAISED_PERCENTAGE_MAX: usize = 2;
/// Minimum percentage of generated messages with a usable line. Messages without such lines test little.
const USABLE_PERCENTAGE_MIN: usize = 60;
/// Number of messages passed to the `pyzor` command, which starts Python for each message.
const MESSAGES_BY_COMMAND: u64 = 24;

#[test]
fn generated_messages_have_the_digests_of_version_1_0() {
    let messages = generated(MESSAGES);
    assert_same(&messages, Version::V1_0);
    let usable = messages.iter().filter(|(_, message)| digest(message, Version::V1_0) != Digest::EMPTY).count();
    assert!(usable * 100 >= messages.len() * USABLE_PERCENTAGE_MIN, "only {usable} have a usable line");
}

#[test]
fn generated_messages_have_the_digests_of_version_1_1() {
    assert_same(&generated(MESSAGES), Version::V1_1);
}

#[test]
fn messages_of_the_corpus_have_the_same_digests() {
    let Some(folder) = env::var_os("BRUIT_CORPUS") else { return };
    let mut files = Vec::new();
    find_files(Path::new(&folder), &mut files);
    assert!(!files.is_empty(), "the folder named by BRUIT_CORPUS contains no files");
    let messages: Vec<(String, Vec<u8>)> =
        files.iter().map(|file| (file.display().to_string(), fs::read(file).unwrap())).collect();
    assert_same(&messages, Version::V1_0);
    assert_same(&messages, Version::V1_1);
}

/// The driver and the `pyzor` command compute the same digests.
#[test]
fn the_command_prints_the_same_digests() {
    let home = tempfile::tempdir().unwrap();
    let mut compared = 0;
    for (name, message) in generated(MESSAGES_BY_COMMAND * 2) {
        let answer = reference::ask(std::slice::from_ref(&message), None).remove(0);
        let Answer::Digest { digest: expected, .. } = answer else { continue };
        assert_eq!(reference::ask_program(&message, home.path()), expected, "{name}");
        assert_eq!(digest(&message, Version::V1_0).to_string(), expected, "{name}");
        compared += 1;
        if compared == MESSAGES_BY_COMMAND {
            return;
        }
    }
    panic!("too few messages have a digest");
}

/// Generates messages, named by their seeds.
fn generated(count: u64) -> Vec<(String, Vec<u8>)> {
    (0..count).map(|seed| (format!("seed {seed}"), generator::message(seed))).collect()
}

/// Compares all messages and prints the first few that differ.
fn assert_same(messages: &[(String, Vec<u8>)], version: Version) {
    let folder = (version == Version::V1_1).then(reference::version_1_1);
    let bytes: Vec<Vec<u8>> = messages.iter().map(|(_, message)| message.clone()).collect();
    let answers = reference::ask(&bytes, folder.as_deref());
    let mut raised = 0;
    let mut differences = Vec::new();
    for ((name, message), answer) in messages.iter().zip(answers) {
        match answer {
            Answer::Raised(exception) => {
                assert!(RAISED.contains(&exception.as_str()), "{name}: {exception}");
                raised += 1;
            }
            Answer::Digest { digest: expected, lines } => {
                if digest(message, version).to_string() != expected {
                    differences.push(difference(name, message, version, &lines));
                }
            }
        }
    }
    let shown = differences.iter().take(5).cloned().collect::<Vec<_>>().join("\n\n");
    assert!(differences.is_empty(), "{} of {} differ\n{shown}", differences.len(), messages.len());
    assert!(raised * 100 <= messages.len() * RAISED_PERCENTAGE_MAX, "{raised} of {} have no answer", messages.len());
}

/// Formats a difference.
fn difference(name: &str, message: &[u8], version: Version, expected: &[String]) -> String {
    let ours = predigest(message, version);
    format!("{name}, {version:?}\nours:   {ours:?}\ntheirs: {expected:?}\n{}", message.escape_ascii())
}

/// Finds all files in `folder`, sorted.
fn find_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            find_files(&entry, files);
        } else {
            files.push(entry);
        }
    }
}
