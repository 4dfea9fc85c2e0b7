//! Measures how often the bulk book wrongly reports a real message as bulk. Yan and Cho call this rate f_dcc.
//!
//! ```sh
//! cargo run --release -p bruit-engine --example bulk_on_mail -- FOLDER...
//! ```
//!
//! Reads every message below the folders, one per file; a folder with `ham` in its name contains good mail, any other
//! folder contains spam. Each message is signed as a DCC client would (body and Fuz1) and is given a number of
//! recipients at one site (see [`Recipients`]). Generated messages with the same distribution of recipients fill the
//! book to a given number of signatures over seven days. Deliveries are applied in random order, most of them one by
//! one. Then the example looks up the signatures of the real mail, the generated ones below the threshold, and many
//! that were never counted. The same arguments always print the same table.

#![expect(clippy::print_stdout, reason = "it prints a table")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use bruit_engine::budget::{Capacities, Plan};
use bruit_engine::event::{By, Event};
use bruit_engine::generations::LIVE_GENERATIONS;
use bruit_engine::realm::Realm;
use bruit_engine::signature::fingerprint_of;
use bruit_engine::time::Time;
use bruit_engine::trust::{Policy, Reporter, Standing};
use bruit_engine::{BEHIND_LINES, Engine, Outcome};
use bruit_filters::sizing::{counts_ring_rate, ln_bulk_rate};
use bruit_filters::{Fingerprint, FingerprintKey};
use bruit_signatures::{Context, Scheme, Wanted, sign};
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};

const SEED: u64 = 2006;
const THRESHOLD: u32 = 20;
/// Number of never-counted signatures to look up. It is large because false positives are rare.
const STRANGERS: u64 = 2_000_000;
/// Number of deliveries that are counted one by one, per signature and day. The remaining deliveries are counted by a
/// single report.
const SINGLE_DELIVERIES: u32 = 30;
/// Maximum number of recipients drawn for a message at one site.
const RECIPIENTS_MAX: f64 = 100_000.0;
/// Cells per line in one generation, as in `bruit_filters::ring::CountsRing`. `KEY_CELLS` is the number of cells per
/// key.
const LINE_CELLS: u64 = 16;
const KEY_CELLS: u32 = 4;
/// The start of an epoch of both books.
const START: Time = Time(4_000 * Realm::SPAM_EPOCH_SECONDS);
const MIB: u64 = 1 << 20;

fn main() -> io::Result<()> {
    let mail = read_mail(env::args_os().skip(1).map(PathBuf::from))?;
    let lists = mail.iter().filter(|message| matches!(message.recipients, Recipients::Many)).count();
    println!("{} messages, {lists} of them spam or sent to lists", mail.len());
    println!(
        "    memory signatures  full  estimate     wrong     reach 20     of all  strangers  (4)     20 alone  missed"
    );
    for (memory, signatures) in [(8, 600_000), (16, 600_000), (32, 600_000), (64, 600_000)] {
        Run::new(memory * MIB, signatures, &mail).print();
    }
    for memory in [8, 32, 128] {
        let plan = Plan::for_budget(memory * MIB).expect("a budget within its bounds");
        Run::new(memory * MIB, Capacities::per_window(&plan.sizes).bulk, &mail).print();
    }
    let plan = Plan::for_budget(8 * MIB).expect("a budget within its bounds");
    Run::new(8 * MIB, Capacities::limits(&plan.sizes).bulk * LIVE_GENERATIONS * 99 / 100, &mail).print();
    Ok(())
}

/// The rule for the number of recipients that a message has at one site.
#[derive(Clone, Copy)]
enum Recipients {
    /// A personal message: the recipients in its To and Cc fields.
    Named(u32),
    /// Spam or a message to a list: a random number, which is at least n with probability 1/n.
    Many,
}

impl Recipients {
    fn draw(self, random: &mut ChaCha8Rng) -> u32 {
        match self {
            Self::Named(count) => count,
            Self::Many => (1.0 / (1.0 - random.random::<f64>())).min(RECIPIENTS_MAX) as u32,
        }
    }
}

/// A message read from the folders.
struct Mail {
    recipients: Recipients,
    fingerprints: Vec<Fingerprint>,
}

fn key() -> FingerprintKey {
    FingerprintKey::narrow([5; 16])
}

