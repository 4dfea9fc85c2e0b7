//! The order of claims about one message. A revocation must not arrive before the report that it revokes, and a report
//! must not arrive before an earlier revocation.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use super::folder::{self, place};
use super::{ClaimKind, Spool, SpooledReport, Stored};

/// The waiting claims that later claims may have to wait for.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// The names under which the claims were stored, by the keys of the claims. The names sort by time.
    places: HashMap<u64, BTreeSet<String>>,
}

impl Order {
    /// Adds the claim at `path`, if it can be read.
    pub(super) fn add_file(&mut self, path: &Path) {
        if let Ok(Some(report)) = folder::read(path) {
            self.add(path, &report);
        }
    }

    pub(super) fn add(&mut self, path: &Path, report: &SpooledReport) {
        for key in keys(report, report.claim) {
            self.places.entry(key).or_default().insert(place(path).to_owned());
        }
    }

    /// Removes a claim that was sent.
    pub(super) fn remove(&mut self, path: &Path, report: &SpooledReport) {
        for key in keys(report, report.claim) {
            self.places.entry(key).or_default().remove(place(path));
        }
    }

    /// Returns true if the claim at `path` must wait for an earlier, opposite claim.
    pub(super) fn holds(&self, path: &Path, report: &SpooledReport) -> bool {
        let first = |key| self.places.get(&key)?.first();
        keys(report, opposite(report.claim)).into_iter().filter_map(first).any(|first| &**first < place(path))
    }
}

impl Spool {
    /// Returns true if an earlier, opposite claim about the same message is still waiting.
    pub(super) fn is_held(&self, stored: &Stored) -> bool {
        let is_earlier =
            |path: &&PathBuf| path.extension() == stored.path.extension() && place(path) < place(&stored.path);
        let mut order = Order::default();
        // If the folder cannot be read, nothing else in it is sent either.
        let waiting = self.waiting().unwrap_or_default();
        waiting.iter().filter(is_earlier).for_each(|path| order.add_file(path));
        order.holds(&stored.path, &stored.report)
    }
}

const fn opposite(kind: ClaimKind) -> ClaimKind {
    match kind {
        ClaimKind::Report => ClaimKind::Revoke,
        ClaimKind::Revoke => ClaimKind::Report,
    }
}

/// Returns the keys of a claim of this kind by the reporter of `report` about the same message: one for each signature,
/// or one for the message if the report is for rspamd. If two messages share a key by chance, one claim waits for the
/// other.
fn keys(report: &SpooledReport, kind: ClaimKind) -> Vec<u64> {
    let key = |scheme: &str, value: &[u8]| {
        let mut hasher = DefaultHasher::new();
        (kind == ClaimKind::Report, &report.reporter, scheme, value).hash(&mut hasher);
        hasher.finish()
    };
    let named = report.subject.signatures.iter().map(|named| key(&named.scheme, named.value.as_bytes()));
    named.chain(report.rspamd.iter().map(|lesson| key("message", &lesson.message))).collect()
}
