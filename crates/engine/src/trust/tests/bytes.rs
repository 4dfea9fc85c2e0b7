//! Tests of the encoding of the trust state.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use crate::codec::{Malformed, Reader};

/// Memory for about two weeks of claims, so that the table is sometimes full.
const MEMORY: u64 = 48 << 10;

/// Returns a site with many claims about few signatures.
fn busy(seed: u64, claims: u32) -> Site {
    // Let reporters earn trust fast, because the test covers little time.
    let policy = Policy { votes_max: 8, group_share: 0.1, credit_early: 5.0, debit_refuted: 1.0, ..Policy::default() };
    let mut site = Site::with_memory(policy, MEMORY);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..claims).for_each(|_| claim_at_random(&mut site, &mut random));
    site
}

/// Makes a random claim. Anchors are rare, or else the table would soon contain only entries that they voted on.
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
fn a_decoded_state_behaves_like_the_original() {
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
fn the_busy_site_covers_every_part_of_the_encoding() {
    let site = busy(1, 1_000);
    let nursery = &site.trust.nursery;
    assert!((0..4).all(|tier| nursery.tier(tier).count() > 1));
    let by_age = nursery.by_age().filter(|&slot| nursery.tier_of(slot) == 3).collect::<Vec<_>>();
    assert_ne!(nursery.tier(3).collect::<Vec<_>>(), by_age, "the orders differ");
    assert!((0..3).all(|tier| site.trust.reporters.tier_len(tier) > 0) && nursery.groups.idle_len() > 0);
    let overruled = (0..20).map(|seed| busy(seed, 300)).filter(|site| {
        let nursery = &site.trust.nursery;
        nursery.by_age().any(|slot| nursery.votes(nursery.get(slot)).any(|vote| vote.overruled))
    });
    assert!(overruled.count() > 5, "there are overruled votes");
}

#[test]
fn equal_claims_give_equal_bytes() {
    assert_eq!(busy(1, 500).bytes(), busy(1, 500).bytes());
}

#[test]
fn truncated_bytes_are_refused() {
    let site = busy(1, 300);
    let bytes = site.bytes();
    for length in 0..bytes.len() {
        assert!(decode(&site, &bytes[..length]).is_err(), "{length} of {}", bytes.len());
    }
}

#[test]
fn damaged_bytes_are_refused_or_decode_to_a_valid_state() {
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
fn states_that_do_not_fit_are_refused() {
    let mut site = Site::with_memory(Policy { group_share: 1.0, own_share: 1.0, ..Policy::default() }, 1 << 20);
    let (_, room) = Trust::new(Policy::default(), MEMORY).fill();
    (0..=room).for_each(|number| _ = site.report(account(1), number));
    let refused = Malformed::OutOfRange { what: "the number of signatures", value: room + 1 };
    assert_eq!(decode(&site, &site.bytes()).err(), Some(refused));
}
