//! The state as bytes.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;
use crate::codec::{Malformed, Reader};

/// A site in which much has happened to few signatures and all bounds were met.
fn busy(seed: u64, claims: u32) -> Site {
    let mut site = Site::new(Policy { votes_max: 8, group_share: 0.1, ..Policy::default() });
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..claims).for_each(|_| claim_at_random(&mut site, &mut random));
    site
}

fn claim_at_random(site: &mut Site, random: &mut ChaCha8Rng) {
    const STANDINGS: [Standing; 5] =
        [Standing::Trap, Standing::Own, Standing::Pinned, Standing::Account, Standing::Stranger];
    let id = random.random_range(0..60);
    let reporter = Reporter { id, standing: STANDINGS[(id % 5) as usize], group: id / 2 };
    let claim = if random.random_bool(0.8) { Claim::Report } else { Claim::Revoke };
    _ = site.claim(reporter, random.random_range(0..150), claim);
    site.wait(random.random_range(0..2 * Time::HOUR));
}

fn decode(site: &Site, bytes: &[u8]) -> Result<Trust, Malformed> {
    let mut reader = Reader::new(bytes);
    let trust = Trust::decode(site.trust.policy().clone(), SMALL, &mut reader)?;
    reader.finish()?;
    Ok(trust)
}

#[test]
fn what_was_encoded_goes_on_as_if_nothing_had_happened() {
    for seed in 0..20 {
        let mut site = busy(seed, 1_000);
        let trust = decode(&site, &site.bytes()).unwrap();
        let mut again = Site { trust, books: site.books.clone(), now: site.now };
        assert_eq!(again.bytes(), site.bytes(), "seed {seed}");
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
    (0..u64::from(ENTRIES_MIN) + 1).for_each(|number| _ = site.report(account(1), number));
    let refused = Malformed::OutOfRange { what: "the number of signatures", value: u64::from(ENTRIES_MIN) + 1 };
    assert_eq!(decode(&site, &site.bytes()).err(), Some(refused));
}
