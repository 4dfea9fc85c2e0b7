//! `bruit watch`: reports mail that users move to the Junk folders of their Maildirs, and revokes mail that they move
//! out again.
//!
//! An event of the file system does not say which message to claim. It only starts a comparison of the Junk folders
//! with the list of known messages. So no message is missed if events are lost or the program was not running for a
//! while. Every claim goes through the spool.

mod events;
mod maildir;
mod state;
mod sync;

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bruit_client::http::{SiteProgram, SiteState};
use bruit_client::spool::{Destinations, SendLimits, Sent, Spool, SpoolError, is_down};
use bruit_client::{Client, Purpose, Rspamd, Signer};
use bruit_console::Failure;
use bruit_console::date;
use bruit_console::failure::bad_input;
use bruit_milter::Signals;
use sd_notify::NotifyState;
use tracing_subscriber::EnvFilter;

use crate::remote::{ANNOUNCE_TIMEOUT, Server};
use crate::rspamd::{Controller, LessonArgs};
use crate::serve::{Format, notify};
use events::{Event, Events};
use maildir::{Maildir, Names};
use sync::{Claims, Field};

/// Time limit of a request. It is shorter than the limit of `bruit report`, because the spool keeps unanswered claims.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Limits on one attempt to send the spool.
const SEND_LIMITS: SendLimits = SendLimits { reports: 1_000, time: Duration::from_secs(10) };

/// Interval at which the spool is sent.
const SEND_INTERVAL: Duration = Duration::from_secs(60);

/// Time without changes after which a Maildir is scanned.
const SETTLE: Duration = Duration::from_millis(500);

/// Maximum time from a change to the scan.
const SETTLE_MAX: Duration = Duration::from_secs(5);

/// Interval at which all Maildirs are scanned, because some file systems do not report changes.
const RESCAN_INTERVAL: Duration = Duration::from_secs(600);

const AFTER_HELP: &str = "\
A message that appears in Junk is reported, unless a filter has put it there (see --ignore). A message that moves from \
Junk to another folder of the same Maildir is revoked. Messages that are deleted or moved to Trash are left alone. At \
the first start, messages that are already in Junk are left alone, too. At later starts, changes made while the \
program was not running are noticed, too. Claims wait in the spool until the server has answered.

The program runs until SIGTERM or SIGINT. SIGHUP starts a scan of all Maildirs.

Exit codes:
  0  stopped by a signal, or done (with --once)
  2  error, or with --once: a Maildir could not be scanned, or claims are still waiting

Examples:
  bruit watch --reporter ann --spool /var/spool/bruit /home/ann/Maildir
  bruit watch --spool /var/spool/bruit ann=/home/ann/Maildir bob=/home/bob/Maildir
  bruit watch --once --spool /var/spool/bruit /home/ann/Maildir";

/// Arguments of `bruit watch`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct WatchArgs {
    /// Maildirs to watch; NAME is the reporter of the claims
    #[arg(value_name = "[NAME=]MAILDIR", required = true, value_parser = parse_maildir)]
    maildirs: Vec<Maildir>,

    /// Reporter of claims for Maildirs without a NAME; requires a token with reporters = true
    #[arg(long, value_name = "NAME")]
    reporter: Option<String>,

    /// Keep claims in this folder until the server has answered
    #[arg(long, value_name = "DIR", env = "BRUIT_SPOOL")]
    spool: PathBuf,

    /// Folder for the lists of known messages
    #[arg(long, value_name = "DIR", default_value = "/var/lib/bruit-watch")]
    state: PathBuf,

    /// Names of the folders for spam, separated by commas, as on disk
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "Junk")]
    junk: Vec<String>,

    /// Names of the folders for deleted mail, separated by commas, as on disk
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "Trash,Deleted Messages")]
    trash: Vec<String>,

    /// Do not report messages that have this header field with a value that begins with this text; can be repeated
    /// [default: "X-Bruit: spam", "X-Bruit: bulk"]
    #[arg(long, value_name = "FIELD: VALUE")]
    ignore: Vec<Field>,

    /// Scan all Maildirs once, send the claims, and exit
    #[arg(long)]
    once: bool,

    /// Log level: error, warn, info (one line per claim), debug, trace
    ///
    /// The log goes to standard error.
    #[arg(long, value_name = "LEVEL", env = "BRUIT_LOG", default_value = "info")]
    log: String,

    /// Log format
    #[arg(long, value_name = "FORMAT", env = "BRUIT_LOG_FORMAT", default_value = "text")]
    log_format: Format,

    #[command(flatten)]
    rspamd: Controller,

    #[command(flatten)]
    lesson: LessonArgs,

    #[command(flatten)]
    server: Server,
}

