//! Files: opened with their length checked, written in full or not at all.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use bruit_filters::file::{self, FileError, FilterFile, Header, Stored};
use bruit_filters::map::MAP_MAGIC;
use tempfile::NamedTempFile;

use crate::failure::Failure;
use crate::quantity::human_bytes;

const BUFFER_BYTES: usize = 128 * 1024;

/// `path: what`, as one line.
pub(crate) fn wrong(path: &Path, what: impl Display) -> Failure {
    Failure::BadInput(format!("{}: {what}", path.display()))
}

/// Opens a regular file, and tells how long it is.
pub(crate) fn open(path: &Path) -> Result<(BufReader<File>, u64), Failure> {
    // Asked before opening: to open a pipe is to wait for its writer.
    let metadata = fs::metadata(path).map_err(|error| wrong(path, error))?;
    if !metadata.is_file() {
        return Err(wrong(path, "not a regular file"));
    }
    let file = File::open(path).map_err(|error| wrong(path, error))?;
    Ok((BufReader::with_capacity(BUFFER_BYTES, file), metadata.len()))
}

/// Opens a filter file whose length is what its header says.
pub(crate) fn open_filter(path: &Path) -> Result<(BufReader<File>, Header), Failure> {
    open_checked(path, |input| file::read_header(input).map(|(header, _)| header), Header::file_bytes)
}

/// Opens a file whose length is what its header says.
pub(crate) fn open_checked<H>(
    path: &Path,
    read_header: impl FnOnce(&mut BufReader<File>) -> Result<H, FileError>,
    file_bytes: impl FnOnce(&H) -> u64,
) -> Result<(BufReader<File>, H), Failure> {
    let (mut input, length) = open(path)?;
    let header = read_header(&mut input).map_err(|error| wrong(path, error))?;
    match file_bytes(&header) {
        wanted if wanted > length => return Err(wrong(path, FileError::Truncated)),
        wanted if wanted < length => return Err(wrong(path, FileError::TrailingBytes)),
        _ => input.rewind().map_err(|error| wrong(path, error))?,
    }
    Ok((input, header))
}

/// Reads a filter file in full.
pub(crate) fn read(path: &Path) -> Result<FilterFile, Failure> {
    let (mut input, header) = open_filter(path)?;
    ensure_memory("a filter", header.payload_bytes()).map_err(|what| wrong(path, what))?;
    file::decode(&mut input, header.payload_bytes()).map_err(|error| wrong(path, error))
}

/// Refuses a size that the system would not give; asking is cheap, as nothing is touched.
pub(crate) fn ensure_memory(what: &str, bytes: u64) -> Result<(), String> {
    let room = usize::try_from(bytes).ok().and_then(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).ok());
    room.ok_or_else(|| format!("there is no memory for {what} of {}", human_bytes(bytes)))
}

/// What a file is going to hold, and so what it may replace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// A new filter with a new key: nothing, or any file if that was asked for.
    NewFilter { force: bool },
    /// A filter: nothing, or a filter.
    Filter,
    /// A delta: nothing, or a delta.
    Delta,
    /// A map: nothing, or a map.
    Map,
}

impl Output {
    /// Refuses to replace what should not be replaced.
    fn ensure_may_replace(self, path: &Path) -> Result<(), Failure> {
        let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
        if !metadata.is_file() {
            return Err(wrong(path, "not a regular file"));
        }
        let magic = match self {
            Self::NewFilter { force: true } => return Ok(()),
            Self::NewFilter { force: false } => return Err(wrong(path, "it exists already; --force replaces it")),
            Self::Filter => file::FILTER_MAGIC,
            Self::Delta => file::DELTA_MAGIC,
            Self::Map => MAP_MAGIC,
        };
        if start_of(path)? == magic { Ok(()) } else { Err(wrong(path, self.refusal())) }
    }

    const fn refusal(self) -> &'static str {
        match self {
            Self::Delta => "it exists and is not a delta; choose another name for the delta",
            Self::Map => "it exists and is not a map file; choose another name for the map",
            _ => "it exists and is not a filter file; choose another name for the filter",
        }
    }
}

