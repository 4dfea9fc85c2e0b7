//! Errors and limits common to all runs.

use crate::CountsError;

/// Maximum number of rounds. Memory does not grow with the rounds, but a study with the maximum number would run for a
/// month.
pub const ROUNDS_MAX: u64 = 100_000_000;

/// Maximum number of threads.
pub const THREADS_MAX: u64 = 1024;

/// An error in the options of a run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A number is out of bounds.
    #[error("{what} must be from 1 to {most}, not {number}")]
    Outside {
        /// Name of the option.
        what: &'static str,
        /// The rejected number.
        number: u64,
        /// Largest accepted value.
        most: u64,
    },
    /// The counts are invalid.
    #[error(transparent)]
    Counts(#[from] CountsError),
    /// An experiment is listed twice.
    #[error("experiment {number} is listed twice")]
    Repeated {
        /// Number of the experiment.
        number: u8,
    },
    /// The threshold is above the largest count of a cell.
    #[error("threshold {threshold} is too high: cells of {cell_bits} bits count only up to {top}")]
    Threshold {
        /// The threshold.
        threshold: u32,
        /// The width of a cell.
        cell_bits: u32,
        /// Largest count of a cell.
        top: u32,
    },
    /// The run would need more memory than allowed.
    #[error("about {} MiB of memory needed, over the limit of {} MiB: use fewer keys, cells, servers or threads",
        .bytes >> 20, .most >> 20)]
    Memory {
        /// Estimated memory.
        bytes: u64,
        /// Memory limit.
        most: u64,
    },
}

/// Rejects 0 and numbers above `most`.
pub(crate) fn within(what: &'static str, number: u64, most: u64) -> Result<(), OptionsError> {
    if (1..=most).contains(&number) { Ok(()) } else { Err(OptionsError::Outside { what, number, most }) }
}

/// Checks the number of rounds and the number of threads.
pub(crate) fn check_rounds_and_threads(rounds: u64, threads: usize) -> Result<(), OptionsError> {
    within("the number of rounds", rounds, ROUNDS_MAX)?;
    within("the number of threads", threads as u64, THREADS_MAX)
}
