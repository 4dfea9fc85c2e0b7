//! Offers and logs as files in a directory that any web server can serve.
//!
//! Sharing needs nothing but the directory: readers fetch the segments from a static host. Segments are on disk before
//! heads name them, and heads are replaced atomically, so heads never name missing segments.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bruit_engine::exchange::Chain;
use tokio::task::spawn_blocking;

use super::{Sink, TransportError, paths};

/// Name of the file into which new heads are written before it is renamed.
const UNFINISHED: &str = "offer.new";

/// Depth of logs below the directory.
const LOG_DEPTH: usize = 5;

/// A sink that publishes into a directory.
#[derive(Clone, Debug)]
pub struct DirectorySink {
    directory: Arc<Path>,
}

impl DirectorySink {
    /// Opens a sink for this directory, which is created if it does not exist.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn open(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        Ok(Self { directory: Arc::from(directory) })
    }

    /// Removes the logs of all chains except those to keep, and returns their number. Does not touch other files.
    ///
    /// # Errors
    /// Any I/O error.
    pub fn keep_only(&self, keep: impl Fn(&Chain) -> bool) -> io::Result<u64> {
        let mut removed = 0;
        for (chain, file) in self.logs()? {
            if !keep(&chain) {
                fs::remove_file(&file)?;
                removed += 1;
                // Removing a folder fails if it is not empty.
                let folders = file.ancestors().skip(1).take(LOG_DEPTH - 1);
                folders.map_while(|folder| fs::remove_dir(folder).ok()).count();
            }
        }
        Ok(removed)
    }

    fn logs(&self) -> io::Result<Vec<(Chain, PathBuf)>> {
        let mut files = vec![self.directory.join(paths::LOG)];
        for _ in 1..LOG_DEPTH {
            files = files.iter().map(|folder| entries(folder)).collect::<io::Result<Vec<_>>>()?.concat();
        }
        let chain = |file: &PathBuf| paths::chain(file.strip_prefix(&self.directory).ok()?.to_str()?);
        Ok(files.into_iter().filter_map(|file| Some((chain(&file)?, file))).collect())
    }

    fn append(&self, chain: &Chain, offset: u64, segment: &[u8]) -> Result<(), TransportError> {
        let path = self.directory.join(paths::log(chain));
        let is_new = !path.exists();
        let folder = path.parent().unwrap_or(&self.directory);
        if is_new {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        if file.metadata().map_err(failed)?.len() < offset {
            return Err(TransportError::Missing);
        }
        write_at(&mut file, offset, segment).map_err(failed)?;
        if is_new { self.sync_folders(folder) } else { Ok(()) }.map_err(failed)
    }

    /// Syncs the folders above a new file, which could otherwise be lost in a crash.
    fn sync_folders(&self, folder: &Path) -> io::Result<()> {
        let mut above = folder.ancestors().take_while(|above| above.starts_with(&self.directory));
        above.try_for_each(|folder| File::open(folder)?.sync_all())
    }

    fn replace_heads(&self, heads: &[u8]) -> io::Result<()> {
        let unfinished = self.directory.join(UNFINISHED);
        let mut file = File::create(&unfinished)?;
        file.write_all(heads)?;
        file.sync_all()?;
        fs::rename(&unfinished, self.directory.join(paths::OFFER))?;
        File::open(&self.directory)?.sync_all()
    }
}

impl Sink for DirectorySink {
    /// Fails with [`TransportError::Missing`] if an earlier part of the log was not published.
    async fn publish(&self, chain: &Chain, offset: u64, segment: &[u8]) -> Result<(), TransportError> {
        let (sink, chain, segment) = (self.clone(), *chain, segment.to_vec());
        spawn_blocking(move || sink.append(&chain, offset, &segment)).await.map_err(|error| failed(error.into()))?
    }

    async fn retain(&self, chains: &[Chain]) -> Result<(), TransportError> {
        let (sink, chains) = (self.clone(), chains.to_vec());
        let removed = spawn_blocking(move || sink.keep_only(|chain| chains.contains(chain))).await;
        removed.map_err(|error| failed(error.into()))?.map(drop).map_err(failed)
    }

