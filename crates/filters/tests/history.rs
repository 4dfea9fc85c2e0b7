//! The exchange of counts in §4 of Yan and Cho's paper. A file lists the origins of its counts, and each delta is
//! applied exactly once.

use bruit_filters::counting::{CELL_BITS_MAX, CountingFilter, Extension, OneLineCounts};
use bruit_filters::delta::{self, ApplyError, DiffError};
use bruit_filters::file::{
    self, FileError, FilterFile, HEADER_BYTES, HISTORY_ENTRY_BYTES, HISTORY_FRAME_BYTES, History, HistoryError, Label,
    ORIGINS_MAX, Origin, Reached, StoredFilter,
};
use bruit_filters::hash::FingerprintHash;
use bruit_filters::{Fingerprint, FingerprintKey};

const LIMIT: u64 = 1 << 30;
const CELLS: u64 = 3001;

fn key() -> FingerprintKey {
    FingerprintKey::new([42; 16])
}

/// Returns a fingerprint for each name; a name may repeat.
fn keys(names: impl IntoIterator<Item = u32>) -> Vec<Fingerprint> {
    names.into_iter().map(|name| key().fingerprint(&name.to_le_bytes())).collect()
}

fn classical(extension: Extension, bits: u32) -> StoredFilter {
    let hash = FingerprintHash::new(CELLS, 4, 40, key().id()).unwrap();
    StoredFilter::ClassicalCounts(CountingFilter::new(hash, extension, bits).unwrap())
}

fn one_line() -> StoredFilter {
    StoredFilter::OneLineCounts(OneLineCounts::new(20, key().id()).unwrap())
}

/// Returns an empty filter of a site's own counts.
fn own(filter: StoredFilter, origin: u64) -> FilterFile {
    FilterFile::new(filter, Label { generation: 0, key: Some(key()) }, Some(History::new(Origin(origin)))).unwrap()
}

/// Returns the file after writing and reading it.
fn again(file: &FilterFile) -> FilterFile {
    file::decode(&mut &*bytes_of(file), LIMIT).unwrap()
}

fn bytes_of(file: &FilterFile) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.write(&mut bytes).unwrap();
    bytes
}

/// Returns the file after the site counted `names`.
fn added(file: &FilterFile, names: impl IntoIterator<Item = u32>) -> FilterFile {
    let mut file = file.clone();
    file.filter.insert_batch(&keys(names));
    file.history.as_mut().unwrap().record_change().unwrap();
    again(&file)
}

fn merged(files: &[&FilterFile]) -> Result<FilterFile, FileError> {
    let mut sum = files[0].clone();
    files[1..].iter().try_for_each(|file| sum.merge(&mut &*bytes_of(file)))?;
    Ok(again(&sum))
}

fn diff(base: &FilterFile, target: &FilterFile) -> Result<Vec<u8>, DiffError> {
    let mut delta = Vec::new();
    delta::diff(&mut &*bytes_of(base), &mut &*bytes_of(target), &mut delta)?;
    Ok(delta)
}

fn apply(file: &FilterFile, delta: &[u8]) -> Result<FilterFile, ApplyError> {
    let mut file = file.clone();
    delta::advance(&mut file, &mut &*delta)?;
    Ok(again(&file))
}

fn refusal(file: &FilterFile, delta: &[u8]) -> HistoryError {
    match apply(file, delta) {
        Err(ApplyError::History(error)) => error,
        other => panic!("not refused for its history: {other:?}"),
    }
}

/// Three successive states of the first site's filter, and the merged filter of two sites that includes the first of
/// these states.
struct Exchange {
    states: Vec<FilterFile>,
    all: FilterFile,
}

fn exchange(shape: &StoredFilter) -> Exchange {
    let first = added(&own(shape.clone(), 1), [1, 1, 2]);
    let other = added(&own(shape.clone(), 2), [1, 3]);
    let all = merged(&[&first, &other]).unwrap();
    let second = added(&first, [1, 4, 4]);
    let third = added(&second, [5, 1]);
    Exchange { states: vec![first, second, third], all }
}

