//! Applies a delta block by block, with all checks. Base and target may be in memory or in files.

use std::io::Read;

use super::ApplyError;
use super::block::{BlockShape, decode_block};
use super::changes::decode_spill;
use super::fingerprints::Inserter;
use super::header::{DeltaHeader, Encoding, read_header};
use crate::counting::spill::Spill;
use crate::file::{Checksum, FileError, FilterKind, Header, HistoryError, InputWords, WordCheck, expect_checksum};
use crate::file::{spill_bytes, spill_entries};

/// A source for the blocks of a base and a sink for the blocks of a target.
pub(super) trait Blocks {
    /// Fills `words` with the words of the base, starting at word `start`.
    fn read(&mut self, start: u64, words: &mut [u64]) -> Result<(), ApplyError>;
    /// Writes `words`, the words of the target that begin at word `start`.
    fn write(&mut self, start: u64, words: &[u64]) -> Result<(), ApplyError>;
}

/// A delta that fits its base and has been read up to its body.
pub(super) struct Opened<R> {
    pub(super) header: DeltaHeader,
    /// The spill table of the target.
    pub(super) spill: Spill,
    input: InputWords<R>,
}

impl<R: Read> Opened<R> {
    /// Reads a delta up to its body. Fails if `base` is not the base of the delta.
    pub(super) fn new(mut input: R, base: &Header, base_spill: &Spill) -> Result<Self, ApplyError> {
        let header = read_header(&mut input).map_err(ApplyError::Delta)?;
        Self::after_header(header, input, base, base_spill)
    }

    /// Continues after `header`, which was already read from `input`.
    pub(super) fn after_header(
        header: DeltaHeader,
        input: R,
        base: &Header,
        base_spill: &Spill,
    ) -> Result<Self, ApplyError> {
        header.ensure_starts_from(base)?;
        if header.encoding == Encoding::Growth {
            // A growth delta is a step of one origin, not a change from one state of a file to another.
            return Err(ApplyError::History(HistoryError::OriginsUnknown));
        }
        let mut input = InputWords::new(input);
        let spill = decode_spill(&header, base_spill, &mut input).map_err(ApplyError::Delta)?;
        Ok(Self { header, spill, input })
    }

    /// Turns all blocks into the blocks of the target and verifies the checksum.
    pub(super) fn transform(mut self, blocks: &mut impl Blocks) -> Result<(), ApplyError> {
        let mut body = Body::new(&self.header);
        let entries = spill_entries(Some(&self.spill));
        let mut checksum = Checksum::default();
        checksum.add(&spill_bytes(&entries));
        let mut check = WordCheck::new(&self.header.target, entries);
        let total = self.header.target.words();
        let mut buffer = vec![0; body.block_words(&self.header.target).min(total as usize)];
        let mut start = 0;
        while start < total {
            let length = buffer.len().min((total - start) as usize);
            let words = &mut buffer[..length];
            blocks.read(start, words)?;
            self.change(&mut body, start, words).map_err(ApplyError::Delta)?;
            check.next(words).map_err(ApplyError::Delta)?;
            checksum.add_words(words);
            blocks.write(start, words)?;
            start += length as u64;
        }
        self.finish(&body).map_err(ApplyError::Delta)?;
        self.ensure_target(checksum.value())
    }

    fn change(&mut self, body: &mut Body, start: u64, words: &mut [u64]) -> Result<(), FileError> {
        match body {
            Body::Blocks(shape) => decode_block(*shape, start, words, &mut self.input),
            Body::Fingerprints(inserter) => inserter.insert(start, words, &mut self.input),
        }
    }

    /// Checks the end of the delta, after the body.
    fn finish(&mut self, body: &Body) -> Result<(), FileError> {
        body.ensure_done()?;
        expect_checksum(&mut self.input)
    }

    fn ensure_target(&self, found: u32) -> Result<(), ApplyError> {
        let wanted = self.header.target.checksum;
        if found == wanted { Ok(()) } else { Err(ApplyError::WrongTarget { wanted, found }) }
    }
}

/// The decoder for the encoding of the blocks.
enum Body {
    Blocks(BlockShape),
    Fingerprints(Inserter),
}

impl Body {
    fn new(header: &DeltaHeader) -> Self {
        match header.encoding {
            Encoding::Blocks | Encoding::Growth => Self::Blocks(BlockShape::new(&header.target)),
            Encoding::Fingerprints => Self::Fingerprints(Inserter::new(header.target.clone(), header.fingerprints)),
        }
    }

    /// Returns the number of words to process at a time. For fingerprints of a classical filter these are all words,
    /// because the positions do not follow the order of the fingerprints.
    fn block_words(&self, target: &Header) -> usize {
        match self {
            Self::Fingerprints(_) if target.kind == FilterKind::ClassicalMembership => target.words() as usize,
            _ => BlockShape::new(target).block_words(),
        }
    }

    fn ensure_done(&self) -> Result<(), FileError> {
        match self {
            Self::Fingerprints(inserter) if !inserter.is_done() => {
                Err(FileError::invalid("the number of fingerprints", 0u32))
            }
            _ => Ok(()),
        }
    }
}
