//! Tests of the effects of claims on the books.

use super::*;

const LISTED: Listing = Listing { listed: true, revoked: false };

#[test]
fn one_own_report_lists_at_once_and_strangers_never_do() {
    let mut site = Site::new(Policy::default());
    for id in 0..100 {
        assert_eq!(site.report(stranger(id), 1), Change::Nothing);
        assert_eq!(site.report(account(id + 100), 1), Change::Nothing);
    }
    assert_eq!(site.report(own(1000), 1), Change::List);
    assert_eq!(site.report(own(1001), 1), Change::Nothing, "it is listed already");
    assert_eq!(site.trust.assess(&item(1)).unwrap().promoted, Some(site.now));
}

#[test]
fn a_site_may_require_several_different_own_reporters() {
    let mut site = Site::new(Policy { own_reports_needed: 2, ..Policy::default() });
    let users = [7, 8].map(|id| Reporter { id, standing: Standing::Own, group: 7 });
    assert_eq!(site.report(users[0], 1), Change::Nothing);
    assert_eq!(site.report(users[0], 1), Change::Nothing);
    assert_eq!(site.report(users[1], 1), Change::List);
}

#[test]
fn a_standing_own_revocation_prevents_listing_by_own_reports() {
    let mut site = Site::new(Policy::default());
    assert_eq!(site.revoke(own(1), 1), Change::Nothing, "it is not listed");
    assert_eq!(site.report(own(2), 1), Change::Nothing);
    assert_eq!(site.report(own(1), 1), Change::List, "the newer claim replaces the older one");
}

#[test]
fn three_anchors_list_by_evidence_and_accounts_help_once_trusted() {
    let mut site = Site::new(Policy::default());
    assert_eq!([1, 2, 3].map(|id| site.report(pinned(id), 1)), [Change::Nothing, Change::Nothing, Change::List]);
    site.train(account(50), 1_000);
    site.train(account(51), 2_000);
    assert_eq!(site.view(50).weight, 2.5);
    site.report(account(50), 2);
    site.report(account(51), 2);
    assert_eq!(site.evidence(2).level, Level::Suspect);
    assert_eq!(site.report(pinned(1), 2), Change::List);
}

#[test]
fn an_own_revocation_takes_effect_at_once_even_against_a_trap() {
    let mut site = Site::new(Policy::default());
    [trap(1), pinned(2), pinned(3), pinned(10), pinned(11)]
        .into_iter()
        .for_each(|reporter| _ = site.report(reporter, 1));
    assert_eq!(site.revoke(pinned(4), 1), Change::Nothing, "a trap reported it, and a score of 7.5 is left");
    assert_eq!(site.revoke(account(5), 1), Change::Nothing);
    assert_eq!(site.revoke(own(6), 1), Change::Revoke);
    assert_eq!(site.revoke(own(7), 1), Change::Nothing, "it is no longer listed");
    assert_eq!(site.trust.assess(&item(1)).unwrap().promoted, None);
}

#[test]
fn only_anchors_revoke_listings_without_stored_evidence() {
    for (reporter, change) in [
        (stranger(1), Change::Nothing),
        (account(1), Change::Nothing),
        (pinned(1), Change::Revoke),
        (own(1), Change::Revoke),
    ] {
        let mut site = Site::new(Policy::default());
        site.books.insert(item(1), LISTED);
        assert_eq!(site.revoke(reporter, 1), change, "{reporter:?}");
    }
    let mut site = Site::new(Policy::default());
    site.books.insert(item(1), LISTED);
    site.report(trap(1), 1);
    assert_eq!(site.revoke(pinned(2), 1), Change::Nothing, "a trap reported it recently");
}

#[test]
fn a_peer_cannot_revoke_a_listing_held_by_own_reporters() {
    let mut site = Site::new(Policy::default());
    site.report(own(1), 1);
    assert_eq!(site.revoke(pinned(2), 1), Change::Nothing);
    assert_eq!(site.revoke(own(3), 1), Change::Revoke);
}

#[test]
fn a_listing_whose_evidence_drops_below_block_is_revoked() {
    let mut site = Site::new(Policy::default());
    (0..3).for_each(|n| site.train(account(50 + n), 1_000 * (n + 1)));
    [account(50), account(51), pinned(1)].into_iter().for_each(|reporter| _ = site.report(reporter, 1));
    assert!(site.books[&item(1)].listed);
    assert_eq!(site.revoke(account(99), 1), Change::Nothing, "the account has no weight");
    assert_eq!(site.revoke(account(52), 1), Change::Revoke, "a score of 7.5 minus 2 is below 6");
    [account(50), account(51), pinned(1), pinned(2)].into_iter().for_each(|reporter| _ = site.report(reporter, 2));
    assert_eq!(site.revoke(account(52), 2), Change::Nothing, "two anchors outweigh unanchored revocations");
}

