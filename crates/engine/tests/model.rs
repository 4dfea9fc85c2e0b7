//! Tests with random events and an exact model: no claim is lost, no count is too low, and the same events produce the
//! same bytes.

mod common;

use std::collections::HashMap;

use bruit_engine::bulk::MANY;
use bruit_engine::event::{By, Event};
use bruit_engine::generations::LIVE_GENERATIONS;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Reporter, Standing};
use bruit_engine::verdict::Kind;
use bruit_engine::{BEHIND_LINES, Engine, Outcome};
use bruit_filters::Fingerprint;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use common::{BULK_EPOCH, SPAM_EPOCH, START, engine, fingerprint};

const SIGNATURES: u32 = 400;
const EVENTS: usize = 4_000;

/// Exact counts by epoch.
type ByEpoch = HashMap<u64, u64>;

/// The expected contents of the engine, without limits or errors.
#[derive(Default)]
struct Model {
    /// First epoch in which a listed signature is no longer found. A revocation removes the entry.
    listed_until: HashMap<u32, u64>,
    claims: HashMap<(u32, u8, Claim), ByEpoch>,
    recipients: HashMap<u32, ByEpoch>,
    /// Listings that count as a report under flag 0, although no such report was made. They are caused by a report
    /// under another flag or, for reinstated signatures, by the start of a generation.
    listings: HashMap<u32, ByEpoch>,
}

impl Model {
    fn is_spam(&self, signature: u32, epoch: u64) -> bool {
        self.listed_until.get(&signature).is_some_and(|&until| epoch < until)
    }

    fn in_window(counts: Option<&ByEpoch>, epoch: u64) -> u64 {
        let live = |&(&of, _): &(&u64, &u64)| of + LIVE_GENERATIONS > epoch && of <= epoch;
        counts.map_or(0, |counts| counts.iter().filter(live).map(|(_, count)| count).sum())
    }
}

struct Run {
    engine: Engine,
    model: Model,
    random: ChaCha8Rng,
    now: Time,
    events: Vec<Event>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self { engine: engine(), model: Model::default(), random, now: START, events: Vec::new() }
    }

    fn spam_epoch(&self) -> u64 {
        self.now.epoch(SPAM_EPOCH)
    }

    fn apply(&mut self, event: Event) -> Outcome {
        let outcome = self.engine.apply(&event);
        self.events.push(event);
        outcome
    }

    fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..55 => self.claim(),
            55..90 => self.count(),
            _ => self.pass_time(),
        }
    }

    fn reporter(&mut self) -> Reporter {
        let standings = [Standing::Own, Standing::Own, Standing::Own, Standing::Trap, Standing::Pinned];
        let others = [Standing::Account, Standing::Stranger];
        let at = self.random.random_range(0..standings.len() + others.len());
        let standing = *standings.iter().chain(&others).nth(at).unwrap();
        let id = self.random.random_range(0..6) + 100 * standing as u64;
        Reporter { id, standing, group: id }
    }

    fn claim(&mut self) {
        let by = By { now: self.now, reporter: self.reporter() };
        let signature = self.random.random_range(0..SIGNATURES);
        let claim = if self.random.random_bool(0.8) { Claim::Report } else { Claim::Revoke };
        let flag = [0, 0, 1, 15][self.random.random_range(0..4)];
        let entry = self.engine.spam().entry(&fingerprint(signature));
        let was_revoked = entry.is_revoked();
        let was_spam = self.model.is_spam(signature, self.spam_epoch());
        let event = Event::Claim { by, claim, flag, fingerprints: vec![fingerprint(signature)] };
        let outcome = self.apply(event);
        let Outcome::Claimed { listed, revoked, .. } = outcome else { panic!("{outcome:?}") };
        if by.reporter.standing.is_anchor() {
            let epoch = self.spam_epoch();
            *self.model.claims.entry((signature, flag, claim)).or_default().entry(epoch).or_default() += 1;
        }
        let epoch = self.spam_epoch();
        // A listing does not expire while an anchor still reports the signature.
        let is_renewed = was_spam && claim == Claim::Report && by.reporter.standing.is_anchor();
        if let Some(until) = self.model.listed_until.get_mut(&signature).filter(|_| is_renewed) {
            *until = (*until).max(epoch + LIVE_GENERATIONS);
        }
        if (listed == 1 || is_renewed && !entry.listed.contains(0)) && flag != 0 {
            self.model.listings.entry(signature).or_default().insert(epoch, 1);
        }
        // A reinstated signature is listed in the next generation.
        let is_reinstated = entry.revoked.contains(0);
        if listed == 1 && is_reinstated {
            self.model.listings.entry(signature).or_default().insert(epoch + 1, 1);
        }
        if listed == 1 {
            let until = self.spam_epoch() + LIVE_GENERATIONS + u64::from(is_reinstated);
            self.model.listed_until.insert(signature, until);
        }
        if revoked == 1 {
            self.model.listed_until.remove(&signature);
        }
        let is_spam = self.engine.check(&fingerprint(signature), 0).kind == Kind::Spam;
        if by.reporter.standing == Standing::Own && claim == Claim::Report && !was_spam && !was_revoked {
            let own_revoke_stands =
                self.engine.explain(&fingerprint(signature)).assessment.unwrap().evidence.own_revokes > 0;
            assert!(is_spam || own_revoke_stands, "an own report must list at once: {outcome:?}");
        }
    }

    fn count(&mut self) {
        let reporter = Reporter { id: 1, standing: Standing::Own, group: 1 };
        let by = By { now: self.now, reporter };
        // Draw low numbers more often, so that a few signatures have most of the recipients.
        let most = self.random.random_range(1..SIGNATURES);
        let signature = SIGNATURES + self.random.random_range(0..most);
        let targets = match self.random.random_range(0..50) {
            0 => MANY,
            1..10 => self.random.random_range(2..40),
            _ => 1,
        };
        let outcome = self.apply(Event::Bulk { by, targets, fingerprints: vec![fingerprint(signature)] });
        let Outcome::Counted { totals, .. } = outcome else { panic!("{outcome:?}") };
        let counts = self.model.recipients.entry(signature).or_default();
        let epoch = self.now.epoch(BULK_EPOCH);
        let previous = Model::in_window(Some(counts), epoch);
        *counts.entry(epoch).or_default() += u64::from(targets);
        let current = Model::in_window(Some(counts), epoch);
        let many = u64::from(MANY);
        assert!(u64::from(totals[0].previous) >= previous.min(many), "{totals:?}, not {previous}");
        assert!(u64::from(totals[0].current) >= current.min(many), "{totals:?}, not {current}");
    }

    fn pass_time(&mut self) {
        let hours = [1, 3, 24, 24 * 7][self.random.random_range(0..4)];
        self.now = Time(self.now.0 + hours * Time::HOUR);
        loop {
            let lines = self.random.random_range(1..BEHIND_LINES);
            if matches!(self.apply(Event::Tick { now: self.now, lines }), Outcome::Ticked { arrived: true, .. }) {
                return;
            }
        }
    }

    /// Compares all verdicts and counts. Returns the number of counts that were too high, and the total number of
    /// counts.
    fn compare(&self) -> (usize, usize) {
        let (mut wrong, mut all) = (0, 0);
        for signature in 0..SIGNATURES {
            let verdict = self.engine.check(&fingerprint(signature), 0);
            let is_spam = self.model.is_spam(signature, self.spam_epoch());
            assert_eq!(verdict.kind == Kind::Spam, is_spam, "signature {signature}: {verdict:?}");
            for flag in [0, 1, 15] {
                for (claim, counted) in self.counts(flag, &fingerprint(signature)) {
                    let exact = self.model.claims.get(&(signature, flag, claim));
                    let exact = Model::in_window(exact, self.spam_epoch());
                    assert!(counted >= exact, "signature {signature}, flag {flag}: {counted}, not {exact}");
                    let listings = self.model.listings.get(&signature).filter(|_| (flag, claim) == (0, Claim::Report));
                    wrong += usize::from(counted > exact + Model::in_window(listings, self.spam_epoch()));
                    all += 1;
                }
            }
        }
        for (signature, counts) in &self.model.recipients {
            let exact = Model::in_window(Some(counts), self.now.epoch(BULK_EPOCH)).min(u64::from(MANY));
            let mut total = [0];
            self.engine.bulk_totals(&[fingerprint(*signature)], &mut total);
            assert!(u64::from(total[0]) >= exact, "signature {signature}: {total:?}, not {exact}");
            wrong += usize::from(u64::from(total[0]) > exact);
            all += 1;
        }
        (wrong, all)
    }

    fn counts(&self, flag: u8, fingerprint: &Fingerprint) -> [(Claim, u64); 2] {
        let counts = self.engine.spam().counts(flag, fingerprint);
        [(Claim::Report, u64::from(counts.report_count)), (Claim::Revoke, u64::from(counts.revoke_count))]
    }
}

