//! The shelf keeps what other servers wrote, and never mixes two versions of a history.

mod common;

use bruit_engine::exchange::{Book, Chain};
use bruit_federation::shelf::{MemoryLogs, Shelf};

use common::{key, node, origin};

const CHAIN: fn() -> Chain = || Chain { origin: origin(1), book: Book::Votes, generation: 1 };

fn shelf() -> Shelf {
    Shelf::open(MemoryLogs::default(), key(0), &node(0, 2)).unwrap()
}

fn log(shelf: &Shelf) -> Vec<u8> {
    shelf.log(&CHAIN(), 0, 100).unwrap().unwrap_or_default()
}

/// After a repair, chains that share a ring are fetched again from the start. Their logs are right, and may be the only
/// copy of a server that lost its disk.
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
