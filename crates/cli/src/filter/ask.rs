//! `bruit filter contains` and `bruit filter count`.

use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use bruit_filters::file::StoredFilter;
use serde_json::json;

use super::fill::key_of;
use super::pair::read_revoked;
use super::storage::read;
use bruit_console::Failure;
use bruit_console::files::bad_file;
use bruit_console::keys::{Batch, KeyFiles};

/// Arguments of `bruit filter contains`.
#[derive(Debug, clap::Args)]
pub(super) struct FilterContainsArgs {
    /// Filter file
    file: PathBuf,

    #[command(flatten)]
    keys: KeyFiles,

    /// Treat FILE as a pair: a key is found if it is in FILE and not in FILE.revoked
    #[arg(long)]
    pair: bool,

    /// Print only the number of keys found
    #[arg(long)]
    count: bool,

    /// Print the keys that are not in the filter, instead of those that are
    #[arg(long)]
    missing: bool,

    /// With --count: print one JSON object
    #[arg(long, requires = "count")]
    json: bool,
}

/// Prints the keys that are in the filter. Like grep, it exits with 1 if there are none.
pub(super) fn contains(arguments: &FilterContainsArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let stored = read(&arguments.file)?;
    let key = key_of(&stored, &arguments.file)?;
    let revoked = if arguments.pair { Some(read_revoked(&stored, &arguments.file)?) } else { None };
    let mut output = BufWriter::new(output);
    let (mut matches, mut counts) = (0u64, Vec::new());
    let summary = arguments.keys.for_each_batch(&key, !arguments.count, |batch| {
        counts.resize(batch.fingerprints().len(), 0);
        stored.filter.count_batch(batch.fingerprints(), &mut counts);
        if let Some(revoked) = &revoked {
            clear_revoked(&revoked.filter, batch, &mut counts);
        }
        let wanted = counts.iter().map(|&count| (count > 0) != arguments.missing);
        for (key, _) in batch.keys().zip(wanted).filter(|&(_, wanted)| wanted) {
            matches += 1;
            if !arguments.count {
                print_key(&mut output, key)?;
            }
        }
        Ok(())
    })?;
    if arguments.json {
        let (found, missing) =
            if arguments.missing { (summary.keys - matches, matches) } else { (matches, summary.keys - matches) };
        let empty_lines = summary.empty_lines;
        let line = json!({ "keys": summary.keys, "found": found, "missing": missing, "empty_lines": empty_lines });
        writeln!(output, "{line}")?;
    } else if arguments.count {
        writeln!(output, "{matches}")?;
    }
    output.flush()?;
    Ok(if matches > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Sets the counts of revoked keys to 0.
fn clear_revoked(revoked: &StoredFilter, batch: &Batch, counts: &mut [u32]) {
    let mut found = vec![0; counts.len()];
    revoked.count_batch(batch.fingerprints(), &mut found);
    counts.iter_mut().zip(found).filter(|(_, found)| *found > 0).for_each(|(count, _)| *count = 0);
}

fn print_key(output: &mut impl Write, key: &[u8]) -> Result<(), Failure> {
    output.write_all(key)?;
    output.write_all(b"\n")?;
    Ok(())
}

/// Arguments of `bruit filter count`.
#[derive(Debug, clap::Args)]
pub(super) struct FilterCountArgs {
    /// Filter file, created with --counts
    file: PathBuf,

    #[command(flatten)]
    keys: KeyFiles,
}

/// Prints the count of each key, followed by the key.
pub(super) fn count(arguments: &FilterCountArgs, output: &mut impl Write) -> Result<(), Failure> {
    let stored = read(&arguments.file)?;
    if !stored.header.kind.counts() {
        return Err(bad_file(&arguments.file, "contains no counts; use contains, or create a filter with --counts"));
    }
    let key = key_of(&stored, &arguments.file)?;
    let mut output = BufWriter::new(output);
    let mut counts = Vec::new();
    arguments.keys.for_each_batch(&key, true, |batch| {
        counts.resize(batch.fingerprints().len(), 0);
        stored.filter.count_batch(batch.fingerprints(), &mut counts);
        print_counts(&mut output, batch, &counts)
    })?;
    output.flush()?;
    Ok(())
}

fn print_counts(output: &mut impl Write, batch: &Batch, counts: &[u32]) -> Result<(), Failure> {
    for (key, count) in batch.keys().zip(counts) {
        write!(output, "{count}\t")?;
        print_key(output, key)?;
    }
    Ok(())
}
