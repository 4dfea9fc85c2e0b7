//! Deltas between filters in memory.

use super::block::{BlockEncoder, BlockShape};
use super::changes::encode_spill;
use super::fingerprints::{encode_numbers, leading_numbers};
use super::header::{DeltaHeader, Encoding};
use super::transform::{Blocks, Opened};
use super::{ApplyError, DiffError};
use crate::Fingerprint;
use crate::counting::spill::Spill;
use crate::file::{Checksum, Header, Label, Stored, header_of};

/// Returns the delta from `base` to `target`. Both are states of one filter, which belongs to `generation`.
///
/// A delta of membership filters can be shorter if `new_fingerprints` lists the fingerprints inserted since `base`. A
/// list that does not turn the base into the target is ignored. The fingerprint form discloses more to the receiver
/// than the other forms: see `docs/design/filter-files.md`.
///
/// # Errors
/// [`DiffError::Mismatch`] if `base` and `target` have different parameters.
pub fn encode<F: Stored>(
    base: &F,
    target: &F,
    generation: u64,
    new_fingerprints: Option<&[Fingerprint]>,
) -> Result<Vec<u8>, DiffError> {
    let label = Label { generation, key: None };
    let base_header = header_of(base, &label).map_err(DiffError::Base)?;
    let target_header = header_of(target, &label).map_err(DiffError::Target)?;
    base_header.ensure_same(&target_header)?;
    let blocks = encode_blocks(base, target, &base_header, &target_header);
    let listed = new_fingerprints.and_then(|new| encode_fingerprints(base, &base_header, &target_header, new));
    Ok(listed.filter(|listed| listed.len() < blocks.len()).unwrap_or(blocks))
}

fn encode_blocks<F: Stored>(base: &F, target: &F, base_header: &Header, target_header: &Header) -> Vec<u8> {
    let shape = BlockShape::new(target_header);
    let mut encoder = BlockEncoder::new(shape);
    let mut body = Vec::new();
    if let (Some(base), Some(target)) = (base.spill(), target.spill()) {
        encode_spill(base, target, &mut body);
    }
    let blocks = base.words().chunks(shape.block_words()).zip(target.words().chunks(shape.block_words()));
    for (base, target) in blocks {
        encoder.encode(base, target, &mut body);
    }
    framed(&DeltaHeader::new(base_header, target_header, Encoding::Blocks, 0), &body)
}

/// Returns the fingerprint form of the delta, or `None` if the filter has no such form or if the list does not lead to
/// the target.
fn encode_fingerprints<F: Stored>(
    base: &F,
    base_header: &Header,
    target_header: &Header,
    new: &[Fingerprint],
) -> Option<Vec<u8>> {
    if target_header.kind.counts() {
        return None;
    }
    let numbers = leading_numbers(target_header, new)?;
    let mut body = Vec::new();
    encode_numbers(&numbers, &mut body);
    let header = DeltaHeader::new(base_header, target_header, Encoding::Fingerprints, numbers.len() as u64);
    let bytes = framed(&header, &body);
    check(base, base_header, &bytes).is_ok().then_some(bytes)
}

/// Returns header, body and checksum as one array.
fn framed(header: &DeltaHeader, body: &[u8]) -> Vec<u8> {
    let mut checksum = Checksum::default();
    checksum.add(body);
    [&header.to_bytes()[..], body, &checksum.value().to_le_bytes()].concat()
}

/// Turns `filter`, which belongs to `generation`, into the target of `delta`.
///
/// The delta is decoded twice: first to check that it fits and yields its target, then to change the filter.
///
/// # Errors
/// [`ApplyError`]; nothing is changed in that case.
pub fn apply<F: Stored>(filter: &mut F, generation: u64, delta: &[u8]) -> Result<(), ApplyError> {
    let base = header_of(filter, &Label { generation, key: None }).map_err(ApplyError::Base)?;
    check(filter, &base, delta)?;
    let empty = Spill::new(0);
    let opened = Opened::new(delta, &base, filter.spill().unwrap_or(&empty))?;
    let spill = opened.spill.clone();
    opened.transform(&mut InPlace(filter.words_mut()))?;
    if let Some(old) = filter.spill_mut() {
        *old = spill;
    }
    Ok(())
}

/// Returns an error if applying the delta to `filter` does not yield the target.
fn check<F: Stored>(filter: &F, base: &Header, delta: &[u8]) -> Result<(), ApplyError> {
    let empty = Spill::new(0);
    let opened = Opened::new(delta, base, filter.spill().unwrap_or(&empty))?;
    opened.transform(&mut LookOnly(filter.words()))
}

/// A source of a filter's blocks that ignores written blocks.
struct LookOnly<'a>(&'a [u64]);

impl Blocks for LookOnly<'_> {
    fn read(&mut self, start: u64, words: &mut [u64]) -> Result<(), ApplyError> {
        words.copy_from_slice(&self.0[start as usize..][..words.len()]);
        Ok(())
    }

    fn write(&mut self, _: u64, _: &[u64]) -> Result<(), ApplyError> {
        Ok(())
    }
}

/// A source of a filter's blocks that changes them in place.
pub(super) struct InPlace<'a>(pub(super) &'a mut [u64]);

impl Blocks for InPlace<'_> {
    fn read(&mut self, start: u64, words: &mut [u64]) -> Result<(), ApplyError> {
        LookOnly(self.0).read(start, words)
    }

    fn write(&mut self, start: u64, words: &[u64]) -> Result<(), ApplyError> {
        self.0[start as usize..][..words.len()].copy_from_slice(words);
        Ok(())
    }
}
