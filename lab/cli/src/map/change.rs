//! `bruit-lab map set`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use bruit_structures::map::StoredMap;
use serde_json::json;

use super::storage::{MAP, read, write};
use bruit_console::Failure;
use bruit_console::files::{ChangeLock, bad_file};
use bruit_console::terminal::complain;

/// Arguments of `bruit-lab map set`.
#[derive(Debug, clap::Args)]
pub(super) struct MapSetArgs {
    /// Map file, created with --mutable
    map: PathBuf,

    /// Key whose value to change; the map must contain it
    key: String,

    /// New value
    value: u32,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Changes a value. Exits with 1 if the key is unknown.
pub(super) fn run(arguments: &MapSetArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let path = &arguments.map;
    let _lock = ChangeLock::take(path)?;
    let (file, key) = read(path)?;
    let StoredMap::MutableBloomier(mut map) = file.map else {
        return Err(bad_file(path, "the values of this map cannot be changed; build it with --mutable"));
    };
    let is_key = map.set(&key.fingerprint(arguments.key.as_bytes()), arguments.value);
    let is_key = is_key.map_err(|error| bad_file(path, error))?;
    if is_key {
        write(path, MAP, &map.into(), &key)?;
    }
    report(arguments, is_key, output)?;
    Ok(if is_key { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(arguments: &MapSetArgs, is_key: bool, output: &mut impl Write) -> Result<(), Failure> {
    let file = arguments.map.display();
    if arguments.json {
        let (key, value) = (&arguments.key, arguments.value);
        let line = json!({ "file": file.to_string(), "key": key, "value": value, "changed": is_key });
        writeln!(output, "{line}")?;
    } else if is_key {
        writeln!(output, "{file}: 1 value changed")?;
    } else {
        complain(&format!("{file}: unknown key: the map does not contain it"));
    }
    Ok(())
}
