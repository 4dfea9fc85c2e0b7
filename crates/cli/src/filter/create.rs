//! `bruit filter create`.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bruit_filters::bloom::{ClassicalFilter, OneLineFilter};
use bruit_filters::counting::{CountingFilter, Extension, OneLineCounts};
use bruit_filters::file::{self, Label, StoredFilter};
use bruit_filters::hash::FingerprintHash;
use bruit_filters::sizing::{CountingPlan, Goal, Layout, MembershipPlan, SizingError};
use bruit_filters::{FingerprintKey, KeyId};

use super::storage::{Output, ensure_memory, open_filter, payload_bytes, write_atomically, wrong};
use crate::failure::Failure;
use crate::quantity::{grouped, human_bytes, parse_bytes, parse_count, parse_rate, scientific};

const RATE_DEFAULT: f64 = 1e-3;

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

    /// Count how often each key is added, instead of only whether: to 4294967295 in the one-line layout, to 15 in the
    /// classical one
    #[arg(long)]
    counts: bool,

    /// Where the bits of a key lie: one-line is faster, classical a few per cent smaller
    #[arg(long, value_name = "LAYOUT", default_value = "one-line")]
    layout: LayoutArgument,

    /// Make an empty filter with the parameters and the key of FILE, so that the two can be merged
    #[arg(long, value_name = "FILE", conflicts_with_all =
        ["signatures", "false_positive_rate", "memory", "counts", "layout"])]
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
    write_atomically(&arguments.file, Output::NewFilter { force: arguments.force }, |file| {
        file::encode(&filter, &label, file).map_err(|error| wrong(&arguments.file, error))
    })?;
    let size = human_bytes(payload_bytes(&filter));
    writeln!(output, "{}: {note}, {size}; the key is inside, keep it secret", arguments.file.display())?;
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
    let layout = arguments.layout.into();
    let planned = if arguments.counts {
        counts(layout, signatures, goal, key.id())
    } else {
        membership(layout, signatures, goal, key.id())
    };
    let (filter, rate) = planned.map_err(|what| wrong(&arguments.file, what))?;
    let note = format!("for {} keys at a false-positive rate of {}", grouped(signatures), scientific(rate));
    Ok((filter, Label { generation: 0, key: Some(key) }, note))
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

fn counts(layout: Layout, signatures: u64, goal: Goal, key_id: KeyId) -> Result<(StoredFilter, f64), String> {
    let plan = CountingPlan::new(layout, signatures, goal).map_err(as_text)?;
    ensure_memory("a filter", plan.bytes)?;
    let filter = match plan.lines() {
        Some(lines) => {
            let lines = u32::try_from(lines).map_err(|_| "one-line counts end at 256 GiB; try --layout classical")?;
            StoredFilter::OneLineCounts(OneLineCounts::new(lines as usize, key_id))
        }
        None => {
            let hash = FingerprintHash::new(plan.cells, plan.hashes, plan.fingerprint_bits, key_id);
            let filter = CountingFilter::new(hash, Extension::Refined, plan.cell_bits);
            StoredFilter::ClassicalCounts(filter.map_err(|error| error.to_string())?)
        }
    };
    Ok((filter, plan.false_positive_rate))
}

fn as_text(error: SizingError) -> String {
    error.to_string()
}
