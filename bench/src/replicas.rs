//! Benchmarks of near replicas of real spam: the share that is recognised, and the share of good mail that is mistaken
//! for a replica.
//!
//! `BRUIT_REPLICAS` names a folder of altered copies of the mail in `BRUIT_CORPUS`. `docs/near-replicas.md` describes
//! the files. Queries use the same index as in a server.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use bruit_engine::replicas::{Replicas, Scratch};
use bruit_filters::FingerprintKey;
use bruit_filters::owners::Owner;
use bruit_signatures::bruit::Features;
use bruit_signatures::message::Message;
use bruit_signatures::reading::Reading;
use serde_json::Value;

use crate::mail;
use crate::report::{Figure, Report, Target};

/// Environment variable that names the folder of the benchmark.
const REPLICAS: &str = "BRUIT_REPLICAS";

/// Number of realm keys over which the figures are averaged. The realm's key determines which features a report stores.
const KEYS: u8 = 8;

/// Messages with fewer words than this are counted separately.
const SHORT_WORDS: usize = 50;

/// Classes of attacks. Each class has the first letter of its attacks' names, a description, and the minimum share of
/// replicas to be found.
const CLASSES: [(&str, &str, f64); 8] = [
    ("a", "random addition", 0.99),
    ("b", "dictionary substitution", 0.96),
    ("c", "perceptive substitution", 0.98),
    ("d", "personalisation", 0.998),
    ("e", "re-encoding", 0.999),
    ("f", "combination", 0.90),
    ("natural", "natural replicas", 0.99),
    ("short bases", "all attacks on messages of fewer than 50 words", 0.90),
];

/// Kinds of pairs that are not replicas, each with a limit: the share of its pairs that may be mistaken for replicas.
const PAIRS: [(&str, f64); 7] = [
    ("newsletter", 0.003),
    ("reply_quote", 0.10),
    ("list_footer", 0.0),
    ("short", 0.0),
    ("disclaimer", 0.05),
    ("unrelated_spam", 0.0003),
    ("random_ham", 0.0003),
];

pub(crate) fn figures(report: &mut Report) -> io::Result<()> {
    let (Some(corpus), Some(bench)) = (mail::corpus(), env::var_os(REPLICAS).map(PathBuf::from)) else {
        return report.missing("near replicas found, good mail matched", "", "needs BRUIT_CORPUS and BRUIT_REPLICAS");
    };
    let bench = Bench::read(&corpus, &bench)?;
    let runs: Vec<Run> = (0..KEYS).map(|key| bench.run(FingerprintKey::new([key; 16]))).collect();
    for (class, name, target) in CLASSES {
        add(report, &format!("near replicas found: {name}"), &runs, Target::AtLeast(target), |run| {
            run.found.share(class)
        })?;
    }
    add(report, "good mail that matches a report", &runs, Target::AtMost(0.0005), |run| run.found.share("ham"))?;
    for (kind, target) in PAIRS {
        add(report, &format!("pairs that match: {kind}"), &runs, Target::AtMost(target), |run| run.pairs.share(kind))?;
    }
    let known: Vec<Run> = (0..KEYS).map(|key| bench.run_knowing_ham(FingerprintKey::new([key; 16]))).collect();
    for (class, name, _) in CLASSES {
        add(
            report,
            &format!("near replicas found, with other good mail known: {name}"),
            &known,
            Target::None,
            |run| run.found.share(class),
        )?;
    }
    add(report, "pairs that match, with other good mail known: newsletter", &known, Target::AtMost(0.003), |run| {
        run.pairs.share("newsletter")
    })?;
    add(report, "bytes per report in the index", &runs, Target::AtMost(200.0), |run| run.bytes)?;
    add(report, "features kept per report", &runs, Target::None, |run| run.features)
}

fn add(report: &mut Report, name: &str, runs: &[Run], target: Target, value: impl Fn(&Run) -> f64) -> io::Result<()> {
    let values: Vec<f64> = runs.iter().map(value).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let (least, most) =
        values.iter().fold((f64::MAX, f64::MIN), |(least, most), &value| (least.min(value), most.max(value)));
    let note = format!("mean over {} keys; range {least:.4} to {most:.4}", runs.len());
    report.add(Figure::new(name, mean, target, note))
}

/// The features of the benchmark's messages.
struct Bench {
    features: HashMap<String, Features>,
    reports: Vec<String>,
    ham: Vec<String>,
    /// File, base and class of each replica.
    replicas: Vec<(String, String, String)>,
    /// Number of visible words in each report.
    words: HashMap<String, usize>,
    /// Report, query and kind of each pair.
    pairs: Vec<(String, String, String)>,
}

/// Hits and trials by name.
#[derive(Default)]
struct Counts(BTreeMap<String, (u64, u64)>);

/// Results with one key.
struct Run {
    found: Counts,
    pairs: Counts,
    bytes: f64,
    features: f64,
}

