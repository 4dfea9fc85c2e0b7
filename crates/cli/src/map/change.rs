//! `bruit map set`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use bruit_filters::map::StoredMap;
use serde_json::json;

use super::storage::{read, write};
use crate::failure::Failure;
use crate::filter::storage::{ChangeLock, Output, wrong};
use crate::terminal::complain;

/// What `bruit map set` is asked.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The map to change; it was made with --mutable
    map: PathBuf,

    /// A key that it was built with
    key: String,

    /// Its new value
    value: u32,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Changes a value. A key that is none of the map's is told by exit code 1.
pub(super) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let path = &arguments.map;
    let _lock = ChangeLock::take(path)?;
    let (file, key) = read(path)?;
    let StoredMap::MutableBloomier(mut map) = file.map else {
        return Err(wrong(path, "its values cannot be changed; build one with --mutable"));
    };
    let is_key = map.set(&key.fingerprint(arguments.key.as_bytes()), arguments.value);
    let is_key = is_key.map_err(|error| wrong(path, error))?;
    if is_key {
        write(path, Output::Map, &map.into(), &key)?;
    }
    report(arguments, is_key, output)?;
    Ok(if is_key { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report(arguments: &Arguments, is_key: bool, output: &mut impl Write) -> Result<(), Failure> {
    let file = arguments.map.display();
    if arguments.json {
        let (key, value) = (&arguments.key, arguments.value);
        let line = json!({ "file": file.to_string(), "key": key, "value": value, "changed": is_key });
        writeln!(output, "{line}")?;
    } else if is_key {
        writeln!(output, "{file}: 1 value changed")?;
    } else {
        complain(&format!("{file}: it was not built with this key, so it cannot have a value"));
    }
    Ok(())
}
