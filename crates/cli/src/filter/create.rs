//! `bruit filter create`.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bruit_filters::bloom::{ClassicalFilter, OneLineFilter};
use bruit_filters::counting::{CELL_BITS_MAX, CountingFilter, Extension, OneLineCounts};
use bruit_filters::file::{self, FilterFile, History, Label, Origin, Stored as _, StoredFilter};
use bruit_filters::hash::FingerprintHash;
use bruit_filters::sizing::{CountingPlan, Goal, Layout, MembershipPlan, SizingError};
use bruit_filters::{FingerprintKey, KeyId};

use super::pair::revoked_path;
use super::storage::{Output, ensure_may_write, ensure_memory, open_filter, payload_bytes, write_atomically, wrong};
use crate::failure::Failure;
use crate::quantity::{grouped, human_bytes, parse_bytes, parse_count, parse_rate, scientific};

const RATE_DEFAULT: f64 = 1e-3;
/// Bits of a cell unless another width is asked for.
const CELL_BITS_DEFAULT: u32 = 4;

/// What `bruit filter create` is asked.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// The file to make; it will hold a secret key
    file: PathBuf,

    /// How many keys it will hold: 400000, 400_000, 4e5, 10M
    #[arg(long, value_name = "N", value_parser = parse_count, required_unless_present = "like", allow_hyphen_values = true)]
    signatures: Option<u64>,

    /// Highest share of unknown keys that may be taken for known [default: 1e-3]
    #[arg(long, value_name = "F", value_parser = parse_rate, conflicts_with = "memory")]
    false_positive_rate: Option<f64>,

    /// Memory it may take instead: 64M and 64MiB are 2^26 bytes, 64MB is 64000000
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    memory: Option<u64>,

    /// Count how often each key is added, instead of only whether: to 4294967295 in the one-line layout, to the top of a
    /// cell in the classical one
    #[arg(long)]
    counts: bool,

    /// Count, and choose how an addition raises the cells of its key: refined raises only the lowest and errs less,
    /// intuitive raises all, so that keys can be removed [default with --counts: refined]
    #[arg(long, value_name = "EXTENSION")]
    counting: Option<CountingArgument>,

    /// Bits of a cell, 1 to 16: counts end at 2^BITS - 1. Classical layout only [default: 4]
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(1..=i64::from(CELL_BITS_MAX)))]
    cell_bits: Option<u32>,

    /// Where the cells of a key lie: one-line is faster, classical a few per cent smaller [default: one-line; classical
    /// with --cell-bits or --counting intuitive]
    #[arg(long, value_name = "LAYOUT")]
    layout: Option<LayoutArgument>,

    /// Make a spam filter and beside it, as FILE.revoked, a revocation filter of the same size and key
    #[arg(long, conflicts_with_all = ["counts", "counting", "cell_bits"])]
    pair: bool,

    /// Make an empty filter with the parameters and the key of FILE, so that the two can be merged
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

pub(super) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<(), Failure> {
    let (filter, label, note) = match &arguments.like {
        Some(like) => make_like(like)?,
        None => make(arguments)?,
    };
    if arguments.pair && filter.shape().kind.counts() {
        return Err(wrong(&arguments.file, "a pair holds no counts"));
    }
    let size = human_bytes(payload_bytes(&filter));
    let history = if filter.shape().kind.counts() { Some(History::new(random_origin()?)) } else { None };
    let made = FilterFile::new(filter, label, history).map_err(|error| wrong(&arguments.file, error))?;
    let paths: Vec<PathBuf> = if arguments.pair {
        vec![revoked_path(&arguments.file), arguments.file.clone()]
    } else {
        vec![arguments.file.clone()]
    };
    let kind = Output::NewFilter { force: arguments.force };
    paths.iter().try_for_each(|path| ensure_may_write(path, kind))?;
    for path in &paths {
        write_atomically(path, kind, |file| made.write(file).map_err(|error| wrong(path, error)))?;
    }
    let revoked = if arguments.pair { " each, with a revocation filter beside it" } else { "" };
    writeln!(output, "{}: {note}, {size}{revoked}; the key is inside, keep it secret", arguments.file.display())?;
    Ok(())
}

type Made = (StoredFilter, Label, String);

fn make_like(path: &Path) -> Result<Made, Failure> {
    let (mut input, _) = open_filter(path)?;
    let (header, key) = file::read_header(&mut input).map_err(|error| wrong(path, error))?;
    ensure_memory("a filter", header.payload_bytes()).map_err(|what| wrong(path, what))?;
    let label = Label { generation: header.generation, key };
    Ok((StoredFilter::empty(&header), label, format!("like {}", path.display())))
}

