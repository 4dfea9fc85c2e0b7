//! Counts of the clearinghouse's refusals, and the refusals that operators need to see. The sentences that clients
//! receive are in the engine ([`Refusal`]).

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bruit_engine::{Outcome, Refusal};

/// Time for which a refusal remains an active condition after its last occurrence.
const REMEMBERED: Duration = Duration::from_secs(30);

/// Counts of refusals, by name.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    kinds: Mutex<BTreeMap<&'static str, Kind>>,
}

/// Refusals of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    /// Number of refusals since the start.
    pub(crate) count: u64,
    /// The uptime of the server at the last refusal.
    at: Duration,
    /// The text of the last refusal, if operators need to see it.
    text: Option<String>,
}

/// Returns true if operators need to see the refusal, because a book is full or a quota is used up. Refusals that
/// strangers can cause at will are only counted.
const fn is_degraded(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::DailyShare { .. } | Refusal::BookFull { .. } | Refusal::TextQuota | Refusal::GoodIsFull)
}

impl Refusals {
    /// Counts the refusals among these outcomes.
    pub(crate) fn note(&self, outcomes: &[Outcome], uptime: Duration) {
        for refusal in outcomes.iter().filter_map(Outcome::refusal) {
            let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
            let kind = kinds.entry(refusal.name()).or_insert(Kind { count: 0, at: uptime, text: None });
            kind.count += 1;
            kind.at = uptime;
            if is_degraded(&refusal) {
                kind.text = Some(refusal.to_string());
            }
        }
    }

    /// Returns the number of refusals of each kind.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.iter().map(|(name, kind)| (*name, kind.count)).collect()
    }

    /// Returns the kind and text of recent refusals that operators need to see.
    pub(crate) fn recent(&self, uptime: Duration) -> Vec<(String, String)> {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = kinds.iter().filter(|(_, kind)| uptime.saturating_sub(kind.at) < REMEMBERED);
        let text =
            |kind: &Kind| Some(format!("{} ({} batches refused since the start)", kind.text.as_ref()?, kind.count));
        recent.filter_map(|(name, kind)| Some(((*name).to_owned(), text(kind)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use bruit_engine::exchange::Book;
    use bruit_engine::time::Time;

    use super::*;

    #[test]
    fn what_is_refused_for_want_of_room_shows_for_a_while_and_other_refusals_are_counted() {
        let refusals = Refusals::default();
        let full = Outcome::Refused(Refusal::BookFull { book: Book::Listed, again: Time(5) });
        refusals.note(&[full, Outcome::Refused(Refusal::Stranger), Outcome::Done], Duration::from_secs(1));
        assert_eq!(refusals.counts(), [("book_full", 1), ("not_allowed", 1)]);
        let [(name, text)] = refusals.recent(Duration::from_secs(2)).try_into().unwrap();
        assert!(
            name == "book_full" && text.contains("listed signatures") && text.contains("1 batches refused"),
            "{text}"
        );
        assert!(refusals.recent(Duration::from_secs(1) + REMEMBERED).is_empty());
    }
}
