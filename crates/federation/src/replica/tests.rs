//! Replicas in temporary files, and sources with prepared logs.

mod crashes;
mod following;
mod sizes;

use std::path::PathBuf;

use bruit_engine::exchange::{Book, Chain, Encoding, Frontier, NO_HASH, Origin, Received};
use bruit_engine::realm::{BookSizes, Realm};
use bruit_engine::time::Time;
use bruit_filters::sorted::encode_sorted;
use bruit_filters::{Fingerprint, FingerprintKey};
use tempfile::TempDir;

use super::*;
use crate::coordinator::judge::Frontiers;
use crate::keys::NodeKey;
use crate::segment::{Segment, hash};

const CAPACITY: u64 = 10_000;

/// Ten spam epochs and fifty bulk epochs after time zero.
const NOW: Time = Time(50 * Time::DAY);

fn realm() -> Realm {
    let sizes = BookSizes { spam_lines: 100, revoked_lines: 10, claim_lines: 50, bulk_lines: 200 };
    let key = FingerprintKey::narrow([5; 16]);
    Realm::new(key, Realm::SPAM_EPOCH_SECONDS, Realm::BULK_EPOCH_SECONDS, sizes).unwrap()
}

/// Returns a folder with a new replica.
fn founded() -> (TempDir, PathBuf, ReplicaFile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("replica");
    let file = ReplicaFile::create(&path, realm(), CAPACITY, NOW).unwrap();
    (folder, path, file)
}

/// Returns this many signatures, different ones for every `first`.
fn signatures(first: u64, count: u64) -> Vec<Fingerprint> {
    let key = FingerprintKey::narrow([9; 16]);
    (first..first + count).map(|number| key.fingerprint(&number.to_le_bytes())).collect()
}

/// Returns the payload of a segment that lists signatures, or counts 4^5 recipients for each.
fn payload(book: Book, signatures: &[Fingerprint]) -> Vec<u8> {
    let mut highs: Vec<u64> = signatures.iter().map(|signature| signature.high()).collect();
    highs.sort_unstable();
    let mut out = Vec::new();
    encode_sorted(&highs, &mut out);
    if book == Book::Bulk {
        out.extend(highs.chunks(2).map(|pair| if pair.len() == 2 { 0x55 } else { 0x05 }));
    }
    out
}

/// A server that lists signatures on demand.
struct Writer {
    key: NodeKey,
    incarnation: u64,
    chains: std::collections::BTreeMap<Chain, (Frontier, Vec<u8>)>,
}

impl Writer {
    fn new(number: u8) -> Self {
        Self { key: NodeKey::generate([number; 32]), incarnation: 1, chains: Default::default() }
    }

    fn origin(&self) -> Origin {
        Origin { key: *self.key.public().as_bytes(), incarnation: self.incarnation }
    }

    fn chain(&self, book: Book, generation: u64) -> Chain {
        Chain { origin: self.origin(), book, generation }
    }

    /// Writes a segment, and returns it in the form that an engine accepts.
    fn list(&mut self, book: Book, generation: u64, signatures: &[Fingerprint]) -> Received {
        let chain = self.chain(book, generation);
        let (frontier, log) = self.chains.entry(chain).or_default();
        let previous = if frontier.sequence == 0 { NO_HASH } else { frontier.hash };
        let payload = payload(book, signatures);
        let sequence = frontier.sequence + 1;
        let entries = signatures.len() as u32;
        let encoding = Encoding::of(book);
        let segment = Segment { realm: realm().id(), chain, sequence, previous, encoding, entries, payload: &payload };
        let signed = segment.sign(&self.key);
        log.extend(&signed);
        let offset = log.len() as u64;
        let entries = frontier.entries + u64::from(entries);
        *frontier = Frontier { sequence, hash: hash(&signed), offset, entries, digest: 77 };
        Received { chain, sequence, previous, hash: frontier.hash, bytes: signed.len() as u32, encoding, payload }
    }
}

/// Returns the current generation of a book.
fn current(book: Book) -> u64 {
    NOW.epoch(book.epoch_seconds(&realm()))
}

/// Returns the number of these signatures that are hits, each looked up alone.
fn hits(path: &Path, signatures: &[Fingerprint]) -> usize {
    let replica = Replica::open(path).unwrap();
    signatures.iter().filter(|signature| replica.look_up(&[**signature]).unwrap().is_hit).count()
}