fn make(arguments: &Arguments) -> Result<Made, Failure> {
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
    let (filter, rate) = planned.map_err(|what| wrong(&arguments.file, what))?;
    let note = format!("for {} keys at a false-positive rate of {}", grouped(signatures), scientific(rate));
    Ok((filter, Label { generation: 0, key: Some(key) }, note))
}

fn layout_or(arguments: &Arguments, usual: Layout) -> Layout {
    arguments.layout.map_or(usual, Into::into)
}

/// The counts that were asked for.
#[derive(Clone, Copy)]
struct CountsWanted {
    layout: Layout,
    extension: Extension,
    cell_bits: u32,
}

/// The counts that the options describe; none for membership.
fn counts_wanted(arguments: &Arguments) -> Result<Option<CountsWanted>, Failure> {
    let Arguments { counts, counting, cell_bits, .. } = arguments;
    if !counts && counting.is_none() {
        return match cell_bits {
            Some(_) => {
                Err(Failure::BadInput("--cell-bits needs --counts or --counting: only counts have cells".into()))
            }
            None => Ok(None),
        };
    }
    let extension = counting.map_or(Extension::Refined, Into::into);
    let is_classical = cell_bits.is_some() || extension == Extension::Intuitive;
    let layout = layout_or(arguments, if is_classical { Layout::Classical } else { Layout::OneLine });
    if layout == Layout::OneLine && is_classical {
        let text = "one-line counts are refined, in cells of 4 bits with records above 15; use --layout classical";
        return Err(Failure::BadInput(text.into()));
    }
    Ok(Some(CountsWanted { layout, extension, cell_bits: cell_bits.unwrap_or(CELL_BITS_DEFAULT) }))
}

/// A number that no other filter has.
fn random_origin() -> Result<Origin, Failure> {
    let mut bytes = [0; 8];
    let filled = getrandom::fill(&mut bytes).map_err(anyhow::Error::from);
    filled.context("failed to get random bytes for the origin").map_err(Failure::Other)?;
    Ok(Origin(u64::from_le_bytes(bytes)))
}

/// A key that nobody else has.
pub(crate) fn random_key() -> Result<FingerprintKey, Failure> {
    let mut bytes = [0; 16];
    let filled = getrandom::fill(&mut bytes).map_err(anyhow::Error::from);
    filled.context("failed to get random bytes for the key").map_err(Failure::Other)?;
    Ok(FingerprintKey::new(bytes))
}

fn membership(layout: Layout, signatures: u64, goal: Goal, key_id: KeyId) -> Result<(StoredFilter, f64), String> {
    let plan = MembershipPlan::new(layout, signatures, goal).map_err(as_text)?;
    ensure_memory("a filter", plan.bytes)?;
    let filter = match layout {
        Layout::OneLine => {
            if plan.bytes / 64 > u32::MAX.into() {
                return Err("one-line filters end at 256 GiB; try --layout classical".into());
            }
            StoredFilter::OneLineMembership(OneLineFilter::from_plan(&plan, key_id))
        }
        _ => {
            let hash = FingerprintHash::new(plan.cells, plan.hashes, plan.fingerprint_bits, key_id);
            StoredFilter::ClassicalMembership(ClassicalFilter::new(hash))
        }
    };
    Ok((filter, plan.false_positive_rate))
}

fn counts(wanted: CountsWanted, signatures: u64, goal: Goal, key_id: KeyId) -> Result<(StoredFilter, f64), String> {
    let plan = match wanted.layout {
        Layout::Classical => CountingPlan::classical(signatures, goal, wanted.cell_bits),
        layout => CountingPlan::new(layout, signatures, goal),
    };
    let plan = plan.map_err(as_text)?;
    ensure_memory("a filter", plan.bytes)?;
    let filter = match plan.lines() {
        Some(lines) => {
            let lines = u32::try_from(lines).map_err(|_| "one-line counts end at 256 GiB; try --layout classical")?;
            StoredFilter::OneLineCounts(OneLineCounts::new(lines as usize, key_id))
        }
        None => {
            let hash = FingerprintHash::new(plan.cells, plan.hashes, plan.fingerprint_bits, key_id);
            let filter = CountingFilter::new(hash, wanted.extension, plan.cell_bits);
            StoredFilter::ClassicalCounts(filter.map_err(|error| error.to_string())?)
        }
    };
    Ok((filter, plan.false_positive_rate))
}

fn as_text(error: SizingError) -> String {
    error.to_string()
}
