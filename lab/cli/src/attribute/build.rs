//! `bruit-lab attribute build`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use bruit_filters::FingerprintKey;
use bruit_forensics::attribution::{Counts, Pair, Recorder, Settings, Summary, mail};
use bruit_forensics::capture::Frame;
use bruit_forensics::packet::{self, Tally};
use bruit_forensics::pages::Pages;
use bruit_structures::blocks::{BlockShape, LEVELS_MAX};
use serde_json::json;

use super::KIND;
use crate::recording::{self, Horizon, Inputs, Recording, thing};
use bruit_console::date;
use bruit_console::failure::{Failure, bad_input};
use bruit_console::mailbox::Message;
use bruit_console::quantity::{counted, human_bytes, parse_bytes, parse_rate};

const SECONDS_PER_MINUTE: u64 = 60;

/// Maximum length of a page in minutes: a year.
const PAGE_MINUTES_MAX: u64 = 527_040;

/// Default of `--bytes-per-hour` for packets. The default for mail is lower, because there is less mail and its pages
/// often cover a whole day. With the default for mail, the default `--disk` has room for ten days.
const PACKETS_BYTES_PER_HOUR: u64 = 64 << 20;
const MAIL_BYTES_PER_HOUR: u64 = 4 << 20;

/// Arguments of `bruit-lab attribute build`.
#[derive(Debug, clap::Args)]
pub(super) struct AttributeBuildArgs {
    /// Capture files, or - for standard input. With --mail: messages, mailboxes or folders. With --follow: directories to watch
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,

    /// Directory for the pages; created if missing
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,

    /// Record mail instead of packets
    #[arg(long)]
    mail: bool,

    /// Read files as they appear in directories, until Ctrl-C
    #[arg(long)]
    follow: bool,

    /// Maximum size of the pages of an hour (64M and 64MiB are 2^26 bytes). If an hour has too much traffic for that
    /// size, answers are less accurate [default: 64MiB, with --mail 4MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    bytes_per_hour: Option<u64>,

    /// Length of a page in minutes, hours or days, such as 10m, 24h or 1d
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_page_minutes)]
    page: u64,

    /// Earlier name of --page, in minutes
    #[arg(long, hide = true, value_name = "N", conflicts_with = "page", value_parser = clap::value_parser!(u64).range(1..=PAGE_MINUTES_MAX))]
    page_minutes: Option<u64>,

    /// False-positive rate of a digest; higher if a size limit is reached
    #[arg(long, value_name = "RATE", default_value = "0.01", value_parser = parse_rate)]
    false_positive_rate: f64,

    /// Size of a block; an excerpt must contain at least two whole blocks
    #[arg(long, value_name = "BYTES", default_value_t = 32, value_parser = clap::value_parser!(u32).range(8..=1024))]
    block_bytes: u32,

    /// Maximum disk space for all pages in the directory, counted in 4 KiB blocks; the oldest pages are deleted first
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_bytes)]
    disk: u64,

    /// Print one JSON object at the end
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &AttributeBuildArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
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

impl AttributeBuildArgs {
    fn bytes_per_hour(&self) -> u64 {
        let usual = if self.mail { MAIL_BYTES_PER_HOUR } else { PACKETS_BYTES_PER_HOUR };
        self.bytes_per_hour.unwrap_or(usual)
    }
}

/// A recorder, with tallies of items that could not be recorded.
struct Build {
    recorder: Recorder<Box<dyn FnMut() -> FingerprintKey>>,
    is_mail: bool,
    as_json: bool,
    /// Number of packets or messages.
    taken: u64,
    undecoded: Tally,
    /// Number of packets that were truncated by the capture. Only the captured part was recorded.
    cut: u64,
    horizon: Horizon,
}

impl Build {
    fn new(arguments: &AttributeBuildArgs) -> Result<Self, Failure> {
        let shape = BlockShape::new(arguments.block_bytes, LEVELS_MAX).map_err(bad_input)?;
        let settings = Settings {
            shape,
            bytes_per_hour: arguments.bytes_per_hour(),
            page_seconds: arguments.page_minutes.unwrap_or(arguments.page) * SECONDS_PER_MINUTE,
            false_positive_rate: arguments.false_positive_rate,
        };
        let settings = settings.checked().map_err(bad_input)?;
        let room = Pages::ensure_room(settings.page_share_bytes(), arguments.disk);
        room.map_err(|error| bad_input(format!("--disk: {error} (--bytes-per-hour, --page)")))?;
        let keys =
            page_keys().map_err(|error| Failure::Other(anyhow::anyhow!("failed to get random bytes: {error}")))?;
        let pages = Pages::create_or_open(&arguments.output, KIND, arguments.disk).map_err(bad_input)?;
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
                self.recorder.record(second, &[pair], packet.payload).map_err(bad_input)?;
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
        payloads.try_for_each(|payload| self.recorder.record(time, &carried.pairs, payload)).map_err(bad_input)
    }

    fn settle(&mut self, now: u64) -> Result<(), Failure> {
        self.recorder.settle(now).map_err(bad_input)
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.recorder.close().map_err(bad_input)
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
    /// Returns one line for each kind of data that was not recorded, or not in full.
    fn left_out(&self) -> Vec<String> {
        let Summary { counts: Counts { short, unlisted, .. }, crowded, ref removed, .. } = *self.recorder.summary();
        let (undecoded, untimely, removed) = (&self.undecoded, self.horizon.untimely, removed.len() as u64);
        let things = if self.is_mail { "message" } else { "frame" };
        let lines = [
            (undecoded.total(), "frame", format!("contained no supported packet ({undecoded})")),
            (untimely, things, "dated more than a day in the future, skipped".to_owned()),
            (self.cut, "packet", "truncated by the capture; only the captured part was recorded".to_owned()),
            (short, "payload", "shorter than a block, skipped".to_owned()),
            (crowded, "payload", "skipped: the pages of that time have used up their disk space".to_owned()),
            (unlisted, "payload", "can be found but not attributed: the table of address pairs is full".to_owned()),
            (removed, "older page", "deleted to free space".to_owned()),
        ];
        let rows = lines.iter().filter(|(count, ..)| *count > 0);
        rows.map(|(count, what, why)| format!("{} {why}", counted(*count, what))).collect()
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

/// Returns a generator of page keys. They are derived from a secret that exists only in memory. The secret is read from
/// the system's random source once, at the start: a failure later would lose recorded data.
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

/// Parses the length of a page into minutes.
fn parse_page_minutes(text: &str) -> Result<u64, String> {
    let unit_at = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let minutes = match unit {
        "m" | "min" => 1,
        "h" => 60,
        "d" => 24 * 60,
        _ => return Err("expected minutes, hours or days, such as 10m, 24h or 1d".into()),
    };
    let total = number.parse::<u64>().ok().and_then(|number| number.checked_mul(minutes));
    total
        .filter(|total| (1..=PAGE_MINUTES_MAX).contains(total))
        .ok_or_else(|| "it must be at least 1m and at most 366d".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_given_in_minutes_hours_or_days() {
        let pages = ["1m", "10min", "24h", "366d"].map(|text| parse_page_minutes(text).unwrap());
        assert_eq!(pages, [1, 10, 1_440, PAGE_MINUTES_MAX]);
        for refused in ["", "10", "10s", "0m", "367d", "-1m", "1.5h", "m", "99999999999999999999d"] {
            assert!(parse_page_minutes(refused).is_err(), "{refused}");
        }
    }
}
