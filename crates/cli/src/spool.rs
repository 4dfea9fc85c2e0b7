//! `bruit spool`: reports and revocations that wait for the server.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bruit_client::Client;
use bruit_client::http::{SiteProgram, SiteState};
use bruit_client::spool::{ClaimKind, Destinations, SendLimits, Sent, Spool, SpoolEntry, SpooledReport, is_down};
use serde_json::json;

use crate::claim::CLAIM_TIMEOUT;
use crate::remote::{ANNOUNCE_TIMEOUT, Server};
use crate::rspamd::Controller;
use bruit_console::Failure;
use bruit_console::date;
use bruit_console::failure::bad_input;
use bruit_console::quantity::{counted, parse_duration};
use bruit_console::terminal::{complain, printable};

/// Exit code if reports are waiting to be sent.
const WAITING: u8 = 1;

/// Exit code if reports were set aside or dropped.
const TROUBLE: u8 = 2;

/// Maximum number of files with the same problem that are named in error messages.
const LINES_MAX: usize = 5;

const AFTER_HELP: &str = "\
Exit codes:
  0  no report is waiting
  1  reports are waiting
  2  error, files were set aside because they are damaged or the server refused them, or files cannot be read

'bruit report --spool DIR' keeps reports in DIR until the server has answered. A spool holds at most 10,000 reports or \
256 MiB, and keeps each report for at most 7 days.

Examples:
  bruit spool /var/spool/bruit
  bruit spool --json /var/spool/bruit | jq .reporter
  bruit spool send /var/spool/bruit";

const SEND_HELP: &str = "\
Each report counts once, even if the server received it before and its answer was lost.

Exit codes:
  0  no report is waiting any more
  1  reports are still waiting: the server did not answer, or another process is sending them
  2  error, or reports were dropped (older than 7 days), set aside (damaged, or refused by the server) or could not \
  be read

Example:
  bruit spool send --token-file /etc/bruit/token /var/spool/bruit
  bruit spool send --rspamd http://127.0.0.1:11334 /var/spool/bruit";

/// Arguments of `bruit spool`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct SpoolArgs {
    #[command(subcommand)]
    verb: Option<SpoolVerb>,

    /// Folder of the spool
    #[arg(value_name = "DIR", required = true)]
    folder: Option<PathBuf>,

    /// Print one JSON object per report, one per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum SpoolVerb {
    /// Send the waiting reports
    #[command(after_help = SEND_HELP)]
    Send(SendArgs),
}

#[derive(Debug, clap::Args)]
struct SendArgs {
    /// Folder of the spool
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Time after which no further report is sent
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    within: Duration,

    #[command(flatten)]
    rspamd: Controller,

    #[command(flatten)]
    server: Server,
}

pub(crate) fn run(arguments: &SpoolArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    match (&arguments.verb, &arguments.folder) {
        (Some(SpoolVerb::Send(send)), _) => run_send(send, output),
        (None, Some(folder)) => list(&open(folder)?, arguments.json, output),
        (None, None) => Err(Failure::BadInput("DIR is missing".to_owned())),
    }
}

/// Opens an existing spool. Does not create one, because the path may be mistyped.
fn open(folder: &Path) -> Result<Spool, Failure> {
    if !folder.is_dir() {
        return Err(Failure::BadInput(format!("{}: no such folder", folder.display())));
    }
    Spool::open(folder).map_err(bad_input)
}

fn list(spool: &Spool, is_json: bool, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let entries = spool.list().map_err(bad_input)?;
    let mut output = BufWriter::new(output);
    for entry in &entries {
        let line = if is_json { json_line(entry) } else { line(entry) };
        writeln!(output, "{}", printable(&line))?;
    }
    output.flush()?;
    let is_aside = |entry: &SpoolEntry| !matches!(entry, SpoolEntry::Waiting(_));
    Ok(match (entries.is_empty(), entries.iter().any(is_aside)) {
        (true, _) => ExitCode::SUCCESS,
        (false, false) => ExitCode::from(WAITING),
        (false, true) => ExitCode::from(TROUBLE),
    })
}

fn line(entry: &SpoolEntry) -> String {
    let (state, report) = match entry {
        SpoolEntry::Waiting(report) => ("waits", report),
        SpoolEntry::Refused(report) => ("refused", report),
        SpoolEntry::Damaged(path) => return format!("{}: damaged", path.display()),
        SpoolEntry::Unreadable { path, error } => return format!("{}: unreadable: {error}", path.display()),
        _ => return String::new(),
    };
    let by = report.reporter.as_ref().map_or_else(String::new, |name| format!(" by {name}"));
    let error = report.error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
    let attempts = counted(report.attempts.into(), "attempt");
    let time = date::moment(bruit_engine::time::Time(report.time));
    let to = if report.rspamd.is_some() { " to rspamd" } else { "" };
    format!("{time} ({}) {}{to}{by}, {state}, {attempts}{error}", shown_age(age(report)), claim(report))
}

