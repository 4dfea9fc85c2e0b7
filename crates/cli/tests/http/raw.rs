//! HTTP requests written by hand, for tests of requests that no correct client sends.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::Server;

/// Time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns a complete request. Its `Host` is an IP address, unless `fields` contains a `Host`.
pub(crate) fn request(method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
    if !fields.iter().any(|(name, _)| *name == "Host") {
        // Send the host that a browser would send for a page of this server.
        head += "Host: 127.0.0.1\r\n";
    }
    for (name, value) in fields {
        head += format!("{name}: {value}\r\n").as_str();
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

/// A received response.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.head))
    }
}

/// A connection to a server.
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
    address: SocketAddr,
    token: Option<String>,
}

impl Connection {
    pub(crate) fn to(server: &Server) -> Self {
        let address = server.address("http");
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { reader: BufReader::new(stream), address, token: None }
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, request: &[u8]) -> Answer {
        self.write(request);
        self.read()
    }

    /// Sends a token with all further JSON requests.
    pub(crate) fn authorize(&mut self, token: &str) {
        self.token = Some(format!("Bearer {token}"));
    }

    /// Sends a JSON request, and returns the answer.
    #[track_caller]
    pub(crate) fn send(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        let token = self.token.clone();
        let fields = token.iter().map(|token| ("Authorization", token.as_str()));
        let fields: Vec<_> = fields.chain([("Content-Type", "application/json")]).collect();
        self.ask(&request(method, path, &fields, body.to_string().as_bytes()))
    }

    pub(crate) fn write(&self, bytes: &[u8]) {
        // Ignore errors: a server may answer and close before it has read the whole request.
        let _ = self.reader.get_ref().write_all(bytes);
    }

    #[track_caller]
    pub(crate) fn read(&mut self) -> Answer {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(self.reader.read_line(&mut head).unwrap() > 0, "the server closed: {head:?}");
        }
        let field = |name: &str| {
            head.lines().find_map(|line| line.to_lowercase().strip_prefix(name)?.trim().parse::<usize>().ok())
        };
        let mut body = vec![0; field("content-length:").unwrap_or(0)];
        self.reader.read_exact(&mut body).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body }
    }

    /// Waits until the server refuses new connections.
    pub(crate) fn wait_until_refused(&self) {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address).is_ok() {
            assert!(Instant::now() < deadline, "the server still accepts connections");
            std::thread::yield_now();
        }
    }
}
