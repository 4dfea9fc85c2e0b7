//! `bruit filter add`.

use std::io::Write;
use std::path::{Path, PathBuf};

use bruit_filters::FingerprintKey;
use bruit_filters::file::FilterFile;
use serde_json::json;

use super::keys::KeyFiles;
use super::storage::{ChangeLock, read, write_filter, wrong};
use crate::failure::Failure;
use crate::quantity::grouped;

/// What `bruit filter add` is asked.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The filter to add to
    file: PathBuf,

    #[command(flatten)]
    keys: KeyFiles,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<(), Failure> {
    let _lock = ChangeLock::take(&arguments.file)?;
    let mut stored = read(&arguments.file)?;
    let key = key_of(&stored, &arguments.file)?;
    let summary = arguments.keys.for_each_batch(&key, false, |batch| {
        stored.filter.insert_batch(batch.fingerprints());
        Ok(())
    })?;
    write_filter(&arguments.file, &stored)?;
    if arguments.json {
        let file = arguments.file.to_string_lossy();
        writeln!(output, "{}", json!({ "file": file, "keys": summary.keys, "empty_lines": summary.empty_lines }))?;
        return Ok(());
    }
    let skipped = match summary.empty_lines {
        0 => String::new(),
        lines => format!(", {} skipped", counted(lines, "empty line")),
    };
    writeln!(output, "{}: {} added{skipped}", arguments.file.display(), counted(summary.keys, "key"))?;
    Ok(())
}

/// `1 key`, `1,000 keys`.
fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// The key inside `stored`, without which no key of a line has a place.
pub(super) fn key_of(stored: &FilterFile, path: &Path) -> Result<FingerprintKey, Failure> {
    stored.key.clone().ok_or_else(|| wrong(path, "it holds no key, so it can be merged and compared but not asked"))
}
