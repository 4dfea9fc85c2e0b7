//! `bruit plan`: calculates and compares filters for a number of signatures and a goal, which is an error rate or a
//! size.
//!
//! All figures come from [`bruit_filters::sizing`].

use std::io::Write;

use bruit_filters::sizing::{
    CELL_BITS, CountingPlan, Estimate, Goal, Layout, MembershipPlan, Order, SizingError, counting_line_rate,
    intuitive_error, ln_bulk_rate, refined_error, table_1,
};
use serde_json::{Value, json};

use bruit_console::Failure;
use bruit_console::quantity::{
    grouped, human_bytes, parse_bytes, parse_count, parse_rate, parse_threshold, scientific, scientific_of_ln,
};

const SIGNATURES_DEFAULT: u64 = 10_000_000;
const RATE_DEFAULT: f64 = 1e-3;

const AFTER_HELP: &str = "\
Examples:
  bruit plan                                                  ten million signatures at 1e-3
  bruit plan --signatures 400_000 --false-positive-rate 1e-4  minimum memory for a rate
  bruit plan --signatures 10M --memory 64MiB                  minimum rate for a budget
  bruit plan --signatures 10M --threshold 20                  also the error rates of counts at threshold 20
  bruit plan --table1                                         Table 1 of Yan and Cho (2006)";

/// Arguments of `bruit plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct PlanArgs {
    /// Number of signatures in the filter: 400000, 400_000, 4e5, 10M [default: 10M]
    #[arg(long, value_name = "N", value_parser = parse_count, allow_negative_numbers = true)]
    signatures: Option<u64>,

    /// Maximum false-positive rate, between 0 and 1 [default: 1e-3]
    #[arg(long, value_name = "F", value_parser = parse_rate, allow_negative_numbers = true, conflicts_with = "memory")]
    false_positive_rate: Option<f64>,

    /// Memory for each filter, instead of a rate: 64M and 64MiB mean 2^26 bytes, 64MB means 64000000 bytes
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, allow_negative_numbers = true)]
    memory: Option<u64>,

    /// Also print how often a counting filter reports T or more for an unknown signature, and how often a known
    /// signature's count is too high
    #[arg(long, value_name = "T", value_parser = parse_threshold, allow_negative_numbers = true)]
    threshold: Option<u32>,

    /// Print Table 1 of the paper instead: rates and savings for five choices of m/n and k
    #[arg(long, conflicts_with_all = ["signatures", "false_positive_rate", "memory", "threshold"])]
    table1: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &PlanArgs, output: &mut impl Write) -> Result<(), Failure> {
    match (arguments.table1, arguments.json) {
        (true, true) => writeln!(output, "{:#}", table_1_json())?,
        (true, false) => print_table_1(output)?,
        (false, json) => {
            let plan = Plan::new(arguments).map_err(Failure::BadInput)?;
            if json { writeln!(output, "{:#}", plan.json())? } else { plan.print(output)? }
        }
    }
    output.flush()?;
    Ok(())
}

/// The results of one run.
struct Plan {
    signatures: u64,
    goal: Goal,
    /// Options that were not given, with their default values.
    assumed: Vec<String>,
    membership: [MembershipPlan; 2],
    counting: [CountingPlan; 2],
    /// The one-line counting filter at its default size, or `None` if that is above the maximum size.
    usual_counting: Option<CountingPlan>,
    bulk: Option<Bulk>,
}

/// Returns a function that adds a filter's purpose and layout to an error. The error may concern only this layout.
fn for_layout(what: &str, layout: Layout) -> impl Fn(SizingError) -> String {
    let layout = if layout == Layout::OneLine { "one-line" } else { "classical" };
    move |error| format!("no plan for {what}, {layout} layout: {error}")
}

/// Error rates of counts: how often an unknown signature reaches the threshold, and how often a known signature's count
/// is too high.
struct Bulk {
    threshold: u32,
    /// Natural logarithm of the rate by equation (4), for the classical counting filter.
    ln_equation_4: f64,
    one_line: f64,
    intuitive: f64,
    refined: Estimate,
}

impl Plan {
    fn new(arguments: &PlanArgs) -> Result<Self, String> {
        let signatures = arguments.signatures.unwrap_or(SIGNATURES_DEFAULT);
        let goal = goal(arguments);
        let membership =
            |layout| MembershipPlan::new(layout, signatures, goal).map_err(for_layout("membership", layout));
        let counting = |layout| CountingPlan::new(layout, signatures, goal).map_err(for_layout("counting", layout));
        let (classical, one_line) = (counting(Layout::Classical)?, counting(Layout::OneLine)?);
        Ok(Self {
            signatures,
            goal,
            assumed: assumptions(arguments),
            membership: [membership(Layout::Classical)?, membership(Layout::OneLine)?],
            counting: [classical, one_line],
            usual_counting: CountingPlan::usual(signatures).ok(),
            bulk: arguments.threshold.map(|threshold| Bulk::new(signatures, threshold, &classical, &one_line)),
        })
    }

