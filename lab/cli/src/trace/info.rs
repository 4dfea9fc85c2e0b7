//! `bruit-lab trace info`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use bruit_forensics::pages::{Pages, Span, kind_of};
use bruit_forensics::traceback::{Subject, read_pages};
use serde_json::{Value, json};

use super::print::{span, span_json};

use bruit_console::failure::{FAULTS, Failure, bad_input};
use bruit_console::quantity::{grouped, human_bytes, scientific};
use bruit_console::terminal::{complain, printable};

/// Arguments of `bruit-lab trace info`.
#[derive(Debug, clap::Args)]
pub(super) struct TraceInfoArgs {
    /// Directory of pages written by 'bruit-lab trace record'
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Totals over all pages.
#[derive(Debug, Default)]
struct TraceTotals {
    names: BTreeSet<String>,
    pages: u64,
    items: u64,
    rate_max: f64,
    span: Option<Span>,
    /// Errors of unreadable pages.
    faults: Vec<String>,
}

pub(super) fn run(arguments: &TraceInfoArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let folder = &arguments.folder;
    let kind = kind_of(folder, &Subject::ALL.map(Subject::kind)).map_err(bad_input)?;
    let what = if kind == Subject::Packets.kind() { "packets" } else { "messages" };
    let pages = Pages::open(folder, kind).map_err(bad_input)?;
    let totals = TraceTotals::of(&pages);
    if arguments.json {
        writeln!(output, "{:#}", totals.json(what, pages.bytes()))?;
    } else {
        totals.print(what, pages.bytes(), output)?;
    }
    output.flush()?;
    totals.faults.iter().for_each(|fault| complain(fault));
    Ok(if totals.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FAULTS) })
}

impl TraceTotals {
    /// Returns the totals of all readable pages.
    fn of(pages: &Pages) -> Self {
        let mut totals = Self::default();
        for page in read_pages(pages, pages.list().iter()) {
            match page {
                Ok((span, page)) => {
                    totals.pages += 1;
                    totals.items += page.items;
                    totals.rate_max = totals.rate_max.max(page.false_positive_rate());
                    totals.names.insert(page.name);
                    totals.span = Some(totals.span.map_or(span, |all| union(all, span)));
                }
                Err(fault) => totals.faults.push(fault),
            }
        }
        totals
    }

    fn json(&self, what: &str, bytes: u64) -> Value {
        json!({
            "what": what,
            "names": self.names,
            "pages": self.pages,
            "bytes": bytes,
            what: self.items,
            "span": self.span.map(span_json),
            "false_positive_rate_max": self.rate_max,
            "faults": self.faults,
        })
    }

    fn print(&self, what: &str, bytes: u64, output: &mut impl Write) -> Result<(), Failure> {
        let names: Vec<_> = self.names.iter().map(|name| printable(name)).collect();
        let rows = [
            ("recorded by", names.join(", ")),
            (what, grouped(self.items)),
            ("pages", grouped(self.pages)),
            ("on disk", human_bytes(bytes)),
            ("when", self.span.map_or_else(String::new, span)),
            ("highest rate", scientific(self.rate_max)),
        ];
        for (label, value) in rows {
            writeln!(output, "{}", format!("{label:<14}{value}").trim_end())?;
        }
        Ok(())
    }
}

fn union(a: Span, b: Span) -> Span {
    Span { from: a.from.min(b.from), to: a.to.max(b.to) }
}
