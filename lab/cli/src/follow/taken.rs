//! The list of files already recorded, and how it is stored. Files are identified by their metadata.
//!
//! File names are not used: rotation reuses names, and mail is renamed when it is read.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Maximum size of the list, enough for a million files.
const LIST_BYTES_MAX: u64 = 64 << 20;

/// Identity and state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            seconds: metadata.mtime(),
            nanoseconds: metadata.mtime_nsec(),
        }
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let mut number = || words.next()?.parse::<i128>().ok();
        let (device, inode, length) = (number()?, number()?, number()?);
        let (seconds, nanoseconds) = (number()?, number()?);
        Some(Self {
            device: device.try_into().ok()?,
            inode: inode.try_into().ok()?,
            length: length.try_into().ok()?,
            seconds: seconds.try_into().ok()?,
            nanoseconds: nanoseconds.try_into().ok()?,
        })
    }
}

/// Recorded files that still exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordedFiles(BTreeSet<Stamp>);

impl RecordedFiles {
    /// Reads a list; empty if the file does not exist.
    pub(crate) fn load(path: &Path) -> io::Result<Self> {
        let mut text = String::new();
        match File::open(path) {
            Ok(file) => file.take(LIST_BYTES_MAX).read_to_string(&mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let stamps: Option<_> = text.lines().map(Stamp::parse).collect();
        stamps.map(Self).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a list of recorded files"))
    }

    /// Writes the list atomically.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        let temporary = path.with_extension("tmp");
        let mut text = String::new();
        for Stamp { device, inode, length, seconds, nanoseconds } in &self.0 {
            text.push_str(&format!("{device} {inode} {length} {seconds} {nanoseconds}\n"));
        }
        let mut file = File::create(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    }

    pub(super) fn insert(&mut self, stamp: Stamp) {
        self.0.insert(stamp);
    }

    pub(super) fn contains(&self, stamp: &Stamp) -> bool {
        self.0.contains(stamp)
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&Stamp) -> bool) {
        self.0.retain(keep);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_none_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list");
        assert_eq!(RecordedFiles::load(&path).unwrap(), RecordedFiles::default());
        for (text, is_list) in
            [("", true), ("1 2 3 -4 5\n", true), ("1 2 3 4\n", false), ("-1 2 3 4 5\n", false), ("x", false)]
        {
            fs::write(&path, text).unwrap();
            assert_eq!(RecordedFiles::load(&path).is_ok(), is_list, "{text:?}");
        }
    }
}
