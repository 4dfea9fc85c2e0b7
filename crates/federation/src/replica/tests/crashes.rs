//! Files left by a crash, a bad disk, or an attacker.

use std::fs;
use std::os::unix::fs::FileExt as _;

use super::super::format::{FRONT_BYTES, LINES_AT, SLOT_BYTES};
use super::*;

/// Returns a replica after one commit, its bytes before and after a second one, and the contents of both.
fn two_commits() -> (TempDir, PathBuf, [Vec<u8>; 2], Vec<Fingerprint>, [Received; 2]) {
    let (folder, path, mut file) = founded();
    let listed = signatures(0, 400);
    let mut writer = Writer::new(1);
    let segments = [&listed[..200], &listed[200..]].map(|half| writer.list(Book::Listed, current(Book::Listed), half));
    let bytes = segments.each_ref().map(|segment| {
        file.take(segment).unwrap();
        file.commit().unwrap();
        fs::read(&path).unwrap()
    });
    (folder, path, bytes, listed, segments)
}

#[test]
fn a_write_torn_anywhere_loses_no_applied_entry() {
    let (_folder, path, [before, after], listed, segments) = two_commits();
    let slot = (0..SLOT_BYTES).find(|&at| before[at] != after[at]).map_or(SLOT_BYTES, |_| 0);
    let changed: Vec<usize> = (slot..slot + SLOT_BYTES).filter(|&at| before[at] != after[at]).collect();
    assert!(!changed.is_empty());
    for &cut in &changed {
        // Lines are written first, so the torn slot comes with all lines of the second commit.
        let mut torn = after.clone();
        torn[cut..slot + SLOT_BYTES].copy_from_slice(&before[cut..slot + SLOT_BYTES]);
        fs::write(&path, &torn).unwrap();
        let mut file = ReplicaFile::open(&path).unwrap();
        assert_eq!(file.frontier(&segments[0].chain).sequence, 1, "cut at {cut}");
        file.take(&segments[1]).unwrap();
        file.commit().unwrap();
        assert_eq!(hits(&path, &listed), 400, "cut at {cut}");
    }
}

#[test]
fn lines_that_were_written_before_a_crash_are_set_again() {
    let (_folder, path, [before, after], listed, segments) = two_commits();
    for lines in [0, 1, (after.len() - LINES_AT as usize) / 128, after.len() - LINES_AT as usize] {
        let end = LINES_AT as usize + lines;
        fs::write(&path, [&before[..LINES_AT as usize], &after[LINES_AT as usize..end], &before[end..]].concat())
            .unwrap();
        assert_eq!(hits(&path, &listed[..200]), 200);
        let mut file = ReplicaFile::open(&path).unwrap();
        assert_eq!(file.frontier(&segments[0].chain).sequence, 1);
        file.take(&segments[1]).unwrap();
        file.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap()[LINES_AT as usize..], after[LINES_AT as usize..]);
    }
}

#[test]
fn a_lane_that_was_not_live_is_clear_when_a_generation_begins_in_it() {
    let (_folder, path, mut file) = founded();
    file.commit().unwrap();
    drop(file);
    // After a crash, the file may have bits of a generation that was about to begin, although no slot has that
    // generation. Both rings use the same lane for it.
    assert_eq!(current(Book::Listed) % 8, current(Book::Bulk) % 8);
    let mut bytes = fs::read(&path).unwrap();
    bytes[LINES_AT as usize..].chunks_mut(64).for_each(|line| {
        let lane = (current(Book::Listed) as usize + 1) % 8;
        line[8 * lane..8 * lane + 8].fill(0xff);
    });
    fs::write(&path, bytes).unwrap();
    let (others, replica) = (signatures(0, 1_000), Replica::open(&path).unwrap());
    assert!(!replica.look_up(&others).unwrap().is_hit, "the lane is not live");
    let mut file = ReplicaFile::open(&path).unwrap();
    file.turn(Time(NOW.0 + Realm::SPAM_EPOCH_SECONDS)).unwrap();
    assert!(!replica.look_up(&others).unwrap().is_hit);
}

#[test]
fn a_damaged_header_is_refused_wherever_it_is_damaged() {
    let (_folder, path, [bytes, _], ..) = two_commits();
    for at in 0..FRONT_BYTES {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        fs::write(&path, &damaged).unwrap();
        assert!(Replica::open(&path).is_ok() && ReplicaFile::open(&path).is_ok(), "one slot is enough: {at}");
        damaged[SLOT_BYTES + at] ^= 4;
        fs::write(&path, &damaged).unwrap();
        let errors = [Replica::open(&path).map(drop).unwrap_err(), ReplicaFile::open(&path).map(drop).unwrap_err()];
        for error in errors {
            let is_right = match at {
                0..8 => matches!(error, ReplicaError::Magic { .. }),
                8..12 => matches!(error, ReplicaError::Version { .. }),
                _ => matches!(error, ReplicaError::Damaged { .. }),
            };
            assert!(is_right, "byte {at}: {error}");
        }
    }
}

#[test]
fn damaged_chains_are_refused_by_writers_and_ignored_by_readers() {
    let (_folder, path, [mut bytes, _], listed, _) = two_commits();
    // The first commit is in the first slot.
    bytes[FRONT_BYTES + 3] ^= 1;
    bytes[SLOT_BYTES..2 * SLOT_BYTES].fill(0);
    fs::write(&path, bytes).unwrap();
    assert!(matches!(ReplicaFile::open(&path), Err(ReplicaError::Damaged { .. })));
    assert_eq!(hits(&path, &listed[..200]), 200);
}

#[test]
fn files_of_another_length_are_refused_before_memory_is_taken() {
    let (_folder, path, [bytes, _], ..) = two_commits();
    for length in [0, 1, 511, LINES_AT as usize, bytes.len() - 1, bytes.len() + 1] {
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(0).unwrap();
        file.write_all_at(&bytes[..length.min(bytes.len())], 0).unwrap();
        file.set_len(length as u64).unwrap();
        assert!(Replica::open(&path).is_err() && ReplicaFile::open(&path).is_err(), "{length}");
    }
}
