//! `bruit filter info`.

use std::io::Write;
use std::path::{Path, PathBuf};

use bruit_filters::delta::{self, DeltaHeader, Encoding};
use bruit_filters::file::{DELTA_MAGIC, Estimates, FILTER_MAGIC, FilterFile, Header, History, Reached, Step};
use serde_json::{Value, json};

use super::storage::read;
use bruit_console::Failure;
use bruit_console::files::{bad_file, open, start_of};
use bruit_console::quantity::{grouped, human_bytes, scientific};

/// Arguments of `bruit filter info`.
#[derive(Debug, clap::Args)]
pub(super) struct FilterInfoArgs {
    /// Filter file or delta
    file: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &FilterInfoArgs, output: &mut impl Write) -> Result<(), Failure> {
    let path = &arguments.file;
    let (mut input, bytes) = open(path)?;
    match start_of(path)? {
        FILTER_MAGIC => {
            let stored = read(path)?;
            let estimates = stored.filter.estimates();
            report(arguments, &filter_rows(&stored, &estimates, bytes), filter_json(&stored, &estimates, bytes), output)
        }
        DELTA_MAGIC => {
            let header = delta::verify(&mut input).map_err(|error| bad_file(path, error))?;
            report(arguments, &delta_rows(&header, bytes), delta_json(&header, bytes), output)
        }
        _ => Err(wrong_kind(path)),
    }
}

fn wrong_kind(path: &Path) -> Failure {
    bad_file(path, "neither a filter file nor a delta")
}

type InfoRow = (&'static str, String);

fn report(arguments: &FilterInfoArgs, rows: &[InfoRow], json: Value, output: &mut impl Write) -> Result<(), Failure> {
    if arguments.json {
        writeln!(output, "{json:#}")?;
        return Ok(());
    }
    for (label, value) in rows {
        writeln!(output, "{}", format!("{label:<22}{value}").trim_end())?;
    }
    Ok(())
}

/// Returns the rows that filters and deltas share.
fn shape_rows(header: &Header) -> Vec<InfoRow> {
    let mut rows = vec![
        ("kind", header.kind.to_string()),
        ("cells (m)", grouped(header.cells)),
        ("bits per cell", header.cell_bits.to_string()),
        ("hash functions (k)", header.hashes.to_string()),
        ("fingerprint bits", header.fingerprint_bits.to_string()),
        ("key id", header.key_id.to_string()),
        ("generation", header.generation.to_string()),
        ("checksum", format!("{:08x}", header.checksum)),
    ];
    rows.extend(header.extension.map(|extension| ("extension", extension.to_string())));
    rows
}

fn filter_rows(stored: &FilterFile, estimates: &Estimates, bytes: u64) -> Vec<InfoRow> {
    let mut rows = shape_rows(&stored.header);
    rows.push(("key inside", if stored.key.is_some() { "yes: keep the file secret" } else { "no" }.to_owned()));
    rows.push(("file", human_bytes(bytes)));
    rows.push(("fill", format!("{:.2} %", estimates.fill * 100.0)));
    rows.push(("estimated keys", grouped(estimates.keys.round() as u64)));
    rows.push(("estimated rate now", scientific(estimates.false_positive_rate)));
    for Reached { origin, revision, .. } in reached(stored) {
        let label = if is_merged(stored) { "merged from" } else { "own origin" };
        rows.push((label, format!("{origin}, revision {revision}")));
    }
    rows
}

fn is_merged(stored: &FilterFile) -> bool {
    matches!(stored.history, Some(History::Merged(_)))
}

/// Returns the origins of the counts in the file, if it records them.
fn reached(stored: &FilterFile) -> Vec<Reached> {
    stored.history.as_ref().map_or_else(Vec::new, |history| history.reached(stored.header.checksum))
}

fn delta_rows(header: &DeltaHeader, bytes: u64) -> Vec<InfoRow> {
    let mut rows = vec![("delta", encoding_name(header.encoding).to_owned()), ("file", human_bytes(bytes))];
    rows.push(("base checksum", format!("{:08x}", header.base_checksum)));
    if header.encoding == Encoding::Fingerprints {
        rows.push(("new fingerprints", grouped(header.fingerprints)));
    }
    if let Some(Step { origin, base, target, .. }) = header.step {
        rows.push(("origin", origin.to_string()));
        rows.push(("builds on revision", base.to_string()));
        rows.push(("leads to revision", target.to_string()));
    }
    rows.push(("target", String::new()));
    rows.extend(shape_rows(&header.target));
    rows
}

const fn encoding_name(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Fingerprints => "fingerprints",
        Encoding::Growth => "growth",
        _ => "blocks",
    }
}

fn shape_json(header: &Header) -> Value {
    json!({
        "kind": header.kind.to_string(),
        "cells": header.cells,
        "cell_bits": header.cell_bits,
        "hashes": header.hashes,
        "fingerprint_bits": header.fingerprint_bits,
        "extension": header.extension.map(|extension| extension.to_string()),
        "key_id": header.key_id.to_string(),
        "generation": header.generation,
        "checksum": format!("{:08x}", header.checksum),
    })
}

fn filter_json(stored: &FilterFile, estimates: &Estimates, bytes: u64) -> Value {
    json!({
        "filter": shape_json(&stored.header),
        "has_key": stored.key.is_some(),
        "file_bytes": bytes,
        "array_bytes": stored.header.payload_bytes(),
        "fill": estimates.fill,
        "estimated_keys": estimates.keys,
        "estimated_false_positive_rate": estimates.false_positive_rate,
        "merged": is_merged(stored),
        "origins": reached(stored).iter().map(origin_json).collect::<Vec<_>>(),
    })
}

fn origin_json(reached: &Reached) -> Value {
    let Reached { origin, revision, checksum } = reached;
    json!({ "origin": origin.to_string(), "revision": revision, "checksum": format!("{checksum:08x}") })
}

fn delta_json(header: &DeltaHeader, bytes: u64) -> Value {
    json!({
        "delta": {
            "encoding": encoding_name(header.encoding),
            "file_bytes": bytes,
            "base_checksum": format!("{:08x}", header.base_checksum),
            "fingerprints": header.fingerprints,
            "origin": header.step.map(|step| step.origin.to_string()),
            "base_revision": header.step.map(|step| step.base),
            "target_revision": header.step.map(|step| step.target),
        },
        "target": shape_json(&header.target),
    })
}
