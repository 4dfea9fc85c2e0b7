//! The mail used for measurements, from a local corpus or from the tests.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Variable that names the folder of real mail.
const CORPUS: &str = "BRUIT_CORPUS";

/// Messages, and where they are from.
pub(crate) struct Mail {
    pub(crate) messages: Vec<Vec<u8>>,
    pub(crate) origin: String,
}

impl Mail {
    /// Writes the messages to files in a new folder, each `copies` times.
    pub(crate) fn write_to(&self, folder: &Path, copies: usize) -> io::Result<()> {
        fs::create_dir(folder)?;
        for copy in 0..copies {
            for (number, message) in self.messages.iter().enumerate() {
                fs::write(folder.join(format!("{copy}-{number}.eml")), message)?;
            }
        }
        Ok(())
    }
}

/// Reads all messages below the folder that `BRUIT_CORPUS` names. If the variable is not set, reads the messages of the
/// tests.
pub(crate) fn read() -> io::Result<Mail> {
    let corpus = corpus();
    let folder = corpus.clone().unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata"));
    let mut paths = Vec::new();
    collect(&folder, corpus.is_some(), &mut paths)?;
    paths.sort();
    let messages: Vec<Vec<u8>> = paths.iter().map(fs::read).collect::<io::Result<_>>()?;
    let whose = if corpus.is_some() { "of BRUIT_CORPUS" } else { "of testdata; set BRUIT_CORPUS for real mail" };
    Ok(Mail { origin: format!("{} messages {whose}", messages.len()), messages })
}

/// Returns the folder that `BRUIT_CORPUS` names.
pub(crate) fn corpus() -> Option<PathBuf> {
    env::var_os(CORPUS).map(PathBuf::from)
}

fn collect(folder: &Path, takes_all: bool, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            collect(&path, takes_all, paths)?;
        } else if takes_all || path.extension().is_some_and(|extension| extension == "eml") {
            paths.push(path);
        }
    }
    Ok(())
}
