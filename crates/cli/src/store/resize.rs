//! `bruit store resize`.

use std::io::Write;
use std::path::{Path, PathBuf};

use bruit_engine::{Engine, Outcome, Refusal, ResizePreview, StructurePreview};
use bruit_store::{Clearinghouse, Founding, Options};
use serde_json::{Value, json};

use super::refused;
use bruit_console::Failure;
use bruit_console::progress;
use bruit_console::quantity::{grouped, human_bytes, parse_bytes};

/// Arguments of `bruit store resize`.
#[derive(Debug, clap::Args)]
pub(super) struct StoreResizeArgs {
    /// Data directory
    directory: PathBuf,

    /// New memory budget, such as 1GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    memory: u64,

    /// Only show the changes; works while a server is running
    #[arg(long)]
    dry_run: bool,

    /// Allow a smaller budget, if all data fits
    #[arg(long)]
    shrink: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &StoreResizeArgs, output: &mut impl Write) -> Result<(), Failure> {
    let resized = if arguments.dry_run { preview(arguments)? } else { resize(arguments)? };
    if arguments.json { print_json(arguments, &resized, output) } else { print_text(arguments, &resized, output) }
}

fn preview(arguments: &StoreResizeArgs) -> Result<ResizePreview, Failure> {
    let bar = progress::of_bytes(None, true);
    let found = Clearinghouse::peek(&arguments.directory, &mut |bytes| bar.inc(bytes)).map_err(refused)?;
    bar.finish_and_clear();
    let (_, engine, _) = found.ok_or_else(|| nothing_in(&arguments.directory))?;
    changes(arguments, &engine)
}

fn resize(arguments: &StoreResizeArgs) -> Result<ResizePreview, Failure> {
    let founding = Founding::read(&arguments.directory).map_err(refused)?;
    let founding = founding.ok_or_else(|| nothing_in(&arguments.directory))?;
    let bar = progress::of_bytes(None, true);
    let mut count = |bytes| bar.inc(bytes);
    let opened = Clearinghouse::open_or_found(&arguments.directory, &Options::default(), || founding, &mut count);
    bar.finish_and_clear();
    let store = opened.map_err(refused)?;
    let resized = store.check(|engine| changes(arguments, engine))?;
    match store.resize(arguments.memory).map_err(refused)? {
        Outcome::Refused(refusal) => Err(refused(refusal)),
        // Even if the final snapshot fails, the change is on disk.
        _ => {
            drop(store);
            Ok(resized)
        }
    }
}

/// Returns the changes that a resize would make, or an error if the new budget is not allowed.
fn changes(arguments: &StoreResizeArgs, engine: &Engine) -> Result<ResizePreview, Failure> {
    let (from, to) = (engine.plan().bytes, arguments.memory);
    if to < from && !arguments.shrink {
        let (now, then) = (human_bytes(from), human_bytes(to));
        let text = format!("the memory budget is {now}, more than {then}: use --shrink to reduce it, if all data fits");
        return Err(Failure::BadInput(text));
    }
    match engine.preview_resize(to) {
        Err(Refusal::OutOfBounds) => {
            Err(Failure::BadInput(format!("a memory budget of {} is not supported", human_bytes(to))))
        }
        changes => changes.map_err(refused),
    }
}

fn nothing_in(directory: &Path) -> Failure {
    Failure::BadInput(format!("no clearinghouse in {}", directory.display()))
}

fn print_text(arguments: &StoreResizeArgs, resized: &ResizePreview, output: &mut impl Write) -> Result<(), Failure> {
    let ResizePreview { from, to, structures } = resized;
    let verb = if arguments.dry_run { "would change" } else { "changed" };
    writeln!(output, "the memory budget {verb} from {} to {}", human_bytes(*from), human_bytes(*to))?;
    for structure in structures {
        writeln!(output, "{}", line(structure))?;
    }
    writeln!(output, "All data is kept: listings, revocations, counts, texts, accounts and whitelists.")?;
    writeln!(
        output,
        "Generations that are not empty stay as full as they are; only later generations use the new capacity."
    )?;
    Ok(())
}

fn line(structure: &StructurePreview) -> String {
    let StructurePreview { name, lines, bytes, capacity, holds } = structure;
    let lines = match *lines {
        Some((now, then)) if now == then => format!("stays at {} lines (no room for twice as many)", grouped(now)),
        Some((now, then)) => {
            format!("{} lines become {}, {} times as many", grouped(now), grouped(then), then / now.max(1))
        }
        None => "is re-encoded".into(),
    };
    let (now, then) = (human_bytes(bytes.0), human_bytes(bytes.1));
    let room = format!("room for {} {holds} instead of {}", grouped(capacity.1), grouped(capacity.0));
    format!("{name}: {lines}; {now} become {then}; {room}")
}

fn print_json(arguments: &StoreResizeArgs, resized: &ResizePreview, output: &mut impl Write) -> Result<(), Failure> {
    let ResizePreview { from, to, structures } = resized;
    let json = json!({
        "done": !arguments.dry_run,
        "from_bytes": from,
        "to_bytes": to,
        "structures": structures.iter().map(structure_json).collect::<Vec<_>>(),
    });
    writeln!(output, "{json:#}")?;
    Ok(())
}

fn structure_json(structure: &StructurePreview) -> Value {
    let StructurePreview { name, lines, bytes, capacity, holds } = structure;
    json!({
        "name": name,
        "lines_now": lines.map(|lines| lines.0),
        "lines_then": lines.map(|lines| lines.1),
        "bytes_now": bytes.0,
        "bytes_then": bytes.1,
        "holds": holds,
        "capacity_now": capacity.0,
        "capacity_then": capacity.1,
    })
}
