//! The static program beside the dynamic one: both are compiled in release mode, and rounds with each alternate in one
//! run. `docs/design/choices.md` has the decision that depends on these figures.

use std::env;
use std::fs;
use std::io::{self, Error};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::footprint::Known;
use super::process::Processors;
use super::requests::dcc::Sums;
use super::requests::{Kind, SignatureRange, pyzor};
use super::rounds::{Rounds, WINDOW};
use super::subject::Subject;
use crate::mail::{self, Mail};
use crate::report::{Figure, Report, Target};
use crate::timing::{median, time_of_children};

/// Variable that names a static program. If it is not set, the benchmark builds one.
const STATIC: &str = "BRUIT_STATIC";
/// The target of the published programs.
const TARGET: &str = "x86_64-unknown-linux-musl";

/// Number of rounds with each program. The result is the median of the ratios.
const ROUNDS: usize = 7;
/// Number of requests over UDP in a round.
const REQUESTS: usize = 20_000;
/// Minimum number of messages in a round. Short corpora are repeated.
const MESSAGES_MIN: usize = 2_000;
/// Signatures that the servers know.
const KNOWN: Known = Known { pyzor: 100_000, dcc: 30_000, texts: 0 };
/// Memory budget of the servers.
const MEMORY: &str = "256MiB";

/// A figure: its name, and the highest ratio at which the published programs stay static.
struct Row {
    name: &'static str,
    most: f64,
}

/// The figures in the order in which [`Site::measure`] returns them. All are processor time in microseconds.
const ROWS: [Row; 5] = [
    Row { name: "a Pyzor check, server", most: 1.15 },
    Row { name: "a DCC query, server", most: 1.15 },
    Row { name: "bruit check of a message, server", most: 1.75 },
    Row { name: "bruit check of a message, client", most: 2.0 },
    Row { name: "bruit sign of a message", most: 2.0 },
];

pub(crate) fn figures(report: &mut Report) -> io::Result<()> {
    let program = match static_program() {
        Ok(program) => program,
        Err(error) => {
            return report.missing("static program / dynamic program", "", &format!("needs a static program: {error}"));
        }
    };
    let folder = tempfile::tempdir()?;
    let mail = mail::read()?;
    let copies = MESSAGES_MIN.div_ceil(mail.messages.len());
    let messages = folder.path().join("mail");
    mail.write_to(&messages, copies)?;
    let count = mail.messages.len() * copies;
    let processors = Processors::divide()?;
    let rounds = Rounds::with_window(WINDOW);
    let dynamic = env::current_exe()?.with_file_name("bruit");
    let sites = [("dynamic", &dynamic), ("static", &program)];
    let [dynamic, fixed] =
        sites.map(|(name, program)| Site::start(&processors, &rounds, &folder.path().join(name), program));
    let (dynamic, fixed) = (dynamic?, fixed?);
    let mut found = Vec::new();
    for _ in 0..=ROUNDS {
        found.push((dynamic.measure(&rounds, &messages, count)?, fixed.measure(&rounds, &messages, count)?));
    }
    // The first round warms the caches.
    compare(report, &found[1..], &mail)?;
    memory(report, &dynamic, &fixed)
}

/// Adds a figure for each row.
fn compare(report: &mut Report, found: &[([f64; 5], [f64; 5])], mail: &Mail) -> io::Result<()> {
    for (at, Row { name, most }) in ROWS.iter().enumerate() {
        let ratio = median(found.iter().map(|(dynamic, fixed)| fixed[at] / dynamic[at]));
        let (dynamic, fixed) =
            (median(found.iter().map(|pair| pair.0[at])), median(found.iter().map(|pair| pair.1[at])));
        let note = format!("{fixed:.2} and {dynamic:.2} µs, {ROUNDS} alternate rounds; {}", mail.origin);
        let name = format!("CPU time of the static program / the dynamic one: {name}");
        report.add(Figure::new(name, ratio, Target::AtMost(*most), note))?;
    }
    Ok(())
}

