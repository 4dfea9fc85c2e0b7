//! Measurements of a running `bruit milter`: its cost compared with `bruit sign`, its speed, and its memory.
//!
//! The benchmark plays the MTA. Every message goes to a different recipient, so that the server counts each message.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Error};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bruit_testing::milter::{Answer, Mta, write_command, write_connection, write_message, write_strings};

use crate::mail::{self, Mail};
use crate::report::{Figure, Report, Target};
use crate::server::process::{Processors, Server};
use crate::server::subject::Subject;
use crate::timing::{median, time_of_children};

/// Number of rounds. The result is the median of the rounds.
const ROUNDS: usize = 5;
/// Minimum number of messages per round. Short corpora are repeated.
const MESSAGES_MIN: usize = 3_000;
/// Number of SMTP sessions at the same time while the speed is measured.
const SESSIONS: usize = 8;
/// Number of sessions whose memory is measured. It is below the milter's default limit of sessions.
const IDLE_SESSIONS: usize = 400;
/// Number of processors on which the speed is measured.
const PROCESSORS: usize = 2;
/// Size of the pieces of a body, as in Postfix.
const PIECE_BYTES: usize = 65_535;
/// The address of a client that is not in the milter's own networks.
const CLIENT: &str = "192.0.2.77";
/// Maximum time for an answer of the milter.
const PATIENCE: Duration = Duration::from_secs(60);
/// Memory budget of the server.
const MEMORY: &str = "256MiB";
/// The schemes of a check.
const SCHEMES: &str = "exact,attachment,pyzor,razor,dcc,bruit";

pub(crate) fn figures(report: &mut Report) -> io::Result<()> {
    let Mail { messages, origin } = mail::read()?;
    // Neither the `From ` line of the mbox format nor a NUL byte reaches a milter in a header.
    let messages = messages.into_iter().map(without_mbox_line).filter(|message| !message.contains(&0)).collect();
    let mail = Mail { messages, origin };
    let copies = MESSAGES_MIN.div_ceil(mail.messages.len());
    let encoded: Vec<Vec<u8>> =
        (0..copies).flat_map(|_| mail.messages.iter().map(|message| encoded(message))).collect();
    cost(report, &mail, &encoded, copies)?;
    speed(report, &mail, &encoded)?;
    memory(report, &encoded)
}

/// Compares the CPU time of the milter with that of `bruit sign`, for the same messages.
fn cost(report: &mut Report, mail: &Mail, encoded: &[Vec<u8>], copies: usize) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let processors = Processors::divide()?;
    let site = Site::start(&processors, folder.path())?;
    let files = folder.path().join("mail");
    mail.write_to(&files, copies)?;
    let mut session = site.connect()?;
    let mut rounds = Vec::new();
    for round in 0..=ROUNDS {
        let before = site.milter.cpu_time()?;
        send_all(&mut session, encoded, round * encoded.len())?;
        let milter = site.milter.cpu_time()? - before;
        rounds.push((per_message_us(milter, encoded), per_message_us(time_of_signing(&files)?, encoded)));
    }
    // The first round warms the caches.
    let rounds = &rounds[1..];
    let ratio = median(rounds.iter().map(|(milter, sign)| milter / sign));
    let note = format!(
        "{:.0} µs per message, bruit sign {:.0} µs; {}, {copies} times",
        median(rounds.iter().map(|round| round.0)),
        median(rounds.iter().map(|round| round.1)),
        mail.origin
    );
    report.add(Figure::new("CPU time of bruit milter / CPU time of bruit sign", ratio, Target::AtMost(2.0), note))
}

/// Measures the messages per second when the milter, the server and the MTA share two processors.
fn speed(report: &mut Report, mail: &Mail, encoded: &[Vec<u8>]) -> io::Result<()> {
    let name = "messages per second of a milter and its server on two processors";
    let target = 1_000.0;
    let folder = tempfile::tempdir()?;
    let Ok(processors) = Processors::first(PROCESSORS) else {
        return report.missing(name, &format!(">= {target}"), "needs two processors");
    };
    let site = Site::start(&processors, folder.path())?;
    let mut rates = Vec::new();
    for round in 0..ROUNDS {
        let start = Instant::now();
        send_in_sessions(&site, encoded, round)?;
        rates.push(encoded.len() as f64 / start.elapsed().as_secs_f64());
    }
    let note = format!("{SESSIONS} SMTP sessions at a time, with the load generator; {}", mail.origin);
    report.add(Figure::new(name, median(rates.into_iter()), Target::AtLeast(target), note))
}

fn send_in_sessions(site: &Site, encoded: &[Vec<u8>], round: usize) -> io::Result<()> {
    let size = encoded.len().div_ceil(SESSIONS);
    thread::scope(|scope| {
        let parts = encoded.chunks(size).enumerate();
        let sessions: Vec<_> = parts
            .map(|(at, part)| {
                let first = round * encoded.len() + at * size;
                scope.spawn(move || send_all(&mut site.connect()?, part, first))
            })
            .collect();
        sessions.into_iter().try_for_each(|session| session.join().expect("sessions do not panic"))
    })
}

