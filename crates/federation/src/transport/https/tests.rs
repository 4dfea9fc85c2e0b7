//! Hosts of all kinds over loopback: the requests they get, and the handling of their responses.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bruit_engine::exchange::{Book, Origin};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::*;

const CHAIN: Chain = Chain { origin: Origin { key: [7; 32], incarnation: 1 }, book: Book::Listed, generation: 9 };

/// A host with prepared responses that records the requests. An empty response closes the connection.
struct Host {
    address: SocketAddr,
    heard: Arc<Mutex<Requests>>,
}

#[derive(Default)]
struct Requests {
    requests: Vec<String>,
    connections: usize,
}

impl Host {
    async fn start(answers: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Arc::new(Mutex::new(Requests::default()));
        let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
        let host = Self { address, heard: Arc::clone(&heard) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                heard.lock().unwrap().connections += 1;
                tokio::spawn(answer(stream, Arc::clone(&heard), Arc::clone(&answers)));
            }
        });
        host
    }

    fn source(&self) -> HttpsSource {
        HttpsSource::web(&format!("http://{}/files/", self.address)).unwrap()
    }

    fn requests(&self) -> Vec<String> {
        self.heard.lock().unwrap().requests.clone()
    }

    fn connections(&self) -> usize {
        self.heard.lock().unwrap().connections
    }
}