/// Compares the memory of both servers after the rounds.
fn memory(report: &mut Report, dynamic: &Site, fixed: &Site) -> io::Result<()> {
    let mib = |site: &Site| Ok::<_, Error>(site.subject.server.resident_bytes()? as f64 / f64::from(1 << 20));
    let (dynamic, fixed) = (mib(dynamic)?, mib(fixed)?);
    let note = format!("{fixed:.0} and {dynamic:.0} MiB resident, budget {MEMORY}");
    let name = "memory of the static server / the dynamic one";
    report.add(Figure::new(name, fixed / dynamic, Target::AtMost(1.1), note))
}

/// A program and a server that runs it.
struct Site {
    program: PathBuf,
    subject: Subject,
}

impl Site {
    fn start(processors: &Processors, rounds: &Rounds, folder: &Path, program: &Path) -> io::Result<Self> {
        fs::create_dir(folder)?;
        let subject = Subject::start_program(program, processors, folder, MEMORY, "")?;
        KNOWN.report_to(&subject, rounds, |_, _| Ok(()))?;
        Ok(Self { program: program.to_owned(), subject })
    }

    /// Runs a round. Returns the CPU time in microseconds for each of [`ROWS`]. `messages` is a folder of `count`
    /// messages.
    fn measure(&self, rounds: &Rounds, messages: &Path, count: usize) -> io::Result<[f64; 5]> {
        let pyzor = self.udp(rounds, "pyzor", &pyzor::Check, KNOWN.pyzor)?;
        let dcc = self.udp(rounds, "dcc", &Sums { is_report: false, is_signed: false }, KNOWN.dcc)?;
        let url = format!("http://{}", self.subject.address("http")?);
        let before = self.subject.cpu_time()?;
        let client = self.run(&["check", "--json", "--server", &url], messages)?;
        let server = self.subject.cpu_time()? - before;
        let sign = self.run(&["sign", "--json"], messages)?;
        let per_message = |time: Duration| time.as_secs_f64() * 1e6 / count as f64;
        Ok([pyzor, dcc, per_message(server), per_message(client), per_message(sign)])
    }

    /// Returns the CPU time of the server for a request over UDP, in microseconds.
    fn udp(&self, rounds: &Rounds, protocol: &str, kind: &dyn Kind, known: u64) -> io::Result<f64> {
        let requests = rounds.requests(kind, REQUESTS, SignatureRange::HalfBelow(known));
        let round = rounds.measure(self.subject.address(protocol)?, &requests, || self.subject.cpu_time())?;
        Ok(1e6 / round.per_cpu_second)
    }

    /// Runs a verb on all messages. Returns the CPU time of its process.
    fn run(&self, arguments: &[&str], messages: &Path) -> io::Result<Duration> {
        let before = time_of_children()?;
        let mut command = Command::new(&self.program);
        let status = command.args(arguments).arg(messages).stdout(Stdio::null()).status()?;
        // A check also exits with 1 (unknown) or 3 (bulk).
        if !matches!(status.code(), Some(0 | 1 | 3)) {
            return Err(Error::other(format!("bruit {}: {status}", arguments.join(" "))));
        }
        Ok(time_of_children()? - before)
    }
}

/// Returns the path of a static program, which is built if `BRUIT_STATIC` does not name one.
fn static_program() -> io::Result<PathBuf> {
    if let Some(program) = env::var_os(STATIC) {
        return Ok(program.into());
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--locked", "--package", "bruit", "--target", TARGET]);
    build.current_dir(env!("CARGO_MANIFEST_DIR")).env("CC_x86_64_unknown_linux_musl", "musl-gcc");
    let status = build.stdout(Stdio::null()).status()?;
    if !status.success() {
        return Err(Error::other(format!("`cargo build --target {TARGET}` failed: {status}")));
    }
    let benchmark = env::current_exe()?;
    let target_directory = benchmark.ancestors().nth(2).ok_or_else(|| Error::other("no target directory"))?;
    Ok(target_directory.join(TARGET).join("release/bruit"))
}
