//! Looks messages up in a local replica before querying the server.
//!
//! If a fresh replica has no hit for a message, the message is unknown and nothing is sent. In all other cases, the
//! server is queried as if there were no replica. A stale, damaged or missing replica costs time but never changes an
//! answer.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use bruit_client::http::{Checked, CheckedSignature, NamedSignature, Reason, Subject};
use bruit_engine::signature::fingerprint_of;
use bruit_federation::replica::Replica;
use bruit_filters::Fingerprint;
use serde::Serialize;

use bruit_console::date::now;
use bruit_console::terminal::complain;

/// An open replica, and its maximum age.
pub(crate) struct Local {
    replica: Replica,
    stale_after: Duration,
}

/// Result of looking a message up in a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Note {
    /// Age of the replica, or `None` if it has never been updated.
    age_seconds: Option<u64>,
    /// True if the replica is older than the maximum age.
    is_stale: bool,
    /// True if any signature of the message is in the replica. False hits are possible.
    is_hit: bool,
    /// True if the server was queried.
    pub(super) asked_server: bool,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.age_seconds {
            None => write!(f, "replica never updated; queried the server"),
            Some(age) if self.is_stale => write!(f, "replica {age} s old; queried the server"),
            Some(age) if self.is_hit => write!(f, "found in the replica ({age} s old); queried the server"),
            Some(age) => write!(f, "the replica is {age} s old"),
        }
    }
}

impl Local {
    /// Opens a replica file. An unusable replica is reported on standard error.
    pub(super) fn open(path: &Path, stale_after: Duration) -> Option<Self> {
        match Replica::open(path) {
            Ok(replica) => Some(Self { replica, stale_after }),
            Err(error) => {
                complain(&format!("{:#}; querying the server instead", anyhow::Error::new(error)));
                None
            }
        }
    }

    /// Opens a replica file. An unusable replica is reported in the log.
    pub(crate) fn open_quietly(path: &Path, stale_after: Duration) -> Option<Self> {
        let replica = Replica::open(path);
        let replica = replica.inspect_err(|error| {
            tracing::debug!(error = error as &dyn std::error::Error, "replica cannot be used");
        });
        replica.ok().map(|replica| Self { replica, stale_after })
    }

    /// Returns true if a signature of the message may be listed. Returns `None` if the replica is stale or cannot be
    /// used.
    pub(crate) fn find(&self, subject: &Subject) -> Option<bool> {
        self.note(subject).filter(|note| !note.is_stale).map(|note| note.is_hit)
    }

    /// Looks a message up. Returns `None` if the replica cannot be used.
    pub(super) fn note(&self, subject: &Subject) -> Option<Note> {
        // Without signatures, there is nothing to look up here: only the server can find near replicas.
        let signatures = self.fingerprints(&subject.signatures).filter(|signatures| !signatures.is_empty())?;
        match self.replica.look_up(&signatures) {
            Ok(found) => {
                let age_seconds = found.heard.map(|heard| now().since(heard));
                let is_stale = age_seconds.is_none_or(|age| Duration::from_secs(age) > self.stale_after);
                Some(Note { age_seconds, is_stale, is_hit: found.is_hit, asked_server: is_stale || found.is_hit })
            }
            Err(error) => {
                complain(&format!("{:#}; querying the server instead", anyhow::Error::new(error)));
                None
            }
        }
    }

    fn fingerprints(&self, signatures: &[NamedSignature]) -> Option<Vec<Fingerprint>> {
        let fingerprint = |named: &NamedSignature| Some(fingerprint_of(self.replica.key(), &named.signature().ok()?));
        signatures.iter().map(fingerprint).collect()
    }
}

/// Returns the answer for a message without a hit in the replica.
pub(super) fn unknown(subject: &Subject) -> Checked {
    let signature = |named: &NamedSignature| CheckedSignature {
        scheme: named.scheme.clone(),
        value: Some(named.value.clone()),
        reason: Reason::NotInReplica,
        ..CheckedSignature::default()
    };
    let signatures = subject.signatures.iter().map(signature).collect();
    Checked { reason: Reason::NotInReplica, signatures, ..Checked::default() }
}
