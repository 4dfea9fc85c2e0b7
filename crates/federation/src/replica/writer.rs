//! The writer of a replica: rings in memory, and the pages to write to the file.
//!
//! The order of writes makes a crash harmless. Lines are written first and synced, then the slot with the frontiers of
//! the chains. After a crash between the two, the same segments are fetched again and set the same bits. When a
//! generation begins, its lane is cleared in the file before a slot marks it as live. The lane of the next generation
//! is not live, regardless of its contents, and is cleared when a file is opened.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use bruit_engine::codec::Malformed;
use bruit_engine::exchange::{Book, Chain, Frontier, Origin, Received, public_signatures};
use bruit_engine::realm::{Realm, RealmId};
use bruit_engine::time::Time;
use bruit_filters::ring::{GENERATIONS, MembershipRing, RING_LINE_BYTES, RingShape};
use bruit_filters::{Fingerprint, KeyId};

use super::format::{CHAINS_MAX, Chains, Front, SLOT_BYTES, SLOTS, slot_at};
use super::reader::{ensure_length, rate, slot, status};
use super::{BOOKS, LIVE_GENERATIONS, ReplicaError, Status, lines_for};
use crate::coordinator::judge::Frontiers;

/// Number of lines in a page. Lines are written to the file page by page.
const PAGE_LINES: usize = 64;

/// Number of bits of a fingerprint that determine its position: all bits of a narrow fingerprint.
const FINGERPRINT_BITS: u32 = 64;

/// Permissions of the file, for its owner alone: it contains the realm's secret key.
const MODE: u32 = 0o600;

/// A replica open for writing, by one process at a time.
#[derive(Debug)]
pub struct ReplicaFile {
    path: PathBuf,
    /// The file, locked while it is open.
    file: File,
    /// The front as last written. The present epochs and contents of the rings are in `rings`.
    front: Front,
    realm_id: RealmId,
    rings: [PagedRing; 2],
    chains: Chains,
}

/// A ring, with the pages that are not yet written to the file.
#[derive(Debug)]
struct PagedRing {
    ring: MembershipRing,
    shape: RingShape,
    changed: Vec<bool>,
}

impl ReplicaFile {
    /// Creates the file of a new replica. `capacity` is a number of listed signatures. The file must not exist.
    ///
    /// # Errors
    /// [`ReplicaError`]; the file is not created then.
    pub fn create(path: &Path, realm: Realm, capacity: u64, now: Time) -> Result<Self, ReplicaError> {
        if !realm.key().is_narrow() {
            return Err(ReplicaError::OldRealm);
        }
        let lines = lines_for(capacity)?;
        let [listed, bulk] = BOOKS.map(|book| now.epoch(book.epoch_seconds(&realm)));
        let [listed_lines, bulk_lines] = lines;
        let rings = [RingShape { lines: listed_lines, epoch: listed }, RingShape { lines: bulk_lines, epoch: bulk }];
        let front = Front { number: 0, realm, capacity, rings, held: [0; 2], rates: [0; 2], heard: None };
        found(path, &front).map_err(ReplicaError::io("make", path))?;
        Self::open(path)
    }

