//! The folder: stores, lists and locks the files of reports.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::file::{self, FILE_BYTES_MAX};
use super::{SpoolError, SpooledReport};

/// Maximum number of files in a spool, including those that were set aside.
pub const REPORTS_MAX: usize = 10_000;

/// Maximum length of all files in a spool.
pub const SPOOL_BYTES_MAX: u64 = 256 << 20;

/// Extension of reports that wait for the server.
const WAITING: &str = "report";
/// Extension of messages that wait for rspamd.
const LESSON: &str = "rspamd";
/// Extension of files that were set aside because they are damaged.
const DAMAGED: &str = "damaged";
/// Extension of reports that were set aside because the server refused them.
const REFUSED: &str = "refused";
/// Extensions of the files that count towards the bounds.
const KINDS: [&str; 4] = [WAITING, LESSON, REFUSED, DAMAGED];
/// Prefix of reports that the server temporarily refused. Names with this prefix sort after names that begin with a
/// time.
const LATER: &str = "later";
/// Prefix of files that are being written.
const TEMPORARY: &str = ".tmp-";
/// File that a process locks while it reserves room for a report, so that the bounds hold.
const LOCK: &str = ".lock";
/// Maximum time to wait for that lock. A process holds the lock while it lists the folder. The lock is held longer only
/// if that process is stopped or the disk does not respond.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(2);
/// Interval between attempts to take the lock.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);
/// Age in seconds from which a temporary file is taken to be left over from a crash.
const TEMPORARY_SECONDS: u64 = 3600;

/// Number of temporary files that this process has created.
static WRITES: AtomicU64 = AtomicU64::new(0);

/// A folder of reports that wait for the server.
#[derive(Clone, Debug)]
pub struct Spool {
    folder: PathBuf,
}

/// A report in the spool, locked by this process until it is dropped.
#[derive(Debug)]
pub struct Stored {
    pub(super) report: SpooledReport,
    pub(super) path: PathBuf,
    /// The lock on the file at `path`.
    lock: File,
}

/// An entry in a list of the spool's files.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpoolEntry {
    /// A report that is waiting to be sent.
    Waiting(SpooledReport),
    /// A report that the server refused.
    Refused(SpooledReport),
    /// A damaged file.
    Damaged(PathBuf),
    /// A file that cannot be read. It stays where it is, and is tried again with every attempt to send the spool.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        error: String,
    },
}

/// Number and total length of files.
#[derive(Default)]
struct Use {
    files: usize,
    bytes: u64,
}

impl Use {
    const fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
    }

    /// Returns true if one more file might exceed the bounds of the spool divided by `part`. For example, 2 stands for
    /// half of the spool.
    const fn is_full(&self, part: u32) -> bool {
        self.files >= REPORTS_MAX / part as usize || self.bytes + FILE_BYTES_MAX > SPOOL_BYTES_MAX / part as u64
    }
}