/// Parses `NAME=MAILDIR`. An equals sign that follows a slash is part of the path.
fn parse_maildir(text: &str) -> Result<Maildir, String> {
    let (reporter, root) = match text.split_once('=') {
        Some((name, root)) if !name.contains('/') => (Some(name.to_owned()), root),
        _ => (None, text),
    };
    Ok(Maildir { root: PathBuf::from(root), reporter })
}

/// Whether a signal has asked the program to stop.
static IS_STOPPING: AtomicBool = AtomicBool::new(false);

pub(crate) fn run(arguments: &WatchArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let filter = EnvFilter::try_new(&arguments.log)
        .map_err(|error| Failure::BadInput(format!("--log {:?}: {error}", arguments.log)))?;
    let watcher = Watcher::new(arguments)?;
    arguments.log_format.start(filter);
    if arguments.once {
        return Ok(watcher.run_once());
    }
    let signals = Signals::block().context("failed to block signals").map_err(Failure::Other)?;
    let mut events = Events::start(signals, &IS_STOPPING).map_err(Failure::Other)?;
    watcher.watch_all(&mut events)?;
    // If the output is closed, the program keeps running.
    let _ = writeln!(output, "watching {}", bruit_console::quantity::counted(watcher.maildirs.len() as u64, "Maildir"));
    let _ = writeln!(output, "ready").and_then(|()| output.flush());
    notify(&[NotifyState::Ready]);
    watcher.follow(&mut events)?;
    notify(&[NotifyState::Stopping]);
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// The Maildirs, with the client and the spool for claims.
struct Watcher<'a> {
    arguments: &'a WatchArgs,
    maildirs: Vec<Maildir>,
    names: Names,
    ignored: Vec<Field>,
    signer: Signer,
    spool: Spool,
    client: Client,
    rspamd: Option<Rspamd>,
    /// Lock on the folder of the state files.
    _lock: File,
}

/// The work to do, and when to do it.
struct SyncPlan {
    /// Maildirs that changed.
    changed: BTreeSet<usize>,
    /// Time of the first of these changes.
    first_change: Option<Instant>,
    next_send: Instant,
    next_rescan: Instant,
}

impl<'a> Watcher<'a> {
    fn new(arguments: &'a WatchArgs) -> Result<Self, Failure> {
        let client = arguments.server.client(TIMEOUT)?;
        let mut maildirs = Vec::new();
        for maildir in &arguments.maildirs {
            maildirs.push(checked(maildir, arguments.reporter.as_deref(), &client)?);
        }
        let defaults = || ["X-Bruit: spam", "X-Bruit: bulk"].iter().filter_map(|field| field.parse().ok()).collect();
        let ignored = if arguments.ignore.is_empty() { defaults() } else { arguments.ignore.clone() };
        make_folder(&arguments.state)?;
        let lock = state::lock(&arguments.state).map_err(|error| Failure::BadInput(format!("{error:#}")))?;
        Ok(Self {
            _lock: lock,
            arguments,
            maildirs,
            names: Names { junk: arguments.junk.clone(), trash: arguments.trash.clone() },
            ignored,
            signer: Signer::new(Purpose::Claim),
            spool: Spool::open(&arguments.spool).map_err(bad_input)?,
            client,
            rspamd: arguments.rspamd.client(arguments.server.timeout(TIMEOUT))?,
        })
    }

    fn watch_all(&self, events: &mut Events) -> Result<(), Failure> {
        for (index, maildir) in self.maildirs.iter().enumerate() {
            events.watch(index, maildir, &self.names).map_err(Failure::Other)?;
        }
        Ok(())
    }

    /// Scans all Maildirs and sends the spool.
    fn run_once(&self) -> ExitCode {
        let all: BTreeSet<usize> = (0..self.maildirs.len()).collect();
        let failed = self.sync(&all);
        let is_sent = self.send_all();
        if failed.is_empty() && is_sent { ExitCode::SUCCESS } else { ExitCode::from(2) }
    }

