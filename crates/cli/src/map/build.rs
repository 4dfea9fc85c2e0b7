//! `bruit map build`.

use std::io::Write;
use std::path::PathBuf;

use bruit_filters::FingerprintKey;
use bruit_filters::bloomier::MutableBloomierFilter;
use bruit_filters::map::{MapBits, StoredMap, VALUE_BITS_MAX};
use bruit_filters::ribbon::RibbonMap;
use serde_json::json;

use super::lines::Lines;
use super::storage::write;
use crate::failure::Failure;
use crate::filter::create::random_key;
use crate::filter::storage::{Output, wrong};
use crate::quantity::{counted, human_bytes, parse_rate, scientific};

const RATE_DEFAULT: f64 = 1e-3;

/// What `bruit map build` is asked.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Lines of keys with values (key, tab, whole number), or of keys alone; standard input for -
    file: PathBuf,

    /// The file to make; it will hold a secret key
    #[arg(short, long, value_name = "MAP")]
    output: PathBuf,

    /// Bits of a value, 1 to 32 [default: as many as the largest takes]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(1..=i64::from(VALUE_BITS_MAX)))]
    value_bits: Option<u32>,

    /// Highest share of other keys that may get a value; the next power of two below is taken [default: 1e-3]
    #[arg(long, value_name = "F", value_parser = parse_rate)]
    false_positives: Option<f64>,

    /// Make a map whose values can be changed, by 'bruit map set'; it takes a quarter more space and two bits a key
    #[arg(long)]
    mutable: bool,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<(), Failure> {
    let key = random_key()?;
    let lines = Lines::read(&arguments.file, &key)?;
    let bits = bits_for(arguments, &lines)?;
    let empty_lines = lines.empty_lines;
    let map = make(arguments, lines, bits, &key)?;
    write(&arguments.output, Output::NewFilter { force: arguments.force }, &map, &key)?;
    report(arguments, &map, empty_lines, output)
}

/// The bits that the values take, and those that the rate takes.
fn bits_for(arguments: &Arguments, lines: &Lines) -> Result<MapBits, Failure> {
    let needed = match lines.has_values {
        Some(true) => lines.value_max().checked_ilog2().map_or(1, |log| log + 1),
        _ => 0,
    };
    if needed == 0 && (arguments.mutable || arguments.value_bits.is_some()) {
        return Err(wrong(&lines.name, "keys without values, so there are none to change or to give bits"));
    }
    let rate = arguments.false_positives.unwrap_or(RATE_DEFAULT);
    let bits = MapBits::for_rate(arguments.value_bits.unwrap_or(needed), rate);
    bits.map_err(|error| Failure::BadInput(error.to_string()))
}

fn make(arguments: &Arguments, lines: Lines, bits: MapBits, key: &FingerprintKey) -> Result<StoredMap, Failure> {
    let map = if arguments.mutable {
        MutableBloomierFilter::build(lines.entries, bits, key.id()).map(StoredMap::from)
    } else {
        RibbonMap::build(lines.entries, bits, key.id()).map(StoredMap::from)
    };
    map.map_err(|error| wrong(&lines.name, error))
}

fn report(arguments: &Arguments, map: &StoredMap, empty_lines: u64, output: &mut impl Write) -> Result<(), Failure> {
    let bytes = map.total_bits().div_ceil(8);
    if arguments.json {
        let line = json!({
            "file": arguments.output.to_string_lossy(),
            "keys": map.keys(),
            "empty_lines": empty_lines,
            "value_bits": map.bits().value(),
            "check_bits": map.bits().check(),
            "bits": map.total_bits(),
        });
        return Ok(writeln!(output, "{line}")?);
    }
    let skipped =
        if empty_lines > 0 { format!(", {} skipped", counted(empty_lines, "empty line")) } else { String::new() };
    let (file, keys) = (arguments.output.display(), counted(map.keys(), "key"));
    let (size, rate) = (human_bytes(bytes), scientific(map.false_positive_rate()));
    writeln!(output, "{file}: {keys}{skipped}, {size}, {rate} false positives; the key is inside, keep it secret")?;
    Ok(())
}