/// The first bytes of a file, zeros beyond its end.
pub(crate) fn start_of(path: &Path) -> Result<[u8; 8], Failure> {
    let (mut input, _) = open(path)?;
    let mut start = [0; 8];
    let mut filled = 0;
    while filled < start.len() {
        match input.read(&mut start[filled..]).map_err(|error| wrong(path, error))? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(start)
}

/// Held while a file is read, changed and replaced: others who want to change it wait.
pub(crate) struct ChangeLock {
    _file: Option<File>,
}

impl ChangeLock {
    /// Waits until nobody else is changing `path`. There is nothing to wait for if it does not exist.
    pub(crate) fn take(path: &Path) -> Result<Self, Failure> {
        // What is no regular file will be refused anyway, and to open a pipe is to wait for its writer.
        while fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
            let file = match File::open(path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self { _file: None }),
                Err(error) => return Err(wrong(path, error)),
            };
            file.lock().map_err(|error| wrong(path, error))?;
            // Whoever held the lock has put another file in its place by now.
            if is_at(&file, path) {
                return Ok(Self { _file: Some(file) });
            }
        }
        Ok(Self { _file: None })
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    file.metadata().map(identity).ok() == fs::metadata(path).map(identity).ok()
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

/// Refuses to write `path` as [`write_atomically`] would, before there is anything to write.
pub(crate) fn ensure_may_write(path: &Path, kind: Output) -> Result<(), Failure> {
    kind.ensure_may_replace(&follow(path)?)
}

/// Writes `path` with what `write` gives: all of it, on disk, or nothing.
pub(crate) fn write_atomically<T>(
    path: &Path,
    kind: Output,
    write: impl FnOnce(&mut BufWriter<&File>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let target = &follow(path)?;
    kind.ensure_may_replace(target)?;
    let folder = folder_of(target);
    let temporary = create_beside(target, &folder, kind).map_err(|error| wrong(path, reason(&error)))?;
    let mut output = BufWriter::with_capacity(BUFFER_BYTES, temporary.as_file());
    let value = write(&mut output)?;
    output.flush().map_err(|error| wrong(path, error))?;
    drop(output);
    commit(temporary, target, &folder, kind).map_err(|error| wrong(path, reason(&error)))?;
    Ok(value)
}

/// Where a link leads, as writing in place would go; the path itself if it is none.
fn follow(path: &Path) -> Result<PathBuf, Failure> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => {
            fs::canonicalize(path).map_err(|error| wrong(path, format!("a link that leads nowhere: {error}")))
        }
        _ => Ok(path.to_owned()),
    }
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// What the system says, without the name of the temporary file.
fn reason(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |code| io::Error::from_raw_os_error(code).to_string())
}

/// A temporary file with the owner and the rights of the one it replaces. A new filter is for its owner's eyes only,
/// whatever was there, for there is a key inside.
fn create_beside(path: &Path, folder: &Path, kind: Output) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".bruit-");
    #[cfg(unix)]
    if kind == Output::Delta {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let temporary = builder.tempfile_in(folder)?;
    if let (Ok(metadata), Output::Filter | Output::Delta | Output::Map) = (fs::metadata(path), kind) {
        temporary.as_file().set_permissions(metadata.permissions())?;
        keep_owner(temporary.as_file(), &metadata);
    }
    Ok(temporary)
}

/// Gives the file to the owner of the one it replaces, where we may.
#[cfg(unix)]
fn keep_owner(file: &File, replaced: &fs::Metadata) {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    // Without the right to do so the file stays ours, as any file that we write anew.
    let _ = fchown(file, Some(replaced.uid()), Some(replaced.gid()));
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &fs::Metadata) {}

fn commit(temporary: NamedTempFile, path: &Path, folder: &Path, kind: Output) -> io::Result<()> {
    temporary.as_file().sync_all()?;
    match kind {
        Output::NewFilter { force: false } => temporary.persist_noclobber(path)?,
        _ => temporary.persist(path)?,
    };
    File::open(folder)?.sync_all()
}

/// Writes `filter`, which was read from a file or made for one, with its label.
pub(crate) fn write_filter(path: &Path, filter: &FilterFile) -> Result<(), Failure> {
    write_atomically(path, Output::Filter, |output| filter.write(output).map_err(|error| wrong(path, error)))?;
    Ok(())
}

/// What the array of `filter` takes.
pub(crate) fn payload_bytes(filter: &impl Stored) -> u64 {
    filter.shape().payload_bytes()
}
