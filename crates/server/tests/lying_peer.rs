//! Test of a peer that signs invalid segments. It wastes only its own bandwidth, and nothing is written to disk.

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bruit_engine::exchange::{Book, Chain, Encoding, Frontier, NO_HASH, Origin, PAYLOAD_BYTES_MAX};
use bruit_engine::realm::RealmId;
use bruit_engine::time::Time;
use bruit_federation::keys::NodeKey;
use bruit_federation::segment::{Segment, hash};
use bruit_federation::shelf::{MemoryLogs, Shelf};
use bruit_protocols::http::Peers;
use bruit_store::{Founding, NODE_KEY_FILE};
use common::{Running, start_in};

const TOKEN: &str = "a token of more than sixteen bytes";
const VICTIM: [u8; 32] = [5; 32];

/// Number of invalid segments in each chain, almost as many as fit into one response.
const SEGMENTS: u64 = 80;

/// Time limit for expected events.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the shelf of a peer whose signed logs contain meaningless bytes, and the number of these bytes.
fn lying_shelf(key: &NodeKey, founding: &Founding) -> (Shelf, u64) {
    let origin = Origin { key: *key.public().as_bytes(), incarnation: 1 };
    let generation = now().epoch(founding.realm.spam_epoch_seconds());
    let shelf = Shelf::closed(MemoryLogs::default(), key.clone(), &founding.engine().unwrap());
    let chains = [Book::Listed, Book::Revoked].map(|book| {
        let (frontier, log) = rubbish(Chain { origin, book, generation }, founding.realm.id(), key);
        shelf.put_own(&Chain { origin, book, generation }, 0, &log).unwrap();
        (Chain { origin, book, generation }, frontier)
    });
    shelf.release(origin, &chains, now());
    (shelf, chains.iter().map(|(_, frontier)| frontier.offset).sum())
}

fn now() -> Time {
    Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs())
}

/// Returns a chain whose segments have valid signatures and invalid entries.
fn rubbish(chain: Chain, realm: RealmId, key: &NodeKey) -> (Frontier, Vec<u8>) {
    let payload = vec![0xff; PAYLOAD_BYTES_MAX];
    let (mut log, mut previous) = (Vec::new(), NO_HASH);
    for sequence in 1..=SEGMENTS {
        let encoding = Encoding::Sorted;
        let segment = Segment { realm, chain, sequence, previous, encoding, entries: 1_000, payload: &payload };
        let signed = segment.sign(key);
        previous = hash(&signed);
        log.extend(signed);
    }
    let offset = log.len() as u64;
    (Frontier { sequence: SEGMENTS, hash: previous, offset, entries: 1, digest: 1 }, log)
}

fn journal_bytes(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).unwrap().map(Result::unwrap);
    let journal = files.filter(|file| file.file_name().to_string_lossy().starts_with("journal-"));
    journal.map(|file| file.metadata().unwrap().len()).sum()
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let fields = format!("host: {address}\r\nconnection: close\r\nauthorization: Bearer {TOKEN}\r\n");
    write!(stream, "GET {path} HTTP/1.1\r\n{fields}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn rubbish_is_refused_before_it_is_written_and_charged_to_its_origin() {
    let victim_key = NodeKey::generate(VICTIM);
    let liar = Running::start(&format!(
        "[federation]\nlisten = \"127.0.0.1:0\"\n[[peers]]\nname = \"victim\"\nrelation = \"peer\"\nkey = \"{}\"\n",
        victim_key.public()
    ));
    let realm_file = liar.directory.path().join("realm.bruit");
    let (shelf, rubbish_bytes) = lying_shelf(liar.server.key(), &Founding::read_file(&realm_file).unwrap());
    liar.server.share(Arc::new(shelf));

    let directory = tempfile::tempdir().unwrap();
    victim_key.create_file(&directory.path().join(NODE_KEY_FILE)).unwrap();
    let victim = start_in(
        directory.path(),
        &format!(
            "realm = {realm_file:?}\n[[http.tokens]]\nname = \"admin\"\ntoken = {TOKEN:?}\nadmin = true\n\
             [[peers]]\nname = \"liar\"\nrelation = \"peer\"\nkey = \"{}\"\nurl = \"https://{}\"\n",
            liar.server.key().public(),
            liar.address("federation")
        ),
    );
    let http = victim.listening().iter().find(|listening| listening.protocol == "http").unwrap().address;
    let before = journal_bytes(directory.path());
    let (began, mut peers) = (Instant::now(), Peers::default());
    // Both chains are requested three times: immediately, after one second, and after two more.
    while peers.peers.first().is_none_or(|peer| peer.bytes_refused < 3 * rubbish_bytes) {
        assert!(began.elapsed() < PATIENCE, "{peers:?}");
        thread::sleep(Duration::from_millis(100));
        peers = serde_json::from_str(&get(http, "/v1/peers")).unwrap();
    }
    let grown = journal_bytes(directory.path()) - before;
    assert!(
        grown < 4 << 10,
        "{grown} bytes were written to the journal for {} bytes of invalid segments",
        peers.peers[0].bytes_refused
    );
    let (state, reason) = (&peers.peers[0].state, peers.peers[0].reason.as_deref().unwrap_or_default());
    assert!(state == "refused" && reason.contains("its entries are malformed"), "{peers:?}");
    assert!(peers.peers[0].refused.iter().any(|refused| refused.reason == "payload"), "{peers:?}");
    let ready = get(http, "/v1/ready");
    assert!(ready.contains("peer_refused") && ready.contains("its entries are malformed"), "{ready}");
    let metrics = get(http, "/metrics");
    assert!(metrics.contains("bruit_peer_refused_bytes_total{peer=\"liar\"}"), "{metrics}");
    assert!(victim.stop().poisoned.is_none());
}
