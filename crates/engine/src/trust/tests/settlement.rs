//! Tests of reporters' credits and debits, and of the time of settlement.

use super::*;

/// Seconds until a claim is settled.
const DUE: u64 = 48 * Time::HOUR;

fn credits(site: &Site, id: u64) -> Option<(u32, u32, u32)> {
    site.trust.reporter(site.now, id).map(|view| (view.confirmed, view.refuted, view.unconfirmed))
}

#[test]
fn claims_are_settled_after_two_days_and_not_before() {
    let mut site = Site::roomy(Policy::default());
    site.report(account(1), 1);
    site.report(trap(2), 1);
    site.wait(DUE - 1);
    assert_eq!(credits(&site, 1), None);
    site.wait(1);
    assert_eq!(credits(&site, 1), Some((1, 0, 0)));
    site.wait(DUE);
    assert_eq!(credits(&site, 1), Some((1, 0, 0)), "once");
}

#[test]
fn only_anchors_of_other_groups_confirm() {
    let mut site = Site::roomy(Policy::default());
    let (user, colleague) = (account(1), Reporter { id: 2, standing: Standing::Pinned, group: 1 });
    site.report(user, 1);
    site.report(colleague, 1);
    (10..20).for_each(|id| _ = site.report(account(id), 1));
    site.wait(DUE);
    assert_eq!(credits(&site, 1), Some((0, 0, 1)));
    assert_eq!(credits(&site, 2), Some((0, 0, 1)));
    assert_eq!(credits(&site, 10), Some((1, 0, 0)));
}

#[test]
fn anchors_refute_reports_and_confirm_revocations() {
    let mut site = Site::roomy(Policy::default());
    site.report(account(1), 1);
    site.revoke(account(2), 1);
    site.revoke(pinned(3), 1);
    site.report(stranger(4), 1);
    site.wait(DUE);
    assert_eq!((credits(&site, 1), credits(&site, 2)), (Some((0, 1, 0)), Some((1, 0, 0))));
    assert_eq!(credits(&site, 4), None, "strangers have no record");
}

#[test]
fn anchors_are_debited_and_traps_are_not() {
    let mut site = Site::roomy(Policy::default());
    site.report(pinned(1), 1);
    [pinned(2), pinned(3)].into_iter().for_each(|reporter| _ = site.revoke(reporter, 1));
    site.report(trap(4), 2);
    [pinned(2), pinned(3)].into_iter().for_each(|reporter| _ = site.revoke(reporter, 2));
    site.wait(DUE);
    assert_eq!(credits(&site, 1), Some((0, 1, 0)));
    assert_eq!(credits(&site, 2), Some((0, 1, 1)), "refuted by the trap; one against one is a tie");
    assert_eq!(credits(&site, 4), None);
}

#[test]
fn an_anchor_that_is_often_wrong_loses_its_weight() {
    let mut site = Site::roomy(Policy::default());
    for number in 0..5 {
        site.report(pinned(1), number);
        [pinned(2), pinned(3)].into_iter().for_each(|reporter| _ = site.revoke(reporter, number));
    }
    site.wait(DUE);
    assert_eq!(site.view(1).weight, 0.0);
    site.report(pinned(1), 100);
    assert_eq!(site.evidence(100).anchored_reports, 0);
}

#[test]
fn daily_credit_is_limited() {
    let earned = |claims: u64| {
        let mut site = Site::roomy(Policy { debit_unconfirmed: 0.0, ..Policy::default() });
        for number in 0..claims {
            site.report(account(1), number);
            [1, 2, 3].into_iter().for_each(|id| _ = site.report(trap(90 + id), number));
            site.report(account(1), number);
        }
        site.wait(DUE);
        // The precision is the lower bound of Beta(1 + x, 1).
        site.view(1).precision
    };
    let beta = |good: f64| precision::precision(precision::millionths(good), 0, (1.0, 1.0));
    assert_eq!(earned(1), beta(1.0));
    assert_eq!(earned(5), beta(5.0));
    assert_eq!(earned(6), beta(5.0));
}

#[test]
fn echoes_never_earn_trust() {
    let mut site = Site::roomy(Policy::default());
    for day in 0..40 {
        for number in (0..50).map(|number| day * 50 + number) {
            [1, 2, 3].into_iter().for_each(|id| _ = site.report(trap(90 + id), number));
            assert!(site.books[&item(number)].listed);
            site.report(account(1), number);
        }
        site.wait(Time::DAY);
        assert!(!site.trust.weighs(site.now, &account(1)), "day {day}");
    }
    site.wait(DUE);
    assert_eq!(credits(&site, 1), None, "no claim of the account was settled");
}

#[test]
fn echoed_revocations_earn_nothing_and_wrong_echoes_are_debited() {
    let mut site = Site::roomy(Policy::default());
    [pinned(2), pinned(3)].into_iter().for_each(|reporter| _ = site.revoke(reporter, 1));
    site.revoke(account(1), 1);
    [1, 2, 3].into_iter().for_each(|id| _ = site.report(trap(90 + id), 2));
    site.revoke(account(1), 2);
    site.wait(DUE);
    assert_eq!(credits(&site, 1), Some((0, 1, 0)), "the echo has no effect, but the refuted revocation has");
}

#[test]
fn reports_of_a_signature_listed_earlier_are_echoes_too() {
    let mut site = Site::roomy(Policy::default());
    site.books.insert(item(1), Listing { listed: true, revoked: false });
    site.report(account(1), 1);
    site.report(trap(2), 1);
    site.wait(DUE);
    assert_eq!(credits(&site, 1), None);
}

#[test]
fn a_mistake_costs_ten_and_half_of_it_is_forgotten_in_a_week() {
    let mut site = Site::roomy(Policy::default());
    site.train(account(1), 1_000);
    let before = site.view(1);
    site.report(account(1), 1);
    [pinned(2), pinned(3)].into_iter().for_each(|reporter| _ = site.revoke(reporter, 1));
    site.wait(DUE);
    let after = site.view(1);
    assert_eq!((before.refuted, after.refuted), (0, 1));
    assert!(after.weight < before.weight);
    site.now.0 += 7 * Time::DAY;
    let later = site.view(1);
    assert!(later.weight > after.weight && later.weight < before.weight, "{} {}", later.weight, after.weight);
}

#[test]
fn settling_is_bounded_and_returns_its_number() {
    let mut site = Site::roomy(Policy::default());
    (0..10).for_each(|number| _ = site.report(account(1), number));
    site.now.0 += DUE;
    assert_eq!([4, 4, 4, 4].map(|most| site.trust.settle(site.now, most)), [4, 4, 2, 0]);
}

#[test]
fn entries_are_removed_at_the_end_of_their_lifetime() {
    let mut site = Site::roomy(Policy::default());
    site.report(account(1), 1);
    site.wait(14 * Time::DAY - 1);
    assert!(site.known(1));
    site.wait(1);
    assert!(!site.known(1));
}
