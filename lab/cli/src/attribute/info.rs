//! `bruit-lab attribute info`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use bruit_filters::bloom::MembershipFilter as _;
use bruit_forensics::attribution::Page;
use bruit_forensics::pages::{Pages, Span};
use serde_json::{Value, json};

use super::{KIND, for_each_page};
use crate::pages::{Outcome, span_text, whole_span};
use bruit_console::failure::{FAULTS, Failure, bad_input};
use bruit_console::quantity::{grouped, human_bytes, scientific};

/// Arguments of `bruit-lab attribute info`.
#[derive(Debug, clap::Args)]
pub(super) struct AttributeInfoArgs {
    /// Directory of pages written by 'bruit-lab attribute build'
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Totals over all pages.
#[derive(Debug, Default)]
struct AttributeTotals {
    payloads: u64,
    short: u64,
    bytes: u64,
    unlisted: u64,
    pairs_max: usize,
    offset_rate_max: f64,
    payload_rate_max: f64,
}

impl AttributeTotals {
    fn add(&mut self, page: &Page) {
        let counts = page.counts();
        self.payloads += counts.payloads;
        self.short += counts.short;
        self.bytes += counts.bytes;
        self.unlisted += counts.unlisted;
        self.pairs_max = self.pairs_max.max(page.pairs().len());
        self.offset_rate_max = self.offset_rate_max.max(page.offsets().filter().estimated_false_positive_rate());
        self.payload_rate_max = self.payload_rate_max.max(page.payloads().estimated_false_positive_rate());
    }
}

pub(super) fn run(arguments: &AttributeInfoArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let pages = Pages::open(&arguments.folder, KIND).map_err(bad_input)?;
    let mut totals = AttributeTotals::default();
    let read = for_each_page(&pages, Span::ALL, |page, _| {
        totals.add(page);
        Ok(Outcome::Done)
    })?;
    if arguments.json {
        writeln!(output, "{:#}", totals_json(&totals, &pages, read.faults))?;
    } else {
        print(&totals, &pages, read.faults, output)?;
    }
    Ok(if read.faults > 0 { ExitCode::from(FAULTS) } else { ExitCode::SUCCESS })
}

fn totals_json(totals: &AttributeTotals, pages: &Pages, unread: u64) -> Value {
    let all = whole_span(pages.list());
    json!({
        "pages": pages.list().len(),
        "unread_pages": unread,
        "bytes": pages.bytes(),
        "from": all.map(|span| span.from),
        "to": all.map(|span| span.to),
        "payloads": totals.payloads,
        "payload_bytes": totals.bytes,
        "short_payloads": totals.short,
        "unlisted_payloads": totals.unlisted,
        "pairs_of_a_page_max": totals.pairs_max,
        "offset_digest_rate_max": totals.offset_rate_max,
        "payload_digest_rate_max": totals.payload_rate_max,
    })
}

fn print(totals: &AttributeTotals, pages: &Pages, unread: u64, output: &mut impl Write) -> io::Result<()> {
    let count = grouped(pages.list().len() as u64);
    let count = if unread > 0 { format!("{count}, {} not read", grouped(unread)) } else { count };
    let rows = [
        ("pages", count),
        ("on disk", human_bytes(pages.bytes())),
        ("when", whole_span(pages.list()).map_or_else(String::new, span_text)),
        ("payloads", format!("{}, {}", grouped(totals.payloads), human_bytes(totals.bytes))),
        ("too short", grouped(totals.short)),
        ("not attributable", grouped(totals.unlisted)),
        ("most pairs in a page", grouped(totals.pairs_max as u64)),
        ("rate, offset digests", format!("{} at most", scientific(totals.offset_rate_max))),
        ("rate, payload digests", format!("{} at most", scientific(totals.payload_rate_max))),
    ];
    for (label, value) in rows {
        writeln!(output, "{}", format!("{label:<23}{value}").trim_end())?;
    }
    Ok(())
}
