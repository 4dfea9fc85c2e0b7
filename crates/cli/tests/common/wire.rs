//! Requests encoded by hand, byte for byte as other clients send them, for tests that need thousands of requests or
//! cannot run a client.
//!
//! This module shares no code with our own codecs. Otherwise, both sides could contain the same error, and no test
//! would fail.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use super::Server;

/// Maximum number of times that a datagram is sent. Real clients retry, too.
const ATTEMPTS: usize = 4;
/// Time to wait for an answer after each attempt.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time limit for an answer on a stream.
const STREAM_PATIENCE: Duration = Duration::from_secs(10);
/// Size of the receive buffer, longer than any reply.
const REPLY_BYTES_MAX: usize = 2048;

/// Lengths of a request and of a reply in the fuzzy protocol.
const FUZZY_REQUEST_BYTES: usize = 76;
const FUZZY_REPLY_BYTES: usize = 96;
/// DCC's flag for spam, which a report adds to the number of targets, and DCC's count "many" in a reply.
const DCC_SPAM: u32 = 0x0100_0000;
const DCC_MANY: u32 = 0x00ff_fff0;
/// DCC's ID for anonymous clients, and its type number for body checksums.
const DCC_ANONYMOUS: u32 = 1;
const DCC_BODY: u8 = 7;

/// A UDP socket for one server.
pub(crate) struct Datagrams {
    socket: UdpSocket,
    /// Number of the last request. Each request contains its number, so that a late answer is not matched with another
    /// request.
    thread: u32,
}

impl Datagrams {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, thread: 1024 }
    }

    /// Sends `request`, repeatedly if necessary, until `is_reply` accepts a received datagram.
    #[track_caller]
    fn ask(&self, request: &[u8], is_reply: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let mut buffer = [0; REPLY_BYTES_MAX];
        for _ in 0..ATTEMPTS {
            self.socket.send(request).unwrap();
            while let Ok(length) = self.socket.recv(&mut buffer) {
                if is_reply(&buffer[..length]) {
                    return buffer[..length].to_vec();
                }
            }
        }
        panic!("no answer to {}", request.escape_ascii());
    }

    fn next_thread(&mut self) -> u32 {
        // Pyzor clients choose numbers from 1024 to 65535.
        self.thread = if self.thread == 65_535 { 1024 } else { self.thread + 1 };
        self.thread
    }

    /// Sends a Pyzor request for a digest; `operation` is check or report. Returns the code, and the count if the reply
    /// has one.
    #[track_caller]
    pub(crate) fn pyzor(&mut self, operation: &str, digest: &str) -> (u32, Option<u64>) {
        let thread = self.next_thread();
        let request = format!("Op: {operation}\nOp-Digest: {digest}\nThread: {thread}\nPV: 2.1\n\n");
        let field = |reply: &str, name: &str| {
            let value = reply.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            value.trim().parse::<u64>().ok()
        };
        let text = |reply: &[u8]| String::from_utf8(reply.to_vec()).unwrap();
        let is_reply = |reply: &[u8]| field(&text(reply), "Thread") == Some(u64::from(thread));
        let reply = text(&self.ask(request.as_bytes(), is_reply));
        (u32::try_from(field(&reply, "Code").unwrap()).unwrap(), field(&reply, "Count"))
    }

    /// Returns true if DCC's count for a body checksum is "many".
    #[track_caller]
    pub(crate) fn dcc_is_many(&mut self, sum: [u8; 16]) -> bool {
        self.dcc(3, 0, sum) == DCC_MANY
    }

    /// Reports a body as spam over DCC.
    #[track_caller]
    pub(crate) fn dcc_report_spam(&mut self, sum: [u8; 16]) {
        assert_eq!(self.dcc(2, DCC_SPAM | 1, sum), DCC_MANY);
    }

    /// Counts recipients of a body, and returns DCC's total.
    #[track_caller]
    pub(crate) fn dcc_count(&mut self, targets: u32, sum: [u8; 16]) -> u32 {
        self.dcc(2, targets, sum)
    }

    /// Returns DCC's total for a body, without counting.
    #[track_caller]
    pub(crate) fn dcc_total(&mut self, sum: [u8; 16]) -> u32 {
        self.dcc(3, 0, sum)
    }

    /// Sends a DCC request, and returns the current count in the reply.
    #[track_caller]
    fn dcc(&mut self, operation: u8, targets: u32, sum: [u8; 16]) -> u32 {
        let thread = self.next_thread().to_be_bytes();
        let mut request = vec![0, 62, 12, operation];
        request.extend(DCC_ANONYMOUS.to_be_bytes());
        // IDs of the host, the process, the request and the transmission.
        request.extend([*b"test", *b"proc", thread, [0; 4]].concat());
        request.extend(targets.to_be_bytes());
        request.extend([DCC_BODY, 18]);
        request.extend(sum);
        // Anonymous clients send zeros as the signature.
        request.extend([0; 16]);
        let reply = self.ask(&request, |reply| reply.len() == 48 && reply[16..20] == thread);
        assert_eq!(reply[3], 4, "{reply:?}");
        u32::from_be_bytes(reply[24..28].try_into().unwrap())
    }

    /// Checks a digest with the fuzzy protocol, and returns the flag and probability in the reply.
    #[track_caller]
    pub(crate) fn fuzzy_check(&mut self, digest: [u8; 64]) -> (u32, f32) {
        let reply = self.fuzzy(0, 0, digest);
        (word(&reply, 4), f32::from_bits(word(&reply, 12)))
    }

    /// Adds a digest to list 1 with the fuzzy protocol.
    #[track_caller]
    pub(crate) fn fuzzy_add(&mut self, digest: [u8; 64]) {
        let reply = self.fuzzy(1, 10, digest);
        assert!(f32::from_bits(word(&reply, 12)) > 0.5, "{reply:?}");
    }

    #[track_caller]
    fn fuzzy(&mut self, command: u8, value: u32, digest: [u8; 64]) -> Vec<u8> {
        let tag = self.next_thread();
        let mut request = vec![4, command, 0, u8::from(command != 0)];
        request.extend(value.to_le_bytes());
        request.extend(tag.to_le_bytes());
        request.extend(digest);
        assert_eq!(request.len(), FUZZY_REQUEST_BYTES);
        self.ask(&request, |reply| reply.len() == FUZZY_REPLY_BYTES && word(reply, 8) == tag)
    }
}

