//! The survey's two tables of block-based and hierarchical filters, with our measurements.
//!
//! The study records payloads of 32 blocks in a classical filter. The survey does not state the size of its filters, or
//! at how many places in a payload it looks for an excerpt. The survey's rates for one block agree with a search of 32
//! or 33 places: they are 1 − (1 − f)^32, where f is the basic rate (the false-positive rate of a single digest). So
//! this study looks up an excerpt of x blocks at one alignment and at all offsets of a payload.

use std::io;

use bruit_filters::FingerprintKey;
use bruit_filters::bloom::ClassicalFilter;
use bruit_filters::hash::FingerprintHash;
use bruit_structures::blocks::{BlockFilter, BlockShape, Chance, Digester, Label};

use crate::keys::mixed;
use crate::report::{Figure, Report, Target};

/// Number of blocks in a payload.
const PAYLOAD_BLOCKS: usize = 32;
/// Number of payloads in a filter.
const PAYLOADS: u64 = 1000;
/// Size of a block, large enough for random contents to be distinct. The rates do not depend on it.
const BLOCK_BYTES: usize = 8;
/// Number of levels. On these levels, a payload has 32, 16, 8, 4, 2 and 1 blocks.
const LEVELS: u32 = 6;
/// Number of excerpts from which each figure is computed.
const EXCERPTS: u64 = 100_000;

/// The rows of the survey's table: bits per digest, number of hash functions, basic rate, and effective rates for 1 to
/// 4 blocks (0 where the survey prints a dash).
const SURVEY: [(u64, u32, f64, [f64; 4]); 5] = [
    (2, 1, 0.3930, [1.0, 0.063758, 0.012081, 0.000820]),
    (3, 2, 0.2370, [0.999885, 0.064569, 0.002620, 0.000230]),
    (4, 2, 0.1550, [0.996099, 0.048981, 0.000744, 0.000060]),
    (5, 2, 0.1090, [0.976179, 0.036060, 0.000275, 0.000020]),
    (6, 2, 0.0804, [0.933179, 0.026212, 0.000172, 0.0]),
];

/// The survey's effective rates of both filters, with equal memory, for 2 to 5 blocks.
const SURVEY_EQUAL: [(f64, f64); 4] =
    [(0.049621, 0.016547), (0.035129, 0.000720), (0.000560, 0.000110), (0.000088, 0.0)];

/// Bits per digest of the hierarchical filter in the comparison with equal memory.
const EQUAL_BITS_PER_DIGEST: u64 = 5;
const EQUAL_HASHES: u32 = 2;

type Filter = BlockFilter<ClassicalFilter<FingerprintHash>>;

/// Measures the effective rate of the hierarchical filter for each basic rate and number of blocks.
pub(super) fn effective_rates(report: &mut Report) -> io::Result<()> {
    for (bits_per_digest, hashes, basic, survey) in SURVEY {
        let digests = PAYLOADS * shape(LEVELS).digests_of(PAYLOAD_BLOCKS) as u64;
        let filter = filled(LEVELS, digests * bits_per_digest, hashes);
        let chance = filter.chance(0);
        for (blocks, survey) in (1..).zip(survey) {
            let rate = found(&filter, blocks, random_excerpt);
            let predicted = Chance::of_any(chance.expected_offsets(blocks));
            let name = format!("effective rate of HBF for {blocks} blocks, basic rate {basic:.4}");
            let note = format!(
                "{rate:.6}, predicted {predicted:.6}, survey {survey:.6}; measured basic rate {:.4}",
                chance.rate
            );
            report.add(Figure::new(name, rate, Target::None, note))?;
        }
    }
    Ok(())
}

/// Compares both filters at equal memory. The excerpts are contents that were never recorded, and blocks that were
/// recorded in different payloads.
pub(super) fn equal_memory(report: &mut Report) -> io::Result<()> {
    let cells = PAYLOADS * shape(LEVELS).digests_of(PAYLOAD_BLOCKS) as u64 * EQUAL_BITS_PER_DIGEST;
    let (flat, hierarchical) = (filled(1, cells, EQUAL_HASHES), filled(LEVELS, cells, EQUAL_HASHES));
    let note = format!(
        "measured basic rates of BBF and HBF {:.4} and {:.4}",
        flat.chance(0).rate,
        hierarchical.chance(0).rate
    );
    for (blocks, survey) in (2..).zip(SURVEY_EQUAL) {
        let note = format!("survey {:.6} for BBF, {:.6} for HBF; {note}", survey.0, survey.1);
        for (name, filter) in [("BBF", &flat), ("HBF", &hierarchical)] {
            for (which, rate) in [
                ("never recorded", found(filter, blocks, random_excerpt)),
                ("from different payloads", found(filter, blocks, recombined_excerpt)),
            ] {
                let name = format!("effective rate of {name} at equal memory, {blocks} blocks {which}");
                report.add(Figure::new(name, rate, Target::None, format!("{rate:.6}; {note}")))?;
            }
        }
    }
    Ok(())
}

fn shape(levels: u32) -> BlockShape {
    BlockShape::new(BLOCK_BYTES as u32, levels).expect("a valid shape")
}

fn filled(levels: u32, cells: u64, hashes: u32) -> Filter {
    let key = FingerprintKey::new([8; 16]);
    let hash = FingerprintHash::new(cells, hashes, 64, key.id()).unwrap();
    let mut filter = BlockFilter::new(Digester::new(&key, shape(levels)), ClassicalFilter::new(hash).unwrap());
    (0..PAYLOADS).for_each(|payload| filter.insert(&recorded(payload), Label::Offset));
    filter
}

/// Returns the content of payload number `payload`.
fn recorded(payload: u64) -> Vec<u8> {
    (0..PAYLOAD_BLOCKS as u64).flat_map(|block| recorded_block(payload, block)).collect()
}

fn recorded_block(payload: u64, block: u64) -> [u8; BLOCK_BYTES] {
    mixed(payload << 8 | block).to_le_bytes()
}

/// Returns content that occurs in no payload.
fn random_excerpt(number: u64, blocks: usize) -> Vec<u8> {
    (0..blocks as u64).flat_map(|block| mixed(1 << 60 | number << 8 | block).to_le_bytes()).collect()
}

/// Returns blocks at consecutive offsets, each from a different payload.
fn recombined_excerpt(number: u64, blocks: usize) -> Vec<u8> {
    let draw = mixed(1 << 61 | number);
    let offset = draw % (PAYLOAD_BLOCKS - blocks + 1) as u64;
    let payload = (draw >> 32) % PAYLOADS;
    (0..blocks as u64).flat_map(|block| recorded_block((payload + block) % PAYLOADS, offset + block)).collect()
}

/// Returns the share of excerpts for which the filter finds all blocks.
fn found(filter: &Filter, blocks: usize, excerpt: impl Fn(u64, usize) -> Vec<u8>) -> f64 {
    let is_found = |number: &u64| {
        // At other alignments, the excerpt has one block fewer than a match requires.
        let runs = filter.search(&excerpt(*number, blocks), Label::Offset, blocks);
        !runs.expect("the excerpt has enough blocks").is_empty()
    };
    (0..EXCERPTS).filter(is_found).count() as f64 / EXCERPTS as f64
}