impl Spool {
    /// Opens the spool in `folder`, and creates the folder with mode 0700 if it does not exist.
    ///
    /// # Errors
    /// [`SpoolError::Io`] if the folder cannot be created.
    pub fn open(folder: &Path) -> Result<Self, SpoolError> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|source| io_error(folder, source))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Returns the folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Stores a report, so that it survives a crash, and locks it. The report replaces a waiting report with the same
    /// ID and destination.
    ///
    /// # Errors
    /// [`SpoolError`] if the report was not stored.
    pub fn store(&self, report: SpooledReport) -> Result<Stored, SpoolError> {
        let (temporary, path) = self.reserve(&report)?;
        self.write(report, path, &temporary)
    }

    /// Returns the reports and the files that were set aside, oldest first. The contents of messages for rspamd are
    /// left out.
    ///
    /// # Errors
    /// [`SpoolError::Io`] if the folder cannot be read.
    pub fn list(&self) -> Result<Vec<SpoolEntry>, SpoolError> {
        let mut entries = Vec::new();
        let mut files = self.files(&KINDS)?;
        files.sort_by(|one, other| place(one).cmp(place(other)));
        for path in files {
            let kind = extension(&path).to_owned();
            match read(&path).map(|report| report.map(without_message)) {
                Ok(Some(report)) if [WAITING, LESSON].contains(&&*kind) => entries.push(SpoolEntry::Waiting(report)),
                Ok(Some(report)) if kind == REFUSED => entries.push(SpoolEntry::Refused(report)),
                Ok(_) => entries.push(SpoolEntry::Damaged(path)),
                // Another process has just sent the report.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => entries.push(SpoolEntry::Unreadable { path, error: error.to_string() }),
            }
        }
        Ok(entries)
    }

    /// Returns the number of waiting reports.
    ///
    /// # Errors
    /// [`SpoolError::Io`] if the folder cannot be read.
    pub fn waiting_count(&self) -> Result<usize, SpoolError> {
        Ok(self.waiting()?.len())
    }

    /// Returns the number of reports that are waiting for the server, without the messages for rspamd.
    ///
    /// # Errors
    /// [`SpoolError::Io`] if the folder cannot be read.
    pub fn waiting_for_server_count(&self) -> Result<usize, SpoolError> {
        Ok(self.files(&[WAITING])?.len())
    }

    /// Returns true if a message with this ID is waiting for rspamd.
    ///
    /// # Errors
    /// [`SpoolError::Io`] if the folder cannot be read.
    pub fn has_lesson(&self, id: &str) -> Result<bool, SpoolError> {
        let end = format!("-{id}.{LESSON}");
        Ok(self.files(&[LESSON])?.iter().any(|path| name(path).ends_with(&end)))
    }

    /// Returns true if a report with this ID is waiting for the server.
    ///
    /// # Errors
    /// [`SpoolError::Io`] if the folder cannot be read.
    pub fn contains(&self, id: &str) -> Result<bool, SpoolError> {
        let end = format!("-{id}.{WAITING}");
        Ok(self.waiting()?.iter().any(|path| name(path).ends_with(&end)))
    }

    /// Returns the paths of the waiting reports, oldest first. Reports that the server temporarily refused come last,
    /// so that they do not block the others.
    pub(super) fn waiting(&self) -> Result<Vec<PathBuf>, SpoolError> {
        self.files(&[WAITING, LESSON])
    }

    /// Locks and reads a report. Returns `None` if another process is sending it, or if the file was damaged. A damaged
    /// file is set aside, and its new path is added to `damaged`.
    pub(super) fn claim(&self, path: &Path, damaged: &mut Vec<PathBuf>) -> Result<Option<Stored>, SpoolError> {
        let Some(lock) = lock_file(path).map_err(|source| io_error(path, source))? else { return Ok(None) };
        let named = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let report = read(path).map_err(|source| io_error(path, source))?;
        match report.filter(|report| named.ends_with(&report.id) && !report.id.is_empty()) {
            Some(report) => Ok(Some(Stored { report, path: path.to_owned(), lock })),
            None => {
                damaged.push(self.set_aside(path, DAMAGED)?);
                Ok(None)
            }
        }
    }

    /// Removes a report that was sent or dropped.
    pub(super) fn remove(&self, stored: &Stored) -> Result<(), SpoolError> {
        // The folder is not synced, so a crash may bring the file back. The server then recognises the report.
        fs::remove_file(&stored.path).map_err(|source| io_error(&stored.path, source))
    }

    /// Sets aside a report that the server refused.
    pub(super) fn refuse(&self, stored: Stored, error: &str) -> Result<(), SpoolError> {
        let path = stored.path.clone();
        // On a full disk, the error cannot be recorded, but the file can be renamed.
        let noted = self.note_failure(stored, error).map(drop);
        self.set_aside(&path, REFUSED)?;
        noted
    }

    /// Records a failed attempt in the file of the report. If that fails, the file stays as it was.
    pub(super) fn note_failure(&self, stored: Stored, error: &str) -> Result<Stored, SpoolError> {
        let Stored { report, path, lock } = stored;
        let attempts = report.attempts.saturating_add(1);
        let temporary = self.temporary(&report);
        let written = self.write(SpooledReport { attempts, error: Some(error.to_owned()), ..report }, path, &temporary);
        drop(lock);
        written
    }

    /// Records that the server temporarily refused a report, and moves it behind the others.
    pub(super) fn postpone(&self, stored: Stored, error: &str) -> Result<Stored, SpoolError> {
        let stored = self.note_failure(stored, error)?;
        let (attempts, place) = (stored.report.attempts.min(99_999), place(&stored.path));
        let path = self.folder.join(format!("{LATER}{attempts:05}-{place}"));
        fs::rename(&stored.path, &path).map_err(|source| io_error(&stored.path, source))?;
        self.sync()?;
        Ok(Stored { path, ..stored })
    }

    fn set_aside(&self, path: &Path, extension: &str) -> Result<PathBuf, SpoolError> {
        let aside = path.with_extension(extension);
        fs::rename(path, &aside).map_err(|source| io_error(path, source))?;
        self.sync()?;
        Ok(aside)
    }

    /// Writes a report to `temporary` and renames it to `path`, so that the file is complete or absent after a crash.
    fn write(&self, report: SpooledReport, path: PathBuf, temporary: &Path) -> Result<Stored, SpoolError> {
        let write = || {
            let bytes = file::encode(&report).map_err(io::Error::other)?;
            let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(temporary)?;
            file.lock()?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(temporary, &path)?;
            Ok(file)
        };
        let lock = write().map_err(|source| {
            // Ignore this error: the error of the write is the one to report.
            let _ = fs::remove_file(temporary);
            self.write_error(&path, source)
        })?;
        self.sync()?;
        Ok(Stored { report, path, lock })
    }

    fn sync(&self) -> Result<(), SpoolError> {
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(|source| io_error(&self.folder, source))
    }

    /// Creates a temporary file for a report, unless the spool is full. Other processes count the temporary file
    /// towards the bounds. Returns the path of the temporary file and the path of the report.
    fn reserve(&self, report: &SpooledReport) -> Result<(PathBuf, PathBuf), SpoolError> {
        let _lock = self.lock()?;
        self.ensure_room(report.rspamd.is_some())?;
        let path = self.temporary(report);
        let created = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        created.map_err(|source| self.write_error(&path, source))?;
        Ok((path, self.path_for(report)?))
    }

    /// Returns the path of a waiting report with the same ID and destination, or a path that sorts after all waiting
    /// reports.
    fn path_for(&self, report: &SpooledReport) -> Result<PathBuf, SpoolError> {
        let kind = if report.rspamd.is_some() { LESSON } else { WAITING };
        let end = format!("-{}.{kind}", report.id);
        let waiting = self.waiting()?;
        if let Some(path) = waiting.iter().find(|path| name(path).ends_with(&end)) {
            return Ok(path.clone());
        }
        // The clock may have gone back, or be too coarse.
        let last = waiting.iter().filter_map(|path| stored_at(path)).max().unwrap_or_default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time = now.max(last.saturating_add(Duration::from_nanos(1)));
        Ok(self.folder.join(format!("{:010}.{:09}{end}", time.as_secs(), time.subsec_nanos())))
    }

    fn temporary(&self, report: &SpooledReport) -> PathBuf {
        // Two threads may store reports with the same ID.
        let number = WRITES.fetch_add(1, Ordering::Relaxed);
        self.folder.join(format!("{TEMPORARY}{}-{}-{number}", report.id, std::process::id()))
    }

    fn lock(&self) -> Result<File, SpoolError> {
        let path = self.folder.join(LOCK);
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = opened.map_err(|source| self.write_error(&path, source))?;
        let deadline = Instant::now() + LOCK_WAIT_MAX;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(LOCK_INTERVAL),
                Err(TryLockError::WouldBlock) => return Err(SpoolError::Busy { folder: self.folder.clone() }),
                Err(TryLockError::Error(source)) => return Err(io_error(&path, source)),
            }
        }
    }

    /// Refuses another report if the spool is full. Removes temporary files that are left over from a crash.
    ///
    /// Messages for rspamd are refused when they fill half of the spool, so that there is room for reports.
    fn ensure_room(&self, is_lesson: bool) -> Result<(), SpoolError> {
        let (mut all, mut lessons) = (Use::default(), Use::default());
        for (path, metadata) in self.entries()? {
            let is_temporary = name(&path).starts_with(TEMPORARY);
            if is_temporary && is_left(&metadata) && fs::remove_file(&path).is_ok() {
                continue;
            }
            if is_temporary || KINDS.contains(&extension(&path)) {
                // A temporary file may still be empty, so it counts with its maximum length.
                let bytes = if is_temporary { FILE_BYTES_MAX } else { metadata.len() };
                all.add(bytes);
                if is_temporary || self::is_lesson(&path) {
                    lessons.add(bytes);
                }
            }
        }
        if all.is_full(1) || (is_lesson && lessons.is_full(2)) {
            return Err(SpoolError::Full { folder: self.folder.clone(), reports: all.files, bytes: all.bytes });
        }
        Ok(())
    }

    fn write_error(&self, path: &Path, source: io::Error) -> SpoolError {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                SpoolError::DiskFull { folder: self.folder.clone(), source }
            }
            _ => io_error(path, source),
        }
    }

    /// Returns the files with one of these extensions, sorted by name.
    fn files(&self, extensions: &[&str]) -> Result<Vec<PathBuf>, SpoolError> {
        let files = self.entries()?.into_iter().map(|(path, _)| path);
        let mut files: Vec<_> = files.filter(|path| extensions.contains(&extension(path))).collect();
        files.sort();
        Ok(files)
    }

    fn entries(&self) -> Result<Vec<(PathBuf, fs::Metadata)>, SpoolError> {
        let failed = |source| io_error(&self.folder, source);
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            match entry.metadata() {
                Ok(metadata) if metadata.is_file() => entries.push((entry.path(), metadata)),
                Ok(_) => {}
                // Another process has just sent the report.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(entries)
    }
}

