//! What a local replica knows before anybody is asked.
//!
//! A message none of whose signatures is in a fresh replica is unknown, and no server hears of it. In all other cases the server
//! is asked as if there were no replica, so that one which is old, damaged or missing costs time and never an answer.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use bruit_client::http::{Checked, CheckedSignature, NamedSignature, Subject};
use bruit_engine::signature::fingerprint_of;
use bruit_federation::replica::Replica;
use bruit_filters::Fingerprint;
use serde::Serialize;

use crate::date::now;
use crate::terminal::complain;

/// Why a replica says that nothing is known.
const REASON: &str = "not_in_replica";

/// A replica to ask first.
pub(super) struct Local {
    replica: Replica,
    stale_after: Duration,
}

/// What a replica said of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Note {
    /// How old it is; none if it was never filled.
    age_seconds: Option<u64>,
    /// Whether it is older than it may be.
    is_stale: bool,
    /// Whether a signature is in it, or seems to be.
    is_hit: bool,
    /// Whether a server was asked.
    pub(super) asked_server: bool,
}

/// For people.
impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.age_seconds {
            None => write!(f, "the replica was never filled, so the server was asked"),
            Some(age) if self.is_stale => write!(f, "the replica is {age} s old, so the server was asked"),
            Some(age) if self.is_hit => write!(f, "in the replica, {age} s old, so the server was asked"),
            Some(age) => write!(f, "the replica is {age} s old"),
        }
    }
}

impl Local {
    /// The replica in a file. One that cannot be used is told of.
    pub(super) fn open(path: &Path, stale_after: Duration) -> Option<Self> {
        match Replica::open(path) {
            Ok(replica) => Some(Self { replica, stale_after }),
            Err(error) => {
                complain(&format!("{:#}; the server is asked instead", anyhow::Error::new(error)));
                None
            }
        }
    }

    /// What it says of a message; nothing if it cannot say anything.
    pub(super) fn note(&self, subject: &Subject) -> Option<Note> {
        // Near replicas are a server's to tell: a message without other signatures has nothing that could be looked up.
        let signatures = self.fingerprints(&subject.signatures).filter(|signatures| !signatures.is_empty())?;
        match self.replica.look_up(&signatures) {
            Ok(found) => {
                let age_seconds = found.heard.map(|heard| now().since(heard));
                let is_stale = age_seconds.is_none_or(|age| Duration::from_secs(age) > self.stale_after);
                Some(Note { age_seconds, is_stale, is_hit: found.is_hit, asked_server: is_stale || found.is_hit })
            }
            Err(error) => {
                complain(&format!("{:#}; the server is asked instead", anyhow::Error::new(error)));
                None
            }
        }
    }

    fn fingerprints(&self, signatures: &[NamedSignature]) -> Option<Vec<Fingerprint>> {
        let fingerprint = |named: &NamedSignature| Some(fingerprint_of(self.replica.key(), &named.signature().ok()?));
        signatures.iter().map(fingerprint).collect()
    }
}

/// The answer for a message of which nothing is in the replica.
pub(super) fn unknown(subject: &Subject) -> Checked {
    let signature = |named: &NamedSignature| CheckedSignature {
        scheme: named.scheme.clone(),
        value: Some(named.value.clone()),
        reason: REASON.to_owned(),
        ..CheckedSignature::default()
    };
    let signatures = subject.signatures.iter().map(signature).collect();
    Checked { reason: REASON.to_owned(), signatures, ..Checked::default() }
}
