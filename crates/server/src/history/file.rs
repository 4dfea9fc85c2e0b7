//! The file `history.bruit`: a header, then every slot at a fixed place.
//!
//! Slots are rewritten in place. Each has a checksum, so a slot that was written in part is recognised and dropped, and
//! longer slots are computed again from shorter ones. `docs/design/history-file.md` specifies the bytes.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use bruit_store::{DAMAGED_HISTORY_FILE, HISTORY_FILE};

use super::series::{COUNTERS, Gauges, History, Slot, Span};
use crate::metrics::BUCKETS;

const MAGIC: &[u8; 8] = b"BRUITHST";
const VERSION: u32 = 1;

/// Length of the header, and of the space before the first slot.
const HEADER_BYTES: usize = 1_024;

/// Length of a slot.
const SLOT_BYTES: usize = 1_024;

/// Number of 8-byte numbers in a slot.
const NUMBERS: usize = 4 + COUNTERS + BUCKETS;

/// Place of the checksum in a header or slot.
const CHECKSUM_AT: usize = SLOT_BYTES - 4;

const _: () = assert!(NUMBERS * 8 <= CHECKSUM_AT, "a slot has room for its numbers");

/// The open file.
#[derive(Debug)]
pub(super) struct HistoryFile(File);

impl HistoryFile {
    /// Opens or creates the file, and reads its slots. A file with another layout is moved aside.
    pub(super) fn open(directory: &Path) -> io::Result<(Self, History)> {
        let path = directory.join(HISTORY_FILE);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            result => result?,
        };
        let is_readable = bytes.get(..HEADER_BYTES) == Some(&header()[..]);
        if !bytes.is_empty() && !is_readable {
            let aside = directory.join(DAMAGED_HISTORY_FILE);
            tracing::warn!(file = %path.display(), kept = %aside.display(), "the history is unreadable; starting a new one");
            fs::rename(&path, aside)?;
        }
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path)?;
        file.write_all_at(&header(), 0)?;
        let mut history = History::default();
        if is_readable {
            read(&bytes, &mut history);
            history.complete();
        }
        Ok((Self(file), history))
    }

    /// Writes slots from [`changes`].
    pub(super) fn write(&self, changes: &[SlotChange]) -> io::Result<()> {
        changes.iter().try_for_each(|SlotChange { offset, bytes }| self.0.write_all_at(bytes, *offset))
    }
}

/// An encoded slot and its position in the file.
pub(super) struct SlotChange {
    offset: u64,
    bytes: [u8; SLOT_BYTES],
}

/// Encodes the slots that changed. The caller writes them without holding a lock, because the disk may hang.
pub(super) fn changes(history: &mut History) -> Vec<SlotChange> {
    let changed = history.take_changed().into_iter();
    let change =
        |(span, place)| Some(SlotChange { offset: offset(span, place), bytes: encode(history.get(span, place)?) });
    changed.filter_map(change).collect()
}

/// Returns the position of a slot in the file.
fn offset(span: Span, place: usize) -> u64 {
    let before: usize = Span::ALL.iter().take_while(|other| **other != span).map(|other| other.slots()).sum();
    (HEADER_BYTES + (before + place) * SLOT_BYTES) as u64
}

fn header() -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    let sizes = [VERSION, SLOT_BYTES as u32, COUNTERS as u32, BUCKETS as u32];
    let sizes = sizes.into_iter().chain(Span::ALL.map(|span| span.slots() as u32)).flat_map(u32::to_le_bytes);
    bytes.iter_mut().zip(MAGIC.iter().copied().chain(sizes)).for_each(|(to, byte)| *to = byte);
    seal(bytes)
}

fn encode(slot: &Slot) -> [u8; SLOT_BYTES] {
    let Gauges { listed, revoked, resident_bytes } = slot.gauges;
    let numbers = [slot.start, listed, revoked, resident_bytes].into_iter();
    let numbers = numbers.chain(slot.requests).chain(slot.durations).flat_map(u64::to_le_bytes);
    let mut bytes = [0; SLOT_BYTES];
    bytes.iter_mut().zip(numbers).for_each(|(to, byte)| *to = byte);
    seal(bytes)
}

/// Adds the checksum.
fn seal(mut bytes: [u8; SLOT_BYTES]) -> [u8; SLOT_BYTES] {
    let (contents, checksum) = bytes.split_at_mut(CHECKSUM_AT);
    checksum.copy_from_slice(&crc32fast::hash(contents).to_le_bytes());
    bytes
}

