//! Files: opened with their length checked, written in full or not at all.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use bruit_filters::file::{self, FileError, FilterFile, Header, Stored};
use tempfile::NamedTempFile;

use crate::failure::Failure;
use crate::quantity::human_bytes;

const BUFFER_BYTES: usize = 128 * 1024;

/// `path: what`, as one line.
pub(super) fn wrong(path: &Path, what: impl Display) -> Failure {
    Failure::BadInput(format!("{}: {what}", path.display()))
}

/// Opens a regular file, and tells how long it is.
pub(super) fn open(path: &Path) -> Result<(BufReader<File>, u64), Failure> {
    let file = File::open(path).map_err(|error| wrong(path, error))?;
    let metadata = file.metadata().map_err(|error| wrong(path, error))?;
    if !metadata.is_file() {
        return Err(wrong(path, "not a regular file"));
    }
    Ok((BufReader::with_capacity(BUFFER_BYTES, file), metadata.len()))
}

/// Opens a filter file whose length is what its header says.
pub(super) fn open_filter(path: &Path) -> Result<(BufReader<File>, Header), Failure> {
    let (mut input, length) = open(path)?;
    let (header, _) = file::read_header(&mut input).map_err(|error| wrong(path, error))?;
    match header.file_bytes() {
        wanted if wanted > length => return Err(wrong(path, FileError::Truncated)),
        wanted if wanted < length => return Err(wrong(path, FileError::TrailingBytes)),
        _ => input.rewind().map_err(|error| wrong(path, error))?,
    }
    Ok((input, header))
}

/// Reads a filter file in full.
pub(super) fn read(path: &Path) -> Result<FilterFile, Failure> {
    let (mut input, header) = open_filter(path)?;
    ensure_memory(header.payload_bytes()).map_err(|what| wrong(path, what))?;
    file::decode(&mut input, header.payload_bytes()).map_err(|error| wrong(path, error))
}

/// Refuses a size that the system would not give; asking is cheap, as nothing is touched.
pub(super) fn ensure_memory(bytes: u64) -> Result<(), String> {
    let room = usize::try_from(bytes).ok().and_then(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).ok());
    room.ok_or_else(|| format!("there is no memory for a filter of {}", human_bytes(bytes)))
}

/// What to do if the file is there already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    Replace,
    Refuse,
}

/// Who may read a new file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Readers {
    /// Its owner: there may be a key inside.
    Owner,
    /// Whoever may read new files here.
    Usual,
}

/// Writes `path` with what `write` gives: all of it, on disk, or nothing.
pub(super) fn write_atomically<T>(
    path: &Path,
    existing: Existing,
    readers: Readers,
    write: impl FnOnce(&mut BufWriter<&File>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    // A link is followed, as writing in place would.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = folder_of(path);
    let temporary = create_beside(path, &folder, readers).map_err(|error| wrong(path, error))?;
    let mut output = BufWriter::with_capacity(BUFFER_BYTES, temporary.as_file());
    let value = write(&mut output)?;
    output.flush().map_err(|error| wrong(path, error))?;
    drop(output);
    commit(temporary, path, &folder, existing).map_err(|error| wrong(path, error))?;
    Ok(value)
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// A temporary file, with the rights of the one it will replace if there is one.
fn create_beside(path: &Path, folder: &Path, readers: Readers) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".bruit-");
    #[cfg(unix)]
    if readers == Readers::Usual {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let temporary = builder.tempfile_in(folder)?;
    if let Ok(metadata) = fs::metadata(path) {
        temporary.as_file().set_permissions(metadata.permissions())?;
    }
    Ok(temporary)
}

fn commit(temporary: NamedTempFile, path: &Path, folder: &Path, existing: Existing) -> io::Result<()> {
    temporary.as_file().sync_all()?;
    match existing {
        Existing::Replace => temporary.persist(path)?,
        Existing::Refuse => temporary.persist_noclobber(path)?,
    };
    File::open(folder)?.sync_all()
}

/// Writes `filter`, which was read from a file or made for one, with its label.
pub(super) fn write_filter(path: &Path, existing: Existing, filter: &FilterFile) -> Result<(), Failure> {
    write_atomically(path, existing, Readers::Owner, |output| {
        file::encode(&filter.filter, &filter.label(), output).map_err(|error| wrong(path, error))
    })?;
    Ok(())
}

/// What the array of `filter` takes.
pub(super) fn payload_bytes(filter: &impl Stored) -> u64 {
    filter.shape().payload_bytes()
}
