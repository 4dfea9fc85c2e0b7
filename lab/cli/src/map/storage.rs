//! Reads and writes map files. Checks their length, and replaces them atomically.

use std::path::Path;

use bruit_console::Failure;
use bruit_console::files::{FileKind, Output, bad_file, ensure_memory, open_checked, write_atomically};
use bruit_filters::FingerprintKey;
use bruit_structures::map::{self, MAP_MAGIC, MapFile, MapHeader, StoredMap};

/// Map files.
pub(super) const MAP: Output =
    Output::Replace(FileKind { name: "a map file", content: "the map", magic: MAP_MAGIC, is_public: false });

/// Reads a whole map file. Fails if it does not contain its key.
pub(super) fn read(path: &Path) -> Result<(MapFile, FingerprintKey), Failure> {
    let mut file = read_any(path)?;
    let key = file.key.take().ok_or_else(|| bad_file(path, "cannot be queried: contains no secret key"))?;
    Ok((file, key))
}

/// Reads a whole map file.
pub(super) fn read_any(path: &Path) -> Result<MapFile, Failure> {
    let read_header = |input: &mut _| map::read_header(input).map(|(header, _)| header);
    let (mut input, header) = open_checked(path, read_header, MapHeader::file_bytes)?;
    ensure_memory("a map", header.payload_bytes()).map_err(|what| bad_file(path, what))?;
    map::decode(&mut input, header.payload_bytes()).map_err(|error| bad_file(path, error))
}

/// Writes a map together with its key, and returns its header.
pub(super) fn write(path: &Path, kind: Output, map: &StoredMap, key: &FingerprintKey) -> Result<MapHeader, Failure> {
    write_atomically(path, kind, |output| map::encode(map, Some(key), output).map_err(|error| bad_file(path, error)))
}
