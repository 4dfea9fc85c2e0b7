//! Half a minute of malformed traffic on every port: other clients are still answered, and memory does not grow.

mod common;

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::wire::{Datagrams, http_check, razor_check, refused_connections, requests};
use common::{Folder, Server};
use rand::rngs::ChaCha8Rng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use socket2::{Domain, Socket, Type};

/// Duration of the malformed traffic.
const DURATION: Duration = Duration::from_secs(30);
/// Time after which the server has allocated all its permanent memory. The test measures memory growth from then on.
const WARM_UP: Duration = Duration::from_secs(5);
/// Maximum growth of memory after the warm-up.
const GROWTH_BYTES_MAX: u64 = 8 << 20;
/// Seed of all random choices.
const SEED: u64 = 6;
/// Maximum length of a UDP datagram.
const DATAGRAM_BYTES_MAX: usize = 65_507;
/// Maximum number of bytes sent on a connection.
const SPEECH_BYTES_MAX: usize = 200_000;
/// Limit on connections. Strangers try to hold [`IDLE_CONNECTIONS`] at each of two ports. Together, these exceed the
/// limit, so new connections displace old ones.
const LIMITS: &str = "[limits]\nconnections = 200\n";
const IDLE_CONNECTIONS: usize = 150;
/// Maximum time to wait for a connection.
const KNOCK: Duration = Duration::from_millis(200);
/// Number of datagrams sent before a pause.
const BURST: usize = 64;
/// Pause after each burst, so that the other threads get a core.
const PAUSE: Duration = Duration::from_millis(5);

#[test]
fn rubbish_neither_stops_the_answers_nor_grows_the_server() {
    let folder = Folder::new();
    let server = Server::start(&folder, LIMITS);
    let known = Known::report(&server);
    let is_over = AtomicBool::new(false);
    let started = Instant::now();
    thread::scope(|scope| {
        let ends = EndsOnDrop(&is_over);
        for (index, protocol) in ["dcc", "pyzor", "fuzzy"].into_iter().enumerate() {
            let (address, is_over, template) = (server.address(protocol), &is_over, request(protocol));
            scope.spawn(move || flood(address, &template, SEED + index as u64, is_over));
        }
        for (index, protocol) in ["razor", "http"].into_iter().enumerate() {
            let (address, is_over) = (server.address(protocol), &is_over);
            scope.spawn(move || rubbish_by_connection(address, SEED + 10 + index as u64, is_over));
            scope.spawn(move || hold_connections(address, SEED + 20 + index as u64, is_over));
        }
        ask_until(&server, &known, started + WARM_UP);
        let before = server.resident_bytes();
        let rounds = ask_until(&server, &known, started + DURATION);
        let after = server.resident_bytes();
        drop(ends);
        assert_rubbish_was_heard(&server);
        assert!(rounds > 10, "only {rounds} rounds of checks in {DURATION:?}");
        assert!(after <= before + GROWTH_BYTES_MAX, "memory grew from {before} to {after} bytes: {}", server.said());
    });
}

/// Asserts that the server received the malformed traffic. The test would be meaningless if it did not.
#[track_caller]
fn assert_rubbish_was_heard(server: &Server) {
    for protocol in ["dcc", "pyzor", "fuzzy"] {
        assert!(requests(server, protocol, "malformed") > 1000, "{protocol}");
    }
    for protocol in ["razor", "http"] {
        let turned_away = ["limited", "malformed", "refused"].map(|answered| requests(server, protocol, answered));
        let count = turned_away.iter().sum::<u64>() + refused_connections(server, protocol);
        assert!(count > 100, "{protocol}: {turned_away:?}");
    }
}

/// Ends the malformed traffic on drop, even if an assertion fails.
struct EndsOnDrop<'a>(&'a AtomicBool);

impl Drop for EndsOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reports made before the malformed traffic starts.
struct Known {
    digest: String,
    sum: [u8; 16],
    fuzzy: [u8; 64],
}

impl Known {
    fn report(server: &Server) -> Self {
        let known =
            Self { digest: "0123456789abcdef0123456789abcdef01234567".to_owned(), sum: [7; 16], fuzzy: [7; 64] };
        assert_eq!(Datagrams::to(server.address("pyzor")).pyzor("report", &known.digest).0, 200);
        Datagrams::to(server.address("dcc")).dcc_report_spam(known.sum);
        Datagrams::to(server.address("fuzzy")).fuzzy_add(known.fuzzy);
        known
    }
}

/// Returns a well-formed request. Malformed data derived from it is parsed further than random bytes. The request does
/// not concern any reported message, because a changed byte may turn it into a revocation by one of the site's own
/// users.
fn request(protocol: &str) -> Vec<u8> {
    match protocol {
        "pyzor" => {
            let digest = "9".repeat(40);
            format!("Op: check\nOp-Digest: {digest}\nThread: 4711\nPV: 2.1\nUser: bob\nTime: 1\nSig: 0\n\n").into()
        }
        "dcc" => [&[0, 62, 12, 3, 0, 0, 0, 1], &[1; 16][..], &[0, 0, 0, 0, 7, 18], &[9; 16], &[0; 16]].concat(),
        _ => [&[4, 0, 32, 1], &[0; 8][..], &[9; 64], &[9; 256]].concat(),
    }
}

