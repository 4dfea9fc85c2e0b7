//! Measurements of Razor checks over one connection: one at a time, and in the largest batches that clients send.

use std::io::{self, BufRead, BufReader, Error, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bruit_protocols::http::{NamedSignature, SIGNATURES_MAX, Subject as About};
use bruit_protocols::razor::{Reply, Signature};
use bruit_signatures::razor::{E8Signature, Ep4};
use bruit_testing::razor::{read_reply, write_checks};

use super::requests::bytes_of;
use super::subject::Subject;
use crate::report::{Figure, Report, Target};
use crate::timing::median;

/// Number of rounds. The result is the median of the rounds.
const ROUNDS: usize = 5;
/// Number of checks in a round.
const CHECKS: usize = 10_000;
/// Numbers of checks per request: the batch size of clients, and 1.
const BATCHES: [usize; 2] = [50, 1];
/// Number of reports, each with [`SIGNATURES_MAX`] signatures. They are sent over HTTP, because Razor reports would
/// need whole messages.
const REPORTS: usize = 8;
const KNOWN: usize = REPORTS * SIGNATURES_MAX;
/// Maximum time to wait for a reply.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) fn figures(report: &mut Report, subject: &Subject) -> io::Result<()> {
    report_known(subject.address("http")?)?;
    let mut connection = Connection::open(subject.address("razor")?)?;
    for batch in BATCHES {
        let mut rates = Vec::new();
        for round in 0..ROUNDS {
            let before = subject.cpu_time()?;
            connection.check_all(round, batch)?;
            let used = subject.cpu_time()? - before;
            rates.push(CHECKS as f64 / used.as_secs_f64());
        }
        let rate = median(rates.into_iter());
        let name = format!("Razor checks per CPU second, {batch} per request, one connection");
        report.add(Figure::new(name, rate, Target::None, format!("{:.2} us of CPU", 1e6 / rate)))?;
    }
    Ok(())
}

/// Returns signature number `number`.
fn signature(number: u64) -> E8Signature {
    E8Signature(bytes_of(number, 5))
}

fn report_known(http: SocketAddr) -> io::Result<()> {
    for first in (0..KNOWN).step_by(SIGNATURES_MAX) {
        let named = |number: usize| NamedSignature {
            scheme: "razor_e8".to_owned(),
            value: signature(number as u64).to_string(),
            piece: None,
        };
        let about = About { signatures: (first..first + SIGNATURES_MAX).map(named).collect(), ..About::default() };
        post(http, "/v1/report", &serde_json::to_vec(&about)?)?;
    }
    Ok(())
}

/// Sends one request over HTTP. Fails if the server does not accept it.
fn post(http: SocketAddr, path: &str, body: &[u8]) -> io::Result<()> {
    let mut stream = TcpStream::connect(http)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.1\r\nHost: {http}\r\nContent-Type: application/json\r\n")?;
    write!(stream, "Content-Length: {length}\r\nConnection: close\r\n\r\n")?;
    stream.write_all(body)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 200 ") { Ok(()) } else { Err(Error::other(answer)) }
}

struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut stream = BufReader::new(stream);
        stream.read_line(&mut String::new())?;
        stream.get_mut().write_all(b"cn=razor-agents&cv=2.84\r\n")?;
        Ok(Self { stream })
    }

    /// Sends [`CHECKS`] checks. Every second check is for a known signature.
    fn check_all(&mut self, round: usize, batch: usize) -> io::Result<()> {
        let ep4 = Ep4::default();
        for first in (0..CHECKS).step_by(batch) {
            let is_known = |at: usize| (first + at).is_multiple_of(2);
            let number = |at: usize| {
                if is_known(at) { (round * CHECKS + first + at) % KNOWN } else { KNOWN + round * CHECKS + first + at }
            };
            let signatures: Vec<Signature> = (0..batch).map(|at| Signature::E8(signature(number(at) as u64))).collect();
            let mut request = Vec::new();
            write_checks(&mut request, &signatures, &ep4);
            let replies = self.ask(&request)?;
            let is_right = |(at, reply): (usize, &Reply)| !is_known(at) || matches!(reply, Reply::Spam { .. });
            if replies.len() != batch || !replies.iter().enumerate().all(is_right) {
                return Err(Error::other(format!("wrong replies to Razor checks: {replies:?}")));
            }
        }
        Ok(())
    }

    fn ask(&mut self, request: &[u8]) -> io::Result<Vec<Reply>> {
        self.stream.get_mut().write_all(request)?;
        let mut bytes = Vec::new();
        loop {
            let more = self.stream.fill_buf()?;
            if more.is_empty() {
                return Err(Error::other("the server closed the connection"));
            }
            bytes.extend_from_slice(more);
            let length = more.len();
            self.stream.consume(length);
            if let Some((replies, _)) = read_reply(&bytes).map_err(Error::other)? {
                return Ok(replies);
            }
        }
    }
}
