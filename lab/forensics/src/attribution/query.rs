//! Queries of a page.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::Range;

use bruit_structures::blocks::{BlockShape, Chance, Label, RUNS_MAX, Run, SearchError};

use super::pair_search::PairSearch;
use super::{ListedPair, Page};
use crate::pages::Span;

/// Minimum number of blocks in an answer. In any well-filled page, a single block matches somewhere by chance. The
/// survey warns of this, too: "don't use HBF to attribute blocks of length one".
pub const BLOCKS_MIN: usize = 2;

/// Returns the length of the shortest excerpt that has [`BLOCKS_MIN`] whole blocks at every alignment. In the worst
/// case, all but one byte of another block come before the first whole block. If a shorter excerpt was carried at an
/// alignment with fewer whole blocks, it is not found.
#[must_use]
pub const fn bytes_to_tell(shape: BlockShape) -> usize {
    (BLOCKS_MIN + 1) * shape.block_bytes() as usize - 1
}

/// Maximum expected number of false matches per query, over all queried pages.
pub const BY_CHANCE_MAX: f64 = 0.01;

/// Maximum number of payload digests to look up in one page. Looking up this many takes a few seconds. Repetitive
/// content matches in thousands of places, and every place has to be checked for every pair.
pub const DIGESTS_ASKED_MAX: u64 = 1 << 28;

/// A query for an excerpt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'e> {
    /// The excerpt.
    pub excerpt: &'e [u8],
    /// Number of pages queried. The limit on false matches is divided by this number.
    pub pages: usize,
    /// Maximum number of payload digests to look up in each page. The best place is checked for every pair, even if
    /// that takes more lookups.
    pub digests_max: u64,
}

impl<'e> Question<'e> {
    /// Creates a query for an excerpt, which will be run on `pages` pages.
    #[must_use]
    pub const fn new(excerpt: &'e [u8], pages: usize) -> Self {
        Self { excerpt, pages, digests_max: DIGESTS_ASKED_MAX }
    }

    /// Returns the maximum expected number of false matches in one page.
    fn by_chance_max(&self) -> f64 {
        BY_CHANCE_MAX / self.pages.max(1) as f64
    }
}

/// The result of a query in one page.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Span of the page.
    pub span: Span,
    /// The conclusion drawn from the matches.
    pub finding: Finding,
    /// The longest part of the excerpt that occurred in a payload, according to the offset digests.
    pub part: Option<Part>,
    /// Pairs that match the excerpt, the longest match first. Unless the finding is [`Named`](Finding::Named), the
    /// matches may be due to chance.
    pub attributions: Vec<Attribution>,
    /// Number of listed pairs.
    pub pairs: usize,
    /// Number of payloads whose pairs did not fit into the list. Such a pair may have carried the excerpt, but cannot
    /// be named.
    pub unlisted: u64,
    /// True if the excerpt matched in more places than were checked. Pairs that carried it in the other places are
    /// missing.
    pub is_cut: bool,
}

/// The conclusion of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// More pairs match than could do so by chance. These pairs are named.
    Named,
    /// The excerpt was carried, but no pair can be named. The matches of the listed pairs may be due to chance, and
    /// some pairs are not listed or were not checked.
    Unnamed,
    /// The match may be due to chance. The excerpt may have been carried; a longer excerpt would be conclusive.
    Doubtful,
    /// The excerpt was not carried, or only in pieces too short to be found.
    Nothing,
}

/// A part of an excerpt.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Bytes of the excerpt that were compared, in whole blocks.
    pub bytes: Range<usize>,
    /// True if the part contains every whole block that the excerpt has at this alignment.
    pub is_whole: bool,
    /// Offset of the first of these bytes in the payload. A long part of a mail is recorded in pieces of 64 KiB; the
    /// offset is then relative to the piece.
    pub offset_bytes: usize,
    /// Number of such matches to expect by chance, if the excerpt was not recorded at all.
    pub expected_by_chance: f64,
}