/// Checks known and unknown messages over every protocol in a loop, and returns the number of rounds.
#[track_caller]
fn ask_until(server: &Server, known: &Known, end: Instant) -> u64 {
    let mut pyzor = Datagrams::to(server.address("pyzor"));
    let mut dcc = Datagrams::to(server.address("dcc"));
    let mut fuzzy = Datagrams::to(server.address("fuzzy"));
    let mut rounds = 0;
    while Instant::now() < end {
        assert_eq!(pyzor.pyzor("check", &known.digest), (200, Some(5)));
        assert_eq!(pyzor.pyzor("check", &"f".repeat(40)), (200, Some(0)));
        assert!(dcc.dcc_is_many(known.sum));
        assert!(!dcc.dcc_is_many([8; 16]));
        assert_eq!(fuzzy.fuzzy_check(known.fuzzy), (1, 1.0));
        assert_eq!(fuzzy.fuzzy_check([8; 64]), (0, 0.0));
        assert_eq!(razor_check(server.address("razor"), "A1X001hQilUA"), "p=0");
        assert_eq!(http_check(server.address("http"), &known.digest), "spam");
        assert_eq!(http_check(server.address("http"), &"f".repeat(40)), "unknown");
        rounds += 1;
    }
    rounds
}

/// Returns a random loopback address outside the site's own networks.
fn stranger(random: &mut ChaCha8Rng) -> IpAddr {
    Ipv4Addr::new(127, random.random_range(1..=200), random.random(), 1).into()
}

/// Sends datagrams of all lengths, random or almost valid, from strangers' addresses and from the site's own.
fn flood(server: SocketAddr, template: &[u8], seed: u64, is_over: &AtomicBool) {
    let random = &mut ChaCha8Rng::seed_from_u64(seed);
    while !is_over.load(Ordering::Relaxed) {
        let from = if random.random_ratio(1, 8) { Ipv4Addr::LOCALHOST.into() } else { stranger(random) };
        let socket = UdpSocket::bind((from, 0)).unwrap();
        for _ in 0..BURST {
            // Ignore errors: a buffer may be full, or an ICMP error may have arrived.
            let _ = socket.send_to(&rubbish(template, random), server);
        }
        thread::sleep(PAUSE);
    }
}

/// Returns random bytes, or `template` truncated, extended, or with some bytes changed.
fn rubbish(template: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = template.to_vec();
    match random.random_range(0..16) {
        0 => bytes = noise(DATAGRAM_BYTES_MAX, random),
        1..=2 => bytes = noise(1500, random),
        3..=6 => bytes.truncate(random.random_range(0..=template.len())),
        7..=8 => bytes.resize(template.len() + random.random_range(1..1500), 0),
        _ => bytes = changed(bytes, random),
    }
    bytes
}

/// Returns up to `max` random bytes.
fn noise(max: usize, random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = vec![0; random.random_range(0..=max)];
    random.fill_bytes(&mut bytes);
    bytes
}

/// Replaces a few of `bytes` with random bytes.
fn changed(mut bytes: Vec<u8>, random: &mut ChaCha8Rng) -> Vec<u8> {
    for _ in 0..random.random_range(1..8) {
        let index = random.random_range(0..bytes.len());
        bytes[index] = random.random();
    }
    bytes
}

/// Connects, sends malformed data, and disconnects, either at once or after an answer.
fn rubbish_by_connection(server: SocketAddr, seed: u64, is_over: &AtomicBool) {
    let random = &mut ChaCha8Rng::seed_from_u64(seed);
    while !is_over.load(Ordering::Relaxed) {
        // Connect as an own user, because connections from strangers would be refused.
        if let Ok(mut stream) = connect_from(Ipv4Addr::LOCALHOST.into(), server) {
            stream.set_read_timeout(Some(PAUSE)).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
            // The server may close before it has received everything.
            let _ = stream.write_all(&speech(random));
            let _ = stream.read(&mut [0; 512]);
        }
        thread::sleep(PAUSE);
    }
}

/// Connects from a given address.
fn connect_from(from: IpAddr, server: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(server), Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(from, 0).into())?;
    socket.connect_timeout(&server.into(), KNOCK)?;
    Ok(socket.into())
}

/// Returns malformed data for a stream: random bytes, endless lines, missing bodies, or empty batches.
fn speech(random: &mut ChaCha8Rng) -> Vec<u8> {
    match random.random_range(0..7) {
        0 => noise(SPEECH_BYTES_MAX, random),
        1 => vec![b'a'; random.random_range(0..SPEECH_BYTES_MAX)],
        2 => [b"-a=r&message=*\r\n".to_vec(), noise(SPEECH_BYTES_MAX, random)].concat(),
        3 => b"-a=c&e=4&s=x\r\n".repeat(5000),
        4 => b"POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n".to_vec(),
        5 => b"POST /v1/report HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n".repeat(100),
        _ => [b"GET / HTTP/1.1\r\n".to_vec(), b"X: y\r\n".repeat(20_000)].concat(),
    }
}

/// Holds connections that are silent or occasionally send a byte. Replaces the oldest connections with new ones.
fn hold_connections(server: SocketAddr, seed: u64, is_over: &AtomicBool) {
    let random = &mut ChaCha8Rng::seed_from_u64(seed);
    let mut held = VecDeque::new();
    while !is_over.load(Ordering::Relaxed) {
        if held.len() == IDLE_CONNECTIONS {
            held.pop_front();
        }
        held.extend(connect_from(stranger(random), server));
        held.iter_mut().step_by(2).for_each(trickle);
        thread::sleep(PAUSE);
    }
}

/// Sends one more byte if that does not block. Ignores errors, because the server may have closed the connection.
fn trickle(stream: &mut TcpStream) {
    stream.set_nonblocking(true).unwrap();
    let _ = stream.write(b"a");
}