    /// Opens the replica in a file for writing.
    ///
    /// # Errors
    /// [`ReplicaError`], for example if another process has opened it for writing.
    pub fn open(path: &Path) -> Result<Self, ReplicaError> {
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(ReplicaError::io("open", path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ReplicaError::Busy { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(ReplicaError::io("lock", path)(source)),
        }
        let (front, chains) = slot(&file, path)?;
        // Check before allocating memory for the lines.
        ensure_length(&file, path, &front)?;
        let read = |index: usize, shape| PagedRing::read(&file, front.ring_at(index), shape, front.realm.key().id());
        let [listed, bulk] = front.rings;
        let rings = read(0, listed).and_then(|listed| Ok([listed, read(1, bulk)?]));
        let rings = rings.map_err(ReplicaError::io("read", path))?;
        Ok(Self { path: path.to_owned(), file, realm_id: front.realm.id(), front, rings, chains })
    }

    /// Returns the id of the replica's realm.
    #[must_use]
    pub const fn realm_id(&self) -> RealmId {
        self.realm_id
    }

    /// Returns the present status of the replica.
    #[must_use]
    pub fn status(&self) -> Status {
        status(self.current_front())
    }

    /// Begins the generations that are due at `now`, and removes those that are over.
    ///
    /// # Errors
    /// [`ReplicaError::Io`].
    pub fn turn(&mut self, now: Time) -> Result<(), ReplicaError> {
        for (index, book) in BOOKS.into_iter().enumerate() {
            let epoch = now.epoch(book.epoch_seconds(&self.front.realm));
            while self.ring(index).is_some_and(|ring| ring.shape.epoch < epoch) {
                self.begin_next(index, epoch)?;
            }
        }
        Ok(())
    }

    /// Applies a segment to its ring, and advances the frontier of its chain. The segment must be verified, and must be
    /// the next one of its chain. Returns the number of entries.
    ///
    /// # Errors
    /// [`Malformed`] if its payload cannot be decoded; nothing has changed then.
    pub fn take(&mut self, received: &Received) -> Result<usize, Malformed> {
        let Received { chain, encoding, payload, .. } = received;
        let signatures = public_signatures(chain.book, *encoding, payload)?;
        let over = Malformed::OutOfRange { what: "the generation of a segment", value: chain.generation };
        let ring = place_of(chain.book).and_then(|index| self.rings.get_mut(index)).ok_or(over)?;
        ring.insert(chain.generation, &signatures).ok_or(over)?;
        let frontier = self.chains.entry(*chain).or_default();
        frontier.sequence = received.sequence;
        frontier.hash = received.hash;
        frontier.offset += u64::from(received.bytes);
        frontier.entries += signatures.len() as u64;
        Ok(signatures.len())
    }

    /// Returns true if the chain is already in the replica, or if one more chain fits.
    #[must_use]
    pub fn has_room(&self, chain: &Chain) -> bool {
        self.chains.len() < CHAINS_MAX || self.chains.contains_key(chain)
    }

    /// Discards the frontier of a chain, which is then fetched again from the start.
    pub fn forget(&mut self, chain: &Chain) {
        self.chains.remove(chain);
    }

    /// Sets the time of the latest heads that were completely applied.
    pub fn hear(&mut self, heard: Time) {
        self.front.heard = self.front.heard.max(Some(heard));
    }

    /// Writes all changes durably.
    ///
    /// # Errors
    /// [`ReplicaError::Io`]; the file then has its old contents, or some more entries.
    pub fn commit(&mut self) -> Result<(), ReplicaError> {
        self.write_lines()?;
        self.write_slot()
    }

    fn ring(&self, index: usize) -> Option<&PagedRing> {
        self.rings.get(index)
    }

    fn begin_next(&mut self, index: usize, epoch: u64) -> Result<(), ReplicaError> {
        let key_id = self.front.realm.key().id();
        if let Some(ring) = self.rings.get_mut(index) {
            ring.skip_to(epoch, key_id).map_err(ReplicaError::io("clear", &self.path))?;
            ring.changed.fill(true);
        }
        // Clear the lane in the file before the slot marks it as live.
        self.write_lines()?;
        if let Some(ring) = self.rings.get_mut(index).filter(|ring| ring.shape.epoch < epoch) {
            ring.advance();
        }
        let rings = &self.rings;
        self.chains.retain(|chain, _| is_live(rings, chain.book, chain.generation));
        self.write_slot()
    }

    fn write_lines(&mut self) -> Result<(), ReplicaError> {
        let front = &self.front;
        let mut is_changed = false;
        for (index, ring) in self.rings.iter_mut().enumerate() {
            let written = ring.write(&self.file, front.ring_at(index));
            is_changed |= written.map_err(ReplicaError::io("write", &self.path))?;
        }
        if is_changed {
            self.file.sync_data().map_err(ReplicaError::io("sync", &self.path))?;
        }
        Ok(())
    }

    fn write_slot(&mut self) -> Result<(), ReplicaError> {
        let front = Front { number: self.front.number + 1, ..self.current_front() };
        let written = self.file.write_all_at(&front.slot(&self.chains), slot_at(front.number));
        written.and_then(|()| self.file.sync_data()).map_err(ReplicaError::io("write", &self.path))?;
        self.front = front;
        Ok(())
    }

    fn current_front(&self) -> Front {
        let rings = self.rings.each_ref();
        Front {
            rings: rings.map(|ring| ring.shape),
            held: rings.map(PagedRing::held),
            rates: rings.map(|ring| rate(ring.ring.estimated_rate())),
            ..self.front.clone()
        }
    }
}

impl Frontiers for ReplicaFile {
    fn own(&self) -> Option<Origin> {
        None
    }

    fn frontier(&self, chain: &Chain) -> Frontier {
        self.chains.get(chain).copied().unwrap_or_default()
    }

    fn is_live(&self, book: Book, generation: u64) -> bool {
        is_live(&self.rings, book, generation)
    }

    fn is_over(&self, book: Book, generation: u64) -> bool {
        place_of(book).and_then(|index| self.rings.get(index)).is_none_or(|ring| ring.is_over(generation))
    }

    fn has_digests(&self) -> bool {
        false
    }
}

impl PagedRing {
    fn read(file: &File, at: u64, shape: RingShape, key_id: KeyId) -> io::Result<Self> {
        let mut input = BufReader::new(file);
        input.seek(SeekFrom::Start(at))?;
        let ring = MembershipRing::from_lines(shape, key_id, &mut input)?;
        Ok(Self { ring, shape, changed: vec![false; shape.lines.div_ceil(PAGE_LINES)] })
    }

    fn is_live(&self, generation: u64) -> bool {
        generation <= self.shape.epoch && !self.is_over(generation)
    }

    fn is_over(&self, generation: u64) -> bool {
        generation.saturating_add(LIVE_GENERATIONS) <= self.shape.epoch
    }

    /// Inserts signatures. Returns `None` if the generation is not live.
    fn insert(&mut self, generation: u64, signatures: &[Fingerprint]) -> Option<()> {
        self.ring.insert_batch_at(generation, signatures).ok()?;
        for line in signatures.iter().flat_map(|signature| self.shape.lines_of(signature)) {
            *self.changed.get_mut(line / PAGE_LINES)? = true;
        }
        Some(())
    }

    /// Clears the ring if none of its generations is live at `epoch`.
    fn skip_to(&mut self, epoch: u64, key_id: KeyId) -> io::Result<()> {
        if epoch.saturating_sub(self.shape.epoch) >= u64::from(GENERATIONS) {
            self.ring = MembershipRing::new(self.shape.lines, FINGERPRINT_BITS, key_id, epoch)?;
            self.ring.expire(usize::MAX);
            self.shape.epoch = epoch;
        }
        Ok(())
    }

    fn advance(&mut self) {
        self.ring.advance();
        self.ring.expire(usize::MAX);
        self.shape.epoch += 1;
    }

    /// Returns the estimated number of distinct signatures.
    fn held(&self) -> u64 {
        let oldest = self.shape.epoch.saturating_sub(LIVE_GENERATIONS - 1);
        let keys = (oldest..=self.shape.epoch).filter_map(|epoch| self.ring.estimated_keys(epoch).ok());
        keys.sum::<f64>().round() as u64
    }

    /// Writes the changed pages. Returns true if there were any.
    fn write(&mut self, file: &File, at: u64) -> io::Result<bool> {
        let mut bytes = Vec::with_capacity(PAGE_LINES * RING_LINE_BYTES);
        let mut is_changed = false;
        for (page, changed) in self.changed.iter_mut().enumerate().filter(|(_, changed)| **changed) {
            let lines = page_lines(page, self.shape.lines);
            bytes.clear();
            self.ring.put_lines(lines.clone(), &mut bytes);
            file.write_all_at(&bytes, at + (lines.start * RING_LINE_BYTES) as u64)?;
            *changed = false;
            is_changed = true;
        }
        Ok(is_changed)
    }
}

fn place_of(book: Book) -> Option<usize> {
    BOOKS.iter().position(|followed| *followed == book)
}

fn is_live(rings: &[PagedRing; 2], book: Book, generation: u64) -> bool {
    place_of(book).and_then(|index| rings.get(index)).is_some_and(|ring| ring.is_live(generation))
}

fn page_lines(page: usize, lines: usize) -> Range<usize> {
    page * PAGE_LINES..((page + 1) * PAGE_LINES).min(lines)
}

/// Creates the file by linking the finished file to its name, which fails if the name exists: no reader sees half a
/// replica, and no existing file is overwritten.
fn found(path: &Path, front: &Front) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(format!(".{}.new", std::process::id()));
    let unfinished = PathBuf::from(unfinished);
    let made = write_new(&unfinished, front).and_then(|()| fs::hard_link(&unfinished, path));
    let removed = fs::remove_file(&unfinished);
    made.and(removed)?;
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

fn write_new(path: &Path, front: &Front) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(path)?;
    for number in 0..SLOTS {
        let mut slot = Front { number, ..front.clone() }.slot(&Chains::new());
        slot.resize(SLOT_BYTES, 0);
        file.write_all(&slot)?;
    }
    file.set_len(front.file_bytes())?;
    file.sync_all()
}
