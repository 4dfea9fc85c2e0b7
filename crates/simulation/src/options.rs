//! What any run refuses before it starts.

use crate::CountsError;

/// The most rounds of a run. Memory does not grow with them, but time does: the study would take a month.
pub const ROUNDS_MAX: u64 = 100_000_000;

/// The most threads of a run.
pub const THREADS_MAX: u64 = 1024;

/// Why a run cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A number outside its bounds.
    #[error("{what} must be from 1 to {most}, not {number}")]
    Outside {
        /// Of what.
        what: &'static str,
        /// The number.
        number: u64,
        /// The most that will do.
        most: u64,
    },
    /// Counts that nothing can have.
    #[error(transparent)]
    Counts(#[from] CountsError),
    /// An experiment that is asked for twice.
    #[error("experiment {number} is asked for twice")]
    Repeated {
        /// Its number.
        number: u8,
    },
    /// A threshold that no count can reach.
    #[error("cells of {cell_bits} bits end at {top}: no count reaches the threshold {threshold}")]
    Threshold {
        /// The threshold.
        threshold: u32,
        /// The width of a cell.
        cell_bits: u32,
        /// Where its counts end.
        top: u32,
    },
    /// More memory than a run may take.
    #[error("this takes about {} MiB of memory and {} are the limit: fewer keys, cells, servers or threads take less",
        .bytes >> 20, .most >> 20)]
    Memory {
        /// What it takes, about.
        bytes: u64,
        /// What it may take.
        most: u64,
    },
}

/// Refuses a number that is 0 or above `most`.
pub(crate) fn within(what: &'static str, number: u64, most: u64) -> Result<(), OptionsError> {
    if (1..=most).contains(&number) { Ok(()) } else { Err(OptionsError::Outside { what, number, most }) }
}

/// Refuses numbers of rounds and threads that are 0 or too large.
pub(crate) fn check_rounds_and_threads(rounds: u64, threads: usize) -> Result<(), OptionsError> {
    within("the number of rounds", rounds, ROUNDS_MAX)?;
    within("the number of threads", threads as u64, THREADS_MAX)
}
