//! Lookups in a replica file: two lines of 64 bytes per signature and ring, without loading the file.
//!
//! The file may change during a lookup. Every lookup reads the front anew, and a follower only ever adds bits to the
//! generations that the front covers, so no earlier entry is missed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bruit_engine::exchange::Origin;
use bruit_engine::time::Time;
use bruit_filters::ring::RING_LINE_BYTES;
use bruit_filters::{Fingerprint, FingerprintKey};

use super::format::{Chains, FRONT_BYTES, Front, SLOT_BYTES, SlotFault, slot_at};
use super::{ReplicaError, Status};

/// Number of failed attempts to read the fronts before the file counts as damaged. An attempt may fail because a front
/// is half written.
const READ_ATTEMPTS: u32 = 3;

/// The denominator of rates in the file.
const RATE_UNIT: f64 = 1e9;

/// A replica open for reading. Other processes may read it, and one may write it, at the same time.
#[derive(Debug)]
pub struct Replica {
    path: PathBuf,
    file: File,
    key: FingerprintKey,
}

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LookUp {
    /// True if any of the signatures is in the replica, or is a false hit. If false, no followed server has listed or
    /// counted any of them.
    pub is_hit: bool,
    /// Time of the latest heads from the followed servers, if there were any.
    pub heard: Option<Time>,
}

impl Replica {
    /// Opens the replica in a file.
    ///
    /// # Errors
    /// [`ReplicaError`].
    pub fn open(path: &Path) -> Result<Self, ReplicaError> {
        let file = File::open(path).map_err(ReplicaError::io("open", path))?;
        let front = front(&file, path)?;
        ensure_length(&file, path, &front)?;
        Ok(Self { path: path.to_owned(), file, key: front.realm.key().clone() })
    }

    /// Returns the key under which signatures are looked up.
    #[must_use]
    pub const fn key(&self) -> &FingerprintKey {
        &self.key
    }

    /// Returns the present status of the replica.
    ///
    /// # Errors
    /// [`ReplicaError`].
    pub fn status(&self) -> Result<Status, ReplicaError> {
        Ok(status(front(&self.file, &self.path)?))
    }

    /// Returns the servers whose entries are in the replica, with the number of entries that have not expired. A
    /// signature listed by two servers, or in two generations, counts twice.
    ///
    /// # Errors
    /// [`ReplicaError`].
    pub fn origins(&self) -> Result<BTreeMap<Origin, u64>, ReplicaError> {
        let mut origins = BTreeMap::new();
        for (chain, frontier) in slot(&self.file, &self.path)?.1 {
            *origins.entry(chain.origin).or_default() += frontier.entries;
        }
        Ok(origins)
    }

    /// Looks up signatures until the first hit.
    ///
    /// # Errors
    /// [`ReplicaError`].
    pub fn look_up(&self, signatures: &[Fingerprint]) -> Result<LookUp, ReplicaError> {
        let front = front(&self.file, &self.path)?;
        let mut is_hit = false;
        for signature in signatures {
            is_hit = is_hit || self.holds(&front, signature)?;
        }
        Ok(LookUp { is_hit, heard: front.heard })
    }

    fn holds(&self, front: &Front, signature: &Fingerprint) -> Result<bool, ReplicaError> {
        for (index, shape) in front.rings.iter().enumerate() {
            let at = front.ring_at(index);
            let read = |line: usize| {
                let mut bytes = [0; RING_LINE_BYTES];
                let read = self.file.read_exact_at(&mut bytes, at + (line * RING_LINE_BYTES) as u64);
                read.map(|()| bytes).map_err(ReplicaError::io("read", &self.path))
            };
            if !shape.check(signature, read)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Converts a front into a status.
pub(super) fn status(front: Front) -> Status {
    let bytes = front.file_bytes();
    let [listed, bulk] = front.held;
    let misses: f64 = front.rates.iter().map(|&rate| 1.0 - (rate as f64 / RATE_UNIT).min(1.0)).product();
    let Front { realm, capacity, heard, .. } = front;
    Status { realm, capacity, listed, bulk, false_hit_rate: 1.0 - misses, heard, bytes }
}

/// Encodes a rate as in the file.
pub(super) fn rate(rate: f64) -> u64 {
    (rate * RATE_UNIT) as u64
}

/// Refuses a file of the wrong length.
pub(super) fn ensure_length(file: &File, path: &Path, front: &Front) -> Result<(), ReplicaError> {
    let length = file.metadata().map_err(ReplicaError::io("open", path))?.len();
    if length == front.file_bytes() {
        return Ok(());
    }
    Err(ReplicaError::Damaged { path: path.to_owned(), what: "its length" })
}

/// Reads the later of the intact fronts.
fn front(file: &File, path: &Path) -> Result<Front, ReplicaError> {
    let read = |slot| Ok(read_at::<FRONT_BYTES>(file, slot)?.and_then(|bytes| Front::read(&bytes)));
    look(path, |front: &Front| front.number, read)
}

/// Reads the later of the intact slots.
pub(super) fn slot(file: &File, path: &Path) -> Result<(Front, Chains), ReplicaError> {
    let read = |slot| Ok(read_at::<SLOT_BYTES>(file, slot)?.and_then(|bytes| Front::read_slot(&*bytes)));
    look(path, |(front, _): &(Front, Chains)| front.number, read)
}

/// Reads both slots, at most [`READ_ATTEMPTS`] times, until one or both are intact. Returns the later intact one.
fn look<T>(
    path: &Path,
    number: impl Fn(&T) -> u64,
    read: impl Fn(u64) -> io::Result<Result<T, SlotFault>>,
) -> Result<T, ReplicaError> {
    let mut fault = SlotFault::Damaged;
    for _ in 0..READ_ATTEMPTS {
        let slots = read(0).and_then(|first| Ok([first, read(1)?]));
        match later(slots.map_err(ReplicaError::io("read", path))?, &number) {
            Ok(whole) => return Ok(whole),
            Err(found) => fault = found,
        }
    }
    Err(error(fault, path))
}

/// Reads the first bytes of a slot. A shorter file is not a replica.
fn read_at<const N: usize>(file: &File, slot: u64) -> io::Result<Result<Box<[u8; N]>, SlotFault>> {
    let mut bytes = Box::new([0; N]);
    match file.read_exact_at(&mut *bytes, slot_at(slot)) {
        Ok(()) => Ok(Ok(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Err(SlotFault::Magic)),
        Err(error) => Err(error),
    }
}

/// Returns the later intact slot. If neither slot is intact, returns the more specific fault.
fn later<T>(slots: [Result<T, SlotFault>; 2], number: impl Fn(&T) -> u64) -> Result<T, SlotFault> {
    match slots {
        [Ok(first), Ok(second)] => Ok(if number(&first) > number(&second) { first } else { second }),
        [Ok(whole), Err(_)] | [Err(_), Ok(whole)] => Ok(whole),
        // Ignore a slot that was never written, and report the fault of the other.
        [Err(SlotFault::Magic), Err(fault)] | [Err(fault), Err(_)] => Err(fault),
    }
}

/// Returns the error to report when neither slot is intact.
fn error(fault: SlotFault, path: &Path) -> ReplicaError {
    let path = path.to_owned();
    match fault {
        SlotFault::Magic => ReplicaError::Magic { path },
        SlotFault::Version(version) => ReplicaError::Version { path, version },
        SlotFault::Damaged => ReplicaError::Damaged { path, what: "its header" },
    }
}
