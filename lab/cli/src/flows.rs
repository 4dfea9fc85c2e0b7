//! `bruit-lab flows`: counts the packets of each flow in a capture, or the messages of each sender in a
//! mailbox.
//!
//! [`bruit_forensics::flows`] does the counting; this module reads packets and messages, provides
//! randomness, and prints.

mod report;
mod saved;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bruit_forensics::capture::Frame;
use bruit_forensics::flows::{
    EXACT_FLOWS_MAX, FlowCounter, Identity, Key, LEADERS_MAX, MEMORY_BYTES_MIN, SavedFlows, Settings,
};
use bruit_forensics::packet::{Tally, decode};
use bruit_structures::space_code::Shape;
use indicatif::ProgressBar;

use crate::captures;
use crate::follow::{self, Complete, News};
use crate::stop;
use bruit_console::failure::{Failure, bad_input};
use bruit_console::files::ensure_memory;
use bruit_console::mailbox::{self, StandardInput};
use bruit_console::quantity::{human_bytes, parse_bytes, parse_count};
use bruit_console::terminal::complain;

const AFTER_HELP: &str = "\
A CAPTURE is a pcap or pcapng file, a directory of them, or - for standard input. With --key sender or \
sender-domain it is mail instead: a message, an mbox, a Maildir or any other folder of messages.

--key is a list of fields separated by commas: source, destination, protocol, source-port, destination-port, \
service, time-to-live; for mail, sender or sender-domain. source/24 means the first 24 bits of the source address. \
pair is source,destination; five-tuple adds the ports and the protocol.

--save writes the counters to a file. A CAPTURE may also be such a file: its counts are added. Counters of \
several days or places can thus be merged, and queried without the captures. Counters can be merged only if they \
have the same fields, size and secret; --like copies these from a file. The file contains that secret and the names \
of the largest flows, but no exact counts.

Counts are estimated with a multi-resolution space-code filter. Each estimate has a 95 % interval, which \
contains the true count 19 times out of 20.

Exit codes:
  0  done
  2  error: an input was skipped, or an argument is invalid

Examples:
  bruit-lab flows capture.pcap                          the ten largest pairs of hosts
  bruit-lab flows --key five-tuple --exact capture.pcap estimates and exact counts, and the error
  tcpdump -w - | bruit-lab flows --key source -         the busiest senders, until Ctrl-C
  bruit-lab flows --key sender --top 20 Maildir         the 20 busiest mail senders
  bruit-lab flows --key source/24,destination-port monday.pcap --save monday.flows
  bruit-lab flows --like monday.flows tuesday.pcap --save tuesday.flows
  bruit-lab flows monday.flows tuesday.flows            both days together
  bruit-lab flows monday.flows --flow 192.0.2.0,25      one flow, by the values of its fields";

/// Maximum number of flows to list, which is the maximum number of names that a counter keeps.
const TOP_MAX: u64 = LEADERS_MAX as u64;

/// Default memory.
const MEMORY_BYTES: u64 = 64 << 20;

/// Maximum memory. A filter cannot address more lines.
const MEMORY_BYTES_MAX: u64 = 64 << 30;

/// Arguments of `bruit-lab flows`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct FlowsArgs {
    /// Captures or mailboxes [default: standard input]
    #[arg(value_name = "CAPTURE")]
    files: Vec<PathBuf>,

    /// Fields that identify a flow, separated by commas [default: pair]
    #[arg(long, value_name = "FIELDS")]
    key: Option<Key>,

    /// Memory for the filter and names [default: 64M]
    #[arg(long, value_name = "BYTES", value_parser = parse_memory)]
    memory: Option<u64>,

    /// Use the parameters of these saved counters, so that the results can be merged with them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "memory", "seed"])]
    like: Option<PathBuf>,

    /// Write the counters to a file, to merge or query them later
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Report only this flow, given by the values of the key's fields, separated by commas
    #[arg(long = "flow", value_name = "VALUES", conflicts_with = "top")]
    flows: Vec<String>,

    /// Also count exactly, and print the error of each estimate
    #[arg(long)]
    exact: bool,

    /// Number of flows to list
    #[arg(long, value_name = "N", value_parser = parse_top, default_value = "10")]
    top: u64,

    /// Read files as they appear in directories, until Ctrl-C
    #[arg(long)]
    follow: bool,

    /// Seed of all random choices; the same seed gives the same output [default: random]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
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

