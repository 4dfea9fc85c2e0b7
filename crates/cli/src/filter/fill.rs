//! `bruit filter add` and `bruit filter revoke`.

use std::io::Write;
use std::path::{Path, PathBuf};

use bruit_filters::FingerprintKey;
use bruit_filters::file::{FilterFile, History};
use serde_json::json;

use super::pair::existing_revoked;
use super::storage::{read, write_filter};
use bruit_console::Failure;
use bruit_console::files::{ChangeLock, bad_file};
use bruit_console::keys::KeyFiles;
use bruit_console::quantity::grouped;

/// Arguments of `bruit filter add` and `revoke`.
#[derive(Debug, clap::Args)]
pub(super) struct FilterFillArgs {
    /// Filter file
    file: PathBuf,

    #[command(flatten)]
    keys: KeyFiles,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &FilterFillArgs, output: &mut impl Write) -> Result<(), Failure> {
    add(&arguments.file, arguments, output)
}

/// Adds the keys to the revocation filter of the pair.
pub(super) fn revoke(arguments: &FilterFillArgs, output: &mut impl Write) -> Result<(), Failure> {
    add(&existing_revoked(&arguments.file)?, arguments, output)
}

fn add(path: &Path, arguments: &FilterFillArgs, output: &mut impl Write) -> Result<(), Failure> {
    let _lock = ChangeLock::take(path)?;
    let mut stored = read(path)?;
    let key = key_of(&stored, path)?;
    let changed = changed_history(&stored, path)?;
    let summary = arguments.keys.for_each_batch(&key, false, |batch| {
        stored.filter.insert_batch(batch.fingerprints());
        Ok(())
    })?;
    if summary.keys > 0 {
        stored.history = changed;
    }
    write_filter(path, &stored)?;
    if arguments.json {
        let file = path.to_string_lossy();
        writeln!(output, "{}", json!({ "file": file, "keys": summary.keys, "empty_lines": summary.empty_lines }))?;
        return Ok(());
    }
    let skipped = match summary.empty_lines {
        0 => String::new(),
        lines => format!(", {} skipped", counted(lines, "empty line")),
    };
    writeln!(output, "{}: {} added{skipped}", path.display(), counted(summary.keys, "key"))?;
    Ok(())
}

/// Returns the filter's history with one more local change. Fails for merged counts, which cannot be changed.
pub(super) fn changed_history(stored: &FilterFile, path: &Path) -> Result<Option<History>, Failure> {
    let mut history = stored.history.clone();
    history.as_mut().map_or(Ok(()), History::record_change).map_err(|error| bad_file(path, error))?;
    Ok(history)
}

/// Formats a number with a noun: `1 key`, `1,000 keys`.
pub(super) fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Returns the secret key stored in the file, or an error if there is none. Without the secret key, keys cannot be
/// looked up.
pub(super) fn key_of(stored: &FilterFile, path: &Path) -> Result<FingerprintKey, Failure> {
    stored
        .key
        .clone()
        .ok_or_else(|| bad_file(path, "contains no key, so it can be merged and compared but not queried"))
}
