//! A small exact machine, a disk that fails on demand, and helpers that damage directories.
#![allow(dead_code, reason = "every test program uses some of it")]

pub(crate) mod clearinghouse;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bruit_engine::codec::{Malformed, Reader};
use bruit_store::disk::{Disk, DiskFile, SystemDisk};
use bruit_store::{Machine, OpenError, Options, RestoreError, Store};

pub(crate) const REALM: [u8; 16] = *b"the tests' realm";

/// A number this machine refuses.
pub(crate) const REFUSED: u64 = u64::MAX;

/// A machine that records how often and in which order numbers were submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ledger {
    pub(crate) counts: BTreeMap<u64, u64>,
    /// A hash of the sequence of all numbers. It is equal only for the same numbers in the same order.
    pub(crate) order: u64,
    pub(crate) realm: [u8; 16],
    pub(crate) snapshot: Vec<u8>,
}

/// An event: a number, and padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NumberEvent {
    pub(crate) number: u64,
    pub(crate) padding: usize,
}

pub(crate) const fn numbered(number: u64) -> NumberEvent {
    NumberEvent { number, padding: 0 }
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self { counts: BTreeMap::new(), order: 0, realm: REALM, snapshot: Vec::new() }
    }

    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.counts.keys().copied().collect()
    }

    /// Returns a copy without the state of a running snapshot.
    pub(crate) fn settled(&self) -> Self {
        Self { snapshot: Vec::new(), ..self.clone() }
    }
}

impl Machine for Ledger {
    type Event = NumberEvent;
    /// Number of submissions of the number; 0 if it was refused.
    type Outcome = u64;

    fn encode(event: &NumberEvent, out: &mut Vec<u8>) {
        out.extend(event.number.to_le_bytes());
        out.resize(out.len() + event.padding, 0xEE);
    }

    fn decode(bytes: &[u8]) -> Result<NumberEvent, Malformed> {
        let mut reader = Reader::new(bytes);
        Ok(NumberEvent { number: reader.u64("number")?, padding: reader.left() })
    }

    fn admit(&self, event: &NumberEvent) -> Result<(), u64> {
        if event.number == REFUSED { Err(0) } else { Ok(()) }
    }

    fn apply(&mut self, event: &NumberEvent) -> u64 {
        self.order = self.order.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(event.number + 1);
        let count = self.counts.entry(event.number).or_default();
        *count += 1;
        *count
    }

    fn begin_snapshot(&mut self, out: &mut Vec<u8>) {
        out.extend(self.realm);
        out.extend(self.order.to_le_bytes());
        out.extend((self.counts.len() as u64).to_le_bytes());
        self.snapshot =
            self.counts.iter().flat_map(|(number, count)| [number, count]).flat_map(|n| n.to_le_bytes()).collect();
    }

    /// The state is copied in small pieces, so that events are applied in between.
    fn continue_snapshot(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool {
        let piece = bytes.min(100).min(self.snapshot.len());
        out.extend(self.snapshot.drain(..piece));
        self.snapshot.is_empty()
    }

    fn restore(&self, input: &mut dyn Read) -> Result<Self, RestoreError> {
        let mut front = [0; 32];
        input.read_exact(&mut front)?;
        let mut reader = Reader::new(&front);
        let mut ledger = Self { realm: reader.array("realm")?, order: reader.u64("order")?, ..Self::new() };
        for _ in 0..reader.u64("length")? {
            let mut entry = [0; 16];
            input.read_exact(&mut entry)?;
            let mut reader = Reader::new(&entry);
            ledger.counts.insert(reader.u64("number")?, reader.u64("count")?);
        }
        Ok(ledger)
    }

    fn realm(&self) -> [u8; 16] {
        self.realm
    }
}

/// Returns options with small journal files, and snapshots only on request.
pub(crate) fn options() -> Options {
    Options { snapshot_on_close: false, ..Options::default() }
}

pub(crate) fn open(directory: &Path) -> Store<Ledger> {
    try_open(directory, &options()).unwrap()
}

pub(crate) fn try_open(directory: &Path, options: &Options) -> Result<Store<Ledger>, OpenError> {
    Store::open(directory, options, || Ok(Ledger::new()), &mut |_| {})
}

pub(crate) fn numbers(directory: &Path) -> Vec<u64> {
    open(directory).check(Ledger::numbers)
}

/// Submits each number separately, so that each has its own record.
pub(crate) fn submit_numbers(store: &Store<Ledger>, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        store.submit(vec![numbered(number)]).unwrap();
    }
}

