//! `bruit-lab simulate custom`: simulates a filter of any shape with any traffic.

use std::io::Write;
use std::process::ExitCode;

use bruit_filters::counting::LINE_CELLS;
use bruit_filters::sizing::{classical_rate, ln_bulk_rate};
use bruit_simulation::{Counts, CustomLayout, CustomOptions, CustomResult, Moments, Order, SystemResult, run_custom};
use clap::ValueEnum;

use super::study::parse_rounds;
use super::{CommonArgs, Hash, interrupt, json};
use bruit_console::Failure;
use bruit_console::progress;
use bruit_console::quantity::{
    counted, grouped, human_bytes, parse_count, parse_threshold, scientific, scientific_of_ln,
};

const HASHES_DEFAULT: u32 = 6;
const CELL_BITS_DEFAULT: u32 = 6;
const COMPACT_BITS_DEFAULT: u32 = 16;
const LOW_BITS_DEFAULT: u32 = 3;
const CHUNK_CELLS_DEFAULT: u64 = 1024;

const NOTES: &str = "\
Counts:
  constant:20     every key 20 times
  uniform:0:20    0 to 20 times, all equally likely
  poisson:10      10 times on average, as with independent arrivals
  zipf:1.1        each arrival chooses the i-th key with a probability proportional to i^-1.1;
                  10 arrivals per key on average, or 25 with zipf:1.1:25

Keys with a count of 0 are not inserted. Every round also looks up the same
number of strangers: keys that were never inserted.
Limits: 200 million insertions per round, and 8 GiB of memory per run.";

