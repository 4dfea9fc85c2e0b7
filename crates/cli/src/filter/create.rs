//! `bruit filter create`.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bruit_filters::KeyId;
use bruit_filters::bloom::{ClassicalFilter, OneLineFilter};
use bruit_filters::counting::{CELL_BITS_MAX, CountingFilter, Extension, OneLineCounts};
use bruit_filters::file::{self, FilterFile, History, Label, Origin, Stored as _, StoredFilter};
use bruit_filters::hash::FingerprintHash;
use bruit_filters::sizing::{CountingPlan, Goal, Layout, MembershipPlan};

use super::pair::revoked_path;
use super::storage::{open_filter, payload_bytes};
use bruit_console::Failure;
use bruit_console::files::{Output, bad_file, ensure_may_write, ensure_memory, write_atomically};
use bruit_console::keys::random_key;
use bruit_console::quantity::{grouped, human_bytes, parse_bytes, parse_count, parse_rate, scientific};

const RATE_DEFAULT: f64 = 1e-3;
/// Default number of bits per cell.
const CELL_BITS_DEFAULT: u32 = 4;

/// Arguments of `bruit filter create`.
#[derive(Debug, clap::Args)]
pub(super) struct FilterCreateArgs {
    /// File to create; it will contain a secret key
    file: PathBuf,

    /// Number of keys that the filter is sized for: 400000, 400_000, 4e5, 10M
    #[arg(long, value_name = "N", value_parser = parse_count, required_unless_present = "like", allow_hyphen_values = true)]
    signatures: Option<u64>,

    /// Maximum false-positive rate, between 0 and 1 [default: 1e-3]
    #[arg(long, value_name = "F", value_parser = parse_rate, conflicts_with = "memory")]
    false_positive_rate: Option<f64>,

    /// Memory for the filter, instead of a rate: 64M and 64MiB mean 2^26 bytes, 64MB means 64000000 bytes
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    memory: Option<u64>,

    /// Count how often each key is added: up to 4294967295 in the one-line layout, up to the maximum of a cell
    /// in the classical layout
    #[arg(long)]
    counts: bool,

    /// Count with this rule: refined increments only the lowest cells of a key and is more accurate; intuitive
    /// increments all its cells, so that keys can be removed [default with --counts: refined]
    #[arg(long, value_name = "EXTENSION")]
    counting: Option<CountingArgument>,

    /// Bits per cell, 1 to 16, for counts up to 2^BITS - 1; classical layout only [default: 4]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(1..=i64::from(CELL_BITS_MAX)))]
    cell_bits: Option<u32>,

    /// Cell layout: one-line is faster, classical a few per cent smaller [default: one-line; classical with
    /// --cell-bits or --counting intuitive]
    #[arg(long, value_name = "LAYOUT")]
    layout: Option<LayoutArgument>,

    /// Create a spam filter, and a revocation filter FILE.revoked with the same size and key
    #[arg(long, conflicts_with_all = ["counts", "counting", "cell_bits"])]
    pair: bool,