/// Returns the little-endian number at `offset`.
fn word(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(bytes[offset..offset + 4].try_into().unwrap())
}

/// Checks one signature with a Razor server, on a new connection. Returns the reply line.
#[track_caller]
pub(crate) fn razor_check(server: SocketAddr, signature: &str) -> String {
    razor_ask(server, &format!("e=8&s={signature}"))
}

/// Checks one signature of engine 4 with a Razor server, on a new connection. Returns the reply line.
#[track_caller]
pub(crate) fn razor_check_part(server: SocketAddr, signature: &str) -> String {
    razor_ask(server, &format!("e=4&ep4=7542-10&s={signature}"))
}

#[track_caller]
fn razor_ask(server: SocketAddr, question: &str) -> String {
    let mut stream = connect(server);
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(line.contains("sn="), "{line}");
    write!(stream, "cn=razor-agents&cv=2.84\r\na=c&{question}\r\n").unwrap();
    line.clear();
    lines.read_line(&mut line).unwrap();
    stream.write_all(b"a=q\r\n").unwrap();
    line.trim_end().to_owned()
}

/// Returns the verdict on a Pyzor digest over HTTP.
#[track_caller]
pub(crate) fn http_check(server: SocketAddr, digest: &str) -> String {
    let body = format!(r#"{{"signatures":[{{"scheme":"pyzor","value":"{digest}"}}]}}"#);
    let length = body.len();
    let fields = format!("Content-Type: application/json\r\nContent-Length: {length}\r\n");
    let checked: serde_json::Value = serde_json::from_str(&http(server, "POST /v1/check", &fields, &body)).unwrap();
    checked["verdict"].as_str().unwrap().to_owned()
}

/// Returns the number of requests of `protocol` with the result `answered`, from the metrics.
#[track_caller]
pub(crate) fn requests(server: &Server, protocol: &str, answered: &str) -> u64 {
    count(&metrics(server), &format!("bruit_requests_total{{protocol=\"{protocol}\",answered=\"{answered}\"}}"))
}

/// Returns the number of connections of `protocol` that the server refused, from the metrics.
#[track_caller]
pub(crate) fn refused_connections(server: &Server, protocol: &str) -> u64 {
    count(&metrics(server), &format!("bruit_connections_refused_total{{protocol=\"{protocol}\"}}"))
}

/// Returns the contents of `/metrics`.
#[track_caller]
pub(crate) fn metrics(server: &Server) -> String {
    let authorization = format!("Authorization: Bearer {}\r\n", server.token());
    http(server.address("http"), "GET /metrics", &authorization, "")
}

/// Returns the value of a metric, given its name and labels, as a whole number.
#[track_caller]
pub(crate) fn count(metrics: &str, name: &str) -> u64 {
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().unwrap()
}

/// Returns the body of an HTTP response.
#[track_caller]
fn http(server: SocketAddr, request: &str, fields: &str, body: &str) -> String {
    let mut stream = connect(server);
    write!(stream, "{request} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n{fields}\r\n{body}").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{reply}");
    body.to_owned()
}

/// Opens a connection with a time limit and without Nagle's algorithm.
fn connect(server: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&server, STREAM_PATIENCE).unwrap();
    stream.set_read_timeout(Some(STREAM_PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}
