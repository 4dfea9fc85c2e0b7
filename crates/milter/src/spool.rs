//! The state of the folder for reports of traps, for the log and the metrics.

use std::fmt::Display;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bruit_client::spool::SpoolError;
use nix::unistd::{AccessFlags, access};

/// Minimum time between two log lines about lost reports. Strangers determine the rate of mail to traps.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The state of the spool.
#[derive(Debug, Default)]
pub(crate) struct SpoolState(Mutex<SpoolCounts>);

#[derive(Debug, Default)]
struct SpoolCounts {
    is_failing: bool,
    /// Number of waiting reports.
    waiting: u64,
    last_loss: Option<Instant>,
    /// Number of reports lost since the last log line about lost reports.
    lost: u64,
}

impl SpoolState {
    /// Returns true unless the last use of the spool failed.
    pub(crate) fn is_usable(&self) -> bool {
        !self.lock().is_failing
    }

    /// Returns the number of waiting reports.
    pub(crate) fn waiting(&self) -> u64 {
        self.lock().waiting
    }

    /// Notes the result of using the spool: the number of waiting reports, or an error. Logs when the spool starts to
    /// fail and when it can be used again.
    pub(crate) fn note(&self, used: Result<usize, SpoolError>) {
        let mut state = self.lock();
        let was_failing = std::mem::replace(&mut state.is_failing, used.is_err());
        if let Ok(waiting) = used {
            state.waiting = waiting as u64;
        }
        drop(state);
        match used {
            Err(error) if !was_failing => tracing::error!(%error, "the spool fails; reports of traps may be lost"),
            Ok(_) if was_failing => tracing::info!("the spool can be used again"),
            _ => {}
        }
    }

    /// Notes a lost report.
    pub(crate) fn note_loss(&self, reason: &dyn Display) {
        let mut state = self.lock();
        state.lost += 1;
        let now = Instant::now();
        if state.last_loss.is_none_or(|last| now.duration_since(last) >= LOG_INTERVAL) {
            let reports = std::mem::take(&mut state.lost);
            state.last_loss = Some(now);
            drop(state);
            tracing::warn!(reports, %reason, "reports of traps lost");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SpoolCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns an error if files cannot be created in a folder. Called before a report needs the folder.
pub(crate) fn ensure_writable(folder: &Path) -> Result<(), SpoolError> {
    let failed = |error: nix::Error| SpoolError::Io { path: folder.to_owned(), source: error.into() };
    access(folder, AccessFlags::W_OK | AccessFlags::X_OK).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_lasts_until_the_spool_is_used_again() {
        let state = SpoolState::default();
        let failed = || ensure_writable(Path::new("/nonexistent")).map(|()| 0);
        assert!(failed().is_err());
        state.note(Ok(3));
        assert_eq!((state.is_usable(), state.waiting()), (true, 3));
        state.note(failed());
        assert_eq!((state.is_usable(), state.waiting()), (false, 3), "they still wait");
        state.note(Ok(0));
        assert_eq!((state.is_usable(), state.waiting()), (true, 0));
    }
}