    fn print(&self, output: &mut impl Write) -> Result<(), Failure> {
        writeln!(output, "{}", self.headline())?;
        if !self.assumed.is_empty() {
            writeln!(output, "Assumed: {}.", self.assumed.join("; "))?;
        }
        writeln!(output)?;
        self.print_columns(output)?;
        if let Some(bulk) = &self.bulk {
            bulk.print(output)?;
        }
        self.print_notes(output)
    }

    fn headline(&self) -> String {
        let goal = match self.goal {
            Goal::Memory(bytes) => format!("in {} for each filter", human_bytes(bytes)),
            Goal::Rate(rate) => format!("at a false-positive rate of {rate:e}"),
            _ => String::new(),
        };
        format!("Plan for {} signatures {goal}", grouped(self.signatures))
    }

    fn print_columns(&self, output: &mut impl Write) -> Result<(), Failure> {
        print_row(output, "", COLUMNS.map(|column| column.0.to_owned()))?;
        print_row(output, "", COLUMNS.map(|column| column.1.to_owned()))?;
        let columns = self.columns();
        for (label, cell) in ROWS {
            print_row(output, label, columns.each_ref().map(cell))?;
        }
        Ok(())
    }

    fn columns(&self) -> [Column; 4] {
        let [classical, one_line] = self.membership.map(Column::from);
        let [counting, counting_one_line] = self.counting.map(Column::from);
        [classical, one_line, counting, counting_one_line]
    }

    fn print_notes(&self, output: &mut impl Write) -> Result<(), Failure> {
        writeln!(output)?;
        writeln!(output, "A classical check reads k places in memory, a one-line check one line of 64 bytes.")?;
        writeln!(output, "Compression is relative to {} signatures of 160 bits.", grouped(self.signatures))?;
        if let Some(usual) = &self.usual_counting {
            writeln!(
                output,
                "At its default of 32 bits per signature, the one-line counting filter uses {} and has\n\
                 a false-positive rate of {}.",
                human_bytes(usual.bytes),
                scientific(usual.false_positive_rate)
            )?;
        }
        writeln!(output)?;
        writeln!(output, "Try next: {}", self.suggestion())?;
        Ok(())
    }

    fn suggestion(&self) -> &'static str {
        match (self.goal, &self.bulk) {
            (_, None) => "bruit plan --threshold 20, or --memory 64MiB; bruit plan --help",
            (Goal::Rate(_), Some(_)) => "bruit plan --memory 64MiB, or --table1; bruit plan --help",
            (_, Some(_)) => "bruit plan --false-positive-rate 1e-4, or --table1; bruit plan --help",
        }
    }

    fn json(&self) -> Value {
        let (rate, memory_bytes) = match self.goal {
            Goal::Rate(rate) => (Some(rate), None),
            Goal::Memory(bytes) => (None, Some(bytes)),
            _ => (None, None),
        };
        json!({
            "signatures": self.signatures,
            "wanted": { "false_positive_rate": rate, "memory_bytes": memory_bytes },
            "membership": self.membership.map(|plan| Column::from(plan).json(plan.layout)),
            "counting": self.counting.map(|plan| Column::from(plan).json(plan.layout)),
            "bulk": self.bulk.as_ref().map(Bulk::json),
        })
    }
}

fn goal(arguments: &PlanArgs) -> Goal {
    match arguments.memory {
        Some(bytes) => Goal::Memory(bytes),
        None => Goal::Rate(arguments.false_positive_rate.unwrap_or(RATE_DEFAULT)),
    }
}

fn assumptions(arguments: &PlanArgs) -> Vec<String> {
    let mut assumed = Vec::new();
    if arguments.signatures.is_none() {
        assumed.push(format!("--signatures {}", grouped(SIGNATURES_DEFAULT).replace(',', "_")));
    }
    if arguments.memory.is_none() && arguments.false_positive_rate.is_none() {
        assumed.push(format!("--false-positive-rate {RATE_DEFAULT:e}"));
    }
    assumed
}

/// One column of the output: a membership or counting filter.
struct Column {
    cells: u64,
    cell_bits: u32,
    hashes: u32,
    bytes: u64,
    bits_per_key: f64,
    false_positive_rate: f64,
    compression_rate: f64,
    fingerprint_bits: u32,
}

const COLUMNS: [(&str, &str); 4] =
    [("membership", "classical"), ("membership", "one-line"), ("counting", "classical"), ("counting", "one-line")];