impl Stored {
    /// Returns the report.
    #[must_use]
    pub const fn report(&self) -> &SpooledReport {
        &self.report
    }
}

/// Locks the file at `path`. Returns `None` if another process has locked, replaced or removed it.
fn lock_file(path: &Path) -> io::Result<Option<File>> {
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
        Ok(()) => {}
    }
    // The file may have been replaced between opening and locking.
    let is_same = |now: fs::Metadata, locked: fs::Metadata| (now.dev(), now.ino()) == (locked.dev(), locked.ino());
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        now => Ok(is_same(now?, file.metadata()?).then_some(file)),
    }
}

/// Reads a report. Returns `None` if the file is damaged.
pub(super) fn read(path: &Path) -> io::Result<Option<SpooledReport>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(file::decode(&bytes).filter(|_| bytes.len() as u64 <= FILE_BYTES_MAX))
}

/// Returns true if a temporary file is left over from a crash.
fn is_left(metadata: &fs::Metadata) -> bool {
    let age = metadata.modified().ok().and_then(|changed| changed.elapsed().ok());
    age.is_some_and(|age| age.as_secs() > TEMPORARY_SECONDS)
}

/// Returns true if the report at `path` is for rspamd.
pub(super) fn is_lesson(path: &Path) -> bool {
    extension(path) == LESSON
}

