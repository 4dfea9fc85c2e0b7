//! Tests of claims: which are accepted, which are counted, and which verdicts result.

mod common;

use bruit_engine::bulk::{BulkTotals, MANY};
use bruit_engine::event::{Event, TextChange};
use bruit_engine::message::{MessageContext, claim_events, judge};
use bruit_engine::signature::fingerprint_of_bytes;
use bruit_engine::spam::ClaimCounts;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Level, Policy, Standing};
use bruit_engine::verdict::{Kind, Reason, Verdict, confidence_of_own};
use bruit_engine::whitelist::{ListAuthor, WhitelistChange, WhitelistReason};
use bruit_engine::{CheckScratch, Engine, Outcome, Refusal};
use bruit_filters::Fingerprint;
use bruit_signatures::bruit::Features;
use bruit_signatures::{Scheme, Wanted, pyzor, sign};

use common::{KEY, START, by, engine, fingerprint, plan, realm};

fn claim(engine: &mut Engine, standing: Standing, id: u64, claim: Claim, fingerprints: &[Fingerprint]) -> Outcome {
    let by = by(engine.now(), standing, id);
    engine.apply(&Event::Claim { by, claim, flag: 0, fingerprints: fingerprints.to_vec() })
}

#[test]
fn an_own_report_lists_and_is_counted() {
    let (mut engine, spam) = (engine(), fingerprint(1));
    claim(&mut engine, Standing::Own, 1, Claim::Report, &[spam]);
    claim(&mut engine, Standing::Own, 1, Claim::Report, &[spam]);
    claim(&mut engine, Standing::Own, 2, Claim::Report, &[spam]);
    let verdict = engine.check(&spam, 0);
    assert_eq!((verdict.kind, verdict.reason), (Kind::Spam, Reason::OwnReports));
    assert!(verdict.confidence >= confidence_of_own(1));
    assert_eq!(verdict.counts, ClaimCounts { report_count: 3, revoke_count: 0 });
    assert_eq!(verdict.generations.newest(), Some(0));
    assert_eq!(engine.check(&fingerprint(2), 0), Verdict::default());
}

#[test]
fn sites_with_many_users_can_ask_for_several_reports() {
    let policy = Policy { own_reports_needed: 3, ..Policy::default() };
    let (mut engine, spam) = (Engine::new(realm(), plan(), policy, START), fingerprint(1));
    for (id, kind) in [(1, Kind::Unknown), (2, Kind::Unknown), (2, Kind::Unknown), (3, Kind::Spam)] {
        claim(&mut engine, Standing::Own, id, Claim::Report, &[spam]);
        assert_eq!(engine.check(&spam, 0).kind, kind);
    }
}

/// A policy is part of the state. An event changes it, and stored claims are kept.
#[test]
fn a_policy_is_changed_by_an_event() {
    let (mut engine, spam) = (engine(), fingerprint(1));
    claim(&mut engine, Standing::Account, 9, Claim::Report, &[spam]);
    let policy = Box::new(Policy { own_reports_needed: 2, ..Policy::default() });
    assert_eq!(engine.apply(&Event::Policy { now: START, policy }), Outcome::Done);
    claim(&mut engine, Standing::Own, 1, Claim::Report, &[spam]);
    assert_eq!(engine.check(&spam, 0).kind, Kind::Unknown);
    claim(&mut engine, Standing::Own, 2, Claim::Report, &[spam]);
    assert_eq!(engine.check(&spam, 0).kind, Kind::Spam);
    assert_eq!(engine.explain(&spam).assessment.unwrap().report_count, 3);
}

#[test]
fn strangers_may_check_but_not_list_count_or_teach() {
    let (mut engine, spam) = (engine(), fingerprint(1));
    for id in 0..500 {
        claim(&mut engine, Standing::Stranger, id, Claim::Report, &[spam]);
    }
    let verdict = engine.check(&spam, 0);
    assert_eq!((verdict.kind, verdict.counts.report_count), (Kind::Unknown, 0));
    let stranger = by(START, Standing::Stranger, 1);
    let refused = Outcome::Refused(Refusal::Stranger);
    assert_eq!(engine.apply(&Event::Bulk { by: stranger, targets: 5, fingerprints: vec![spam] }), refused);
    let features = Features { pairs: (0..100).collect(), ..Features::default() };
    let text = engine.replicas().text(&features);
    let fingerprint = text.fingerprint(engine.realm().key());
    assert_eq!(engine.apply(&Event::Text { by: stranger, fingerprint, text }), refused);
    assert_eq!(engine.find_text(&features, &mut CheckScratch::default()), None);
}

