//! Opens files and checks their length, and writes files atomically.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use bruit_filters::file::FileError;
use tempfile::NamedTempFile;

use crate::failure::Failure;
use crate::quantity::human_bytes;

const BUFFER_BYTES: usize = 128 * 1024;

/// Returns an error about the file at `path`. `what` is the text after the path.
pub fn bad_file(path: &Path, what: impl Display) -> Failure {
    Failure::BadInput(format!("{}: {what}", path.display()))
}

/// Opens a regular file and returns it with its length.
pub fn open(path: &Path) -> Result<(BufReader<File>, u64), Failure> {
    // Check the type before opening the file, because opening a pipe blocks until the pipe has a writer.
    let metadata = fs::metadata(path).map_err(|error| bad_file(path, error))?;
    if !metadata.is_file() {
        return Err(bad_file(path, "not a regular file"));
    }
    let file = File::open(path).map_err(|error| bad_file(path, error))?;
    Ok((BufReader::with_capacity(BUFFER_BYTES, file), metadata.len()))
}

/// Opens a file and checks its length against its header.
pub fn open_checked<H>(
    path: &Path,
    read_header: impl FnOnce(&mut BufReader<File>) -> Result<H, FileError>,
    file_bytes: impl FnOnce(&H) -> u64,
) -> Result<(BufReader<File>, H), Failure> {
    let (mut input, length) = open(path)?;
    let header = read_header(&mut input).map_err(|error| bad_file(path, error))?;
    match file_bytes(&header) {
        wanted if wanted > length => return Err(bad_file(path, FileError::Truncated)),
        wanted if wanted < length => return Err(bad_file(path, FileError::TrailingBytes)),
        _ => input.rewind().map_err(|error| bad_file(path, error))?,
    }
    Ok((input, header))
}

/// Returns an error if the system cannot allocate `bytes` bytes for `what`. The check is cheap, because it accesses
/// none of the memory.
pub fn ensure_memory(what: &str, bytes: u64) -> Result<(), String> {
    let room = usize::try_from(bytes).ok().and_then(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).ok());
    room.ok_or_else(|| format!("not enough memory for {what} of {}", human_bytes(bytes)))
}

/// A kind of file. An output may replace only files of its own kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileKind {
    /// Name of the kind, with an indefinite article: "a delta".
    pub name: &'static str,
    /// Name of the content, for advice: "the delta".
    pub content: &'static str,
    /// First bytes of each file of this kind.
    pub magic: [u8; 8],
    /// True if other users may read a new file of this kind. False if it contains a key.
    pub is_public: bool,
}

/// The files that an output may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// No file, or any regular file if `force` is true.
    New {
        /// True to replace an existing file.
        force: bool,
    },
    /// A file of the same kind.
    Replace(FileKind),
}

impl Output {
    fn ensure_may_replace(self, path: &Path) -> Result<(), Failure> {
        let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
        if !metadata.is_file() {
            return Err(bad_file(path, "not a regular file"));
        }
        match self {
            Self::New { force: true } => Ok(()),
            Self::New { force: false } => Err(bad_file(path, "file exists; use --force to replace it")),
            Self::Replace(kind) if start_of(path)? == kind.magic => Ok(()),
            Self::Replace(kind) => {
                let what = format!("file exists and is not {}; choose another name for {}", kind.name, kind.content);
                Err(bad_file(path, what))
            }
        }
    }

    const fn is_public(self) -> bool {
        matches!(self, Self::Replace(kind) if kind.is_public)
    }
}

/// Returns the first bytes of a file, padded with zeros.
pub fn start_of(path: &Path) -> Result<[u8; 8], Failure> {
    let (mut input, _) = open(path)?;
    let mut start = [0; 8];
    let mut filled = 0;
    while filled < start.len() {
        match input.read(&mut start[filled..]).map_err(|error| bad_file(path, error))? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(start)
}

/// A lock that serializes changes of a file.
pub struct ChangeLock {
    _file: Option<File>,
}

impl ChangeLock {
    /// Waits for the lock on `path` and takes it. If the file does not exist, nothing is locked.
    pub fn take(path: &Path) -> Result<Self, Failure> {
        // Lock only regular files. Other kinds of files are rejected later, and opening a pipe would block.
        while fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
            let file = match File::open(path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self { _file: None }),
                Err(error) => return Err(bad_file(path, error)),
            };
            file.lock().map_err(|error| bad_file(path, error))?;
            // The previous holder of the lock may have replaced the file.
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

/// Makes the same checks as [`write_atomically`], for use before the output is computed.
pub fn ensure_may_write(path: &Path, kind: Output) -> Result<(), Failure> {
    kind.ensure_may_replace(&follow(path)?)
}

/// Writes the output of `write` to `path` atomically, and syncs it to disk.
pub fn write_atomically<T>(
    path: &Path,
    kind: Output,
    write: impl FnOnce(&mut BufWriter<&File>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let target = &follow(path)?;
    kind.ensure_may_replace(target)?;
    let folder = folder_of(target);
    let temporary = create_beside(target, &folder, kind).map_err(|error| bad_file(path, reason(&error)))?;
    let mut output = BufWriter::with_capacity(BUFFER_BYTES, temporary.as_file());
    let value = write(&mut output)?;
    output.flush().map_err(|error| bad_file(path, error))?;
    drop(output);
    commit(temporary, target, &folder, kind).map_err(|error| bad_file(path, reason(&error)))?;
    Ok(value)
}

/// Resolves a symbolic link, so that its target is replaced. Returns other paths unchanged.
fn follow(path: &Path) -> Result<PathBuf, Failure> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => {
            fs::canonicalize(path).map_err(|error| bad_file(path, format!("broken link: {error}")))
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

/// Returns the system's error message, without the name of the temporary file.
fn reason(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |code| io::Error::from_raw_os_error(code).to_string())
}

/// Creates a temporary file with the owner and permissions of the file that it will replace. A new file that contains a
/// key is readable only by its owner.
fn create_beside(path: &Path, folder: &Path, kind: Output) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".bruit-");
    #[cfg(unix)]
    if kind.is_public() {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let temporary = builder.tempfile_in(folder)?;
    if let (Ok(metadata), Output::Replace(_)) = (fs::metadata(path), kind) {
        temporary.as_file().set_permissions(metadata.permissions())?;
        keep_owner(temporary.as_file(), &metadata);
    }
    Ok(temporary)
}

/// Sets the owner to the owner of the replaced file, if this is permitted.
#[cfg(unix)]
fn keep_owner(file: &File, replaced: &fs::Metadata) {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    // If the owner cannot be changed, the file belongs to the current user, like any new file.
    let _ = fchown(file, Some(replaced.uid()), Some(replaced.gid()));
}

#[cfg(not(unix))]
fn keep_owner(_: &File, _: &fs::Metadata) {}

fn commit(temporary: NamedTempFile, path: &Path, folder: &Path, kind: Output) -> io::Result<()> {
    temporary.as_file().sync_all()?;
    match kind {
        Output::New { force: false } => temporary.persist_noclobber(path)?,
        _ => temporary.persist(path)?,
    };
    File::open(folder)?.sync_all()
}
