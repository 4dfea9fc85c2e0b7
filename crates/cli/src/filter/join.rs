//! `bruit filter merge`, `diff` and `apply`. Each command holds at most one file in memory.

use std::io::Seek as _;
use std::path::{Path, PathBuf};

use bruit_filters::delta::{self, ApplyError, DiffError};
use bruit_filters::file::FilterKind;

use super::storage::{DELTA, FILTER, open_filter, read, write_filter};
use bruit_console::Failure;
use bruit_console::files::{ChangeLock, bad_file, open, write_atomically};
use bruit_console::terminal;

/// Arguments of `bruit filter merge`.
#[derive(Debug, clap::Args)]
pub(super) struct FilterMergeArgs {
    /// Filters to merge; the result has the key of the first
    #[arg(required = true, num_args = 2..)]
    files: Vec<PathBuf>,

    /// Output file; may be one of the filters
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn merge(arguments: &FilterMergeArgs) -> Result<(), Failure> {
    let Some((first, others)) = arguments.files.split_first() else { return Ok(()) };
    let _lock = ChangeLock::take(&arguments.output)?;
    let mut merged = read(first)?;
    for path in others {
        let (mut input, _) = open_filter(path)?;
        merged.merge(&mut input).map_err(|error| bad_file(path, error))?;
    }
    write_filter(&arguments.output, &merged)?;
    let servers = arguments.files.len().max(merged.header.origins as usize);
    if merged.header.kind == FilterKind::OneLineCounts && servers > 1 {
        terminal::complain(&bounds_warning(&arguments.output, servers));
    }
    Ok(())
}

/// Measured errors of merged counts. Each row has a number of merged servers, and the percentage of additions that went
/// to keys with a wrong count. The figures are from `docs/paper/beyond.md` (one-line layout, Zipf counts). For a single
/// server, the percentage is 0.02 %.
const WRONG_PERCENT: [(usize, &str); 4] = [(2, "0.23"), (4, "0.47"), (10, "1.2"), (100, "6.4")];

/// Returns a warning that merged one-line counts are not exact.
fn bounds_warning(output: &Path, merged: usize) -> String {
    let row = WRONG_PERCENT.iter().find(|(servers, _)| *servers >= merged).or(WRONG_PERCENT.last());
    let &(servers, percent) = row.expect("the table has rows");
    format!(
        "warning: {}: merged one-line counts are upper bounds: a key whose count exceeds 15 only after the merge \
         has no record. In a simulation, the share of additions that went to keys counted too high was 0.02 % \
         with one server and {percent} % with {servers} servers (docs/paper/beyond.md)",
        output.display()
    )
}

/// Arguments of `bruit filter diff`.
#[derive(Debug, clap::Args)]
pub(super) struct FilterDiffArgs {
    /// Earlier state of the filter
    base: PathBuf,

    /// Later state of the filter
    target: PathBuf,

    /// Output file for the delta
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn diff(arguments: &FilterDiffArgs) -> Result<(), Failure> {
    let FilterDiffArgs { base, target, output } = arguments;
    let (mut base_input, _) = open_filter(base)?;
    let (mut target_input, _) = open_filter(target)?;
    write_atomically(output, DELTA, |file| {
        delta::diff(&mut base_input, &mut target_input, file).map_err(|error| match error {
            DiffError::Base(error) => bad_file(base, error),
            DiffError::Target(error) => bad_file(target, error),
            DiffError::Mismatch(mismatch) => bad_file(target, mismatch),
            error @ (DiffError::History(_) | DiffError::Shrunk) => bad_file(target, error),
            error => bad_file(output, error),
        })
    })?;
    Ok(())
}

/// Arguments of `bruit filter apply`.
#[derive(Debug, clap::Args)]
pub(super) struct FilterApplyArgs {
    /// Delta to apply
    delta: PathBuf,

    /// Filter to apply it to: the earlier state or, for classical counts, a merged filter
    base: PathBuf,

    /// Output file [default: replace the filter]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn apply(arguments: &FilterApplyArgs) -> Result<(), Failure> {
    let FilterApplyArgs { delta, base, output } = arguments;
    let output = output.as_ref().unwrap_or(base);
    let _lock = ChangeLock::take(output)?;
    let (mut delta_input, _) = open(delta)?;
    let step = delta::read_header(&mut delta_input).map_err(|error| bad_file(delta, error))?.step;
    delta_input.rewind().map_err(|error| bad_file(delta, error))?;
    if step.is_some() {
        let mut changed = read(base)?;
        delta::advance(&mut changed, &mut delta_input).map_err(|error| name_cause(error, delta, base, output))?;
        return write_filter(output, &changed);
    }
    let (mut base_input, header) = open_filter(base)?;
    write_atomically(output, FILTER, |file| {
        delta::apply_between(&mut base_input, header.payload_bytes(), &mut delta_input, file)
            .map_err(|error| name_cause(error, delta, base, output))
    })?;
    Ok(())
}

fn name_cause(error: ApplyError, delta: &Path, base: &Path, output: &Path) -> Failure {
    match error {
        ApplyError::Base(error) => bad_file(base, error),
        ApplyError::Delta(error) => bad_file(delta, error),
        ApplyError::Io(error) => bad_file(output, error),
        error => bad_file(delta, error),
    }
}
