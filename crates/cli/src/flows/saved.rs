//! Files of counters.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use bruit_forensics::flows::{FLOWS_MAGIC, SavedFlows};

use super::{Arguments, MEMORY_BYTES_MAX};
use crate::failure::{Failure, wrong};
use crate::filter::storage::ensure_memory;

/// What a file has beside its filters, at most: names, and headers.
const EXTRA_BYTES_MAX: u64 = 8 << 20;

/// Files of counters, and all others.
pub(super) fn split(files: &[PathBuf]) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Failure> {
    let mut split = (Vec::new(), Vec::new());
    for file in files {
        let part = if is_saved(file)? { &mut split.0 } else { &mut split.1 };
        part.push(file.clone());
    }
    Ok(split)
}

/// What cannot be read is nobody's counters; whoever takes it for a capture will say why it cannot be read.
fn is_saved(file: &Path) -> Result<bool, Failure> {
    // A pipe is read once.
    if !fs::metadata(file).is_ok_and(|metadata| metadata.is_file()) {
        return Ok(false);
    }
    let mut magic = Vec::new();
    let Ok(opened) = File::open(file) else { return Ok(false) };
    opened.take(FLOWS_MAGIC.len() as u64).read_to_end(&mut magic)?;
    Ok(magic == FLOWS_MAGIC)
}

/// Refuses what saved counters have decided.
pub(super) fn ensure_free(arguments: &Arguments) -> Result<(), Failure> {
    let given = [
        ("--exact", arguments.exact),
        ("--key", arguments.key.is_some()),
        ("--memory", arguments.memory.is_some()),
        ("--seed", arguments.seed.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => Err(wrong(format!("{name} cannot be used with saved counters, which have theirs"))),
        None => Ok(()),
    }
}

pub(super) fn read(file: &Path, seed: u64) -> Result<SavedFlows, Failure> {
    let cannot = |error: &dyn std::fmt::Display| wrong(format!("{}: {error}", file.display()));
    let opened = File::open(file).map_err(|error| cannot(&error))?;
    let bytes = opened.metadata().map_err(|error| cannot(&error))?.len();
    if bytes > MEMORY_BYTES_MAX + EXTRA_BYTES_MAX {
        return Err(cannot(&"too long for saved flow counters"));
    }
    // The file and what is made of it.
    ensure_memory("a filter", bytes.saturating_mul(2)).map_err(Failure::BadInput)?;
    let mut content = Vec::new();
    opened.take(bytes).read_to_end(&mut content).map_err(|error| cannot(&error))?;
    SavedFlows::decode(&content, seed).map_err(|error| cannot(&error))
}

/// Writes beside the file and renames, so that there is never half of it; for its owner alone, as it has a secret.
pub(super) fn write(file: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| wrong(format!("{}: {error}", file.display()));
    if file.exists() && !is_saved(file)? {
        return Err(wrong(format!("{}: not replaced, as it holds no flow counters", file.display())));
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let mut temporary = tempfile::NamedTempFile::new_in(folder).map_err(cannot)?;
    temporary.write_all(bytes).and_then(|()| temporary.as_file().sync_all()).map_err(cannot)?;
    temporary.persist(file).map(drop).map_err(|error| cannot(error.error))
}
