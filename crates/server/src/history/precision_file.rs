//! The file `precision.bruit`: a header, then a cell for every account and day at a fixed place.
//!
//! Cells are rewritten in place. Each names its account and day and has a checksum, so a cell that was written in part
//! is recognised and dropped. `docs/design/history-file.md` specifies the bytes.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use bruit_store::{DAMAGED_PRECISION_FILE, PRECISION_FILE};

use super::precision::{DAYS, Dirty, PrecisionHistory, SERIES_MAX, Sample, place};

const MAGIC: &[u8; 8] = b"BRUITPRC";
const VERSION: u32 = 1;

/// Length of the header, and of a cell.
const CELL_BYTES: usize = 32;

/// Place of the checksum in a header or cell.
const CHECKSUM_AT: usize = CELL_BYTES - 4;

/// Length of a series.
const SERIES_BYTES: usize = DAYS * CELL_BYTES;

/// Maximum length of the file.
const FILE_BYTES_MAX: usize = CELL_BYTES + SERIES_MAX * SERIES_BYTES;

/// The open file.
#[derive(Debug)]
pub(super) struct PrecisionFile(File);

impl PrecisionFile {
    /// Opens or creates the file, and reads its cells. A file with another layout is moved aside.
    pub(super) fn open(directory: &Path) -> io::Result<(Self, PrecisionHistory)> {
        let path = directory.join(PRECISION_FILE);
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(&path)?;
        let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX).min(FILE_BYTES_MAX)];
        file.read_exact_at(&mut bytes, 0)?;
        if !bytes.is_empty() && bytes.get(..CELL_BYTES) != Some(&header()[..]) {
            let aside = directory.join(DAMAGED_PRECISION_FILE);
            tracing::warn!(
                file = %path.display(),
                kept = %aside.display(),
                "the history of precision is unreadable; starting a new one"
            );
            fs::rename(&path, aside)?;
            return Self::open(directory);
        }
        file.write_all_at(&header(), 0)?;
        Ok((Self(file), read(bytes.get(CELL_BYTES..).unwrap_or_default())))
    }

    /// Writes changes from [`PrecisionWrites::of`].
    pub(super) fn write(&self, writes: &PrecisionWrites) -> io::Result<()> {
        writes.writes.iter().try_for_each(|(offset, bytes)| self.0.write_all_at(bytes, *offset))
    }
}

/// The encoded changes of a history.
pub(super) struct PrecisionWrites {
    dirty: Vec<Dirty>,
    /// Offsets in the file with their contents.
    writes: Vec<(u64, Vec<u8>)>,
}

impl PrecisionWrites {
    /// Encodes what changed. The caller writes it without holding a lock, because the disk may hang.
    pub(super) fn of(history: &mut PrecisionHistory) -> Self {
        let dirty = history.take_dirty();
        let write = |part: &Dirty| match *part {
            Dirty::Series(number) => (offset(number, 0), vec![0; SERIES_BYTES]),
            Dirty::Cell(number, at) => {
                let cell = history.cell(number, at).map_or([0; CELL_BYTES], |(id, sample)| encode(id, &sample));
                (offset(number, at), cell.to_vec())
            }
        };
        let writes = dirty.iter().map(write).collect();
        Self { dirty, writes }
    }

    /// Marks the changes as unwritten, after a failure.
    pub(super) fn undo(self, history: &mut PrecisionHistory) {
        history.mark(self.dirty);
    }
}

/// Returns the position of a cell in the file.
const fn offset(number: usize, at: usize) -> u64 {
    (CELL_BYTES + number * SERIES_BYTES + at * CELL_BYTES) as u64
}

fn header() -> [u8; CELL_BYTES] {
    let mut bytes = [0; CELL_BYTES];
    let sizes = [VERSION, CELL_BYTES as u32, SERIES_MAX as u32, DAYS as u32].into_iter().flat_map(u32::to_le_bytes);
    bytes.iter_mut().zip(MAGIC.iter().copied().chain(sizes)).for_each(|(to, byte)| *to = byte);
    seal(bytes)
}

fn encode(id: u64, sample: &Sample) -> [u8; CELL_BYTES] {
    let Sample { day, precision, weight, confirmed, refuted, unconfirmed } = *sample;
    let mut bytes = [0; CELL_BYTES];
    let counts = [confirmed, refuted, unconfirmed].into_iter().flat_map(u32::to_le_bytes);
    let fields = id.to_le_bytes().into_iter().chain(day.to_le_bytes()).chain(precision.to_le_bytes());
    let fields = fields.chain(weight.to_le_bytes()).chain(counts);
    bytes.iter_mut().zip(fields).for_each(|(to, byte)| *to = byte);
    seal(bytes)
}

/// Adds the checksum.
fn seal(mut bytes: [u8; CELL_BYTES]) -> [u8; CELL_BYTES] {
    let (contents, checksum) = bytes.split_at_mut(CHECKSUM_AT);
    checksum.copy_from_slice(&crc32fast::hash(contents).to_le_bytes());
    bytes
}

fn read(bytes: &[u8]) -> PrecisionHistory {
    let mut history = PrecisionHistory::default();
    for series in bytes.chunks(SERIES_BYTES).take(SERIES_MAX) {
        let cells = series.as_chunks().0.iter().enumerate();
        let valid = cells.filter_map(|(at, cell)| decode(cell).filter(|(_, sample)| place(sample.day) == at));
        history.restore(&valid.collect::<Vec<_>>());
    }
    history
}