/// Arguments of a custom simulation.
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub(super) struct SimulateCustomArgs {
    /// Number of keys, at most 10M; 10K and 1e4 mean 10000
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "10000", allow_negative_numbers = true)]
    keys: u64,

    /// Number of cells, at most 2^32; the one-line layout rounds up to whole lines of 128 cells
    #[arg(long, value_name = "M", value_parser = parse_count, default_value = "160000", allow_negative_numbers = true)]
    m: u64,

    /// Number of hash functions in the classical and compact layouts, at most 64 [default: 6]
    #[arg(long, value_name = "K", value_parser = parse_threshold, allow_negative_numbers = true)]
    k: Option<u32>,

    /// Classical layout: bits per cell, at most 16 [default: 6]. Compact layout: bits of the largest count, at most 16
    /// more than --low-bits [default: 16]
    #[arg(long, value_name = "BITS", value_parser = parse_threshold, allow_negative_numbers = true)]
    cell_bits: Option<u32>,

    /// Compact layout: number of low-order bits of each count kept in the base filter, at most 15 [default: 3]
    #[arg(long, value_name = "BITS", value_parser = parse_threshold, allow_negative_numbers = true)]
    low_bits: Option<u32>,

    /// Compact layout: number of cells per table, at most 65536 [default: 1024]
    #[arg(long, value_name = "N", value_parser = parse_count, allow_negative_numbers = true)]
    chunk_cells: Option<u64>,

    /// Distribution of the number of insertions per key, in one of the forms below
    #[arg(long, value_name = "COUNTS", default_value = "uniform:0:20")]
    counts: Counts,

    /// Order of the insertions
    #[arg(long, value_enum, default_value_t = OrderName::Shuffled)]
    order: OrderName,

    /// Number of servers that share the insertions at random and then merge their filters, at most 1000
    #[arg(long, value_name = "N", value_parser = parse_threshold, default_value = "1", allow_negative_numbers = true)]
    servers: u32,

    /// Cell layout
    #[arg(long, value_enum, default_value_t = LayoutName::Classical)]
    layout: LayoutName,

    /// Also print how often the count of a key reaches T although the key was inserted fewer than T times
    #[arg(long, value_name = "T", value_parser = parse_threshold, allow_negative_numbers = true)]
    threshold: Option<u32>,

    /// Hash family in the classical and compact layouts [default: universal]
    #[arg(long, value_enum)]
    hash: Option<Hash>,

    /// Number of rounds, each with new keys, counts and hash functions
    #[arg(long, value_name = "N", value_parser = parse_rounds, default_value = "100", allow_negative_numbers = true)]
    rounds: u64,

    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OrderName {
    /// Insert every key once, then every key again, and so on
    Rounds,
    /// Insert the first key up to its full count, then the next key, and so on
    Runs,
    /// Insert in random order
    Shuffled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LayoutName {
    /// Place a key's cells anywhere in the filter; simulate both the intuitive and the refined extension
    Classical,
    /// Like classical, but with shorter cells, and with tables for the high bits of large counts
    Compact,
    /// Place a key's six 4-bit cells in one 64-byte line; simulate the refined extension, as in production
    OneLine,
}

pub(super) fn run(arguments: &SimulateCustomArgs, output: &mut impl Write) -> Result<ExitCode, Failure> {
    let options = arguments.options()?;
    options.check().map_err(|error| Failure::BadInput(error.to_string()))?;
    let stop = interrupt::watch()?;
    let bar = progress::of_rounds(options.rounds);
    let result = run_custom(&options, &|| bar.inc(1), stop).map_err(|error| Failure::BadInput(error.to_string()))?;
    bar.finish_and_clear();
    let predictions = Predictions::new(&result, &options);
    let printed = arguments.print(&result, &options, predictions.as_ref(), output);
    if result.rounds < options.rounds {
        // Report the interruption even if printing failed because the output was closed.
        return Ok(interrupt::report(result.rounds, options.rounds, ""));
    }
    printed.map(|()| ExitCode::SUCCESS)
}

impl SimulateCustomArgs {
    fn print(
        &self,
        result: &CustomResult,
        options: &CustomOptions,
        predictions: Option<&Predictions>,
        output: &mut impl Write,
    ) -> Result<(), Failure> {
        match (self.common.json, result.rounds) {
            (true, _) => writeln!(output, "{:#}", json::custom(result, options, predictions))?,
            (false, 0) => {}
            (false, _) => print(result, options, predictions, output)?,
        }
        output.flush()?;
        Ok(())
    }

    /// Rejects options that do not apply to the layout.
    fn check_layout(&self) -> Result<(), Failure> {
        let shapes_cells = self.k.is_some() || self.cell_bits.is_some() || self.hash.is_some();
        let splits_cells = self.low_bits.is_some() || self.chunk_cells.is_some();
        let what = match self.layout {
            LayoutName::OneLine if shapes_cells => {
                "--k, --cell-bits and --hash do not apply to the one-line layout, which has six 4-bit cells per key"
            }
            LayoutName::Classical | LayoutName::OneLine if splits_cells => {
                "--low-bits and --chunk-cells apply to --layout compact only"
            }
            _ => return Ok(()),
        };
        Err(Failure::BadInput(what.into()))
    }

    fn options(&self) -> Result<CustomOptions, Failure> {
        self.check_layout()?;
        let cell_bits_default =
            if self.layout == LayoutName::Compact { COMPACT_BITS_DEFAULT } else { CELL_BITS_DEFAULT };
        Ok(CustomOptions {
            keys: self.keys,
            cells: self.m,
            hashes: self.k.unwrap_or(HASHES_DEFAULT),
            cell_bits: self.cell_bits.unwrap_or(cell_bits_default),
            low_bits: self.low_bits.unwrap_or(LOW_BITS_DEFAULT),
            chunk_cells: self.chunk_cells.unwrap_or(CHUNK_CELLS_DEFAULT),
            counts: self.counts,
            order: match self.order {
                OrderName::Rounds => Order::Rounds,
                OrderName::Runs => Order::Runs,
                OrderName::Shuffled => Order::Shuffled,
            },
            servers: self.servers,
            layout: match self.layout {
                LayoutName::Classical => CustomLayout::Classical,
                LayoutName::Compact => CustomLayout::Compact,
                LayoutName::OneLine => CustomLayout::OneLine,
            },
            family: self.hash.map_or_else(Default::default, Into::into),
            threshold: self.threshold,
            rounds: self.rounds,
            seed: self.common.seed,
            threads: self.common.threads(),
        })
    }
}

/// Predicted shares of strangers (keys that were never inserted) whose count reaches the threshold.
pub(super) struct Predictions {
    pub(super) threshold: u32,
    /// Natural logarithm of the paper's equation (4), for the actual number of insertions.
    pub(super) ln_equation_4: f64,
    /// Number of keys whose count is at least the threshold.
    pub(super) bulk_keys: u64,
    /// False-positive rate of a plain filter that contains only those keys.
    pub(super) bulk_keys_alone: f64,
}

impl Predictions {
    /// Returns predictions if there is a threshold and the layout has a `k`.
    fn new(result: &CustomResult, options: &CustomOptions) -> Option<Self> {
        let threshold = options.threshold.filter(|_| options.layout != CustomLayout::OneLine)?;
        let insertions = result.insertions.mean().round() as u64;
        let bulk_keys = result.bulk_keys.mean().round() as u64;
        Some(Self {
            threshold,
            ln_equation_4: ln_bulk_rate(insertions, options.cells, options.hashes, threshold, None),
            bulk_keys,
            bulk_keys_alone: classical_rate(bulk_keys, options.cells, options.hashes),
        })
    }

    fn print(&self, output: &mut impl Write) -> Result<(), Failure> {
        let Self { threshold, ln_equation_4, bulk_keys, bulk_keys_alone } = self;
        let lines = [
            (scientific_of_ln(*ln_equation_4), "equation (4), which treats every insertion as a new key".into()),
            (
                scientific(*bulk_keys_alone),
                format!("a filter of only the {} keys that occurred {threshold} times or more", grouped(*bulk_keys)),
            ),
        ];
        writeln!(output, "\nPredicted share of strangers that reach {threshold}:")?;
        lines.iter().try_for_each(|(rate, what)| writeln!(output, "  {rate:<9}  {what}"))?;
        Ok(())
    }
}

fn print(
    result: &CustomResult,
    options: &CustomOptions,
    predictions: Option<&Predictions>,
    output: &mut impl Write,
) -> Result<(), Failure> {
    writeln!(
        output,
        "{} keys, {}, {}: {} insertions a round",
        grouped(options.keys),
        options.counts,
        options.order,
        grouped(result.insertions.mean().round() as u64)
    )?;
    writeln!(output, "{}", filter_line(options))?;
    writeln!(output, "{}, seed {}; means ± standard errors\n", counted(result.rounds, "round"), options.seed)?;
    print_systems(result, options, output)?;
    predictions.map_or(Ok(()), |predictions| predictions.print(output))
}

fn filter_line(options: &CustomOptions) -> String {
    let cells = grouped(options.cells);
    match options.layout {
        CustomLayout::Classical => {
            let (bits, hashes, family) = (options.cell_bits, options.hashes, options.family);
            format!("{cells} cells of {bits} bits, {hashes} hash functions, {family} hashing")
        }
        CustomLayout::Compact => {
            let CustomOptions { low_bits, cell_bits, hashes, family, .. } = options;
            let (high_bits, chunk) = (cell_bits - low_bits, counted(options.chunk_cells, "cell"));
            format!(
                "{cells} cells of {low_bits} bits and a flag, one table of {high_bits}-bit high parts per {chunk}, \
                 {hashes} hash functions, {family} hashing"
            )
        }
        CustomLayout::OneLine => {
            let lines = grouped(options.cells.div_ceil(LINE_CELLS));
            format!("{cells} cells of 4 bits in {lines} lines, 6 cells per key, counts above 15 in separate records")
        }
    }
}

/// Label of a row, and the function that returns its values.
type Row = (String, fn(&SystemResult) -> &Moments);

fn print_systems(result: &CustomResult, options: &CustomOptions, output: &mut impl Write) -> Result<(), Failure> {
    let mut rows: Vec<Row> = vec![
        ("wrong counts per insertion".into(), |system| &system.rate),
        ("wrong counts per key".into(), |system| &system.distinct_rate),
        ("mean over-count per key".into(), |system| &system.over_count),
        ("keys above the maximum of a cell".into(), |system| &system.clipped),
        ("strangers with a count above 0".into(), |system| &system.strangers_seen),
    ];
    if let Some(threshold) = options.threshold {
        rows.push((format!("keys below {threshold} that reach it"), |system| &system.false_bulk));
        rows.push((format!("strangers that reach {threshold}"), |system| &system.strangers_bulk));
    }
    print_row("", result.systems.iter().map(system_name), output)?;
    for (label, moments) in rows {
        let cells = result.systems.iter().map(|system| with_error(moments(system)));
        print_row(&label, cells, output)?;
    }
    let bytes = |moments: &Moments| human_bytes(moments.mean() as u64);
    print_row("memory", result.systems.iter().map(|system| bytes(&system.bytes)), output)?;
    if options.layout == CustomLayout::Compact {
        let computed = result.systems.iter().map(|system| bytes(&system.computed_bytes));
        print_row("memory without room to grow", computed, output)?;
    }
    Ok(())
}

/// Formats a mean and its error: `1.046e-4 ± 1e-5`, or `-` if there are no samples.
fn with_error(moments: &Moments) -> String {
    match moments.mean() {
        _ if moments.count() == 0 => "-".into(),
        0.0 => "0".into(),
        mean if moments.count() == 1 => scientific(mean),
        mean => format!("{} ± {:.0e}", scientific(mean), moments.standard_error()),
    }
}

fn system_name(system: &SystemResult) -> String {
    if system.servers > 1 {
        format!("{}, {} merged", system.extension, system.servers)
    } else {
        system.extension.to_string()
    }
}

fn print_row(label: &str, cells: impl Iterator<Item = String>, output: &mut impl Write) -> Result<(), Failure> {
    let cells: String = cells.map(|cell| format!("  {cell:<20}")).collect();
    writeln!(output, "{label:<34}{}", cells.trim_end())?;
    Ok(())
}
