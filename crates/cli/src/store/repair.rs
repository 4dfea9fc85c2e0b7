//! `bruit store repair`.

use std::io::Write;
use std::path::PathBuf;

use bruit_store::{RepairReport, repair};
use serde_json::json;

use super::refused;
use bruit_console::Failure;
use bruit_console::quantity::grouped;

/// Arguments of `bruit store repair`.
#[derive(Debug, clap::Args)]
pub(super) struct StoreRepairArgs {
    /// Data directory
    directory: PathBuf,

    /// Byte offset in the segment where the damage begins, as printed by verify; everything before it is kept
    #[arg(long, value_name = "OFFSET")]
    cut_after: u64,

    /// Name of the segment to cut [default: the first damaged one]
    #[arg(long, value_name = "FILE")]
    segment: Option<String>,

    /// Cut even if the store can be opened without repair
    #[arg(long)]
    force: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &StoreRepairArgs, output: &mut impl Write) -> Result<(), Failure> {
    let StoreRepairArgs { directory, cut_after, segment, force, .. } = arguments;
    let repaired = repair(directory, segment.as_deref(), *cut_after, *force).map_err(refused)?;
    if arguments.json { print_json(&repaired, output) } else { print_text(&repaired, output) }
}

fn print_text(repaired: &RepairReport, output: &mut impl Write) -> Result<(), Failure> {
    let RepairReport { journal_file: segment, offset, cut_bytes, kept_up_to, .. } = repaired;
    writeln!(output, "cut {segment} after byte {offset}: the journal ends with event {}", grouped(*kept_up_to))?;
    for file in &repaired.cut_files {
        writeln!(output, "kept the cut data in {file}")?;
    }
    writeln!(output, "{} bytes were cut", grouped(*cut_bytes))?;
    writeln!(output, "{}", lost_line(repaired))?;
    Ok(())
}

fn lost_line(repaired: &RepairReport) -> String {
    let lost = repaired.lost.map(|(first, last)| {
        format!("lost: {} events, {} to {}", grouped(last - first + 1), grouped(first), grouped(last))
    });
    match (lost, repaired.is_all) {
        (Some(lost), true) => lost,
        (Some(lost), false) => format!("{lost}, and an unknown number more: part of the cut data is unreadable"),
        (None, true) => "no event is lost: snapshots contain the removed events".into(),
        (None, false) => "an unknown number of events is lost: the cut data is unreadable".into(),
    }
}

fn print_json(repaired: &RepairReport, output: &mut impl Write) -> Result<(), Failure> {
    let lost = repaired.lost.map(|(first, last)| json!({ "first": first, "last": last, "events": last - first + 1 }));
    let json = json!({
        "segment": repaired.journal_file,
        "offset": repaired.offset,
        "cut_files": repaired.cut_files,
        "cut_bytes": repaired.cut_bytes,
        "kept_up_to": repaired.kept_up_to,
        "cut_up_to": repaired.cut_up_to,
        "lost": lost,
        "lost_is_all": repaired.is_all,
    });
    writeln!(output, "{json:#}")?;
    Ok(())
}