fn read_mail(folders: impl Iterator<Item = PathBuf>) -> io::Result<Vec<Mail>> {
    let mut paths = Vec::new();
    for folder in folders {
        collect(&folder, &mut paths)?;
    }
    paths.sort();
    let wanted = Wanted { dcc: true, ..NOTHING };
    paths.iter().map(|path| Ok(mail(path, &fs::read(path)?, &wanted))).collect()
}

const NOTHING: Wanted = Wanted {
    exact: false,
    attachment: false,
    url: false,
    pyzor: false,
    razor: false,
    dcc: false,
    bruit: false,
    razor_pieces: false,
};

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { collect(&path, paths)? } else { paths.push(path) }
    }
    Ok(())
}

fn mail(path: &Path, bytes: &[u8], wanted: &Wanted) -> Mail {
    let signed = sign(bytes, wanted, &Context::default());
    let counted = signed.signatures.iter().filter(|it| matches!(it.scheme(), Scheme::DccBody | Scheme::DccFuz1));
    let fingerprints = counted.map(|signature| fingerprint_of(&key(), signature)).collect();
    let is_ham = path.components().any(|part| part.as_os_str().to_string_lossy().contains("ham"));
    let header = header(bytes);
    let is_list = ["list-", "mailing-list:", "x-mailing-list:", "precedence: list", "precedence: bulk"]
        .iter()
        .any(|start| header.iter().any(|line| line.starts_with(start)));
    let named = header.iter().filter(|line| line.starts_with("to:") || line.starts_with("cc:"));
    let named = named.map(|line| line.matches('@').count() as u32).sum::<u32>().max(1);
    let recipients = if is_ham && !is_list { Recipients::Named(named) } else { Recipients::Many };
    Mail { recipients, fingerprints }
}

/// Returns the header fields, unfolded and in lower case.
fn header(bytes: &[u8]) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    for line in String::from_utf8_lossy(bytes).lines().take_while(|line| !line.trim_end().is_empty()) {
        match fields.last_mut() {
            Some(last) if line.starts_with([' ', '\t']) => last.push_str(line),
            _ => fields.push(line.to_owned()),
        }
    }
    fields.iter_mut().for_each(|field| field.make_ascii_lowercase());
    fields
}

/// One week at one site.
struct Run<'m> {
    memory: u64,
    signatures: u64,
    mail: &'m [Mail],
    engine: Engine,
    random: ChaCha8Rng,
    /// True number of recipients of each signature of the real mail.
    truth: HashMap<Fingerprint, u32>,
    next_other: u64,
    insertions: u64,
    bulk_signatures: u64,
    /// Generated signatures below the threshold, with their true numbers of recipients.
    others: Vec<(Fingerprint, u32)>,
    /// Number of deliveries that were not counted in full, because the book had no capacity left, or no record for a
    /// count above fifteen.
    refused: u64,
}

impl<'m> Run<'m> {
    fn new(memory: u64, signatures: u64, mail: &'m [Mail]) -> Self {
        let plan = Plan::for_budget(memory).expect("a budget within its bounds");
        let realm = Realm::new(key(), Realm::SPAM_EPOCH_SECONDS, Realm::BULK_EPOCH_SECONDS, plan.sizes);
        let engine = Engine::new(realm.expect("usual epochs"), plan, Policy::default(), START);
        let random = ChaCha8Rng::seed_from_u64(SEED);
        let truth = HashMap::new();
        let (next_other, insertions, bulk_signatures, refused, others) = (0, 0, 0, 0, Vec::new());
        let mut run = Self {
            memory,
            signatures,
            mail,
            engine,
            random,
            truth,
            next_other,
            insertions,
            bulk_signatures,
            others,
            refused,
        };
        (0..LIVE_GENERATIONS).for_each(|day| run.count_day(day));
        run
    }

    /// Counts the deliveries of one day: a seventh of the real mail, then generated messages until the day has a
    /// seventh of all signatures.
    fn count_day(&mut self, day: u64) {
        let now = Time(START.0 + day * Time::DAY);
        while !matches!(
            self.engine.apply(&Event::Tick { now, lines: BEHIND_LINES }),
            Outcome::Ticked { arrived: true, .. }
        ) {}
        let mut today = HashMap::new();
        for message in self.mail.iter().skip(day as usize).step_by(LIVE_GENERATIONS as usize) {
            let recipients = message.recipients.draw(&mut self.random);
            message.fingerprints.iter().for_each(|&fingerprint| *today.entry(fingerprint).or_insert(0) += recipients);
        }
        today.iter().for_each(|(&fingerprint, &count)| *self.truth.entry(fingerprint).or_insert(0) += count);
        while (today.len() as u64) < self.signatures / LIVE_GENERATIONS {
            let like = &self.mail[self.random.random_range(0..self.mail.len())];
            let recipients = like.recipients.draw(&mut self.random);
            for _ in &like.fingerprints {
                self.next_other += 1;
                today.insert(other(self.next_other), recipients);
                self.others.extend((recipients < THRESHOLD).then(|| (other(self.next_other), recipients)));
            }
        }
        self.deliver(now, today);
    }

