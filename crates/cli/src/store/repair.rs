//! `bruit store repair`.

use std::io::Write;
use std::path::PathBuf;

use bruit_store::{Repaired, repair};
use serde_json::json;

use super::refused;
use crate::failure::Failure;
use crate::quantity::grouped;

/// What `bruit store repair` is asked.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of a store
    directory: PathBuf,

    /// The byte of the segment where the damage begins, as verify tells it: what is before is kept
    #[arg(long, value_name = "OFFSET")]
    cut_after: u64,

    /// The segment to cut, by its name [default: the first one that is damaged]
    #[arg(long, value_name = "FILE")]
    segment: Option<String>,

    /// Cut even though the store opens with everything as it is
    #[arg(long)]
    force: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<(), Failure> {
    let Arguments { directory, cut_after, segment, force, .. } = arguments;
    let repaired = repair(directory, segment.as_deref(), *cut_after, *force).map_err(refused)?;
    if arguments.json { print_json(&repaired, output) } else { print_text(&repaired, output) }
}

fn print_text(repaired: &Repaired, output: &mut impl Write) -> Result<(), Failure> {
    let Repaired { segment, offset, cut_bytes, kept_up_to, .. } = repaired;
    writeln!(output, "cut {segment} after byte {offset}: the journal ends with event {}", grouped(*kept_up_to))?;
    for file in &repaired.cut_files {
        writeln!(output, "kept what was cut in {file}")?;
    }
    writeln!(output, "{} bytes were cut", grouped(*cut_bytes))?;
    writeln!(output, "{}", lost_line(repaired))?;
    Ok(())
}

fn lost_line(repaired: &Repaired) -> String {
    let lost = repaired.lost.map(|(first, last)| {
        format!("lost: {} events, {} to {}", grouped(last - first + 1), grouped(first), grouped(last))
    });
    match (lost, repaired.is_all) {
        (Some(lost), true) => lost,
        (Some(lost), false) => format!("{lost}, and cannot tell how many more: some of what was cut is unreadable"),
        (None, true) => "no event is lost: snapshots hold what was cut".into(),
        (None, false) => "cannot tell how many events are lost: what was cut is unreadable".into(),
    }
}

fn print_json(repaired: &Repaired, output: &mut impl Write) -> Result<(), Failure> {
    let lost = repaired.lost.map(|(first, last)| json!({ "first": first, "last": last, "events": last - first + 1 }));
    let json = json!({
        "segment": repaired.segment,
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
