//! Reads and writes filter files and deltas.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use bruit_console::Failure;
use bruit_console::files::{FileKind, Output, bad_file, ensure_memory, open_checked, write_atomically};
use bruit_filters::file::{self, FilterFile, Header, Stored};

/// Settings for writing filter files. They allow replacing an existing file only if it is a filter file.
pub(crate) const FILTER: Output = Output::Replace(FileKind {
    name: "a filter file",
    content: "the filter",
    magic: file::FILTER_MAGIC,
    is_public: false,
});

/// Settings for writing deltas. They allow replacing an existing file only if it is a delta. Deltas contain no key, so
/// other users may read them.
pub(crate) const DELTA: Output =
    Output::Replace(FileKind { name: "a delta", content: "the delta", magic: file::DELTA_MAGIC, is_public: true });

/// Opens a filter file and checks its length against its header.
pub(crate) fn open_filter(path: &Path) -> Result<(BufReader<File>, Header), Failure> {
    open_checked(path, |input| file::read_header(input).map(|(header, _)| header), Header::file_bytes)
}

/// Reads a whole filter file.
pub(crate) fn read(path: &Path) -> Result<FilterFile, Failure> {
    let (mut input, header) = open_filter(path)?;
    ensure_memory("a filter", header.payload_bytes()).map_err(|what| bad_file(path, what))?;
    file::decode(&mut input, header.payload_bytes()).map_err(|error| bad_file(path, error))
}

/// Writes a filter file, replacing an existing one.
pub(crate) fn write_filter(path: &Path, filter: &FilterFile) -> Result<(), Failure> {
    write_atomically(path, FILTER, |output| filter.write(output).map_err(|error| bad_file(path, error)))?;
    Ok(())
}

/// Returns the size of the array of `filter` in bytes.
pub(crate) fn payload_bytes(filter: &impl Stored) -> u64 {
    filter.shape().payload_bytes()
}