    fn deliver(&mut self, now: Time, today: HashMap<Fingerprint, u32>) {
        // Sort, because a hash map has a different order in every run, and every run must print the same table.
        let mut today: Vec<_> = today.into_iter().collect();
        today.sort_unstable_by_key(|(fingerprint, _)| fingerprint.high());
        self.insertions += today.iter().map(|&(_, count)| u64::from(count)).sum::<u64>();
        self.bulk_signatures += today.iter().filter(|&&(_, count)| count >= THRESHOLD).count() as u64;
        let mut deliveries = Vec::new();
        for (fingerprint, count) in today {
            let single = count.min(SINGLE_DELIVERIES);
            deliveries.extend((0..single).map(|_| (fingerprint, 1)));
            deliveries.extend((count > single).then_some((fingerprint, count - single)));
        }
        deliveries.shuffle(&mut self.random);
        let reporter = Reporter { id: 1, standing: Standing::Own, group: 1 };
        for (fingerprint, targets) in deliveries {
            let event = Event::Bulk { by: By { now, reporter }, targets, fingerprints: vec![fingerprint] };
            let Outcome::Counted { refused, .. } = self.engine.apply(&event) else { panic!("own users may count") };
            self.refused += u64::from(refused);
        }
    }

    fn print(&self) {
        let totals = |fingerprints: &[Fingerprint]| {
            let mut totals = vec![0; fingerprints.len()];
            self.engine.bulk_totals(fingerprints, &mut totals);
            totals
        };
        let real: Vec<_> = self.truth.keys().copied().collect();
        let counted: Vec<_> = real.iter().map(|fingerprint| self.truth[fingerprint]).zip(totals(&real)).collect();
        let is_low = counted.iter().any(|(truth, count)| count < truth);
        assert!(!is_low || self.refused > 0, "no count is too low while the book has capacity");
        let wrong = counted.iter().filter(|(truth, count)| count > truth).count();
        let bulk = |count: &u32| *count >= THRESHOLD;
        let below: Vec<_> = counted.iter().filter(|(truth, _)| !bulk(truth)).collect();
        let reach = below.iter().filter(|(_, count)| bulk(count)).count();
        let missed = counted.iter().filter(|(truth, count)| bulk(truth) && !bulk(count)).count();
        let others: Vec<_> = self.others.iter().map(|&(fingerprint, _)| fingerprint).collect();
        let others = totals(&others).iter().filter(|count| bulk(count)).count();
        let strangers: Vec<_> = (1..=STRANGERS).map(|number| other(number | 1 << 40)).collect();
        let strangers = totals(&strangers).iter().filter(|count| bulk(count)).count();
        let (lines, live) = (self.engine.bulk().recipients().lines(), LIVE_GENERATIONS as u32);
        let rate = |signatures: u64| counts_ring_rate(signatures / LIVE_GENERATIONS, lines, live).window;
        let a_day = self.insertions / LIVE_GENERATIONS;
        let equation = ln_bulk_rate(a_day, lines * LINE_CELLS, KEY_CELLS, THRESHOLD, None) / std::f64::consts::LN_10;
        let planned = Capacities::per_window(&self.engine.plan().sizes).bulk;
        println!(
            "{:>4} MiB  {:>9}  {:>3.0}%  {:>8.4}  {:>8.4}  {:>2} of {:>5}  {:>9.1e}  {:>9.1e}  1e{:<4.0}  {:>7.1e}  {} of {}",
            self.memory / MIB,
            self.signatures,
            100.0 * self.signatures as f64 / planned as f64,
            rate(self.signatures),
            wrong as f64 / counted.len() as f64,
            reach,
            below.len(),
            (reach + others) as f64 / (below.len() + self.others.len()) as f64,
            strangers as f64 / STRANGERS as f64,
            equation,
            rate(self.bulk_signatures),
            missed,
            counted.len() - below.len(),
        );
    }
}

/// Returns a generated signature.
fn other(number: u64) -> Fingerprint {
    key().fingerprint(&number.to_le_bytes())
}
