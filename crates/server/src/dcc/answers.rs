//! The totals of a message's checksums.

use bruit_engine::Engine;
use bruit_engine::bulk::BulkTotals;
use bruit_engine::signature::{fingerprint_of_bytes, fingerprint_of_fuz2};
use bruit_engine::verdict::{Kind as VerdictKind, Reason, Verdict};
use bruit_filters::{Fingerprint, FingerprintKey};
use bruit_protocols::dcc::{Count, ITEMS_MAX, Item, Items, Kind, Totals};
use bruit_signatures::Scheme;

use crate::config::DccWhitelist;
use crate::metrics::Disposition;

/// Number of checksum kinds that the clearinghouse keeps.
const KEPT_MAX: usize = 3;

/// The reply about a message. The totals of checksums that are not kept or are in the whitelist file are known at once.
/// The totals of all other checksums are filled in later.
#[derive(Clone, Copy)]
pub(super) struct MessageTotals {
    totals: [Totals; ITEMS_MAX],
    length: usize,
    /// The fingerprints of the kept checksums. `places` has the position of each of them in `totals`.
    fingerprints: [Fingerprint; KEPT_MAX],
    places: [usize; KEPT_MAX],
    kept: usize,
}

impl MessageTotals {
    pub(super) fn new(items: &Items<'_>, whitelist: &DccWhitelist, key: &FingerprintKey) -> Self {
        let mut answers = Self {
            totals: [Totals::NOT_KEPT; ITEMS_MAX],
            length: items.len(),
            fingerprints: [Fingerprint::new(0, 0); KEPT_MAX],
            places: [0; KEPT_MAX],
            kept: 0,
        };
        for (place, item) in items.iter().enumerate() {
            match whitelist.mark(&item) {
                Some(mark) => answers.set(place, Totals::unchanged(mark)),
                None => answers.keep(place, fingerprint(key, &item)),
            }
        }
        answers
    }

    fn keep(&mut self, at: usize, fingerprint: Option<Fingerprint>) {
        let free = self.fingerprints.iter_mut().zip(&mut self.places).nth(self.kept);
        if let (Some((kept, place)), Some(fingerprint)) = (free, fingerprint) {
            (*kept, *place) = (fingerprint, at);
            self.kept += 1;
        }
    }

    fn set(&mut self, place: usize, totals: Totals) {
        if let Some(known) = self.totals.get_mut(place) {
            *known = totals;
        }
    }

    /// Returns the fingerprints to look up or count.
    pub(super) fn kept(&self) -> &[Fingerprint] {
        self.fingerprints.get(..self.kept).unwrap_or_default()
    }

    /// Returns the totals in the order of the request.
    pub(super) fn totals(&self) -> &[Totals] {
        self.totals.get(..self.length).unwrap_or_default()
    }

    /// Fills in the totals of the kept checksums, in the order of [`kept`](Self::kept).
    fn fill(&mut self, found: impl Iterator<Item = Totals>) {
        for (place, totals) in self.places.into_iter().take(self.kept).zip(found) {
            self.set(place, totals);
        }
    }

    /// Fills in the totals in reply to a query.
    pub(super) fn fill_unchanged<'v>(&mut self, found: impl Iterator<Item = (&'v Verdict, u32)>, many: u32) {
        self.fill(found.map(|(verdict, total)| Totals::unchanged(count(verdict, total, many))));
    }

    /// Fills in the totals in reply to a report. `counted` has the totals of the kept checksums if the recipients of
    /// the report were counted.
    pub(super) fn fill_reported(
        &mut self,
        engine: &Engine,
        counted: Option<&[BulkTotals]>,
        is_listed_now: bool,
        many: u32,
    ) {
        let (fingerprints, kept) = (self.fingerprints, self.kept);
        let found = fingerprints.iter().take(kept).enumerate().map(|(at, fingerprint)| {
            let verdict = engine.check(fingerprint, 0);
            let before = if is_listed_now { Verdict { kind: VerdictKind::Unknown, ..verdict } } else { verdict };
            let totals = counted.and_then(|counted| counted.get(at)).copied().unwrap_or_else(|| {
                let total = engine.bulk().total(fingerprint);
                BulkTotals { previous: total, current: total }
            });
            Totals { current: count(&verdict, totals.current, many), previous: count(&before, totals.previous, many) }
        });
        self.fill(found);
    }

    /// Returns the result of a query for the metrics.
    pub(super) fn answered(&self) -> Disposition {
        let is = |mark| self.totals().iter().any(|totals| totals.current == mark);
        if is(Count::TOO_MANY) {
            Disposition::Spam
        } else if is(Count::OK) || is(Count::OK2) {
            Disposition::Ham
        } else {
            Disposition::Unknown
        }
    }
}

/// Returns the count in a reply for a kept checksum.
fn count(verdict: &Verdict, total: u32, many: u32) -> Count {
    match (verdict.kind, verdict.reason) {
        (_, Reason::Whitelisted) => Count::number(0),
        (VerdictKind::Spam, _) => Count::TOO_MANY,
        (VerdictKind::Unknown | VerdictKind::Bulk, _) if total >= many => Count::TOO_MANY,
        _ => Count::number(total),
    }
}

/// Returns a checksum's fingerprint, or `None` if its kind is not kept.
pub(super) fn fingerprint(key: &FingerprintKey, item: &Item) -> Option<Fingerprint> {
    match item.kind {
        Kind::Body => fingerprint_of_bytes(key, Scheme::DccBody, &item.sum),
        Kind::Fuz1 => fingerprint_of_bytes(key, Scheme::DccFuz1, &item.sum),
        Kind::Fuz2 => Some(fingerprint_of_fuz2(key, &item.sum)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: FingerprintKey = FingerprintKey::new([3; 16]);

    #[test]
    fn the_kinds_that_are_kept_have_fingerprints_of_their_own() {
        let of = |kind| fingerprint(&KEY, &Item { kind, sum: [7; 16] });
        let kept: Vec<_> = Kind::ALL.into_iter().filter(|kind| of(*kind).is_some()).collect();
        assert_eq!(kept, [Kind::Body, Kind::Fuz1, Kind::Fuz2]);
        assert!(kept.iter().all(|kind| kind.is_kept()));
        assert_eq!(kept.len(), KEPT_MAX);
        assert!(of(Kind::Body) != of(Kind::Fuz1) && of(Kind::Fuz1) != of(Kind::Fuz2));
    }

    #[test]
    fn what_is_answered_follows_the_table() {
        let verdict = |kind, reason| Verdict { kind, reason, ..Verdict::default() };
        let unknown = Verdict::default();
        let never = crate::config::MANY_NEVER;
        assert_eq!(count(&unknown, 7, never), Count::number(7));
        assert_eq!(count(&unknown, never, never), Count::TOO_MANY);
        assert_eq!((count(&unknown, 19, 20), count(&unknown, 20, 20)), (Count::number(19), Count::TOO_MANY));
        assert_eq!(count(&verdict(VerdictKind::Spam, Reason::Listed), 0, never), Count::TOO_MANY);
        assert_eq!(count(&verdict(VerdictKind::Ham, Reason::Revoked), 50, 20), Count::number(50));
        assert_eq!(count(&verdict(VerdictKind::Ham, Reason::Whitelisted), 50, 20), Count::number(0));
    }
}
