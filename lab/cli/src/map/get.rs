//! `bruit-lab map get`.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bruit_filters::{Fingerprint, FingerprintKey};
use bruit_structures::map::StoredMap;
use serde_json::{Value, json};

use super::storage::read;
use bruit_console::Failure;
use bruit_console::keys::{KeyFiles, ensure_one_standard};

/// Arguments of `bruit-lab map get`.
#[derive(Debug, clap::Args)]
pub(super) struct MapGetArgs {
    /// Map file
    map: PathBuf,

    /// Keys; - reads lines from standard input
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,

    /// Print one JSON object per line for each key, including keys without a value
    #[arg(long)]
    json: bool,
}

/// Prints keys and values in the input format of `map build`. Exits with 1 if no key has a value.
pub(super) fn run(arguments: &MapGetArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    ensure_one_standard(arguments.keys.iter().map(Path::new))?;
    let (file, key) = read(&arguments.map)?;
    let mut answers = MapAnswers {
        map: &file.map,
        json: arguments.json,
        values: Vec::new(),
        found: 0,
        output: BufWriter::new(output),
    };
    for name in &arguments.keys {
        match name.as_str() {
            "-" => answer_lines(&mut answers, &key)?,
            name => answers.print(std::iter::once(name.as_bytes()), &[key.fingerprint(name.as_bytes())])?,
        }
    }
    answers.output.flush()?;
    Ok(if answers.found > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn answer_lines(answers: &mut MapAnswers<'_, impl Write>, key: &FingerprintKey) -> Result<(), Failure> {
    let lines = KeyFiles::of(vec![Path::new("-").to_owned()]);
    lines.for_each_batch(key, true, |batch| answers.print(batch.keys(), batch.fingerprints())).map(drop)
}

struct MapAnswers<'a, W: Write> {
    map: &'a StoredMap,
    json: bool,
    values: Vec<Option<u32>>,
    found: u64,
    output: BufWriter<W>,
}

impl<W: Write> MapAnswers<'_, W> {
    fn print<'k>(
        &mut self,
        names: impl Iterator<Item = &'k [u8]>,
        fingerprints: &[Fingerprint],
    ) -> Result<(), Failure> {
        self.values.resize(fingerprints.len(), None);
        self.map.get_batch(fingerprints, &mut self.values);
        let is_set = self.map.bits().value() == 0;
        for (name, &value) in names.zip(&self.values) {
            self.found += u64::from(value.is_some());
            match value {
                _ if self.json => writeln!(self.output, "{}", as_json(name, value, is_set))?,
                None => {}
                Some(_) if is_set => self.output.write_all(&[name, b"\n"].concat())?,
                Some(value) => {
                    self.output.write_all(name)?;
                    writeln!(self.output, "\t{value}")?;
                }
            }
        }
        Ok(())
    }
}

fn as_json(name: &[u8], value: Option<u32>, is_set: bool) -> Value {
    let (found, value) = (value.is_some(), value.filter(|_| !is_set));
    json!({ "key": String::from_utf8_lossy(name), "found": found, "value": value })
}
