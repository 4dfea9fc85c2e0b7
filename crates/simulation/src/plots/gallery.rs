//! Which plots there are, and their files.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::png::png;
use super::{cells, growth, rates, reduction, wrong_keys};
use crate::{Experiment, Study};

/// Why a plot could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlotError {
    /// The directory was not there and could not be made.
    #[error("create directory {}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("write {}", path.display())]
    Write {
        /// The file that is missing now, or is still the old one.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// Draws every plot the study has data for into `directory`, each as SVG and as PNG, and returns the paths written.
///
/// A plot that would be empty is left out. A file is either the old one or the complete new one, even if the program is
/// killed.
pub fn draw(study: &Study, directory: &Path) -> Result<Vec<PathBuf>, PlotError> {
    fs::create_dir_all(directory).map_err(|source| PlotError::Directory { path: directory.to_owned(), source })?;
    let mut written = Vec::new();
    for (stem, svg) in pictures(study) {
        let png = png(&svg);
        for (extension, bytes) in [("svg", svg.into_bytes()), ("png", png)] {
            let path = directory.join(format!("{stem}.{extension}"));
            write_whole(&path, &bytes).map_err(|source| PlotError::Write { path: path.clone(), source })?;
            written.push(path);
        }
    }
    Ok(written)
}

/// All plots that have something to show, as SVG, by the stem of their file names.
fn pictures(study: &Study) -> impl Iterator<Item = (String, String)> {
    let whole =
        [("reduction-rates".to_owned(), reduction::svg(study)), ("wrong-keys".to_owned(), wrong_keys::svg(study))];
    let parts = study.experiments.iter().flat_map(|result| {
        let stem = |kind| stem(kind, result.experiment);
        [
            (stem("rate"), rates::svg(result, study.rounds)),
            (stem("cells"), cells::svg(result, study.rounds)),
            (stem("growth"), growth::svg(result, study.rounds)),
        ]
    });
    parts.chain(whole).filter_map(|(stem, svg)| Some((stem, svg?)))
}

fn stem(kind: &str, experiment: Experiment) -> String {
    format!("{kind}-experiment-{}", experiment.number())
}

/// Replaces the file at `path` at once: a reader sees the old bytes or the new ones.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| {
        // Whatever is left of it is of no use to anybody.
        let _ = fs::remove_file(&temporary);
    })
}
