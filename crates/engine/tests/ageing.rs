//! Tests of the lifetime of reports, counts and texts: at least six epochs, at most seven.

mod common;

use bruit_engine::bulk::MANY;
use bruit_engine::event::{Event, TextChange};
use bruit_engine::generations::LIVE_GENERATIONS;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Standing};
use bruit_engine::verdict::Kind;
use bruit_engine::{BEHIND_LINES, CheckScratch, Engine, FoundText, Outcome, Refusal, TICK_LINES};
use bruit_signatures::bruit::Features;

use common::{BULK_EPOCH, SPAM_EPOCH, START, by, engine, fingerprint, snapshot, tick};

const SPAM: u32 = 7;

fn is_spam(engine: &Engine) -> bool {
    engine.check(&fingerprint(SPAM), 0).kind == Kind::Spam
}

fn after(seconds: u64) -> Time {
    Time(START.0 + seconds)
}

fn report(engine: &mut Engine, now: Time) {
    let outcome = engine.apply(&claim(now, Claim::Report));
    assert!(matches!(outcome, Outcome::Claimed { listed: 1, .. }), "{outcome:?}");
}

fn claim(now: Time, claim: Claim) -> Event {
    Event::Claim { by: by(now, Standing::Own, 1), claim, flag: 0, fingerprints: vec![fingerprint(SPAM)] }
}

/// A report is found for the next six epochs, no matter when in its epoch it was made. After seven epochs it has
/// expired.
#[test]
fn a_report_is_found_until_its_window_ends_and_no_epoch_longer() {
    for into_epoch in [0, 1, SPAM_EPOCH / 2, SPAM_EPOCH - 1] {
        let mut engine = engine();
        let reported = after(into_epoch);
        tick(&mut engine, reported);
        report(&mut engine, reported);
        for epochs in 0..=6 {
            tick(&mut engine, Time(reported.0 + epochs * SPAM_EPOCH));
            assert!(is_spam(&engine), "reported {into_epoch} s into the epoch, checked {epochs} epochs later");
        }
        tick(&mut engine, Time(reported.0 + 7 * SPAM_EPOCH));
        assert!(!is_spam(&engine), "reported {into_epoch} s into the epoch");
        assert_eq!(engine.explain(&fingerprint(SPAM)).claims, [], "its counts have expired too");
    }
}

#[test]
fn recipients_and_many_expire_with_their_window() {
    let mut engine = engine();
    let (few, many) = (fingerprint(1), fingerprint(2));
    for (fingerprint, targets) in [(few, 3), (many, MANY)] {
        engine.apply(&Event::Bulk { by: by(START, Standing::Own, 1), targets, fingerprints: vec![fingerprint] });
    }
    for days in 0..=6 {
        tick(&mut engine, after(days * BULK_EPOCH));
        let event = Event::Bulk { by: by(engine.now(), Standing::Own, 1), targets: 1, fingerprints: vec![many] };
        let Outcome::Counted { totals, .. } = engine.apply(&event) else { panic!("it is counted") };
        assert_eq!((totals[0].previous, totals[0].current), (MANY, MANY), "\"many\" stays \"many\", {days} days later");
        assert_eq!(engine.bulk().total(&few), 3);
    }
    tick(&mut engine, after(7 * BULK_EPOCH));
    assert_eq!(engine.bulk().total(&few), 0);
    assert_eq!(engine.bulk().total(&many), 6, "counts below \"many\" remain after it has expired");
}

#[test]
fn texts_and_shingles_age_like_the_spam_book() {
    let mut engine = engine();
    let mut scratch = CheckScratch::default();
    let features = Features { pairs: (1..200).collect(), ..Features::default() };
    let text = engine.replicas().text(&features);
    let name = text.fingerprint(engine.realm().key());
    let (digest, shingles) = (Box::new([3; 64]), Some(Box::new(std::array::from_fn(|at| 1000 + at as u64))));
    let change = TextChange::Write { flag: 1, weight: 10 };
    let own = by(START, Standing::Own, 1);
    engine.apply(&Event::Text { by: own, fingerprint: name, text });
    engine.apply(&Event::Shingles { by: own, change, digest: digest.clone(), shingles: shingles.clone() });
    for epochs in 0..=7 {
        tick(&mut engine, after(epochs * SPAM_EPOCH));
        let found = engine.check_shingles(&digest, shingles.as_deref(), &mut scratch).is_some();
        assert_eq!(found, epochs < 7, "shingles, {epochs} epochs later");
        let found = engine.find_text(&features, &mut scratch);
        let is_current = epochs == 0;
        let expected = (epochs < 7).then_some(FoundText { fingerprint: name, is_current, is_same: true });
        assert_eq!(found, expected, "text, {epochs} epochs later");
    }
}

