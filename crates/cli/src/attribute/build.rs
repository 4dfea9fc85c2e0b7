//! `bruit attribute build`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use bruit_filters::FingerprintKey;
use bruit_filters::blocks::{BlockShape, LEVELS_MAX};
use bruit_forensics::attribution::{Counts, Pair, Recorder, Settings, Summary, mail};
use bruit_forensics::capture::Frame;
use bruit_forensics::packet::{self, Tally};
use bruit_forensics::pages::Pages;
use serde_json::json;

use super::KIND;
use crate::date;
use crate::failure::{Failure, wrong};
use crate::mailbox::Message;
use crate::quantity::{counted, human_bytes, parse_bytes, parse_rate};
use crate::recording::{self, Horizon, Inputs, Recording, thing};

const SECONDS_PER_MINUTE: u64 = 60;

/// What an hour takes, unless told. Mail is less than packets, and a page of it is often a day: ten days of this fit into a page
/// of all that `--disk` allows by default.
const PACKETS_BYTES_PER_HOUR: u64 = 64 << 20;
const MAIL_BYTES_PER_HOUR: u64 = 4 << 20;

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

    /// Maximum size of the pages of an hour, whenever they are written: 64M and 64MiB are 2^26 bytes. Quiet hours take less; answers about busier ones have less confidence [default: 64MiB, with --mail 4MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    bytes_per_hour: Option<u64>,

    /// How long a page is
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=527_040))]
    page_minutes: u64,

    /// The rate at which a digest may be found that was never recorded, as long as the disk suffices
    #[arg(long, value_name = "RATE", default_value = "0.01", value_parser = parse_rate)]
    false_positive_rate: f64,

    /// The size of a block: an excerpt must have two whole ones, wherever it begins
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = clap::value_parser!(u32).range(8..=1024))]
    block_bytes: u32,

    /// What all pages of the directory may take, in blocks of 4 KiB; those written first go
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_bytes)]
    disk: u64,

    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let mut recording = Build::new(arguments)?;
    let inputs = Inputs {
        paths: &arguments.inputs,
        is_mail: arguments.mail,
        is_followed: arguments.follow,
        as_json: arguments.json,
        folder: &arguments.output,
    };
    recording::run(&inputs, &mut recording, output)
}

impl Arguments {
    fn bytes_per_hour(&self) -> u64 {
        let usual = if self.mail { MAIL_BYTES_PER_HOUR } else { PACKETS_BYTES_PER_HOUR };
        self.bytes_per_hour.unwrap_or(usual)
    }
}

/// A recorder, and what could not be recorded.
struct Build {
    recorder: Recorder<Box<dyn FnMut() -> FingerprintKey>>,
    is_mail: bool,
    as_json: bool,
    /// Packets or messages.
    taken: u64,
    undecoded: Tally,
    /// Packets that were recorded as far as the capture has them.
    cut: u64,
    horizon: Horizon,
}

impl Build {
    fn new(arguments: &Arguments) -> Result<Self, Failure> {
        let shape = BlockShape::new(arguments.block_bytes, LEVELS_MAX).map_err(wrong)?;
        let settings = Settings {
            shape,
            bytes_per_hour: arguments.bytes_per_hour(),
            page_seconds: arguments.page_minutes * SECONDS_PER_MINUTE,
            false_positive_rate: arguments.false_positive_rate,
        };
        let settings = settings.checked().map_err(wrong)?;
        let room = Pages::ensure_room(settings.page_share_bytes(), arguments.disk);
        room.map_err(|error| wrong(format!("--disk: {error} (--bytes-per-hour, --page-minutes)")))?;
        let keys =
            page_keys().map_err(|error| Failure::Other(anyhow::anyhow!("failed to get random bytes: {error}")))?;
        let pages = Pages::create_or_open(&arguments.output, KIND, arguments.disk).map_err(wrong)?;
        Ok(Self {
            recorder: Recorder::new(pages, settings, keys),
            is_mail: arguments.mail,
            as_json: arguments.json,
            taken: 0,
            undecoded: Tally::default(),
            cut: 0,
            horizon: Horizon::default(),
        })
    }
}

