//! The results of a run: good mail that was called spam, by kind and cause, and spam that was caught.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bruit_engine::event::Event;
use bruit_engine::time::Time;
use bruit_engine::trust::Claim;
use bruit_filters::Fingerprint;

use crate::campaigns::Trick;
use crate::rule::Judged;
use crate::world::{Received, Truth};

/// A message with its time of receipt and its verdict.
pub(crate) struct Sighting<'s> {
    pub(crate) now: Time,
    pub(crate) received: &'s Received,
    pub(crate) judged: &'s Judged,
}

/// Numbers of messages by verdict.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) received: u64,
    pub(crate) spam: u64,
    pub(crate) suspected: u64,
}

/// The reason why a good message was called spam.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// A mistaken report of the same text, in another copy of the issue.
    SameText,
    /// A mistaken report of another message of the same kind from the same sender.
    SameSender,
    /// A mistaken report of other mail: from another sender, or of another kind.
    OtherSender,
    /// A correct report of spam.
    Spam(Trick),
}

/// A good message that was called spam.
#[derive(Clone, Debug)]
pub(crate) struct Wrong {
    pub(crate) kind: Truth,
    pub(crate) cause: Cause,
    pub(crate) scheme: &'static str,
    pub(crate) confidence: u8,
    /// Number of people who had reported the deciding evidence.
    pub(crate) people: usize,
}

/// The period of wrong verdicts caused by reports of one message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrongListing {
    first: Time,
    last: Time,
}

/// The results of a campaign.
#[derive(Clone, Debug)]
pub(crate) struct CampaignTally {
    pub(crate) trick: Trick,
    pub(crate) is_varied: bool,
    pub(crate) all: Tally,
    /// Tally of the copies received after the first report.
    pub(crate) after_first: Tally,
    /// Tally of the copies received after as many reports as a listing requires.
    pub(crate) after_enough: Tally,
    reporters: BTreeSet<usize>,
}

/// The messages that were reported under one fingerprint, and the reporters.
#[derive(Default)]
struct Reported {
    messages: Vec<(Truth, usize, u64)>,
    people: BTreeSet<usize>,
}

/// The results of one run.
pub(crate) struct Results {
    own_reports_needed: u32,
    pub(crate) good: BTreeMap<Truth, Tally>,
    pub(crate) wrong: Vec<Wrong>,
    listings: BTreeMap<(Truth, usize, u64), WrongListing>,
    pub(crate) campaigns: BTreeMap<usize, CampaignTally>,
    /// Number of reports that people intended to make, including reports of messages already in the spam folder.
    pub(crate) meant: u64,
    pub(crate) reports: u64,
    pub(crate) mistaken: u64,
    pub(crate) revocations: u64,
    reported: HashMap<Fingerprint, Reported>,
}

impl Tally {
    fn add(&mut self, judged: &Judged) {
        self.received += 1;
        self.spam += u64::from(judged.is_spam);
        self.suspected += u64::from(judged.is_suspected);
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            received: self.received + other.received,
            spam: self.spam + other.spam,
            suspected: self.suspected + other.suspected,
        }
    }

    /// Returns the share of messages that were called spam.
    pub(crate) fn share(&self) -> f64 {
        self.spam as f64 / self.received.max(1) as f64
    }

    fn cell(&self) -> String {
        let percent = |count: u64| 100.0 * count as f64 / self.received.max(1) as f64;
        format!("{:.1} % + {:.1} % of {}", percent(self.spam), percent(self.suspected), self.received)
    }
}

impl Cause {
    fn name(self) -> String {
        match self {
            Self::SameText => "mistaken report of the same text".into(),
            Self::SameSender => "mistaken report of other mail from the sender".into(),
            Self::OtherSender => "mistaken report of other mail".into(),
            Self::Spam(trick) => format!("spam that copies: {}", trick.name()),
        }
    }
}

impl Results {
    pub(crate) fn new(own_reports_needed: u32) -> Self {
        Self {
            own_reports_needed,
            good: BTreeMap::new(),
            wrong: Vec::new(),
            listings: BTreeMap::new(),
            campaigns: BTreeMap::new(),
            meant: 0,
            reports: 0,
            mistaken: 0,
            revocations: 0,
            reported: HashMap::new(),
        }
    }

    /// Records the verdict on a message.
    pub(crate) fn see(&mut self, sighting: &Sighting<'_>) {
        let Sighting { received, judged, .. } = sighting;
        if let Truth::Spam { campaign, trick, is_varied } = received.truth {
            let needed = self.own_reports_needed;
            self.campaign(campaign, trick, is_varied).see(judged, needed);
            return;
        }
        self.good.entry(received.truth).or_default().add(judged);
        if judged.is_spam {
            self.see_wrong(sighting);
        }
    }

    fn see_wrong(&mut self, sighting: &Sighting<'_>) {
        let Sighting { now, received, judged } = *sighting;
        let (scheme, fingerprint) = judged.decided.expect("a spam verdict has deciding evidence");
        let reported = self.reported.get(&fingerprint).expect("only reported signatures are listed");
        let causes = reported.messages.iter().map(|message| (cause(received, message), *message));
        let (cause, message) = causes.min().expect("the message was reported");
        let (kind, confidence, people) = (received.truth, judged.confidence, reported.people.len());
        self.wrong.push(Wrong { kind, cause, scheme, confidence, people });
        let listing = self.listings.entry(message).or_insert(WrongListing { first: now, last: now });
        listing.last = now;
    }

