//! The readable transcripts in `testdata/wire`. The README there describes the format.

use std::fs;
use std::path::PathBuf;

/// Sender of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    Client,
    Server,
}

/// Returns the file name and text of all transcripts of a protocol.
pub(crate) fn transcripts(protocol: &str) -> Vec<(String, String)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/wire").join(protocol);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read_to_string(&path).unwrap()))
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no transcripts in {}", folder.display());
    found
}

/// Splits a line into its sender and the rest. Returns `None` for a continuation line.
pub(crate) fn sender(line: &str) -> Option<(Sender, &str)> {
    let sender = match line.chars().next()? {
        '>' => Sender::Client,
        '<' => Sender::Server,
        _ => return None,
    };
    Some((sender, line[1..].strip_prefix(' ').unwrap_or_default()))
}
