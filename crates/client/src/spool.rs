//! A folder of reports and revocations that wait for the server. In this module, "report" means either.
//!
//! A report is stored before it is sent, and removed when the server has answered. So a crash, a lost answer or a
//! stopped server loses nothing. Each report has a random ID, which the server remembers: a report that is sent twice
//! counts once.
//!
//! **rspamd.** Whole messages can wait for rspamd in the same folder. They are independent of the reports, so an outage
//! of one server does not hold up the other. rspamd does not recognise IDs: if its answer was lost, the message is
//! added to its fuzzy storage again.
//!
//! **Order.** Reports are sent in the order in which they were stored. Reports that the server temporarily refuses are
//! sent after the others. But a report and a revocation of the same message by the same person are always sent in the
//! order in which they were stored.
//!
//! **Files.** Each report is one file, `TIME-ID.report`, or `TIME-ID.rspamd` if it is for rspamd. `TIME` is the time at
//! which the report was stored. Once the server has temporarily refused the report, the name begins with
//! `laterATTEMPTS-`. The file is written under a temporary name and synced before it is renamed. A process that sends a
//! report holds a lock on its file; the lock ends with the process. Damaged files and refused reports are set aside as
//! `.damaged` and `.refused`, and are never sent. A file that cannot be read or changed stays where it is; the others
//! are sent.
//!
//! **Bounds.** [`REPORTS_MAX`], [`SPOOL_BYTES_MAX`] and [`REPORT_AGE_MAX`]. A full spool accepts no more reports. When
//! the spool is sent, reports above the maximum age are dropped. Messages for rspamd get at most half of the space.

mod file;
mod folder;
mod order;
mod send;

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Lesson;
use crate::http::Subject;
use crate::rspamd::MESSAGE_BYTES_MAX;

pub use folder::{REPORTS_MAX, SPOOL_BYTES_MAX, Spool, SpoolEntry, Stored};
pub use send::{
    Attempt, Destinations, FAILURES_MAX, REPORT_AGE_MAX, REQUEST_TIME_MIN, SendLimits, Sending, Sent, Teaching, is_down,
};

/// Kind of claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimKind {
    /// The message is spam.
    Report,
    /// The message is not spam.
    Revoke,
}

/// A report or revocation that waits for the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpooledReport {
    /// Random ID of 128 bits, in hex. The server counts reports with the same ID once.
    pub id: String,
    /// Report or revocation.
    pub claim: ClaimKind,
    /// Person who makes the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reporter: Option<String>,
    /// Time at which the report was made, in seconds since 1970.
    pub time: u64,
    /// Number of failed attempts to send the report.
    #[serde(default)]
    pub attempts: u32,
    /// Error of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The signatures of the message. They are empty if the report is for rspamd.
    #[serde(default)]
    pub subject: Subject,
    /// The message, if the report is for rspamd. Absent if the report is for the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rspamd: Option<Lesson>,
}

/// The reason why a spool cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// The spool is full.
    #[error("the spool {} is full: {reports} reports, {bytes} bytes", folder.display())]
    Full {
        /// Folder of the spool.
        folder: PathBuf,
        /// Number of files in the spool.
        reports: usize,
        /// Total length of these files.
        bytes: u64,
    },
    /// The spool's disk is full, or the user's disk quota is used up.
    #[error("no space left for the spool {}: {source}", folder.display())]
    DiskFull {
        /// Folder of the spool.
        folder: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Another process has held the lock of the spool for too long.
    #[error("the spool {} is locked by another process", folder.display())]
    Busy {
        /// Folder of the spool.
        folder: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The message is too long to be kept for rspamd.
    #[error("a message of {bytes} bytes cannot be kept for rspamd: the maximum is {MESSAGE_BYTES_MAX} bytes")]
    TooLong {
        /// Length of the message.
        bytes: usize,
    },
    /// The operating system has no random numbers for an ID.
    #[error("no random numbers: {0}")]
    Random(String),
}

impl SpooledReport {
    /// Creates a report with a random ID.
    ///
    /// # Errors
    /// [`SpoolError::Random`] if the operating system has no random numbers.
    pub fn new(claim: ClaimKind, reporter: Option<&str>, subject: Subject, time: u64) -> Result<Self, SpoolError> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|error| SpoolError::Random(error.to_string()))?;
        let id = id.iter().map(|byte| format!("{byte:02x}")).collect();
        let reporter = reporter.map(str::to_owned);
        Ok(Self { id, claim, reporter, time, attempts: 0, error: None, subject, rspamd: None })
    }

    /// Creates a report for rspamd.
    ///
    /// # Errors
    /// [`SpoolError::TooLong`] if the message is too long for a spool, or [`SpoolError::Random`].
    pub fn for_rspamd(claim: ClaimKind, lesson: Lesson, time: u64) -> Result<Self, SpoolError> {
        if lesson.message.len() > MESSAGE_BYTES_MAX {
            return Err(SpoolError::TooLong { bytes: lesson.message.len() });
        }
        Ok(Self { rspamd: Some(lesson), ..Self::new(claim, None, Subject::default(), time)? })
    }
}
