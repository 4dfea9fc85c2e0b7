//! `bruit flows`: how many packets each flow of a capture has, or how many messages each sender of a mailbox.
//!
//! All is counted by [`bruit_forensics::flows`]; this module finds packets and messages, draws the randomness, and prints.

mod report;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bruit_filters::space_code::Shape;
use bruit_forensics::capture::Frame;
use bruit_forensics::flows::{EXACT_FLOWS_MAX, FlowCounter, Identity, Key, LEADERS_MAX, MEMORY_BYTES_MIN, Settings};
use bruit_forensics::packet::{Tally, decode};
use clap::ValueEnum;
use indicatif::ProgressBar;

use crate::captures;
use crate::failure::Failure;
use crate::filter::storage::ensure_memory;
use crate::follow::{self, Complete, News};
use crate::mailbox::{self, StandardInput};
use crate::quantity::{human_bytes, parse_bytes, parse_count};
use crate::stop;
use crate::terminal::complain;

const AFTER_HELP: &str = "\
A CAPTURE is a pcap or pcapng file, a directory of them, or - for standard input. With --key
sender it is mail: a message, an mbox, a Maildir or any other folder of messages.

Packets are estimated from a multi-resolution space-code filter, in the memory that is given;
the interval beside an estimate has the truth in it 19 times out of 20. What cannot be read is
told on standard error and left out; the exit code is then 2.

Examples:
  bruit flows capture.pcap                          the ten largest pairs of hosts
  bruit flows --key five-tuple --exact capture.pcap estimates beside exact counts, and the error
  tcpdump -w - | bruit flows --key source -         who sends most, until Ctrl-C ends tcpdump
  bruit flows --key sender --top 20 Maildir         who writes most";

/// The most flows that are listed: as many as there are names.
const TOP_MAX: u64 = LEADERS_MAX as u64;

/// The most memory that can be given: a filter has lines for no more.
const MEMORY_BYTES_MAX: u64 = 64 << 30;

/// What `bruit flows` is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Captures, or mailboxes; standard input if there are none
    #[arg(value_name = "CAPTURE")]
    files: Vec<PathBuf>,

    /// What makes packets one flow
    #[arg(long, value_enum, default_value_t = KeyChoice::Pair)]
    key: KeyChoice,

    /// What filter and names may take
    #[arg(long, value_name = "BYTES", value_parser = parse_memory, default_value = "64M")]
    memory: u64,

    /// Also count exactly, and tell the error of the estimates
    #[arg(long)]
    exact: bool,

    /// How many flows to list
    #[arg(long, value_name = "N", value_parser = parse_top, default_value = "10")]
    top: u64,

    /// Take files as they appear in directories, until Ctrl-C
    #[arg(long)]
    follow: bool,

    /// Sample as another run with this number did; without it, as nobody can foresee
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What makes packets one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KeyChoice {
    /// Source and destination address
    Pair,
    /// Both addresses, protocol and both ports
    FiveTuple,
    /// Source address
    Source,
    /// Destination address
    Destination,
    /// The sender of a message, by its field From
    Sender,
}

impl From<KeyChoice> for Key {
    fn from(choice: KeyChoice) -> Self {
        match choice {
            KeyChoice::Pair => Self::Pair,
            KeyChoice::FiveTuple => Self::FiveTuple,
            KeyChoice::Source => Self::Source,
            KeyChoice::Destination => Self::Destination,
            KeyChoice::Sender => Self::Sender,
        }
    }
}

fn parse_memory(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        bytes if bytes < MEMORY_BYTES_MIN => Err(format!("it must be at least {}", human_bytes(MEMORY_BYTES_MIN))),
        bytes if bytes > MEMORY_BYTES_MAX => Err(format!("it must be at most {}", human_bytes(MEMORY_BYTES_MAX))),
        bytes => Ok(bytes),
    }
}

fn parse_top(text: &str) -> Result<u64, String> {
    match parse_count(text)? {
        count if count > TOP_MAX => Err(format!("it must be at most {TOP_MAX}")),
        count => Ok(count),
    }
}

