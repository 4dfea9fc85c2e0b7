//! `bruit flows`: how many packets each flow of a capture has, or how many messages each sender of a mailbox.
//!
//! All is counted by [`bruit_forensics::flows`]; this module finds packets and messages, draws the randomness, and prints.

mod report;
mod saved;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bruit_filters::space_code::Shape;
use bruit_forensics::capture::Frame;
use bruit_forensics::flows::{
    EXACT_FLOWS_MAX, FlowCounter, Identity, Key, LEADERS_MAX, MEMORY_BYTES_MIN, SavedFlows, Settings,
};
use bruit_forensics::packet::{Tally, decode};
use indicatif::ProgressBar;

use crate::captures;
use crate::failure::{Failure, wrong};
use crate::filter::storage::ensure_memory;
use crate::follow::{self, Complete, News};
use crate::mailbox::{self, StandardInput};
use crate::quantity::{human_bytes, parse_bytes, parse_count};
use crate::stop;
use crate::terminal::complain;

const AFTER_HELP: &str = "\
A CAPTURE is a pcap or pcapng file, a directory of them, or - for standard input. With --key
sender or sender-domain it is mail: a message, an mbox, a Maildir or any other folder of messages.

--key is a list of fields with commas between them: source, destination, protocol, source-port,
destination-port, service, time-to-live; of mail sender, sender-domain. source/24 takes the first
24 bits of an address. pair is source,destination; five-tuple is both with ports and protocol.

--save writes the counters to a file. A CAPTURE may also be such a file: its counts are added, so
that counters of several days or places are merged and asked without the captures. Counters merge
if they were made with --like one another: same fields, same size, same secret. The file holds
that secret and the names of the largest flows. Exact counts are not saved.

Packets are estimated from a multi-resolution space-code filter, in the memory that is given;
the interval beside an estimate has the truth in it 19 times out of 20. What cannot be read is
told on standard error and left out; the exit code is then 2.

Examples:
  bruit flows capture.pcap                          the ten largest pairs of hosts
  bruit flows --key five-tuple --exact capture.pcap estimates beside exact counts, and the error
  tcpdump -w - | bruit flows --key source -         who sends most, until Ctrl-C ends tcpdump
  bruit flows --key sender --top 20 Maildir         who writes most
  bruit flows --key source/24,destination-port monday.pcap --save monday.flows
  bruit flows --like monday.flows tuesday.pcap --save tuesday.flows
  bruit flows monday.flows tuesday.flows            both days together
  bruit flows monday.flows --flow 192.0.2.0,25      one flow, by the values of its fields";

/// The most flows that are listed: as many as there are names.
const TOP_MAX: u64 = LEADERS_MAX as u64;

/// The memory, unless told.
const MEMORY_BYTES: u64 = 64 << 20;

/// The most memory that can be given: a filter has lines for no more.
const MEMORY_BYTES_MAX: u64 = 64 << 30;

/// What `bruit flows` is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Captures, or mailboxes; standard input if there are none
    #[arg(value_name = "CAPTURE")]
    files: Vec<PathBuf>,

    /// What makes packets one flow: fields with commas between them [default: pair]
    #[arg(long, value_name = "FIELDS")]
    key: Option<Key>,

    /// What filter and names may take [default: 64M]
    #[arg(long, value_name = "BYTES", value_parser = parse_memory)]
    memory: Option<u64>,

    /// Count as these saved counters do, so that the two can be merged
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "memory", "seed"])]
    like: Option<PathBuf>,

    /// Write the counters to a file, which can be merged with others and asked later
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// Report this flow, by the values of the key's fields with commas between them, instead of the largest
    #[arg(long = "flow", value_name = "VALUES", conflicts_with = "top")]
    flows: Vec<String>,

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
            // A pipe ends by Ctrl-C, and what came through it is told.
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
    /// A counter like the saved ones, if there are any.
    fn new(arguments: &Arguments, saved: &[PathBuf]) -> Result<Self, Failure> {
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
            .map_err(|error| wrong(format!("{}: {error}", file.display())))
    }

    fn save(&mut self, file: &Path) -> Result<(), Failure> {
        let bytes = self.counter.encode(self.key).map_err(wrong)?;
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

/// A counter of what the arguments say.
fn new_counter(arguments: &Arguments) -> Result<(Key, FlowCounter), Failure> {
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