    /// Sends the spool repeatedly, until an attempt makes no progress. Returns true if every claim was accepted and
    /// none is waiting.
    fn send_all(&self) -> bool {
        let mut is_lost = false;
        while let Some(sent) = self.send() {
            is_lost |= !(sent.refused.is_empty() && sent.faults.is_empty());
            if sent.sent + sent.taught + sent.dropped + sent.refused.len() == 0 {
                break;
            }
        }
        let waiting = self.waiting_count().inspect_err(|error| tracing::error!(%error, "failed to read the spool"));
        if let Ok(count @ 1..) = waiting {
            tracing::error!(claims = count, "claims still wait");
        }
        !is_lost && waiting.is_ok_and(|count| count == 0)
    }

    /// Returns the number of claims that are waiting. If no rspamd is configured, messages for rspamd are not counted:
    /// another program sends them.
    fn waiting_count(&self) -> Result<usize, SpoolError> {
        if self.rspamd.is_some() { self.spool.waiting_count() } else { self.spool.waiting_for_server_count() }
    }

    /// Watches the Maildirs and sends the spool until a signal stops the program.
    fn follow(&self, events: &mut Events) -> Result<(), Failure> {
        let now = Instant::now();
        let mut plan = SyncPlan { changed: BTreeSet::new(), first_change: None, next_send: now, next_rescan: now };
        loop {
            let patience = plan.patience(Instant::now());
            let event = events.next(patience, &self.maildirs, &self.names).map_err(Failure::Other)?;
            let is_quiet = matches!(event, Event::Quiet);
            match event {
                Event::Stop => return Ok(()),
                Event::Changed(changed) => plan.note(changed),
                Event::Rescan => plan.next_rescan = Instant::now(),
                Event::Quiet => {}
            }
            let now = Instant::now();
            if now >= plan.next_rescan {
                plan.next_rescan = now + RESCAN_INTERVAL;
                plan.changed.extend(0..self.maildirs.len());
                self.watch_all(events)?;
            } else if !plan.is_settled(now, is_quiet) {
                continue;
            }
            self.work(&mut plan);
        }
    }

    /// Scans the Maildirs that changed. Sends the spool if there were any, or if the time for sending has come.
    fn work(&self, plan: &mut SyncPlan) {
        let is_new = !plan.changed.is_empty();
        let failed = self.sync(&std::mem::take(&mut plan.changed));
        plan.first_change = None;
        if is_new || Instant::now() >= plan.next_send {
            self.send();
            plan.next_send = Instant::now() + SEND_INTERVAL;
        }
        if !failed.is_empty() {
            // Try again when the spool is sent next, because it may have been full.
            plan.changed = failed;
        }
    }

    /// Scans Maildirs. Returns the indexes of those that failed.
    fn sync(&self, indexes: &BTreeSet<usize>) -> BTreeSet<usize> {
        let claims = Claims {
            spool: &self.spool,
            signer: &self.signer,
            names: &self.names,
            ignored: &self.ignored,
            lesson: self.rspamd.as_ref().map(|_| self.arguments.lesson),
            state: &self.arguments.state,
            is_stopping: &IS_STOPPING,
        };
        let mut failed = BTreeSet::new();
        for index in indexes {
            let Some(maildir) = self.maildirs.get(*index) else { continue };
            if let Err(error) = claims.sync(maildir, date::now().0) {
                tracing::error!(maildir = %maildir.root.display(), error = format!("{error:#}"), "failed to scan");
                failed.insert(*index);
            }
        }
        failed
    }

    /// Returns a client whose requests contain the current number of waiting claims.
    fn described_client(&self) -> Client {
        let spooled = self.waiting_count().ok().map(|count| count as u64);
        self.client.clone().with_site(SiteState { spooled, ..SiteState::of(SiteProgram::Watch) })
    }