#[test]
fn evidence_lists_when_groups_agree_and_an_anchor_is_among_them() {
    let (mut engine, spam) = (engine(), fingerprint(1));
    for id in [1, 2] {
        claim(&mut engine, Standing::Pinned, id, Claim::Report, &[spam]);
        let assessment = engine.explain(&spam).assessment.unwrap();
        assert_eq!((assessment.evidence.groups, engine.check(&spam, 0).kind), (id as u32, Kind::Unknown));
    }
    assert_eq!(engine.check(&spam, 0).reason, Reason::Suspected);
    claim(&mut engine, Standing::Pinned, 3, Claim::Report, &[spam]);
    let verdict = engine.check(&spam, 0);
    assert_eq!((verdict.kind, verdict.reason), (Kind::Spam, Reason::Evidence));
    assert!(verdict.confidence >= 88, "{verdict:?}");
    assert_eq!(engine.explain(&spam).assessment.unwrap().evidence.level, Level::Block);
}

#[test]
fn whitelisted_signatures_are_never_counted() {
    let mut engine = engine();
    let empty = fingerprint_of_bytes(&KEY, Scheme::Pyzor, &pyzor::Digest::EMPTY.0).unwrap();
    let (good, spam) = (fingerprint(1), fingerprint(2));
    claim(&mut engine, Standing::Own, 1, Claim::Report, &[good]);
    assert_eq!(engine.check(&good, 0).kind, Kind::Spam);
    let list = WhitelistChange::List(good, ListAuthor::Operator);
    assert_eq!(engine.apply(&Event::Whitelist { now: START, change: list }), Outcome::Done);
    let outcome = claim(&mut engine, Standing::Own, 1, Claim::Report, &[empty, good, spam]);
    assert_eq!(outcome, Outcome::Claimed { listed: 1, revoked: 0, ignored: 2, refused: 0, reason: None });
    let refused = claim(&mut engine, Standing::Own, 1, Claim::Report, &[empty, good]);
    assert_eq!(refused, Outcome::Refused(Refusal::Whitelisted));
    for fingerprint in [empty, good] {
        let verdict = engine.check(&fingerprint, 0);
        assert_eq!((verdict.kind, verdict.reason), (Kind::Ham, Reason::Whitelisted));
    }
    let event = Event::Bulk { by: by(START, Standing::Own, 1), targets: 9, fingerprints: vec![empty, spam] };
    let totals = [BulkTotals::default(), BulkTotals { previous: 0, current: 9 }];
    assert_eq!(engine.apply(&event), Outcome::Counted { totals: totals.to_vec(), refused: 0, reason: None });
    assert_eq!(engine.explain(&good).whitelisted, Some(WhitelistReason::Listed(ListAuthor::Operator)));
    let unlist = Event::Whitelist { now: START, change: WhitelistChange::Unlist(good) };
    assert_eq!(engine.apply(&unlist), Outcome::Done);
    assert_eq!(engine.apply(&unlist), Outcome::Refused(Refusal::NotListed));
}

/// A claim is not admitted separately before it is applied, so applying it must refuse what admission would refuse.
#[test]
fn a_claim_without_an_accepted_signature_is_refused_and_changes_nothing() {
    let mut engine = engine();
    let change = WhitelistChange::List(fingerprint(0), ListAuthor::Operator);
    assert_eq!(engine.apply(&Event::Whitelist { now: START, change }), Outcome::Done);
    let claim_at = |now, standing, signatures: &[u32]| {
        let fingerprints = signatures.iter().copied().map(fingerprint).collect();
        Event::Claim { by: by(now, standing, 7), claim: Claim::Report, flag: 0, fingerprints }
    };
    let assert_refused = |engine: &mut Engine, event: &Event| {
        let (now, before) = (engine.now(), common::snapshot(engine));
        let refusal = engine.admit(event).unwrap_err();
        assert_eq!(engine.apply(event), Outcome::Refused(refusal));
        assert_eq!((engine.now(), common::snapshot(engine)), (now, before), "{refusal}");
    };
    let later = Time(START.0 + Time::HOUR);
    assert_refused(&mut engine, &claim_at(later, Standing::Own, &[0, 0]));
    assert_refused(&mut engine, &claim_at(later, Standing::Own, &[]));
    // A stranger may claim a limited number of new signatures a day.
    let new = (1..).map(|signature| claim_at(later, Standing::Stranger, &[0, signature]));
    let beyond = new.into_iter().find(|event| matches!(engine.apply(event), Outcome::Refused(_))).unwrap();
    assert_refused(&mut engine, &beyond);
    assert!(matches!(engine.apply(&claim_at(START, Standing::Own, &[0, 1])), Outcome::Claimed { ignored: 1, .. }));
    assert_eq!(engine.now(), later, "the time does not decrease");
}