pub(crate) fn files(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> =
        entries.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix)).collect();
    found.sort();
    found
}

pub(crate) fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for path in files(from, "") {
        match fs::copy(&path, to.join(name(&path))) {
            // A store in use removes obsolete files.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => drop(other.unwrap()),
        }
    }
}

pub(crate) fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Returns the offsets of the records in a journal file, and the end of the last one.
pub(crate) fn boundaries(journal_file: &Path) -> Vec<usize> {
    let bytes = fs::read(journal_file).unwrap();
    let mut places = vec![bruit_store::HEADER_BYTES];
    while let Some(length) = bytes.get(places.last().unwrap() + 4..).and_then(|rest| rest.first_chunk()) {
        places.push(places.last().unwrap() + u32::from_le_bytes(*length) as usize + bruit_store::RECORD_OVERHEAD_BYTES);
    }
    places
}

/// Waits until a condition holds, and then a little longer, to notice if one step too many is taken.
pub(crate) fn wait_for(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
    (0..10_000).for_each(|_| std::thread::yield_now());
}

/// The system's disk, with failures on demand.
#[derive(Debug, Default)]
pub(crate) struct FaultyDisk {
    /// Bytes that can still be written, if limited.
    pub(crate) room: Limit,
    pub(crate) sync_fails: AtomicBool,
    pub(crate) truncate_fails: AtomicBool,
    pub(crate) syncs: AtomicU64,
}

/// A limit in bytes; `u64::MAX` means no limit.
#[derive(Debug)]
pub(crate) struct Limit(AtomicU64);

impl Default for Limit {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

impl Limit {
    pub(crate) fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::SeqCst);
    }

    /// Takes `wanted` bytes from the limit, or as many as are left.
    fn take(&self, wanted: u64) -> u64 {
        let room = self.0.load(Ordering::SeqCst);
        if room != u64::MAX {
            self.set(room - wanted.min(room));
        }
        wanted.min(room)
    }
}

/// Returns options with a disk that can fail.
pub(crate) fn faulty() -> (Arc<FaultyDisk>, Options) {
    let disk = Arc::new(FaultyDisk::default());
    let shared = SharedDisk(Arc::clone(&disk));
    (disk, Options { disk: Arc::new(shared), ..options() })
}

#[derive(Debug)]
struct SharedDisk(Arc<FaultyDisk>);

struct FaultyFile {
    file: Box<dyn DiskFile>,
    disk: Arc<FaultyDisk>,
}

impl Disk for SharedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(FaultyFile { file: SystemDisk.create(path)?, disk: Arc::clone(&self.0) }))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(FaultyFile { file: SystemDisk.append(path)?, disk: Arc::clone(&self.0) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        SystemDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        SystemDisk.remove(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        SystemDisk.sync_directory(path)
    }
}

impl DiskFile for FaultyFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = self.disk.room.take(bytes.len() as u64) as usize;
        self.file.write_all(&bytes[..room])?;
        if room < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.syncs.fetch_add(1, Ordering::SeqCst);
        if self.disk.sync_fails.load(Ordering::SeqCst) {
            Err(io::Error::other("simulated disk failure"))
        } else {
            self.file.sync()
        }
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        if self.disk.truncate_fails.load(Ordering::SeqCst) {
            Err(io::Error::other("stuck"))
        } else {
            self.file.set_len(length)
        }
    }
}

/// The system's disk, but with a function that is called before a file is created.
pub(crate) struct WatchedDisk(pub(crate) Box<dyn Fn(&Path) + Send + Sync>);

impl fmt::Debug for WatchedDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WatchedDisk")
    }
}

impl Disk for WatchedDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        (self.0)(path);
        SystemDisk.create(path)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        SystemDisk.append(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        SystemDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        SystemDisk.remove(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        SystemDisk.sync_directory(path)
    }
}
