//! `bruit filter merge`, `diff` and `apply`: two or more files, of which one at most is in memory.

use std::io::Seek as _;
use std::path::{Path, PathBuf};

use bruit_filters::delta::{self, ApplyError, DiffError};
use bruit_filters::file::FilterKind;

use super::storage::{ChangeLock, Output, open, open_filter, read, write_atomically, write_filter, wrong};
use crate::failure::Failure;
use crate::terminal;

/// What `bruit filter merge` is asked.
#[derive(Debug, clap::Args)]
pub(super) struct MergeArguments {
    /// The filters to join; the result has the key of the first
    #[arg(required = true, num_args = 2..)]
    files: Vec<PathBuf>,

    /// Where to write the result; may be one of the filters
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn merge(arguments: &MergeArguments) -> Result<(), Failure> {
    let Some((first, others)) = arguments.files.split_first() else { return Ok(()) };
    let _lock = ChangeLock::take(&arguments.output)?;
    let mut merged = read(first)?;
    for path in others {
        let (mut input, _) = open_filter(path)?;
        merged.merge(&mut input).map_err(|error| wrong(path, error))?;
    }
    write_filter(&arguments.output, &merged)?;
    let servers = arguments.files.len().max(merged.header.origins as usize);
    if merged.header.kind == FilterKind::OneLineCounts && servers > 1 {
        terminal::complain(&bounds_warning(&arguments.output, servers));
    }
    Ok(())
}

/// The share of wrong counts, in per cent, after merging so many servers: `docs/paper/beyond.md`, one-line layout, Zipf
/// counts. One server has 0.02.
const WRONG_PERCENT: [(usize, &str); 4] = [(2, "0.23"), (4, "0.47"), (10, "1.2"), (100, "6.4")];

/// Tells that merged one-line counts are not exact.
fn bounds_warning(output: &Path, merged: usize) -> String {
    let row = WRONG_PERCENT.iter().find(|(servers, _)| *servers >= merged).or(WRONG_PERCENT.last());
    let &(servers, percent) = row.expect("the table has rows");
    format!(
        "warning: {}: merged one-line counts are upper bounds, as a key that passes 15 only in the sum has no record. \
         Additions of keys counted too high, in a simulation: with one server 0.02 %, with {servers} servers: {percent} % \
         (docs/paper/beyond.md)",
        output.display()
    )
}

/// What `bruit filter diff` is asked.
#[derive(Debug, clap::Args)]
pub(super) struct DiffArguments {
    /// The earlier state
    base: PathBuf,

    /// The later state
    target: PathBuf,

    /// Where to write the delta
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn diff(arguments: &DiffArguments) -> Result<(), Failure> {
    let DiffArguments { base, target, output } = arguments;
    let (mut base_input, _) = open_filter(base)?;
    let (mut target_input, _) = open_filter(target)?;
    write_atomically(output, Output::Delta, |file| {
        delta::diff(&mut base_input, &mut target_input, file).map_err(|error| match error {
            DiffError::Base(error) => wrong(base, error),
            DiffError::Target(error) => wrong(target, error),
            DiffError::Mismatch(mismatch) => wrong(target, mismatch),
            error @ (DiffError::History(_) | DiffError::Shrunk) => wrong(target, error),
            error => wrong(output, error),
        })
    })?;
    Ok(())
}

/// What `bruit filter apply` is asked.
#[derive(Debug, clap::Args)]
pub(super) struct ApplyArguments {
    /// The delta
    delta: PathBuf,

    /// The filter to apply it to: the earlier state, or for classical counts a merged filter
    base: PathBuf,

    /// Where to write the result [default: in place of the filter]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn apply(arguments: &ApplyArguments) -> Result<(), Failure> {
    let ApplyArguments { delta, base, output } = arguments;
    let output = output.as_ref().unwrap_or(base);
    let _lock = ChangeLock::take(output)?;
    let (mut delta_input, _) = open(delta)?;
    let step = delta::read_header(&mut delta_input).map_err(|error| wrong(delta, error))?.step;
    delta_input.rewind().map_err(|error| wrong(delta, error))?;
    if step.is_some() {
        let mut changed = read(base)?;
        delta::advance(&mut changed, &mut delta_input).map_err(|error| name_cause(error, delta, base, output))?;
        return write_filter(output, &changed);
    }
    let (mut base_input, header) = open_filter(base)?;
    write_atomically(output, Output::Filter, |file| {
        delta::apply_between(&mut base_input, header.payload_bytes(), &mut delta_input, file)
            .map_err(|error| name_cause(error, delta, base, output))
    })?;
    Ok(())
}

fn name_cause(error: ApplyError, delta: &Path, base: &Path, output: &Path) -> Failure {
    match error {
        ApplyError::Base(error) => wrong(base, error),
        ApplyError::Delta(error) => wrong(delta, error),
        ApplyError::Io(error) => wrong(output, error),
        error => wrong(delta, error),
    }
}
