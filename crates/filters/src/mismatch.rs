//! The error for merging two filters with different parameters.

use std::fmt::Display;

/// The error returned when two filters cannot be merged. It names the first parameter that differs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("filter parameters differ: {what} is {theirs}, expected {ours}")]
pub struct Mismatch {
    /// Name of the parameter.
    pub what: &'static str,
    /// Value in the filter to merge into.
    pub ours: String,
    /// Value in the filter to be merged.
    pub theirs: String,
}

/// Returns an error that names the parameter `what` if `ours` and `theirs` differ.
pub fn ensure_equal<T: PartialEq + Display>(what: &'static str, ours: &T, theirs: &T) -> Result<(), Mismatch> {
    if ours == theirs {
        return Ok(());
    }
    Err(Mismatch { what, ours: ours.to_string(), theirs: theirs.to_string() })
}