#[test]
fn many_recipients_make_a_message_bulk() {
    let (mut engine, mail) = (engine(), fingerprint(1));
    engine.apply(&Event::Bulk { by: by(START, Standing::Own, 1), targets: 20, fingerprints: vec![mail] });
    let verdict = engine.check_bulk(&mail, 20);
    assert_eq!((verdict.kind, verdict.reason, verdict.bulk_count), (Kind::Bulk, Reason::ManyRecipients, 20));
    let verdict = engine.check_bulk(&mail, 21);
    assert_eq!((verdict.kind, verdict.bulk_count), (Kind::Unknown, 20));
}

/// Counts above fifteen need records, which are scarce. If accounts could use up the records, no other count could
/// exceed fifteen.
#[test]
fn accounts_are_believed_few_recipients_at_a_time() {
    let mut engine = engine();
    let weighty = weighty_account(&mut engine);
    let mut count = |by, signature, targets| {
        let Outcome::Counted { totals, .. } =
            engine.apply(&Event::Bulk { by, targets, fingerprints: vec![fingerprint(signature)] })
        else {
            panic!("it is counted")
        };
        totals[0].current
    };
    assert_eq!(count(weighty, 1, MANY), 15);
    assert_eq!(count(by(weighty.now, Standing::Account, 77), 2, MANY), 1);
    assert_eq!(count(by(weighty.now, Standing::Own, 1), 3, MANY), MANY);
}

/// A group that counts recipients for a whole site can use up its own daily quota, but not the quotas of other groups.
#[test]
fn no_group_fills_the_bulk_book_alone() {
    let mut engine = engine();
    let count = |engine: &mut Engine, id: u64, start: u32| {
        let fingerprints = (start..start + 64).map(fingerprint).collect();
        engine.apply(&Event::Bulk { by: by(engine.now(), Standing::Account, id), targets: 1, fingerprints })
    };
    let capacity = bruit_engine::budget::Capacities::per_generation(&realm().sizes()).bulk;
    let counted: u64 = (0..)
        .map_while(|round| match count(&mut engine, 1, 64 * round) {
            Outcome::Counted { refused, .. } => Some(64 - u64::from(refused)),
            outcome => {
                assert!(matches!(outcome, Outcome::Refused(Refusal::DailyShare { .. })), "{outcome:?}");
                None
            }
        })
        .sum();
    assert_eq!(counted, capacity / 50, "of {capacity}");
    assert!(
        matches!(count(&mut engine, 1, 0), Outcome::Counted { refused: 0, .. }),
        "known signatures use no capacity"
    );
    assert!(matches!(count(&mut engine, 2, 0), Outcome::Counted { .. }));
    common::tick(&mut engine, Time(START.0 + Time::DAY));
    assert!(matches!(count(&mut engine, 1, 0), Outcome::Counted { .. }));
}

#[test]
fn claims_are_counted_by_flag_and_explained_by_generation() {
    let (mut engine, spam) = (engine(), fingerprint(1));
    let flagged = |flag, now| Event::Claim {
        by: by(now, Standing::Own, 1),
        claim: Claim::Report,
        flag,
        fingerprints: vec![spam],
    };
    let later = Time(START.0 + common::SPAM_EPOCH);
    (0..3).for_each(|_| drop(engine.apply(&flagged(1, START))));
    common::tick(&mut engine, later);
    (0..2).for_each(|_| drop(engine.apply(&flagged(11, later))));
    assert_eq!(engine.check(&spam, 1).counts.report_count, 3);
    assert_eq!(engine.check(&spam, 11).counts.report_count, 2);
    assert_eq!(engine.check(&spam, 5).counts.report_count, 0);
    let explained = engine.explain(&spam);
    let counted = |flag| {
        let claims = explained.claims.iter().filter(move |claims| claims.flag == flag);
        claims.map(|claims| (claims.since, claims.counts.report_count)).collect::<Vec<_>>()
    };
    assert_eq!((counted(1), counted(11)), (vec![(START, 3)], vec![(later, 2)]));
    assert_eq!(explained.seen, Some((START, later)));
}