#[test]
fn differences_add_up_to_the_filter_of_all_reports() {
    for bits in 1..=CELL_BITS_MAX {
        let shape = classical(Extension::Intuitive, bits);
        let (mut sites, mut everything) = ([own(shape.clone(), 1), own(shape.clone(), 2)], shape.clone());
        let mut all = merged(&[&sites[0], &sites[1]]).unwrap();
        for round in 0..10 {
            for (number, site) in (0..).zip(&mut sites) {
                let names = || (0..30).map(move |i| (i * i + round * (number + 3)) % 50);
                let later = added(site, names());
                everything.insert_batch(&keys(names()));
                all = apply(&all, &diff(site, &later).unwrap()).unwrap();
                *site = later;
            }
        }
        assert!(all.filter == everything, "{bits} bits");
        assert!(merged(&[&sites[0], &sites[1]]).unwrap().filter == everything);
    }
}

#[test]
fn refined_differences_add_up_to_the_sum_of_the_sites_filters() {
    let Exchange { states, all } = exchange(&classical(Extension::Refined, 6));
    let all = apply(&all, &diff(&states[0], &states[1]).unwrap()).unwrap();
    let all = apply(&all, &diff(&states[1], &states[2]).unwrap()).unwrap();
    let other = added(&own(classical(Extension::Refined, 6), 2), [1, 3]);
    assert!(all == merged(&[&states[2], &other]).unwrap());
}

#[test]
fn refined_differences_bound_all_reports() {
    let reports = |site: u32, round: u32| (0..400).map(move |i: u32| i * 7 % (300 + site) + round % 3);
    let mut sites = [1, 2].map(|origin| own(classical(Extension::Refined, 6), origin));
    let mut all = merged(&[&sites[0], &sites[1]]).unwrap();
    let mut intuitive = classical(Extension::Intuitive, 6);
    let mut truth = vec![0; 400];
    for round in 0..10 {
        for (number, site) in (0..).zip(&mut sites) {
            let later = added(site, reports(number, round));
            all = apply(&all, &diff(site, &later).unwrap()).unwrap();
            *site = later;
            intuitive.insert_batch(&keys(reports(number, round)));
            reports(number, round).for_each(|name| truth[name as usize] += 1);
        }
    }
    let (mut counts, mut highest) = (vec![0; truth.len()], vec![0; truth.len()]);
    all.filter.count_batch(&keys(0..400), &mut counts);
    intuitive.count_batch(&keys(0..400), &mut highest);
    for ((count, highest), truth) in counts.iter().zip(&highest).zip(&truth) {
        assert!((63.min(*truth)..=*highest).contains(count), "{truth} reports, {count}, at most {highest}");
    }
    assert!(counts != highest, "the refined extension makes some counts lower");
}

#[test]
fn a_delta_is_applied_once_and_in_its_place() {
    let Exchange { states, all } = exchange(&classical(Extension::Intuitive, 5));
    let (one, two) = (diff(&states[0], &states[1]).unwrap(), diff(&states[1], &states[2]).unwrap());
    let origin = Origin(1);
    assert_eq!(refusal(&all, &two), HistoryError::OutOfOrder { origin, base: 2, reached: 1 });
    let later = apply(&all, &one).unwrap();
    let twice = HistoryError::AlreadyApplied { origin, base: 1, target: 2, reached: 2 };
    assert_eq!(refusal(&later, &one), twice);
    let both = diff(&states[0], &states[2]).unwrap();
    let partly = HistoryError::PartlyApplied { origin, base: 1, target: 3, reached: 2 };
    assert_eq!(refusal(&later, &both), partly);
    let last = apply(&later, &two).unwrap();
    assert!(apply(&all, &both).unwrap() == last, "one delta over both steps leads to the same state");
    let twice = HistoryError::AlreadyApplied { origin, base: 1, target: 2, reached: 3 };
    assert_eq!(refusal(&last, &one), twice);
}