async fn answer(mut stream: TcpStream, heard: Arc<Mutex<Requests>>, answers: Arc<Mutex<VecDeque<Vec<u8>>>>) {
    let mut request = Vec::new();
    while let Ok(byte) = stream.read_u8().await {
        request.push(byte);
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        heard.lock().unwrap().requests.push(String::from_utf8(std::mem::take(&mut request)).unwrap());
        let answer = answers.lock().unwrap().pop_front().expect("an answer is prepared");
        if answer.is_empty() || stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

fn reply(status: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{fields}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn an_offer_has_the_name_that_its_server_gives_it() {
    let host = Host::start(vec![reply("200 OK", "etag: \"0aff\"\r\n", b"heads")]).await;
    let offer = host.source().offer(&[], Duration::ZERO).await.unwrap();
    assert_eq!(offer, Offer { tag: vec![0x0a, 0xff], heads: b"heads".to_vec() });
    let request = &host.requests()[0];
    assert!(request.starts_with("GET /files/offer HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("host: {}\r\n", host.address)), "{request}");
}

#[tokio::test]
async fn a_server_is_told_what_was_seen_and_how_long_to_wait() {
    let answers = vec![reply("200 OK", "etag: \"01\"\r\n", b"a"), reply("200 OK", "etag: \"02\"\r\n", b"b")];
    let host = Host::start(answers).await;
    let source = host.source().with_token("secret").unwrap();
    source.offer(&[], Duration::ZERO).await.unwrap();
    let offer = source.offer(&[1], Duration::from_millis(1_500)).await.unwrap();
    assert_eq!(offer.heads, b"b");
    let request = &host.requests()[1];
    assert!(request.starts_with("GET /files/offer?seen=01&wait=2 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("if-none-match: \"01\"\r\n") && request.contains("authorization: Bearer secret\r\n"));
    assert_eq!(host.connections(), 1, "connections are reused");
}

#[tokio::test]
async fn an_unmodified_offer_is_returned_again() {
    let same = reply("304 Not Modified", "etag: \"5-abc\"\r\n", b"");
    let host = Host::start(vec![reply("200 OK", "etag: \"5-abc\"\r\n", b"heads"), same.clone(), same]).await;
    let source = host.source();
    let first = source.offer(&[], Duration::ZERO).await.unwrap();
    assert_eq!(first.tag, Sha256::digest(b"heads").to_vec(), "static hosts have tags of their own");
    assert_eq!(source.offer(&first.tag, Duration::ZERO).await.unwrap(), first);
    let other = source.offer(b"other", Duration::ZERO).await;
    assert!(matches!(other, Err(TransportError::Malformed(_))), "the request was not conditional");
}

#[tokio::test]
async fn a_host_that_does_not_wait_is_asked_again() {
    let old = || reply("200 OK", "", b"old");
    let host = Host::start(vec![old(), old(), old(), reply("200 OK", "", b"new")]).await;
    let source = host.source();
    let first = source.offer(&[], Duration::ZERO).await.unwrap();
    // From now on, time advances automatically whenever all tasks are idle.
    tokio::time::pause();
    let begin = Instant::now();
    let second = source.offer(&first.tag, 3 * POLL).await.unwrap();
    assert_eq!(second.heads, b"new");
    assert!((2 * POLL..3 * POLL).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    assert_eq!(host.requests().len(), 4);
}

#[tokio::test]
async fn the_same_again_if_nothing_new_comes() {
    let old = || reply("200 OK", "", b"old");
    let host = Host::start(vec![old(), old(), old()]).await;
    let source = host.source();
    let first = source.offer(&[], Duration::ZERO).await.unwrap();
    tokio::time::pause();
    let begin = Instant::now();
    assert_eq!(source.offer(&first.tag, POLL).await.unwrap(), first);
    assert!(begin.elapsed() >= POLL && begin.elapsed() < 2 * POLL);
}

#[tokio::test]
async fn a_log_is_fetched_from_an_offset() {
    let host = Host::start(vec![reply("206 Partial Content", "content-range: bytes 3-5/6\r\n", b"def")]).await;
    assert_eq!(host.source().fetch(&CHAIN, 3).await.unwrap(), b"def");
    let request = &host.requests()[0];
    assert!(request.starts_with(&format!("GET /files/log/{}/1/listed/9 HTTP/1.1\r\n", "07".repeat(32))), "{request}");
    assert!(request.contains(&format!("range: bytes=3-{}\r\n", 3 + FETCH_BYTES_MAX - 1)), "{request}");
}

#[tokio::test]
async fn a_host_without_ranges_sends_everything_and_the_beginning_is_passed_over() {
    let all = || reply("200 OK", "", b"abcdef");
    let host = Host::start(vec![all(), all(), all()]).await;
    let source = host.source();
    assert_eq!(source.fetch(&CHAIN, 3).await.unwrap(), b"def");
    assert_eq!(source.fetch(&CHAIN, 6).await.unwrap(), b"");
    assert_eq!(source.fetch(&CHAIN, 7).await.unwrap(), b"");
}

#[tokio::test]
async fn an_empty_range_is_an_empty_log() {
    let host = Host::start(vec![reply("416 Range Not Satisfiable", "content-range: bytes */6\r\n", b"no")]).await;
    assert_eq!(host.source().fetch(&CHAIN, 6).await.unwrap(), b"");
}

#[tokio::test]
async fn error_statuses_become_errors() {
    let answers = ["404 Not Found", "410 Gone", "403 Forbidden", "503 Service Unavailable", "302 Found"];
    let host = Host::start(answers.map(|status| reply(status, "location: http://x/\r\n", b"why")).to_vec()).await;
    let source = host.source();
    assert!(matches!(source.fetch(&CHAIN, 0).await, Err(TransportError::Missing)));
    assert!(matches!(source.offer(&[], Duration::ZERO).await, Err(TransportError::Missing)));
    for status in ["403", "503"] {
        let error = source.fetch(&CHAIN, 0).await.unwrap_err();
        assert!(matches!(&error, TransportError::Refused(why) if why.contains(status)), "{error}");
    }
    assert!(matches!(source.fetch(&CHAIN, 0).await, Err(TransportError::Malformed(_))), "redirects are not followed");
}

#[tokio::test]
async fn a_range_other_than_the_requested_one_is_refused() {
    let part = |fields: &str| reply("206 Partial Content", fields, b"def");
    let answers = ["content-range: bytes 2-4/6\r\n", "", "content-range: bytes */6\r\n"].map(part).to_vec();
    let host = Host::start(answers).await;
    let source = host.source();
    for _ in 0..3 {
        assert!(matches!(source.fetch(&CHAIN, 3).await, Err(TransportError::Malformed(_))));
    }
}

#[tokio::test]
async fn the_largest_answers_are_read_and_larger_ones_refused() {
    let (offer, log) = (vec![1; OFFER_BYTES_MAX + 1], vec![2; FETCH_BYTES_MAX + 1]);
    let part = |body: &[u8]| reply("206 Partial Content", "content-range: bytes 0-1/2\r\n", body);
    let host = Host::start(vec![
        reply("200 OK", "", &offer[1..]),
        reply("200 OK", "", &offer),
        part(&log[1..]),
        part(&log),
        reply("200 OK", "", &log),
    ])
    .await;
    let source = host.source();
    assert_eq!(source.offer(&[], Duration::ZERO).await.unwrap().heads.len(), OFFER_BYTES_MAX);
    let larger = source.offer(&[], Duration::ZERO).await;
    assert!(matches!(larger, Err(TransportError::TooLarge { max: OFFER_BYTES_MAX })));
    assert_eq!(source.fetch(&CHAIN, 0).await.unwrap().len(), FETCH_BYTES_MAX);
    let larger = source.fetch(&CHAIN, 0).await;
    assert!(matches!(larger, Err(TransportError::TooLarge { max: FETCH_BYTES_MAX })));
    assert_eq!(source.fetch(&CHAIN, 0).await.unwrap().len(), FETCH_BYTES_MAX, "without ranges, the beginning");
}

#[tokio::test]
async fn an_answer_that_ends_too_early_or_never_begins_is_no_answer() {
    let mut short = reply("200 OK", "", b"heads");
    short.pop();
    let endless = [b"HTTP/1.1 200 OK\r\nx: ".as_slice(), &[b'x'; 20 << 10]].concat();
    let host = Host::start(vec![[short.as_slice(), b""].concat(), endless]).await;
    let source = host.source();
    tokio::time::pause();
    for _ in 0..2 {
        let error = source.offer(&[], Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, TransportError::Unreachable(_)), "{error}");
    }
}

#[tokio::test]
async fn a_kept_connection_that_has_ended_is_replaced() {
    let host = Host::start(vec![reply("200 OK", "", b"a"), Vec::new(), reply("200 OK", "", b"b")]).await;
    let source = host.source();
    source.offer(&[], Duration::ZERO).await.unwrap();
    assert_eq!(source.offer(&[], Duration::ZERO).await.unwrap().heads, b"b");
    assert_eq!(host.connections(), 2);
}

#[tokio::test]
async fn an_absent_server_and_a_wrong_key_are_distinguished() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(tls::server_config(&[1; 32]).unwrap()));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = acceptor.accept(stream).await;
        }
    });
    let source = HttpsSource::pinned(&format!("https://{address}"), [9; 32], None).unwrap();
    assert!(matches!(source.offer(&[], Duration::ZERO).await, Err(TransportError::WrongKey)));
    let nobody = HttpsSource::web("http://127.0.0.1:1").unwrap();
    assert!(matches!(nobody.offer(&[], Duration::ZERO).await, Err(TransportError::Unreachable(_))));
}

#[test]
fn urls_are_those_of_web_servers() {
    let base = |url: &str| HttpsSource::web(url).unwrap().base;
    assert_eq!(base("https://bruit.example.org:8626"), paths::BASE, "a Bruit server");
    assert_eq!(base("http://[::1]:8625/"), paths::BASE);
    assert_eq!(base("https://files.example.org/spam/bruit//"), "/spam/bruit");
    let spaces = "https://exa mple.org";
    for url in ["", "bruit.example.org", "ftp://x/", "https://", "https://user@x/", "http://x/?a=b", spaces] {
        assert!(HttpsSource::web(url).is_err(), "{url}");
    }
    assert!(matches!(HttpsSource::pinned("http://x", [1; 32], None), Err(UrlError::NotEncrypted(_))));
    let source = || HttpsSource::web("http://x").unwrap();
    for token in ["", "a\nb", &"x".repeat(TOKEN_BYTES_MAX + 1)] {
        assert!(source().with_token(token).is_err());
    }
    assert!(source().with_token(&"x".repeat(TOKEN_BYTES_MAX)).is_ok());
}