#[test]
fn nothing_is_lost_and_counts_are_never_too_low() {
    let (mut wrong, mut all) = (0, 0);
    for seed in 0..12 {
        let mut run = Run::new(seed);
        for _ in 0..8 {
            (0..EVENTS / 8).for_each(|_| run.step());
            let compared = run.compare();
            wrong += compared.0;
            all += compared.1;
        }
    }
    // In rings of this size, one count in ten thousand is wrong.
    assert!(wrong * 1000 < all, "{wrong} of {all} counts too high");
}

#[test]
fn the_same_events_give_the_same_bytes() {
    let mut run = Run::new(99);
    (0..EVENTS).for_each(|_| run.step());
    let mut again = engine();
    for event in &run.events {
        let mut bytes = Vec::new();
        event.encode(&mut bytes);
        again.apply(&Event::decode(&bytes).expect("an encoded event"));
    }
    assert_eq!(common::snapshot(&mut run.engine), common::snapshot(&mut again));
}

/// The store admits an event before it writes it, so applying must never refuse what was admitted.
#[test]
fn events_that_are_admitted_are_applied() {
    for seed in 20..24 {
        let mut run = Run::new(seed);
        (0..EVENTS / 4).for_each(|_| run.step());
        let mut again = engine();
        for event in &run.events {
            assert_eq!(again.admit(event), Ok(()), "{event:?}");
            let outcome = again.apply(event);
            assert!(!matches!(outcome, Outcome::Refused(_)), "{event:?}: {outcome:?}");
        }
    }
}

#[test]
fn a_restored_clearinghouse_behaves_like_the_original() {
    let mut run = Run::new(7);
    (0..EVENTS / 2).for_each(|_| run.step());
    let bytes = common::snapshot(&mut run.engine);
    let mut restored = common::restore(&bytes);
    let applied = run.events.len();
    (0..EVENTS / 2).for_each(|_| run.step());
    run.events[applied..].iter().for_each(|event| {
        restored.apply(event);
    });
    assert_eq!(common::snapshot(&mut restored), common::snapshot(&mut run.engine));
}
