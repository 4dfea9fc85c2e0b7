//! The spill section: the counts that a filter of one-line counts stores outside its lines.

use std::io::Read;

use super::FileError;
use super::words::InputWords;

/// Bytes of one entry.
pub const SPILL_ENTRY_BYTES: usize = 10;

/// A count stored outside the lines. The order of entries is that of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SpillEntry {
    /// Line of the key.
    pub(crate) line: u32,
    /// Tag that identifies the entry within the line.
    pub(crate) tag: u16,
    /// The count.
    pub(crate) count: u32,
}

impl SpillEntry {
    /// Returns the line and the tag, which identify the entry.
    pub(crate) const fn place(&self) -> (u32, u16) {
        (self.line, self.tag)
    }
}

/// Appends `entry` in the format of a file.
pub(crate) fn write_entry(entry: &SpillEntry, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&entry.line.to_le_bytes());
    bytes.extend_from_slice(&entry.tag.to_le_bytes());
    bytes.extend_from_slice(&entry.count.to_le_bytes());
}

/// Reads `count` entries of a filter with `lines` lines, in strictly ascending order.
pub(crate) fn read_entries<R: Read>(
    input: &mut InputWords<R>,
    count: u32,
    lines: u64,
) -> Result<Vec<SpillEntry>, FileError> {
    let mut entries: Vec<SpillEntry> = Vec::new();
    for _ in 0..count {
        let mut bytes = [0; SPILL_ENTRY_BYTES];
        input.take_bytes(&mut bytes)?;
        let entry = entry_from(&bytes);
        if u64::from(entry.line) >= lines || entries.last().is_some_and(|last| last.place() >= entry.place()) {
            return Err(FileError::invalid("the line of a spill entry", entry.line));
        }
        entries.push(entry);
    }
    Ok(entries)
}

const fn entry_from(bytes: &[u8; SPILL_ENTRY_BYTES]) -> SpillEntry {
    let [a, b, c, d, e, f, g, h, i, j] = *bytes;
    SpillEntry {
        line: u32::from_le_bytes([a, b, c, d]),
        tag: u16::from_le_bytes([e, f]),
        count: u32::from_le_bytes([g, h, i, j]),
    }
}
