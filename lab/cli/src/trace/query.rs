//! `bruit-lab trace query`.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bruit_engine::time::Time;
use bruit_forensics::capture::{Capture, Frame, Link, Nanoseconds};
use bruit_forensics::packet::{self, Packet};
use bruit_forensics::pages::Span;
use bruit_forensics::traceback::{
    Doubt, Hop, Invariant, Question, Subject, TOPOLOGY_BYTES_MAX, Topology, Trace, false_positive, find, quoted, trace,
    window_of,
};
use bruit_signatures::message::Fields;

use super::print;
use crate::hex::from_hex;
use bruit_console::date::{moment, parse_moment};
use bruit_console::failure::{FAULTS, Failure, bad_input};
use bruit_console::mailbox::{self, Item, StandardInput};
use bruit_console::quantity::{grouped, parse_duration};
use bruit_console::terminal::{complain, printable};

const NOT_SEEN: u8 = 1;
/// Exit code if no router reports the packet, but one may have seen it under another digest.
const CANNOT_TELL: u8 = 3;

/// Probability of a false sighting above which a warning is printed.
const FALSE_POSITIVE_MAX: f64 = 0.01;

const NANOSECONDS_PER_SECOND: Nanoseconds = 1_000_000_000;

/// Arguments of `bruit-lab trace query`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("subject").required(true))]
pub(super) struct TraceQueryArgs {
    /// Topology file
    #[arg(long, value_name = "FILE")]
    topology: PathBuf,

    /// Capture with the packet; - is standard input
    #[arg(long, value_name = "CAPTURE", group = "subject", requires = "at")]
    packet: Option<PathBuf>,

    /// Number of the frame in the capture, counting from 1
    #[arg(long, value_name = "N", default_value_t = 1, requires = "packet")]
    frame: u64,

    /// Packet in hexadecimal digits, starting with its IP header
    #[arg(long, value_name = "DIGITS", group = "subject", requires = "at")]
    hex: Option<String>,

    /// Trace the packet quoted in an ICMP error, not the error itself
    #[arg(long, conflicts_with = "message")]
    quoted: bool,

    /// File with the message; - is standard input
    #[arg(long, value_name = "FILE", group = "subject")]
    message: Option<PathBuf>,

    /// Router next to the victim, where the trace begins
    #[arg(long, value_name = "NAME", conflicts_with = "message")]
    at: Option<String>,

    /// Time of the packet or message: 2023-11-14, '2023-11-14 22:10' in UTC, or seconds since 1970 [default: the
    /// capture time of a frame; for a message, from an hour before it was sent to a week after it was received;
    /// otherwise any time]
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    time: Option<u64>,

    /// Maximum difference between a router's clock and the time of the packet (or --time)
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    within: Duration,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The packet or message to find.
struct Target {
    invariant: Invariant,
    doubt: Option<Doubt>,
    subject: Subject,
    when: When,
    /// Description of the target in the text output.
    title: String,
}

/// Time at which the packet or message may have been seen, according to its own data.
enum When {
    /// Close to this second.
    About(u64),
    Within(Span),
    AnyTime,
}

pub(super) fn run(arguments: &TraceQueryArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let topology = read_topology(&arguments.topology)?;
    let sought = arguments.sought()?;
    let window = arguments.window(&sought.when);
    let Target { invariant, doubt, subject, .. } = sought;
    let question = Question { invariant, doubt, subject, window };
    let answers = match &arguments.at {
        Some(name) => {
            let start = topology.place(name).ok_or_else(|| bad_input(format!("the topology has no router {name}")))?;
            TraceAnswers::Walk(trace(&topology, start, &question).map_err(bad_input)?)
        }
        None => TraceAnswers::All(find(&topology, &question).map_err(bad_input)?),
    };
    if arguments.json {
        let value = print::json(answers.hops(), answers.doubtful(), &topology, &question, answers.trace());
        writeln!(output, "{value:#}")?;
    } else {
        writeln!(output, "{}", sought.title)?;
        doubt.map_or(Ok(()), |doubt| writeln!(output, "cannot be traced to its origin: {doubt}"))?;
        writeln!(output)?;
        print::hops(answers.hops(), &topology, sought.subject, output)?;
        answers.trace().map_or(Ok(()), |trace| print::paths(trace, &topology, output))?;
        if answers.is_seen() {
            print::doubt(answers.doubtful(), sought.subject, window, output)?;
        }
    }
    output.flush()?;
    Ok(answers.exit_code(doubt))
}

/// Answers of the routers along a path, or of all servers.
enum TraceAnswers {
    Walk(Trace),
    All(Vec<Hop>),
}

impl TraceAnswers {
    fn hops(&self) -> &[Hop] {
        match self {
            Self::Walk(trace) => &trace.hops,
            Self::All(hops) => hops,
        }
    }

    const fn trace(&self) -> Option<&Trace> {
        match self {
            Self::Walk(trace) => Some(trace),
            Self::All(_) => None,
        }
    }

    fn is_seen(&self) -> bool {
        self.hops().iter().any(Hop::is_seen)
    }

    /// Returns the hops whose answer may be wrong.
    fn doubtful(&self) -> &[Hop] {
        match self {
            Self::Walk(trace) => trace.doubtful(),
            Self::All(hops) => hops,
        }
    }

