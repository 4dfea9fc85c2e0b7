//! Computes the expected answers from plain lists of requests, without filters.
//!
//! A report belongs to the epoch that its node's clock shows when the node accepts the report. The node accepts a
//! report between the times at which the report is sent and acknowledged, give or take [`SLACK`]. The report is found
//! for at least six epochs and at most seven. A request with an unknown result raises only the upper bound of counts.

use std::time::Duration;

/// Number of epochs in which a signature is still found after the epoch of its report.
const WINDOW_EPOCHS: u64 = 6;

/// Tolerance for the clock of a node and for the start of an epoch, in seconds.
pub(crate) const SLACK: f64 = 4.0;

/// Time within which a claim must reach the other nodes, in seconds.
pub(crate) const SPREAD: f64 = 6.0;

/// The requests sent to the nodes.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) listings: Vec<Listing>,
    pub(crate) counts: Vec<CountedMessage>,
}

/// A report of a new signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listing {
    pub(crate) number: u64,
    pub(crate) node: usize,
    /// The times when the report was sent and answered, in seconds since 1970.
    pub(crate) sent: f64,
    pub(crate) answered: f64,
    pub(crate) is_sure: bool,
    /// The time when a revocation was sent, if any.
    pub(crate) revoked: Option<f64>,
}

/// Recipients of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedMessage {
    pub(crate) number: u64,
    pub(crate) node: usize,
    pub(crate) sent: f64,
    pub(crate) answered: f64,
    pub(crate) targets: u32,
    pub(crate) is_sure: bool,
}

/// The expected answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Present,
    Absent,
    Either,
}

/// Returns the first and the last epoch that a request may belong to.
fn epochs(sent: f64, answered: f64, seconds: u64) -> (u64, u64) {
    let epoch = |time: f64| (time / seconds as f64) as u64;
    (epoch(sent - SLACK), epoch(answered + SLACK))
}

/// Returns the expected answer at `now` about a signature that was reported in an epoch between `first` and `last`.
fn expected((first, last): (u64, u64), now: f64, seconds: u64) -> Expected {
    let epoch = |time: f64| (time / seconds as f64) as u64;
    if epoch(now + SLACK) <= first + WINDOW_EPOCHS {
        Expected::Present
    } else if epoch(now - SLACK) > last + WINDOW_EPOCHS {
        Expected::Absent
    } else {
        Expected::Either
    }
}

impl Listing {
    /// Returns a node's expected answer about the signature at `now`.
    pub(crate) fn expected(&self, node: usize, now: f64, epoch_seconds: u64) -> Expected {
        let found = expected(epochs(self.sent, self.answered, epoch_seconds), now, epoch_seconds);
        let is_fresh = self.answered.max(self.revoked.unwrap_or(0.0)) + SPREAD > now;
        match found {
            Expected::Present if is_fresh && node != self.node => Expected::Either,
            Expected::Present if self.revoked.is_some() => Expected::Absent,
            Expected::Present if !self.is_sure => Expected::Either,
            found => found,
        }
    }
}

impl Model {
    /// Returns the minimum and maximum count of recipients that a node may report at `now`.
    pub(crate) fn bounds(&self, node: usize, number: u64, now: f64, epoch_seconds: u64) -> (u32, u32) {
        let of_message = self.counts.iter().filter(|counted| counted.number == number);
        of_message.fold((0, 0), |(least, most), counted| {
            match expected(epochs(counted.sent, counted.answered, epoch_seconds), now, epoch_seconds) {
                Expected::Present if counted.node != node && counted.answered + SPREAD > now => {
                    (least, most + counted.targets)
                }
                Expected::Present if counted.is_sure => (least + counted.targets, most + counted.targets),
                Expected::Present | Expected::Either => (least, most + counted.targets),
                Expected::Absent => (least, most),
            }
        })
    }

    /// Records that a node lost its disk. Requests that it acknowledged after `since` may not have reached the others.
    pub(crate) fn doubt(&mut self, node: usize, since: f64) {
        for listing in self.listings.iter_mut().filter(|listing| listing.node == node) {
            if listing.answered >= since || listing.revoked.is_some_and(|revoked| revoked >= since) {
                (listing.is_sure, listing.revoked) = (false, None);
            }
        }
        let recent = self.counts.iter_mut().filter(|counted| counted.node == node && counted.answered >= since);
        recent.for_each(|counted| counted.is_sure = false);
    }

    /// Forgets requests that expired long ago.
    pub(crate) fn forget(&mut self, now: f64, spam_epoch: u64, bulk_epoch: u64) {
        let keep = |answered: f64, seconds: u64| answered + (12 * seconds) as f64 + 2.0 * SLACK > now;
        self.listings.retain(|listing| keep(listing.answered, spam_epoch));
        self.counts.retain(|counted| keep(counted.answered, bulk_epoch));
    }
}

/// Returns the seconds since 1970.
pub(crate) fn now() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: Listing =
        Listing { number: 1, node: 0, sent: 1_010.0, answered: 1_010.0, is_sure: true, revoked: None };

    #[test]
    fn a_listing_is_expected_for_six_epochs_and_not_after_seven() {
        let at = |now| LISTING.expected(0, now, 20);
        assert_eq!((at(1_011.0), at(1_135.0)), (Expected::Present, Expected::Present));
        assert_eq!((at(1_140.0), at(1_163.0)), (Expected::Either, Expected::Absent));
        assert_eq!(Listing { is_sure: false, ..LISTING }.expected(0, 1_011.0, 20), Expected::Either);
        let revoked = Listing { revoked: Some(1_011.0), ..LISTING };
        assert_eq!(
            (revoked.expected(0, 1_012.0, 20), revoked.expected(1, 1_020.0, 20)),
            (Expected::Absent, Expected::Absent)
        );
        assert_eq!(
            (LISTING.expected(1, 1_012.0, 20), revoked.expected(1, 1_012.0, 20)),
            (Expected::Either, Expected::Either)
        );
    }

    #[test]
    fn counts_are_bounded_by_certain_and_possible_requests() {
        let counted =
            CountedMessage { number: 3, node: 0, sent: 1_010.0, answered: 1_010.0, targets: 2, is_sure: true };
        let counts =
            vec![counted, CountedMessage { is_sure: false, ..counted }, CountedMessage { number: 4, ..counted }];
        let mut model = Model { counts, ..Model::default() };
        assert_eq!((model.bounds(0, 3, 1_020.0, 20), model.bounds(1, 3, 1_012.0, 20)), ((2, 4), (0, 4)));
        model.doubt(0, 1_000.0);
        assert_eq!(model.bounds(0, 3, 1_020.0, 20), (0, 4));
        assert_eq!(model.bounds(0, 3, 1_300.0, 20), (0, 0));
    }
}