#[test]
fn explanations_have_no_date_before_the_founding() {
    let founded = Time(START.0 + 4 * Time::DAY + 60);
    let mut engine = Engine::new(realm(), plan(), Policy::default(), founded);
    let (spam, own) = (fingerprint(1), by(founded, Standing::Own, 1));
    engine.apply(&Event::Claim { by: own, claim: Claim::Report, flag: 0, fingerprints: vec![spam] });
    engine.apply(&Event::Bulk { by: own, targets: 3, fingerprints: vec![spam] });
    let assert_dates = |engine: &Engine, first: Time| {
        let explained = engine.explain(&spam);
        assert_eq!((explained.claims[0].since, explained.recipients[0].since), (first, first));
        assert_eq!(explained.seen.unwrap().0, founded, "the nursery has the exact time");
    };
    assert_dates(&engine, founded);

    let restored = common::restore(&common::snapshot(&mut engine)).with_founded(founded);
    assert_dates(&restored, founded);
    // Claims in later generations are dated by the start of their generation.
    let later = Time(START.0 + 2 * common::SPAM_EPOCH);
    common::tick(&mut engine, later);
    engine.apply(&Event::Claim {
        by: by(later, Standing::Own, 1),
        claim: Claim::Report,
        flag: 0,
        fingerprints: vec![spam],
    });
    let since: Vec<_> = engine.explain(&spam).claims.iter().map(|claims| claims.since).collect();
    assert_eq!(since, [later, founded]);
}

#[test]
fn a_near_replica_is_judged_by_the_report_it_resembles() {
    let mut engine = engine();
    let mut scratch = CheckScratch::default();
    let message = |start: u64| Features { pairs: (start..start + 100).collect(), ..Features::default() };
    let text = engine.replicas().text(&message(0));
    let name = text.fingerprint(engine.realm().key());
    claim(&mut engine, Standing::Own, 1, Claim::Report, &[name]);
    engine.apply(&Event::Text { by: by(START, Standing::Own, 1), fingerprint: name, text });
    assert_eq!(engine.check_text(&message(10), &mut scratch).verdict.kind, Kind::Spam);
    let found = engine.find_text(&message(10), &mut scratch).map(|found| found.fingerprint);
    assert_eq!(found, Some(name), "a second report applies to the first text");
    assert_eq!(engine.check_text(&message(5000), &mut scratch).verdict, Verdict::default());
    claim(&mut engine, Standing::Own, 2, Claim::Revoke, &[name]);
    assert_eq!(engine.check_text(&message(10), &mut scratch).verdict.kind, Kind::Ham);
}

/// A campaign changes with time: its third text is close to the second one, but no longer to the first.
#[test]
fn copies_of_a_reported_text_are_found_although_it_was_close_to_another() {
    let syllables: Vec<String> =
        "bdfgkmnprs".chars().flat_map(|first| "aeou".chars().map(move |second| format!("{first}{second}"))).collect();
    let word = |at: usize| format!("{}{}ta ", syllables[at / syllables.len()], syllables[at % syllables.len()]);
    // Add a footer. A check counts its features, but a report does not store them.
    let message = |start: usize| {
        let text: String = (start..start + 100).map(word).collect();
        let footer =
            "To unsubscribe from these advertisements click the following address or write to our office address";
        sign(format!("Subject: x\n\n{text}\n\n{footer}\n").as_bytes(), &Wanted::ALL, &Default::default())
    };
    let claim = |engine: &mut Engine, start: usize, claim: Claim, reporter: u64| {
        let events = claim_events(engine, &message(start), claim, by(START, Standing::Own, reporter));
        let outcomes: Vec<Outcome> = events.iter().map(|event| engine.apply(event)).collect();
        assert!(outcomes.iter().all(|outcome| !matches!(outcome, Outcome::Refused(_))), "{outcomes:?}");
    };
    let is_spam = |engine: &Engine, start: usize| {
        let signed = message(start);
        let context = MessageContext { outline: signed.outline, bulk_threshold: 10, ..MessageContext::default() };
        judge(&engine.check_message(&signed, &mut CheckScratch::default()), &context).kind == Kind::Spam
    };
    let mut engine = engine();
    claim(&mut engine, 0, Claim::Report, 1);
    assert_eq!([20, 40].map(|start| is_spam(&engine, start)), [true, false]);
    claim(&mut engine, 20, Claim::Report, 2);
    assert_eq!([0, 20, 40].map(|start| is_spam(&engine, start)), [true; 3]);
    let texts = engine.replicas().fill().0;
    claim(&mut engine, 20, Claim::Report, 3);
    assert_eq!(engine.replicas().fill().0, texts, "the same text is kept once");
    let find = |start: usize| engine.find_text(&message(start).features.unwrap(), &mut CheckScratch::default());
    assert_eq!(find(0).map(|found| found.fingerprint), find(20).map(|found| found.fingerprint));
    assert!(find(0).is_some_and(|found| found.is_same) && find(20).is_some_and(|found| !found.is_same));
    let first = find(0).unwrap().fingerprint;
    claim(&mut engine, 20, Claim::Revoke, 4);
    assert!(!is_spam(&engine, 20));
    assert_eq!(engine.check(&first, 0).kind, Kind::Spam, "a revocation of the second text leaves the first one listed");
}

