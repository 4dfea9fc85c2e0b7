//! Greylisting of unknown bulk mail: a message is deferred once if many recipients got it in a short time and nobody
//! has reported it yet. By the time of the retry, someone may have reported it.
//!
//! Both tables are bounded; the oldest entry makes room for a new one. A forgotten entry only means that a message is
//! not deferred, or is deferred once more.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::config::GreylistSettings;
use crate::identity::Identity;

/// Maximum number of texts and of deferred messages.
pub(crate) const ENTRIES_MAX: usize = 1 << 16;

/// Time for which a deferred message is remembered. Its sender retries within this time, or not at all.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);

/// Recent unknown mail, and the messages that were deferred.
#[derive(Debug, Default)]
pub(crate) struct Greylist {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    /// Texts, with the start of their period and the number of recipients since then.
    seen: Table<u64, (Instant, u32)>,
    /// Deferred messages, with the time of their first deferral.
    deferred: Table<Identity, Instant>,
}

impl Greylist {
    /// Counts the recipients of a message with this text. Returns true if the message should be deferred.
    pub(crate) fn defers(
        &self,
        settings: &GreylistSettings,
        text: u64,
        message: Identity,
        recipients: u32,
        now: Instant,
    ) -> bool {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = tables.deferred.entries.get(&message) {
            let age = now.saturating_duration_since(*first);
            if age <= REMEMBERED {
                return age < settings.delay;
            }
            tables.deferred.remove(&message);
        }
        let (since, before) = tables.seen.entries.get(&text).copied().unwrap_or((now, 0));
        let is_old = now.saturating_duration_since(since) > settings.within;
        let (since, before) = if is_old { (now, 0) } else { (since, before) };
        let total = before.saturating_add(recipients);
        tables.seen.put(text, (since, total));
        let is_many = total >= settings.recipients;
        if is_many {
            tables.deferred.put(message, now);
        }
        is_many
    }
}

/// A map of at most [`ENTRIES_MAX`] entries.
#[derive(Debug)]
struct Table<K, V> {
    entries: HashMap<K, V>,
    /// The keys, oldest first.
    order: VecDeque<K>,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), order: VecDeque::new() }
    }
}

impl<K: Copy + Eq + Hash, V> Table<K, V> {
    fn put(&mut self, key: K, value: V) {
        if self.entries.insert(key, value).is_none() {
            self.order.push_back(key);
        }
        while self.entries.len() > ENTRIES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &K) {
        self.entries.remove(key);
        self.order.retain(|known| known != key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::IdentityKey;

    fn message(number: u64) -> Identity {
        let key = IdentityKey::fixed();
        key.identity(b"", number, b"")
    }

    const SETTINGS: GreylistSettings =
        GreylistSettings { recipients: 20, within: Duration::from_secs(600), delay: Duration::from_secs(60) };

    #[test]
    fn a_message_is_deferred_once_when_its_text_has_passed_the_number() {
        let greylist = Greylist::default();
        let start = Instant::now();
        let defers = |message, recipients, seconds| {
            greylist.defers(&SETTINGS, 7, self::message(message), recipients, start + Duration::from_secs(seconds))
        };
        assert!(!defers(1, 10, 0) && !defers(2, 9, 1));
        assert!(defers(3, 1, 2), "the twentieth recipient");
        assert!(defers(3, 1, 61), "retried too early");
        assert!(!defers(3, 1, 62) && !defers(3, 1, 63));
        assert!(defers(4, 1, 64), "every message of the text waits once");
        assert!(!defers(5, 1, 700), "the recipients before do not count any more");
    }

    #[test]
    fn the_tables_are_bounded() {
        let greylist = Greylist::default();
        let settings = GreylistSettings { recipients: 1, ..SETTINGS };
        let now = Instant::now();
        for number in 0..=ENTRIES_MAX as u64 {
            assert!(greylist.defers(&settings, number, message(number), 1, now));
        }
        let tables = greylist.tables.lock().unwrap();
        assert_eq!((tables.seen.entries.len(), tables.seen.order.len()), (ENTRIES_MAX, ENTRIES_MAX));
        assert_eq!(tables.deferred.entries.len(), ENTRIES_MAX);
    }
}
