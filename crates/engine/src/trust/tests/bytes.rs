//! The state as bytes.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use crate::codec::{Malformed, Reader};

/// Room for about what happens in two weeks: the table is full at times.
const MEMORY: u64 = 48 << 10;

/// A site in which much has happened to few signatures.
fn busy(seed: u64, claims: u32) -> Site {
    // Trust comes fast, as there is little time.
    let policy = Policy { votes_max: 8, group_share: 0.1, credit_early: 5.0, debit_refuted: 1.0, ..Policy::default() };
    let mut site = Site::with_memory(policy, MEMORY);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..claims).for_each(|_| claim_at_random(&mut site, &mut random));
    site
}

/// Few anchors, or the table would soon hold nothing but what they voted on.
fn claim_at_random(site: &mut Site, random: &mut ChaCha8Rng) {
    let id = random.random_range(0..60);
    let standing = match id {
        0 => Standing::Trap,
        1..5 => Standing::Own,
        5..7 => Standing::Pinned,
        7..40 => Standing::Account,
        _ => Standing::Stranger,
    };
    let claim = if random.random_bool(0.7) { Claim::Report } else { Claim::Revoke };
    _ = site.claim(Reporter { id, standing, group: id / 2 }, random.random_range(0..100), claim);
    site.wait(random.random_range(0..2 * Time::HOUR));
}

fn decode(site: &Site, bytes: &[u8]) -> Result<Trust, Malformed> {
    let mut reader = Reader::new(bytes);
    let trust = Trust::decode(site.trust.policy().clone(), MEMORY, &mut reader)?;
    reader.finish()?;
    Ok(trust)
}

#[test]
fn what_was_encoded_goes_on_as_if_nothing_had_happened() {
    for seed in 0..20 {
        let mut site = busy(seed, if seed % 2 == 0 { 300 } else { 1_000 });
        let trust = decode(&site, &site.bytes()).unwrap();
        let mut again = Site { trust, books: site.books.clone(), now: site.now };
        assert_eq!(again.bytes(), site.bytes(), "seed {seed}");
        let assessments = |site: &Site| (0..100).map(|number| site.trust.assess(&item(number))).collect::<Vec<_>>();
        assert_eq!(assessments(&again), assessments(&site), "seed {seed}");
        let mut random = [(); 2].map(|()| ChaCha8Rng::seed_from_u64(seed + 100));
        for _ in 0..500 {
            claim_at_random(&mut site, &mut random[0]);
            claim_at_random(&mut again, &mut random[1]);
        }
        assert_eq!(again.bytes(), site.bytes(), "seed {seed}");
        assert_eq!(again.books, site.books, "seed {seed}");
    }
}

#[test]
fn the_busy_site_has_everything_that_is_encoded() {
    let site = busy(1, 1_000);
    let nursery = &site.trust.nursery;
    assert!((0..4).all(|tier| nursery.tier(tier).count() > 1));
    let by_age = nursery.by_age().filter(|&slot| nursery.tier_of(slot) == 3).collect::<Vec<_>>();
    assert_ne!(nursery.tier(3).collect::<Vec<_>>(), by_age, "orders that differ");
    assert!((0..3).all(|tier| site.trust.reporters.tier_len(tier) > 0) && nursery.groups.idle_len() > 0);
    let spent = (0..20).map(|seed| busy(seed, 300)).filter(|site| {
        let nursery = &site.trust.nursery;
        nursery.by_age().any(|slot| nursery.votes(nursery.get(slot)).any(|vote| vote.spent))
    });
    assert!(spent.count() > 5, "votes that were overruled");
}

#[test]
fn equal_claims_give_equal_bytes() {
    assert_eq!(busy(1, 500).bytes(), busy(1, 500).bytes());
}

#[test]
fn bytes_cut_anywhere_are_refused() {
    let site = busy(1, 300);
    let bytes = site.bytes();
    for length in 0..bytes.len() {
        assert!(decode(&site, &bytes[..length]).is_err(), "{length} of {}", bytes.len());
    }
}

#[test]
fn damaged_bytes_are_refused_or_say_what_they_say() {
    let site = busy(2, 200);
    let bytes = site.bytes();
    let mut random = ChaCha8Rng::seed_from_u64(3);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << random.random_range(0..8);
        if let Ok(trust) = decode(&site, &damaged) {
            let mut again = Vec::new();
            trust.encode(&mut again);
            assert_eq!(again.len(), damaged.len(), "byte {at}");
            let mut site = Site { trust, books: Default::default(), now: site.now };
            (0..20).for_each(|_| claim_at_random(&mut site, &mut random));
        }
    }
}

#[test]
fn more_than_fits_is_refused() {
    let mut site = Site::with_memory(Policy { group_share: 1.0, own_share: 1.0, ..Policy::default() }, 1 << 20);
    let (_, room) = Trust::new(Policy::default(), MEMORY).fill();
    (0..=room).for_each(|number| _ = site.report(account(1), number));
    let refused = Malformed::OutOfRange { what: "the number of signatures", value: room + 1 };
    assert_eq!(decode(&site, &site.bytes()).err(), Some(refused));
}
