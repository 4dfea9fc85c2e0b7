//! Carries out what the [`Rereader`] decides, on the store and the shelf of a server.

use std::io;

use bruit_engine::time::Time;
use bruit_store::{Clearinghouse, SubmitError};

use crate::coordinator::rereader::{REREAD_BYTES, RereadRequest, Rereader};
use crate::shelf::Shelf;

/// The progress after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing is being forgotten.
    Idle,
    /// A request was carried out.
    Done,
    /// The engine cannot continue yet.
    Waits,
}

/// The reason why a step failed. The next step tries again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RereadError {
    /// A log could not be read or removed.
    #[error("failed to access a log in shelf/")]
    Shelf(#[from] io::Error),
    /// The journal could not store an event.
    #[error("failed to write an event to the journal")]
    Submit(#[from] SubmitError),
}

/// Carries out the next request of a rereader.
///
/// # Errors
/// [`RereadError`].
pub fn reread(
    rereader: &mut Rereader,
    store: &Clearinghouse,
    shelf: &Shelf,
    now: Time,
) -> Result<Progress, RereadError> {
    match store.check(|engine| rereader.next(engine, now)) {
        RereadRequest::Idle => return Ok(Progress::Idle),
        RereadRequest::Wait => return Ok(Progress::Waits),
        RereadRequest::Read { chain, offset } => {
            let log = shelf.stored(&chain, offset, REREAD_BYTES)?;
            rereader.read(&log, shelf.realm(), now);
        }
        RereadRequest::Submit(events) => rereader.submitted(&store.submit(events)?),
        RereadRequest::ForgetLog(chain) => shelf.forget(&chain)?,
    }
    Ok(Progress::Done)
}
