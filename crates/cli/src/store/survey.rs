//! `bruit store verify` and `bruit store inspect`.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bruit_store::Observer;
use bruit_store::survey::{SegmentSurvey, SnapshotSurvey, Survey, survey, total_bytes};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::refused;
use crate::failure::Failure;
use crate::progress;
use crate::quantity::{grouped, human_bytes};

/// What `bruit store verify` and `inspect` are asked.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The directory of a store
    directory: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn verify(arguments: &Arguments, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let survey = look(&arguments.directory)?;
    let faults = survey.faults();
    if arguments.json {
        writeln!(output, "{:#}", json!({ "sound": faults.is_empty(), "faults": faults, "torn_bytes": torn(&survey) }))?;
    } else {
        faults.iter().try_for_each(|fault| writeln!(output, "{fault}"))?;
        way_on(&survey, &arguments.directory).map_or(Ok(()), |line| writeln!(output, "{line}"))?;
        if faults.is_empty() {
            writeln!(output, "{}", sound_line(&survey))?;
        }
    }
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(super) fn inspect(arguments: &Arguments, output: &mut impl Write) -> Result<(), Failure> {
    let survey = look(&arguments.directory)?;
    if arguments.json {
        writeln!(output, "{:#}", survey_json(&survey))?;
    } else {
        write!(output, "{}", survey_text(&survey))?;
    }
    Ok(())
}

/// Moves the bar as files are read.
struct Bar(ProgressBar);

impl Observer for Bar {
    fn progress(&mut self, bytes: u64) {
        self.0.inc(bytes);
    }
}

fn look(directory: &Path) -> Result<Survey, Failure> {
    let mut bar = Bar(progress::of_bytes(Some(total_bytes(directory).map_err(refused)?), false));
    let survey = survey(directory, &mut bar).map_err(refused)?;
    bar.0.finish_and_clear();
    if survey.segments.is_empty() && survey.snapshots.is_empty() {
        return Err(Failure::BadInput(format!("{} is not the directory of a store", directory.display())));
    }
    Ok(survey)
}

fn torn(survey: &Survey) -> u64 {
    survey.segments.iter().map(|segment| segment.torn_bytes).sum()
}

fn sound_line(survey: &Survey) -> String {
    let mut line = format!(
        "sound: {} events up to {}, in {} segments and {} snapshots",
        grouped(survey.segments.iter().map(SegmentSurvey::events).sum()),
        grouped(survey.sequence()),
        survey.segments.len(),
        survey.snapshots.len(),
    );
    if torn(survey) > 0 {
        let _ = write!(line, "; {} bytes of an unfinished write will be cut", torn(survey));
    }
    line
}

/// What to do about the first damaged segment.
fn way_on(survey: &Survey, directory: &Path) -> Option<String> {
    let segment = survey.segments.iter().find(|segment| segment.fault.is_some())?;
    let offset = segment.fault.as_ref()?.offset;
    let directory = directory.display();
    Some(format!(
        "restore a backup, or go on without what is behind: bruit store repair {directory} --segment {} --cut-after {offset}",
        segment.file
    ))
}

fn realm(survey: &Survey) -> Option<String> {
    survey.realm.map(|realm| realm.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn survey_text(survey: &Survey) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let mut row = |label: &str, value: String| writeln!(text, "{label:<22}{value}").unwrap_or_default();
    row("realm", realm(survey).unwrap_or_else(|| "unknown".into()));
    row("last event", grouped(survey.sequence()));
    row("journal", human_bytes(survey.segments.iter().map(|segment| segment.bytes).sum()));
    row("events in journal", grouped(survey.segments.iter().map(SegmentSurvey::events).sum()));
    row("records in journal", grouped(survey.segments.iter().map(|segment| segment.records).sum()));
    for (class, count) in survey.event_sizes.iter().enumerate().filter(|(_, count)| **count > 0) {
        row("events by size", format!("{} of up to {} bytes", grouped(*count), grouped((1 << class) - 1)));
    }
    survey.snapshots.iter().for_each(|snapshot| row("snapshot", snapshot_text(snapshot)));
    survey.segments.iter().for_each(|segment| row("segment", segment_text(segment)));
    survey.faults().into_iter().for_each(|fault| row("fault", fault));
    for (label, names) in [("unfinished", &survey.temporary), ("cut off", &survey.cut), ("not ours", &survey.others)] {
        names.iter().for_each(|name| row(label, name.clone()));
    }
    text
}

fn snapshot_text(snapshot: &SnapshotSurvey) -> String {
    format!("{}, {}, {} blocks", snapshot.file, human_bytes(snapshot.bytes), grouped(u64::from(snapshot.blocks)))
}

fn segment_text(segment: &SegmentSurvey) -> String {
    let mut text = format!(
        "{}, {}, {} events in {} records",
        segment.file,
        human_bytes(segment.bytes),
        grouped(segment.events()),
        grouped(segment.records)
    );
    if segment.torn_bytes > 0 {
        let _ = write!(text, ", {} bytes of an unfinished write", segment.torn_bytes);
    }
    text
}

fn survey_json(survey: &Survey) -> Value {
    let sizes = survey.event_sizes.iter().enumerate().filter(|(_, count)| **count > 0);
    json!({
        "realm": realm(survey),
        "last_event": survey.sequence(),
        "snapshots": survey.snapshots.iter().map(snapshot_json).collect::<Vec<_>>(),
        "segments": survey.segments.iter().map(segment_json).collect::<Vec<_>>(),
        "missing": survey.missing.iter().map(|missing| json!({
            "first": missing.first,
            "last": missing.last,
            "in_snapshot": missing.in_snapshot,
        })).collect::<Vec<_>>(),
        "events_by_size": sizes.map(|(class, count)| json!({
            "bytes_max": (1u64 << class) - 1,
            "events": count,
        })).collect::<Vec<_>>(),
        "faults": survey.faults(),
        "unfinished": survey.temporary,
        "cut": survey.cut,
        "others": survey.others,
    })
}

fn snapshot_json(snapshot: &SnapshotSurvey) -> Value {
    json!({
        "file": snapshot.file,
        "last_event": snapshot.sequence,
        "bytes": snapshot.bytes,
        "state_bytes": snapshot.state_bytes,
        "blocks": snapshot.blocks,
        "fault": snapshot.fault,
    })
}

fn segment_json(segment: &SegmentSurvey) -> Value {
    json!({
        "file": segment.file,
        "first_event": segment.first,
        "events": segment.events(),
        "records": segment.records,
        "bytes": segment.bytes,
        "event_bytes": segment.event_bytes,
        "torn_bytes": segment.torn_bytes,
        "fault": segment.fault.as_ref().map(|fault| json!({ "offset": fault.offset, "reason": fault.reason })),
    })
}
