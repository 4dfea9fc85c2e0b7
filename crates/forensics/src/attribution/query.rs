//! Asking a page.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::Range;

use bruit_filters::blocks::{BlockShape, Chance, Label, RUNS_MAX, Run, SearchError};

use super::asked::Asked;
use super::{Listed, Page};
use crate::pages::Span;

/// Blocks that an answer has at least: one block alone is found somewhere by chance in any page that is well used, as the survey
/// shows ("don't use HBF to attribute blocks of length one").
pub const BLOCKS_MIN: usize = 2;

/// The shortest excerpt that has [`BLOCKS_MIN`] whole blocks wherever in a payload it lies: at the worst alignment all but one byte of a
/// block are lost before the first. Of a shorter one that is not found, nothing is known: it may have been carried at a place
/// where it has fewer blocks.
#[must_use]
pub const fn bytes_to_tell(shape: BlockShape) -> usize {
    (BLOCKS_MIN + 1) * shape.block_bytes() as usize - 1
}

/// What is told as found is so by chance in fewer than this many questions, over all pages that one asks.
pub const BY_CHANCE_MAX: f64 = 0.01;

/// Payload digests that are asked for in one page: a few seconds. Content that repeats itself matches in thousands of places, each
/// of which would have to be asked for with every pair.
pub const DIGESTS_ASKED_MAX: u64 = 1 << 28;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'e> {
    /// What is looked for.
    pub excerpt: &'e [u8],
    /// How many pages are asked: what chance may show in all of them is shared among them.
    pub pages: usize,
    /// Payload digests that are asked for in each page at most; but the best place is asked for with every pair in any case.
    pub digests_max: u64,
}

impl<'e> Question<'e> {
    /// The question for an excerpt in one of `pages` pages.
    #[must_use]
    pub const fn new(excerpt: &'e [u8], pages: usize) -> Self {
        Self { excerpt, pages, digests_max: DIGESTS_ASKED_MAX }
    }

    /// What may be expected by chance in one page.
    fn by_chance_max(&self) -> f64 {
        BY_CHANCE_MAX / self.pages.max(1) as f64
    }
}

/// What one page says of an excerpt.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// What the page is about.
    pub span: Span,
    /// What it comes to.
    pub finding: Finding,
    /// The longest part that the offset digests show in any payload.
    pub part: Option<Part>,
    /// Which pairs carried it, those that carried most first; chance alone may name them unless the finding says
    /// [`Named`](Finding::Named).
    pub attributions: Vec<Attribution>,
    /// How many pairs there are.
    pub pairs: usize,
    /// Payloads of pairs for which the list had no room: they may have carried it and cannot be named.
    pub unlisted: u64,
    /// Whether it matched in more places than were asked for: pairs that carried it in the others are missing.
    pub is_cut: bool,
}

/// What an answer comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// More pairs are named than chance explains.
    Named,
    /// It was carried; but by none of the pairs beyond chance, and others found no room in the list.
    Unnamed,
    /// There is no more than chance shows. It may have been carried, and a longer excerpt would tell.
    Doubtful,
    /// Nobody carried it, or so little of it in a row that it does not show.
    Nothing,
}

/// A part of an excerpt.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Which bytes of the excerpt were compared, in whole blocks.
    pub bytes: Range<usize>,
    /// Whether the excerpt has no more whole blocks at this alignment.
    pub is_whole: bool,
    /// Where in a payload the first of these bytes lies; of a long part of a mail, in its piece of 64 KiB.
    pub offset_bytes: usize,
    /// How many like it would be found by chance, if nothing of it had been recorded.
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

    /// The probability that chance shows none like it.
    #[must_use]
    pub fn confidence(&self) -> f64 {
        (-self.expected_by_chance).exp()
    }
}

/// That a pair carried the blocks of the excerpt, or of a part of it: each at its offset. That they went in one payload is known of
/// some pair, and not of which: one that carried some of them in one payload and the rest in another is named as well.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribution {
    /// Who, and the first and last time that anything of theirs is in the page.
    pub listed: Listed,
    /// What they carried. By chance are expected so many *pairs* of this page.
    pub part: Part,
}

