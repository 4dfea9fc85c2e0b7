//! The epoch lengths of a realm, which decide when a generation is over.

use bruit_engine::exchange::Book;
use bruit_engine::generations::LIVE_GENERATIONS;
use bruit_engine::realm::Realm;
use bruit_engine::time::Time;

/// The epoch lengths of a realm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epochs {
    spam_seconds: u64,
    bulk_seconds: u64,
}

impl Epochs {
    /// Returns the epoch lengths of a realm.
    #[must_use]
    pub const fn of(realm: &Realm) -> Self {
        Self { spam_seconds: realm.spam_epoch_seconds(), bulk_seconds: realm.bulk_epoch_seconds() }
    }

    /// Creates epoch lengths for the spam book and the bulk book. An epoch lasts at least one second.
    #[must_use]
    pub const fn new(spam_seconds: u64, bulk_seconds: u64) -> Self {
        assert!(spam_seconds > 0 && bulk_seconds > 0, "an epoch must last at least one second");
        Self { spam_seconds, bulk_seconds }
    }

    /// Returns the shorter of the two lengths.
    #[must_use]
    pub const fn shortest_seconds(&self) -> u64 {
        if self.spam_seconds < self.bulk_seconds { self.spam_seconds } else { self.bulk_seconds }
    }

    /// Returns true if a generation of a book has expired at `time`.
    #[must_use]
    pub const fn is_over(&self, book: Book, generation: u64, time: Time) -> bool {
        let seconds = match book {
            Book::Bulk | Book::Recipients => self.bulk_seconds,
            Book::Listed | Book::Revoked | Book::Votes | Book::Texts => self.spam_seconds,
        };
        generation.saturating_add(LIVE_GENERATIONS) <= time.epoch(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_over_seven_epochs_of_its_book_after_it_began() {
        let epochs = Epochs::new(100, 10);
        assert!(!epochs.is_over(Book::Votes, 5, Time(1_199)) && epochs.is_over(Book::Votes, 5, Time(1_200)));
        assert!(!epochs.is_over(Book::Recipients, 5, Time(119)) && epochs.is_over(Book::Recipients, 5, Time(120)));
        assert!(!epochs.is_over(Book::Listed, u64::MAX, Time(u64::MAX)));
        assert_eq!(epochs.shortest_seconds(), 10);
    }
}
