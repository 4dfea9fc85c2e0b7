//! `bruit trace info`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use bruit_forensics::pages::{Pages, Span, kind_of};
use bruit_forensics::traceback::{PAGE_BYTES_MAX, Subject, TracePage};
use serde_json::json;

use super::print::{span, span_json};
use super::wrong;
use crate::failure::Failure;
use crate::quantity::{grouped, human_bytes, scientific};
use crate::terminal::printable;

/// What `bruit trace info` is asked.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// A directory of 'bruit trace record'
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What all pages say together.
#[derive(Debug, Default)]
struct Totals {
    names: BTreeSet<String>,
    items: u64,
    rate_max: f64,
}

pub(super) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let kind = kind_of(folder, &Subject::ALL.map(Subject::kind)).map_err(wrong)?;
    let what = if kind == Subject::Packets.kind() { "packets" } else { "messages" };
    let pages = Pages::open(folder, kind).map_err(wrong)?;
    let totals = totals(&pages)?;
    let list = pages.list();
    let all = list.first().map(|first| Span {
        from: first.span.from,
        to: list.iter().map(|page| page.span.to).max().unwrap_or(first.span.to),
    });
    if arguments.json {
        let value = json!({
            "what": what,
            "names": totals.names,
            "pages": list.len(),
            "bytes": pages.bytes(),
            what: totals.items,
            "span": all.map(span_json),
            "false_positive_rate_max": totals.rate_max,
        });
        return Ok(writeln!(output, "{value:#}")?);
    }
    let names: Vec<_> = totals.names.iter().map(|name| printable(name)).collect();
    let rows = [
        ("recorded by", names.join(", ")),
        (what, grouped(totals.items)),
        ("pages", grouped(list.len() as u64)),
        ("on disk", human_bytes(pages.bytes())),
        ("when", all.map_or_else(String::new, span)),
        ("highest rate", scientific(totals.rate_max)),
    ];
    for (label, value) in rows {
        writeln!(output, "{}", format!("{label:<14}{value}").trim_end())?;
    }
    Ok(())
}

fn totals(pages: &Pages) -> Result<Totals, Failure> {
    let mut totals = Totals::default();
    for name in pages.list() {
        let content = pages.read(name, PAGE_BYTES_MAX).map_err(wrong)?;
        let page = TracePage::decode(&content).map_err(|error| wrong(format!("{name} {error}")))?;
        totals.items += page.items;
        totals.rate_max = totals.rate_max.max(page.false_positive_rate());
        totals.names.insert(page.name);
    }
    Ok(totals)
}
