//! The files of a study: whether they can be written is known before the work begins.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process;

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
        if let Some(folder) = plots {
            let made = fs::create_dir_all(folder).and_then(|()| try_out(&trial_in(folder)));
            made.map_err(|error| refused(folder, error))?;
        }
        Ok(Self { csv: csv.map(file_to_write).transpose()?, plots: plots.map(Path::to_owned) })
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

/// The file that `path` names, or leads to as a link, if it can be written.
fn file_to_write(path: &Path) -> Result<PathBuf, Failure> {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return try_out(path).map(|()| path.to_owned()).map_err(|error| refused(path, error));
    };
    // Replacing a link would leave what it leads to as it was.
    let target = if metadata.is_symlink() { fs::canonicalize(path) } else { Ok(path.to_owned()) };
    let target = target.map_err(|error| refused(path, error))?;
    if !target.is_file() {
        return Err(refused(path, "not a regular file"));
    }
    try_out(&trial_in(folder_of(&target))).map_err(|error| refused(path, error))?;
    Ok(target)
}

/// A file in `folder` that is of no other run.
fn trial_in(folder: &Path) -> PathBuf {
    folder.join(format!(".bruit-trial-{}", process::id()))
}

/// Makes a file and takes it away again, to see whether it can be.
fn try_out(path: &Path) -> std::io::Result<()> {
    File::create_new(path)?;
    fs::remove_file(path)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// Puts a file in its place once it is whole.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let write = || {
        let mut file = new_file_in(folder_of(path))?;
        file.write_all(bytes)?;
        if let Ok(replaced) = fs::metadata(path) {
            fs::set_permissions(file.path(), replaced.permissions())?;
        }
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