/// The counts, and tallies of items that were not counted.
struct Run {
    key: Key,
    counter: FlowCounter,
    identity: Identity,
    undecoded: Tally,
    /// Packets that were counted as they are, although they may contain other packets.
    unopened: Tally,
    without_sender: u64,
    faults: u64,
}

pub(crate) fn run(arguments: &FlowsArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let (saved, files) = saved::split(&arguments.files)?;
    let mut run = Run::new(arguments, &saved)?;
    for file in &saved {
        run.merge(file)?;
    }
    let is_asked = files.is_empty() && !saved.is_empty();
    match (run.key.is_of_mail(), arguments.follow) {
        (_, false) if is_asked => {}
        (true, false) => run.take_mail(&files)?,
        (false, false) => {
            // Ctrl-C is the normal end of a pipe: the packets read so far are reported.
            if files.is_empty() || files.iter().any(|file| file == Path::new("-")) {
                stop::watch()?;
            }
            run.take_captures(&files)?;
        }
        (_, true) => run.follow(&files)?,
    }
    if let Some(file) = &arguments.save {
        run.save(file)?;
    }
    report::print(&mut run, arguments, output)?;
    output.flush()?;
    Ok(if run.faults == 0 { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

impl Run {
    /// Returns a counter with the parameters of the saved counters, if there are any.
    fn new(arguments: &FlowsArgs, saved: &[PathBuf]) -> Result<Self, Failure> {
        let (key, counter) = match arguments.like.as_ref().or_else(|| saved.first()) {
            Some(like) => {
                saved::ensure_free(arguments)?;
                let SavedFlows { key, counter } = saved::read(like, 0)?;
                (key, counter.empty_like(u64::from_le_bytes(random()?)))
            }
            None => new_counter(arguments)?,
        };
        Ok(Self {
            key,
            counter,
            identity: Identity::default(),
            undecoded: Tally::default(),
            unopened: Tally::default(),
            without_sender: 0,
            faults: 0,
        })
    }

    /// Adds saved counters.
    fn merge(&mut self, file: &Path) -> Result<(), Failure> {
        let mut other = saved::read(file, 0)?;
        other
            .ensure_key(self.key)
            .and_then(|()| self.counter.merge(&mut other.counter))
            .map_err(|error| bad_input(format!("{}: {error}", file.display())))
    }

    fn save(&mut self, file: &Path) -> Result<(), Failure> {
        let bytes = self.counter.encode(self.key).map_err(bad_input)?;
        saved::write(file, &bytes)
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
                mailbox::Item::Message(message) if self.identity.set_message(self.key, message.bytes) => {
                    self.counter.count(self.identity.as_bytes());
                }
                mailbox::Item::Message(_) => self.without_sender += 1,
                mailbox::Item::Fault(line) => self.fault(&line, bar),
            }
            Ok(())
        })
    }

    fn follow(&mut self, folders: &[PathBuf]) -> Result<(), Failure> {
        let is_mail = self.key.is_of_mail();
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

/// Returns a counter with the parameters in the arguments.
fn new_counter(arguments: &FlowsArgs) -> Result<(Key, FlowCounter), Failure> {
    let memory_bytes = arguments.memory.unwrap_or(MEMORY_BYTES);
    ensure_memory("a filter", memory_bytes).map_err(Failure::BadInput)?;
    let key = arguments.key.unwrap_or(Key::PAIR);
    let settings = Settings {
        memory_bytes,
        identity_bytes_max: key.identity_bytes_max(),
        shape: Shape::default(),
        exact_flows: if arguments.exact { EXACT_FLOWS_MAX } else { 0 },
    };
    let (secret, seed) = match arguments.seed {
        Some(seed) => (u128::from(seed).to_le_bytes(), seed),
        None => (random()?, u64::from_le_bytes(random()?)),
    };
    Ok((key, FlowCounter::new(&settings, secret, seed)))
}

fn random<const BYTES: usize>() -> Result<[u8; BYTES], Failure> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::Other(anyhow::anyhow!("failed to get random bytes: {error}")))?;
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
