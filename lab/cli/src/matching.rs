//! `bruit-lab match`: finds reported messages that a message is a near replica of. Uses the same index as the server.
//!
//! Input and output are lines of text, so that any benchmark program can use this verb.

use std::fs;
use std::io::{BufWriter, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bruit_engine::replicas::{Replicas, Scratch, TextMatch};
use bruit_filters::FingerprintKey;
use bruit_filters::owners::Owner;
use bruit_signatures::bruit::Features;
use bruit_signatures::message::Message;
use bruit_signatures::reading::Reading;
use serde_json::json;

use bruit_console::Failure;
use bruit_console::mailbox::MESSAGE_BYTES_MAX;
use bruit_console::progress;
use bruit_console::terminal::complain;

/// Maximum size of a job file.
const JOBS_BYTES_MAX: u64 = 256 << 20;

const AFTER_HELP: &str = "\
JOBS has one line per message: an action and a path, separated by a tab. Actions are executed in order:
  report   the message was reported as spam
  ham      the message is good; text found in two different good messages is ignored from then on
  revoke   the message is good after all; all of its text is ignored from then on
  query    print the path, a tab, and the paths of the matching reports, separated by commas
Unreadable messages are reported on standard error and skipped. Use --json if paths contain commas.

Exit codes:
  0  done
  2  error: a message was skipped, or an argument is invalid

Examples:
  bruit-lab match jobs.tsv                 answer every query line
  bruit-lab match --pairs pairs.tsv        lines of two paths: is the second a replica of the first (1 or 0)?
  printf 'report\\tspam.eml\\nquery\\tnew.eml\\n' | bruit-lab match -";

/// Arguments of `bruit-lab match`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct MatchArgs {
    /// Job file; - for standard input
    #[arg(value_name = "JOBS")]
    jobs: PathBuf,

    /// Read pairs of paths, and compare each pair on its own
    #[arg(long)]
    pairs: bool,

    /// Key for hashing features, such as a realm's key, as 32 hexadecimal digits [default: zeros]
    #[arg(long, value_name = "HEX", value_parser = parse_key)]
    key: Option<[u8; 16]>,

    /// Print only close replicas: those that a server classifies as spam because of their text alone
    #[arg(long)]
    close: bool,

    /// Print one JSON object per answer, one per line
    #[arg(long)]
    json: bool,

    /// Print the size of the index to standard error at the end
    #[arg(long)]
    summary: bool,
}

impl MatchArgs {
    /// Returns true if a replica is close enough for the options.
    fn counts(&self, found: &TextMatch) -> bool {
        !self.close || found.is_close()
    }
}

/// A line of a job file.
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

pub(crate) fn run(arguments: &MatchArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
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
    arguments: &MatchArgs,
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
            // Neither call fails, because the index was created with room for all these messages.
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

/// Returns the path of the report with this owner number. Owners are numbered in the order of the reports.
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
    // The result does not depend on the summary, so a failure to print it is ignored.
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
    arguments: &MatchArgs,
    output: &mut impl Write,
) -> Result<(), Failure> {
    let mut scratch = Scratch::default();
    let bar = progress::of_messages(pairs.len() as u64);
    for (report, query) in pairs {
        let mut replicas = Replicas::new(key.clone(), 1, 0);
        // Without an answer here, every later answer would be on the wrong line.
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

/// Returns the features of a message, or an error message.
fn read_features(path: &Path) -> Result<Features, String> {
    let mut raw = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MESSAGE_BYTES_MAX as u64 + 1).read_to_end(&mut raw));
    read.map_err(|error| format!("failed to read the message {}: {error}", path.display()))?;
    if raw.len() > MESSAGE_BYTES_MAX {
        return Err(format!("{}: longer than the limit of {} MiB", path.display(), MESSAGE_BYTES_MAX >> 20));
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
            Err(Failure::BadInput(format!("{} is longer than 256 MiB", path.display())))
        }
        Ok(_) => Ok(text),
        Err(error) => Err(Failure::BadInput(format!("failed to read the job file {}: {error}", path.display()))),
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
        .map(|(at, line)| line.split_once('\t').ok_or_else(|| bad_line(at, line, "two paths separated by a tab")))
        .collect()
}

fn bad_line(at: usize, line: &str, expected: &str) -> Failure {
    let shown: String = line.chars().take(60).collect();
    Failure::BadInput(format!("jobs, line {}: expected {expected}, found {shown:?}", at + 1))
}

fn parse_key(text: &str) -> Result<[u8; 16], String> {
    let is_key = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let value = u128::from_str_radix(text, 16).ok().filter(|_| is_key);
    value.map(u128::to_be_bytes).ok_or_else(|| "expected 32 hexadecimal digits".to_owned())
}