/// Features of good mail are forgotten after at most fourteen epochs, because a phrase from an old newsletter may occur
/// in new spam.
#[test]
fn features_of_good_mail_expire() {
    let mut engine = engine();
    let features = |extra: u64| Features { pairs: (1..100).chain([extra]).collect(), ..Features::default() };
    for extra in [1000, 2000] {
        let features = engine.replicas().good_features_of(&features(extra));
        engine.apply(&Event::Good { by: by(START, Standing::Own, 1), features });
    }
    let counts = |engine: &Engine| !engine.replicas().text(&Features { links: vec![], ..features(3) }).is_empty();
    for epochs in 0..=14 {
        tick(&mut engine, after(epochs * SPAM_EPOCH));
        assert!(epochs > 7 || !counts(&engine), "features stay good while any text is kept");
    }
    assert!(counts(&engine));
}

/// After any downtime, a server catches up in bounded steps, and reports its arrival only at the end. A gap of decades,
/// such as after a start with the clock at 1970, takes at most two steps more than a gap of one window.
#[test]
fn a_clearinghouse_stopped_for_decades_catches_up() {
    let ticks_to = |now: Time| {
        let mut engine = engine();
        report(&mut engine, START);
        let mut ticks = 0;
        while !matches!(engine.apply(&Event::Tick { now, lines: BEHIND_LINES }), Outcome::Ticked { arrived: true, .. })
        {
            ticks += 1;
        }
        assert!(!is_spam(&engine));
        report(&mut engine, now);
        assert!(is_spam(&engine));
        ticks
    };
    let (window, decades) = (ticks_to(after(10 * SPAM_EPOCH)), ticks_to(after(56 * 365 * Time::DAY)));
    assert!(window > 10 && decades <= window + 2, "{decades} ticks for decades, {window} for one window");
}

/// Claims are refused until the books have caught up. Otherwise they would be stored in an old generation and expire
/// with it.
#[test]
fn claims_wait_until_the_books_have_caught_up() {
    let mut engine = engine();
    let now = after(8 * SPAM_EPOCH);
    engine.apply(&Event::Tick { now, lines: 1 });
    let refused = Outcome::Refused(Refusal::CatchingUp);
    let count = Event::Bulk { by: by(now, Standing::Own, 1), targets: 3, fingerprints: vec![fingerprint(SPAM)] };
    assert_eq!((engine.apply(&claim(now, Claim::Report)), engine.apply(&count)), (refused.clone(), refused));
    tick(&mut engine, now);
    report(&mut engine, now);
    assert!(matches!(engine.apply(&count), Outcome::Counted { .. }));
    tick(&mut engine, Time(now.0 + 1));
    assert!(is_spam(&engine) && engine.bulk().total(&fingerprint(SPAM)) == 3);
    let early = Time(now.0 + SPAM_EPOCH);
    assert!(
        matches!(engine.apply(&claim(early, Claim::Report)), Outcome::Claimed { .. }),
        "before the tick of an epoch"
    );
}

#[test]
fn a_time_past_the_year_9999_is_refused() {
    let mut engine = engine();
    let late = Event::Tick { now: Time(Time::MAX.0 + 1), lines: 1 };
    assert_eq!(engine.apply(&late), Outcome::Refused(Refusal::NoTime));
    assert_eq!(engine.apply(&claim(Time(u64::MAX), Claim::Report)), Outcome::Refused(Refusal::NoTime));
    assert_eq!(engine.now(), START);
    assert!(matches!(engine.apply(&Event::Tick { now: Time::MAX, lines: 1 }), Outcome::Ticked { .. }));
}

#[test]
fn ended_generations_are_reported_with_their_size() {
    let mut engine = engine();
    report(&mut engine, START);
    let names: Vec<_> = engine.status().rings.iter().map(|ring| ring.name).collect();
    let (mut ended, began) = (Vec::new(), START.epoch(SPAM_EPOCH));
    for epoch in 1..=10 {
        loop {
            let tick = Event::Tick { now: after(epoch * SPAM_EPOCH), lines: BEHIND_LINES };
            let Outcome::Ticked { arrived, ended: now } = engine.apply(&tick) else { panic!("a tick is not refused") };
            ended.extend(now.into_iter().map(|ended| (epoch, ended)));
            if arrived {
                break;
            }
        }
    }
    let [(epoch, listed)] = ended[..] else { panic!("{ended:?}") };
    assert_eq!((epoch, listed.epoch, listed.signatures), (LIVE_GENERATIONS, began, 1));
    assert!(names.contains(&listed.ring), "{listed:?}");
}

#[test]
fn a_tick_is_needed_only_when_it_would_change_something() {
    let mut engine = engine();
    while engine.needs_tick(after(1)) {
        engine.apply(&Event::Tick { now: after(1), lines: TICK_LINES });
    }
    let before = snapshot(&mut engine);
    let next_epoch = (START.epoch(BULK_EPOCH) + 1) * BULK_EPOCH;
    assert!(!engine.needs_tick(Time(next_epoch - 1)) && engine.needs_tick(Time(next_epoch)));
    engine.apply(&Event::Tick { now: after(1), lines: TICK_LINES });
    assert_eq!(snapshot(&mut engine), before, "a tick that is not needed changes nothing");
    report(&mut engine, after(1));
    assert!(engine.needs_tick(after(2 * Time::DAY + 1)), "the claim has to be settled");
}

