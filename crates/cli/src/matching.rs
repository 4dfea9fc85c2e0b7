//! `bruit match`: which reports is a message a near replica of, asked of the index that a server uses.
//!
//! A job file says what to do, line by line; the answers are lines too, so that any benchmark can drive it.

use std::fs;
use std::io::{BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bruit_engine::replicas::{Match, Replicas, Scratch};
use bruit_filters::FingerprintKey;
use bruit_filters::owners::Owner;
use bruit_signatures::bruit::Features;
use bruit_signatures::message::Message;
use bruit_signatures::reading::Reading;
use serde_json::json;

use crate::failure::Failure;
use crate::mailbox::MESSAGE_BYTES_MAX;
use crate::progress;
use crate::terminal::complain;

/// The longest job file.
const JOBS_BYTES_MAX: u64 = 256 << 20;

const EXAMPLES: &str = "\
JOBS has a line for each message, an action and a path with a tab between, done in that order:
  report   spam that was reported
  ham      good mail; what two different ones say does not count any more
  revoke   a message that is good after all; nothing of it counts any more
  query    which reports is this a near replica of? Answered by a line: the path,
           a tab, and the paths of the reports with commas between
A message that cannot be read is told on standard error and left out; the exit code is
then 2. Paths with commas can be told apart with --json.

Examples:
  bruit match jobs.tsv                               answers for every query line
  bruit match --pairs pairs.tsv                      for lines of two paths: 1 if the second
                                                     would match a report of the first, else 0
  printf 'report\\tspam.eml\\nquery\\tnew.eml\\n' | bruit match -";

/// What `bruit match` is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The file of jobs; - for standard input
    #[arg(value_name = "JOBS")]
    jobs: PathBuf,

    /// The lines are pairs of paths, each judged by itself
    #[arg(long)]
    pairs: bool,

    /// The key under which features are hashed, as a realm has one: 32 hexadecimal digits [default: zeros]
    #[arg(long, value_name = "HEX", value_parser = parse_key)]
    key: Option<[u8; 16]>,

    /// Answer only with close replicas: those that a server calls spam by their text alone
    #[arg(long)]
    close: bool,

    /// Print a JSON object for each answer
    #[arg(long)]
    json: bool,

    /// Afterwards say on standard error how large the index is
    #[arg(long)]
    summary: bool,
}

impl Arguments {
    /// Whether a replica is one that was asked for.
    fn counts(&self, found: &Match) -> bool {
        !self.close || found.is_close()
    }
}

/// One line of a job file.
#[derive(Debug, PartialEq, Eq)]
struct Job<'j> {
    action: Action,
    path: &'j str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Report,
    Ham,
    Revoke,
    Query,
}

pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let text = read_jobs(&arguments.jobs)?;
    let output = &mut BufWriter::new(output);
    let key = FingerprintKey::new(arguments.key.unwrap_or_default());
    let code = if arguments.pairs {
        answer_pairs(&parse_pairs(&text)?, &key, arguments, output)?;
        ExitCode::SUCCESS
    } else {
        answer_jobs(&parse_jobs(&text)?, key, arguments, output)?
    };
    output.flush()?;
    Ok(code)
}

fn answer_jobs(
    jobs: &[Job<'_>],
    key: FingerprintKey,
    arguments: &Arguments,
    output: &mut impl Write,
) -> Result<ExitCode, Failure> {
    let count = |action: Action| jobs.iter().filter(|job| job.action == action).count() as u64;
    let mut replicas = Replicas::new(key, count(Action::Report), count(Action::Ham) + count(Action::Revoke));
    let mut reports: Vec<(Owner, &str)> = Vec::new();
    let mut scratch = Scratch::default();
    let bar = progress::of_messages(jobs.len() as u64);
    let mut code = ExitCode::SUCCESS;
    for job in jobs {
        bar.inc(1);
        let features = match read_features(Path::new(job.path)) {
            Ok(features) => features,
            Err(fault) => {
                code = ExitCode::from(2);
                bar.suspend(|| complain(&fault));
                continue;
            }
        };
        match job.action {
            Action::Report => reports.push((replicas.report(&features), job.path)),
            // There is room for all of them.
            Action::Ham => replicas.learn_good(&features).unwrap_or_default(),
            Action::Revoke => replicas.revoke(&features).unwrap_or_default(),
            Action::Query => {
                let matched = replicas.check(&features, &mut scratch);
                let counted = matched.iter().filter(|found| arguments.counts(found));
                let paths: Vec<&str> = counted.filter_map(|found| path_of(&reports, found.owner)).collect();
                answer_query(job.path, &paths, arguments.json, output)?;
            }
        }
    }
    bar.finish_and_clear();
    if arguments.summary {
        summarise(&replicas, &reports);
    }
    Ok(code)
}

/// The path under which an owner was reported. Owners are numbered in order.
fn path_of<'j>(reports: &[(Owner, &'j str)], owner: Owner) -> Option<&'j str> {
    let at = reports.binary_search_by_key(&owner, |(owner, _)| *owner).ok()?;
    Some(reports[at].1)
}

