//! Map files: opened with their length checked, written in full or not at all.

use std::path::Path;

use bruit_filters::FingerprintKey;
use bruit_filters::map::{self, MapFile, MapHeader, StoredMap};

use crate::failure::Failure;
use crate::filter::storage::{Output, ensure_memory, open_checked, write_atomically, wrong};

/// Reads a map file in full, which has its key inside.
pub(super) fn read(path: &Path) -> Result<(MapFile, FingerprintKey), Failure> {
    let mut file = read_any(path)?;
    let key = file.key.take().ok_or_else(|| wrong(path, "it holds no key, so it cannot be asked"))?;
    Ok((file, key))
}

/// Reads a map file in full.
pub(super) fn read_any(path: &Path) -> Result<MapFile, Failure> {
    let read_header = |input: &mut _| map::read_header(input).map(|(header, _)| header);
    let (mut input, header) = open_checked(path, read_header, MapHeader::file_bytes)?;
    ensure_memory("a map", header.payload_bytes()).map_err(|what| wrong(path, what))?;
    map::decode(&mut input, header.payload_bytes()).map_err(|error| wrong(path, error))
}

/// Writes a map with its key inside, and gives its header.
pub(super) fn write(path: &Path, kind: Output, map: &StoredMap, key: &FingerprintKey) -> Result<MapHeader, Failure> {
    write_atomically(path, kind, |output| map::encode(map, Some(key), output).map_err(|error| wrong(path, error)))
}