/// A row label, and the function that formats a column's value for this row.
type PlanRow = (&'static str, fn(&Column) -> String);

const ROWS: [PlanRow; 8] = [
    ("cells (m)", |column| grouped(column.cells)),
    ("bits per cell", |column| column.cell_bits.to_string()),
    ("hash functions (k)", |column| column.hashes.to_string()),
    ("memory", |column| human_bytes(column.bytes)),
    ("bits per signature", |column| format!("{:.2}", column.bits_per_key)),
    ("false-positive rate", |column| scientific(column.false_positive_rate)),
    ("compression rate", |column| format!("{:.2}", column.compression_rate)),
    ("fingerprint bits", |column| column.fingerprint_bits.to_string()),
];

impl From<MembershipPlan> for Column {
    fn from(plan: MembershipPlan) -> Self {
        Self {
            cells: plan.cells,
            cell_bits: 1,
            hashes: plan.hashes,
            bytes: plan.bytes,
            bits_per_key: plan.bits_per_key,
            false_positive_rate: plan.false_positive_rate,
            compression_rate: plan.compression_rate,
            fingerprint_bits: plan.fingerprint_bits,
        }
    }
}

impl From<CountingPlan> for Column {
    fn from(plan: CountingPlan) -> Self {
        Self {
            cells: plan.cells,
            cell_bits: plan.cell_bits,
            hashes: plan.hashes,
            bytes: plan.bytes,
            bits_per_key: plan.bits_per_key,
            false_positive_rate: plan.false_positive_rate,
            compression_rate: plan.compression_rate,
            fingerprint_bits: plan.fingerprint_bits,
        }
    }
}

impl Column {
    fn json(&self, layout: Layout) -> Value {
        json!({
            "layout": if layout == Layout::OneLine { "one_line" } else { "classical" },
            "cells": self.cells,
            "cell_bits": self.cell_bits,
            "hashes": self.hashes,
            "bytes": self.bytes,
            "bits_per_signature": self.bits_per_key,
            "false_positive_rate": self.false_positive_rate,
            "compression_rate": self.compression_rate,
            "fingerprint_bits": self.fingerprint_bits,
        })
    }
}

fn print_row(output: &mut impl Write, label: &str, cells: [String; 4]) -> Result<(), Failure> {
    let [a, b, c, d] = cells;
    writeln!(output, "{}", format!("{label:<19} {a:>16} {b:>16} {c:>16} {d:>16}").trim_end())?;
    Ok(())
}

impl Bulk {
    fn new(signatures: u64, threshold: u32, classical: &CountingPlan, one_line: &CountingPlan) -> Self {
        let (cells, hashes) = (classical.cells, classical.hashes);
        Self {
            threshold,
            ln_equation_4: ln_bulk_rate(signatures, cells, hashes, threshold, None),
            one_line: counting_line_rate(signatures, one_line.lines().unwrap_or(0), threshold),
            intuitive: intuitive_error(signatures, cells, hashes),
            refined: refined_error(signatures, cells, hashes, Order::Unknown),
        }
    }

    fn print(&self, output: &mut impl Write) -> Result<(), Failure> {
        let Estimate { rate, low, high } = self.refined;
        let threshold = grouped(self.threshold.into());
        writeln!(output)?;
        writeln!(output, "Bulk counts, threshold {threshold}")?;
        writeln!(
            output,
            "  Rate of unknown signatures with a count of {threshold} or more, if every signature was reported once:"
        )?;
        writeln!(output, "    classical, equation (4)           {}", scientific_of_ln(self.ln_equation_4))?;
        writeln!(output, "    one-line, upper bound             {}", scientific(self.one_line))?;
        if self.threshold >= 1 << CELL_BITS {
            let bits = u32::BITS - self.threshold.leading_zeros();
            writeln!(
                output,
                "    Cells of {CELL_BITS} bits count to 15; this threshold needs classical cells of {bits} bits."
            )?;
        }
        writeln!(
            output,
            "  Rate of known signatures whose count is too high, in the classical layout, for any counts:"
        )?;
        writeln!(output, "    intuitive                         {}", scientific(self.intuitive))?;
        writeln!(output, "    refined, estimate                 {}", scientific(rate))?;
        writeln!(
            output,
            "      between {} (all reports of a signature in succession) and {} (shuffled reports, equal counts)",
            scientific(low),
            scientific(high)
        )?;
        Ok(())
    }

    fn json(&self) -> Value {
        let Estimate { rate, low, high } = self.refined;
        json!({
            "threshold": self.threshold,
            "equation_4_rate": self.ln_equation_4.exp(),
            "equation_4_log10": finite(self.ln_equation_4 / std::f64::consts::LN_10),
            "one_line_rate_upper_bound": self.one_line,
            "intuitive_error": self.intuitive,
            "refined_error_estimate": { "rate": rate, "low": low, "high": high },
        })
    }
}

/// Returns `None` (null in JSON) for the infinite logarithm of a rate of 0.
fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

fn print_table_1(output: &mut impl Write) -> Result<(), Failure> {
    writeln!(output, "Table 1: storage saved, and false positives, by m/n and k")?;
    writeln!(output)?;
    writeln!(output, " m/n   k   CR   false positives")?;
    for row in table_1() {
        let rate = scientific(row.false_positive_rate);
        writeln!(output, "{:>4}{:>4}{:>5}   {rate:>15}", row.bits_per_key, row.hashes, row.compression_rate)?;
    }
    writeln!(output)?;
    writeln!(output, "m cells, n signatures of 160 bits, k hash functions; CR = 160 n/m, rates by equation (1).")?;
    Ok(())
}

fn table_1_json() -> Value {
    let rows = table_1().map(|row| {
        json!({
            "bits_per_signature": row.bits_per_key,
            "hashes": row.hashes,
            "compression_rate": row.compression_rate,
            "false_positive_rate": row.false_positive_rate,
        })
    });
    json!({ "table1": rows })
}