    /// Records a claim about a message.
    pub(crate) fn claim(&mut self, claim: Claim, about: &Received, events: &[Event]) {
        if claim == Claim::Revoke {
            self.revocations += 1;
            return;
        }
        self.reports += 1;
        match about.truth {
            Truth::Spam { campaign, trick, is_varied } => {
                self.campaign(campaign, trick, is_varied).reporters.insert(about.to);
            }
            _ => self.mistaken += 1,
        }
        for event in events {
            let Event::Claim { fingerprints, .. } = event else { continue };
            for fingerprint in fingerprints {
                let reported = self.reported.entry(*fingerprint).or_default();
                reported.messages.push((about.truth, about.sender, about.text));
                reported.people.insert(about.to);
            }
        }
    }

    fn campaign(&mut self, number: usize, trick: Trick, is_varied: bool) -> &mut CampaignTally {
        self.campaigns.entry(number).or_insert_with(|| CampaignTally {
            trick,
            is_varied,
            all: Tally::default(),
            after_first: Tally::default(),
            after_enough: Tally::default(),
            reporters: BTreeSet::new(),
        })
    }
}

impl CampaignTally {
    fn see(&mut self, judged: &Judged, needed: u32) {
        self.all.add(judged);
        if !self.reporters.is_empty() {
            self.after_first.add(judged);
        }
        if self.reporters.len() >= needed as usize {
            self.after_enough.add(judged);
        }
    }
}

fn cause(received: &Received, &(truth, sender, text): &(Truth, usize, u64)) -> Cause {
    match truth {
        Truth::Spam { trick, .. } => Cause::Spam(trick),
        _ if text == received.text => Cause::SameText,
        _ if truth == received.truth && sender == received.sender => Cause::SameSender,
        _ => Cause::OtherSender,
    }
}

/// Formats the results of several runs as rows of a table.
pub(crate) fn table(runs: &[Results]) -> String {
    let mut rows = Vec::new();
    let sum = |of: &dyn Fn(&Results) -> u64| runs.iter().map(of).sum::<u64>();
    for kind in [Truth::Newsletter, Truth::Transaction, Truth::Personal, Truth::Forward] {
        let tallies = runs.iter().filter_map(|run| run.good.get(&kind).copied());
        let Tally { received, spam, suspected } = tallies.fold(Tally::default(), Tally::plus);
        rows.push((
            format!("good, {kind:?}: called spam, suspected, received"),
            format!("{spam}, {suspected}, {received}"),
        ));
    }
    rows.extend(causes(runs));
    rows.push(("wrong listings: number and duration".into(), durations(runs)));
    rows.push(("confidence of wrong verdicts".into(), confidences(runs)));
    let claims =
        [sum(&|run| run.meant), sum(&|run| run.reports), sum(&|run| run.mistaken), sum(&|run| run.revocations)];
    rows.push((
        "reports: intended, made, mistaken; revocations".into(),
        claims.map(|count| count.to_string()).join(", "),
    ));
    rows.extend(caught(runs));
    rows.iter().map(|(what, value)| format!("| {what} | {value} |\n")).collect()
}

fn causes(runs: &[Results]) -> Vec<(String, String)> {
    let mut causes: BTreeMap<(Cause, Truth, &str), u64> = BTreeMap::new();
    for wrong in runs.iter().flat_map(|run| &run.wrong) {
        *causes.entry((wrong.cause, wrong.kind, wrong.scheme)).or_default() += 1;
    }
    let row = |((cause, kind, scheme), count): ((Cause, Truth, &str), u64)| {
        (format!("- {}: {kind:?}, by {scheme}", cause.name()), count.to_string())
    };
    causes.into_iter().map(row).collect()
}

fn durations(runs: &[Results]) -> String {
    let listings = runs.iter().flat_map(|run| run.listings.values());
    let mut hours: Vec<u64> = listings.map(|listing| listing.last.since(listing.first) / Time::HOUR).collect();
    hours.sort_unstable();
    match hours.last() {
        Some(most) => format!("{}, median {} h, longest {most} h", hours.len(), hours[hours.len() / 2]),
        None => "0".into(),
    }
}

fn confidences(runs: &[Results]) -> String {
    let all: Vec<&Wrong> = runs.iter().flat_map(|run| &run.wrong).collect();
    let count = |range: std::ops::Range<u8>| all.iter().filter(|wrong| range.contains(&wrong.confidence)).count();
    let sure_of_one = all.iter().filter(|wrong| wrong.people == 1 && wrong.confidence >= 90).count();
    format!(
        "below 70: {}, 70-79: {}, 80-89: {}, 90 and more: {}; 90 and more after one person's report: {sure_of_one}",
        count(0..70),
        count(70..80),
        count(80..90),
        count(90..101)
    )
}

fn caught(runs: &[Results]) -> Vec<(String, String)> {
    let campaigns = || runs.iter().flat_map(|run| run.campaigns.values());
    let sum = |is_meant: &dyn Fn(&CampaignTally) -> bool| {
        let cells = [
            |one: &CampaignTally| one.all,
            |one: &CampaignTally| one.after_first,
            |one: &CampaignTally| one.after_enough,
        ];
        let total = |of: fn(&CampaignTally) -> Tally| {
            campaigns().filter(|one| is_meant(one)).map(of).fold(Tally::default(), Tally::plus).cell()
        };
        cells.map(total).join(" \\| ")
    };
    let mut rows = vec![
        (
            "spam, called spam + suspected: in total, after the first report, after enough reports".to_owned(),
            sum(&|_| true),
        ),
        ("- copies not varied".to_owned(), sum(&|one| !one.is_varied)),
        ("- copies varied".to_owned(), sum(&|one| one.is_varied)),
    ];
    for trick in Trick::ALL {
        for is_varied in [false, true] {
            let name = format!("- spam that copies: {}{}", trick.name(), if is_varied { ", varied" } else { "" });
            rows.push((name, sum(&|one| one.trick == trick && one.is_varied == is_varied)));
        }
    }
    rows
}
