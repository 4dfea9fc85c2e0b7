//! The head of a snapshot: eight bytes of magic, version and kind, then a fixed number of 8-byte fields for each kind.

use std::io::Read;
use std::ops::{RangeBounds, RangeInclusive};

use super::RestoreError;
use crate::lines::LINE_BYTES;

/// The first bytes of every head.
const MAGIC: [u8; 6] = *b"brsnap";
/// The version of a snapshot of a structure that never grew.
const VERSION: u8 = 1;
/// The version of a snapshot of a structure that grew. It has additional fields at the end.
const VERSION_GROWN: u8 = 2;

/// The largest epoch, number or counter allowed in a snapshot. It is larger than any value that can occur, but so far
/// below 2^64 that later increments cannot overflow.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;

/// The kind of structure in a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    OneLineFilter = 1,
    MembershipRing = 2,
    StagedRing = 3,
    CountsRing = 4,
    OwnerTable = 5,
}

/// Appends a head.
pub(crate) fn put_head(out: &mut Vec<u8>, kind: Kind, fields: &[u64]) {
    put_start(out, VERSION, kind, fields);
}

/// Appends a head with the additional fields of a structure that grew. If these fields are all zero, writes the version
/// without them.
pub(crate) fn put_grown_head(out: &mut Vec<u8>, kind: Kind, fields: &[u64], grown: &[u64]) {
    if grown.iter().all(|&number| number == 0) {
        return put_start(out, VERSION, kind, fields);
    }
    put_start(out, VERSION_GROWN, kind, fields);
    put_numbers(out, grown);
}

fn put_start(out: &mut Vec<u8>, version: u8, kind: Kind, fields: &[u64]) {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[version, kind as u8]);
    put_numbers(out, fields);
}

fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

/// Reads the head of a snapshot of this kind, which has `N` fields.
pub(crate) fn read_head<const N: usize>(input: &mut dyn Read, kind: Kind) -> Result<[u64; N], RestoreError> {
    match read_version(input, kind)? {
        VERSION => read_numbers(input),
        found => Err(RestoreError::UnknownVersion { found }),
    }
}

/// Reads the head of a snapshot of this kind: `N` fields, and `G` more if the structure grew. If it never grew, returns
/// zeros for these `G` fields.
pub(crate) fn read_grown_head<const N: usize, const G: usize>(
    input: &mut dyn Read,
    kind: Kind,
) -> Result<([u64; N], [u64; G]), RestoreError> {
    match read_version(input, kind)? {
        VERSION => Ok((read_numbers(input)?, [0; G])),
        VERSION_GROWN => {
            let (numbers, grown): (_, [u64; G]) = (read_numbers(input)?, read_numbers(input)?);
            // All zeros are invalid, because a structure that never grew is written in the version without these
            // fields.
            within("the growth", grown.iter().copied().max().unwrap_or(0), 1..)?;
            Ok((numbers, grown))
        }
        found => Err(RestoreError::UnknownVersion { found }),
    }
}

fn read_version(input: &mut dyn Read, kind: Kind) -> Result<u8, RestoreError> {
    let mut start = [0; MAGIC.len() + 2];
    input.read_exact(&mut start)?;
    let [magic @ .., version, found] = start;
    if magic != MAGIC {
        return Err(RestoreError::NotASnapshot);
    }
    if !(VERSION..=VERSION_GROWN).contains(&version) {
        return Err(RestoreError::UnknownVersion { found: version });
    }
    if found != kind as u8 {
        return Err(RestoreError::OtherKind { expected: kind as u8, found });
    }
    Ok(version)
}

fn read_numbers<const N: usize>(input: &mut dyn Read) -> Result<[u64; N], RestoreError> {
    let mut numbers = [0; N];
    for number in &mut numbers {
        let mut bytes = [0; 8];
        input.read_exact(&mut bytes)?;
        *number = u64::from_le_bytes(bytes);
    }
    Ok(numbers)
}

/// Returns `value` if it is in `range`; otherwise returns an error that names the field `what`.
pub(crate) fn within(what: &'static str, value: u64, range: impl RangeBounds<u64>) -> Result<u64, RestoreError> {
    if range.contains(&value) { Ok(value) } else { Err(RestoreError::OutOfRange { what, value }) }
}

/// Like [`within`], but returns a number of 32 bits.
pub(crate) fn within_u32(what: &'static str, value: u64, range: RangeInclusive<u32>) -> Result<u32, RestoreError> {
    let small = u32::try_from(value).ok().filter(|small| range.contains(small));
    small.ok_or(RestoreError::OutOfRange { what, value })
}

/// Returns `lines` if `lines` and `others` together need at most `limit_bytes`.
pub(crate) fn lines_within(lines: u64, others: u64, limit_bytes: u64) -> Result<usize, RestoreError> {
    let total = lines.saturating_add(others);
    let fits = total.checked_mul(LINE_BYTES as u64).is_some_and(|bytes| bytes <= limit_bytes);
    usize::try_from(lines).ok().filter(|_| fits).ok_or(RestoreError::TooLarge { lines: total, limit_bytes })
}