#[test]
fn applied_entries_are_found_in_the_file_and_after_reopening() {
    let (_folder, path, mut file) = founded();
    let mut writer = Writer::new(1);
    let (listed, bulk) = (signatures(0, 500), signatures(1_000, 101));
    for (book, signatures) in [(Book::Listed, &listed), (Book::Bulk, &bulk)] {
        let segment = writer.list(book, current(book), signatures);
        assert_eq!(file.take(&segment), Ok(signatures.len()));
    }
    assert_eq!(hits(&path, &listed), 0, "nothing is written yet");
    file.hear(NOW);
    file.commit().unwrap();
    assert_eq!((hits(&path, &listed), hits(&path, &bulk)), (500, 101));
    assert!(hits(&path, &signatures(5_000, 10_000)) < 5, "other signatures are not found");
    let (chain, status) = (writer.chain(Book::Listed, current(Book::Listed)), file.status());
    let frontier = Frontier { digest: 0, ..writer.chains[&chain].0 };
    assert_eq!(file.frontier(&chain), frontier);
    drop(file);
    let opened = ReplicaFile::open(&path).unwrap();
    assert_eq!((opened.frontier(&chain), opened.status()), (frontier, status.clone()));
    assert_eq!(Replica::open(&path).unwrap().status().unwrap(), status);
    assert_eq!(status.heard, Some(NOW));
    assert!((495..505).contains(&status.listed) && (99..103).contains(&status.bulk), "{status:?}");
    assert_eq!(Replica::open(&path).unwrap().origins().unwrap(), [(writer.origin(), 601)].into());
}

#[test]
fn signatures_are_found_for_six_epochs_and_no_longer_than_seven() {
    let (_folder, path, mut file) = founded();
    let listed = signatures(0, 200);
    let segment = Writer::new(1).list(Book::Listed, current(Book::Listed), &listed);
    file.take(&segment).unwrap();
    for epochs in 1..=7 {
        file.turn(Time(NOW.0 + epochs * Realm::SPAM_EPOCH_SECONDS)).unwrap();
        assert_eq!(hits(&path, &listed) == 200, epochs < 7, "after {epochs}");
    }
    assert_eq!((hits(&path, &listed), file.frontier(&segment.chain)), (0, Frontier::default()));
    assert!(file.take(&segment).is_err(), "its generation is over");
}

#[test]
fn generations_expire_after_any_pause() {
    for epochs in [7, 8, 9, 1_000] {
        let (_folder, path, mut file) = founded();
        let listed = signatures(0, 200);
        file.take(&Writer::new(1).list(Book::Listed, current(Book::Listed), &listed)).unwrap();
        file.commit().unwrap();
        drop(file);
        let mut file = ReplicaFile::open(&path).unwrap();
        let later = Time(NOW.0 + epochs * Realm::SPAM_EPOCH_SECONDS);
        file.turn(later).unwrap();
        assert_eq!(hits(&path, &listed), 0, "after {epochs}");
        let current = later.epoch(Realm::SPAM_EPOCH_SECONDS);
        file.take(&Writer::new(1).list(Book::Listed, current, &listed)).unwrap();
        file.commit().unwrap();
        assert_eq!(hits(&path, &listed), 200);
    }
}

#[test]
fn a_clock_that_goes_back_changes_nothing() {
    let (_folder, path, mut file) = founded();
    let before = std::fs::read(&path).unwrap();
    file.turn(Time(0)).unwrap();
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn a_replica_is_kept_current_by_one_program_and_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, path, file) = founded();
    assert!(matches!(ReplicaFile::open(&path), Err(ReplicaError::Busy { .. })));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    drop(file);
    let again = ReplicaFile::create(&path, realm(), CAPACITY, NOW);
    assert!(matches!(again, Err(ReplicaError::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists));
    assert!(ReplicaFile::open(&path).is_ok());
    assert!(ReplicaFile::open(&folder.path().join("none")).unwrap_err().is_missing());
}

#[test]
fn realms_that_cannot_be_exchanged_have_no_replica() {
    let folder = tempfile::tempdir().unwrap();
    let wide = FingerprintKey::new([5; 16]);
    let old = Realm::new(wide, Realm::SPAM_EPOCH_SECONDS, Realm::BULK_EPOCH_SECONDS, realm().sizes()).unwrap();
    let created = ReplicaFile::create(&folder.path().join("replica"), old, CAPACITY, NOW);
    assert!(matches!(created, Err(ReplicaError::OldRealm)));
}
