//! Asking a page.

use std::collections::HashMap;
use std::ops::Range;

use bruit_filters::Fingerprint;
use bruit_filters::blocks::{Chance, Digester, Label, Run, SearchError};
use bruit_filters::bloom::MembershipFilter;

use super::pairs::pair_id;
use super::{Listed, Page};
use crate::pages::Span;

/// Blocks that an answer has at least: one block alone is found somewhere by chance in any page that is well used, as the survey
/// shows ("don't use HBF to attribute blocks of length one").
pub const BLOCKS_MIN: usize = 2;

/// A part of the excerpt, when not all of it is found, is told if fewer than this many are expected by chance.
const PART_EXPECTED_MAX: f64 = 0.01;

/// Pairs that are asked for in one batch.
const BATCH_PAIRS: usize = 1024;

/// What one page says of an excerpt.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What the page is about.
    pub span: Span,
    /// The longest part that was found in any payload; none if the excerpt was not carried in this span.
    pub part: Option<Part>,
    /// Which pairs carried it, those that carried most first.
    pub attributions: Vec<Attribution>,
    /// How many pairs there are.
    pub pairs: usize,
    /// Payloads of pairs for which the list had no room: they may have carried it and cannot be named.
    pub unlisted: u64,
}

/// A part of an excerpt.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Which bytes of the excerpt, in whole blocks.
    pub bytes: Range<usize>,
    /// Whether the excerpt has no more whole blocks at this alignment.
    pub is_whole: bool,
    /// Where in a payload, in bytes; of a long part of a mail, in its piece of 64 KiB.
    pub offset_bytes: usize,
    /// How many like it would be found by chance, if nothing of it had been recorded.
    pub expected_by_chance: f64,
}

impl Part {
    /// The probability that chance shows none like it.
    #[must_use]
    pub fn confidence(&self) -> f64 {
        (-self.expected_by_chance).exp()
    }
}

/// That a pair carried the excerpt, or a part of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribution {
    /// Who, and the first and last time that anything of theirs is in the page.
    pub listed: Listed,
    /// What they carried. By chance are expected so many *pairs* of this page.
    pub part: Part,
}

/// What `page` knows of `excerpt`.
///
/// # Errors
/// [`SearchError`] if the excerpt has fewer than [`BLOCKS_MIN`] blocks, or is too long.
pub fn query(page: &Page, excerpt: &[u8]) -> Result<Answer, SearchError> {
    let chance = page.offsets.chance(excerpt.len());
    let mut runs = page.offsets.search(excerpt, Label::Offset, BLOCKS_MIN)?;
    let shape = page.offsets.shape();
    runs.retain(|run| run.is_whole(shape, excerpt.len()) || chance.expected_runs(run.blocks) <= PART_EXPECTED_MAX);
    let rate = page.payloads.estimated_false_positive_rate();
    let mut asked = Asked { page, excerpt, rate, places: places_by_blocks(&runs), best: HashMap::new() };
    runs.iter().for_each(|run| asked.ask(run));
    Ok(Answer {
        span: page.span,
        part: runs.first().map(|run| found_part(page, excerpt, run, &chance)),
        attributions: asked.into_attributions(),
        pairs: page.pairs().len(),
        unlisted: page.counts.unlisted,
    })
}

/// What the offset digests say of the longest run.
fn found_part(page: &Page, excerpt: &[u8], run: &Run, chance: &Chance) -> Part {
    let shape = page.offsets.shape();
    let is_whole = run.is_whole(shape, excerpt.len());
    let expected = if is_whole { chance.expected_whole(BLOCKS_MIN) } else { chance.expected_runs(run.blocks) };
    Part {
        bytes: run.bytes(shape),
        is_whole,
        offset_bytes: run.offset * shape.block_bytes() as usize,
        expected_by_chance: expected,
    }
}

/// All pairs of a page, asked about runs that its offset digests show.
struct Asked<'q> {
    page: &'q Page,
    excerpt: &'q [u8],
    rate: f64,
    /// By number of blocks, in how many places of all runs a pair could show as many by chance.
    places: Vec<usize>,
    /// By place in the list of pairs, the longest part.
    best: HashMap<usize, (usize, Part)>,
}

