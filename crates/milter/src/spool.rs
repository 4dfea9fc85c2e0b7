//! Reports that the server could not receive.

use std::fmt;

use bruit_client::spool::{self, SpooledReport};

/// A place for reports that are sent later.
pub trait Spool: Send + Sync {
    /// Stores a report, so that it survives a crash.
    ///
    /// # Errors
    /// [`SpoolError`] if the report is lost.
    fn store(&self, report: SpooledReport) -> Result<(), SpoolError>;
}

/// The reason why a report is lost.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// No spool is configured.
    #[error("no spool is configured")]
    None,
    /// The spool failed.
    #[error("the spool failed: {0}")]
    Failed(String),
}

/// The absence of a spool: every report is lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NoSpool;

impl Spool for NoSpool {
    fn store(&self, _: SpooledReport) -> Result<(), SpoolError> {
        Err(SpoolError::None)
    }
}

impl Spool for spool::Spool {
    fn store(&self, report: SpooledReport) -> Result<(), SpoolError> {
        Self::store(self, report).map(drop).map_err(|error| SpoolError::Failed(error.to_string()))
    }
}

impl fmt::Debug for dyn Spool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Spool")
    }
}
