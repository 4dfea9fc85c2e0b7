//! Write operations behind a trait, so that tests can make them fail.
//!
//! Reads need no trait: tests simulate bad reads by changing the files.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// A file system to create and replace files on.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Creates a file for writing that only the owner may read, replacing any file of that name.
    ///
    /// # Errors
    /// Any I/O error; the same applies to the other methods.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Opens a file for appending.
    ///
    /// # Errors
    /// See [`create`](Self::create).
    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file atomically.
    ///
    /// # Errors
    /// See [`create`](Self::create).
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// See [`create`](Self::create).
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Waits until the entries of a directory are on disk.
    ///
    /// # Errors
    /// See [`create`](Self::create).
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// A file open for writing.
pub trait DiskFile: Send {
    /// Appends `bytes`.
    ///
    /// # Errors
    /// Any I/O error; some of the bytes may have been written.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Waits until all written bytes and the length are on disk (`fdatasync`).
    ///
    /// # Errors
    /// Any I/O error; the contents of the file are unknown afterwards.
    fn sync(&mut self) -> io::Result<()>;

    /// Truncates the file to `length` bytes.
    ///
    /// # Errors
    /// Any I/O error.
    fn set_len(&mut self, length: u64) -> io::Result<()>;
}

/// The operating system's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Box::new(private().append(true).create_new(true).open(path)?))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(OpenOptions::new().append(true).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// Removes a file. Succeeds if it is already gone.
pub(crate) fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Returns options that create files for the owner alone, because they contain the realm's key and account credentials.
pub(crate) fn private() -> OpenOptions {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a directory for the owner alone. Creates missing parents with default permissions.
pub(crate) fn create_private_directory(path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

impl DiskFile for File {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        io::Write::write_all(self, bytes)?;
        self.flush()
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn set_len(&mut self, length: u64) -> io::Result<()> {
        Self::set_len(self, length)
    }
}