fn read(bytes: &[u8], history: &mut History) {
    let mut slots = bytes.get(HEADER_BYTES..).unwrap_or_default().chunks_exact(SLOT_BYTES);
    for span in Span::ALL {
        for (place, slot) in slots.by_ref().take(span.slots()).enumerate() {
            if let Some(slot) = decode(slot) {
                history.restore(span, place, slot);
            }
        }
    }
}

/// Decodes a slot. Returns `None` for one that was never written or is damaged.
fn decode(bytes: &[u8]) -> Option<Slot> {
    let (contents, checksum) = bytes.split_at_checked(CHECKSUM_AT)?;
    if *checksum != crc32fast::hash(contents).to_le_bytes() {
        return None;
    }
    let (numbers, _) = contents.as_chunks();
    let mut numbers = numbers.iter().map(|number| u64::from_le_bytes(*number));
    let mut slot = Slot::new(numbers.next()?);
    slot.gauges = Gauges { listed: numbers.next()?, revoked: numbers.next()?, resident_bytes: numbers.next()? };
    let places = slot.requests.iter_mut().chain(slot.durations.iter_mut());
    places.zip(numbers).for_each(|(place, number)| *place = number);
    Some(slot)
}

#[cfg(test)]
mod tests {
    use bruit_engine::time::Time;
    use proptest::prelude::*;

    use super::super::series::Sample;
    use super::*;

    const NOON: u64 = 1_800_014_400;

    fn sample(count: u64) -> Sample {
        let gauges = Gauges { listed: 1, revoked: 2, resident_bytes: 3 };
        Sample { requests: [count; COUNTERS], durations: [count; BUCKETS], gauges }
    }

    fn rows(history: &History, span: Span) -> Vec<Slot> {
        history.rows(span, Time(NOON + 43_200)).into_iter().cloned().collect()
    }

    #[test]
    fn what_was_written_is_there_after_a_restart_and_the_file_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let (file, mut history) = HistoryFile::open(folder.path()).unwrap();
        for minute in 0..2_000 {
            history.add(Time(NOON + minute * 60), &sample(minute));
            file.write(&changes(&mut history)).unwrap();
        }
        let slots: usize = Span::ALL.iter().map(|span| span.slots()).sum();
        let length = fs::metadata(folder.path().join(HISTORY_FILE)).unwrap().len();
        assert!(length <= (HEADER_BYTES + slots * SLOT_BYTES) as u64, "{length}");
        let (_, again) = HistoryFile::open(folder.path()).unwrap();
        for span in Span::ALL {
            assert_eq!(rows(&again, span), rows(&history, span), "{span:?}");
        }
    }

    #[test]
    fn a_torn_slot_is_dropped_and_computed_again_if_it_can_be() {
        let folder = tempfile::tempdir().unwrap();
        let (file, mut history) = HistoryFile::open(folder.path()).unwrap();
        for minute in 0..3 {
            history.add(Time(NOON + minute * 60), &sample(1));
        }
        file.write(&changes(&mut history)).unwrap();
        let hour = offset(Span::Month, Span::Month.place(NOON));
        let minute = offset(Span::Day, Span::Day.place(NOON + 60));
        for at in [hour, minute] {
            file.0.write_all_at(&[0xff; 100], at + 200).unwrap();
        }
        let (_, again) = HistoryFile::open(folder.path()).unwrap();
        assert_eq!(rows(&again, Span::Day).len(), 2, "a damaged minute is lost");
        assert_eq!(rows(&again, Span::Month)[0].requests[0], 2, "the hour has the minutes that are left");
        assert_eq!(rows(&again, Span::Years), rows(&history, Span::Years));
    }

    #[test]
    fn a_file_with_another_layout_is_kept_aside() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(HISTORY_FILE), "something else").unwrap();
        let (_, history) = HistoryFile::open(folder.path()).unwrap();
        assert!(rows(&history, Span::Day).is_empty());
        assert_eq!(fs::read(folder.path().join(DAMAGED_HISTORY_FILE)).unwrap(), b"something else");
        let (_, again) = HistoryFile::open(folder.path()).unwrap();
        assert!(rows(&again, Span::Day).is_empty());
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(bytes in any::<Vec<u8>>()) {
            let mut history = History::default();
            read(&[&[0; HEADER_BYTES], &bytes[..]].concat(), &mut history);
            prop_assert!(decode(&bytes).is_none() || bytes.len() >= SLOT_BYTES);
            history.complete();
        }
    }
}
