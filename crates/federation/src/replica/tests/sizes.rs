//! The sizes of replicas and their false positive rates.

use super::super::format::LINES_AT;
use super::*;

/// Maximum size of a replica for ten million listed signatures.
const TEN_MILLION_BYTES_MAX: u64 = 40_000_000;

fn file_bytes(capacity: u64) -> Result<u64, ReplicaError> {
    lines_for(capacity).map(|lines| LINES_AT + lines.iter().sum::<usize>() as u64 * 64)
}

#[test]
fn ten_million_signatures_take_no_more_than_forty_megabytes() {
    let bytes = file_bytes(10_000_000).unwrap();
    assert!(bytes <= TEN_MILLION_BYTES_MAX * 3 / 4, "{bytes}");
}

#[test]
fn capacities_have_bounds() {
    for capacity in [CAPACITY_MIN, CAPACITY_MAX] {
        assert!(file_bytes(capacity).is_ok(), "{capacity}");
    }
    for capacity in [0, CAPACITY_MIN - 1, CAPACITY_MAX + 1, u64::MAX] {
        assert!(matches!(file_bytes(capacity), Err(ReplicaError::Capacity(refused)) if refused == capacity));
    }
}

#[test]
fn a_full_replica_takes_one_unknown_signature_in_a_hundred_for_known() {
    const MILLION: u64 = 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replica");
    let mut file = ReplicaFile::create(&path, realm(), MILLION, NOW).unwrap();
    assert!(std::fs::metadata(&path).unwrap().len() <= TEN_MILLION_BYTES_MAX / 10 + LINES_AT);
    let mut writer = Writer::new(1);
    let mut first = 0;
    for age in 0..LIVE_GENERATIONS {
        for _ in 0..29 {
            let some = signatures(first, MILLION / LIVE_GENERATIONS / 29);
            first += some.len() as u64;
            file.take(&writer.list(Book::Listed, current(Book::Listed) - age, &some)).unwrap();
        }
    }
    file.commit().unwrap();
    assert_eq!(hits(&path, &signatures(first - 5_000, 5_000)), 5_000);
    let rate = hits(&path, &signatures(1 << 40, 100_000)) as f64 / 1e5;
    assert!((0.006..=FALSE_HIT_RATE).contains(&rate), "{rate}");
    let estimated = file.status().false_hit_rate;
    assert!((estimated / rate - 1.0).abs() < 0.1, "{estimated} and {rate}");
}

#[test]
fn a_replica_is_overfull_above_ten_times_the_planned_rate_and_not_when_it_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replica");
    let mut file = ReplicaFile::create(&path, realm(), CAPACITY_MIN, NOW).unwrap();
    let mut writer = Writer::new(1);
    for age in 0..LIVE_GENERATIONS {
        let some = signatures(age * 1_000, CAPACITY_MIN / LIVE_GENERATIONS);
        file.take(&writer.list(Book::Listed, current(Book::Listed) - age, &some)).unwrap();
    }
    assert!(!file.status().is_overfull(), "{:?}", file.status());
    file.take(&writer.list(Book::Listed, current(Book::Listed), &signatures(1 << 30, 5 * CAPACITY_MIN))).unwrap();
    let status = file.status();
    assert!(status.is_overfull() && status.false_hit_rate > OVERFULL_RATE, "{status:?}");
}

#[test]
fn the_number_of_chains_is_bounded() {
    let (_folder, path, mut file) = founded();
    let mut writer = Writer::new(1);
    for incarnation in 0..CHAINS_MAX as u64 {
        writer.incarnation = incarnation;
        let segment = writer.list(Book::Bulk, current(Book::Bulk), &signatures(incarnation, 1));
        assert!(file.has_room(&segment.chain));
        file.take(&segment).unwrap();
    }
    assert!(file.has_room(&writer.chain(Book::Bulk, current(Book::Bulk))), "known chains still advance");
    assert!(!file.has_room(&writer.chain(Book::Listed, current(Book::Listed))));
    file.commit().unwrap();
    assert_eq!(Replica::open(&path).unwrap().origins().unwrap().len(), CHAINS_MAX);
}
