//! Claims with an ID count at most once.

mod common;

use bruit_engine::claim_ids::ClaimTotals;
use bruit_engine::event::Event;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Standing};
use bruit_engine::whitelist::{ListAuthor, WhitelistChange};
use bruit_engine::{Engine, Outcome, Refusal};
use bruit_filters::Fingerprint;

use common::{START, by, engine, fingerprint, restore, snapshot};

/// Returns a report of two signatures, in two events.
fn report(id: u32, standing: Standing) -> Event {
    let claim = |signature| Event::Claim {
        by: by(START, standing, 1),
        claim: Claim::Report,
        flag: 0,
        fingerprints: vec![fingerprint(signature)],
    };
    Event::IdentifiedClaim { now: START, id: fingerprint(id), events: vec![claim(1), claim(2)] }
}

fn reports(engine: &Engine, signature: &Fingerprint) -> u32 {
    engine.check(signature, 0).counts.report_count
}

#[test]
fn a_repeated_claim_is_refused_and_its_answer_is_known() {
    let mut engine = engine();
    let Outcome::Identified(outcomes) = engine.apply(&report(100, Standing::Own)) else { panic!("refused") };
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Claimed { listed: 1, .. })), "{outcomes:?}");
    for _ in 0..3 {
        assert_eq!(engine.apply(&report(100, Standing::Own)), Outcome::Refused(Refusal::Repeated));
    }
    assert_eq!(engine.apply(&report(100, Standing::Own)).refusal(), None, "a repeated claim is no fault");
    assert_eq!((reports(&engine, &fingerprint(1)), reports(&engine, &fingerprint(2))), (1, 1));
    let totals = ClaimTotals { accepted: 2, listed: 2, ..ClaimTotals::default() };
    assert_eq!(engine.claim_ids().get(&fingerprint(100)), Some(totals));
    assert!(matches!(engine.apply(&report(101, Standing::Own)), Outcome::Identified(_)));
    assert_eq!(reports(&engine, &fingerprint(1)), 2);
}

#[test]
fn a_snapshot_remembers_the_ids() {
    let mut engine = engine();
    engine.apply(&report(100, Standing::Own));
    let bytes = snapshot(&mut engine);
    let mut restored = restore(&bytes);
    assert_eq!(restored.apply(&report(100, Standing::Own)), Outcome::Refused(Refusal::Repeated));
    assert_eq!(restored.claim_ids().get(&fingerprint(100)), engine.claim_ids().get(&fingerprint(100)));
    assert!(snapshot(&mut restored) == bytes, "equal states have equal bytes");
}

/// A claim without effect may succeed later, so its ID is not remembered.
#[test]
fn a_claim_without_effect_may_be_repeated() {
    let mut engine = engine();
    for signature in [1, 2] {
        let change = WhitelistChange::List(fingerprint(signature), ListAuthor::Operator);
        engine.apply(&Event::Whitelist { now: START, change });
    }
    assert_eq!(engine.apply(&report(100, Standing::Own)), Outcome::Refused(Refusal::Whitelisted));
    let change = WhitelistChange::Unlist(fingerprint(2));
    engine.apply(&Event::Whitelist { now: Time(START.0 + 1), change });
    assert!(matches!(engine.apply(&report(100, Standing::Own)), Outcome::Identified(_)));
    let totals = ClaimTotals { accepted: 1, listed: 1, ignored: 1, ..ClaimTotals::default() };
    assert_eq!(engine.claim_ids().get(&fingerprint(100)), Some(totals));
}
