//! Output files of a study. Predictable write errors are detected before the run starts.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use bruit_simulation::{Study, plots};
use tempfile::NamedTempFile;

use super::csv;
use bruit_console::Failure;

/// Output files.
pub(super) struct Destinations {
    csv: Option<PathBuf>,
    plots: Option<PathBuf>,
}

impl Destinations {
    /// Creates the folder for plots, and tests every destination by creating a temporary file there.
    pub(super) fn prepare(csv: Option<&Path>, plots: Option<&Path>) -> Result<Self, Failure> {
        if let Some(path) = csv {
            if plots.is_some_and(|folder| path == folder || folder_of(path) == folder && is_picture(path)) {
                return Err(refused(path, "this is where the plots will be written"));
            }
            ensure_writable(path)?;
        }
        if let Some(folder) = plots {
            fs::create_dir_all(folder).and_then(|()| try_out(folder)).map_err(|error| refused(folder, error))?;
        }
        Ok(Self { csv: csv.map(Path::to_owned), plots: plots.map(Path::to_owned) })
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.csv.is_none() && self.plots.is_none()
    }

    /// Writes all files and returns their paths.
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

/// Rejects paths that are not regular files, and paths that cannot be written.
fn ensure_writable(path: &Path) -> Result<(), Failure> {
    // A link such as /dev/stdout may point to the file that receives our own output.
    if path.is_symlink() && (path.starts_with("/dev") || path.starts_with("/proc")) {
        return Err(refused(path, "results cannot be written to a device"));
    }
    let target = resolved(path).map_err(|error| refused(path, error))?;
    if target.exists() && !target.is_file() {
        return Err(refused(path, "not a regular file"));
    }
    if target.exists() {
        OpenOptions::new().write(true).open(&target).map_err(|error| refused(path, error))?;
    }
    try_out(folder_of(&target)).map_err(|error| refused(path, error))
}

/// Resolves a link, so that its target is replaced instead of the link.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => fs::canonicalize(path),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ if path.as_os_str().as_encoded_bytes().ends_with(b"/") => Err(io::Error::other("not a file name")),
        _ => Ok(path.to_owned()),
    }
}

/// Creates a file in `folder` and deletes it.
fn try_out(folder: &Path) -> io::Result<()> {
    fs::metadata(folder)?;
    // Report only the kind of error, without the name of the temporary file.
    new_file_in(folder).map(drop).map_err(|error| error.kind().into())
}

fn is_picture(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "svg" || extension == "png")
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// Writes a file atomically.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let write = || {
        let target = resolved(path)?;
        let mut file = new_file_in(folder_of(&target))?;
        file.write_all(bytes)?;
        if let Ok(replaced) = fs::metadata(&target) {
            fs::set_permissions(file.path(), replaced.permissions())?;
        }
        file.persist(target).map_err(|error| error.error)
    };
    write().map(drop).map_err(|error| {
        Failure::Other(anyhow::Error::new(error).context(format!("failed to write {}", path.display())))
    })
}

/// Creates a temporary file with the default permissions of new files.
fn new_file_in(folder: &Path) -> io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt as _;
    let permissions = fs::Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(".bruit-").permissions(permissions).tempfile_in(folder)
}

fn refused(path: &Path, why: impl Display) -> Failure {
    Failure::BadInput(format!("{}: {why}", path.display()))
}
