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
    /// A file beside its final name, which it gets when it is whole.
    csv: Option<(PathBuf, NamedTempFile)>,
    plots: Option<PathBuf>,
}

impl Destinations {
    /// Makes the folder for plots, and a first file in every place.
    pub(super) fn prepare(csv: Option<&Path>, plots: Option<&Path>) -> Result<Self, Failure> {
        let csv = csv.map(|path| beside(path).map(|file| (path.to_owned(), file))).transpose()?;
        let plots = plots.map(prepare_folder).transpose()?;
        Ok(Self { csv, plots })
    }

    /// Writes everything and returns what was written.
    pub(super) fn write(self, study: &Study) -> Result<Vec<PathBuf>, Failure> {
        let mut written = Vec::new();
        if let Some((path, mut file)) = self.csv {
            file.write_all(csv::text(study).as_bytes()).map_err(|error| failed(&path, error))?;
            file.persist(&path).map_err(|error| failed(&path, error.error))?;
            written.push(path);
        }
        if let Some(folder) = self.plots {
            let plots = plots::draw(study, &folder);
            written.extend(plots.map_err(|error| Failure::Other(anyhow::Error::new(error)))?);
        }
        Ok(written)
    }
}

/// A new file in the folder of `path`, which may name a regular file but nothing else.
fn beside(path: &Path) -> Result<NamedTempFile, Failure> {
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(refused(path, "not a regular file"));
    }
    if path.file_name().is_none() {
        return Err(refused(path, "not the name of a file"));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    new_file_in(folder).map_err(|error| refused(path, error))
}

fn prepare_folder(folder: &Path) -> Result<PathBuf, Failure> {
    fs::create_dir_all(folder).and_then(|()| new_file_in(folder)).map_err(|error| refused(folder, error))?;
    Ok(folder.to_owned())
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

fn failed(path: &Path, error: std::io::Error) -> Failure {
    Failure::Other(anyhow::Error::new(error).context(format!("failed to write {}", path.display())))
}
