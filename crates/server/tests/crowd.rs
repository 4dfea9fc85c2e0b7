//! Tests with large numbers of strangers. They must not lock out known callers, and their connections must cost little
//! memory.

mod common;

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bruit_federation::keys::NodeKey;
use bruit_federation::transport::Source as _;
use bruit_federation::transport::https::HttpsSource;
use common::Running;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{Domain, SockAddr, Socket, Type};

const TOKEN: &str = "a token of more than sixteen bytes";
const PEER: [u8; 32] = [3; 32];

/// Number of idle connections. They come from so many networks that no network reaches its limit.
const CROWD: usize = 2_000;
const PER_NETWORK: usize = 31;

/// Time limit for a known caller's request.
const PATIENCE: Duration = Duration::from_secs(1);

/// Maximum memory of a silent connection and of a connection with half a request, as stated in
/// docs/operators/sizing.md.
const SILENT_BYTES_MAX: u64 = 12 << 10;
const WAITING_BYTES_MAX: u64 = 32 << 10;

/// Starts a server without own networks, but with a token and a peer.
fn start(limits: &str) -> Running {
    // Both ends of every connection are in this process.
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(16_384), hard).unwrap();
    let peer = NodeKey::generate(PEER).public();
    Running::start(&format!(
        "own_networks = [\"127.0.0.9/32\"]\n{limits}\n[[http.tokens]]\nname = \"mail\"\ntoken = {TOKEN:?}\nadmin = true\n\
         [federation]\nlisten = \"127.0.0.1:0\"\n[[peers]]\nname = \"peer\"\nrelation = \"peer\"\nkey = \"{peer}\"\n"
    ))
}

/// Connects from a loopback address. Every /24 of loopback counts as a network.
fn connect(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SockAddr::from(SocketAddr::from((from, 0)))).unwrap();
    socket.connect(&to.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Opens connections from strangers to HTTP and Razor alternately, and sends `words` on the HTTP connections.
fn crowd(running: &Running, words: &[u8]) -> Vec<TcpStream> {
    let stranger = |at: usize| {
        let network = u8::try_from(at / PER_NETWORK).unwrap();
        let protocol = if at.is_multiple_of(2) { "http" } else { "razor" };
        let mut stream = connect(Ipv4Addr::new(127, 7, network, 1), running.address(protocol));
        if protocol == "http" {
            // The server may already have closed it.
            let _ = stream.write_all(words);
        }
        stream
    };
    (0..CROWD).map(stranger).collect()
}

fn ask(stream: &mut TcpStream, path: &str, fields: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n{fields}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

/// Counts the connections that are still open. They have nothing to read, except perhaps a greeting.
fn open(crowd: &[TcpStream]) -> usize {
    let is_open = |stream: &&TcpStream| {
        stream.set_nonblocking(true).unwrap();
        let mut buffer = [0; 1024];
        let mut stream: &TcpStream = stream;
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
    };
    crowd.iter().filter(is_open).count()
}

fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}

fn assert_known_are_served(running: &Running) {
    let began = Instant::now();
    let mut holder = connect(Ipv4Addr::LOCALHOST, running.address("http"));
    let status = ask(&mut holder, "/v1/stats", &format!("authorization: Bearer {TOKEN}\r\n"));
    assert!(status.contains(" 200 ") && began.elapsed() < PATIENCE, "{status}: {:?}", began.elapsed());

    let began = Instant::now();
    let url = format!("https://{}", running.address("federation"));
    let source = HttpsSource::pinned(&url, *running.server.key().public().as_bytes(), Some(&PEER)).unwrap();
    let offer = running.server.runtime().block_on(source.offer(&[], Duration::ZERO));
    assert!(offer.is_ok() && began.elapsed() < PATIENCE, "{:?}: {:?}", offer.err(), began.elapsed());

    let began = Instant::now();
    let mut own = connect(Ipv4Addr::new(127, 0, 0, 9), running.address("http"));
    let status = ask(&mut own, "/v1/health", "");
    assert!(status.contains(" 204 ") && began.elapsed() < PATIENCE, "{status}: {:?}", began.elapsed());
}

#[test]
fn two_thousand_idle_strangers_keep_nobody_out() {
    let running = start("");
    let crowd = crowd(&running, b"GET / HTTP/1.1\r\n");
    assert_known_are_served(&running);
    // The network of another stranger is not affected.
    let mut another = connect(Ipv4Addr::new(127, 8, 0, 1), running.address("http"));
    assert!(ask(&mut another, "/v1/health", "").contains(" 204 "));
    // The ended connections close a moment later.
    let began = Instant::now();
    while !(1..=704).contains(&open(&crowd)) {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{} strangers are connected: expected at most 11/16 of the connections",
            open(&crowd)
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_connection_that_showed_a_token_outlives_the_crowd() {
    let running = start("");
    let mut holder = connect(Ipv4Addr::LOCALHOST, running.address("http"));
    let request = format!("GET /v1/health HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {TOKEN}\r\n\r\n");
    for _ in 0..2 {
        holder.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 1024];
        let bytes = holder.read(&mut answer).unwrap();
        assert!(answer[..bytes].starts_with(b"HTTP/1.1 204 "), "{bytes} bytes");
        drop(crowd(&running, b""));
    }
}

/// Asserts that each connection uses at most `bytes_max` of memory. Every second connection sends `words`.
#[expect(clippy::print_stdout, reason = "docs/operators/sizing.md has the figure")]
fn assert_cheap(words: &[u8], bytes_max: u64) {
    let running = start("[limits]\nconnections = 4096");
    assert_known_are_served(&running);
    let before = resident_bytes();
    let crowd = crowd(&running, words);
    std::thread::sleep(Duration::from_secs(1));
    let grown = resident_bytes().saturating_sub(before);
    assert_eq!(open(&crowd), CROWD, "all connections stay open");
    println!("{CROWD} connections, half of which sent {} bytes: {} KiB", words.len(), grown >> 10);
    assert!(grown <= CROWD as u64 * bytes_max, "{grown} bytes for {CROWD} connections");
}

#[test]
fn silent_strangers_take_no_more_memory_than_is_documented() {
    assert_cheap(b"", SILENT_BYTES_MAX);
}

#[test]
fn strangers_with_half_a_request_take_no_more_memory_than_is_documented() {
    let words = [&b"GET / HTTP/1.1\r\nx: "[..], &b"y".repeat(6_000)].concat();
    assert_cheap(&words, WAITING_BYTES_MAX);
}