fn answer_query(path: &str, matched: &[&str], as_json: bool, output: &mut impl Write) -> Result<(), Failure> {
    if as_json {
        writeln!(output, "{}", json!({ "query": path, "matched": matched }))?;
    } else {
        writeln!(output, "{path}\t{}", matched.join(","))?;
    }
    Ok(())
}

fn summarise(replicas: &Replicas, reports: &[(Owner, &str)]) {
    let stored = |owner: &Owner| replicas.record_of(*owner).map_or(0, |stored| stored.total());
    let features: u64 = reports.iter().map(|(owner, _)| stored(owner)).sum();
    let per_report = |total: f64| total / reports.len().max(1) as f64;
    // What is not written is not missed.
    let _ = writeln!(
        std::io::stderr(),
        "{} reports, {:.1} features and {:.1} bytes each; {:.1} % of the slots in use",
        reports.len(),
        per_report(features as f64),
        per_report(replicas.bytes() as f64),
        replicas.load() * 100.0,
    );
}

fn answer_pairs(
    pairs: &[(&str, &str)],
    key: &FingerprintKey,
    arguments: &Arguments,
    output: &mut impl Write,
) -> Result<(), Failure> {
    let mut scratch = Scratch::default();
    let bar = progress::of_messages(pairs.len() as u64);
    for (report, query) in pairs {
        let mut replicas = Replicas::new(key.clone(), 1, 0);
        // An answer left out would put all that follow on the wrong line.
        let read = |path: &str| read_features(Path::new(path)).map_err(Failure::BadInput);
        replicas.report(&read(report)?);
        let is_matched = replicas.check(&read(query)?, &mut scratch).iter().any(|found| arguments.counts(found));
        if arguments.json {
            writeln!(output, "{}", json!({ "report": report, "query": query, "matched": is_matched }))?;
        } else {
            writeln!(output, "{}", u8::from(is_matched))?;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(())
}

/// The features of a message, or what is wrong with it.
fn read_features(path: &Path) -> Result<Features, String> {
    let mut raw = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MESSAGE_BYTES_MAX as u64 + 1).read_to_end(&mut raw));
    read.map_err(|error| format!("failed to read the message {}: {error}", path.display()))?;
    if raw.len() > MESSAGE_BYTES_MAX {
        return Err(format!(
            "{}: longer than {} MiB, which is the most that is read",
            path.display(),
            MESSAGE_BYTES_MAX >> 20
        ));
    }
    Ok(Features::of(&Reading::of(&Message::read(&raw))))
}

fn read_jobs(path: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let limit = JOBS_BYTES_MAX + 1;
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(limit).read_to_string(&mut text)
    } else {
        fs::File::open(path).and_then(|file| file.take(limit).read_to_string(&mut text))
    };
    match read {
        Ok(_) if text.len() as u64 > JOBS_BYTES_MAX => {
            Err(Failure::BadInput(format!("{} has more than 256 MiB of jobs", path.display())))
        }
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::BadInput(format!("failed to read the jobs {}: {error}", path.display()))),
    }
}

fn parse_jobs(text: &str) -> Result<Vec<Job<'_>>, Failure> {
    let numbered = text.lines().enumerate().filter(|(_, line)| !line.is_empty());
    numbered
        .map(|(at, line)| {
            parse_job(line)
                .ok_or_else(|| bad_line(at, line, "an action (report, ham, revoke or query), a tab and a path"))
        })
        .collect()
}

fn parse_job(line: &str) -> Option<Job<'_>> {
    let (action, path) = line.split_once('\t')?;
    let action = match action {
        "report" => Action::Report,
        "ham" => Action::Ham,
        "revoke" => Action::Revoke,
        "query" => Action::Query,
        _ => return None,
    };
    (!path.is_empty()).then_some(Job { action, path })
}

fn parse_pairs(text: &str) -> Result<Vec<(&str, &str)>, Failure> {
    let numbered = text.lines().enumerate().filter(|(_, line)| !line.is_empty());
    numbered
        .map(|(at, line)| line.split_once('\t').ok_or_else(|| bad_line(at, line, "two paths with a tab between")))
        .collect()
}

fn bad_line(at: usize, line: &str, expected: &str) -> Failure {
    let shown: String = line.chars().take(60).collect();
    Failure::BadInput(format!("line {} of the jobs should be {expected}, not {shown:?}", at + 1))
}

fn parse_key(text: &str) -> Result<[u8; 16], String> {
    let is_key = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let value = u128::from_str_radix(text, 16).ok().filter(|_| is_key);
    value.map(u128::to_be_bytes).ok_or_else(|| "a key has 32 hexadecimal digits".to_owned())
}
