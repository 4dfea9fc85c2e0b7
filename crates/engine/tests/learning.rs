//! Tests of learning: if an own user calls a message good, its features no longer count, not even in spam that copies
//! it.

mod common;

use bruit_engine::event::{By, Event};
use bruit_engine::message::{EvidenceSource, MessageContext, claim_events, judge};
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Standing};
use bruit_engine::verdict::Kind;
use bruit_engine::{CheckScratch, Engine, Outcome, Refusal};
use bruit_signatures::bruit::Features;
use bruit_signatures::{Signed, Wanted, sign};

use common::{SPAM_EPOCH, START, by, engine, restore, snapshot, tick};

const TEMPLATE: &str = "Dear customer, thank you for choosing the savings bank of Upper Meadow. Please find below a summary of your account \
    movements for the last quarter, together with notes on interest, charges and standing orders. Our branches are open on \
    weekdays from nine until four, and our telephone advisers answer questions about mortgages, pensions and insurance.";
const PHISH: &str = "Unusual activity was detected, so confirm your password within twelve hours or access remains suspended. \
    Follow the enclosed link, enter the secret digits printed behind your plastic card, then wait for a technician to \
    restore everything. Ignoring this notice leads to permanent closure without refund or appeal.";

fn signed(text: &str) -> Signed {
    let wanted = Wanted { attachment: false, url: false, pyzor: false, razor: false, dcc: false, ..Wanted::ALL };
    sign(format!("Subject: x\n\n{text}\n").as_bytes(), &wanted, &Default::default())
}

fn own() -> By {
    by(START, Standing::Own, 1)
}

fn claim(engine: &mut Engine, text: &str, claim: Claim, by: By) -> Vec<Outcome> {
    let events = claim_events(engine, &signed(text), claim, by);
    events.iter().map(|event| engine.apply(event)).collect()
}

/// Returns true if the text of a message resembles a reported one.
fn is_found(engine: &Engine, text: &str) -> bool {
    let features = signed(text).features.unwrap();
    let evidence = engine.check_text(&features, &mut CheckScratch::default());
    matches!(evidence.source, EvidenceSource::Text(found) if found.name.is_some())
}

fn is_lesson(event: &Event) -> bool {
    matches!(event, Event::GoodFeatures { .. })
}

#[test]
fn a_revoked_message_no_longer_matches_the_spam_that_copied_it() {
    let mut engine = engine();
    let spam = format!("{PHISH} {TEMPLATE}");
    claim(&mut engine, &spam, Claim::Report, own());
    assert!(is_found(&engine, &spam) && is_found(&engine, PHISH) && is_found(&engine, TEMPLATE));
    claim(&mut engine, TEMPLATE, Claim::Revoke, own());
    assert!(!is_found(&engine, TEMPLATE), "the good mail");
    assert!(is_found(&engine, &spam) && is_found(&engine, PHISH), "the spam's own text");
    let engine = restore(&snapshot(&mut engine));
    assert!(!is_found(&engine, TEMPLATE) && is_found(&engine, PHISH), "after a restart");
}

#[test]
fn spam_that_copies_a_revoked_message_is_found_by_its_own_text() {
    let mut engine = engine();
    claim(&mut engine, TEMPLATE, Claim::Revoke, own());
    claim(&mut engine, &format!("{PHISH} {TEMPLATE}"), Claim::Report, own());
    assert!(!is_found(&engine, TEMPLATE) && is_found(&engine, PHISH));
}

