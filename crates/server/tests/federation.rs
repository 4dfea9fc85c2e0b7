//! Tests of access by other servers and replicas. Access is granted by key over TLS, and by source address over plain
//! HTTP.

mod common;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bruit_engine::exchange::{Book, Chain, Frontier, Origin};
use bruit_engine::time::Time;
use bruit_federation::heads::{Heads, SignedHeads};
use bruit_federation::keys::NodeKey;
use bruit_federation::shelf::{MemoryLogs, Reader, Shelf};
use bruit_federation::transport::https::HttpsSource;
use bruit_federation::transport::tls;
use bruit_federation::transport::{FETCH_BYTES_MAX, Source, TransportError, paths};
use bruit_server::{Config, ServeError, Server};
use bruit_store::{Founding, NODE_KEY_FILE};
use common::{Running, config, start_in};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

const CLUSTER: [u8; 32] = [2; 32];
const PEER: [u8; 32] = [3; 32];
const STRANGER: [u8; 32] = [4; 32];

/// Time limit for expected events.
const WAIT: Duration = Duration::from_secs(20);

/// A shelf in memory. In place of heads, it has a word and a version for each kind of reader.
struct TestShelf {
    shelf: Arc<Shelf>,
    version: Mutex<u64>,
}

impl TestShelf {
    fn new(realm_file: &Path) -> Self {
        let engine = Founding::read_file(realm_file).unwrap().engine().unwrap();
        let shelf = Arc::new(Shelf::closed(MemoryLogs::default(), NodeKey::generate([9; 32]), &engine));
        let shelf = Self { shelf, version: Mutex::new(0) };
        shelf.announce();
        shelf
    }

    fn put(&self, chain: Chain, bytes: &[u8]) {
        self.shelf.forget(&chain).unwrap();
        self.shelf.keep_segment(&chain, 0, bytes).unwrap();
        self.announce();
    }

    /// Replaces the heads with a higher version.
    fn announce(&self) {
        let mut version = self.version.lock().unwrap();
        *version += 1;
        let frontier = Frontier { sequence: *version, hash: [1; 32], offset: 1, entries: 1, digest: 1 };
        for (book, word) in [(Book::Votes, "all"), (Book::Listed, "public")] {
            let heads = Heads::new(self.shelf.realm(), chain(book).origin, Time(*version), [(chain(book), frontier)]);
            self.shelf.keep_heads(&SignedHeads { heads, bytes: format!("{word} {version};").into_bytes() });
        }
    }
}

fn chain(book: Book) -> Chain {
    Chain { origin: Origin { key: [7; 32], incarnation: 1 }, book, generation: 9 }
}

fn with_peers() -> String {
    let peer = |name: &str, seed: [u8; 32]| {
        let key = NodeKey::generate(seed).public();
        format!("[[peers]]\nname = \"{name}\"\nkey = \"{key}\"\nrelation = \"{name}\"\n")
    };
    format!("[federation]\nlisten = \"127.0.0.1:0\"\n{}{}", peer("cluster", CLUSTER), peer("peer", PEER))
}

fn start() -> (Running, TestShelf) {
    let running = Running::start(&with_peers());
    let shelf = TestShelf::new(&running.directory.path().join("realm.bruit"));
    running.server.share(Arc::clone(&shelf.shelf));
    (running, shelf)
}

fn pinned(running: &Running, seed: Option<&[u8; 32]>) -> HttpsSource {
    let url = format!("https://{}", running.address("federation"));
    HttpsSource::pinned(&url, *running.server.key().public().as_bytes(), seed).unwrap()
}

fn plain(running: &Running) -> HttpsSource {
    HttpsSource::web(&format!("http://{}", running.address("http"))).unwrap()
}

fn block<T>(running: &Running, future: impl Future<Output = T>) -> T {
    running.server.runtime().block_on(future)
}