#[test]
fn a_delta_is_refused_where_its_base_is_not() {
    let shape = classical(Extension::Intuitive, 5);
    let Exchange { states, all } = exchange(&shape);
    let one = diff(&states[0], &states[1]).unwrap();
    let other = added(&own(shape.clone(), 2), [1, 3]);
    assert_eq!(refusal(&other, &one), HistoryError::OtherOrigin { origin: Origin(1), own: Origin(2) });
    let without = merged(&[&other, &own(shape.clone(), 3)]).unwrap();
    assert_eq!(refusal(&without, &one), HistoryError::UnknownOrigin { origin: Origin(1), base: 1 });
    let from_nothing = diff(&own(shape.clone(), 1), &states[1]).unwrap();
    assert!(apply(&without, &from_nothing).is_ok(), "revision 0 is empty");
    let plain = FilterFile::new(shape.clone(), all.label(), None).unwrap();
    assert_eq!(refusal(&plain, &one), HistoryError::OriginsUnknown);
    let unlike = own(classical(Extension::Intuitive, 6), 1);
    assert!(matches!(apply(&unlike, &one), Err(ApplyError::Mismatch(_))));
}

#[test]
fn two_copies_that_were_both_changed_are_noticed() {
    let Exchange { states, all } = exchange(&classical(Extension::Intuitive, 5));
    let forked = added(&states[0], [77]);
    let later = apply(&all, &diff(&states[0], &states[1]).unwrap()).unwrap();
    for delta in [diff(&states[0], &forked).unwrap(), diff(&forked, &added(&forked, [8])).unwrap()] {
        assert!(matches!(refusal(&later, &delta), HistoryError::Forked { revision: 2, .. }));
    }
    let refused = diff(&states[1], &forked);
    assert!(matches!(refused, Err(DiffError::History(HistoryError::Forked { revision: 2, .. }))), "{refused:?}");
}

