//! Reading a journal file, record by record, in bounded memory.
//!
//! A fault has an offset and a reason. [`is_damage`] distinguishes corruption of data that was safe on disk from a
//! write that a crash or power failure interrupted.

use std::io::{self, Read, Seek, SeekFrom};

use bruit_engine::codec::{Malformed, Reader};

use crate::header::{CHECKSUM_BYTES, HEADER_BYTES, Header, HeaderFault, Kind, checksum};
use crate::record::{MARKER, RECORD_HEADER_BYTES, RECORD_OVERHEAD_BYTES, RecordHeader, check_payload, take_event};

/// Number of bytes searched at a time for a record after a bad one.
const SEARCH_BYTES: usize = 1 << 20;

/// Maximum number of valid headers of invalid records in a search. Beyond this number, the search gives up and damage
/// is reported. Such headers do not occur by accident, but without a bound a crafted file could keep the search busy
/// for days.
const SEARCH_CANDIDATES_MAX: usize = 1024;

/// The reason why no record could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordFault {
    #[error("the file ends within a record")]
    Cut,
    #[error("no record begins at this offset")]
    Header,
    #[error("the checksum of the record does not match")]
    Checksum,
    #[error("the record begins with sequence {found}, expected {expected}")]
    Sequence { found: u64, expected: u64 },
    #[error("the record is intact but its events are invalid: {0}")]
    Payload(Malformed),
}

impl RecordFault {
    /// Returns true if an unfinished write can cause this fault.
    const fn may_be_torn(self) -> bool {
        matches!(self, Self::Cut | Self::Header | Self::Checksum)
    }
}

/// The next item of a journal file.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    Record(Record<'a>),
    End,
    Bad(RecordFault),
}

/// A valid record.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub(crate) header: RecordHeader,
    payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// Returns the events of the record with their sequences.
    pub(crate) fn events(&self) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        let mut payload = Reader::new(self.payload);
        let events = std::iter::from_fn(move || take_event(&mut payload).ok());
        (self.header.first..).zip(events)
    }
}

/// A reader of a journal file, from its beginning.
#[derive(Debug)]
pub(crate) struct JournalFileReader<R> {
    input: R,
    header: Header,
    offset: u64,
    next: u64,
    buffer: Vec<u8>,
}

impl<R: Read> JournalFileReader<R> {
    pub(crate) fn open(mut input: R) -> io::Result<Result<Self, HeaderFault>> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        input.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut bytes)?;
        Ok(Header::decode(Kind::Journal, &bytes).map(|header| Self::assume(input, header)))
    }

    /// Creates a reader of a file with a damaged header. `header` replaces the header of the file.
    pub(crate) const fn assume(input: R, header: Header) -> Self {
        Self { input, header, offset: HEADER_BYTES as u64, next: header.sequence, buffer: Vec::new() }
    }

    pub(crate) const fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the offset of the next record or, after a fault, of the bad record.
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the next expected sequence.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// Reads the next record. Must not be called again after [`Step::Bad`].
    pub(crate) fn step(&mut self) -> io::Result<Step<'_>> {
        self.buffer.clear();
        self.input.by_ref().take(RECORD_HEADER_BYTES as u64).read_to_end(&mut self.buffer)?;
        if self.buffer.is_empty() {
            return Ok(Step::End);
        }
        let header = match self.finish_record()? {
            Ok(header) => header,
            Err(fault) => return Ok(Step::Bad(fault)),
        };
        self.offset += header.record_bytes();
        self.next = header.last() + 1;
        Ok(Step::Record(Record { header, payload: payload(&self.buffer) }))
    }

    /// Reads and checks the rest of the record whose header is in the buffer.
    fn finish_record(&mut self) -> io::Result<Result<RecordHeader, RecordFault>> {
        let seed = self.header.seed();
        let Some(bytes) = self.buffer.first_chunk() else { return Ok(Err(RecordFault::Cut)) };
        let Some(header) = RecordHeader::decode(bytes, seed) else { return Ok(Err(RecordFault::Header)) };
        let left = header.record_bytes() - RECORD_HEADER_BYTES as u64;
        self.input.by_ref().take(left).read_to_end(&mut self.buffer)?;
        Ok(self.check(&header, seed).map(|()| header))
    }

    fn check(&self, header: &RecordHeader, seed: u64) -> Result<(), RecordFault> {
        whole(&self.buffer, header, seed)?;
        if header.first != self.next {
            return Err(RecordFault::Sequence { found: header.first, expected: self.next });
        }
        check_payload(payload(&self.buffer), header.events).map_err(RecordFault::Payload)
    }
}

