//! `bruit trace record`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use bruit_forensics::capture::{Frame, Nanoseconds};
use bruit_forensics::packet::{self, Tally};
use bruit_forensics::pages::Pages;
use bruit_forensics::traceback::{
    Invariant, NAME_BYTES_MAX, PageShape, RecordError, Recorder, Subject, ensure_name, received_at,
};
use serde_json::json;

use super::wrong;
use crate::captures;
use crate::date;
use crate::failure::Failure;
use crate::follow::{self, Complete, News};
use crate::mailbox::{self, Item, Message, StandardInput};
use crate::quantity::{counted, human_bytes, parse_bytes, parse_duration, parse_rate, parse_threshold};
use crate::terminal::{complain, printable};

/// The span of a page, unless told.
const PACKETS_PAGE: Duration = Duration::from_secs(60);
const MESSAGES_PAGE: Duration = Duration::from_secs(3600);

const NANOSECONDS_PER_SECOND: Nanoseconds = 1_000_000_000;
const FAULTS: u8 = 2;

/// What `bruit trace record` is asked.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Captures; with --mail messages, mailboxes and folders of them; with --follow directories of either. - is standard input
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,

    /// The name of the router or server that saw them, as in the topology file
    #[arg(long = "as", value_name = "NAME")]
    name: String,

    /// The directory of its pages; made if there is none
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,

    /// Record messages, not packets
    #[arg(long)]
    mail: bool,

    /// Take the files that appear in directories, until Ctrl-C
    #[arg(long)]
    follow: bool,

    /// How long a page is [default: 60s, with --mail 60m]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    page: Option<Duration>,

    /// How many packets or messages end a page earlier
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse_threshold)]
    page_items: u32,

    /// The rate at which a page takes what it has not for what it has
    #[arg(long, value_name = "RATE", default_value = "0.001", value_parser = parse_rate)]
    false_positive_rate: f64,

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
        session.follow(arguments, output)?;
    } else if arguments.mail {
        session.take_mail(&arguments.inputs)?;
    } else {
        session.take_captures(&arguments.inputs)?;
    }
    session.finish(arguments.json, output)
}

/// A recorder, and what could not be recorded.
struct Session {
    recorder: Recorder,
    name: String,
    subject: Subject,
    undecoded: Tally,
    /// Packets of which too little was captured.
    cut: u64,
    /// Packets or messages of a time that no page can have.
    untimely: u64,
    has_faults: bool,
}

