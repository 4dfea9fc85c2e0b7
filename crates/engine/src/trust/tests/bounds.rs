//! Tests of every table at its bound, and of the order of eviction.

use super::*;

/// Number of entries in the smallest table.
const ENTRIES: u64 = ENTRIES_MIN as u64;

/// Returns a policy whose shares are too large to matter.
fn unshared() -> Policy {
    Policy { group_share: 1.0, own_share: 1.0, ..Policy::default() }
}

fn votes(site: &Site, number: u64) -> Vec<u64> {
    let slot = site.trust.nursery.find(&item(number)).unwrap();
    site.trust.nursery.votes(site.trust.nursery.get(slot)).map(|vote| vote.reporter).collect()
}

#[test]
fn votes_are_bounded_and_lighter_ones_give_way() {
    let mut site = Site::new(Policy { votes_max: 3, ..Policy::default() });
    site.train(account(50), 1_000);
    [1, 2, 3, 4].into_iter().for_each(|id| _ = site.report(account(id), 1));
    assert_eq!(votes(&site, 1), [1, 2, 3], "votes of equal weight are not replaced");
    site.report(account(50), 1);
    assert_eq!(votes(&site, 1), [2, 3, 50]);
    [10, 11, 12].into_iter().for_each(|id| _ = site.report(pinned(id), 1));
    assert_eq!(votes(&site, 1), [10, 11, 12]);
    site.report(account(50), 1);
    assert_eq!(votes(&site, 1), [10, 11, 12]);
    site.report(own(20), 1);
    assert_eq!(votes(&site, 1), [11, 12, 20], "an anchor's vote is always stored");
}

#[test]
fn a_group_at_its_share_loses_its_own_oldest_entry() {
    let mut site = Site::new(Policy { group_share: 0.05, ..Policy::default() });
    site.report(account(1), 100);
    let colleague = Reporter { id: 3, standing: Standing::Account, group: 2 };
    assert_eq!(site.trust.policy().share(Standing::Account, ENTRIES_MIN), 3);
    [1, 2, 3].into_iter().for_each(|number| _ = site.report(account(2), number));
    site.report(colleague, 4);
    assert_eq!([1, 2, 3, 4, 100].map(|number| site.known(number)), [false, true, true, true, true]);
}

#[test]
fn an_entry_pushed_out_of_a_share_passes_to_others_who_voted_on_it() {
    let mut site = Site::new(Policy { group_share: 0.05, ..Policy::default() });
    (1..=3).for_each(|number| _ = site.report(account(2), number));
    site.report(account(7), 1);
    (4..=6).for_each(|number| _ = site.report(account(2), number));
    assert_eq!((1..=6).map(|number| site.known(number)).collect::<Vec<_>>(), [true, false, false, true, true, true]);
    assert_eq!(site.trust.nursery.groups.charged(7), 1);
}

#[test]
fn an_entry_is_charged_to_the_first_group_of_the_highest_class() {
    let mut site = Site::new(Policy { group_share: 0.02, ..Policy::default() });
    site.report(stranger(1), 1);
    let charged = |site: &Site| [1, 2, 3, 4].map(|id| site.trust.nursery.groups.charged(id));
    assert_eq!(charged(&site), [1, 0, 0, 0]);
    site.report(account(2), 1);
    assert_eq!(charged(&site), [0, 1, 0, 0]);
    site.report(account(3), 1);
    assert_eq!(charged(&site), [0, 1, 0, 0]);
    site.report(own(4), 1);
    assert_eq!(charged(&site), [0, 0, 0, 1]);
}

#[test]
fn a_full_table_evicts_the_oldest_of_the_lowest_tier_and_never_a_better_one() {
    let mut site = Site::new(unshared());
    site.train(account(50), 1_000);
    site.wait(15 * Time::DAY);
    assert_eq!(site.trust.fill(), (0, ENTRIES));
    site.report(stranger(1), 1);
    site.report(stranger(2), 2);
    site.report(account(3), 3);
    site.report(account(50), 4);
    (5..=ENTRIES).for_each(|number| _ = site.report(own(6), number));
    assert_eq!(site.trust.fill(), (ENTRIES, ENTRIES));
    let claim = |site: &mut Site, reporter, number| site.claim(reporter, number, Claim::Report).err();
    assert_eq!(claim(&mut site, stranger(9), 101), None);
    assert_eq!([1, 2].map(|number| site.known(number)), [false, true], "the oldest entry of a stranger is evicted");
    assert_eq!(claim(&mut site, account(9), 102), None);
    assert_eq!(claim(&mut site, account(9), 103), None);
    assert_eq!(claim(&mut site, stranger(9), 104), Some(NurseryRefusal::Full), "no entry of a stranger is left");
    assert_eq!(claim(&mut site, account(9), 105), None);
    assert!(!site.known(3) && site.known(4), "accounts without weight evict each other");
    let before = site.bytes();
    assert_eq!(claim(&mut site, stranger(9), 106), Some(NurseryRefusal::Full));
    assert_eq!(site.bytes(), before, "nothing has changed");
    (200..200 + ENTRIES).for_each(|number| assert_eq!(claim(&mut site, own(8), number), None));
    assert_eq!(
        claim(&mut site, account(50), 300),
        Some(NurseryRefusal::Full),
        "only anchors evict entries that anchors voted on"
    );
}