#[test]
fn only_own_users_teach_and_nothing_is_taught_twice() {
    let mut engine = engine();
    let lessons = |engine: &Engine, claim, standing| {
        let events = claim_events(engine, &signed(TEMPLATE), claim, by(START, standing, 1));
        events.iter().filter(|event| is_lesson(event)).count()
    };
    for standing in [Standing::Account, Standing::Pinned, Standing::Trap, Standing::Stranger] {
        assert_eq!(lessons(&engine, Claim::Revoke, standing), 0, "{standing:?}");
        let event = Event::GoodFeatures { by: by(START, standing, 1), features: vec![1] };
        assert_eq!(engine.apply(&event), Outcome::Refused(Refusal::NotOwn), "{standing:?}");
    }
    assert_eq!(lessons(&engine, Claim::Report, Standing::Own), 0);
    assert_eq!(lessons(&engine, Claim::Revoke, Standing::Own), 1);
    claim(&mut engine, TEMPLATE, Claim::Revoke, own());
    assert_eq!(lessons(&engine, Claim::Revoke, Standing::Own), 0, "all features are known");
    tick(&mut engine, Time(START.0 + 7 * SPAM_EPOCH));
    assert_eq!(lessons(&engine, Claim::Revoke, Standing::Own), 1, "the next generation learns it again");
}

/// Learns good mail until the generation is full, and returns its capacity in messages.
fn fill_good(engine: &mut Engine) -> u64 {
    let (_, capacity) = engine.replicas().good_fill();
    for message in 0..capacity {
        let event = Event::GoodFeatures { by: own(), features: (message << 10..message << 10 | 512).collect() };
        assert_eq!(engine.apply(&event), Outcome::Done);
    }
    assert_eq!(engine.replicas().good_fill(), (capacity, capacity));
    capacity
}

fn kind(engine: &Engine, text: &str) -> Kind {
    let signed = signed(text);
    let context = MessageContext { outline: signed.outline, bulk_threshold: 10, ..MessageContext::default() };
    judge(&engine.check_message(&signed, &mut CheckScratch::default()), &context).kind
}

/// A message that was revoked is not spam, even if reported messages resemble it.
#[test]
fn a_revoked_message_stays_good_when_its_near_replicas_are_reported() {
    let replica = TEMPLATE.replace("quarter", "month").replace("weekdays", "Saturdays");
    for can_learn in [true, false] {
        for was_reported in [true, false] {
            let mut engine = engine();
            if !can_learn {
                fill_good(&mut engine);
            }
            if was_reported {
                claim(&mut engine, TEMPLATE, Claim::Report, own());
            }
            claim(&mut engine, TEMPLATE, Claim::Revoke, own());
            for reporter in 1..=3 {
                claim(&mut engine, &replica, Claim::Report, by(START, Standing::Own, reporter));
            }
            let case = format!("can learn: {can_learn}, was reported: {was_reported}");
            assert_eq!(kind(&engine, &replica), Kind::Spam, "{case}");
            assert_eq!(kind(&engine, TEMPLATE), Kind::Ham, "{case}");
            assert_eq!(kind(&restore(&snapshot(&mut engine)), TEMPLATE), Kind::Ham, "after a restart, {case}");
        }
    }
}

#[test]
fn a_revocation_stands_when_no_more_can_be_learnt() {
    let mut engine = engine();
    let capacity = fill_good(&mut engine);
    claim(&mut engine, TEMPLATE, Claim::Report, own());
    let outcomes = claim(&mut engine, TEMPLATE, Claim::Revoke, own());
    assert!(matches!(outcomes[0], Outcome::Claimed { revoked: 2, refused: 0, .. }), "{outcomes:?}");
    assert_eq!(outcomes[1..], [Outcome::Refused(Refusal::GoodIsFull)]);
    let table = engine.status().tables.into_iter().find(|table| table.name == "good messages").unwrap();
    assert!(table.used == capacity && table.is_nearly_full());
}

#[test]
fn a_long_message_teaches_as_many_features_as_fit_in_an_event() {
    let engine = engine();
    let features = Features { pairs: (0..5_000).collect(), ..Features::default() };
    let events = claim_events(&engine, &Signed { features: Some(features), ..signed("") }, Claim::Revoke, own());
    let lesson = events.into_iter().find(is_lesson).unwrap();
    assert!(matches!(&lesson, Event::GoodFeatures { features, .. } if features.len() == 512));
    assert!(lesson.is_within_bounds());
}