impl Session {
    fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let subject = if arguments.mail { Subject::Messages } else { Subject::Packets };
        let usual = if arguments.mail { MESSAGES_PAGE } else { PACKETS_PAGE };
        let seconds = arguments.page.unwrap_or(usual).as_secs();
        let (items, false_positive_rate) = (arguments.page_items, arguments.false_positive_rate);
        let shape = PageShape { seconds, items, false_positive_rate };
        // Before a directory is made.
        ensure_name(&arguments.name)
            .map_err(|_| wrong(format!("--as takes 1 to {NAME_BYTES_MAX} bytes without blanks")))?;
        shape.ensure().map_err(wrong)?;
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(|error| Failure::Other(anyhow::anyhow!("no randomness: {error}")))?;
        let pages = Pages::create_or_open(&arguments.output, subject.kind(), arguments.disk).map_err(wrong)?;
        let recorder = Recorder::new(pages, &arguments.name, shape, secret).map_err(wrong)?;
        Ok(Self {
            recorder,
            name: arguments.name.clone(),
            subject,
            undecoded: Tally::default(),
            cut: 0,
            untimely: 0,
            has_faults: false,
        })
    }

    fn follow(&mut self, arguments: &Arguments, output: &mut impl Write) -> Result<(), Failure> {
        let complete = match self.subject {
            Subject::Packets => Complete::ByRotation,
            Subject::Messages => Complete::AtOnce,
        };
        follow::for_each(&arguments.inputs, complete, |news| match news {
            News::File(path) => {
                let before = self.recorder.tally().items;
                match self.subject {
                    Subject::Packets => self.take_captures(&[path.to_owned()])?,
                    Subject::Messages => self.take_mail(&[path.to_owned()])?,
                }
                let taken = self.recorder.tally().items - before;
                if !arguments.json {
                    writeln!(output, "{}: {}", printable(&path.to_string_lossy()), counted(taken, self.thing()))?;
                }
                Ok(output.flush()?)
            }
            News::Idle => self.recorder.settle(date::now().0).map(drop).map_err(wrong),
        })
    }

    /// Records captures. One that breaks off is recorded up to there, and told.
    fn take_captures(&mut self, paths: &[PathBuf]) -> Result<(), Failure> {
        captures::for_each(paths, |item, bar| match item {
            captures::Item::Frame(frame) => self.take_frame(&frame),
            captures::Item::Fault(line) => {
                bar.suspend(|| self.fault(&line));
                Ok(())
            }
        })
    }

    fn take_frame(&mut self, frame: &Frame<'_>) -> Result<(), Failure> {
        match packet::decode(frame).map(|packet| Invariant::of_packet(&packet)) {
            Ok(Some(invariant)) => self.record(frame.time / NANOSECONDS_PER_SECOND, &invariant)?,
            Ok(None) => self.cut += 1,
            Err(reason) => self.undecoded.count(reason),
        }
        Ok(())
    }

    fn take_mail(&mut self, paths: &[PathBuf]) -> Result<(), Failure> {
        mailbox::for_each(paths, StandardInput::Mailbox, |item, bar| match item {
            Item::Message(message) => self.record(time_of(&message), &Invariant::of_message(message.bytes)),
            Item::Fault(line) => {
                bar.suspend(|| self.fault(&line));
                Ok(())
            }
        })
    }

    fn record(&mut self, second: u64, invariant: &Invariant) -> Result<(), Failure> {
        match self.recorder.record(second, invariant) {
            Ok(_) => Ok(()),
            Err(RecordError::Time(_)) => {
                self.untimely += 1;
                Ok(())
            }
            Err(error) => Err(wrong(error)),
        }
    }

    fn fault(&mut self, line: &str) {
        self.has_faults = true;
        complain(line);
    }

    const fn thing(&self) -> &'static str {
        match self.subject {
            Subject::Packets => "packet",
            Subject::Messages => "message",
        }
    }

    /// Writes what is gathered, and tells what was done.
    fn finish(self, as_json: bool, output: &mut impl Write) -> Result<ExitCode, Failure> {
        let (thing, is_of_packets) = (self.thing(), self.subject == Subject::Packets);
        let tally = self.recorder.finish().map_err(wrong)?;
        if as_json {
            let undecoded: Vec<_> =
                self.undecoded.iter().map(|(reason, count)| json!([reason.to_string(), count])).collect();
            let value = json!({
                "name": self.name,
                "recorded": tally.items,
                "pages": tally.pages,
                "bytes": tally.bytes,
                "removed_pages": tally.removed,
                "undecoded": undecoded,
                "cut": self.cut,
                "untimely": self.untimely,
            });
            writeln!(output, "{value:#}")?;
        } else {
            let (items, pages) = (counted(tally.items, thing), counted(tally.pages, "page"));
            writeln!(output, "{}: {items} in {pages}, {}", printable(&self.name), human_bytes(tally.bytes))?;
            let left_out = [
                (self.undecoded.total(), format!("had no packet that is known ({})", self.undecoded)),
                (self.cut, "had too little of their packet captured".to_owned()),
                (self.untimely, "were of a time beyond all pages".to_owned()),
            ];
            for (count, why) in left_out.iter().filter(|(count, _)| *count > 0) {
                let what = if is_of_packets { "frame" } else { thing };
                writeln!(output, "{} {why}", counted(*count, what))?;
            }
            if tally.removed > 0 {
                writeln!(output, "{} made room for these", counted(tally.removed, "older page"))?;
            }
        }
        Ok(if self.has_faults { ExitCode::from(FAULTS) } else { ExitCode::SUCCESS })
    }
}

/// When the server had it: by its own field Received, else by the time of the file, else now.
fn time_of(message: &Message<'_>) -> u64 {
    let of_file = || {
        let modified = fs::metadata(message.file).and_then(|metadata| metadata.modified()).ok()?;
        modified.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
    };
    received_at(message.bytes).or_else(of_file).unwrap_or_else(|| date::now().0)
}
