//! `bruit-lab trace record`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use bruit_forensics::capture::Frame;
use bruit_forensics::packet::{self, Tally};
use bruit_forensics::pages::Pages;
use bruit_forensics::traceback::{
    Doubt, DoubtTally, Invariant, NAME_BYTES_MAX, PageShape, Recorder, Subject, ensure_name, received_at,
};
use serde_json::json;

use crate::recording::{self, Horizon, Inputs, Recording, thing};
use bruit_console::date;
use bruit_console::failure::{Failure, bad_input};
use bruit_console::mailbox::Message;
use bruit_console::quantity::{
    counted, grouped, human_bytes, parse_bytes, parse_duration, parse_rate, parse_threshold,
};
use bruit_console::terminal::printable;

/// Default span of a page.
const PACKETS_PAGE: Duration = Duration::from_secs(60);
const MESSAGES_PAGE: Duration = Duration::from_secs(3600);

/// Arguments of `bruit-lab trace record`.
#[derive(Debug, clap::Args)]
pub(super) struct TraceRecordArgs {
    /// Capture files, or - for standard input. With --mail: messages, mailboxes or folders. With --follow: directories to watch
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,

    /// Name of the recording router or server, as in the topology file
    #[arg(long = "as", value_name = "NAME")]
    name: String,

    /// Directory for the pages; created if missing
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,

    /// Record messages instead of packets
    #[arg(long)]
    mail: bool,

    /// Read files as they appear in directories, until Ctrl-C
    #[arg(long)]
    follow: bool,

    /// Length of a page [default: 60s, with --mail 60m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    page: Option<Duration>,

    /// Maximum number of packets or messages in a page
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse_threshold)]
    page_items: u32,

    /// False-positive rate of a page
    #[arg(long, value_name = "RATE", default_value = "0.001", value_parser = parse_rate)]
    false_positive_rate: f64,

    /// Maximum disk space for all pages in the directory, counted in 4 KiB blocks; the oldest pages are deleted first
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_bytes)]
    disk: u64,

    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &TraceRecordArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let mut recording = Trace::new(arguments)?;
    let inputs = Inputs {
        paths: &arguments.inputs,
        is_mail: arguments.mail,
        is_followed: arguments.follow,
        as_json: arguments.json,
        folder: &arguments.output,
    };
    recording::run(&inputs, &mut recording, output)
}

/// A recorder, with tallies of items that could not be recorded.
struct Trace {
    recorder: Recorder,
    name: String,
    is_mail: bool,
    as_json: bool,
    undecoded: Tally,
    /// Number of packets that could not be recorded because too little of them was captured.
    cut: u64,
    /// Recorded packets whose digest cannot trace them back to their origin.
    untrusted: DoubtTally,
    horizon: Horizon,
}

impl Trace {
    fn new(arguments: &TraceRecordArgs) -> Result<Self, Failure> {
        let subject = if arguments.mail { Subject::Messages } else { Subject::Packets };
        let usual = if arguments.mail { MESSAGES_PAGE } else { PACKETS_PAGE };
        let seconds = arguments.page.unwrap_or(usual).as_secs();
        let (items, false_positive_rate) = (arguments.page_items, arguments.false_positive_rate);
        let shape = PageShape { seconds, items, false_positive_rate };
        // Check the arguments before a directory is created.
        ensure_name(&arguments.name)
            .map_err(|_| bad_input(format!("--as: expected 1 to {NAME_BYTES_MAX} bytes without blanks")))?;
        shape.ensure().map_err(bad_input)?;
        let room = Pages::ensure_room(shape.content_bytes_max().map_err(bad_input)?, arguments.disk);
        room.map_err(|error| bad_input(format!("--disk: {error} (--page-items)")))?;
        let mut secret = [0; 16];
        getrandom::fill(&mut secret)
            .map_err(|error| Failure::Other(anyhow::anyhow!("failed to get random bytes: {error}")))?;
        let pages = Pages::create_or_open(&arguments.output, subject.kind(), arguments.disk).map_err(bad_input)?;
        Ok(Self {
            recorder: Recorder::new(pages, &arguments.name, shape, secret).map_err(bad_input)?,
            name: arguments.name.clone(),
            is_mail: arguments.mail,
            as_json: arguments.json,
            undecoded: Tally::default(),
            cut: 0,
            untrusted: DoubtTally::default(),
            horizon: Horizon::default(),
        })
    }

