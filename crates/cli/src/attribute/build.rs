//! `bruit attribute build`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bruit_filters::FingerprintKey;
use bruit_filters::blocks::{BlockShape, LEVELS_MAX};
use bruit_forensics::attribution::{Counts, Pair, Recorder, Settings, Summary, mail};
use bruit_forensics::capture::{Frame, Nanoseconds};
use bruit_forensics::packet::{self, Tally};
use bruit_forensics::pages::Pages;
use indicatif::ProgressBar;
use serde_json::json;

use super::{KIND, wrong};
use crate::captures;
use crate::date;
use crate::failure::Failure;
use crate::follow::{self, Complete, News};
use crate::mailbox::{self, StandardInput};
use crate::quantity::{counted, human_bytes, parse_bytes, parse_rate};
use crate::terminal::{complain, printable};

const NANOSECONDS_PER_SECOND: Nanoseconds = 1_000_000_000;
const SECONDS_PER_MINUTE: u64 = 60;
const FAULTS: u8 = 2;

/// What `bruit attribute build` is asked.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Captures; with --mail messages, mailboxes and folders of them; with --follow directories of either. - is standard input
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,

    /// The directory of pages; made if there is none
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,

    /// Record mail, not packets
    #[arg(long)]
    mail: bool,

    /// Take the files that appear in directories, until Ctrl-C
    #[arg(long)]
    follow: bool,

    /// What the pages of an hour may take: 64M and 64MiB are 2^26 bytes. Quiet hours take less; busier ones are told with less confidence
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_bytes)]
    bytes_per_hour: u64,

    /// How long a page is
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=527_040))]
    page_minutes: u64,

    /// The rate at which a digest may be found that was never recorded, as long as the disk suffices
    #[arg(long, value_name = "RATE", default_value = "0.01", value_parser = parse_rate)]
    false_positive_rate: f64,

    /// The size of a block: an excerpt must have two whole ones, wherever it begins
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = clap::value_parser!(u32).range(8..=1024))]
    block_bytes: u32,

    /// What all pages of the directory may take; the oldest go
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_bytes)]
    disk: u64,

    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let mut session = Session::new(arguments)?;
    if arguments.follow {
        session.follow(&arguments.inputs, output)?;
    } else if arguments.mail {
        session.take_mail(&arguments.inputs)?;
    } else {
        captures::for_each(&arguments.inputs, |item, bar| session.take_item(item, bar))?;
    }
    session.finish(arguments.json, output)
}

/// A recorder, and what could not be recorded.
struct Session {
    recorder: Recorder<fn() -> FingerprintKey>,
    is_mail: bool,
    /// Packets or messages.
    taken: u64,
    undecoded: Tally,
    has_faults: bool,
}