/// What was counted, and what was not.
struct Run {
    key: Key,
    counter: FlowCounter,
    identity: Identity,
    undecoded: Tally,
    /// Packets that were counted, though there may be others in them.
    unopened: Tally,
    without_sender: u64,
    faults: u64,
}

pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let mut run = Run::new(arguments)?;
    match (arguments.key, arguments.follow) {
        (KeyChoice::Sender, false) => run.take_mail(&arguments.files)?,
        (_, false) => {
            // A pipe ends by Ctrl-C, and what came through it is told.
            if arguments.files.is_empty() || arguments.files.iter().any(|file| file == Path::new("-")) {
                stop::watch()?;
            }
            run.take_captures(&arguments.files)?;
        }
        (_, true) => run.follow(&arguments.files)?,
    }
    report::print(&mut run, arguments, output)?;
    output.flush()?;
    Ok(if run.faults == 0 { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

impl Run {
    fn new(arguments: &Arguments) -> Result<Self, Failure> {
        ensure_memory("a filter", arguments.memory).map_err(Failure::BadInput)?;
        let exact_flows = if arguments.exact { EXACT_FLOWS_MAX } else { 0 };
        let key = Key::from(arguments.key);
        let settings = Settings {
            memory_bytes: arguments.memory,
            identity_bytes_max: key.identity_bytes_max(),
            shape: Shape::default(),
            exact_flows,
        };
        let (secret, seed) = match arguments.seed {
            Some(seed) => (u128::from(seed).to_le_bytes(), seed),
            None => (random()?, u64::from_le_bytes(random()?)),
        };
        Ok(Self {
            key,
            counter: FlowCounter::new(&settings, secret, seed),
            identity: Identity::default(),
            undecoded: Tally::default(),
            unopened: Tally::default(),
            without_sender: 0,
            faults: 0,
        })
    }

    fn take_captures(&mut self, files: &[PathBuf]) -> Result<(), Failure> {
        captures::for_each(files, |item, bar| {
            self.take_item(item, bar);
            Ok(())
        })
    }

    fn take_item(&mut self, item: captures::Item<'_>, bar: &ProgressBar) {
        match item {
            captures::Item::Frame(frame) => self.take_frame(&frame),
            captures::Item::Fault(line) => self.fault(&line, bar),
        }
    }

    fn take_frame(&mut self, frame: &Frame<'_>) {
        match decode(frame) {
            Ok(packet) => {
                self.identity.set_packet(self.key, &packet);
                self.counter.count(self.identity.as_bytes());
                packet.unopened.into_iter().for_each(|reason| self.unopened.count(reason));
            }
            Err(reason) => self.undecoded.count(reason),
        }
    }

    fn take_mail(&mut self, files: &[PathBuf]) -> Result<(), Failure> {
        mailbox::for_each(files, StandardInput::Mailbox, |item, bar| {
            match item {
                mailbox::Item::Message(message) if self.identity.set_message(message.bytes) => {
                    self.counter.count(self.identity.as_bytes());
                }
                mailbox::Item::Message(_) => self.without_sender += 1,
                mailbox::Item::Fault(line) => self.fault(&line, bar),
            }
            Ok(())
        })
    }

    fn follow(&mut self, folders: &[PathBuf]) -> Result<(), Failure> {
        let is_mail = self.key == Key::Sender;
        let complete = if is_mail { Complete::AtOnce } else { Complete::ByRotation };
        follow::for_each(folders, complete, |news| match news {
            News::File(path) if is_mail => self.take_mail(&[path.to_owned()]),
            News::File(path) => self.take_captures(&[path.to_owned()]),
            News::Idle => Ok(()),
        })
    }

    fn fault(&mut self, line: &str, bar: &ProgressBar) {
        self.faults += 1;
        bar.suspend(|| complain(line));
    }
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES], Failure> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| Failure::Other(anyhow::anyhow!("no randomness: {error}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_list_are_bounded() {
        assert_eq!(parse_memory("64K"), Ok(MEMORY_BYTES_MIN));
        assert!(parse_memory("65535").is_err());
        assert!(parse_memory("64GiB").is_ok() && parse_memory("65GiB").is_err());
        assert_eq!(parse_top("4096"), Ok(TOP_MAX));
        assert!(parse_top("4097").is_err() && parse_top("0").is_err());
    }
}
