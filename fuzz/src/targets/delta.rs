//! Random bytes after a valid header cause no panic. Applying an encoded delta produces its target.

use bruit_filters::bloom::{ClassicalFilter, OneLineFilter};
use bruit_filters::counting::{CountingFilter, Extension, OneLineCounts};
use bruit_filters::delta::{self, ApplyError, DELTA_HEADER_BYTES};
use bruit_filters::file::{self, FilterFile, History, Label, Origin, STEP_BYTES, StoredFilter};
use bruit_filters::hash::FingerprintHash;
use bruit_filters::{Fingerprint, FingerprintKey};

pub(crate) fn fuzz(input: &[u8]) {
    let [shape, count, encoding, rest @ ..] = input else { return };
    let mut base = empty(shape % 16);
    base.insert_batch(&fingerprints(&[[*count, 1]].repeat(usize::from(*count))));
    if shape & 32 != 0 && shape % 8 > 3 {
        advance_random(base, rest);
    } else if shape & 16 == 0 {
        apply_random(base, *encoding, rest);
    } else {
        encode_and_apply(base, rest);
    }
}

/// Returns small filters of all kinds. Some have cells that straddle words, some have more than one block.
fn empty(shape: u8) -> StoredFilter {
    let key_id = key().id();
    let hash = |cells, hashes| FingerprintHash::new(cells, hashes, 40, key_id).unwrap();
    let counting = |cells, bits| CountingFilter::new(hash(cells, 3), Extension::Refined, bits).expect("a valid shape");
    match shape % 8 {
        0 => StoredFilter::OneLineMembership(OneLineFilter::new(3, 6, 32, key_id).unwrap()),
        1 => StoredFilter::OneLineMembership(OneLineFilter::new(600, 16, 64, key_id).unwrap()),
        2 => StoredFilter::ClassicalMembership(ClassicalFilter::new(hash(1003, 5)).unwrap()),
        3 => StoredFilter::ClassicalMembership(ClassicalFilter::new(hash(300_001, 2)).unwrap()),
        4 => StoredFilter::ClassicalCounts(counting(500, 4)),
        5 => StoredFilter::ClassicalCounts(counting(40_001, 11)),
        6 => StoredFilter::OneLineCounts(OneLineCounts::new(2, key_id).unwrap()),
        _ => StoredFilter::OneLineCounts(OneLineCounts::new(600, key_id).unwrap()),
    }
}

fn key() -> FingerprintKey {
    FingerprintKey::new([1; 16])
}

fn fingerprints(names: &[[u8; 2]]) -> Vec<Fingerprint> {
    names.iter().map(|name| key().fingerprint(name)).collect()
}

/// Builds a delta of `base` from `body`, with a header whose predictable fields are correct. Then applies it.
fn apply_random(base: StoredFilter, encoding: u8, body: &[u8]) {
    let header = delta::encode(&base, &base, 0, None).expect("a filter has a delta to itself");
    let mut bytes = header[..DELTA_HEADER_BYTES].to_vec();
    bytes[15] = 1 + encoding % 2;
    if bytes[15] == 2 {
        bytes[80] = encoding / 2;
    }
    bytes.extend_from_slice(body);
    bytes.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
    let mut filter = base.clone();
    match applied(&mut filter, &mut bytes) {
        // Only the checksum of the target is wrong, so insert the correct one.
        Err(ApplyError::WrongTarget { found, .. }) => {
            assert!(filter == base, "a rejected delta changes nothing");
            bytes[56..60].copy_from_slice(&found.to_le_bytes());
            applied(&mut filter, &mut bytes).expect("the delta now leads to its target");
            let mut counts = [0; 4];
            filter.count_batch(&fingerprints(&[[0, 0], [0, 1], [1, 0], [1, 1]]), &mut counts);
            filter.insert_batch(&fingerprints(&[[0, 0], [0, 1], [1, 0], [1, 1]]));
        }
        Err(_) => assert!(filter == base, "a rejected delta changes nothing"),
        Ok(()) => assert!(filter == base, "the delta of a filter to itself changes nothing"),
    }
}

/// Builds a step of `base`, which is a site's own filter, from a valid header and `body`. Applies the step to that
/// filter and to a merged filter.
fn advance_random(base: StoredFilter, body: &[u8]) {
    let file = |origin| FilterFile::new(base.clone(), Label::default(), Some(History::new(Origin(origin))));
    let (own, other) = (file(1).expect("counts have a history"), file(2).expect("counts have a history"));
    let (mut own_bytes, mut other_bytes) = (Vec::new(), Vec::new());
    own.write(&mut own_bytes).expect("a file can be written");
    other.write(&mut other_bytes).expect("a file can be written");
    let mut merged = own.clone();
    merged.merge(&mut &*other_bytes).expect("other origins can be merged");
    let mut bytes = Vec::new();
    delta::diff(&mut &*own_bytes, &mut &*own_bytes, &mut bytes).expect("a state has a delta to itself");
    bytes.truncate(DELTA_HEADER_BYTES + STEP_BYTES);
    bytes.extend_from_slice(body);
    bytes.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
    for mut file in [own, merged] {
        if delta::advance(&mut file, &mut &*bytes).is_ok() {
            let mut written = Vec::new();
            file.write(&mut written).expect("a file can be written");
            assert!(file::decode(&mut &*written, 1 << 24).expect("the written file is valid") == file);
        }
    }
}

fn applied(filter: &mut StoredFilter, bytes: &mut [u8]) -> Result<(), ApplyError> {
    let checksum = crc32fast::hash(&bytes[..DELTA_HEADER_BYTES - 4]);
    bytes[DELTA_HEADER_BYTES - 4..DELTA_HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    delta::apply(filter, 0, bytes)
}

/// Inserts `names`. Encodes and applies the delta in both directions.
fn encode_and_apply(base: StoredFilter, names: &[u8]) {
    let new = fingerprints(names.as_chunks().0);
    let mut target = base.clone();
    target.insert_batch(&new);
    for listed in [None, Some(&new[..])] {
        for (from, to) in [(&base, &target), (&target, &base)] {
            let bytes = delta::encode(from, to, 0, listed).expect("states of one filter have a delta");
            let mut filter = from.clone();
            delta::apply(&mut filter, 0, &bytes).expect("a delta fits its base");
            assert!(filter == *to, "base + delta = target");
        }
    }
}