impl Part {
    pub(super) fn of(page: &Page, excerpt: &[u8], run: &Run, expected_by_chance: f64) -> Self {
        let shape = page.offsets.shape();
        Self {
            bytes: run.bytes(shape),
            is_whole: run.is_whole(shape, excerpt.len()),
            offset_bytes: run.offset * shape.block_bytes() as usize,
            expected_by_chance,
        }
    }

    /// Returns the probability that a match of this length does not occur by chance.
    #[must_use]
    pub fn confidence(&self) -> f64 {
        (-self.expected_by_chance).exp()
    }
}

/// A pair that carried the blocks of the excerpt, or of a part of it, each at its offset. The filters do not show
/// whether the blocks were in one payload. A pair that carried some blocks in one payload and the rest in another is
/// named as well.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribution {
    /// The pair, and the first and last time at which the page recorded a payload of the pair.
    pub listed: ListedPair,
    /// The part that the pair carried. Its `expected_by_chance` is the number of *pairs* in this page that are expected
    /// to match by chance.
    pub part: Part,
}

/// Queries `page` for an excerpt.
///
/// # Errors
/// [`SearchError`] if the excerpt is shorter than [`BLOCKS_MIN`] blocks, or too long.
pub fn query(page: &Page, question: &Question<'_>) -> Result<Answer, SearchError> {
    let excerpt = question.excerpt;
    let chance = page.offsets.chance(excerpt.len());
    let found = page.offsets.search(excerpt, Label::Offset, BLOCKS_MIN)?;
    let mut is_cut = found.len() == RUNS_MAX;
    let mut runs = worth_asking(page, question, found, &chance);
    let part = runs.first().map(|run| found_part(page, excerpt, run, &chance));
    is_cut |= cut(&mut runs, page.pairs().len(), question.digests_max);
    let attributions = PairSearch::new(page, excerpt, &runs, question.by_chance_max()).into_attributions();
    let mut answer = Answer {
        span: page.span,
        finding: Finding::Nothing,
        part,
        attributions,
        pairs: page.pairs().len(),
        unlisted: page.counts.unlisted,
        is_cut,
    };
    answer.finding = answer.found(question.by_chance_max());
    Ok(answer)
}

impl Answer {
    fn found(&self, by_chance_max: f64) -> Finding {
        let Some(part) = &self.part else { return Finding::Nothing };
        let is_open = self.unlisted > 0 || self.is_cut;
        if self.chance_of_pairs() <= by_chance_max {
            Finding::Named
        } else if is_open && part.expected_by_chance <= by_chance_max {
            Finding::Unnamed
        } else if is_open || !self.attributions.is_empty() {
            Finding::Doubtful
        } else {
            // A pair that carried the excerpt would match, because the filters have no false negatives.
            Finding::Nothing
        }
    }

    /// Returns the probability that the matches are due to chance. For each n, this function computes the probability
    /// that chance produces n matches that are at least as long as the n-th longest match. It returns the lowest of
    /// these probabilities.
    fn chance_of_pairs(&self) -> f64 {
        let expected = self.attributions.iter().map(|found| found.part.expected_by_chance);
        (1..).zip(expected).map(|(named, expected)| at_least(named, expected)).fold(1.0, f64::min)
    }
}

/// Returns an upper bound on the probability of `count` or more events if `expected` events are expected. The bound is
/// the lower of Chernoff's bound for a Poisson variable and the probability of at least one event.
fn at_least(count: u32, expected: f64) -> f64 {
    let any = Chance::of_any(expected);
    let count = f64::from(count);
    if count <= expected {
        return any;
    }
    any.min((count - expected + count * (expected / count).ln()).exp())
}

