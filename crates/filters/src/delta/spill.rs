//! Changes of a spill table.

use std::collections::BTreeMap;
use std::io::Read;

use super::block::take;
use super::header::DeltaHeader;
use crate::counting::spill::Spill;
use crate::file::{FileError, FilterKind, InputWords, SpillEntry, read_entries, restore_spill, write_entry};

type Records = BTreeMap<(u32, u16), u32>;

fn records(spill: &Spill) -> Records {
    spill.records().iter().map(|(line, tag, count)| ((line, tag), count)).collect()
}

/// Appends the change from table `base` to `target`: the changed and new records, and a count of 0 for each removed
/// record.
pub(super) fn encode_spill(base: &Spill, target: &Spill, output: &mut Vec<u8>) {
    let (before, after) = (records(base), records(target));
    let gone = before.keys().filter(|place| !after.contains_key(place)).map(|&place| (place, 0));
    let now =
        after.iter().filter(|(place, count)| before.get(place) != Some(count)).map(|(&place, &count)| (place, count));
    let changes: Records = gone.chain(now).collect();
    output.extend_from_slice(&(changes.len() as u32).to_le_bytes());
    for (&(line, tag), &count) in &changes {
        write_entry(&SpillEntry { line, tag, count }, output);
    }
}

/// Returns the spill table of the target, computed from the table of the base. Reads from the input only for one-line
/// counts.
pub(super) fn decode_spill<R: Read>(
    header: &DeltaHeader,
    base: &Spill,
    input: &mut InputWords<R>,
) -> Result<Spill, FileError> {
    if header.target.kind != FilterKind::OneLineCounts {
        return restore_spill(&header.target, &[]);
    }
    let count = u32::from_le_bytes(take(input)?);
    let count_max = u64::from(header.base_spill_entries) + u64::from(header.target.spill_entries);
    if u64::from(count) > count_max {
        return Err(FileError::invalid("the number of spill changes", count));
    }
    let mut records = records(base);
    for entry in read_entries(input, count, header.target.lines())? {
        match entry.count {
            0 => records.remove(&entry.place()),
            count => records.insert(entry.place(), count),
        };
    }
    if records.len() as u64 != u64::from(header.target.spill_entries) {
        return Err(FileError::invalid("the number of spill entries", header.target.spill_entries));
    }
    let entries = records.into_iter().map(|((line, tag), count)| SpillEntry { line, tag, count });
    restore_spill(&header.target, &entries.collect::<Vec<_>>())
}
