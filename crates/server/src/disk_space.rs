//! The free space on the data directory's disk, and the warning that it will not suffice.
//!
//! A separate thread asks the file system, because a disk that hangs may never answer. Everything else reads the last
//! answer: the watcher, which begins and ends the condition, and the metrics.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bruit_store::SNAPSHOT_AFTER_BYTES;
use nix::sys::statvfs::statvfs;

/// Interval between two questions to the file system.
const INTERVAL: Duration = Duration::from_secs(5);

/// Age from which an answer is not used any more. The last answer gets this old only if the file system hangs or
/// reports errors.
const ANSWER_AGE_MAX: Duration = Duration::from_secs(60);

/// Number of snapshots for which there must be room. A store keeps two. A new one is written before the oldest is
/// removed, and the first two of a store replace none.
const SNAPSHOTS: u64 = 2;

/// Share of the disk that should stay free for other programs and for the logs of other servers: a twentieth, but at
/// most [`RESERVE_BYTES_MAX`].
const RESERVE_DIVISOR: u64 = 20;

/// Maximum number of bytes that should stay free for other programs and for the logs of other servers.
const RESERVE_BYTES_MAX: u64 = 1 << 30;

/// The space of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Space {
    /// Bytes that the server can still write.
    pub(crate) free_bytes: u64,
    /// Size of the disk.
    pub(crate) total_bytes: u64,
}

/// The last answer of the file system, if there was one.
#[derive(Debug, Default)]
pub(crate) struct DiskSpace(Mutex<Option<(Instant, Space)>>);

impl DiskSpace {
    /// Returns the last answer, unless it is too old.
    pub(crate) fn latest(&self) -> Option<Space> {
        let (at, space) = (*self.0.lock().unwrap_or_else(PoisonError::into_inner))?;
        (at.elapsed() < ANSWER_AGE_MAX).then_some(space)
    }

    fn set(&self, space: Space) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), space));
    }

    /// Starts a thread that asks for the space of `directory` until the returned sender is dropped. Nobody waits for
    /// the end of the thread, so a disk that hangs does not delay the stop of the server.
    pub(crate) fn watch(self: &Arc<Self>, directory: PathBuf) -> io::Result<Sender<()>> {
        let (stop, stopped) = mpsc::channel();
        let latest = Arc::clone(self);
        thread::Builder::new().name("bruit-disk".into()).spawn(move || {
            loop {
                if let Some(space) = Space::of(&directory) {
                    latest.set(space);
                }
                if stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })?;
        Ok(stop)
    }
}

impl Space {
    /// Asks the file system of a directory.
    pub(crate) fn of(directory: &Path) -> Option<Self> {
        let found = statvfs(directory).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
        Some(Self { free_bytes: bytes(wide(found.blocks_available())), total_bytes: bytes(wide(found.blocks())) })
    }

    /// Returns the bytes that should be free for a server whose state has `state_bytes` in memory: room for the next
    /// snapshots and for the journal until the next snapshot begins, and a share of the disk.
    pub(crate) fn needed_bytes(&self, state_bytes: u64) -> u64 {
        let reserve = (self.total_bytes / RESERVE_DIVISOR).min(RESERVE_BYTES_MAX);
        state_bytes.saturating_mul(SNAPSHOTS).saturating_add(SNAPSHOT_AFTER_BYTES).saturating_add(reserve)
    }

    /// Returns a text if the space is low. `is_low` says whether it was low before: the condition ends only when a
    /// quarter more than needed is free, so that it does not begin again at once.
    pub(crate) fn warning(&self, state_bytes: u64, is_low: bool) -> Option<String> {
        let needed = self.needed_bytes(state_bytes);
        let sufficient = if is_low { needed.saturating_add(needed / 4) } else { needed };
        let mib = |bytes: u64| bytes >> 20;
        (self.free_bytes < sufficient).then(|| {
            format!(
                "{} MiB are free on the disk of the data directory, and at least {} MiB should be, for snapshots and \
                 journal: free some space or move the directory to a larger disk; reports are refused once it is full",
                mib(self.free_bytes),
                mib(sufficient)
            )
        })
    }
}

/// Widens a number of blocks, which has 32 bits on some systems.
fn wide(blocks: impl Into<u64>) -> u64 {
    blocks.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    const STATE_BYTES: u64 = 200 * MIB;

    fn space(free_bytes: u64, total_bytes: u64) -> Space {
        Space { free_bytes, total_bytes }
    }

    #[test]
    fn two_snapshots_the_journal_and_a_bounded_share_of_the_disk_must_be_free() {
        assert_eq!(space(0, 10 * GIB).needed_bytes(STATE_BYTES), (400 + 256 + 512) * MIB);
        assert_eq!(space(0, 10_000 * GIB).needed_bytes(STATE_BYTES), (400 + 256 + 1_024) * MIB);
        assert_eq!(space(0, u64::MAX).needed_bytes(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_warning_begins_below_the_need_and_ends_a_quarter_above_it() {
        let disk = |free_bytes| space(free_bytes, 10 * GIB);
        let needed = disk(0).needed_bytes(STATE_BYTES);
        assert_eq!(disk(needed).warning(STATE_BYTES, false), None);
        let text = disk(needed - 1).warning(STATE_BYTES, false).unwrap();
        assert!(text.starts_with("1167 MiB are free") && text.contains("at least 1168 MiB should be"), "{text}");
        assert!(disk(needed + needed / 4 - 1).warning(STATE_BYTES, true).is_some());
        assert_eq!(disk(needed + needed / 4).warning(STATE_BYTES, true), None);
    }

    #[test]
    fn an_answer_is_used_until_it_is_too_old() {
        let disk = DiskSpace::default();
        assert_eq!(disk.latest(), None);
        disk.set(space(1, 2));
        assert_eq!(disk.latest(), Some(space(1, 2)));
        let Some(long_ago) = Instant::now().checked_sub(ANSWER_AGE_MAX) else { return };
        *disk.0.lock().unwrap() = Some((long_ago, space(1, 2)));
        assert_eq!(disk.latest(), None);
    }

    #[test]
    fn the_thread_asks_at_once_and_ends_with_its_sender() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Arc::new(DiskSpace::default());
        let stop = disk.watch(folder.path().to_owned()).unwrap();
        while disk.latest().is_none() {
            thread::yield_now();
        }
        let Space { free_bytes, total_bytes } = disk.latest().unwrap();
        assert!(0 < free_bytes && free_bytes <= total_bytes);
        drop(stop);
        while Arc::strong_count(&disk) > 1 {
            thread::yield_now();
        }
        assert_eq!(Space::of(Path::new("/no/such/directory")), None);
    }
}
