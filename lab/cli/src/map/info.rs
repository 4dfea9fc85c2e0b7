//! `bruit-lab map info`.

use std::io::Write;
use std::path::PathBuf;

use bruit_structures::map::MapFile;
use serde_json::json;

use super::storage::read_any;
use bruit_console::Failure;
use bruit_console::quantity::{grouped, human_bytes, scientific};

/// Arguments of `bruit-lab map info`.
#[derive(Debug, clap::Args)]
pub(super) struct MapInfoArgs {
    /// Map file
    map: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &MapInfoArgs, output: &mut impl Write) -> Result<(), Failure> {
    let file = read_any(&arguments.map)?;
    if arguments.json {
        return Ok(writeln!(output, "{:#}", as_json(&file))?);
    }
    for (label, value) in rows(&file) {
        writeln!(output, "{label:<22}{value}")?;
    }
    Ok(())
}

fn rows(file: &MapFile) -> Vec<(&'static str, String)> {
    let MapFile { header, map, .. } = file;
    vec![
        ("kind", header.kind.to_string()),
        ("keys", grouped(header.keys)),
        ("value bits", header.bits.value().to_string()),
        ("check bits", header.bits.check().to_string()),
        ("false positives", scientific(map.false_positive_rate())),
        ("bits per key", bits_per_key(file).map_or_else(|| "none".to_owned(), |bits| format!("{bits:.3}"))),
        ("key id", header.key_id.to_string()),
        ("checksum", format!("{:08x}", header.checksum)),
        ("key inside", if header.has_key { "yes: keep the file secret" } else { "no" }.to_owned()),
        ("file", human_bytes(header.file_bytes())),
    ]
}

fn as_json(file: &MapFile) -> serde_json::Value {
    let MapFile { header, map, .. } = file;
    json!({
        "kind": header.kind.to_string(),
        "keys": header.keys,
        "value_bits": header.bits.value(),
        "check_bits": header.bits.check(),
        "false_positive_rate": map.false_positive_rate(),
        "bits_per_key": bits_per_key(file),
        "key_id": header.key_id.to_string(),
        "checksum": format!("{:08x}", header.checksum),
        "has_key": header.has_key,
        "file_bytes": header.file_bytes(),
    })
}

fn bits_per_key(file: &MapFile) -> Option<f64> {
    (file.header.keys > 0).then(|| file.map.total_bits() as f64 / file.header.keys as f64)
}