    /// Create an empty filter with the parameters and key of FILE, so that the two can be merged
    #[arg(long, value_name = "FILE", conflicts_with_all =
        ["signatures", "false_positive_rate", "memory", "counts", "counting", "cell_bits", "layout"])]
    like: Option<PathBuf>,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LayoutArgument {
    OneLine,
    Classical,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CountingArgument {
    Intuitive,
    Refined,
}

impl From<CountingArgument> for Extension {
    fn from(counting: CountingArgument) -> Self {
        match counting {
            CountingArgument::Intuitive => Self::Intuitive,
            CountingArgument::Refined => Self::Refined,
        }
    }
}

impl From<LayoutArgument> for Layout {
    fn from(layout: LayoutArgument) -> Self {
        match layout {
            LayoutArgument::OneLine => Self::OneLine,
            LayoutArgument::Classical => Self::Classical,
        }
    }
}

pub(super) fn run(arguments: &FilterCreateArgs, output: &mut impl Write) -> Result<(), Failure> {
    let (filter, label, note) = match &arguments.like {
        Some(like) => make_like(like)?,
        None => make(arguments)?,
    };
    if arguments.pair && filter.shape().kind.counts() {
        return Err(bad_file(&arguments.file, "a pair cannot have counts"));
    }
    let size = human_bytes(payload_bytes(&filter));
    let history = if filter.shape().kind.counts() { Some(History::new(random_origin()?)) } else { None };
    let made = FilterFile::new(filter, label, history).map_err(|error| bad_file(&arguments.file, error))?;
    let paths: Vec<PathBuf> = if arguments.pair {
        vec![revoked_path(&arguments.file), arguments.file.clone()]
    } else {
        vec![arguments.file.clone()]
    };
    let kind = Output::New { force: arguments.force };
    paths.iter().try_for_each(|path| ensure_may_write(path, kind))?;
    for path in &paths {
        write_atomically(path, kind, |file| made.write(file).map_err(|error| bad_file(path, error)))?;
    }
    let revoked = if arguments.pair { " each, with a revocation filter" } else { "" };
    writeln!(
        output,
        "{}: {note}, {size}{revoked}; contains its secret key, so keep the file private",
        arguments.file.display()
    )?;
    Ok(())
}

type NewFilter = (StoredFilter, Label, String);

fn make_like(path: &Path) -> Result<NewFilter, Failure> {
    let (mut input, _) = open_filter(path)?;
    let (header, key) = file::read_header(&mut input).map_err(|error| bad_file(path, error))?;
    ensure_memory("a filter", header.payload_bytes()).map_err(|what| bad_file(path, what))?;
    let label = Label { generation: header.generation, key };
    let empty = StoredFilter::empty(&header).map_err(|error| bad_file(path, error))?;
    Ok((empty, label, format!("like {}", path.display())))
}

fn make(arguments: &FilterCreateArgs) -> Result<NewFilter, Failure> {
    let key = random_key()?;
    let signatures = arguments.signatures.unwrap_or_default();
    let goal = match arguments.memory {
        Some(bytes) => Goal::Memory(bytes),
        None => Goal::Rate(arguments.false_positive_rate.unwrap_or(RATE_DEFAULT)),
    };
    let planned = match counts_wanted(arguments)? {
        Some(wanted) => counts(wanted, signatures, goal, key.id()),
        None => membership(layout_or(arguments, Layout::OneLine), signatures, goal, key.id()),
    };
    let (filter, rate) = planned.map_err(|what| bad_file(&arguments.file, what))?;
    let note = format!("for {} keys at a false-positive rate of {}", grouped(signatures), scientific(rate));
    Ok((filter, Label { generation: 0, key: Some(key) }, note))
}

fn layout_or(arguments: &FilterCreateArgs, usual: Layout) -> Layout {
    arguments.layout.map_or(usual, Into::into)
}

/// Parameters of a counting filter.
#[derive(Clone, Copy)]
struct CountingOptions {
    layout: Layout,
    extension: Extension,
    cell_bits: u32,
}

/// Returns the counting parameters that the options select, or `None` for a membership filter.
fn counts_wanted(arguments: &FilterCreateArgs) -> Result<Option<CountingOptions>, Failure> {
    let FilterCreateArgs { counts, counting, cell_bits, .. } = arguments;
    if !counts && counting.is_none() {
        return match cell_bits {
            Some(_) => Err(Failure::BadInput("--cell-bits requires --counts or --counting".into())),
            None => Ok(None),
        };
    }
    let extension = counting.map_or(Extension::Refined, Into::into);
    let is_classical = cell_bits.is_some() || extension == Extension::Intuitive;
    let layout = layout_or(arguments, if is_classical { Layout::Classical } else { Layout::OneLine });
    if layout == Layout::OneLine && is_classical {
        let text = "one-line counts are refined, and their cells have 4 bits; use --layout classical for other counts";
        return Err(Failure::BadInput(text.into()));
    }
    Ok(Some(CountingOptions { layout, extension, cell_bits: cell_bits.unwrap_or(CELL_BITS_DEFAULT) }))
}

/// Returns a random identifier for the origin of counts.
fn random_origin() -> Result<Origin, Failure> {
    let mut bytes = [0; 8];
    let filled = getrandom::fill(&mut bytes).map_err(anyhow::Error::from);
    filled.context("failed to get random bytes for the origin").map_err(Failure::Other)?;
    Ok(Origin(u64::from_le_bytes(bytes)))
}

fn membership(layout: Layout, signatures: u64, goal: Goal, key_id: KeyId) -> Result<(StoredFilter, f64), String> {
    let plan = MembershipPlan::new(layout, signatures, goal).map_err(as_text)?;
    ensure_memory("a filter", plan.bytes)?;
    let filter = match layout {
        Layout::OneLine => {
            if plan.bytes / 64 > u32::MAX.into() {
                return Err("one-line filters are limited to 256 GiB; use --layout classical".into());
            }
            StoredFilter::OneLineMembership(OneLineFilter::from_plan(&plan, key_id).map_err(as_text)?)
        }
        _ => {
            let hash = FingerprintHash::new(plan.cells, plan.hashes, plan.fingerprint_bits, key_id);
            StoredFilter::ClassicalMembership(ClassicalFilter::new(hash.map_err(as_text)?).map_err(as_text)?)
        }
    };
    Ok((filter, plan.false_positive_rate))
}

fn counts(wanted: CountingOptions, signatures: u64, goal: Goal, key_id: KeyId) -> Result<(StoredFilter, f64), String> {
    let plan = match wanted.layout {
        Layout::Classical => CountingPlan::classical(signatures, goal, wanted.cell_bits),
        layout => CountingPlan::new(layout, signatures, goal),
    };
    let plan = plan.map_err(as_text)?;
    ensure_memory("a filter", plan.bytes)?;
    let filter = match plan.lines() {
        Some(lines) => {
            let lines =
                u32::try_from(lines).map_err(|_| "one-line counts are limited to 256 GiB; use --layout classical")?;
            StoredFilter::OneLineCounts(OneLineCounts::new(lines as usize, key_id).map_err(as_text)?)
        }
        None => {
            let hash = FingerprintHash::new(plan.cells, plan.hashes, plan.fingerprint_bits, key_id);
            let filter = CountingFilter::new(hash.map_err(as_text)?, wanted.extension, plan.cell_bits);
            StoredFilter::ClassicalCounts(filter.map_err(as_text)?)
        }
    };
    Ok((filter, plan.false_positive_rate))
}

fn as_text(error: impl std::error::Error) -> String {
    error.to_string()
}