/// Returns the first line and the body of the response to a plain request.
async fn ask(address: SocketAddr, path: &str, fields: &str) -> (String, Vec<u8>) {
    ask_on(TcpStream::connect(address).await.unwrap(), address, path, fields).await
}

/// Returns the first line and the body of the response to a request over TLS.
async fn ask_securely(running: &Running, seed: &[u8; 32], path: &str) -> (String, Vec<u8>) {
    let address = running.address("federation");
    let config = tls::client_config(Some(seed), *running.server.key().public().as_bytes()).unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector.connect(address.ip().into(), stream).await.unwrap();
    ask_on(stream, address, path, "").await
}

async fn ask_on<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    address: SocketAddr,
    path: &str,
    fields: &str,
) -> (String, Vec<u8>) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let text = String::from_utf8_lossy(&answer).into_owned();
    let (head, _) = text.split_once("\r\n\r\n").unwrap();
    let body = answer[head.len() + 4..].to_vec();
    (head.lines().next().unwrap().to_owned(), body)
}

#[test]
fn everybody_gets_the_offer_of_what_they_are_to_us() {
    let (running, _shelf) = start();
    for (source, heads) in [
        (pinned(&running, Some(&CLUSTER)), "all 1;public 1;"),
        (pinned(&running, Some(&PEER)), "public 1;"),
        (plain(&running), "public 1;"),
    ] {
        let offer = block(&running, source.offer(&[], Duration::ZERO)).unwrap();
        assert_eq!(offer.heads, heads.as_bytes());
        assert_eq!(
            block(&running, source.offer(&offer.tag, Duration::ZERO)).unwrap(),
            offer,
            "a repeated request gets the same offer"
        );
    }
}

#[test]
fn who_has_an_unknown_key_or_none_gets_nothing() {
    let (running, shelf) = start();
    shelf.put(chain(Book::Listed), b"log");
    for seed in [Some(&STRANGER), None] {
        let source = pinned(&running, seed);
        let offer = block(&running, source.offer(&[], Duration::ZERO));
        assert!(matches!(&offer, Err(TransportError::Refused(why)) if why.contains("403")), "{offer:?}");
        let log = block(&running, source.fetch(&chain(Book::Listed), 0));
        assert!(matches!(log, Err(TransportError::Refused(_))));
    }
}

#[test]
fn another_server_is_not_taken_for_the_one_that_is_meant() {
    let (running, _shelf) = start();
    let url = format!("https://{}", running.address("federation"));
    let key = *NodeKey::generate(STRANGER).public().as_bytes();
    let source = HttpsSource::pinned(&url, key, Some(&CLUSTER)).unwrap();
    assert!(matches!(block(&running, source.offer(&[], Duration::ZERO)), Err(TransportError::WrongKey)));
}

#[test]
fn books_that_are_not_public_are_not_there_for_others() {
    let (running, shelf) = start();
    Book::ALL.into_iter().for_each(|book| shelf.put(chain(book), book.name().as_bytes()));
    let (own, peer, replica) = (pinned(&running, Some(&CLUSTER)), pinned(&running, Some(&PEER)), plain(&running));
    for book in Book::ALL {
        let log = block(&running, own.fetch(&chain(book), 0)).unwrap();
        assert_eq!(log, book.name().as_bytes());
        for source in [&peer, &replica] {
            match block(&running, source.fetch(&chain(book), 0)) {
                Ok(log) => assert!(book.is_public() && log == book.name().as_bytes()),
                Err(error) => assert!(!book.is_public() && matches!(error, TransportError::Missing), "{error}"),
            }
        }
    }
}

