//! Streams of words: arrays are read and written in small steps, to use little memory.

use std::io::{self, Read, Write};

use super::{FileError, Part};

/// Number of words converted to or from bytes at a time.
const STEP_WORDS: usize = 4096;

/// The common prefix of the magic numbers of filters and deltas.
const MAGIC_FRONT: [u8; 6] = *b"\x89bruit";

/// Returns the CRC-32 of `bytes`.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// An incremental CRC-32.
#[derive(Clone, Default)]
pub struct Checksum(crc32fast::Hasher);

impl Checksum {
    /// Adds `bytes` to the checksum.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds `words` to the checksum, in the byte order of a file.
    pub fn add_words(&mut self, words: &[u64]) {
        let mut output = OutputWords::new(io::sink());
        output.checksum = std::mem::take(self);
        output.put(words).expect("writing to a sink cannot fail");
        *self = output.checksum;
    }

    /// Returns the checksum of the bytes so far.
    pub fn value(&self) -> u32 {
        self.0.clone().finalize()
    }
}

/// Reads bytes and words, and computes their checksum.
pub struct InputWords<R> {
    input: R,
    bytes: Vec<u8>,
    /// Checksum of everything so far.
    pub checksum: Checksum,
}

impl<R: Read> InputWords<R> {
    /// Creates a reader with an empty checksum.
    pub fn new(input: R) -> Self {
        Self { input, bytes: Vec::new(), checksum: Checksum::default() }
    }

    /// Fills `bytes` from the input.
    pub fn take_bytes(&mut self, bytes: &mut [u8]) -> Result<(), FileError> {
        read_exactly(&mut self.input, bytes)?;
        self.checksum.add(bytes);
        Ok(())
    }

    /// Fills `words` from the input.
    pub fn take(&mut self, words: &mut [u64]) -> Result<(), FileError> {
        for step in words.chunks_mut(STEP_WORDS) {
            self.bytes.resize(step.len() * 8, 0);
            read_exactly(&mut self.input, &mut self.bytes)?;
            self.checksum.add(&self.bytes);
            for (word, bytes) in step.iter_mut().zip(self.bytes.as_chunks().0) {
                *word = u64::from_le_bytes(*bytes);
            }
        }
        Ok(())
    }

    /// Returns the underlying reader.
    pub const fn input(&mut self) -> &mut R {
        &mut self.input
    }
}

/// Writes bytes and words, and computes their checksum.
pub struct OutputWords<W> {
    output: W,
    bytes: Vec<u8>,
    /// Checksum of everything so far.
    pub checksum: Checksum,
}

impl<W: Write> OutputWords<W> {
    /// Creates a writer with an empty checksum.
    pub fn new(output: W) -> Self {
        Self { output, bytes: Vec::new(), checksum: Checksum::default() }
    }

    /// Writes `bytes`.
    pub fn put_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum.add(bytes);
        self.output.write_all(bytes)
    }

    /// Writes `words`, little-endian.
    pub fn put(&mut self, words: &[u64]) -> io::Result<()> {
        for step in words.chunks(STEP_WORDS) {
            self.bytes.resize(step.len() * 8, 0);
            for (word, bytes) in step.iter().zip(self.bytes.as_chunks_mut().0) {
                *bytes = word.to_le_bytes();
            }
            self.checksum.add(&self.bytes);
            self.output.write_all(&self.bytes)?;
        }
        Ok(())
    }

    /// Returns the underlying writer.
    pub const fn output(&mut self) -> &mut W {
        &mut self.output
    }
}

/// Fills `bytes` from the input. Returns [`FileError::Truncated`] if the input ends too early.
pub(crate) fn read_exactly(input: &mut impl Read, bytes: &mut [u8]) -> Result<(), FileError> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => FileError::Truncated,
        _ => error.into(),
    })
}

/// Returns the first `N` bytes, or `None` if they do not begin with the common prefix of this crate's magic numbers.
pub fn read_start<const N: usize>(input: &mut impl Read) -> Result<Option<[u8; N]>, FileError> {
    let mut bytes = [0; N];
    let (front, rest) = bytes.split_at_mut(MAGIC_FRONT.len());
    match read_exactly(input, front) {
        Ok(()) if *front == MAGIC_FRONT => read_exactly(input, rest).map(|()| Some(bytes)),
        Ok(()) | Err(FileError::Truncated) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Checks that the next four bytes are the checksum of everything read and that the input ends there.
pub(crate) fn expect_checksum<R: Read>(input: &mut InputWords<R>) -> Result<(), FileError> {
    let computed = input.checksum.value();
    let mut stored = [0; 4];
    read_exactly(&mut input.input, &mut stored)?;
    if u32::from_le_bytes(stored) != computed {
        return Err(FileError::Damaged { part: Part::Changes });
    }
    expect_end(&mut input.input)
}

/// Returns an error if the input is not at its end.
pub fn expect_end(input: &mut impl Read) -> Result<(), FileError> {
    match read_exactly(input, &mut [0]) {
        Ok(()) => Err(FileError::TrailingBytes),
        Err(FileError::Truncated) => Ok(()),
        Err(error) => Err(error),
    }
}