/// Checks that `bytes` are a complete record with a valid checksum.
fn whole(bytes: &[u8], header: &RecordHeader, seed: u64) -> Result<(), RecordFault> {
    if bytes.len() as u64 != header.record_bytes() {
        return Err(RecordFault::Cut);
    }
    let (covered, sum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or(RecordFault::Cut)?;
    if checksum(covered, seed) == u64::from_le_bytes(*sum) { Ok(()) } else { Err(RecordFault::Checksum) }
}

fn payload(record: &[u8]) -> &[u8] {
    record.get(RECORD_HEADER_BYTES..record.len().saturating_sub(CHECKSUM_BYTES)).unwrap_or_default()
}

/// The sequences of a store's newest snapshots. A sequence is 0 if there is no such snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Snapshots {
    /// Sequence of the newest snapshot, intact or not. The journal was on disk up to this sequence.
    pub(crate) newest: u64,
    /// Sequence of the newest intact snapshot, which contains everything up to this sequence.
    pub(crate) sound: u64,
}

/// Returns true if the fault at `reader`'s position in the last journal file cannot be an unfinished write.
///
/// If an unfinished write could have caused the fault, there are two proofs of damage:
///
/// - A snapshot that contains the bad record shows that this record was on disk. But an intact snapshot proves nothing
///   if it also contains all later records. This happens in a copy of the directory, if the journal file was copied
///   while the record was being written, and the snapshot soon after.
/// - A later record is valid, and says that the bad record was already on disk when the later one was written. Any
///   other valid record after the bad one proves nothing: under relaxed durability, the disk may have persisted a later
///   write and lost an earlier one.
pub(crate) fn is_damage<R: Read + Seek>(
    reader: &mut JournalFileReader<R>,
    fault: RecordFault,
    snapshots: Snapshots,
) -> io::Result<bool> {
    let missing = reader.next;
    if !fault.may_be_torn() || (snapshots.sound < missing && missing <= snapshots.newest) {
        return Ok(true);
    }
    if missing <= snapshots.sound {
        return Ok(search(reader, |header| header.last() > snapshots.sound, |_, _| false)? != Search::End);
    }
    let proof = search(reader, |header| header.durable >= missing, |_, _| false)?;
    Ok(proof != Search::End)
}

/// Returns the highest sequence in valid records after `reader`'s position, and the offset at which the last of these
/// records ends.
pub(crate) fn last_behind<R: Read + Seek>(reader: &mut JournalFileReader<R>) -> io::Result<Option<(u64, u64)>> {
    let mut last = None;
    search(
        reader,
        |_| true,
        |place, header| {
            last = last.max(Some((header.last(), place + header.record_bytes())));
            true
        },
    )?;
    Ok(last)
}

/// The reason why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// The end of the file was reached.
    End,
    /// `visit` stopped the search at a valid record.
    Found,
    /// There were too many valid headers of invalid records.
    GaveUp,
}

/// Searches every byte after `reader`'s position for valid records with a `wanted` header, until `visit` stops it.
fn search<R: Read + Seek>(
    reader: &mut JournalFileReader<R>,
    wanted: impl Fn(&RecordHeader) -> bool,
    mut visit: impl FnMut(u64, &RecordHeader) -> bool,
) -> io::Result<Search> {
    let (input, seed, mut from, mut candidates) = (&mut reader.input, reader.header.seed(), reader.offset, 0);
    loop {
        let window = read_at(input, from, SEARCH_BYTES as u64)?;
        if window.len() < RECORD_OVERHEAD_BYTES {
            return Ok(Search::End);
        }
        for (place, header) in headers(&window, seed).filter(|(_, header)| wanted(header)) {
            let place = from + place as u64;
            let record = read_at(input, place, header.record_bytes())?;
            if whole(&record, &header, seed).is_ok() {
                if !visit(place, &header) {
                    return Ok(Search::Found);
                }
                continue;
            }
            candidates += 1;
            if candidates > SEARCH_CANDIDATES_MAX {
                return Ok(Search::GaveUp);
            }
        }
        from += (window.len() - RECORD_HEADER_BYTES + 1) as u64;
    }
}

