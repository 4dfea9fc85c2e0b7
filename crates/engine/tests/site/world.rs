//! A month at one site: mail arrives and is judged; people report and revoke.
//!
//! The seed determines the mail and people's intended reactions, regardless of the verdicts. So two rules can be
//! compared on the same mail.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use bruit_engine::budget::Plan;
use bruit_engine::event::{By, Event};
use bruit_engine::realm::Realm;
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Policy, Reporter, Standing};
use bruit_engine::{BEHIND_LINES, CheckScratch, Engine, Outcome};
use bruit_filters::FingerprintKey;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt as _, SeedableRng as _};

use crate::campaigns::{Campaign, Trick};
use crate::mail::{Mail, Quote};
use crate::people::{Person, Thread, people, quote_of};
use crate::results::{Results, Sighting};
use crate::rule;
use crate::senders::{Sender, senders};
use crate::words::Language;

/// Probability that a person reports spam in the inbox. The next two constants bound the delay of the report.
const REPORT_RATE: f64 = 0.1;
const REPORT_DELAY_MIN: u64 = 5 * Time::MINUTE;
const REPORT_DELAY_MAX: u64 = 12 * Time::HOUR;
/// Probability that a person notices that good mail was called spam and revokes it, within a day.
const REVOKE_RATE: f64 = 0.3;
/// Number of recent good messages. A mistaken report is about one of them.
const RECENT: usize = 1_000;
/// Probability that a recipient of spam forwards it to a colleague.
const FORWARD_RATE: f64 = 0.02;
/// Average number of conversations that a person starts per day.
const THREADS_DAILY: f64 = 0.3;
/// The group of all people of the site, who use one token.
const SITE_GROUP: u64 = 1;
/// Memory budget of the server.
const BUDGET: u64 = 64 << 20;
/// Start of the first day, which is the start of an epoch.
const START: Time = Time(4_000 * Realm::SPAM_EPOCH_SECONDS);

/// The parameters of a run.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) days: u64,
    pub(crate) people: usize,
    pub(crate) senders: usize,
    pub(crate) campaigns: usize,
    /// Range of the number of copies of each campaign.
    pub(crate) copies: std::ops::Range<usize>,
    /// Share of intended reports that are about a good message.
    pub(crate) mistaken_share: f64,
    pub(crate) own_reports_needed: u32,
}

/// The true kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Truth {
    Newsletter,
    Transaction,
    Personal,
    /// Spam that a person forwards to another.
    Forward,
    /// Spam: the campaign, the content that it copies, and whether its copies differ.
    Spam {
        campaign: usize,
        trick: Trick,
        is_varied: bool,
    },
}

/// A received message.
pub(crate) struct Received {
    pub(crate) to: usize,
    pub(crate) truth: Truth,
    pub(crate) sender: usize,
    /// Number of the text. All readers of one issue receive the same text.
    pub(crate) text: u64,
    bytes: Vec<u8>,
    is_spam: bool,
}

enum Action {
    /// Draws the mail of a day.
    Day(u64),
    Deliver {
        to: usize,
        truth: Truth,
        sender: usize,
        text: u64,
        mail: Rc<Mail>,
    },
    Converse(Box<Thread>),
    SpamCopy {
        campaign: usize,
    },
    Report(Rc<Received>),
    Revoke(Rc<Received>),
}

/// Runs a site and returns the results.
pub(crate) fn run(setup: &Setup) -> Results {
    let mut site = Site::new(setup.clone());
    while let Some(((now, _), action)) = site.actions.pop_first() {
        site.tick(now);
        site.act(now, action);
    }
    site.results
}

struct Site {
    setup: Setup,
    language: Language,
    people: Vec<Person>,
    senders: Vec<Sender>,
    campaigns: Vec<Campaign>,
    engine: Engine,
    scratch: CheckScratch,
    /// Scheduled actions, in order of time.
    actions: BTreeMap<(Time, u64), Action>,
    scheduled: u64,
    texts: u64,
    /// The last issue of each newsletter, and the last message that each person received from another person.
    issues: Vec<Option<Rc<Mail>>>,
    last: Vec<Option<Quote>>,
    recent: VecDeque<Rc<Received>>,
    mail_random: ChaCha8Rng,
    people_random: ChaCha8Rng,
    results: Results,
}

