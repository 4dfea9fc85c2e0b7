//! Reads keys, one per line, in batches.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use bruit_filters::{Fingerprint, FingerprintKey};
use indicatif::ProgressBar;

use crate::failure::Failure;
use crate::files::bad_file;
use crate::progress;

/// Maximum length of a key in bytes, without its line ending.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of keys in a batch.
const BATCH_KEYS_MAX: usize = 4096;
/// Size in bytes at which a batch is full.
const BATCH_BYTES: usize = 1 << 20;
const BUFFER_BYTES: usize = 128 * 1024;

/// Options that select the keys.
#[derive(Debug, clap::Args)]
pub struct KeyFiles {
    /// Files of keys, one per line. Without KEYS, or with -, standard input is read
    #[arg(value_name = "KEYS")]
    files: Vec<PathBuf>,
}

/// A batch of keys, as text and as fingerprints.
#[derive(Default)]
pub struct Batch {
    text: Vec<u8>,
    ends: Vec<usize>,
    fingerprints: Vec<Fingerprint>,
}

impl Batch {
    /// Returns the fingerprints of the keys, in order.
    pub fn fingerprints(&self) -> &[Fingerprint] {
        &self.fingerprints
    }

    /// Returns the keys as text.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.text[start..end])
    }

    fn push(&mut self, line: &[u8], key: &FingerprintKey) {
        self.text.extend_from_slice(line);
        self.ends.push(self.text.len());
        self.fingerprints.push(key.fingerprint(line));
    }

    fn is_full(&self) -> bool {
        self.ends.len() == BATCH_KEYS_MAX || self.text.len() >= BATCH_BYTES
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.fingerprints.clear();
    }
}

/// Totals over all input.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Number of keys.
    pub keys: u64,
    /// Number of empty lines, which are skipped.
    pub empty_lines: u64,
}

impl KeyFiles {
    /// Creates the options for these files. The name `-` means standard input.
    pub const fn of(files: Vec<PathBuf>) -> Self {
        Self { files }
    }

    /// Calls `work` with all keys, in order, in batches.
    pub fn for_each_batch(
        &self,
        key: &FingerprintKey,
        prints_keys: bool,
        mut work: impl FnMut(&Batch) -> Result<(), Failure>,
    ) -> Result<Summary, Failure> {
        let inputs = self.open()?;
        let total_bytes = inputs.iter().map(|input| input.bytes).sum();
        let bar = progress::of_bytes(total_bytes, prints_keys);
        let mut reader = Reader { key, batch: Batch::default(), summary: Summary::default(), bar };
        for input in inputs {
            reader.read(input, &mut work)?;
        }
        reader.flush_batch(&mut work)?;
        reader.bar.finish_and_clear();
        Ok(reader.summary)
    }

    fn open(&self) -> Result<Vec<Input>, Failure> {
        if self.files.is_empty() {
            return Ok(vec![Input::standard()]);
        }
        ensure_one_standard(self.files.iter().map(PathBuf::as_path))?;
        self.files.iter().map(|path| Input::open(path)).collect()
    }
}

/// Returns an error if standard input is named twice, because it can be read only once.
pub fn ensure_one_standard<'a>(names: impl Iterator<Item = &'a Path>) -> Result<(), Failure> {
    if names.filter(|name| *name == Path::new("-")).count() > 1 {
        return Err(Failure::BadInput("standard input can be read only once, but - is given twice".into()));
    }
    Ok(())
}

/// An open source of keys.
pub struct Input {
    /// File name for error messages.
    pub name: PathBuf,
    source: Box<dyn BufRead>,
    /// Size in bytes, if known.
    pub bytes: Option<u64>,
}

