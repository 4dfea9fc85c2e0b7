//! Saved counters.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use bruit_forensics::flows::{FLOWS_MAGIC, SavedFlows};

use super::{FlowsArgs, MEMORY_BYTES_MAX};
use bruit_console::failure::{Failure, bad_input};
use bruit_console::files::ensure_memory;

/// Maximum number of bytes in a file besides its filters, for names and headers.
const EXTRA_BYTES_MAX: u64 = 8 << 20;

/// Separates the files with saved counters from the other files.
pub(super) fn split(files: &[PathBuf]) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Failure> {
    let mut split = (Vec::new(), Vec::new());
    for file in files {
        let part = if is_saved(file)? { &mut split.0 } else { &mut split.1 };
        part.push(file.clone());
    }
    Ok(split)
}

/// Returns true if a file contains saved counters. Returns false for an unreadable file; the error is reported when the
/// file is then read as a capture.
fn is_saved(file: &Path) -> Result<bool, Failure> {
    // Do not read from a pipe: the bytes read here would be lost.
    if !fs::metadata(file).is_ok_and(|metadata| metadata.is_file()) {
        return Ok(false);
    }
    let mut magic = Vec::new();
    let Ok(opened) = File::open(file) else { return Ok(false) };
    opened.take(FLOWS_MAGIC.len() as u64).read_to_end(&mut magic)?;
    Ok(magic == FLOWS_MAGIC)
}

/// Rejects options that cannot be combined with saved counters, because the file determines them.
pub(super) fn ensure_free(arguments: &FlowsArgs) -> Result<(), Failure> {
    let given = [
        ("--exact", arguments.exact),
        ("--key", arguments.key.is_some()),
        ("--memory", arguments.memory.is_some()),
        ("--seed", arguments.seed.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => {
            Err(bad_input(format!("{name} cannot be used with saved counters: their options are fixed")))
        }
        None => Ok(()),
    }
}

pub(super) fn read(file: &Path, seed: u64) -> Result<SavedFlows, Failure> {
    let cannot = |error: &dyn std::fmt::Display| bad_input(format!("{}: {error}", file.display()));
    let opened = File::open(file).map_err(|error| cannot(&error))?;
    let bytes = opened.metadata().map_err(|error| cannot(&error))?.len();
    if bytes > MEMORY_BYTES_MAX + EXTRA_BYTES_MAX {
        return Err(cannot(&"too long for saved flow counters"));
    }
    // The file and its decoded form are in memory at the same time.
    ensure_memory("a filter", bytes.saturating_mul(2)).map_err(Failure::BadInput)?;
    let mut content = Vec::new();
    opened.take(bytes).read_to_end(&mut content).map_err(|error| cannot(&error))?;
    SavedFlows::decode(&content, seed).map_err(|error| cannot(&error))
}

/// Writes the file atomically. Only its owner can read it, because it contains a secret.
pub(super) fn write(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| bad_input(format!("{}: {error}", file.display()));
    if file.exists() && !is_saved(file)? {
        return Err(bad_input(format!("{}: exists and contains no flow counters; not replaced", file.display())));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let mut temporary = tempfile::NamedTempFile::new_in(folder).map_err(cannot)?;
    temporary.write_all(bytes).and_then(|()| temporary.as_file().sync_all()).map_err(cannot)?;
    temporary.persist(file).map(drop).map_err(|error| cannot(error.error))
}
