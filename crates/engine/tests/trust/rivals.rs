//! Other rules, for comparison.

use std::collections::HashMap;

use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Reporter};

/// A counting rule, as in Pyzor and rspamd: an item is listed when the number of reports minus revocations reaches a
/// threshold, regardless of the reporters.
pub(crate) struct Counting {
    threshold: i64,
    counts: Vec<i64>,
}

impl Counting {
    pub(crate) fn new(threshold: i64, items: usize) -> Self {
        Self { threshold, counts: vec![0; items] }
    }

    pub(crate) fn claim(&mut self, item: u32, claim: Claim) {
        self.counts[item as usize] += if claim == Claim::Report { 1 } else { -1 };
    }

    pub(crate) fn is_listed(&self, item: u32) -> bool {
        self.counts[item as usize] >= self.threshold
    }
}

/// A rule that assumes the majority to be right. Log-odds weights and one voice per group are as in Bruit's rules, but
/// anchors have no part in the decision, and nothing is capped. Anchors have the same prior as in Bruit's rules,
/// because trust needs a starting point.
pub(crate) struct Flat {
    items: Vec<FlatItem>,
    /// For each reporter: right and wrong claims, the credits of one day, and that day.
    reporters: HashMap<u64, (f64, f64, f64, u64)>,
    /// Items to settle, in order of their first claims.
    due: std::collections::VecDeque<(Time, u32)>,
}

#[derive(Clone, Default)]
struct FlatItem {
    /// Votes: reporter, group, weight, claim, and whether the claim was made before the listing.
    votes: Vec<(u64, u64, f64, Claim, bool)>,
    score: f64,
    groups: usize,
}

impl FlatItem {
    fn is_listed(&self) -> bool {
        self.score >= 6.0 && self.groups >= 3
    }

    fn add_up(&mut self) {
        let mut voices = self.votes.iter().map(|vote| (vote.3, vote.1, vote.2)).collect::<Vec<_>>();
        // Only the heaviest voice of a group is kept. It comes first.
        voices.sort_unstable_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(b.2.total_cmp(&a.2)));
        voices.dedup_by_key(|voice| (voice.0, voice.1));
        let side = |claim| voices.iter().filter(move |voice| voice.0 == claim && voice.2 > 0.0);
        let sum = |claim| side(claim).map(|voice| voice.2).sum::<f64>();
        self.score = sum(Claim::Report) - 2.0 * sum(Claim::Revoke);
        self.groups = side(Claim::Report).count();
    }
}

impl Flat {
    pub(crate) fn new(items: usize) -> Self {
        Self { items: vec![FlatItem::default(); items], reporters: HashMap::new(), due: Default::default() }
    }

    pub(crate) fn is_listed(&self, item: u32) -> bool {
        self.items[item as usize].is_listed()
    }

    pub(crate) fn claim(&mut self, now: Time, reporter: &Reporter, item: u32, claim: Claim) {
        let weight = self.weight(now, reporter);
        let known = &mut self.items[item as usize];
        if known.votes.iter().any(|vote| vote.0 == reporter.id && vote.3 == claim) {
            return;
        }
        if known.votes.is_empty() {
            self.due.push_back((now, item));
        }
        let early = !known.is_listed();
        let is_first_of_group = !known.votes.iter().any(|vote| vote.1 == reporter.group);
        known.votes.retain(|vote| vote.0 != reporter.id);
        known.votes.push((reporter.id, reporter.group, weight, claim, early));
        if is_first_of_group {
            known.score += if claim == Claim::Report { weight } else { -2.0 * weight };
            known.groups += usize::from(claim == Claim::Report && weight > 0.0);
        } else {
            known.add_up();
        }
    }

    pub(crate) fn settle(&mut self, now: Time) {
        while self.due.front().is_some_and(|(first, _)| now.since(*first) >= 48 * Time::HOUR) {
            let (_, item) = self.due.pop_front().expect("the queue has an item");
            let item = self.items[item as usize].clone();
            for &(id, _, _, claim, early) in &item.votes {
                let record = self.reporters.entry(id).or_insert_with(|| (0.0, 0.0, 0.0, now.day()));
                age(record, now.day());
                match (item.is_listed(), item.score < 0.0, claim) {
                    (true, _, Claim::Report) | (_, true, Claim::Revoke) => {
                        let earned = if early { 1.0_f64 } else { 0.1 }.min(5.0 - record.2);
                        (record.0, record.2) = (record.0 + earned, record.2 + earned);
                    }
                    (true, _, Claim::Revoke) | (_, true, Claim::Report) => record.1 += 10.0,
                    (false, false, _) => record.1 += 0.05,
                }
            }
        }
    }

    fn weight(&self, now: Time, reporter: &Reporter) -> f64 {
        let prior = if reporter.standing.is_anchor() { (60.0, 1.0) } else { (1.0, 1.0) };
        let mut record = self.reporters.get(&reporter.id).copied().unwrap_or_default();
        age(&mut record, now.day());
        let (a, b) = (prior.0 + record.0, prior.1 + record.1);
        let sum = a + b;
        let bound = a / sum - (a * b / (sum * sum * (sum + 1.0))).sqrt();
        (bound / (1.0 - bound)).ln().clamp(0.0, 2.5)
    }
}

fn age(record: &mut (f64, f64, f64, u64), day: u64) {
    let left = 0.5_f64.powf(day.saturating_sub(record.3) as f64 / 30.0);
    (record.0, record.1) = (record.0 * left, record.1 * left);
    if day > record.3 {
        (record.2, record.3) = (0.0, day);
    }
}