#[test]
fn features_of_two_good_messages_do_not_match() {
    let mut engine = engine();
    let message = |extra: u64| Features { pairs: (0..100).chain([extra]).collect(), ..Features::default() };
    let text = engine.replicas().text(&message(500));
    let name = text.fingerprint(engine.realm().key());
    let own = by(START, Standing::Own, 1);
    engine.apply(&Event::Text { by: own, fingerprint: name, text });
    for extra in [600, 700] {
        let features = engine.replicas().good_features_of(&message(extra));
        assert_eq!(engine.apply(&Event::Good { by: own, features }), Outcome::Done);
    }
    assert_eq!(engine.find_text(&message(500), &mut CheckScratch::default()), None);
}

/// A reporter with earned trust still cannot change the meaning of other reporters' claims. An account with weight can
/// neither store good mail under the fingerprint of listed spam nor declare spam good.
#[test]
fn accounts_cannot_change_what_a_name_stands_for() {
    let mut engine = engine();
    let mut scratch = CheckScratch::default();
    let account = weighty_account(&mut engine);
    let newsletter = Features { pairs: (1000..1100).collect(), ..Features::default() };
    let text = engine.replicas().text(&newsletter);
    let (own_name, spam) = (text.fingerprint(engine.realm().key()), fingerprint(1));
    claim(&mut engine, Standing::Own, 1, Claim::Report, &[spam]);
    let not_own = Outcome::Refused(Refusal::NotOwn);
    assert_eq!(engine.apply(&Event::Text { by: account, fingerprint: spam, text: text.clone() }), not_own);
    assert_eq!(engine.check_text(&newsletter, &mut scratch).verdict, Verdict::default());
    assert_eq!(engine.apply(&Event::Text { by: account, fingerprint: own_name, text }), Outcome::Done);
    assert_eq!(engine.check_text(&newsletter, &mut scratch).verdict.kind, Kind::Unknown);
    assert_eq!(engine.apply(&Event::Good { by: account, features: vec![1, 2] }), not_own);
    let text = engine.replicas().text(&newsletter);
    let peer = by(account.now, Standing::Pinned, 5);
    assert_eq!(engine.apply(&Event::Text { by: peer, fingerprint: spam, text }), not_own, "peers cannot do it either");

    let write = |by, first: u64| Event::Shingles {
        by,
        change: TextChange::Write { flag: 1, weight: 1 },
        digest: Box::new([7; 64]),
        shingles: Some(Box::new(std::array::from_fn(|at| first + at as u64))),
    };
    assert_eq!(engine.apply(&write(by(account.now, Standing::Own, 1), 0)), Outcome::Done);
    assert_eq!(engine.apply(&write(account, 5000)), not_own);
    let shingles: [u64; 32] = std::array::from_fn(|at| 5000 + at as u64);
    assert_eq!(engine.check_shingles(&[8; 64], Some(&shingles), &mut scratch), None);
}

/// Creates an account that has weight because it was right about twenty signatures.
fn weighty_account(engine: &mut Engine) -> bruit_engine::event::By {
    for at in 500..520 {
        claim(engine, Standing::Account, 9, Claim::Report, &[fingerprint(at)]);
        claim(engine, Standing::Trap, 8, Claim::Report, &[fingerprint(at)]);
    }
    (1..72).for_each(|hours| common::tick(engine, Time(START.0 + hours * Time::HOUR)));
    by(engine.now(), Standing::Account, 9)
}

/// One group cannot evict all other groups' texts within a day.
#[test]
fn no_group_fills_the_index_of_texts_alone() {
    let mut engine = engine();
    let account = weighty_account(&mut engine);
    let teach = |engine: &mut Engine, number: u64| {
        let features = Features { pairs: (number * 100..number * 100 + 60).collect(), ..Features::default() };
        let text = engine.replicas().text(&features);
        let fingerprint = text.fingerprint(engine.realm().key());
        engine.apply(&Event::Text { by: account, fingerprint, text })
    };
    let capacity = engine.replicas().fill().1;
    let refused_at = (0..).find(|&number| teach(&mut engine, number) == Outcome::Refused(Refusal::TextQuota));
    assert_eq!(refused_at, Some(capacity / 50));
}