/// What `page` knows of an excerpt.
///
/// # Errors
/// [`SearchError`] if the excerpt has fewer than [`BLOCKS_MIN`] blocks, or is too long.
pub fn query(page: &Page, question: &Question<'_>) -> Result<Answer, SearchError> {
    let excerpt = question.excerpt;
    let chance = page.offsets.chance(excerpt.len());
    let found = page.offsets.search(excerpt, Label::Offset, BLOCKS_MIN)?;
    let mut is_cut = found.len() == RUNS_MAX;
    let mut runs = worth_asking(page, question, found, &chance);
    let part = runs.first().map(|run| found_part(page, excerpt, run, &chance));
    is_cut |= cut(&mut runs, page.pairs().len(), question.digests_max);
    let attributions = Asked::new(page, excerpt, &runs, question.by_chance_max()).into_attributions();
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
            // A pair that carried it would be there: filters miss nothing that was recorded.
            Finding::Nothing
        }
    }

    /// How likely chance is to name as many pairs with as long parts, at the length where that is least likely.
    fn chance_of_pairs(&self) -> f64 {
        let expected = self.attributions.iter().map(|found| found.part.expected_by_chance);
        (1..).zip(expected).map(|(named, expected)| at_least(named, expected)).fold(1.0, f64::min)
    }
}

/// A bound for the probability of `count` things or more, when `expected` are expected: Chernoff's for a Poisson variable,
/// or that of one or more, which holds as well.
fn at_least(count: u32, expected: f64) -> f64 {
    let any = Chance::of_any(expected);
    let count = f64::from(count);
    if count <= expected {
        return any;
    }
    any.min((count - expected + count * (expected / count).ln()).exp())
}

/// The runs to ask pairs for, the best first: those of all blocks at their alignment, however likely by chance, so that nobody is
/// missed; and parts that chance does not explain. Repeated content gives the same digests at many alignments, of which one is enough.
fn worth_asking(page: &Page, question: &Question<'_>, found: Vec<Run>, chance: &Chance) -> Vec<Run> {
    let (shape, excerpt) = (page.offsets.shape(), question.excerpt);
    let longest = found.first().map_or(0, |run| run.blocks);
    let lengths: Vec<usize> = (0..=longest).collect();
    // A run of one more block is less likely, so that a few lengths have to be computed and not one for each run.
    let part_min = lengths.partition_point(|&blocks| chance.expected_runs(blocks) > question.by_chance_max());
    let is_whole = |run: &Run| run.is_whole(shape, excerpt.len());
    let mut runs: Vec<Run> = found.into_iter().filter(|run| run.blocks >= part_min || is_whole(run)).collect();
    runs.sort_by_key(|run| (Reverse(run.blocks), !is_whole(run)));
    let mut seen = HashSet::new();
    runs.retain(|run| {
        // Digests are well mixed and know their offsets, so that a sum tells them apart.
        let digests = page.offsets.digester().digests_of(excerpt, run);
        seen.insert(digests.iter().fold(0u64, |sum, digest| sum.wrapping_add(digest.high())))
    });
    runs
}

/// Leaves as many runs as can be asked for with every pair, and tells whether some are left out.
fn cut(runs: &mut Vec<Run>, pairs: usize, digests_max: u64) -> bool {
    let digests = runs.iter().scan(0u64, |sum, run| {
        *sum = sum.saturating_add((run.blocks * pairs) as u64);
        Some(*sum)
    });
    let (before, fitting) = (runs.len(), digests.take_while(|&digests| digests <= digests_max).count());
    runs.truncate(fitting.max(1));
    runs.len() < before
}

/// What the offset digests say of the best run.
fn found_part(page: &Page, excerpt: &[u8], run: &Run, chance: &Chance) -> Part {
    let is_whole = run.is_whole(page.offsets.shape(), excerpt.len());
    let expected = if is_whole { chance.expected_whole(BLOCKS_MIN) } else { chance.expected_runs(run.blocks) };
    Part::of(page, excerpt, run, expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By counting: the blocks that lie within an excerpt at each place in a payload.
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
    fn runs_are_asked_for_as_far_as_the_bound_goes_and_the_best_in_any_case() {
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