    fn json(&self) -> serde_json::Value {
        let tally = self.recorder.tally();
        let undecoded: Vec<_> =
            self.undecoded.iter().map(|(reason, count)| json!([reason.to_string(), count])).collect();
        let untrusted: serde_json::Map<_, _> =
            self.untrusted.iter().map(|(doubt, count)| (doubt.name().to_owned(), count.into())).collect();
        json!({
            "name": self.name,
            "recorded": tally.items,
            "pages": tally.pages,
            "bytes": tally.bytes,
            "removed_pages": tally.removed,
            "undecoded": undecoded,
            "cut": self.cut,
            "untrusted": untrusted,
            "untimely": self.horizon.untimely,
        })
    }
}

impl Recording for Trace {
    fn take_frame(&mut self, second: u64, frame: &Frame<'_>) -> Result<(), Failure> {
        let digest = |packet| (Invariant::of_packet(&packet), Doubt::of_packet(&packet));
        match packet::decode(frame).map(digest) {
            Ok((Some(invariant), doubt)) if self.horizon.takes(second) => {
                self.recorder.record(second, &invariant).map_err(bad_input)?;
                doubt.into_iter().for_each(|doubt| self.untrusted.count(doubt));
                self.settle(second)?;
            }
            Ok((Some(_), _)) => {}
            Ok((None, _)) => self.cut += 1,
            Err(reason) => self.undecoded.count(reason),
        }
        Ok(())
    }

    fn take_message(&mut self, message: &Message<'_>) -> Result<(), Failure> {
        let second = time_of(message);
        if self.horizon.takes(second) {
            self.recorder.record(second, &Invariant::of_message(message.bytes)).map_err(bad_input)?;
        }
        Ok(())
    }

    fn settle(&mut self, now: u64) -> Result<(), Failure> {
        self.recorder.settle(now).map(drop).map_err(bad_input)
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.recorder.close().map_err(bad_input)
    }

    fn is_settled(&self) -> bool {
        self.recorder.is_settled()
    }

    fn taken(&self) -> u64 {
        self.recorder.tally().items
    }

    fn tell(&self, output: &mut dyn Write) -> Result<(), Failure> {
        if self.as_json {
            return Ok(writeln!(output, "{:#}", self.json())?);
        }
        let (tally, thing) = (self.recorder.tally(), thing(self.is_mail));
        let (items, pages) = (counted(tally.items, thing), counted(tally.pages, "page"));
        writeln!(output, "{}: {items} in {pages}, {}", printable(&self.name), human_bytes(tally.bytes))?;
        let things = if self.is_mail { thing } else { "frame" };
        let left_out = [
            (self.undecoded.total(), things, format!("contained no supported packet ({})", self.undecoded)),
            (self.cut, things, "skipped: too little was captured".to_owned()),
            (self.horizon.untimely, things, "dated more than a day in the future, skipped".to_owned()),
            (tally.removed, "older page", "deleted to free space".to_owned()),
            (
                self.untrusted.total(),
                "packet",
                format!("not traceable to the origin ({})", untrusted_text(&self.untrusted)),
            ),
        ];
        for (count, what, why) in left_out.iter().filter(|(count, ..)| *count > 0) {
            writeln!(output, "{} {why}", counted(*count, what))?;
        }
        Ok(())
    }
}

/// Formats a tally: `3 fragment, 1 tunnel`.
fn untrusted_text(tally: &DoubtTally) -> String {
    let text = |(doubt, count): (Doubt, u64)| format!("{} {}", grouped(count), doubt.name().replace('_', " "));
    tally.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Returns the time in the Received field, or else the time of the file, or else the current time.
fn time_of(message: &Message<'_>) -> u64 {
    let of_file = || {
        let modified = fs::metadata(message.file).and_then(|metadata| metadata.modified()).ok()?;
        modified.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
    };
    received_at(message.bytes).or_else(of_file).unwrap_or_else(|| date::now().0)
}