/// Returns every offset in `window` at which a header begins.
fn headers(window: &[u8], seed: u64) -> impl Iterator<Item = (usize, RecordHeader)> {
    window.windows(RECORD_HEADER_BYTES).enumerate().filter_map(move |(place, bytes)| {
        let bytes = bytes.first_chunk().filter(|bytes| bytes.starts_with(&MARKER))?;
        RecordHeader::decode(bytes, seed).map(|header| (place, header))
    })
}

fn read_at<R: Read + Seek>(input: &mut R, from: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    input.seek(SeekFrom::Start(from))?;
    input.by_ref().take(bytes).read_to_end(&mut out)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{RecordBuilder, put_event};
    use std::io::Cursor;

    const HEADER: Header = Header { kind: Kind::Journal, realm: [3; 16], sequence: 1 };

    fn record(first: u64, durable: u64, events: &[&[u8]]) -> Vec<u8> {
        let mut builder = RecordBuilder::default();
        builder.clear();
        for event in events {
            let mut framed = Vec::new();
            put_event(&mut framed, |out| out.extend(*event));
            builder.push(&framed);
        }
        builder.finish(first, durable, HEADER.seed()).to_vec()
    }

    /// Reads a whole file. Returns the sequences before the end or the first fault. The second result is `None` if
    /// there is no fault, and true if the fault is damage.
    fn read(bytes: &[u8]) -> (Vec<u64>, Option<bool>) {
        let mut reader = JournalFileReader::open(Cursor::new(bytes)).unwrap().unwrap();
        let mut sequences = Vec::new();
        loop {
            match reader.step().unwrap() {
                Step::Record(record) => sequences.extend(record.events().map(|(sequence, _)| sequence)),
                Step::End => return (sequences, None),
                Step::Bad(fault) => {
                    return (sequences, Some(is_damage(&mut reader, fault, Snapshots::default()).unwrap()));
                }
            }
        }
    }

    #[test]
    fn a_bad_record_at_the_end_is_torn_and_before_a_good_one_damaged() {
        let records = [record(1, 0, &[b"a", b"b"]), record(3, 2, &[b"c"]), record(4, 3, &[b"d"])];
        let whole = [HEADER.encode(), records.concat()].concat();
        assert_eq!(read(&whole), (vec![1, 2, 3, 4], None));
        let second = HEADER_BYTES + records[0].len();
        for place in second..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= 0x40;
            let in_last = place >= second + records[1].len();
            let kept = if in_last { vec![1, 2, 3] } else { vec![1, 2] };
            assert_eq!(read(&bytes), (kept, Some(!in_last)), "byte {place}");
        }
    }

    #[test]
    fn a_later_record_that_does_not_name_the_bad_one_durable_proves_nothing() {
        let mut bytes = [HEADER.encode(), record(1, 0, &[b"a"]), record(2, 0, &[b"b"])].concat();
        bytes[HEADER_BYTES] ^= 1;
        assert_eq!(read(&bytes), (vec![], Some(false)));
    }

    #[test]
    fn a_sound_record_of_a_wrong_sequence_is_damage_even_at_the_end() {
        let repeated = [HEADER.encode(), record(1, 0, &[b"a"]), record(1, 0, &[b"a"])].concat();
        assert_eq!(read(&repeated), (vec![1], Some(true)));
    }

    #[test]
    fn a_record_across_two_windows_of_the_search_is_found() {
        let last = record(3, 2, &[b"c"]);
        for shift in 0..last.len() {
            let mut bytes = [HEADER.encode(), record(1, 0, &[b"a"])].concat();
            bytes.resize(bytes.len() + SEARCH_BYTES - shift, 0);
            bytes.extend(&last);
            assert_eq!(read(&bytes), (vec![1], Some(true)), "shift {shift}");
        }
    }

    #[test]
    fn a_search_among_crafted_headers_ends() {
        let mut header = record(9, 8, &[&[0; 1000]]);
        header.truncate(RECORD_HEADER_BYTES);
        for (copies, damage) in [(SEARCH_CANDIDATES_MAX, false), (SEARCH_CANDIDATES_MAX + 1, true)] {
            let bytes = [HEADER.encode(), vec![0; 40], header.repeat(copies)].concat();
            assert_eq!(read(&bytes), (vec![], Some(damage)));
        }
    }
}
