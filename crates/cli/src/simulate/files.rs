//! The files of a study: whether they can be written is known before the work begins.

use std::fmt::Display;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use bruit_simulation::{Study, plots};
use tempfile::NamedTempFile;

use super::csv;
use crate::failure::Failure;

/// Where results go, apart from the terminal.
pub(super) struct Destinations {
    csv: Option<PathBuf>,
    plots: Option<PathBuf>,
}

impl Destinations {
    /// Makes the folder for plots, and tries all places with a file that goes again.
    pub(super) fn prepare(csv: Option<&Path>, plots: Option<&Path>) -> Result<Self, Failure> {
        if let Some(path) = csv {
            ensure_replaceable(path)?;
            new_file_in(folder_of(path)).map_err(|error| refused(path, error))?;
        }
        if let Some(folder) = plots {
            fs::create_dir_all(folder).and_then(|()| new_file_in(folder)).map_err(|error| refused(folder, error))?;
        }
        Ok(Self { csv: csv.map(Path::to_owned), plots: plots.map(Path::to_owned) })
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.csv.is_none() && self.plots.is_none()
    }

    /// Writes everything and returns what was written.
    pub(super) fn write(&self, study: &Study) -> Result<Vec<PathBuf>, Failure> {
        let mut written = Vec::new();
        if let Some(path) = &self.csv {
            write_whole(path, csv::text(study).as_bytes())?;
            written.push(path.clone());
        }
        if let Some(folder) = &self.plots {
            for plot in plots::draw(study) {
                let path = folder.join(plot.name);
                write_whole(&path, &plot.bytes)?;
                written.push(path);
            }
        }
        Ok(written)
    }
}

/// Refuses to put a file where something else is.
fn ensure_replaceable(path: &Path) -> Result<(), Failure> {
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(refused(path, "not a regular file"));
    }
    if path.file_name().is_none() { Err(refused(path, "not the name of a file")) } else { Ok(()) }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// Puts a file in its place once it is whole.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let write = || {
        let mut file = new_file_in(folder_of(path))?;
        file.write_all(bytes)?;
        file.persist(path).map_err(|error| error.error)
    };
    write().map(drop).map_err(|error| {
        Failure::Other(anyhow::Error::new(error).context(format!("failed to write {}", path.display())))
    })
}

/// A file that goes again unless it is kept, as readable as other new files.
fn new_file_in(folder: &Path) -> std::io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt as _;
    let permissions = fs::Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(".bruit-").permissions(permissions).tempfile_in(folder)
}

fn refused(path: &Path, why: impl Display) -> Failure {
    Failure::BadInput(format!("{}: {why}", path.display()))
}
