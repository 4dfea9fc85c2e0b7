//! Comparison of parts and signatures with those of the unmodified Razor client, message by message.
//!
//! If the environment variable `BRUIT_CORPUS` names a folder, every file in it is compared too.

mod client;
mod fragments;
mod generator;

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use bruit_signatures::razor::{command_line_messages, parts, sign};
use sha1::{Digest as _, Sha1};
use tempfile::TempDir;

/// Number of generated messages. This is enough to combine every fragment with many others.
const GENERATED: u64 = 4_000;

/// Number of messages passed to the `razor-check` command, which starts Perl for each message.
const COMMANDS: u64 = 16;

const EP4S: [&str; 2] = ["7542-10", "2718281828-10"];

#[test]
fn generated_messages_are_signed_as_the_client_signs_them() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..GENERATED).map(|seed| write_message(&folder, seed)).collect();
    let died = compare(&files, &EP4S);
    assert!(died < files.len() / 20, "the client crashed on {died} messages, too many for a useful comparison");
}

#[test]
fn other_separators_cut_where_the_client_cuts() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..200).map(|seed| write_message(&folder, seed)).collect();
    compare(&files, &["1-13-10", "4294967295-32", "77-101"]);
}

#[test]
fn real_messages_are_signed_as_the_client_signs_them() {
    let mut files = Vec::new();
    collect_files(Path::new(&env::var_os("BRUIT_CORPUS").unwrap_or_else(|| testdata().into())), &mut files);
    assert!(!files.is_empty());
    compare(&files, &EP4S);
}

#[test]
fn the_command_signs_as_its_modules_do() {
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for seed in 0..COMMANDS {
        let file = write_message(&folder, seed);
        let expected = client::command_output(home.path(), &file);
        assert_eq!(lines_of_command(&fs::read(&file).unwrap()), expected, "seed {seed}");
    }
}

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/razor")
}

fn write_message(folder: &TempDir, seed: u64) -> PathBuf {
    let file = folder.path().join(seed.to_string());
    fs::write(&file, generator::message(seed)).unwrap();
    file
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot read {}: {error}", folder.display()));
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_files(&path, files);
        } else {
            files.push(path);
        }
    }
}

/// Compares all `files`. Returns the number of files on which the client crashed. Fails with the first differences.
fn compare(files: &[PathBuf], ep4s: &[&str]) -> usize {
    let blocks = client::blocks(files, ep4s);
    let differences: Vec<_> =
        files.iter().zip(&blocks).filter_map(|(file, theirs)| difference(file, theirs, ep4s)).collect();
    let (count, shown) = (differences.len(), differences.iter().take(10).cloned().collect::<String>());
    assert_eq!(count, 0, "differences in {count} of {} messages:\n{shown}", files.len());
    blocks.iter().filter(|block| has_died(block)).count()
}

/// Returns the differences between our results for `file` and the client's. If the client crashed, only parts are
/// compared.
fn difference(file: &Path, theirs: &str, ep4s: &[&str]) -> Option<String> {
    let block = block(&fs::read(file).unwrap(), ep4s);
    let (ours, theirs) = if has_died(theirs) { (parts_of(&block), parts_of(theirs)) } else { (&block[..], theirs) };
    (ours != theirs).then(|| format!("{}:\n{}", file.display(), first_difference(ours, theirs)))
}

/// Returns true if the client crashed on a message. Only the crash described in the module documentation is allowed.
fn has_died(block: &str) -> bool {
    let reason = block.split_once("died ").map(|(_, reason)| reason);
    assert!(reason.is_none_or(|reason| reason.starts_with("Wide character")), "{reason:?}");
    reason.is_some()
}

fn parts_of(block: &str) -> &str {
    block.split("sign ").next().unwrap_or(block)
}

fn first_difference(ours: &str, theirs: &str) -> String {
    let mut pairs = ours.lines().map(Some).chain([None]).zip(theirs.lines().map(Some).chain([None]));
    let (ours, theirs) = pairs.find(|(ours, theirs)| ours != theirs).unwrap_or_default();
    format!("  ours: {}\n  theirs: {}\n", ours.unwrap_or("nothing"), theirs.unwrap_or("nothing"))
}

/// Formats our results like the output of `client.pl`.
fn block(message: &[u8], ep4s: &[&str]) -> String {
    let mut text = String::new();
    for (index, part) in parts(message).iter().enumerate() {
        let digest: String = Sha1::digest(part.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "part {index} {digest}").unwrap();
    }
    for ep4 in ep4s {
        writeln!(text, "sign {ep4}").unwrap();
        for part in sign(message, &ep4.parse().unwrap()) {
            writeln!(text, "e4 {} {}", part.index, part.signatures.e4).unwrap();
            for e8 in part.signatures.e8 {
                writeln!(text, "e8 {} {e8}", part.index).unwrap();
            }
        }
    }
    text
}

/// Formats our results like the output of `razor-check -H`.
fn lines_of_command(file: &[u8]) -> String {
    let mut text = String::new();
    for (mail, message) in command_line_messages(file).iter().enumerate() {
        for part in sign(message, &"7542-10".parse().unwrap()) {
            let name = format!("{}.{}", mail + 1, part.index);
            writeln!(text, "{name} e4: {}, ep4: 7542-10", part.signatures.e4).unwrap();
            for e8 in part.signatures.e8 {
                writeln!(text, "{name} e8: {e8}").unwrap();
            }
        }
    }
    text
}
