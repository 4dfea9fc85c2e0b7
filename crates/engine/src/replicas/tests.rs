//! Tests of the index of reported texts.

use super::*;

const KEY: FingerprintKey = FingerprintKey::new([3; 16]);

/// Returns a message with `length` consecutive features, the first of which is `start`.
fn message(start: u64, length: u64) -> Features {
    Features { pairs: (start..start + length).collect(), ..Features::default() }
}

fn matched(replicas: &Replicas, features: &Features) -> Vec<Owner> {
    replicas.check(features, &mut Scratch::default()).iter().map(|found| found.owner).collect()
}

#[test]
fn a_report_stores_features_of_every_quarter_equally() {
    let mut replicas = Replicas::new(KEY, 10, 0);
    let report = replicas.report(&message(0, 400));
    assert_eq!(replicas.record_of(report), Some(Stored { by_quarter: [12; 4], features: 400 }));
    let report = replicas.report(&message(1000, 30));
    assert_eq!(replicas.record_of(report), Some(Stored { by_quarter: [8, 7, 8, 7], features: 30 }));
}

#[test]
fn a_report_keeps_as_much_of_every_passage() {
    let text = Replicas::new(KEY, 10, 0).text(&message(0, 4800));
    for (quarter, features) in (0..).zip(&text.quarters) {
        let mut passages: Vec<u64> = features.iter().take(12).map(|feature| feature / 100).collect();
        passages.sort_unstable();
        assert_eq!(passages, (12 * quarter..12 * quarter + 12).collect::<Vec<u64>>());
    }
}

#[test]
fn replicas_are_found_among_many_reports() {
    let mut replicas = Replicas::new(KEY, 1000, 0);
    let reports: Vec<Owner> = (0..1000).map(|at| replicas.report(&message(at * 1000, 200))).collect();
    for (at, report) in (0..).zip(&reports) {
        assert_eq!(matched(&replicas, &message(at * 1000, 1000)), [*report]);
    }
    assert_eq!(matched(&replicas, &message(5_000_000, 8_000)), []);
}

#[test]
fn a_single_report_stands_out_from_chance_votes() {
    let mut replicas = Replicas::new(KEY, 0, 0);
    let report = replicas.report(&message(0, 6));
    for start in 1..100 {
        assert_eq!(matched(&replicas, &message(start * 10_000, 8_192)), []);
    }
    assert_eq!(matched(&replicas, &message(0, 8_000)), [report]);
}

#[test]
fn features_of_all_mail_are_not_stored() {
    let mut replicas = Replicas::new(KEY, 100, 0);
    let owners: Vec<Owner> = (0..5).map(|_| replicas.report(&message(0, 24))).collect();
    assert_eq!(replicas.record_of(owners[4]).map(|stored| stored.by_quarter), Some([0; 4]));
    assert_eq!(matched(&replicas, &message(0, 24)), &owners[..4]);
}

#[test]
fn features_of_good_mail_neither_count_nor_are_kept() {
    let mut replicas = Replicas::new(KEY, 10, 100);
    let report = replicas.report(&message(0, 40));
    replicas.learn_good(&message(0, 40)).unwrap();
    replicas.learn_good(&message(0, 40)).unwrap();
    assert_eq!(matched(&replicas, &message(0, 40)), [report], "one message is not sufficient");
    replicas.learn_good(&message(0, 41)).unwrap();
    assert_eq!(matched(&replicas, &message(0, 40)), []);
    let mixed = replicas.report(&message(20, 60));
    assert_eq!(replicas.record_of(mixed).map(|stored| stored.features), Some(40));
}

#[test]
fn revoked_features_stop_counting_at_once() {
    let mut replicas = Replicas::new(KEY, 10, 100);
    let short = Features { whole: Some(77), ..message(0, 4) };
    let report = replicas.report(&message(100, 40));
    assert_eq!(matched(&replicas, &short), []);
    let thin = replicas.report(&short);
    assert_eq!(matched(&replicas, &short), [thin]);
    replicas.revoke(&short).unwrap();
    replicas.revoke(&message(100, 40)).unwrap();
    assert_eq!((matched(&replicas, &short), matched(&replicas, &message(100, 40))), (vec![], vec![]));
    assert!(replicas.record_of(report).is_some());
    replicas.report(&short);
    assert_eq!(matched(&replicas, &short), [], "it stays revoked when it is reported again");
}

#[test]
fn good_links_do_not_make_a_message_part_of_a_report() {
    let mut replicas = Replicas::new(KEY, 10, 100);
    replicas.report(&message(0, 100));
    let half = |links: u64| Features { links: (5000..5000 + links).collect(), ..message(50, 100) };
    assert_eq!(matched(&replicas, &half(0)), []);
    for other in [20_000, 30_000] {
        let good = Features { links: half(100).links, ..message(other, 10) };
        replicas.learn_good(&good).unwrap();
    }
    assert_eq!(matched(&replicas, &half(100)), []);
}