/// Decodes a cell. Returns `None` for one that was never written or is damaged.
fn decode(bytes: &[u8; CELL_BYTES]) -> Option<(u64, Sample)> {
    let (contents, checksum) = bytes.split_at(CHECKSUM_AT);
    if *checksum != crc32fast::hash(contents).to_le_bytes() || contents.iter().all(|byte| *byte == 0) {
        return None;
    }
    let (id, rest) = contents.split_first_chunk()?;
    let (day, rest) = rest.split_first_chunk()?;
    let (precision, rest) = rest.split_first_chunk()?;
    let (weight, rest) = rest.split_first_chunk()?;
    let (counts, _) = rest.as_chunks();
    let [confirmed, refuted, unconfirmed] = *counts else { return None };
    let number = u32::from_le_bytes;
    let sample = Sample {
        day: number(*day),
        precision: u16::from_le_bytes(*precision),
        weight: u16::from_le_bytes(*weight),
        confirmed: number(confirmed),
        refuted: number(refuted),
        unconfirmed: number(unconfirmed),
    };
    Some((u64::from_le_bytes(*id), sample))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::precision::Rank;
    use super::*;

    const TODAY: u32 = 20_833;

    fn sample(day: u32, confirmed: u32) -> Sample {
        Sample { day, precision: 1, weight: 2, confirmed, refuted: 4, unconfirmed: u32::MAX }
    }

    fn write(file: &PrecisionFile, history: &mut PrecisionHistory) {
        file.write(&PrecisionWrites::of(history)).unwrap();
    }

    #[test]
    fn what_was_written_is_there_after_a_restart_and_the_file_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let (file, mut history) = PrecisionFile::open(folder.path()).unwrap();
        for day in [TODAY, TODAY + 1, TODAY + DAYS as u32] {
            for id in 0..2 * SERIES_MAX as u64 {
                history.add(id, Rank::Known, sample(day, id as u32));
            }
            write(&file, &mut history);
        }
        let length = fs::metadata(folder.path().join(PRECISION_FILE)).unwrap().len();
        assert!(length <= FILE_BYTES_MAX as u64, "{length}");
        let (_, again) = PrecisionFile::open(folder.path()).unwrap();
        let today = TODAY + DAYS as u32;
        for id in [0, 100, SERIES_MAX as u64 - 1] {
            assert_eq!(again.samples(id, today), history.samples(id, today), "{id}");
            assert_eq!(again.samples(id, today).len(), 2, "{id}");
        }
    }

    #[test]
    fn a_torn_cell_is_dropped_and_a_series_that_changed_hands_has_no_old_samples() {
        let folder = tempfile::tempdir().unwrap();
        let (file, mut history) = PrecisionFile::open(folder.path()).unwrap();
        for day in TODAY..TODAY + 3 {
            history.add(7, Rank::Registered, sample(day, 1));
        }
        (100..99 + SERIES_MAX as u64).for_each(|id| history.add(id, Rank::Known, sample(TODAY + 2, 1)));
        write(&file, &mut history);
        file.0.write_all_at(&[0xff; 9], offset(0, place(TODAY + 1)) + 9).unwrap();
        let (file, mut history) = PrecisionFile::open(folder.path()).unwrap();
        let days: Vec<u32> = history.samples(7, TODAY + 2).iter().map(|sample| sample.day).collect();
        assert_eq!(days, [TODAY, TODAY + 2]);

        history.add(7, Rank::Registered, sample(TODAY + 2, 2));
        history.add(8, Rank::Known, sample(TODAY + 2, 5));
        write(&file, &mut history);
        let (_, again) = PrecisionFile::open(folder.path()).unwrap();
        assert_eq!(again.samples(7, TODAY + 2), []);
        assert_eq!(again.samples(8, TODAY + 2), [sample(TODAY + 2, 5)]);
    }

    #[test]
    fn what_could_not_be_written_is_written_later() {
        let folder = tempfile::tempdir().unwrap();
        let (file, mut history) = PrecisionFile::open(folder.path()).unwrap();
        history.add(7, Rank::Known, sample(TODAY, 1));
        PrecisionWrites::of(&mut history).undo(&mut history);
        write(&file, &mut history);
        assert_eq!(PrecisionFile::open(folder.path()).unwrap().1.samples(7, TODAY).len(), 1);
    }

    #[test]
    fn a_file_with_another_layout_is_kept_aside() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(PRECISION_FILE), "something else").unwrap();
        let (_, history) = PrecisionFile::open(folder.path()).unwrap();
        assert_eq!(history.samples(0, TODAY), []);
        assert_eq!(fs::read(folder.path().join(DAMAGED_PRECISION_FILE)).unwrap(), b"something else");
    }

    proptest! {
        #[test]
        fn no_bytes_cause_a_panic(bytes in any::<Vec<u8>>()) {
            read(&bytes);
        }

        #[test]
        fn a_cell_is_decoded_as_it_was_encoded(id: u64, day: u32, precision: u16, weight: u16, counts: [u32; 3]) {
            let [confirmed, refuted, unconfirmed] = counts;
            let sample = Sample { day, precision, weight, confirmed, refuted, unconfirmed };
            let is_empty = id == 0 && sample == Sample::default();
            prop_assert_eq!(decode(&encode(id, &sample)), (!is_empty).then_some((id, sample)));
        }
    }
}