#[test]
fn only_states_of_one_own_filter_in_their_order_have_a_difference() {
    let shape = classical(Extension::Intuitive, 5);
    let Exchange { states, all } = exchange(&shape);
    let history = |outcome: Result<Vec<u8>, DiffError>| match outcome {
        Err(DiffError::History(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(history(diff(&states[1], &states[0])), HistoryError::Reversed { base: 2, target: 1 });
    assert_eq!(history(diff(&states[0], &all)), HistoryError::Merged);
    let other = own(shape.clone(), 2);
    assert_eq!(history(diff(&other, &states[0])), HistoryError::OtherOrigin { origin: Origin(1), own: Origin(2) });
    let plain = FilterFile::new(shape, states[0].label(), None).unwrap();
    assert_eq!(history(diff(&plain, &states[0])), HistoryError::OriginsUnknown);
    let mut removed = states[1].clone();
    let StoredFilter::ClassicalCounts(filter) = &mut removed.filter else { panic!("counts") };
    filter.remove(&keys([1])[0]).unwrap();
    removed.history.as_mut().unwrap().record_change().unwrap();
    assert!(matches!(diff(&states[1], &again(&removed)), Err(DiffError::Shrunk)));
    assert_eq!(all.history.clone().unwrap().record_change(), Err(HistoryError::Merged));
}

#[test]
fn one_line_counts_follow_their_origin_and_are_merged_whole() {
    let Exchange { states, all } = exchange(&one_line());
    let (one, two) = (diff(&states[0], &states[1]).unwrap(), diff(&states[1], &states[2]).unwrap());
    assert_eq!(refusal(&all, &one), HistoryError::OneLine);
    let copy = apply(&states[0], &one).unwrap();
    assert!(copy == states[1]);
    assert_eq!(
        refusal(&copy, &one),
        HistoryError::AlreadyApplied { origin: Origin(1), base: 1, target: 2, reached: 2 }
    );
    assert!(apply(&copy, &two).unwrap() == states[2]);
}

#[test]
fn the_same_counts_are_not_merged_twice() {
    let Exchange { states, all } = exchange(&classical(Extension::Refined, 6));
    for again in [&states[0], &states[2]] {
        let refused = merged(&[&all, again]).unwrap_err();
        let twice = HistoryError::AlreadyMerged { origin: Origin(1), revision: 1 };
        assert!(matches!(refused, FileError::History(error) if error == twice));
    }
}

/// Returns a merged filter with `count` origins.
fn with_origins(count: usize) -> Result<FilterFile, FileError> {
    let reached = |i: usize| Reached { origin: Origin(i as u64), revision: 1, checksum: 0 };
    let history = History::Merged((0..count).map(reached).collect());
    FilterFile::new(classical(Extension::Refined, 4), Label::default(), Some(history))
}

#[test]
fn a_merged_filter_lists_up_to_1024_origins() {
    let mut full = again(&with_origins(ORIGINS_MAX).unwrap());
    let before = full.clone();
    let another = own(classical(Extension::Refined, 4), 5000);
    let refused = full.merge(&mut &*bytes_of(&another)).unwrap_err();
    assert!(matches!(refused, FileError::History(HistoryError::TooManyOrigins)), "{refused}");
    assert_eq!(refusal(&full, &diff(&another, &added(&another, [1])).unwrap()), HistoryError::TooManyOrigins);
    assert!(full == before);
    let mut bytes = bytes_of(&full);
    bytes[HEADER_BYTES + 2..][..2].copy_from_slice(&1025u16.to_le_bytes());
    let refused = file::decode(&mut &*bytes, LIMIT).unwrap_err();
    assert!(matches!(refused, FileError::InvalidField { field: "the number of origins", value: 1025 }), "{refused}");
    for count in [0, ORIGINS_MAX + 1] {
        assert!(with_origins(count).is_err(), "a history that no reader accepts is not written");
    }
}

#[test]
fn origins_out_of_order_are_refused() {
    let reached = |origin| Reached { origin: Origin(origin), revision: 1, checksum: 0 };
    for origins in [[2, 1], [1, 1]] {
        let history = History::Merged(origins.map(reached).to_vec());
        let file = FilterFile::new(classical(Extension::Refined, 4), Label::default(), Some(history)).unwrap();
        let refused = file::decode(&mut &*bytes_of(&file), LIMIT).unwrap_err();
        assert!(matches!(refused, FileError::UnsortedOrigins), "{refused}");
    }
}

#[test]
fn no_byte_of_a_history_or_a_step_can_change_unseen() {
    let Exchange { states, all } = exchange(&classical(Extension::Intuitive, 5));
    let delta = diff(&states[0], &states[1]).unwrap();
    for (i, flip) in (0..delta.len()).flat_map(|i| [(i, 1), (i, 0x80), (i, 0xff)]) {
        let mut damaged = delta.clone();
        damaged[i] ^= flip;
        assert!(apply(&all, &damaged).is_err(), "byte {i} of the delta");
    }
    (0..delta.len()).for_each(|length| assert!(apply(&all, &delta[..length]).is_err(), "{length}"));
    assert!(apply(&all, &[&*delta, &[0]].concat()).is_err());
    let bytes = bytes_of(&all);
    let front = HEADER_BYTES + 16 + HISTORY_FRAME_BYTES + 2 * HISTORY_ENTRY_BYTES;
    for (i, flip) in (0..front + 8).flat_map(|i| [(i, 1), (i, 0x80), (i, 0xff)]) {
        let mut damaged = bytes.clone();
        damaged[i] ^= flip;
        assert!(file::decode(&mut &*damaged, LIMIT).is_err(), "byte {i} of the file");
    }
    (0..bytes.len()).for_each(|length| assert!(file::decode(&mut &bytes[..length], LIMIT).is_err(), "{length}"));
}

#[test]
fn a_file_has_the_length_that_its_header_says() {
    let Exchange { states, all } = exchange(&classical(Extension::Intuitive, 5));
    for file in [&states[0], &all] {
        assert_eq!(again(file), *file);
        assert_eq!(file.header.file_bytes(), bytes_of(file).len() as u64);
    }
}

#[test]
fn membership_filters_have_no_history() {
    let filter = StoredFilter::ClassicalMembership(
        bruit_filters::bloom::ClassicalFilter::new(FingerprintHash::new(1000, 4, 40, key().id()).unwrap()).unwrap(),
    );
    let refused = FilterFile::new(filter, Label::default(), Some(History::new(Origin(1))));
    assert!(matches!(refused, Err(FileError::InvalidField { .. })));
}