#[test]
fn good_mail_is_learnt_until_the_generation_is_full() {
    let mut replicas = Replicas::new(KEY, 10, 3);
    let reports: Vec<Owner> = (0..20).map(|at| replicas.report(&message(at * 1000, 40))).collect();
    replicas.revoke(&message(1_000_000, 200_000)).unwrap();
    replicas.learn_good(&message(2_000_000, 200_000)).unwrap();
    replicas.learn_good(&message(3_000_000, 200_000)).unwrap();
    assert_eq!(replicas.learn_good(&message(0, 40)), Err(GoodIsFull));
    assert_eq!(replicas.revoke(&message(0, 40)), Err(GoodIsFull));
    for (at, report) in (0..).zip(&reports) {
        assert_eq!(matched(&replicas, &message(at * 1000, 40)), [*report]);
    }
}

#[test]
fn records_stay_with_their_reports() {
    let mut replicas = Replicas::new(KEY, 0, 0);
    for _ in 0..OWNERS_LIVE_MAX + 1000 {
        replicas.report(&Features::default());
    }
    assert_eq!(replicas.records.len() as u64, REPORTS_MIN);
    let report = replicas.report(&message(0, 100));
    assert_eq!(matched(&replicas, &message(0, 100)), [report]);
}

#[test]
fn only_part_of_a_long_message_is_checked() {
    let mut replicas = Replicas::new(KEY, 10, 0);
    let report = replicas.report(&message(0, 20_000));
    assert_eq!(matched(&replicas, &message(0, 20_000)), [report]);
    assert_eq!(replicas.count_own(&message(0, 20_000), &mut Scratch::default()), 20_000);
}

#[test]
fn the_oldest_reports_are_evicted() {
    let mut replicas = Replicas::new(KEY, 0, 0);
    let bytes = replicas.table.bytes();
    let reports: Vec<Owner> = (0..5000).map(|at| replicas.report(&message(at * 1000, 100))).collect();
    assert_eq!(matched(&replicas, &message(4_999_000, 100)), [reports[4999]]);
    assert_eq!(matched(&replicas, &message(0, 100)), []);
    assert_eq!(replicas.record_of(reports[0]), None);
    assert!(replicas.records.len() as u64 >= REPORTS_MIN, "{}", replicas.records.len());
    assert_eq!(replicas.table.bytes(), bytes);
}

#[test]
fn reports_age_by_generation() {
    let mut replicas = Replicas::new(KEY, 100, 0);
    let first = replicas.report(&message(0, 100));
    for epoch in 1..7 {
        replicas.turn(epoch, 7);
        assert_eq!(matched(&replicas, &message(0, 100)), [first]);
    }
    assert!(!replicas.is_current(first));
    let second = replicas.report(&message(1000, 100));
    assert!(replicas.is_current(second));
    replicas.turn(7, 7);
    assert_eq!(matched(&replicas, &message(0, 100)), []);
    assert_eq!(matched(&replicas, &message(1000, 100)), [second]);
    replicas.turn(20, 7);
    assert_eq!((matched(&replicas, &message(1000, 100)), replicas.records.len()), (vec![], 0));
}

#[test]
fn a_text_has_enough_features_to_be_found() {
    let mut replicas = Replicas::new(KEY, 100, 0);
    let text = replicas.text(&message(0, 4000));
    assert!(text.quarters.iter().all(|quarter| quarter.len() == TEXT_FEATURES_PER_QUARTER));
    let owner = replicas.report_text(&text, Fingerprint::new(7, 8));
    assert_eq!(replicas.record_of(owner), Some(Stored { by_quarter: [12; 4], features: 4000 }));
    assert_eq!(replicas.fingerprint_of(owner), Some(Fingerprint::new(7, 8)));
    assert_eq!(matched(&replicas, &message(0, 4000)), [owner]);
}

#[test]
fn wholes_do_not_outgrow_the_reports() {
    let mut replicas = Replicas::new(KEY, 0, 0);
    for at in 0..5000 {
        replicas.report(&message(at * 1000, 100));
        replicas.report(&Features { whole: Some(at), ..Features::default() });
    }
    assert!(replicas.wholes.len() <= wholes_max(replicas.records_max), "{}", replicas.wholes.len());
}

#[test]
fn a_check_looks_up_a_bounded_number_of_features() {
    let mut replicas = Replicas::new(KEY, 10, 0);
    replicas.report(&message(0, 100));
    let mut scratch = Scratch::default();
    replicas.check(&message(0, 100_000), &mut scratch);
    assert_eq!(scratch.fingerprints.len(), CHECKED_MAX);
}
