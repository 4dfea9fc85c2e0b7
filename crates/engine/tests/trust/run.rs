//! A run applies all claims of the traffic to Bruit's rules and to other rules, and records the results.

use bruit_engine::time::Time;
use bruit_engine::trust::{Change, Claim, Level, Listing, Policy, Trust};
use bruit_filters::Fingerprint;

use crate::rivals::{Counting, Flat};
use crate::traffic::{Event, HONEST, Kind, SCORED_FROM_DAY, Traffic};

/// Memory for the tables. It is several times as much as the traffic needs.
const BYTES: u64 = 64 << 20;

/// The compared rules, in the order of the printed table.
pub(crate) const RULES: [&str; 5] = ["count >= 5", "weight >= 20", "flat", "BLOCK", "SUSPECT"];

/// Bruit's rules and books, and the other rules.
pub(crate) struct Run<'a> {
    pub(crate) traffic: &'a Traffic,
    pub(crate) trust: Trust,
    books: Vec<Listing>,
    five: Counting,
    twenty: Counting,
    flat: Flat,
    pub(crate) figures: Figures,
    listed_at: Vec<Option<Time>>,
    was_listed: Vec<[bool; RULES.len()]>,
}

/// The results of a run for each rule.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Number of scored honest reports of spam.
    pub(crate) reports: u64,
    /// For each rule, the number of these reports that a check would have made unnecessary.
    pub(crate) covered: [u64; RULES.len()],
    /// Numbers of scored items of each kind, and of those that were ever listed.
    pub(crate) ham: u64,
    pub(crate) ham_listed: [u64; RULES.len()],
    pub(crate) targets: u64,
    pub(crate) targets_listed: [u64; RULES.len()],
    /// Hours from listing to revocation of ham and targets.
    pub(crate) false_hours: Vec<f64>,
    /// Number of ham items and targets that were listed and never revoked.
    pub(crate) false_forever: u64,
    /// Hours from the start of a campaign to its listing.
    pub(crate) hours_to_list: Vec<f64>,
}

impl Figures {
    pub(crate) fn coverage(&self, rule: usize) -> f64 {
        percent(self.covered[rule], self.reports)
    }

    pub(crate) fn ham_share(&self, rule: usize) -> f64 {
        percent(self.ham_listed[rule], self.ham)
    }

    pub(crate) fn target_share(&self, rule: usize) -> f64 {
        percent(self.targets_listed[rule], self.targets)
    }
}

fn hours(seconds: u64) -> f64 {
    seconds as f64 / Time::HOUR as f64
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

impl<'a> Run<'a> {
    pub(crate) fn new(traffic: &'a Traffic) -> Self {
        let items = traffic.items.len();
        Self {
            traffic,
            trust: Trust::new(Policy::default(), BYTES),
            books: vec![Listing::default(); items],
            five: Counting::new(5, items),
            twenty: Counting::new(20, items),
            flat: Flat::new(items),
            figures: Figures::default(),
            listed_at: vec![None; items],
            was_listed: vec![[false; RULES.len()]; items],
        }
    }

    /// Applies all events, and calls `daily` with the state at the start of every day.
    pub(crate) fn play(&mut self, mut daily: impl FnMut(&Self, Time)) -> &Figures {
        let mut day = 0;
        for event in &self.traffic.events {
            if event.at.day() > day {
                day = event.at.day();
                daily(self, event.at);
            }
            self.trust.settle(event.at, usize::MAX);
            self.flat.settle(event.at);
            self.event(event);
        }
        self.score_items();
        &self.figures
    }

    fn event(&mut self, event: &Event) {
        let item = self.traffic.items[event.item as usize];
        let honest_spam = item.kind == Kind::Spam && event.claim == Claim::Report && (event.who as usize) < HONEST;
        if honest_spam && item.day >= SCORED_FROM_DAY {
            let listed = self.listed(event.item);
            self.figures.reports += 1;
            (0..RULES.len()).for_each(|rule| self.figures.covered[rule] += u64::from(listed[rule]));
        }
        self.claim(event);
        let listed = self.listed(event.item);
        let was = &mut self.was_listed[event.item as usize];
        (0..RULES.len()).for_each(|rule| was[rule] |= listed[rule]);
    }

    fn claim(&mut self, event: &Event) {
        let reporter = &self.traffic.reporters[event.who as usize];
        let book = &mut self.books[event.item as usize];
        let change =
            self.trust.claim(event.at, reporter, fingerprint(event.item), event.claim, *book, true).expect("room");
        let listed_at = &mut self.listed_at[event.item as usize];
        match change {
            Change::Nothing => {}
            Change::List => {
                *book = Listing { listed: true, revoked: false };
                *listed_at = Some(event.at);
                let item = self.traffic.items[event.item as usize];
                if item.kind == Kind::Spam {
                    self.figures.hours_to_list.push(hours(event.at.since(item.start)));
                }
            }
            Change::Revoke => {
                book.revoked = true;
                if let Some(at) = listed_at.take()
                    && self.traffic.items[event.item as usize].kind != Kind::Spam
                {
                    self.figures.false_hours.push(hours(event.at.since(at)));
                }
            }
        }
        self.five.claim(event.item, event.claim);
        self.twenty.claim(event.item, event.claim);
        self.flat.claim(event.at, reporter, event.item, event.claim);
    }

    /// Returns, for each rule, whether it currently lists an item.
    fn listed(&self, item: u32) -> [bool; RULES.len()] {
        let book = self.books[item as usize];
        let block = book.listed && !book.revoked;
        let suspect =
            || self.trust.assess(&fingerprint(item)).is_some_and(|known| known.evidence.level >= Level::Suspect);
        [self.five.is_listed(item), self.twenty.is_listed(item), self.flat.is_listed(item), block, block || suspect()]
    }

    fn score_items(&mut self) {
        let scored = self.traffic.items.iter().zip(&self.was_listed).filter(|(item, _)| item.day >= SCORED_FROM_DAY);
        for (item, listed) in scored {
            let (all, by_rule) = match item.kind {
                Kind::Spam => continue,
                Kind::Ham => (&mut self.figures.ham, &mut self.figures.ham_listed),
                Kind::Target => (&mut self.figures.targets, &mut self.figures.targets_listed),
            };
            *all += 1;
            (0..RULES.len()).for_each(|rule| by_rule[rule] += u64::from(listed[rule]));
        }
        let standing = self.traffic.items.iter().zip(&self.listed_at);
        let forever = standing.filter(|(item, at)| item.kind != Kind::Spam && at.is_some());
        self.figures.false_forever = forever.count() as u64;
    }
}

/// Returns the signature of an item.
pub(crate) fn fingerprint(item: u32) -> Fingerprint {
    Fingerprint::new(u64::from(item).wrapping_mul(0x9e37_79b9_7f4a_7c15), item.into())
}
