//! Why two filters cannot be joined.

use std::fmt::Display;

/// Two filters differ in a parameter that must be equal before they may merge: the first one found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unlike filters: {what} is {ours} here and {theirs} there")]
pub struct Mismatch {
    /// The parameter.
    pub what: &'static str,
    /// Its value in the filter that was to receive.
    pub ours: String,
    /// Its value in the filter that was to be joined in.
    pub theirs: String,
}

/// Refuses if `ours` and `theirs` differ, naming `what`.
pub(crate) fn ensure_equal<T: PartialEq + Display>(what: &'static str, ours: &T, theirs: &T) -> Result<(), Mismatch> {
    if ours == theirs {
        return Ok(());
    }
    Err(Mismatch { what, ours: ours.to_string(), theirs: theirs.to_string() })
}
