//! The shelf keeps what other servers wrote, and never mixes two versions of a history.

mod common;

use std::collections::BTreeSet;

use bruit_engine::exchange::{Book, Chain};
use bruit_engine::generations::LIVE_GENERATIONS;
use bruit_engine::realm::Realm;
use bruit_engine::time::Time;
use bruit_federation::shelf::{MemoryLogs, Shelf};

use common::{START, key, node, origin};

const CHAIN: fn() -> Chain = || Chain { origin: origin(1), book: Book::Votes, generation: 1 };

fn shelf() -> Shelf {
    Shelf::open(MemoryLogs::default(), key(0), &node(0, 2)).unwrap()
}

fn log(shelf: &Shelf) -> Vec<u8> {
    shelf.log(&CHAIN(), 0, 100).unwrap().unwrap_or_default()
}

/// After a repair, chains that share a ring are fetched again from the start. Their logs are right, and may be the only
/// copy of the data of a server that lost its disk.
#[test]
fn a_log_that_is_fetched_again_stays_readable_and_grows() {
    let shelf = shelf();
    for (offset, segment) in [(0, b"one"), (3, b"two"), (0, b"one"), (3, b"two"), (6, b"six")] {
        shelf.keep_segment(&CHAIN(), offset, segment).unwrap();
        assert!(offset != 0 || log(&shelf).starts_with(b"one"));
    }
    assert_eq!(log(&shelf), b"onetwosix");
    shelf.keep_segment(&CHAIN(), 0, b"one").unwrap();
    assert_eq!(log(&shelf), b"onetwosix");
}

/// It is possible that no other server has fetched these logs. Exporters tidy at the start of a process, before links
/// have read the logs again.
#[test]
fn the_log_of_an_earlier_incarnation_stays_whole_until_its_generation_is_over() {
    let shelf = shelf();
    let generation = node(0, 2).spam().listed().epoch();
    let own = Chain { origin: origin(0), generation, ..CHAIN() };
    for (offset, segment) in [(0, b"one"), (3, b"two")] {
        shelf.put_own(&own, offset, segment).unwrap();
    }
    assert_eq!(shelf.tidy(&BTreeSet::new(), START).unwrap(), 0);
    shelf.keep_segment(&own, 0, b"one").unwrap();
    assert_eq!(shelf.log(&own, 0, 100).unwrap().unwrap(), b"one");
    assert_eq!(shelf.stored(&own, 0, 100).unwrap(), b"onetwo");
    let end = Time(START.0 + (LIVE_GENERATIONS + 1) * Realm::SPAM_EPOCH_SECONDS);
    assert_eq!(shelf.tidy(&BTreeSet::new(), end).unwrap(), 1);
}

#[test]
fn a_log_of_another_version_of_the_history_is_discarded() {
    let shelf = shelf();
    for (offset, segment) in [(0, b"one"), (3, b"two"), (0, b"two")] {
        shelf.keep_segment(&CHAIN(), offset, segment).unwrap();
    }
    assert_eq!(log(&shelf), b"two");
    for (offset, segment) in [(3, b"one"), (3, b"six"), (6, b"ten")] {
        shelf.keep_segment(&CHAIN(), offset, segment).unwrap();
    }
    assert_eq!(log(&shelf), b"", "the part before the difference is missing");
}