    /// Sends the spool once, within the limits.
    fn send(&self) -> Option<Sent> {
        let client = self.described_client();
        let sent = self.spool.send(Destinations { server: &client, rspamd: self.rspamd.as_ref() }, SEND_LIMITS);
        let error = sent.as_ref().ok().and_then(|sent| sent.error.as_ref());
        // The server's operator sees the number of waiting claims that the last request stated, so state it again after
        // sending.
        if !error.is_some_and(is_down)
            && let Err(error) = self.described_client().with_timeout(ANNOUNCE_TIMEOUT).announce()
        {
            tracing::debug!(%error, "failed to announce the program");
        }
        match &sent {
            Ok(sent) => log(sent),
            Err(error) => tracing::error!(%error, "failed to send the spool"),
        }
        sent.ok()
    }
}

impl SyncPlan {
    /// Returns how long to wait for the next event.
    fn patience(&self, now: Instant) -> Duration {
        let next = self.next_send.min(self.next_rescan).saturating_duration_since(now);
        if self.first_change.is_some() { next.min(SETTLE) } else { next }
    }

    fn note(&mut self, changed: BTreeSet<usize>) {
        if !changed.is_empty() {
            self.first_change.get_or_insert_with(Instant::now);
            self.changed.extend(changed);
        }
    }

    /// Returns true if the changed Maildirs should be scanned or the spool sent now.
    fn is_settled(&self, now: Instant, is_quiet: bool) -> bool {
        let is_settled = self.first_change.is_some_and(|first| is_quiet || now >= first + SETTLE_MAX);
        is_settled || now >= self.next_send
    }
}

/// Checks a Maildir and the name of its reporter at startup, so that a mistyped path is reported as an error.
fn checked(maildir: &Maildir, reporter: Option<&str>, client: &Client) -> Result<Maildir, Failure> {
    let reporter = maildir.reporter.clone().or_else(|| reporter.map(str::to_owned));
    if let Some(name) = &reporter {
        client.clone().with_reporter(name).map_err(bad_input)?;
    }
    let root = maildir.root.canonicalize().map_err(|error| named(&maildir.root, &error))?;
    if !root.join("cur").is_dir() {
        return Err(Failure::BadInput(format!("{}: not a Maildir: it has no folder cur", root.display())));
    }
    Ok(Maildir { root, reporter })
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| named(folder, &error))
}

fn named(path: &Path, error: &std::io::Error) -> Failure {
    Failure::BadInput(format!("{}: {error}", path.display()))
}

fn log(sent: &Sent) {
    if sent.sent + sent.taught > 0 {
        tracing::info!(reports = sent.sent, rspamd = sent.taught, "sent");
    }
    if let Some(error) = &sent.error {
        tracing::warn!(%error, "claims wait for the server");
    }
    if let Some(error) = &sent.rspamd_error {
        tracing::warn!(%error, "messages wait for rspamd");
    }
    let (dropped, refused, damaged) = (sent.dropped, sent.refused.len(), sent.damaged.len());
    if dropped + refused + damaged > 0 {
        tracing::warn!(dropped, refused, damaged, "claims lost: see 'bruit spool'");
    }
    if let Some(error) = sent.faults.first() {
        tracing::warn!(files = sent.faults.len(), %error, "files in the spool cannot be read or changed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maildir_may_have_a_name() {
        let parsed = |text: &str| {
            let Maildir { root, reporter } = parse_maildir(text).unwrap();
            (reporter, root.to_str().unwrap().to_owned())
        };
        assert_eq!(parsed("/home/ann/Maildir"), (None, "/home/ann/Maildir".to_owned()));
        assert_eq!(parsed("ann@example.org=/mail/a=b"), (Some("ann@example.org".to_owned()), "/mail/a=b".to_owned()));
        assert_eq!(parsed("./a=b"), (None, "./a=b".to_owned()));
    }

    #[test]
    fn changes_are_compared_when_they_settle_or_after_some_seconds() {
        let now = Instant::now();
        let later = now + Duration::from_secs(3_600);
        let mut plan = SyncPlan { changed: BTreeSet::new(), first_change: None, next_send: later, next_rescan: later };
        assert!(!plan.is_settled(now, true) && plan.patience(now) > Duration::from_secs(3_000));
        plan.note([1].into());
        let first = plan.first_change.unwrap();
        assert_eq!(plan.patience(now), SETTLE);
        assert!(
            plan.is_settled(first, true)
                && !plan.is_settled(first, false)
                && plan.is_settled(first + SETTLE_MAX, false)
        );
        assert!(plan.is_settled(later, false), "the spool is sent");
    }
}
