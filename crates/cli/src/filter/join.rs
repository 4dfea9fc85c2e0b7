//! `bruit filter merge`, `diff` and `apply`: two or more files, of which one at most is in memory.

use std::path::{Path, PathBuf};

use bruit_filters::delta::{self, ApplyError, DiffError};
use bruit_filters::file;

use super::storage::{ChangeLock, Output, open, open_filter, read, write_atomically, write_filter, wrong};
use crate::failure::Failure;

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
        let generation = merged.header.generation;
        file::merge_from(&mut merged.filter, generation, &mut input).map_err(|error| wrong(path, error))?;
    }
    write_filter(&arguments.output, &merged)
}

/// What `bruit filter diff` is asked.
#[derive(Debug, clap::Args)]
pub(super) struct DiffArguments {
    /// The state to start from
    base: PathBuf,

    /// The state to lead to
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

    /// The filter to apply it to
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
