//! A record of the journal: the events of one group commit under one checksum.
//!
//! A record consists of a header (32 bytes), events (each a length and its bytes) and a checksum (8 bytes). The header
//! has a checksum of its own, so that a length can be trusted before the payload is read. `durable` is the sequence up
//! to which the journal was known to be on disk when the record was written. This field helps to distinguish a torn
//! write from damage.

use bruit_engine::codec::{Malformed, Reader};

use crate::header::{CHECKSUM_BYTES, SEQUENCE_MAX, checksum};

/// Maximum length of an event in bytes.
pub const EVENT_BYTES_MAX: usize = 64 << 10;

/// Maximum length of the events of a record in bytes, with their length prefixes.
pub const RECORD_BYTES_MAX: usize = 4 << 20;

/// Number of bytes of a record in addition to its events.
pub const RECORD_OVERHEAD_BYTES: usize = RECORD_HEADER_BYTES + CHECKSUM_BYTES;

/// Length of a record's header.
pub(crate) const RECORD_HEADER_BYTES: usize = 32;

/// Bytes of an event's length prefix.
pub(crate) const EVENT_OVERHEAD_BYTES: usize = 4;

/// The bytes that every record begins with.
pub(crate) const MARKER: [u8; 4] = *b"\xB5rec";

/// Bytes of a header that its checksum covers.
const CHECKED_BYTES: usize = 28;

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) payload_bytes: u32,
    /// The sequence of the record's first event.
    pub(crate) first: u64,
    /// The sequence up to which the journal was known to be on disk when the record was written.
    pub(crate) durable: u64,
    pub(crate) events: u32,
}

impl RecordHeader {
    /// Returns the sequence of the record's last event.
    pub(crate) fn last(&self) -> u64 {
        self.first + u64::from(self.events) - 1
    }

    /// Returns the length of the whole record, with header and checksum.
    pub(crate) fn record_bytes(&self) -> u64 {
        u64::from(self.payload_bytes).saturating_add(RECORD_OVERHEAD_BYTES as u64)
    }

    fn encode(&self, seed: u64) -> [u8; RECORD_HEADER_BYTES] {
        let mut out = Vec::with_capacity(RECORD_HEADER_BYTES);
        out.extend(MARKER);
        out.extend(self.payload_bytes.to_le_bytes());
        out.extend(self.first.to_le_bytes());
        out.extend(self.durable.to_le_bytes());
        out.extend(self.events.to_le_bytes());
        out.extend(short_check(&out, seed).to_le_bytes());
        out.try_into().expect("the fields add up to a header")
    }

    /// Decodes a header. Returns `None` if the bytes are not a valid header.
    pub(crate) fn decode(bytes: &[u8; RECORD_HEADER_BYTES], seed: u64) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let marker: [u8; 4] = reader.array("marker").ok()?;
        let header = Self {
            payload_bytes: reader.u32("length").ok()?,
            first: reader.u64("first").ok()?,
            durable: reader.u64("durable").ok()?,
            events: reader.u32("events").ok()?,
        };
        let check = reader.u32("check").ok()?;
        let sound = marker == MARKER && check == short_check(bytes.get(..CHECKED_BYTES)?, seed) && header.is_possible();
        sound.then_some(header)
    }

    fn is_possible(&self) -> bool {
        let payload_bytes = self.payload_bytes as usize;
        (1..=RECORD_BYTES_MAX).contains(&payload_bytes)
            && self.events >= 1
            && self.events as usize <= payload_bytes / EVENT_OVERHEAD_BYTES
            && self.durable < self.first
            && self.first <= SEQUENCE_MAX
    }
}

/// Returns the low half of the checksum. It is enough to trust a length, because the whole record has a checksum too.
fn short_check(bytes: &[u8], seed: u64) -> u32 {
    (checksum(bytes, seed) & u64::from(u32::MAX)) as u32
}

/// A record under construction, in a reusable buffer.
#[derive(Debug, Default)]
pub(crate) struct RecordBuilder {
    bytes: Vec<u8>,
    events: u32,
}