impl Site {
    fn new(setup: Setup) -> Self {
        let Setup { seed, own_reports_needed, .. } = setup;
        let plan = Plan::for_budget(BUDGET).expect("an ordinary budget");
        let key = FingerprintKey::narrow([seed as u8; 16]);
        let realm =
            Realm::new(key, Realm::SPAM_EPOCH_SECONDS, Realm::BULK_EPOCH_SECONDS, plan.sizes).expect("usual epochs");
        let language = Language::new(seed);
        // A third of all people work elsewhere. They only write to the people of the site.
        let people = people(setup.people * 3 / 2, &language, seed);
        let mut site = Self {
            engine: Engine::new(realm, plan, Policy { own_reports_needed, ..Policy::default() }, START),
            senders: senders(setup.senders, setup.people, &language, seed),
            issues: vec![None; setup.senders],
            last: vec![None; people.len()],
            people,
            language,
            campaigns: Vec::new(),
            scratch: CheckScratch::default(),
            actions: BTreeMap::new(),
            scheduled: 0,
            texts: 0,
            recent: VecDeque::new(),
            mail_random: ChaCha8Rng::seed_from_u64(seed ^ 0x3a11),
            people_random: ChaCha8Rng::seed_from_u64(seed ^ 0x9e09),
            results: Results::new(own_reports_needed),
            setup,
        };
        (0..site.setup.days).for_each(|day| site.schedule(day_start(day), Action::Day(day)));
        site
    }

    fn schedule(&mut self, at: Time, action: Action) {
        self.actions.insert((at, self.scheduled), action);
        self.scheduled += 1;
    }

    fn tick(&mut self, now: Time) {
        let tick = Event::Tick { now, lines: BEHIND_LINES };
        while !matches!(self.engine.apply(&tick), Outcome::Ticked { arrived: true, .. }) {}
    }

    fn act(&mut self, now: Time, action: Action) {
        match action {
            Action::Day(day) => self.draw_day(day),
            Action::Deliver { to, truth, sender, text, mail } => {
                let mail = mail.filled(&self.people[to].name, &mut self.mail_random);
                self.deliver(now, to, truth, sender, text, &mail);
            }
            Action::Converse(thread) => self.converse(now, *thread),
            Action::SpamCopy { campaign } => self.send_copy(now, campaign),
            Action::Report(received) => self.claim(now, Claim::Report, &received),
            Action::Revoke(received) => self.claim(now, Claim::Revoke, &received),
        }
    }

    /// Draws the mail of a day: issues, transactions, conversations, campaigns.
    fn draw_day(&mut self, day: u64) {
        for sender in 0..self.senders.len() {
            self.draw_sender(sender, day);
        }
        let all = self.people.len();
        for _ in 0..(self.people.len() as f64 * THREADS_DAILY) as usize {
            let random = &mut self.mail_random;
            let first = random.random_range(0..all);
            let second = (first + random.random_range(1..all)) % all;
            let at = Time(day_start(day).0 + random.random_range(0..Time::DAY));
            let thread = Thread::new([first, second], &self.people, &self.language, random);
            self.schedule(at, Action::Converse(Box::new(thread)));
        }
        // No campaign starts on the first day, when there is no mail to copy, nor on the last two days, when too little
        // time is left.
        let last_day = self.setup.days.saturating_sub(2).max(2);
        let until = |day: u64| self.setup.campaigns as u64 * day.saturating_sub(1).min(last_day - 1) / (last_day - 1);
        for number in until(day)..until(day + 1) {
            self.draw_campaign(number as usize, day);
        }
    }

    fn draw_sender(&mut self, at: usize, day: u64) {
        let (sender, random) = (&self.senders[at], &mut self.mail_random);
        let start = day_start(day).0 + random.random_range(0..4 * Time::HOUR);
        let mut sent = Vec::new();
        if sender.sends_on(day) {
            let issue = Rc::new(sender.issue(&self.language, random));
            self.texts += 1;
            for &to in &sender.readers {
                let at_time = Time(start + random.random_range(0..sender.spread));
                sent.push((at_time, to, Truth::Newsletter, self.texts, Rc::clone(&issue)));
            }
            self.issues[at] = Some(issue);
        }
        for to in sender.customers_of_day(random) {
            self.texts += 1;
            let mail = Rc::new(sender.transaction(&self.language, random));
            sent.push((
                Time(start + random.random_range(0..20 * Time::HOUR)),
                to,
                Truth::Transaction,
                self.texts,
                mail,
            ));
        }
        for (at_time, to, truth, text, mail) in sent {
            self.schedule(at_time, Action::Deliver { to, truth, sender: at, text, mail });
        }
    }

