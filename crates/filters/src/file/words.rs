//! Streams of words: arrays on their way in and out, in steps that need little memory.

use std::io::{self, Read, Write};

use super::{FileError, Part};

/// Words that are turned into bytes, or back, at a time.
const STEP_WORDS: usize = 4096;

/// How the magic of filters and of deltas begins.
const MAGIC_FRONT: [u8; 6] = *b"\x89bruit";

/// CRC-32 of `bytes`.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// A CRC-32 that grows.
#[derive(Clone, Default)]
pub(crate) struct Checksum(crc32fast::Hasher);

impl Checksum {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Adds `words` as a file holds them.
    pub(crate) fn add_words(&mut self, words: &[u64]) {
        let mut output = OutputWords::new(io::sink());
        output.checksum = std::mem::take(self);
        output.put(words).expect("a sink takes everything");
        *self = output.checksum;
    }

    pub(crate) fn value(&self) -> u32 {
        self.0.clone().finalize()
    }
}

/// Reads bytes and words, and keeps the checksum of them.
pub(crate) struct InputWords<R> {
    input: R,
    bytes: Vec<u8>,
    pub(crate) checksum: Checksum,
}

impl<R: Read> InputWords<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, bytes: Vec::new(), checksum: Checksum::default() }
    }

    /// Fills `bytes`.
    pub(crate) fn take_bytes(&mut self, bytes: &mut [u8]) -> Result<(), FileError> {
        read_exactly(&mut self.input, bytes)?;
        self.checksum.add(bytes);
        Ok(())
    }

    /// Fills `words`.
    pub(crate) fn take(&mut self, words: &mut [u64]) -> Result<(), FileError> {
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

    pub(crate) const fn input(&mut self) -> &mut R {
        &mut self.input
    }
}

/// Writes bytes and words, and keeps the checksum of them.
pub(crate) struct OutputWords<W> {
    output: W,
    bytes: Vec<u8>,
    pub(crate) checksum: Checksum,
}

impl<W: Write> OutputWords<W> {
    pub(crate) fn new(output: W) -> Self {
        Self { output, bytes: Vec::new(), checksum: Checksum::default() }
    }

    pub(crate) fn put_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum.add(bytes);
        self.output.write_all(bytes)
    }

    pub(crate) fn put(&mut self, words: &[u64]) -> io::Result<()> {
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

    pub(crate) const fn output(&mut self) -> &mut W {
        &mut self.output
    }
}

/// Fills `bytes`, telling an early end from other errors.
pub(crate) fn read_exactly(input: &mut impl Read, bytes: &mut [u8]) -> Result<(), FileError> {
    input.read_exact(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => FileError::Truncated,
        _ => error.into(),
    })
}

/// The first `N` bytes; none if they do not begin as all encodings of ours do.
pub(crate) fn read_start<const N: usize>(input: &mut impl Read) -> Result<Option<[u8; N]>, FileError> {
    let mut bytes = [0; N];
    let (front, rest) = bytes.split_at_mut(MAGIC_FRONT.len());
    match read_exactly(input, front) {
        Ok(()) if *front == MAGIC_FRONT => read_exactly(input, rest).map(|()| Some(bytes)),
        Ok(()) | Err(FileError::Truncated) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses a delta whose last four bytes are not the checksum of what was read, or that goes on.
pub(crate) fn expect_checksum<R: Read>(input: &mut InputWords<R>) -> Result<(), FileError> {
    let computed = input.checksum.value();
    let mut stored = [0; 4];
    read_exactly(&mut input.input, &mut stored)?;
    if u32::from_le_bytes(stored) != computed {
        return Err(FileError::Damaged { part: Part::Changes });
    }
    expect_end(&mut input.input)
}

/// Refuses an input that goes on.
pub(crate) fn expect_end(input: &mut impl Read) -> Result<(), FileError> {
    match read_exactly(input, &mut [0]) {
        Ok(()) => Err(FileError::TrailingBytes),
        Err(FileError::Truncated) => Ok(()),
        Err(error) => Err(error),
    }
}
