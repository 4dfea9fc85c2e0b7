//! `bruit filter remove`, for filters with intuitive counts.

use std::io::Write;
use std::path::{Path, PathBuf};

use bruit_filters::Fingerprint;
use bruit_filters::counting::{Cells as _, CountingFilter, Extension, RemoveError};
use bruit_filters::file::StoredFilter;
use bruit_filters::hash::FingerprintHash;
use serde_json::json;

use super::fill::{changed_history, counted, key_of};
use super::storage::{read, write_filter};
use bruit_console::Failure;
use bruit_console::files::{ChangeLock, bad_file};
use bruit_console::keys::KeyFiles;

const MEMBERSHIP: &str = "keys cannot be removed from a membership filter: keys may share bits; \
                          use a pair (--pair) and revoke, or --counting intuitive";
const REFINED: &str = "keys cannot be removed from refined counts: an addition increments only the lowest cells of \
                       its key and does not record which, so a removal could make the counts of other keys too low; \
                       create the filter with --counting intuitive";

/// Arguments of `bruit filter remove`.
#[derive(Debug, clap::Args)]
pub(super) struct FilterRemoveArgs {
    /// Filter file, created with --counting intuitive
    file: PathBuf,

    #[command(flatten)]
    keys: KeyFiles,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &FilterRemoveArgs, output: &mut impl Write) -> Result<(), Failure> {
    let path = &arguments.file;
    let _lock = ChangeLock::take(path)?;
    let mut stored = read(path)?;
    let changed = changed_history(&stored, path)?;
    let key = key_of(&stored, path)?;
    let filter = intuitive(&mut stored.filter, path)?;
    let mut saturated = 0u64;
    let summary = arguments.keys.for_each_batch(&key, false, |batch| {
        for (name, fingerprint) in batch.keys().zip(batch.fingerprints()) {
            let outcome = remove(filter, fingerprint, &mut saturated);
            outcome.map_err(|error| bad_file(path, format!("{error}: {}", String::from_utf8_lossy(name))))?;
        }
        Ok(())
    })?;
    if summary.keys > 0 {
        stored.history = changed;
    }
    write_filter(path, &stored)?;
    if arguments.json {
        let file = path.to_string_lossy();
        writeln!(output, "{}", json!({ "file": file, "keys": summary.keys, "saturated": saturated }))?;
        return Ok(());
    }
    let kept = match saturated {
        0 => String::new(),
        keys => format!(", but {} had reached the maximum of a cell and cannot be reduced", counted(keys, "count")),
    };
    writeln!(output, "{}: {} removed{kept}", path.display(), counted(summary.keys, "key"))?;
    Ok(())
}

/// Returns the filter, or an error if its kind does not support removal.
fn intuitive<'a>(
    filter: &'a mut StoredFilter,
    path: &Path,
) -> Result<&'a mut CountingFilter<FingerprintHash>, Failure> {
    match filter {
        StoredFilter::ClassicalCounts(filter) if filter.extension() == Extension::Intuitive => Ok(filter),
        StoredFilter::ClassicalCounts(_) | StoredFilter::OneLineCounts(_) => Err(bad_file(path, REFINED)),
        _ => Err(bad_file(path, MEMBERSHIP)),
    }
}

fn remove(
    filter: &mut CountingFilter<FingerprintHash>,
    key: &Fingerprint,
    saturated: &mut u64,
) -> Result<(), RemoveError> {
    *saturated += u64::from(filter.count(key) == filter.cells().top());
    filter.remove(key)
}