#[test]
fn a_log_is_read_on_from_where_it_ended() {
    let (running, shelf) = start();
    let source = pinned(&running, Some(&PEER));
    let fetch = |offset| block(&running, source.fetch(&chain(Book::Listed), offset));
    assert!(matches!(fetch(0), Err(TransportError::Missing)));
    let log: Vec<u8> = (0..FETCH_BYTES_MAX + 10).map(|at| at as u8).collect();
    shelf.put(chain(Book::Listed), &log);
    let first = fetch(0).unwrap();
    assert_eq!(first.len(), FETCH_BYTES_MAX);
    assert_eq!([first, fetch(FETCH_BYTES_MAX as u64).unwrap()].concat(), log);
    assert!(fetch(log.len() as u64).unwrap().is_empty());
    assert!(fetch(log.len() as u64 + 1).unwrap().is_empty());
}

#[test]
fn whoever_waits_for_news_hears_of_it_when_it_comes() {
    let (running, shelf) = start();
    let source = pinned(&running, Some(&PEER));
    let seen = block(&running, source.offer(&[], Duration::ZERO)).unwrap().tag;
    let begin = std::time::Instant::now();
    let news = block(&running, async {
        let news = source.offer(&seen, WAIT);
        // The request is sent before the log exists, so the server must wait with its response until then.
        let put = async { shelf.put(chain(Book::Listed), b"new") };
        tokio::join!(news, put).0
    });
    assert_eq!(news.unwrap().heads, b"public 2;");
    assert!(begin.elapsed() < WAIT, "the response came before the end of the wait");
}

#[test]
fn a_server_that_stops_does_not_wait_for_those_who_wait() {
    let (running, shelf) = start();
    let source = plain(&running);
    let seen = block(&running, source.offer(&[], Duration::ZERO)).unwrap().tag;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let waiting = runtime.spawn(async move { source.offer(&seen, WAIT).await });
    // Continue once the request is waiting.
    runtime.block_on(async {
        while shelf.shelf.waiting() == 0 {
            tokio::task::yield_now().await;
        }
    });
    let begin = std::time::Instant::now();
    assert!(running.server.stop().poisoned.is_none());
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    waiting.abort();
}

#[test]
fn plain_requests_are_answered_by_the_rules_of_http() {
    let (running, shelf) = start();
    let path = format!("/v1/federation/log/{}/1/listed/9", "07".repeat(32));
    let http = running.address("http");
    let status = |path: &str, fields: &str| block(&running, ask(http, path, fields)).0;
    shelf.put(chain(Book::Listed), b"abcdef");
    let (whole, body) = block(&running, ask(http, &path, ""));
    assert!(whole.contains(" 200 ") && body == b"abcdef");
    let (part, body) = block(&running, ask(http, &path, "range: bytes=2-3\r\n"));
    assert!(part.contains(" 206 ") && body == b"cd");
    assert!(status(&path, "range: bytes=6-\r\n").contains(" 416 "));
    assert!(status(&path, "range: bytes=-2\r\n").contains(" 400 "));
    assert!(status(&format!("{path}0"), "").contains(" 404 "));
    assert!(status("/v1/federation/offer?seen=0g", "").contains(" 400 "));
    assert!(status(&format!("/v1/federation/offer?seen={}", "00".repeat(65)), "").contains(" 400 "));
    assert!(status("/v1/federation/offer?what=1", "").contains(" 400 "));
    let tag = paths::digits(&shelf.shelf.offer(Reader::Replica).tag);
    assert!(status("/v1/federation/offer", &format!("if-none-match: \"{tag}\"\r\n")).contains(" 304 "));
    assert!(status("/v1/federation/offer", "x-forwarded-for: 192.0.2.1\r\n").contains(" 403 "), "a stranger");
    shelf.put(chain(Book::Listed), &vec![0; FETCH_BYTES_MAX + 1]);
    assert!(status(&path, "").contains(" 400 "), "the log is too long for one response");
}