/// Returns the runs to check for every pair, the best first. A run with all blocks of its alignment is always included,
/// even if it is likely by chance, so that no pair is missed. Shorter runs are included if chance does not explain
/// them. Repetitive content has the same digests at many alignments; only one of these runs is kept.
fn worth_asking(page: &Page, question: &Question<'_>, found: Vec<Run>, chance: &Chance) -> Vec<Run> {
    let (shape, excerpt) = (page.offsets.shape(), question.excerpt);
    let longest = found.first().map_or(0, |run| run.blocks);
    let lengths: Vec<usize> = (0..=longest).collect();
    // Longer runs are less likely, so a binary search finds the first length that chance does not explain.
    let part_min = lengths.partition_point(|&blocks| chance.expected_runs(blocks) > question.by_chance_max());
    let is_whole = |run: &Run| run.is_whole(shape, excerpt.len());
    let mut runs: Vec<Run> = found.into_iter().filter(|run| run.blocks >= part_min || is_whole(run)).collect();
    runs.sort_by_key(|run| (Reverse(run.blocks), !is_whole(run)));
    let mut seen = HashSet::new();
    runs.retain(|run| {
        // Digests are well mixed and include the offsets of their blocks, so the sum of a run's digests identifies the
        // run.
        let digests = page.offsets.digester().digests_of(excerpt, run);
        seen.insert(digests.iter().fold(0u64, |sum, digest| sum.wrapping_add(digest.high())))
    });
    runs
}

/// Drops the last runs if there are too many to check for every pair. Returns true if runs were dropped.
fn cut(runs: &mut Vec<Run>, pairs: usize, digests_max: u64) -> bool {
    let digests = runs.iter().scan(0u64, |sum, run| {
        *sum = sum.saturating_add((run.blocks * pairs) as u64);
        Some(*sum)
    });
    let (before, fitting) = (runs.len(), digests.take_while(|&digests| digests <= digests_max).count());
    runs.truncate(fitting.max(1));
    runs.len() < before
}

/// Returns the part of the excerpt that the best run covers.
fn found_part(page: &Page, excerpt: &[u8], run: &Run, chance: &Chance) -> Part {
    let is_whole = run.is_whole(page.offsets.shape(), excerpt.len());
    let expected = if is_whole { chance.expected_whole(BLOCKS_MIN) } else { chance.expected_runs(run.blocks) };
    Part::of(page, excerpt, run, expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the length with a count of the whole blocks at every alignment.
    #[test]
    fn the_length_that_tells_is_the_shortest_with_enough_blocks_at_every_place() {
        for block_bytes in [8, 16, 32, 100, 1024] {
            let blocks_within =
                |bytes: usize, place: usize| (place + bytes) / block_bytes - place.div_ceil(block_bytes);
            let fewest = |bytes: usize| (0..block_bytes).map(|place| blocks_within(bytes, place)).min();
            let bytes = bytes_to_tell(BlockShape::new(block_bytes as u32, 1).unwrap());
            assert_eq!((fewest(bytes), fewest(bytes - 1)), (Some(BLOCKS_MIN), Some(BLOCKS_MIN - 1)), "{block_bytes}");
        }
    }

    #[test]
    fn chance_explains_as_many_as_are_expected_and_not_many_more() {
        assert!((at_least(1, 0.01) - 0.00995).abs() < 1e-5);
        assert!(at_least(7, 7.0) > 0.9 && at_least(10, 7.0) > 0.3);
        assert!(at_least(172, 7.0) < 1e-100);
        assert_eq!((at_least(1, 0.0), at_least(3, 0.0)), (0.0, 0.0));
    }

    #[test]
    fn runs_are_limited_but_the_best_is_always_checked() {
        let run = |blocks| Run { alignment: 0, first: 0, offset: 0, blocks, digests: blocks };
        let left = |digests_max| {
            let mut runs = vec![run(3), run(2), run(2)];
            (cut(&mut runs, 10, digests_max), runs.len())
        };
        assert_eq!(
            [left(70), left(69), left(50), left(49), left(1)],
            [(false, 3), (true, 2), (true, 2), (true, 1), (true, 1)]
        );
        assert!(!cut(&mut Vec::new(), 10, 1));
    }
}