    fn draw_campaign(&mut self, number: usize, day: u64) {
        let random = &mut self.mail_random;
        let at = random.random_range(0..self.senders.len());
        let sender = &self.senders[at];
        let specimen = match &self.issues[at] {
            Some(issue) => Mail::clone(issue),
            None if sender.is_shop() => sender.transaction(&self.language, random),
            None => sender.issue(&self.language, random),
        };
        self.campaigns.push(Campaign::new(number, sender, specimen, &self.people, &self.language, random));
        let copies = random.random_range(self.setup.copies.clone());
        let start = Time(day_start(day).0 + random.random_range(0..Time::DAY));
        for at in Campaign::schedule(start, copies, random) {
            self.schedule(at, Action::SpamCopy { campaign: number });
        }
    }

    fn converse(&mut self, now: Time, mut thread: Thread) {
        let (from, to) = (thread.ends[0], thread.ends[1]);
        let mail = thread.next(now, &self.people, &mut self.mail_random);
        self.last[to] = Some(quote_of(&mail, now));
        let delay = self.mail_random.random_range(20 * Time::MINUTE..20 * Time::HOUR);
        if thread.left > 0 {
            self.schedule(Time(now.0 + delay), Action::Converse(Box::new(thread)));
        }
        self.texts += 1;
        if to < self.setup.people {
            self.deliver(now, to, Truth::Personal, from, self.texts, &mail);
        }
    }

    fn send_copy(&mut self, now: Time, number: usize) {
        let random = &mut self.mail_random;
        let to = random.random_range(0..self.setup.people);
        let campaign = &self.campaigns[number];
        let mail = campaign.copy(&self.people[to], self.last[to].as_ref(), &self.language, random);
        let truth = Truth::Spam { campaign: number, trick: campaign.trick, is_varied: campaign.is_varied };
        self.deliver(now, to, truth, number, 0, &mail);
        if self.mail_random.random_bool(FORWARD_RATE) {
            self.forward(now, to, &mail);
        }
    }

    fn forward(&mut self, now: Time, from: usize, spam: &Mail) {
        let random = &mut self.mail_random;
        let to = random.random_range(0..self.setup.people);
        let at = Time(now.0 + random.random_range(5 * Time::MINUTE..Time::DAY));
        let mail = Rc::new(self.people[from].forward(quote_of(spam, now)));
        self.texts += 1;
        self.schedule(at, Action::Deliver { to, truth: Truth::Forward, sender: from, text: self.texts, mail });
    }

    /// Delivers a message to a person, who may react to it later.
    fn deliver(&mut self, now: Time, to: usize, truth: Truth, sender: usize, text: u64, mail: &Mail) {
        let bytes = mail.write(&self.people[to].address, now, &mut self.mail_random);
        let judged = rule::check(&self.engine, &bytes, &mut self.scratch);
        let received = Rc::new(Received { to, truth, sender, text, bytes, is_spam: judged.is_spam });
        self.results.see(&Sighting { now, received: &received, judged: &judged });
        let random = &mut self.people_random;
        let [reports, mistakes, revokes] =
            [REPORT_RATE, self.setup.mistaken_share, REVOKE_RATE].map(|rate| random.random_bool(rate));
        let share: f64 = random.random();
        let report_delay = REPORT_DELAY_MIN + (share.powi(3) * REPORT_DELAY_MAX as f64) as u64;
        let revoke_delay = random.random_range(10 * Time::MINUTE..Time::DAY);
        let mistaken_about = random.random_range(0..RECENT);
        if matches!(truth, Truth::Spam { .. }) {
            self.results.meant += u64::from(reports);
            let about =
                if mistakes { self.recent.get(mistaken_about % self.recent.len().max(1)) } else { Some(&received) };
            // People do not report messages that are already in the spam folder.
            if let Some(about) = about.filter(|about| reports && !about.is_spam).cloned() {
                self.schedule(Time(now.0 + report_delay), Action::Report(about));
            }
            return;
        }
        self.recent.push_back(Rc::clone(&received));
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        if judged.is_spam && revokes {
            self.schedule(Time(now.0 + revoke_delay), Action::Revoke(received));
        }
    }

    fn claim(&mut self, now: Time, claim: Claim, about: &Received) {
        let reporter = Reporter { id: about.to as u64 + 2, standing: Standing::Own, group: SITE_GROUP };
        let events = rule::claim(&self.engine, &about.bytes, claim, By { now, reporter });
        for event in &events {
            self.engine.apply(event);
        }
        self.results.claim(claim, about, &events);
    }
}

fn day_start(day: u64) -> Time {
    Time(START.0 + day * Time::DAY)
}