impl Recording for Build {
    fn take_frame(&mut self, second: u64, frame: &Frame<'_>) -> Result<(), Failure> {
        match packet::decode(frame) {
            Err(reason) => self.undecoded.count(reason),
            Ok(packet) if self.horizon.takes(second) => {
                self.taken += 1;
                self.cut += u64::from((frame.bytes.len() as u64) < u64::from(frame.original_bytes));
                let pair = Pair { source: packet.source.into(), destination: packet.destination.into() };
                self.recorder.record(second, &[pair], packet.payload).map_err(wrong)?;
                self.settle(second)?;
            }
            Ok(_) => {}
        }
        Ok(())
    }

    fn take_message(&mut self, message: &Message<'_>) -> Result<(), Failure> {
        let carried = mail::read(message.bytes);
        let time = carried.time.unwrap_or_else(|| date::now().0);
        if !self.horizon.takes(time) {
            return Ok(());
        }
        self.taken += 1;
        let mut payloads = carried.payloads.iter();
        payloads.try_for_each(|payload| self.recorder.record(time, &carried.pairs, payload)).map_err(wrong)
    }

    fn settle(&mut self, now: u64) -> Result<(), Failure> {
        self.recorder.settle(now).map_err(wrong)
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.recorder.close().map_err(wrong)
    }

    fn is_settled(&self) -> bool {
        self.recorder.is_settled()
    }

    fn taken(&self) -> u64 {
        self.taken
    }

    fn tell(&self, output: &mut dyn Write) -> Result<(), Failure> {
        if self.as_json {
            return Ok(writeln!(output, "{:#}", self.json())?);
        }
        writeln!(output, "{}", summary_line(self.recorder.summary(), &counted(self.taken, thing(self.is_mail))))?;
        for line in self.left_out() {
            writeln!(output, "{line}")?;
        }
        Ok(())
    }
}

impl Build {
    /// What is not known of what there was, a line each.
    fn left_out(&self) -> Vec<String> {
        let Summary { counts: Counts { short, unlisted, .. }, crowded, ref removed, .. } = *self.recorder.summary();
        let (undecoded, untimely, removed) = (&self.undecoded, self.horizon.untimely, removed.len() as u64);
        let things = if self.is_mail { "message" } else { "frame" };
        let lines = [
            (undecoded.total(), "frame", format!("had no packet that is known ({undecoded})")),
            (untimely, things, "of a time more than a day ahead left out".to_owned()),
            (self.cut, "packet", "cut by the capture: what it has not is not recorded".to_owned()),
            (short, "payload", "shorter than a block left nothing".to_owned()),
            (crowded, "payload", "left out, as the pages of their time have its share of the disk".to_owned()),
            (unlisted, "payload", "of pairs beyond the room for them can be found, but not attributed".to_owned()),
            (removed, "older page", "made room for these".to_owned()),
        ];
        let told = lines.iter().filter(|(count, ..)| *count > 0);
        told.map(|(count, what, why)| format!("{} {why}", counted(*count, what))).collect()
    }

    fn json(&self) -> serde_json::Value {
        let Summary { counts, ref pages, ref removed, crowded } = *self.recorder.summary();
        let undecoded: Vec<_> =
            self.undecoded.iter().map(|(reason, count)| json!([reason.to_string(), count])).collect();
        json!({
            "taken": self.taken,
            "payloads": counts.payloads,
            "payload_bytes": counts.bytes,
            "short_payloads": counts.short,
            "unlisted_payloads": counts.unlisted,
            "crowded_payloads": crowded,
            "pages": pages.len(),
            "page_bytes": pages.iter().map(|page| page.bytes).sum::<u64>(),
            "removed_pages": removed.len(),
            "undecoded": undecoded,
            "cut": self.cut,
            "untimely": self.horizon.untimely,
        })
    }
}

/// A key for each page, from a secret that is nowhere but here. The system is asked once, before anything is recorded: if it
/// had no randomness later, what is gathered would be lost.
fn page_keys() -> Result<Box<dyn FnMut() -> FingerprintKey>, getrandom::Error> {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret)?;
    let secret = FingerprintKey::new(secret);
    let mut drawn = 0u64;
    Ok(Box::new(move || {
        drawn += 1;
        let random = secret.fingerprint(&drawn.to_le_bytes());
        let bits = u128::from(random.high()) << 64 | u128::from(random.low());
        FingerprintKey::new(bits.to_le_bytes())
    }))
}

fn summary_line(summary: &Summary, taken: &str) -> String {
    let pages = counted(summary.pages.len() as u64, "page");
    let disk = human_bytes(summary.pages.iter().map(|page| page.bytes).sum());
    format!("{taken} with {} of payload in {pages}, {disk}", human_bytes(summary.counts.bytes))
}