#[test]
fn own_reporters_list_again_only_with_a_majority_and_one_more_than_usual() {
    let mut site = Site::new(Policy::default());
    site.report(own(1), 1);
    site.report(own(2), 1);
    assert_eq!(site.revoke(own(3), 1), Change::Revoke);
    assert_eq!(site.report(own(4), 1), Change::Nothing, "reports before the revocation no longer count");
    assert_eq!(site.report(own(4), 1), Change::Nothing, "repeated reports do not count either");
    assert_eq!(site.report(own(1), 1), Change::List, "two against one");

    [own(5), own(6)].into_iter().for_each(|reporter| _ = site.revoke(reporter, 1));
    assert_eq!(site.revoke(own(7), 1), Change::Nothing);
    let changes = [10, 11, 12, 13].map(|id| site.report(own(id), 1));
    assert_eq!(changes, [Change::Nothing, Change::Nothing, Change::Nothing, Change::List], "four against three");
}

#[test]
fn an_own_reporter_can_take_back_the_only_revocation() {
    let mut site = Site::new(Policy::default());
    for _ in 0..2 {
        assert_eq!(site.report(own(1), 1), Change::List);
        assert_eq!(site.revoke(own(1), 1), Change::Revoke);
    }
    assert_eq!(site.revoke(own(2), 1), Change::Nothing, "it is no longer listed");
    assert_eq!(site.report(own(1), 1), Change::Nothing, "the other's revocation still stands");
    assert_eq!(site.report(own(2), 1), Change::List);

    site.report(pinned(3), 2);
    assert_eq!(site.revoke(own(1), 2), Change::Nothing, "it was not listed");
    site.books.insert(item(2), Listing { listed: true, revoked: true });
    site.revoke(pinned(4), 2);
    assert_eq!(site.report(own(1), 2), Change::Nothing, "a peer has revoked it too");

    let mut strict = Site::new(Policy { own_reports_needed: 2, ..Policy::default() });
    [1, 2].into_iter().for_each(|id| _ = strict.report(own(id), 1));
    assert_eq!(strict.revoke(own(1), 1), Change::Revoke);
    assert_eq!(
        strict.report(own(1), 1),
        Change::Nothing,
        "one of two reports required: the other precedes the revocation"
    );
}

#[test]
fn evidence_lists_again_only_with_the_margin_and_two_more_anchors() {
    let mut site = Site::new(Policy::default());
    [1, 2, 3].into_iter().for_each(|id| _ = site.report(pinned(id), 1));
    assert_eq!(site.revoke(pinned(9), 1), Change::Revoke);
    // The revocation weighs 5, so the reports must weigh 15. This takes six anchors.
    let changes = (11..17).map(|id| site.report(pinned(id), 1)).collect::<Vec<_>>();
    assert_eq!(changes[..5], [Change::Nothing; 5]);
    assert_eq!(changes[5], Change::List);
    assert_eq!(site.evidence(1).ham, 0.0, "the revocation is overruled");
}

#[test]
fn listing_a_revoked_unknown_signature_needs_a_score_of_ten() {
    let revoked = Listing { listed: true, revoked: true };
    let mut site = Site::new(Policy::default());
    site.books.insert(item(1), revoked);
    assert_eq!([1, 2, 3].map(|id| site.report(pinned(id), 1)), [Change::Nothing; 3], "a score of 7.5");
    assert_eq!(site.report(pinned(4), 1), Change::List, "a score of 10");
    site.books.insert(item(2), revoked);
    assert_eq!(site.report(own(1), 2), Change::Nothing);
    assert_eq!(site.report(own(2), 2), Change::List);
}

#[test]
fn repeated_claims_are_counted_without_weight() {
    let mut site = Site::new(Policy::default());
    (0..5).for_each(|_| _ = site.report(pinned(1), 1));
    (0..3).for_each(|_| _ = site.revoke(stranger(2), 1));
    let known = site.trust.assess(&item(1)).unwrap();
    assert_eq!((known.report_count, known.revoke_count), (5, 3));
    assert_eq!((known.evidence.spam, known.evidence.ham, known.evidence.groups), (2.5, 0.0, 1));
}

#[test]
fn a_newer_claim_replaces_the_older_one() {
    let mut site = Site::new(Policy::default());
    site.report(pinned(1), 1);
    site.revoke(pinned(1), 1);
    assert_eq!((site.evidence(1).spam, site.evidence(1).ham), (0.0, 5.0));
}

#[test]
fn confidence_is_half_at_the_suspect_score() {
    let mut site = Site::new(Policy { suspect_score: 5.0, ..Policy::default() });
    site.report(pinned(1), 1);
    let confidence = |site: &Site| site.trust.assess(&item(1)).unwrap().confidence(site.trust.policy());
    assert_eq!(confidence(&site), 8);
    site.report(pinned(2), 1);
    assert_eq!(confidence(&site), 50);
}