impl Bench {
    fn read(corpus: &Path, bench: &Path) -> io::Result<Self> {
        let lines = |name: &str| {
            Ok::<_, io::Error>(fs::read_to_string(bench.join(name))?.lines().map(str::to_owned).collect::<Vec<_>>())
        };
        let rows = |name: &str| {
            Ok::<_, io::Error>(
                lines(name)?.iter().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<Value>>(),
            )
        };
        let class = |row: &Value| text(row, "attack").chars().next().map_or_else(|| "natural".to_owned(), String::from);
        let replica = |row: &Value| (text(row, "file"), text(row, "base"), class(row));
        let mut replicas: Vec<_> = rows("variants.jsonl")?.iter().map(replica).collect();
        replicas.extend(rows("natural.jsonl")?.iter().map(replica));
        let pair = |row: &Value| (text(row, "a"), text(row, "b"), text(row, "kind"));
        let pairs: Vec<_> = rows("negpairs.jsonl")?.iter().map(pair).collect();
        let mut found = Self {
            features: HashMap::new(),
            words: HashMap::new(),
            reports: lines("reports.txt")?,
            ham: lines("ham.txt")?,
            replicas,
            pairs,
        };
        found.read_features(corpus, bench)?;
        Ok(found)
    }

    fn read_features(&mut self, corpus: &Path, bench: &Path) -> io::Result<()> {
        let of_replicas = self.replicas.iter().map(|(file, _, _)| file);
        let of_pairs = self.pairs.iter().flat_map(|(report, query, _)| [report, query]);
        for name in self.reports.iter().chain(&self.ham).chain(of_replicas).chain(of_pairs) {
            if !self.features.contains_key(name) {
                let path = name.strip_prefix("out:").map_or_else(|| corpus.join(name), |name| bench.join(name));
                let reading = Reading::of(&Message::read(&fs::read(path)?));
                self.words.insert(name.clone(), reading.text.split_whitespace().count());
                self.features.insert(name.clone(), Features::of(&reading));
            }
        }
        Ok(())
    }

    fn run(&self, key: FingerprintKey) -> Run {
        let mut replicas = Replicas::new(key.clone(), self.reports.len() as u64, 0);
        let owners: HashMap<&str, Owner> =
            self.reports.iter().map(|name| (name.as_str(), replicas.report(&self.features[name]))).collect();
        let kept = |owner: &Owner| replicas.record_of(*owner).map_or(0, |stored| stored.total());
        let features = owners.values().map(kept).sum::<u64>() as f64 / owners.len() as f64;
        let mut found = Counts::default();
        let mut scratch = Scratch::default();
        for (file, base, class) in &self.replicas {
            let matched = replicas.check(&self.features[file], &mut scratch);
            let is_found =
                owners.get(base.as_str()).is_some_and(|owner| matched.iter().any(|found| found.owner == *owner));
            found.add(class, is_found);
            if class != "natural" && self.words.get(base).is_some_and(|&words| words < SHORT_WORDS) {
                found.add("short bases", is_found);
            }
        }
        for name in &self.ham {
            found.add("ham", !replicas.check(&self.features[name], &mut scratch).is_empty());
        }
        Run { found, pairs: self.run_pairs(&key), bytes: replicas.bytes() as f64 / owners.len() as f64, features }
    }

    /// Repeats the run, but ignores the features that occur in two or more good messages. For each pair, the two
    /// messages of the pair are not counted as good mail. This run does not query good mail.
    fn run_knowing_ham(&self, key: FingerprintKey) -> Run {
        let mut seen: HashMap<u64, u32> = HashMap::new();
        for feature in self.ham.iter().flat_map(|name| self.features[name].all()) {
            *seen.entry(feature).or_default() += 1;
        }
        let without = |name: &String, own: &[&String]| {
            let own = |feature: u64| {
                own.iter().filter(|name| self.features[**name].all().any(|other| other == feature)).count()
            };
            let is_good = |feature: u64| {
                seen.get(&feature).is_some_and(|&count| count >= 2 && count as usize >= 2 + own(feature))
            };
            let mut features = self.features[name].clone();
            features.pairs.retain(|&feature| !is_good(feature));
            features.links.retain(|&feature| !is_good(feature));
            features
        };
        let spam = self.reports.iter().chain(self.replicas.iter().map(|(file, _, _)| file));
        let mut features: HashMap<String, Features> = spam.map(|name| (name.clone(), without(name, &[]))).collect();
        let mut pairs = Vec::new();
        for (at, (report, query, kind)) in self.pairs.iter().filter(|pair| pair.2 == "newsletter").enumerate() {
            let names = [format!("{at} report"), format!("{at} query")];
            features.insert(names[0].clone(), without(report, &[report, query]));
            features.insert(names[1].clone(), without(query, &[report, query]));
            pairs.push((names[0].clone(), names[1].clone(), kind.clone()));
        }
        let (reports, replicas, words) = (self.reports.clone(), self.replicas.clone(), self.words.clone());
        Self { features, words, reports, ham: Vec::new(), replicas, pairs }.run(key)
    }

    fn run_pairs(&self, key: &FingerprintKey) -> Counts {
        let mut counts = Counts::default();
        let mut scratch = Scratch::default();
        for (report, query, kind) in &self.pairs {
            let mut replicas = Replicas::new(key.clone(), 1, 0);
            replicas.report(&self.features[report]);
            counts.add(kind, !replicas.check(&self.features[query], &mut scratch).is_empty());
        }
        counts
    }
}

impl Counts {
    fn add(&mut self, name: &str, is_hit: bool) {
        let (hits, trials) = self.0.entry(name.to_owned()).or_default();
        *hits += u64::from(is_hit);
        *trials += 1;
    }

    fn share(&self, name: &str) -> f64 {
        self.0.get(name).map_or(f64::NAN, |&(hits, trials)| hits as f64 / trials as f64)
    }
}

fn text(row: &Value, key: &str) -> String {
    row[key].as_str().unwrap_or_default().to_owned()
}