fn json_line(entry: &SpoolEntry) -> String {
    let (state, report) = match entry {
        SpoolEntry::Waiting(report) => ("waiting", report),
        SpoolEntry::Refused(report) => ("refused", report),
        SpoolEntry::Damaged(path) => return json!({ "state": "damaged", "file": path }).to_string(),
        SpoolEntry::Unreadable { path, error } => {
            return json!({ "state": "unreadable", "file": path, "error": error }).to_string();
        }
        _ => return String::new(),
    };
    json!({
        "state": state,
        "id": report.id,
        "claim": claim(report),
        "to": if report.rspamd.is_some() { "rspamd" } else { "server" },
        "reporter": report.reporter,
        "time": report.time,
        "age": age(report),
        "attempts": report.attempts,
        "error": report.error,
    })
    .to_string()
}

const fn claim(report: &SpooledReport) -> &'static str {
    match report.claim {
        ClaimKind::Report => "report",
        ClaimKind::Revoke => "revoke",
    }
}

fn age(report: &SpooledReport) -> u64 {
    date::now().0.saturating_sub(report.time)
}

fn shown_age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn run_send(arguments: &SendArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let spool = open(&arguments.folder)?;
    let spooled = spool.waiting_count().ok().map(|count| count as u64);
    let client = arguments.server.client(CLAIM_TIMEOUT)?;
    let client = client.with_site(SiteState { spooled, ..SiteState::of(SiteProgram::Spool) });
    let rspamd = arguments.rspamd.client(arguments.server.timeout(CLAIM_TIMEOUT))?;
    let to = Destinations { server: &client, rspamd: rspamd.as_ref() };
    let sent = spool.send(to, SendLimits { reports: usize::MAX, time: arguments.within }).map_err(bad_input)?;
    complain_about(&sent);
    let entries = spool.list().map_err(bad_input)?;
    let waiting = entries.iter().filter(|entry| matches!(entry, SpoolEntry::Waiting(_))).count();
    if !sent.error.as_ref().is_some_and(is_down) {
        announce(client, waiting);
    }
    let is_lesson = |entry: &&SpoolEntry| matches!(entry, SpoolEntry::Waiting(report) if report.rspamd.is_some());
    let lessons = entries.iter().filter(is_lesson).count() as u64;
    writeln!(output, "{}, {waiting} waiting", summary(&sent))?;
    if lessons > 0 && rspamd.is_none() {
        let wait = if lessons == 1 { "waits" } else { "wait" };
        complain(&format!("{} {wait} for rspamd: pass --rspamd URL", counted(lessons, "message")));
    }
    let has_trouble =
        sent.dropped > 0 || !sent.refused.is_empty() || !sent.damaged.is_empty() || !sent.faults.is_empty();
    Ok(match (has_trouble, waiting) {
        (true, _) => ExitCode::from(TROUBLE),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::from(WAITING),
    })
}

/// Tells the server how many reports are still waiting. The server's operator sees this number until the next run of
/// the program.
fn announce(client: Client, waiting: usize) {
    let state = SiteState { spooled: Some(waiting as u64), ..SiteState::of(SiteProgram::Spool) };
    // Ignore errors: nothing else depends on this request.
    let _ = client.with_site(state).with_timeout(ANNOUNCE_TIMEOUT).announce();
}

/// Sends a part of the spool after a report has been made. Prints errors.
pub(crate) fn send_some(spool: &Spool, to: Destinations<'_>, limits: SendLimits) {
    match spool.send(to, limits) {
        Ok(sent) => {
            complain_about(&sent);
            if sent.sent + sent.taught > 0 {
                complain(&format!("{} from the spool", summary(&sent)));
            }
        }
        Err(error) => complain(&error.to_string()),
    }
}

/// Describes how many reports were sent, and how many messages rspamd learned.
fn summary(sent: &Sent) -> String {
    let reports = format!("{} sent", counted(sent.sent as u64, "report"));
    match sent.taught {
        0 => reports,
        taught => format!("{reports}, {} learned by rspamd", counted(taught as u64, "message")),
    }
}

fn complain_about(sent: &Sent) {
    let errors = [sent.error.as_ref().map(ToString::to_string), sent.rspamd_error.as_ref().map(ToString::to_string)];
    errors.iter().flatten().for_each(|error| complain(error));
    if sent.dropped > 0 {
        complain(&format!("dropped {} older than 7 days", counted(sent.dropped as u64, "report")));
    }
    complain_about_each(sent.refused.iter().map(|text| format!("set aside: {text}")));
    complain_about_each(sent.damaged.iter().map(|path| format!("set aside: {} is damaged", path.display())));
    complain_about_each(sent.faults.iter().map(|fault| format!("left in the spool: {fault}")));
}

/// Prints the first few lines, and the number of further lines. A folder may contain thousands of bad files.
fn complain_about_each(lines: impl ExactSizeIterator<Item = String>) {
    let more = lines.len().saturating_sub(LINES_MAX);
    lines.take(LINES_MAX).for_each(|line| complain(&line));
    if more > 0 {
        complain(&format!("{more} more like this: see 'bruit spool'"));
    }
}