    async fn announce(&self, heads: &[u8]) -> Result<(), TransportError> {
        let (sink, heads) = (self.clone(), heads.to_vec());
        let written = spawn_blocking(move || sink.replace_heads(&heads)).await.map_err(|error| failed(error.into()))?;
        written.map_err(failed)
    }
}

/// Writes a segment at its offset, unless it is already there. If other bytes are there, such as a half-written
/// segment, they and everything after them are replaced.
fn write_at(file: &mut File, offset: u64, segment: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    let mut there = Vec::new();
    Read::by_ref(file).take(segment.len() as u64).read_to_end(&mut there)?;
    if there != segment {
        file.set_len(offset)?;
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(segment)?;
    }
    file.sync_all()
}

/// Lists a folder; returns nothing if it is not a folder.
fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn failed(error: io::Error) -> TransportError {
    TransportError::Unreachable(error.into())
}

#[cfg(test)]
mod tests {
    use bruit_engine::exchange::{Book, Origin};

    use super::*;

    fn chain(generation: u64) -> Chain {
        Chain { origin: Origin { key: [7; 32], incarnation: 1 }, book: Book::Listed, generation }
    }

    fn sink() -> (tempfile::TempDir, DirectorySink) {
        let folder = tempfile::tempdir().unwrap();
        let sink = DirectorySink::open(&folder.path().join("public")).unwrap();
        (folder, sink)
    }

    fn read(sink: &DirectorySink, path: &str) -> Vec<u8> {
        fs::read(sink.directory.join(path)).unwrap()
    }

    #[tokio::test]
    async fn a_log_is_its_segments_one_after_the_other() {
        let (_folder, sink) = sink();
        for (offset, segment) in [(0, "one"), (3, "three")] {
            sink.publish(&chain(9), offset, segment.as_bytes()).await.unwrap();
        }
        assert_eq!(read(&sink, &paths::log(&chain(9))), b"onethree");
    }

    #[tokio::test]
    async fn publishing_again_changes_nothing() {
        let (_folder, sink) = sink();
        for (offset, segment) in [(0, "one"), (3, "three"), (0, "one"), (3, "three"), (0, "one")] {
            sink.publish(&chain(9), offset, segment.as_bytes()).await.unwrap();
        }
        assert_eq!(read(&sink, &paths::log(&chain(9))), b"onethree");
    }

    #[tokio::test]
    async fn a_gap_is_refused_and_half_a_segment_replaced() {
        let (_folder, sink) = sink();
        let gap = sink.publish(&chain(9), 3, b"three").await;
        assert!(matches!(gap, Err(TransportError::Missing)));
        sink.publish(&chain(9), 0, b"onethr").await.unwrap();
        sink.publish(&chain(9), 3, b"four").await.unwrap();
        assert_eq!(read(&sink, &paths::log(&chain(9))), b"onefour");
    }

    #[tokio::test]
    async fn heads_are_replaced_as_a_whole() {
        let (_folder, sink) = sink();
        sink.announce(b"long heads").await.unwrap();
        sink.announce(b"short").await.unwrap();
        assert_eq!(read(&sink, paths::OFFER), b"short");
        assert_eq!(fs::read_dir(&sink.directory).unwrap().count(), 1, "nothing else is left");
    }

    #[tokio::test]
    async fn unneeded_logs_are_removed_with_their_folders() {
        let (_folder, sink) = sink();
        assert_eq!(sink.keep_only(|_| false).unwrap(), 0);
        for generation in [8, 9] {
            sink.publish(&chain(generation), 0, b"one").await.unwrap();
        }
        let other = sink.directory.join(paths::LOG).join("notes.txt");
        fs::write(&other, "not a log").unwrap();
        assert_eq!(sink.keep_only(|chain| chain.generation == 9).unwrap(), 1);
        assert_eq!(sink.logs().unwrap().len(), 1);
        assert_eq!(sink.keep_only(|_| false).unwrap(), 1);
        assert_eq!(
            entries(&sink.directory.join(paths::LOG)).unwrap(),
            [other],
            "folders are removed, other files stay"
        );
    }
}
