//! The store does not panic, whatever a journal file or snapshot contains. A store that opens once opens again.
//!
//! Random bytes never have valid checksums, so the target corrects some of them. The first byte of the input selects
//! the checksums to correct and the kind of file (journal or snapshot).

use std::fs;
use std::io::Read;

use bruit_engine::codec::Malformed;
use bruit_store::{HEADER_BYTES, Machine, Options, RestoreError, Store, repair, survey};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const REALM: [u8; 16] = [7; 16];

/// Number of bytes of a record before its events.
const RECORD_HEADER_BYTES: usize = 32;

/// Maximum size of the states to open. Blocks of zeros can stand for far more bytes than the input has.
const STATE_BYTES_MAX: u64 = 64 << 20;

/// A state machine that appends events. Its state consists of all bytes appended so far.
struct Bytes(Vec<u8>);

impl Machine for Bytes {
    type Event = Vec<u8>;
    type Outcome = ();

    fn encode(event: &Vec<u8>, out: &mut Vec<u8>) {
        out.extend(event);
    }

    fn decode(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
        Ok(bytes.to_vec())
    }

    fn admit(&self, _: &Vec<u8>) -> Result<(), ()> {
        Ok(())
    }

    fn apply(&mut self, event: &Vec<u8>) {
        self.0.extend(event);
    }

    fn begin_snapshot(&mut self, out: &mut Vec<u8>) {
        out.extend(&self.0);
    }

    fn continue_snapshot(&mut self, _: usize, _: &mut Vec<u8>) -> bool {
        true
    }

    fn restore(&self, input: &mut dyn Read) -> Result<Self, RestoreError> {
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes)?;
        Ok(Self(bytes))
    }

    fn realm(&self) -> [u8; 16] {
        REALM
    }
}

pub(crate) fn fuzz(input: &[u8]) {
    let Some((&wishes, bytes)) = input.split_first() else { return };
    let is_journal = wishes & 1 == 0;
    let sequence = u64::from(wishes >> 4) + u64::from(is_journal);
    let mut file = header(is_journal, sequence);
    file.extend(bytes);
    if wishes & 2 != 0 {
        let seed = xxh3_64_with_seed(&REALM, sequence);
        if is_journal { fix_records(&mut file, seed) } else { fix_blocks(&mut file, seed) }
    }
    let kind = if is_journal { "journal" } else { "snapshot" };
    let folder = tempfile::tempdir().expect("a folder can be created");
    fs::write(folder.path().join(format!("{kind}-{sequence:020}.bruit")), file).expect("a file can be written");
    let options = Options { snapshot_on_close: false, ..Options::default() };
    let open = || Store::open(folder.path(), &options, || Ok(Bytes(Vec::new())), &mut |_| {});

    let found = survey(folder.path(), &mut ()).expect("the directory can be examined");
    if !found.faults().is_empty() {
        for fault in found.journal_files.iter().filter_map(|segment| segment.fault.as_ref()) {
            repair(folder.path(), None, fault.offset, true).expect("a damaged store can be truncated");
        }
        return;
    }
    if found.snapshots.iter().any(|snapshot| snapshot.state_bytes > STATE_BYTES_MAX) {
        return;
    }
    let store = open().expect("a store without faults can be opened");
    let state = store.check(|bytes| bytes.0.clone());
    drop(store);
    assert!(open().expect("the store can be opened again").check(|bytes| bytes.0 == state));
}

fn header(is_journal: bool, sequence: u64) -> Vec<u8> {
    let mut out = if is_journal { b"\x89bruitJ\n".to_vec() } else { b"\x89bruitS\n".to_vec() };
    out.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    out.extend(REALM);
    out.extend(sequence.to_le_bytes());
    out.extend(xxh3_64(&out).to_le_bytes());
    out
}

/// Corrects the checksums of the records that can be found by their lengths.
fn fix_records(file: &mut [u8], seed: u64) {
    let mut start = HEADER_BYTES;
    while let Some(record) = file.get_mut(start..).filter(|rest| rest.len() > RECORD_HEADER_BYTES + 8) {
        record[..4].copy_from_slice(b"\xB5rec");
        let check = (xxh3_64_with_seed(&record[..28], seed) as u32).to_le_bytes();
        record[28..32].copy_from_slice(&check);
        let payload = u32::from_le_bytes([record[4], record[5], record[6], record[7]]) as usize;
        let end = RECORD_HEADER_BYTES.saturating_add(payload);
        fix(record, end, seed);
        start = start.saturating_add(end).saturating_add(8);
    }
}

/// Corrects the checksums of the blocks that can be found by their lengths.
fn fix_blocks(file: &mut [u8], seed: u64) {
    let mut start = HEADER_BYTES;
    while let Some(block) = file.get_mut(start..).filter(|rest| rest.len() >= 16) {
        let length = u32::from_le_bytes([block[0], block[1], block[2], block[3]]);
        let bytes = match length {
            // The trailer, which contains the length of the state.
            0 => 8,
            // A block of zeros. Only the number of zeros is stored.
            0x8000_0000.. => 0,
            _ => length as usize,
        };
        let end = 8usize.saturating_add(bytes);
        fix(block, end, seed);
        start = start.saturating_add(end).saturating_add(8);
    }
}

/// Writes the checksum of the bytes before `end` at `end`, if there is room.
fn fix(bytes: &mut [u8], end: usize, seed: u64) {
    if let Some((covered, rest)) = bytes.split_at_mut_checked(end)
        && let Some(place) = rest.first_chunk_mut::<8>()
    {
        *place = xxh3_64_with_seed(covered, seed).to_le_bytes();
    }
}
