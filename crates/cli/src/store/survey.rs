//! `bruit store verify` and `bruit store inspect`.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use bruit_engine::codec::Malformed;
use bruit_engine::event::Event;
use bruit_signatures::hex;
use bruit_store::founding::FOUNDING_FILE;
use bruit_store::survey::{JournalFileSurvey, SnapshotSurvey, Survey, survey, total_bytes};
use bruit_store::{Advice, Clearinghouse, Finding, Founding, Observer, OpenError};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::{clearinghouse, refused};
use bruit_console::Failure;
use bruit_console::progress;
use bruit_console::quantity::{grouped, human_bytes};

/// Arguments of `bruit store verify` and `inspect`.
#[derive(Debug, clap::Args)]
pub(super) struct StoreSurveyArgs {
    /// Data directory
    directory: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn verify(arguments: &StoreSurveyArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let directory = &arguments.directory;
    let survey = look(directory)?;
    let founding = founding_fault(directory, &survey);
    let (faults, warnings) = (survey.faults(), survey.warnings());
    let is_sound = faults.is_empty() && founding.is_none();
    if !faults.is_empty() && !survey.went.is_empty() {
        return Err(Failure::BadInput(format!(
            "files were removed while {} was being read: try again",
            directory.display()
        )));
    }
    if arguments.json {
        let faults = founding
            .iter()
            .map(|text| json!({ "text": text }))
            .chain(faults.iter().map(|fault| fault_json(fault, directory)));
        let faults: Vec<_> = faults.collect();
        let all = json!({ "sound": is_sound, "faults": faults, "warnings": warnings, "torn_bytes": torn(&survey) });
        writeln!(output, "{all:#}")?;
    } else {
        founding.iter().try_for_each(|line| writeln!(output, "{line}"))?;
        for fault in &faults {
            writeln!(output, "{fault}\n  {}", fault.advice.text(directory))?;
        }
        warnings.iter().try_for_each(|warning| writeln!(output, "warning: {warning}"))?;
        if is_sound {
            writeln!(output, "{}", sound_line(&survey))?;
        }
    }
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn fault_json(fault: &Finding, directory: &Path) -> Value {
    json!({
        "file": fault.file,
        "offset": fault.offset,
        "text": fault.text,
        "harmless": matches!(fault.advice, Advice::Harmless(_)),
        "advice": fault.advice.text(directory),
    })
}

/// Prints the contents of the files. If recovery failed, returns the reason as an error.
pub(super) fn inspect(arguments: &StoreSurveyArgs, output: &mut impl Write) -> Result<(), Failure> {
    let survey = look(&arguments.directory)?;
    let bar = progress::of_bytes(None, false);
    let peeked = Clearinghouse::peek(&arguments.directory, &mut |bytes| bar.inc(bytes)).map_err(refused);
    bar.finish_and_clear();
    let peeked = peeked.and_then(|found| found.ok_or_else(|| refused(founding_missing(&arguments.directory))));
    let found = peeked.as_ref().ok();
    if arguments.json {
        let mut all = survey_json(&survey);
        all["clearinghouse"] = found.map_or(Value::Null, clearinghouse::json);
        all["unrecovered"] = peeked.as_ref().err().and_then(Failure::line).into();
        writeln!(output, "{all:#}")?;
    } else {
        let rows = survey_rows(&survey).into_iter().chain(found.map(clearinghouse::rows).into_iter().flatten());
        rows.into_iter().try_for_each(|(label, value)| writeln!(output, "{label:<22}{value}"))?;
    }
    peeked.map(drop)
}

fn founding_missing(directory: &Path) -> OpenError {
    OpenError::FoundingMissing { directory: directory.to_owned() }
}

/// Returns the problem with the founding file, if there is one. The other files cannot be read without it.
fn founding_fault(directory: &Path, survey: &Survey) -> Option<String> {
    match Founding::read(directory) {
        Ok(Some(_)) if survey.has_wrong_founding() => {
            refused(OpenError::WrongFounding { directory: directory.to_owned() }).line()
        }
        Ok(Some(_)) => None,
        Ok(None) => refused(founding_missing(directory)).line(),
        Err(error) => refused(error).line(),
    }
}

/// An observer that decodes every event and updates the progress bar.
struct Reader(ProgressBar);

impl Observer for Reader {
    fn event(&mut self, _: u64, bytes: &[u8]) -> Result<(), Malformed> {
        Event::decode(bytes).map(drop)
    }

    fn progress(&mut self, bytes: u64) {
        self.0.inc(bytes);
    }
}

fn look(directory: &Path) -> Result<Survey, Failure> {
    let mut reader = Reader(progress::of_bytes(Some(total_bytes(directory).map_err(refused)?), false));
    let survey = survey(directory, &mut reader).map_err(refused)?;
    reader.0.finish_and_clear();
    let is_empty = survey.journal_files.is_empty() && survey.snapshots.is_empty();
    if is_empty && !directory.join(FOUNDING_FILE).exists() {
        return Err(Failure::BadInput(format!("{} is not a data directory", directory.display())));
    }
    Ok(survey)
}

fn torn(survey: &Survey) -> u64 {
    survey.journal_files.iter().map(|segment| segment.torn_bytes).sum()
}

fn sound_line(survey: &Survey) -> String {
    let mut line = format!(
        "sound: {} events up to {}, in {} segments and {} snapshots",
        grouped(survey.journal_files.iter().map(JournalFileSurvey::events).sum()),
        grouped(survey.sequence()),
        survey.journal_files.len(),
        survey.snapshots.len(),
    );
    if torn(survey) > 0 {
        let _ = write!(line, "; {} bytes of an unfinished write will be cut", torn(survey));
    }
    line
}

fn realm(survey: &Survey) -> Option<String> {
    survey.realm.map(|realm| hex::text(&realm))
}

fn survey_rows(survey: &Survey) -> Vec<clearinghouse::StoreRow> {
    let mut rows = Vec::new();
    let mut row = |label: &'static str, value: String| rows.push((label, value));
    row("realm", realm(survey).unwrap_or_else(|| "unknown".into()));
    row("last event", grouped(survey.sequence()));
    row("journal", human_bytes(survey.journal_files.iter().map(|segment| segment.bytes).sum()));
    row("events in journal", grouped(survey.journal_files.iter().map(JournalFileSurvey::events).sum()));
    row("records in journal", grouped(survey.journal_files.iter().map(|segment| segment.records).sum()));
    for (class, count) in survey.event_sizes.iter().enumerate().filter(|(_, count)| **count > 0) {
        row("events by size", format!("{} of up to {} bytes", grouped(*count), grouped((1 << class) - 1)));
    }
    survey.snapshots.iter().for_each(|snapshot| row("snapshot", snapshot_text(snapshot)));
    survey.journal_files.iter().for_each(|segment| row("segment", journal_file_text(segment)));
    survey.faults().iter().for_each(|fault| row("fault", fault.to_string()));
    for (label, names) in [("unfinished", &survey.temporary), ("cut off", &survey.cut), ("other files", &survey.others)]
    {
        names.iter().for_each(|name| row(label, name.clone()));
    }
    rows
}

fn snapshot_text(snapshot: &SnapshotSurvey) -> String {
    format!("{}, {}, {} blocks", snapshot.file, human_bytes(snapshot.bytes), grouped(u64::from(snapshot.blocks)))
}

fn journal_file_text(segment: &JournalFileSurvey) -> String {
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
        "segments": survey.journal_files.iter().map(journal_file_json).collect::<Vec<_>>(),
        "missing": survey.missing.iter().map(|missing| json!({
            "first": missing.first,
            "last": missing.last,
            "in_snapshot": missing.in_snapshot,
        })).collect::<Vec<_>>(),
        "events_by_size": sizes.map(|(class, count)| json!({
            "bytes_max": (1u64 << class) - 1,
            "events": count,
        })).collect::<Vec<_>>(),
        "faults": survey.faults().iter().map(ToString::to_string).collect::<Vec<_>>(),
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
        "fault": snapshot.fault.as_ref().map(ToString::to_string),
    })
}

fn journal_file_json(segment: &JournalFileSurvey) -> Value {
    json!({
        "file": segment.file,
        "first_event": segment.first,
        "events": segment.events(),
        "records": segment.records,
        "bytes": segment.bytes,
        "event_bytes": segment.event_bytes,
        "torn_bytes": segment.torn_bytes,
        "fault": segment.fault.as_ref().map(|fault| json!({ "offset": fault.offset, "reason": fault.fault.to_string() })),
    })
}