#[test]
fn when_votes_run_out_the_lowest_entry_with_votes_is_evicted() {
    let mut site = Site::new(Policy { votes_max: 64, ..unshared() });
    let pool = u64::from(ENTRIES_MIN * nursery::VOTES_PER_ENTRY);
    site.report(stranger(1), 1);
    site.report(account(1), 2);
    for number in 3..3 + pool / 64 {
        (0..64).for_each(|id| _ = site.report(pinned(100 + id), number));
    }
    assert_eq!([1, 2].map(|number| site.known(number)), [true, false], "an entry of a stranger has no votes to free");
    assert_eq!(site.report(account(2), 50), Change::Nothing);
    assert_eq!(votes(&site, 50), [0; 0], "accounts without weight do not evict votes of anchors");
    site.report(own(3), 51);
    assert_eq!(votes(&site, 51), [3]);
    assert!(!site.known(3));
}

#[test]
fn a_group_over_its_quota_may_claim_again_the_next_day() {
    let mut site = Site::new(Policy { group_inserts_daily: 3, ..unshared() });
    (1..=3).for_each(|number| _ = site.report(account(1), number));
    let refused = NurseryRefusal::Quota { again: Time(1_001 * Time::DAY) };
    assert_eq!(site.trust.admit(site.now, &account(1), &item(4)), Err(refused));
    assert_eq!(site.claim(account(1), 4, Claim::Revoke), Err(refused));
    let colleague = Reporter { id: 2, standing: Standing::Account, group: 1 };
    assert_eq!(site.claim(colleague, 4, Claim::Report), Err(refused));
    assert_eq!(site.claim(account(1), 3, Claim::Report), Ok(Change::Nothing), "known signatures are not limited");
    assert_eq!(site.trust.admit(site.now, &account(1), &item(3)), Ok(()));
    assert_eq!(site.claim(account(5), 5, Claim::Report), Ok(Change::Nothing));
    site.now = Time(1_001 * Time::DAY);
    assert_eq!(site.trust.admit(site.now, &account(1), &item(4)), Ok(()));
}

#[test]
fn quotas_and_shares_depend_on_standing() {
    let policy = Policy { stranger_inserts_daily: 1, group_inserts_daily: 2, own_inserts_daily: 3, ..unshared() };
    // Own reporters and traps are limited by their quotas for the books instead.
    for (reporter, most) in [(stranger(1), 1), (account(1), 2), (pinned(1), 2), (own(1), 5), (trap(1), 5)] {
        let mut site = Site::new(policy.clone());
        let admitted = (0..5).filter(|&number| site.claim(reporter, number, Claim::Report).is_ok()).count();
        assert_eq!(admitted, most, "{reporter:?}");
    }
}

#[test]
fn a_full_table_of_reporters_evicts_records_without_weight_first() {
    let mut site = Site::new(unshared());
    let settle = |site: &mut Site, reporter| {
        let number = 10_000 + site.now.0;
        site.report(reporter, number);
        site.wait(2 * Time::DAY);
    };
    settle(&mut site, pinned(1));
    settle(&mut site, account(2));
    (0..ENTRIES - 2).for_each(|id| settle(&mut site, account(100 + id)));
    assert!(site.trust.reporter(site.now, 2).is_some());
    settle(&mut site, account(300));
    assert!(site.trust.reporter(site.now, 2).is_none(), "the least recently settled record is evicted");
    (0..ENTRIES).for_each(|id| settle(&mut site, pinned(400 + id)));
    assert!(site.trust.reporter(site.now, 1).is_none(), "an anchor is evicted for another anchor");
    settle(&mut site, account(500));
    assert!(site.trust.reporter(site.now, 500).is_none(), "an anchor is never evicted for an account");
}

#[test]
fn memory_is_within_the_budget_and_never_grows() {
    for budget in [1_u64 << 16, 1 << 20, 5 << 20] {
        let mut site = Site::with_memory(unshared(), budget);
        let bytes = site.trust.bytes();
        assert!(bytes <= budget + 2_048 && bytes * 10 >= budget * 8, "{bytes} of {budget}");
        let (_, entries) = site.trust.fill();
        for number in 0..entries * 3 {
            _ = site.claim(
                of(number % 900, [Standing::Account, Standing::Own][number as usize % 2]),
                number,
                Claim::Report,
            );
            site.wait(100);
        }
        assert_eq!(site.trust.bytes(), bytes);
    }
}