impl Input {
    /// Opens a file, or standard input for `-`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::standard());
        }
        let file = File::open(path).map_err(|error| bad_file(path, error))?;
        let bytes = file.metadata().ok().and_then(|metadata| metadata.is_file().then_some(metadata.len()));
        let source = Box::new(BufReader::with_capacity(BUFFER_BYTES, file));
        Ok(Self { name: path.to_owned(), source, bytes })
    }

    fn standard() -> Self {
        Self { name: "standard input".into(), source: Box::new(io::stdin().lock()), bytes: standard_input_bytes() }
    }

    /// Calls `work` for each line, with its number and the line without its ending.
    pub fn for_each_line(
        mut self,
        bar: &ProgressBar,
        mut work: impl FnMut(u64, &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut line = Vec::new();
        let mut line_number = 0u64;
        while next_line(&mut self.source, &mut line).map_err(|error| bad_file(&self.name, error))? {
            line_number += 1;
            bar.inc(line.len() as u64);
            let key = without_ending(&line);
            if key.len() > LINE_BYTES_MAX {
                return Err(bad_file(&self.name, format!("line {line_number} is longer than {LINE_BYTES_MAX} bytes")));
            }
            work(line_number, key)?;
        }
        Ok(())
    }
}

/// Returns the size of standard input if that is a file.
#[cfg(unix)]
fn standard_input_bytes() -> Option<u64> {
    use std::os::fd::AsFd as _;
    let metadata = File::from(io::stdin().as_fd().try_clone_to_owned().ok()?).metadata().ok()?;
    metadata.is_file().then_some(metadata.len())
}

#[cfg(not(unix))]
fn standard_input_bytes() -> Option<u64> {
    None
}

/// Collects lines into batches.
struct Reader<'a> {
    key: &'a FingerprintKey,
    batch: Batch,
    summary: Summary,
    bar: ProgressBar,
}

impl Reader<'_> {
    fn read(&mut self, input: Input, work: &mut impl FnMut(&Batch) -> Result<(), Failure>) -> Result<(), Failure> {
        let bar = self.bar.clone();
        input.for_each_line(&bar, |_, key| {
            self.push(key);
            if self.batch.is_full() { self.flush_batch(work) } else { Ok(()) }
        })
    }

    fn push(&mut self, key: &[u8]) {
        if key.is_empty() {
            self.summary.empty_lines += 1;
            return;
        }
        self.summary.keys += 1;
        self.batch.push(key, self.key);
    }

    fn flush_batch(&mut self, work: &mut impl FnMut(&Batch) -> Result<(), Failure>) -> Result<(), Failure> {
        work(&self.batch)?;
        self.batch.clear();
        Ok(())
    }
}

/// Reads a line with its ending. Stops early if the line is too long. Returns false at the end of the input.
fn next_line(source: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    source.take(LINE_BYTES_MAX as u64 + 2).read_until(b'\n', line)?;
    Ok(!line.is_empty())
}

fn without_ending(line: &[u8]) -> &[u8] {
    let Some(line) = line.strip_suffix(b"\n") else { return line };
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns a random key.
pub fn random_key() -> Result<FingerprintKey, Failure> {
    let mut bytes = [0; 16];
    let filled = getrandom::fill(&mut bytes).map_err(anyhow::Error::from);
    filled.context("failed to get random bytes for the key").map_err(Failure::Other)?;
    Ok(FingerprintKey::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_endings_are_taken_off() {
        for (line, key) in
            [("a\n", "a"), ("a\r\n", "a"), ("a", "a"), ("a\r", "a\r"), ("a\r\r\n", "a\r"), ("\r\n", ""), ("\n", "")]
        {
            assert_eq!(without_ending(line.as_bytes()), key.as_bytes());
        }
    }

    #[test]
    fn a_line_at_the_limit_is_read_in_full() {
        let text = [vec![b'a'; LINE_BYTES_MAX], b"\r\n".to_vec(), vec![b'b'; 3]].concat();
        let mut source = text.as_slice();
        let mut line = Vec::new();
        assert!(next_line(&mut source, &mut line).unwrap());
        assert_eq!(without_ending(&line).len(), LINE_BYTES_MAX);
        assert!(next_line(&mut source, &mut line).unwrap());
        assert_eq!(line, b"bbb");
        assert!(!next_line(&mut source, &mut line).unwrap());
    }
}
