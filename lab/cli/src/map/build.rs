//! `bruit-lab map build`.

use std::io::Write;
use std::path::PathBuf;

use bruit_filters::FingerprintKey;
use bruit_structures::bloomier::MutableBloomierFilter;
use bruit_structures::map::{BuildError, MapBits, StoredMap, VALUE_BITS_MAX};
use bruit_structures::ribbon::RibbonMap;
use serde_json::json;

use super::lines::{Lines, find_conflict};
use super::storage::write;
use bruit_console::Failure;
use bruit_console::files::{ChangeLock, Output, bad_file, ensure_may_write, ensure_memory};
use bruit_console::keys::random_key;
use bruit_console::quantity::{counted, human_bytes, parse_rate, scientific};

const RATE_DEFAULT: f64 = 1e-3;
/// Default false-positive rate of mutable maps. It is lower than for other maps, because `map set` accepts a false
/// positive as if it were in the map, and can then change the value of another key.
const RATE_DEFAULT_MUTABLE: f64 = 1e-9;
/// Maximum memory per key during a build: an equation, its place in the system and its solution. The lines of the input
/// are not included.
const BUILD_BYTES_PER_KEY: u64 = 48;

/// Arguments of `bruit-lab map build`.
#[derive(Debug, clap::Args)]
pub(super) struct MapBuildArgs {
    /// File with one key per line, each followed by a tab and a whole number, or by nothing; - for standard input
    file: PathBuf,

    /// File to create; it will contain a secret key
    #[arg(short, long, value_name = "MAP")]
    output: PathBuf,

    /// Bits per value, 1 to 32 [default: the width of the largest value]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(1..=i64::from(VALUE_BITS_MAX)))]
    value_bits: Option<u32>,

    /// Maximum false-positive rate, rounded down to a power of two [default: 1e-3, with --mutable 1e-9]
    #[arg(long, value_name = "RATE", value_parser = parse_map_rate, alias = "false-positives")]
    false_positive_rate: Option<f64>,

    /// Build a map whose values can be changed with 'bruit-lab map set'; needs a quarter more space, plus two bits per
    /// key
    #[arg(long)]
    mutable: bool,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Parses a rate that check bits can represent.
fn parse_map_rate(text: &str) -> Result<f64, String> {
    let rate = parse_rate(text)?;
    MapBits::for_rate(1, rate).map(|_| rate).map_err(|error| error.to_string())
}

pub(super) fn run(arguments: &MapBuildArgs, output: &mut impl Write) -> Result<(), Failure> {
    let kind = Output::New { force: arguments.force };
    ensure_may_write(&arguments.output, kind)?;
    let key = random_key()?;
    let lines = Lines::read(&arguments.file, &key, arguments.value_bits.unwrap_or(VALUE_BITS_MAX))?;
    let bits = bits_for(arguments, &lines)?;
    let empty_lines = lines.empty_lines;
    let map = make(arguments, lines, bits, &key)?;
    let _lock = ChangeLock::take(&arguments.output)?;
    let header = write(&arguments.output, kind, &map, &key)?;
    report(arguments, &map, header.file_bytes(), empty_lines, output)
}

/// Returns the number of value bits and the number of check bits.
fn bits_for(arguments: &MapBuildArgs, lines: &Lines) -> Result<MapBits, Failure> {
    let wants_values = arguments.mutable || arguments.value_bits.is_some();
    // A file without keys is treated as one with values if value bits are requested.
    let needed = match lines.has_values.unwrap_or(wants_values) {
        true => lines.value_max().checked_ilog2().map_or(1, |log| log + 1),
        false if wants_values => {
            return Err(bad_file(&lines.name, "the keys have no values, so --mutable and --value-bits do not apply"));
        }
        false => 0,
    };
    let rate_default = if arguments.mutable { RATE_DEFAULT_MUTABLE } else { RATE_DEFAULT };
    let rate = arguments.false_positive_rate.unwrap_or(rate_default);
    let bits = MapBits::for_rate(arguments.value_bits.unwrap_or(needed), rate);
    bits.map_err(|error| Failure::BadInput(error.to_string()))
}

fn make(arguments: &MapBuildArgs, lines: Lines, bits: MapBits, key: &FingerprintKey) -> Result<StoredMap, Failure> {
    let bytes = lines.entries.len() as u64 * BUILD_BYTES_PER_KEY;
    ensure_memory("a build", bytes).map_err(|what| bad_file(&lines.name, what))?;
    let map = if arguments.mutable {
        MutableBloomierFilter::build(lines.entries, bits, key.id()).map(StoredMap::from)
    } else {
        RibbonMap::build(lines.entries, bits, key.id()).map(StoredMap::from)
    };
    map.map_err(|error| match error {
        BuildError::Conflict { key: fingerprint, .. } if lines.is_file => {
            let conflict = find_conflict(&arguments.file, key, fingerprint);
            conflict.map_or_else(
                |failure| failure,
                |conflict| bad_file(&lines.name, conflict.unwrap_or_else(|| error.to_string())),
            )
        }
        error => bad_file(&lines.name, error),
    })
}

fn report(
    arguments: &MapBuildArgs,
    map: &StoredMap,
    file_bytes: u64,
    empty_lines: u64,
    output: &mut impl Write,
) -> Result<(), Failure> {
    if arguments.json {
        let line = json!({
            "file": arguments.output.to_string_lossy(),
            "keys": map.keys(),
            "empty_lines": empty_lines,
            "value_bits": map.bits().value(),
            "check_bits": map.bits().check(),
            "bits": map.total_bits(),
            "false_positive_rate": map.false_positive_rate(),
            "file_bytes": file_bytes,
        });
        return Ok(writeln!(output, "{line}")?);
    }
    let skipped =
        if empty_lines > 0 { format!(", {} skipped", counted(empty_lines, "empty line")) } else { String::new() };
    let (file, keys) = (arguments.output.display(), counted(map.keys(), "key"));
    let (size, rate) = (human_bytes(file_bytes), scientific(map.false_positive_rate()));
    writeln!(output, "{file}: {keys}{skipped}, {size}, false-positive rate {rate}; contains its secret key")?;
    Ok(())
}