impl RecordBuilder {
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(RECORD_HEADER_BYTES, 0);
        self.events = 0;
    }

    /// Adds an event with its length prefix, as encoded by [`put_event`].
    pub(crate) fn push(&mut self, framed: &[u8]) {
        self.bytes.extend(framed);
        self.events += 1;
    }

    pub(crate) const fn events(&self) -> u32 {
        self.events
    }

    /// Completes the record and returns its bytes. Only [`clear`](Self::clear) makes the builder usable again.
    pub(crate) fn finish(&mut self, first: u64, durable: u64, seed: u64) -> &[u8] {
        let payload = self.bytes.len() - RECORD_HEADER_BYTES;
        let payload_bytes = u32::try_from(payload).expect("a batch is at most RECORD_BYTES_MAX");
        let header = RecordHeader { payload_bytes, first, durable, events: self.events };
        if let Some(front) = self.bytes.first_chunk_mut() {
            *front = header.encode(seed);
        }
        self.bytes.extend(checksum(&self.bytes, seed).to_le_bytes());
        &self.bytes
    }
}

/// Appends an event with its length prefix. Returns its length in bytes, which may exceed the maximum.
pub(crate) fn put_event(out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) -> usize {
    let start = out.len();
    out.extend([0; EVENT_OVERHEAD_BYTES]);
    encode(out);
    let length = out.len() - start - EVENT_OVERHEAD_BYTES;
    let field = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    if let Some(place) = out.get_mut(start..start + EVENT_OVERHEAD_BYTES) {
        place.copy_from_slice(&field);
    }
    length
}

/// Reads the next event of a payload.
pub(crate) fn take_event<'a>(payload: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let length = payload.u32("the length of an event")?;
    let allowed = usize::try_from(length).ok().filter(|&length| length <= EVENT_BYTES_MAX);
    let what = "the length of an event";
    payload.bytes(allowed.ok_or_else(|| Malformed::OutOfRange { what, value: u64::from(length) })?, "an event")
}

/// Checks that a payload consists of exactly `events` events.
pub(crate) fn check_payload(payload: &[u8], events: u32) -> Result<(), Malformed> {
    let mut reader = Reader::new(payload);
    for _ in 0..events {
        take_event(&mut reader)?;
    }
    reader.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(bytes: &[u8]) -> Option<RecordHeader> {
        RecordHeader::decode(bytes.first_chunk().unwrap(), 5)
    }

    fn record(events: &[&[u8]]) -> Vec<u8> {
        let mut builder = RecordBuilder::default();
        builder.clear();
        for event in events {
            let mut framed = Vec::new();
            put_event(&mut framed, |out| out.extend(*event));
            builder.push(&framed);
        }
        builder.finish(10, 9, 5).to_vec()
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let bytes = record(&[b"one", b"", b"three"]);
        let header = header(&bytes).unwrap();
        assert_eq!(header, RecordHeader { payload_bytes: 20, first: 10, durable: 9, events: 3 });
        assert_eq!((header.last(), header.record_bytes()), (12, bytes.len() as u64));
        let mut payload = Reader::new(&bytes[32..52]);
        assert_eq!(take_event(&mut payload), Ok(&b"one"[..]));
        assert_eq!(check_payload(&bytes[32..52], 3), Ok(()));
        assert!(check_payload(&bytes[32..52], 2).is_err(), "bytes are left");
    }

    #[test]
    fn every_changed_bit_of_a_record_header_is_noticed() {
        for bit in 0..RECORD_HEADER_BYTES * 8 {
            let mut bytes = record(&[b"one"]);
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(header(&bytes), None, "bit {bit}");
        }
    }

    #[test]
    fn a_header_beyond_a_bound_is_none() {
        let good = RecordHeader { payload_bytes: RECORD_BYTES_MAX as u32, first: 2, durable: 1, events: 1 };
        let last = RecordHeader { first: SEQUENCE_MAX, ..good };
        assert_eq!([header(&good.encode(5)), header(&last.encode(5))], [Some(good), Some(last)]);
        let bad = [
            RecordHeader { payload_bytes: RECORD_BYTES_MAX as u32 + 1, ..good },
            RecordHeader { events: 0, ..good },
            RecordHeader { payload_bytes: 7, events: 2, ..good },
            RecordHeader { durable: 2, ..good },
            RecordHeader { first: SEQUENCE_MAX + 1, ..good },
        ];
        for bad in bad {
            assert_eq!(header(&bad.encode(5)), None, "{bad:?}");
        }
    }

    #[test]
    fn an_event_beyond_its_bound_is_refused() {
        for (length, allowed) in [(EVENT_BYTES_MAX, true), (EVENT_BYTES_MAX + 1, false)] {
            let mut payload = Vec::new();
            assert_eq!(put_event(&mut payload, |out| out.resize(length + 4, 0)), length);
            assert_eq!(check_payload(&payload, 1).is_ok(), allowed);
        }
    }
}