/// Measures the memory of open sessions, each after one message.
fn memory(report: &mut Report, encoded: &[Vec<u8>]) -> io::Result<()> {
    let folder = tempfile::tempdir()?;
    let site = Site::start(&Processors::divide()?, folder.path())?;
    // The first messages allocate what all sessions share.
    send_in_sessions(&site, encoded, 0)?;
    let before = site.milter.resident_bytes()?;
    let mut sessions = Vec::new();
    for number in 0..IDLE_SESSIONS {
        let mut session = site.connect()?;
        send(&mut session, &encoded[number % encoded.len()], encoded.len() + number)?;
        sessions.push(session);
    }
    let after = site.milter.resident_bytes()?;
    let kib = after.saturating_sub(before) as f64 / 1024.0 / IDLE_SESSIONS as f64;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let note = format!("{IDLE_SESSIONS} sessions; resident memory {:.1} MiB, then {:.1} MiB", mib(before), mib(after));
    report.add(Figure::new("KiB of memory per SMTP session, idle after a message", kib, Target::AtMost(64.0), note))
}

/// A milter and its server.
struct Site {
    milter: Server,
    address: SocketAddr,
    _server: Subject,
}

impl Site {
    fn start(processors: &Processors, folder: &Path) -> io::Result<Self> {
        let server = Subject::start(processors, folder, MEMORY, "")?;
        let (config, log) = (folder.join("milter.toml"), File::create(folder.join("milter.log"))?);
        let url = format!("http://{}", server.address("http")?);
        fs::write(
            &config,
            format!("listen = \"inet:127.0.0.1:0\"\nown_networks = []\n[server]\nurl = {url:?}\ntimeout = \"30s\"\n"),
        )?;
        let mut command = program()?;
        command.arg("milter").arg("--config").arg(&config).stdout(Stdio::piped()).stderr(log);
        let mut milter = processors.start(&mut command)?;
        let lines = BufReader::new(milter.output()?).lines();
        let announced: Vec<String> = lines.map_while(Result::ok).take_while(|line| line != "ready").collect();
        let address =
            announced.iter().find_map(|line| line.trim().strip_prefix("milter")?.trim().strip_prefix("inet:"));
        let address = address.and_then(|address| address.parse().ok());
        let address = address.ok_or_else(|| Error::other(format!("the milter did not start: {announced:?}")))?;
        Ok(Self { milter, address, _server: server })
    }

    /// Opens an SMTP session.
    fn connect(&self) -> io::Result<Mta<TcpStream>> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut mta = Mta::open(stream)?;
        let mut out = Vec::new();
        write_connection(&mut out, "mail.example.net", CLIENT);
        mta.send(&out)?;
        mta.answers()?;
        Ok(mta)
    }
}

fn program() -> io::Result<Command> {
    Ok(Command::new(std::env::current_exe()?.with_file_name("bruit")))
}

fn without_mbox_line(message: Vec<u8>) -> Vec<u8> {
    let line = if message.starts_with(b"From ") { message.iter().position(|byte| *byte == b'\n') } else { None };
    message[line.map_or(0, |end| end + 1)..].to_vec()
}

/// Returns the header fields and the body of a message as an MTA sends them.
fn encoded(message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_message(&mut out, message, PIECE_BYTES);
    write_command(&mut out, b'E', &[]);
    out
}

fn send_all(session: &mut Mta<TcpStream>, encoded: &[Vec<u8>], first: usize) -> io::Result<()> {
    encoded.iter().enumerate().try_for_each(|(at, message)| send(session, message, first + at))
}

/// Sends a message. Fails if it was not checked.
fn send(session: &mut Mta<TcpStream>, encoded: &[u8], number: usize) -> io::Result<()> {
    let mut out = Vec::with_capacity(encoded.len() + 128);
    write_strings(&mut out, b'M', &[b"<sender@mail.example>"]);
    write_strings(&mut out, b'R', &[format!("<user{number}@test.example>").as_bytes()]);
    out.extend_from_slice(encoded);
    session.send(&out)?;
    let answers = session.answers()?;
    let is_tagged =
        |answer: &Answer| matches!(answer, Answer::InsertHeader(_, _, value) if !value.contains("unchecked"));
    if answers.iter().any(is_tagged) { Ok(()) } else { Err(Error::other(format!("not checked: {answers:?}"))) }
}

/// Returns the CPU time of `bruit sign` for all messages of a folder, in the schemes of a check.
fn time_of_signing(files: &Path) -> io::Result<Duration> {
    let before = time_of_children()?;
    let status = program()?.args(["sign", "--scheme", SCHEMES]).arg(files).stdout(Stdio::null()).status()?;
    if !status.success() {
        return Err(Error::other(format!("bruit sign: {status}")));
    }
    Ok(time_of_children()? - before)
}

fn per_message_us(time: Duration, messages: &[Vec<u8>]) -> f64 {
    time.as_secs_f64() * 1e6 / messages.len() as f64
}