impl Asked<'_> {
    /// Asks every pair for the blocks of `run`.
    fn ask(&mut self, run: &Run) {
        let digests = self.page.offsets.digester().digests_of(self.excerpt, run);
        let (mut keys, mut found) = (Vec::new(), Vec::new());
        for (batch, pairs) in self.page.pairs().chunks(BATCH_PAIRS).enumerate() {
            self.put_keys(pairs, &digests, &mut keys);
            found.clear();
            found.resize(keys.len(), false);
            self.page.payloads.contains_batch(&keys, &mut found);
            for (place, found) in found.chunks(run.blocks).enumerate() {
                let (first, blocks) = longest(found);
                if blocks >= BLOCKS_MIN {
                    self.note(batch * BATCH_PAIRS + place, run, first, blocks);
                }
            }
        }
    }

    fn put_keys(&self, pairs: &[Listed], digests: &[Fingerprint], keys: &mut Vec<Fingerprint>) {
        keys.clear();
        for listed in pairs {
            let id = pair_id(&listed.pair, self.page.offsets.digester());
            Digester::append_for_host(digests, id, keys);
        }
    }

    /// Keeps what a pair carried, if it is the most so far and chance does not explain it.
    fn note(&mut self, place: usize, run: &Run, first: usize, blocks: usize) {
        let shape = self.page.offsets.shape();
        let part_of_run = Run { first: run.first + first, offset: run.offset + first, blocks, ..*run };
        let is_whole = part_of_run.is_whole(shape, self.excerpt.len());
        let expected = (self.places[blocks] * self.page.pairs().len()) as f64 * self.rate.powf(blocks as f64);
        let is_more = self.best.get(&place).is_none_or(|(most, _)| blocks > *most);
        if is_more && (is_whole || expected <= PART_EXPECTED_MAX) {
            let part = Part {
                bytes: part_of_run.bytes(shape),
                is_whole,
                offset_bytes: part_of_run.offset * shape.block_bytes() as usize,
                expected_by_chance: expected,
            };
            self.best.insert(place, (blocks, part));
        }
    }

    fn into_attributions(self) -> Vec<Attribution> {
        let mut best: Vec<_> = self.best.into_iter().collect();
        best.sort_by_key(|(place, (blocks, _))| (std::cmp::Reverse(*blocks), *place));
        let pairs = self.page.pairs();
        best.into_iter().map(|(place, (_, part))| Attribution { listed: pairs[place].clone(), part }).collect()
    }
}

/// For each number of blocks, in how many places of all runs that many lie.
fn places_by_blocks(runs: &[Run]) -> Vec<usize> {
    let mut places = vec![0; runs.iter().map(|run| run.blocks).max().unwrap_or(0) + 1];
    runs.iter().for_each(|run| places[run.blocks] += 1);
    // Summed once from the longest down: runs that are at least so long. Twice: a run one longer has one place more.
    for _ in 0..2 {
        for blocks in (1..places.len()).rev() {
            places[blocks - 1] += places[blocks];
        }
    }
    places
}

/// The first longest row of blocks that were found, and how long it is.
fn longest(found: &[bool]) -> (usize, usize) {
    let (mut best, mut first) = ((0, 0), 0);
    for row in found.chunk_by(|one, next| one == next) {
        if row[0] && row.len() > best.1 {
            best = (first, row.len());
        }
        first += row.len();
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_a_place_for_every_row_of_blocks_within_it() {
        let run = |blocks| Run { alignment: 0, first: 0, offset: 0, blocks, digests: blocks };
        assert_eq!(places_by_blocks(&[run(2), run(4)])[1..], [6, 4, 2, 1]);
        assert_eq!(places_by_blocks(&[]), [0]);
    }

    #[test]
    fn the_first_longest_row_counts() {
        assert_eq!(longest(&[true, false, true, true, false, true, true]), (2, 2));
        assert_eq!((longest(&[false; 3]), longest(&[true; 3]), longest(&[])), ((0, 0), (0, 3), (0, 0)));
    }
}