/// Returns true if the server temporarily refused the report at `path`.
pub(super) fn is_postponed(path: &Path) -> bool {
    name(path).starts_with(LATER)
}

/// Returns the name that the report at `path` had when it was stored. Names sort by time.
pub(super) fn place(path: &Path) -> &str {
    let later = name(path).strip_prefix(LATER).and_then(|rest| rest.split_once('-'));
    later.map_or_else(|| name(path), |(_, place)| place)
}

/// Returns the time since 1970 at which the report at `path` was stored. Earlier versions wrote whole seconds.
pub(super) fn stored_at(path: &Path) -> Option<Duration> {
    let (time, _) = place(path).split_once('-')?;
    let (seconds, nanos) = time.split_once('.').unwrap_or((time, "0"));
    let seconds: u32 = seconds.parse().ok()?;
    Some(Duration::from_secs(seconds.into()) + Duration::from_nanos(nanos.parse::<u32>().ok()?.into()))
}

/// Removes the message, so that a list needs little memory.
fn without_message(mut report: SpooledReport) -> SpooledReport {
    if let Some(lesson) = &mut report.rspamd {
        lesson.message = Vec::new();
    }
    report
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn io_error(path: &Path, source: io::Error) -> SpoolError {
    SpoolError::Io { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests;