    /// Reports unreadable pages and unreliable answers, and returns the exit code.
    fn exit_code(&self, untrusted: Option<Doubt>) -> ExitCode {
        let doubt = false_positive(self.doubtful());
        if doubt > FALSE_POSITIVE_MAX && self.doubtful().iter().any(Hop::is_seen) {
            let percent = doubt * 100.0;
            complain(&format!(
                "with so many pages, the probability of a false sighting is up to {percent:.1} %: \
                 narrow the time with --time, or record with a lower --false-positive-rate"
            ));
        }
        let faults: Vec<_> = self.hops().iter().flat_map(|hop| &hop.answer.faults).collect();
        faults.iter().for_each(|fault| complain(fault));
        if !faults.is_empty() {
            ExitCode::from(FAULTS)
        } else if self.is_seen() {
            ExitCode::SUCCESS
        } else if untrusted.is_some() {
            ExitCode::from(CANNOT_TELL)
        } else {
            ExitCode::from(NOT_SEEN)
        }
    }
}

impl TraceQueryArgs {
    fn window(&self, when: &When) -> Span {
        let about = |time| Span::around(time, self.within.as_secs_f64().ceil() as u64);
        match (self.time, when) {
            (Some(time), _) | (None, &When::About(time)) => about(time),
            (None, &When::Within(span)) => span,
            (None, When::AnyTime) => Span::ALL,
        }
    }

    fn sought(&self) -> Result<Target, Failure> {
        match (&self.packet, &self.hex, &self.message) {
            (Some(path), _, _) => of_capture(path, self.frame, self.quoted),
            (_, Some(digits), _) => {
                let bytes = from_hex(digits).map_err(bad_input)?;
                let original_bytes = bytes.len() as u32;
                let frame = Frame { time: 0, link: Link::Ip, bytes: &bytes, original_bytes };
                of_frame(&frame, When::AnyTime, self.quoted).map_err(bad_input)
            }
            (_, _, Some(path)) => of_message(path),
            _ => Err(bad_input("one of --packet, --hex and --message is needed")),
        }
    }
}

fn read_topology(path: &Path) -> Result<Topology, Failure> {
    let cannot = |error: io::Error| bad_input(format!("{}: {error}", path.display()));
    let mut text = String::new();
    let file = File::open(path).map_err(cannot)?;
    file.take(TOPOLOGY_BYTES_MAX as u64 + 1).read_to_string(&mut text).map_err(cannot)?;
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    Topology::parse(&text, folder)
        .map_err(|error| bad_input(format!("{}: {}", path.display(), error.to_string().trim_end())))
}

fn open(path: &Path) -> Result<Box<dyn io::Read>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    Ok(Box::new(File::open(path).map_err(|error| bad_input(format!("{}: {error}", path.display())))?))
}

/// Reads the packet in a frame of a capture.
fn of_capture(path: &Path, number: u64, is_quoted: bool) -> Result<Target, Failure> {
    let name = path.display();
    let cannot = |error| bad_input(format!("{name}: {error}"));
    let mut capture = Capture::open(open(path)?).map_err(cannot)?;
    let mut frames = 0;
    while let Some(frame) = capture.next_frame().map_err(cannot)? {
        frames += 1;
        if frames == number {
            let second = frame.time / NANOSECONDS_PER_SECOND;
            return of_frame(&frame, When::About(second), is_quoted)
                .map_err(|what| bad_input(format!("{name}, frame {number}: {what}")));
        }
    }
    Err(bad_input(format!("{name}: has only {} frames, so there is no frame {number}", grouped(frames))))
}

/// Returns the packet in a frame. If `is_quoted`, returns the packet that the ICMP error in the frame quotes.
fn of_frame(frame: &Frame<'_>, when: When, is_quoted: bool) -> Result<Target, String> {
    let packet = packet::decode(frame).map_err(|reason| reason.to_string())?;
    if !is_quoted {
        return of_packet(&packet, when);
    }
    let bytes = quoted(&packet).ok_or("--quoted: the packet is not an ICMP error, so it quotes no other packet")?;
    let inside = Frame { link: Link::Ip, bytes, original_bytes: bytes.len() as u32, ..*frame };
    let inside = packet::decode(&inside).map_err(|reason| format!("quoted packet: {reason}"))?;
    of_packet(&inside, when)
}

fn of_packet(packet: &Packet<'_>, when: When) -> Result<Target, String> {
    let invariant = Invariant::of_packet(packet).ok_or("too little of the packet was captured")?;
    let moment = match when {
        When::About(second) => format!(", {}", moment(Time(second))),
        _ => String::new(),
    };
    let title = format!("packet {} → {}, protocol {}{moment}", packet.source, packet.destination, packet.protocol);
    Ok(Target { invariant, doubt: Doubt::of_packet(packet), subject: Subject::Packets, when, title })
}

fn of_message(path: &Path) -> Result<Target, Failure> {
    let bytes = the_message(path)?;
    let id = Fields::of(&bytes).get("message-id").unwrap_or_default().trim_ascii();
    let id = if id.is_empty() { "without an id".into() } else { String::from_utf8_lossy(id) };
    let title = format!("message {}", printable(&id));
    let when = window_of(&bytes).map_or(When::AnyTime, When::Within);
    let invariant = Invariant::of_message(&bytes);
    Ok(Target { invariant, doubt: None, subject: Subject::Messages, when, title })
}

/// Reads the only message of a file.
fn the_message(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut found = None;
    mailbox::for_each(&[path.to_owned()], StandardInput::Message, |item, _| match item {
        Item::Fault(line) => Err(bad_input(line)),
        Item::Message(_) if found.is_some() => Err(bad_input(format!("{}: more than one message", path.display()))),
        Item::Message(message) => {
            found = Some(message.bytes.to_vec());
            Ok(())
        }
    })?;
    found.ok_or_else(|| bad_input(format!("{}: no message", path.display())))
}