impl Session {
    fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let shape = BlockShape::new(arguments.block_bytes, LEVELS_MAX).map_err(wrong)?;
        let settings = Settings {
            shape,
            bytes_per_hour: arguments.bytes_per_hour,
            page_seconds: arguments.page_minutes * SECONDS_PER_MINUTE,
            false_positive_rate: arguments.false_positive_rate,
        };
        let settings = settings.checked().map_err(wrong)?;
        // Asked once before anything is made; if the system ever has no more, that is nothing to go on from.
        random_key().map_err(|error| Failure::Other(anyhow::anyhow!("failed to get random bytes: {error}")))?;
        let keys: fn() -> FingerprintKey = || random_key().expect("the system goes on to give random bytes");
        let pages = Pages::create_or_open(&arguments.output, KIND, arguments.disk).map_err(wrong)?;
        let recorder = Recorder::new(pages, settings, keys);
        Ok(Self { recorder, is_mail: arguments.mail, taken: 0, undecoded: Tally::default(), has_faults: false })
    }

    fn follow(&mut self, folders: &[PathBuf], output: &mut impl Write) -> Result<(), Failure> {
        let complete = if self.is_mail { Complete::AtOnce } else { Complete::ByRotation };
        follow::for_each(folders, complete, |news| match news {
            News::File(path) => {
                let before = self.taken;
                self.take_file(path)?;
                let taken = counted(self.taken - before, self.thing());
                writeln!(output, "{}: {taken}", printable(&path.to_string_lossy()))?;
                Ok(output.flush()?)
            }
            News::Idle => self.recorder.settle(date::now().0).map_err(wrong),
        })
    }

    fn take_file(&mut self, path: &Path) -> Result<(), Failure> {
        if self.is_mail {
            return self.take_mail(&[path.to_owned()]);
        }
        let bar = ProgressBar::hidden();
        captures::read(path, &bar, |item| self.take_item(item, &bar))
    }

    fn take_item(&mut self, item: captures::Item<'_>, bar: &ProgressBar) -> Result<(), Failure> {
        match item {
            captures::Item::Frame(frame) => self.take_frame(&frame),
            captures::Item::Fault(line) => {
                bar.suspend(|| self.fault(&line));
                Ok(())
            }
        }
    }

    fn take_frame(&mut self, frame: &Frame<'_>) -> Result<(), Failure> {
        match packet::decode(frame) {
            Err(reason) => {
                self.undecoded.count(reason);
                Ok(())
            }
            Ok(packet) => {
                self.taken += 1;
                let pair = Pair { source: packet.source.into(), destination: packet.destination.into() };
                let seconds = frame.time / NANOSECONDS_PER_SECOND;
                self.recorder.record(seconds, &[pair], packet.payload).map_err(wrong)
            }
        }
    }

    fn take_mail(&mut self, paths: &[PathBuf]) -> Result<(), Failure> {
        mailbox::for_each(paths, StandardInput::Mailbox, |item, bar| match item {
            mailbox::Item::Message(message) => self.take_message(message.bytes),
            mailbox::Item::Fault(line) => {
                bar.suspend(|| self.fault(&line));
                Ok(())
            }
        })
    }

    fn take_message(&mut self, raw: &[u8]) -> Result<(), Failure> {
        self.taken += 1;
        let carried = mail::read(raw);
        let time = carried.time.unwrap_or_else(|| date::now().0);
        let mut payloads = carried.payloads.iter();
        payloads.try_for_each(|payload| self.recorder.record(time, &carried.pairs, payload)).map_err(wrong)
    }

    fn fault(&mut self, line: &str) {
        self.has_faults = true;
        complain(line);
    }

    const fn thing(&self) -> &'static str {
        if self.is_mail { "message" } else { "packet" }
    }

    /// Writes what is gathered, and tells what was done.
    fn finish(self, as_json: bool, output: &mut impl Write) -> Result<ExitCode, Failure> {
        let (taken, thing) = (self.taken, self.thing());
        let summary = self.recorder.finish().map_err(wrong)?;
        if as_json {
            writeln!(output, "{:#}", summary_json(&summary, taken, &self.undecoded))?;
        } else {
            writeln!(output, "{}", summary_line(&summary, &counted(taken, thing)))?;
            for line in left_out(&summary, &self.undecoded) {
                writeln!(output, "{line}")?;
            }
        }
        Ok(if self.has_faults { ExitCode::from(FAULTS) } else { ExitCode::SUCCESS })
    }
}

fn random_key() -> Result<FingerprintKey, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(FingerprintKey::new(bytes))
}

fn summary_line(summary: &Summary, taken: &str) -> String {
    let pages = counted(summary.pages.len() as u64, "page");
    let disk = human_bytes(summary.pages.iter().map(|page| page.bytes).sum());
    format!("{taken} with {} of payload in {pages}, {disk}", human_bytes(summary.counts.bytes))
}

/// What is not known of what there was, a line each.
fn left_out(summary: &Summary, undecoded: &Tally) -> Vec<String> {
    let Counts { short, unlisted, .. } = summary.counts;
    let mut lines = Vec::new();
    if undecoded.total() > 0 {
        lines.push(format!("{} had no packet that is known ({undecoded})", counted(undecoded.total(), "frame")));
    }
    if short > 0 {
        lines.push(format!("{} shorter than a block left nothing", counted(short, "payload")));
    }
    if unlisted > 0 {
        let what = counted(unlisted, "payload");
        lines.push(format!("{what} of pairs beyond the room for them can be found, but not attributed"));
    }
    if !summary.removed.is_empty() {
        lines.push(format!("{} made room for these", counted(summary.removed.len() as u64, "older page")));
    }
    lines
}

fn summary_json(summary: &Summary, taken: u64, undecoded: &Tally) -> serde_json::Value {
    let Counts { payloads, short, bytes, unlisted } = summary.counts;
    let undecoded: Vec<_> = undecoded.iter().map(|(reason, count)| json!([reason.to_string(), count])).collect();
    json!({
        "taken": taken,
        "payloads": payloads,
        "payload_bytes": bytes,
        "short_payloads": short,
        "unlisted_payloads": unlisted,
        "pages": summary.pages.len(),
        "page_bytes": summary.pages.iter().map(|page| page.bytes).sum::<u64>(),
        "removed_pages": summary.removed.len(),
        "undecoded": undecoded,
    })
}
