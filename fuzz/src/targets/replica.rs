//! A replica file with an arbitrary header is rejected, or it opens and can be queried.

use std::cell::OnceCell;
use std::fs::File;
use std::os::unix::fs::FileExt;

use bruit_engine::realm::{BookSizes, Realm};
use bruit_federation::replica::{Replica, ReplicaError};
use bruit_filters::FingerprintKey;
use tempfile::NamedTempFile;
use xxhash_rust::xxh3::xxh3_64;

/// Lengths of the front, of each chain after it, of a slot and of a line, as in docs/design/replica-file.md.
const FRONT_BYTES: usize = 512;
const CHAIN_BYTES: usize = 105;
const SLOT_BYTES: usize = 128 << 10;
const LINE_BYTES: u64 = 64;
/// Maximum number of lines in a file.
const LINES_MAX: u64 = 1 << 10;

thread_local! {
    static FILE: OnceCell<NamedTempFile> = const { OnceCell::new() };
}

pub(crate) fn fuzz(input: &[u8]) {
    FILE.with(|file| {
        let file = file.get_or_init(|| NamedTempFile::new().expect("a temporary file"));
        write(file.as_file(), input);
        let Ok(replica) = Replica::open(file.path()) else { return };
        let signatures: Vec<_> = (0..40_u8).map(|number| replica.key().fingerprint(&[number])).collect();
        refused_or(replica.look_up(&signatures));
        refused_or(replica.status());
        refused_or(replica.origins());
    });
}

fn refused_or<T>(result: Result<T, ReplicaError>) {
    if let Err(error) = result {
        assert!(!error.to_string().is_empty(), "an error has a message");
    }
}

/// Writes a file with valid checksums. Its first slot is the first slot of a valid replica, XORed with the input. The
/// slot determines the length of the file.
fn write(file: &File, input: &[u8]) {
    let mut slot = good_front();
    let (front, behind) = input.split_at(input.len().min(FRONT_BYTES));
    slot.iter_mut().zip(front).for_each(|(byte, other)| *byte ^= other);
    let behind = &behind[..behind.len() / CHAIN_BYTES * CHAIN_BYTES];
    slot[12..16].copy_from_slice(&((behind.len() / CHAIN_BYTES) as u32).to_le_bytes());
    slot[16..24].copy_from_slice(&xxh3_64(behind).to_le_bytes());
    let checksum = xxh3_64(&slot[..FRONT_BYTES - 8]);
    slot[FRONT_BYTES - 8..].copy_from_slice(&checksum.to_le_bytes());
    slot.extend_from_slice(behind);
    slot.truncate(SLOT_BYTES);
    let lines = |at: usize| u64::from_le_bytes(slot[at..at + 8].try_into().expect("eight bytes"));
    let lines = lines(48).saturating_add(lines(64)).min(LINES_MAX);
    file.set_len(0).expect("a file can be truncated");
    file.set_len(2 * SLOT_BYTES as u64 + lines * LINE_BYTES).expect("a file can be extended");
    file.write_all_at(&slot, 0).expect("a file can be written");
}

/// Returns the front of a small replica.
fn good_front() -> Vec<u8> {
    let mut front = b"\x89bruitF\n\x01\0\0\0".to_vec();
    front.resize(24, 0);
    let (write, capacity, heard, lines, epoch, held, rate) = (0_u64, 1_000, 1_700_000_000, 40, 20_000, 9, 10);
    for number in [write, capacity, heard, lines, epoch, lines, epoch, held, held, rate, rate] {
        front.extend(number.to_le_bytes());
    }
    let sizes = BookSizes { spam_lines: 64, revoked_lines: 64, claim_lines: 64, bulk_lines: 64 };
    let realm = Realm::new(FingerprintKey::narrow([3; 16]), 86_400, 3_600, sizes).expect("a valid realm");
    realm.encode(&mut front);
    front.resize(FRONT_BYTES, 0);
    front
}
