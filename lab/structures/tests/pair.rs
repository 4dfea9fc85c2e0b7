//! A pair of filters gives the same answers in either order of lookup, one by one and in batches.

use bruit_filters::bloom::OneLineFilter;
use bruit_filters::{Fingerprint, KeyId};
use bruit_structures::pair::{LookupOrder, SpamPair};
use proptest::collection::vec;
use proptest::prelude::*;

fn fingerprints(max: usize) -> impl Strategy<Value = Vec<Fingerprint>> {
    // There are few distinct words, so that keys share lines.
    let word = prop_oneof![any::<u64>(), (0..4u64).prop_map(|i| i << 62), (0..4u64).prop_map(|i| i << 31)];
    vec((word.clone(), word).prop_map(|(high, low)| Fingerprint::new(high, low)), 0..max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_pair_answers_the_same_in_either_order(
        reported in fingerprints(100), revoked in fingerprints(100), asked in fingerprints(400),
    ) {
        let empty = OneLineFilter::new(50, 6, 64, KeyId(7)).unwrap();
        let mut asked = asked;
        asked.extend(reported.iter().chain(&revoked));
        let answers = [LookupOrder::SpamFirst, LookupOrder::RevokedFirst].map(|order| {
            let mut pair = SpamPair::new(empty.clone(), empty.clone(), order);
            reported.iter().for_each(|key| pair.report(key));
            revoked.iter().for_each(|key| pair.revoke(key));
            let mut found = vec![true; asked.len()];
            pair.is_spam_batch(&asked, &mut found);
            assert!(asked.iter().zip(&found).all(|(key, &found)| pair.is_spam(key) == found));
            assert!(revoked.iter().all(|key| !pair.is_spam(key)), "a revoked key is not spam");
            found
        });
        prop_assert_eq!(&answers[0], &answers[1]);
    }
}
