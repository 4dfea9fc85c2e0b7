//! Reading a segment of the journal, record by record, in bounded memory.
//!
//! A fault has an offset and a reason. [`is_damage`] tells whether it can be the end of a write that power or process
//! did not outlive, or whether something that was safe on disk has gone bad.

use std::io::{self, Read, Seek, SeekFrom};

use bruit_engine::codec::{Malformed, Reader};

use crate::format::{CHECKSUM_BYTES, HEADER_BYTES, Header, HeaderFault, Kind, checksum};
use crate::record::{MARKER, RECORD_HEADER_BYTES, RECORD_OVERHEAD_BYTES, RecordHeader, check_payload, take_event};

/// How much is searched at a time for a record behind a bad one.
const SEARCH_BYTES: usize = 1 << 20;

/// How many sound headers without a sound record are looked into, before it is called damage. Accident makes none; without
/// a bound, a made-up file could keep the search busy for days.
const SEARCH_CANDIDATES_MAX: usize = 1024;

/// Why no record could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordFault {
    #[error("the file ends within a record")]
    Cut,
    #[error("no record begins here")]
    Header,
    #[error("the checksum of the record does not hold")]
    Checksum,
    #[error("the record begins with sequence {found} where {expected} is due")]
    Sequence { found: u64, expected: u64 },
    #[error("the record is sound but its events are not: {0}")]
    Payload(Malformed),
}

impl RecordFault {
    /// Whether a write that was cut off can look like this.
    const fn may_be_torn(self) -> bool {
        matches!(self, Self::Cut | Self::Header | Self::Checksum)
    }
}

/// What comes next in a segment.
#[derive(Debug)]
pub(crate) enum Step<'a> {
    Record(Record<'a>),
    End,
    Bad(RecordFault),
}

/// A sound record.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub(crate) header: RecordHeader,
    payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// Its events with their sequences.
    pub(crate) fn events(&self) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        let mut payload = Reader::new(self.payload);
        let events = std::iter::from_fn(move || take_event(&mut payload).ok());
        (self.header.first..).zip(events)
    }
}

/// Reads a segment from its beginning.
#[derive(Debug)]
pub(crate) struct SegmentReader<R> {
    input: R,
    header: Header,
    offset: u64,
    next: u64,
    buffer: Vec<u8>,
}

impl<R: Read> SegmentReader<R> {
    pub(crate) fn open(mut input: R) -> io::Result<Result<Self, HeaderFault>> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        input.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut bytes)?;
        Ok(Header::decode(Kind::Segment, &bytes).map(|header| Self::assume(input, header)))
    }

    /// Reads behind a header that is not sound, as if it were `header`.
    pub(crate) const fn assume(input: R, header: Header) -> Self {
        Self { input, header, offset: HEADER_BYTES as u64, next: header.sequence, buffer: Vec::new() }
    }

    pub(crate) const fn header(&self) -> &Header {
        &self.header
    }

    /// Where the next record begins; after a fault, where the bad one does.
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    /// The sequence that is due next.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// The next record. After [`Step::Bad`] there is nothing more to ask.
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

    /// Reads and checks the rest of the record whose first bytes are in the buffer.
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

/// Whether `bytes` are all of a record, and its checksum holds.
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

/// How far snapshots go; 0 if there are none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Snapshots {
    /// The sequence of the newest, sound or not: up to there the journal was on disk.
    pub(crate) newest: u64,
    /// The sequence of the newest sound one, which holds everything up to there.
    pub(crate) sound: u64,
}

/// Whether the fault at `reader`'s place, in the last segment, is more than the end of an unfinished write.
///
/// It is if a snapshot proves that the bad record was on disk, unless one that is sound holds it and all that is behind, as
/// in a copy that was made while the record was written and the snapshot a little later. It also is if a sound record lies
/// behind it that was written when the bad one was already known to be on disk. (Without that knowledge, as under relaxed
/// durability, a disk may have kept a later write and lost an earlier one.)
pub(crate) fn is_damage<R: Read + Seek>(
    reader: &mut SegmentReader<R>,
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

/// The highest sequence in sound records from `reader`'s place on, and where the last of them ends.
pub(crate) fn last_behind<R: Read + Seek>(reader: &mut SegmentReader<R>) -> io::Result<Option<(u64, u64)>> {
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

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// At the end of the file.
    End,
    /// Because a sound record was found and no more were wanted.
    Found,
    /// After too many headers without a record.
    GaveUp,
}

/// Looks at every byte from `reader`'s place on for sound records whose headers are `wanted`, as long as `visit` wants more.
fn search<R: Read + Seek>(
    reader: &mut SegmentReader<R>,
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

/// Every place in `window` where a header begins.
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

    const HEADER: Header = Header { kind: Kind::Segment, realm: [3; 16], sequence: 1 };

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

    /// Reads all; the sequences, and how it ended: `None` at the end, else whether it is damage.
    fn read(bytes: &[u8]) -> (Vec<u64>, Option<bool>) {
        let mut reader = SegmentReader::open(Cursor::new(bytes)).unwrap().unwrap();
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
    fn a_later_write_that_did_not_know_the_bad_one_safe_proves_nothing() {
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
    fn a_search_among_made_up_headers_ends() {
        let mut header = record(9, 8, &[&[0; 1000]]);
        header.truncate(RECORD_HEADER_BYTES);
        for (copies, damage) in [(SEARCH_CANDIDATES_MAX, false), (SEARCH_CANDIDATES_MAX + 1, true)] {
            let bytes = [HEADER.encode(), vec![0; 40], header.repeat(copies)].concat();
            assert_eq!(read(&bytes), (vec![], Some(damage)));
        }
    }
}