#[test]
fn a_server_offers_what_it_has_without_being_told_to() {
    let running = Running::start("");
    let source = plain(&running);
    // The offer is signed shortly after the start.
    let offer = block(&running, async {
        let first = source.offer(&[], Duration::ZERO).await.unwrap();
        if first.heads.is_empty() { source.offer(&first.tag, WAIT).await.unwrap() } else { first }
    });
    let heads = Heads::read_all(&offer.heads).remove(0).unwrap();
    assert_eq!(heads.origin().key, *running.server.key().public().as_bytes());
}

#[test]
fn peers_can_be_told_of_while_the_server_runs() {
    let (running, _shelf) = start();
    let source = pinned(&running, Some(&STRANGER));
    let key = NodeKey::generate(STRANGER).public();
    let more = format!("{}[[peers]]\nname = \"new\"\nkey = \"{key}\"\nrelation = \"peer\"\n", with_peers());
    running.server.reload(&config(&more)).unwrap();
    assert!(block(&running, source.offer(&[], Duration::ZERO)).is_ok());
    running.server.reload(&config(&with_peers())).unwrap();
    assert!(block(&running, source.offer(&[], Duration::ZERO)).is_err());
}

#[test]
fn the_realm_is_for_administrators_and_nodes_of_the_cluster() {
    let (running, _shelf) = start();
    let file = std::fs::read(running.directory.path().join("realm.bruit")).unwrap();
    let http = running.address("http");
    let (status, _) = block(&running, ask(http, "/v1/federation/realm", ""));
    assert!(status.contains(" 403 "), "{status}: an own network is not enough");
    let token = std::fs::read_to_string(running.directory.path().join("admin.token")).unwrap();
    let authorization = format!("authorization: Bearer {}\r\nvia: a proxy\r\n", token.trim());
    let (status, body) = block(&running, ask(http, "/v1/federation/realm", &authorization));
    assert!(status.contains(" 200 ") && body == file);
    let secure = |seed| block(&running, ask_securely(&running, seed, "/v1/federation/realm"));
    let (status, body) = secure(&CLUSTER);
    assert!(status.contains(" 200 ") && body == file);
    for seed in [&PEER, &STRANGER] {
        let (status, _) = secure(seed);
        assert!(status.contains(" 403 "), "{status}");
    }
}

#[test]
fn a_server_is_founded_in_the_realm_of_another_and_keeps_it() {
    let running = Running::start("");
    let realm = running.directory.path().join("realm.bruit");
    let text = format!("realm = {:?}\n", realm.to_str().unwrap());
    let other = tempfile::TempDir::new().unwrap();
    let server = start_in(other.path(), &text);
    assert_ne!(server.key().public(), running.server.key().public(), "servers share a realm, but not a key");
    assert!(other.path().join(NODE_KEY_FILE).exists());
    let founding = |directory: &Path| Founding::read(directory).unwrap().unwrap();
    assert_eq!(founding(other.path()).realm, founding(running.directory.path()).realm);
    let _ = server.stop();
    let _ = start_in(other.path(), &text).stop();
    let gone = text.replace("realm.bruit", "gone.bruit");
    let _ = start_in(other.path(), &gone).stop();

    let third = Running::start("");
    let refused = refusal(&config(&text), third.directory.path());
    // The realm is checked before the directory is locked, so another server could be using the directory.
    assert!(matches!(refused, ServeError::OtherRealm { .. }), "{refused}");
    let new = tempfile::TempDir::new().unwrap();
    assert!(
        matches!(refusal(&config(&gone), new.path()), ServeError::Realm { .. }),
        "the realm file is missing, so nothing can be founded"
    );
    let nonsense = other.path().join("nonsense");
    std::fs::write(&nonsense, "nonsense").unwrap();
    let text = format!("realm = {:?}\n", nonsense.to_str().unwrap());
    let refused = refusal(&config(&text), other.path());
    assert!(matches!(refused, ServeError::Realm { .. }), "{refused}");
}

fn refusal(config: &Config, directory: &Path) -> ServeError {
    Server::start(config, directory, &mut |_| {}).err().expect("the server does not start")
}