#[test]
fn listings_that_anchors_still_report_do_not_age() {
    let mut engine = engine();
    report(&mut engine, START);
    for epochs in 1..=20 {
        let now = after(epochs * SPAM_EPOCH);
        tick(&mut engine, now);
        if epochs % 5 == 0 {
            engine.apply(&claim(now, Claim::Report));
        }
        assert!(is_spam(&engine), "{epochs} epochs after the first report");
    }
    assert_eq!(engine.check(&fingerprint(SPAM), 0).counts.report_count, 2, "the reports of epochs 15 and 20");
    tick(&mut engine, after(27 * SPAM_EPOCH));
    assert!(!is_spam(&engine));
}

/// A signature that an own user revoked before it was ever listed stays revoked after the nursery has removed the
/// claim.
#[test]
fn an_own_revocation_before_any_listing_is_kept() {
    let mut engine = engine();
    engine.apply(&claim(START, Claim::Revoke));
    let now = after(4 * SPAM_EPOCH);
    tick(&mut engine, now);
    for peer in 1..=3 {
        let by = by(now, Standing::Pinned, peer);
        let fingerprints = vec![fingerprint(SPAM)];
        engine.apply(&Event::Claim { by, claim: Claim::Report, flag: 0, fingerprints });
    }
    assert!(!is_spam(&engine));
}

#[test]
fn setting_the_clock_back_changes_nothing() {
    let mut engine = engine();
    tick(&mut engine, after(3 * SPAM_EPOCH));
    report(&mut engine, START);
    tick(&mut engine, START);
    assert_eq!(engine.now(), after(3 * SPAM_EPOCH));
    tick(&mut engine, after(9 * SPAM_EPOCH));
    assert!(is_spam(&engine), "a report with an earlier time counts as of now");
}

#[test]
fn a_revocation_holds_at_once_and_outlives_the_listing() {
    for revoked_after in [0, 2, 6] {
        let mut engine = engine();
        report(&mut engine, START);
        let now = after(revoked_after * SPAM_EPOCH);
        tick(&mut engine, now);
        let outcome = engine.apply(&claim(now, Claim::Revoke));
        assert!(matches!(outcome, Outcome::Claimed { revoked: 1, .. }), "{outcome:?}");
        for epochs in revoked_after..20 {
            tick(&mut engine, after(epochs * SPAM_EPOCH));
            assert!(!is_spam(&engine), "revoked after {revoked_after} epochs, checked after {epochs}");
        }
    }
}

/// One own report lists a signature, and one own revocation revokes it. Then two own reports are needed to list it
/// again.
#[test]
fn listing_a_revoked_signature_again_needs_two_own_reports() {
    let mut engine = engine();
    report(&mut engine, START);
    engine.apply(&claim(START, Claim::Revoke));
    let by_other = |id| Event::Claim {
        by: by(START, Standing::Own, id),
        claim: Claim::Report,
        flag: 0,
        fingerprints: vec![fingerprint(SPAM)],
    };
    engine.apply(&by_other(2));
    assert!(!is_spam(&engine));
    engine.apply(&by_other(3));
    assert!(is_spam(&engine), "listed in the generation of its revocation");
    for epochs in 1..=6 {
        tick(&mut engine, after(epochs * SPAM_EPOCH));
        assert!(is_spam(&engine), "still listed {epochs} epochs later");
    }
}

#[test]
fn a_relisted_signature_can_be_revoked_again() {
    let mut engine = engine();
    report(&mut engine, START);
    engine.apply(&claim(START, Claim::Revoke));
    for id in [2, 3] {
        let by = by(START, Standing::Own, id);
        engine.apply(&Event::Claim { by, claim: Claim::Report, flag: 0, fingerprints: vec![fingerprint(SPAM)] });
    }
    assert!(is_spam(&engine));
    engine.apply(&claim(START, Claim::Revoke));
    assert!(!is_spam(&engine), "revoked in the generation in which it was reinstated");
    tick(&mut engine, after(SPAM_EPOCH));
    assert!(!is_spam(&engine), "still revoked in the next");
}

/// A revocation does not expire while anchors still dispute it, so one user cannot list the signature again by waiting.
#[test]
fn a_contested_revocation_does_not_lapse() {
    let mut engine = engine();
    report(&mut engine, START);
    let by = by(START, Standing::Own, 2);
    let revoke = Event::Claim { by, claim: Claim::Revoke, flag: 0, fingerprints: vec![fingerprint(SPAM)] };
    engine.apply(&revoke);
    for epochs in 1..30 {
        let now = after(epochs * SPAM_EPOCH);
        tick(&mut engine, now);
        engine.apply(&claim(now, Claim::Report));
        assert!(!is_spam(&engine), "reported again by one user, {epochs} epochs later");
    }
}
