//! Asking every pair of a page for what its offset digests show.

use std::cmp::Reverse;
use std::collections::HashMap;

use bruit_filters::Fingerprint;
use bruit_filters::blocks::{Digester, HostId, Run};
use bruit_filters::bloom::MembershipFilter as _;

use super::{Attribution, BLOCKS_MIN, Page, Part};

/// Pairs that are asked for in one batch.
const BATCH_PAIRS: usize = 1024;

/// All pairs of a page, asked about runs that its offset digests show.
pub(super) struct Asked<'q> {
    page: &'q Page,
    excerpt: &'q [u8],
    rate: f64,
    by_chance_max: f64,
    /// By number of blocks, in how many places of all runs a pair could show as many by chance.
    places: Vec<usize>,
    /// By place in the list of pairs, the longest part.
    best: HashMap<usize, (usize, Part)>,
}

impl<'q> Asked<'q> {
    /// Asks for all `runs`. What a pair has of a run is kept if it is the whole of the run, however likely by chance, or a part that
    /// chance shows in fewer than `by_chance_max` pairs.
    pub(super) fn new(page: &'q Page, excerpt: &'q [u8], runs: &[Run], by_chance_max: f64) -> Self {
        let rate = page.payloads.estimated_false_positive_rate();
        let mut asked =
            Self { page, excerpt, rate, by_chance_max, places: places_by_blocks(runs), best: HashMap::new() };
        runs.iter().for_each(|run| asked.ask(run));
        asked
    }

    /// Those who carried something, those who carried most first.
    pub(super) fn into_attributions(self) -> Vec<Attribution> {
        let mut best: Vec<_> = self.best.into_iter().collect();
        best.sort_by_key(|(place, (blocks, _))| (Reverse(*blocks), *place));
        let pairs = self.page.pairs();
        best.into_iter().map(|(place, (_, part))| Attribution { listed: pairs[place].clone(), part }).collect()
    }

    /// Asks every pair for the blocks of `run`.
    fn ask(&mut self, run: &Run) {
        let digests = self.page.offsets.digester().digests_of(self.excerpt, run);
        let (mut keys, mut found) = (Vec::new(), Vec::new());
        for (batch, ids) in self.page.pairs.ids().chunks(BATCH_PAIRS).enumerate() {
            put_keys(ids, &digests, &mut keys);
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

    /// Keeps what a pair carried, if it is the most so far.
    fn note(&mut self, place: usize, run: &Run, first: usize, blocks: usize) {
        let expected = (self.places[blocks] * self.page.pairs().len()) as f64 * self.rate.powf(blocks as f64);
        let is_more = self.best.get(&place).is_none_or(|(most, _)| blocks > *most);
        if is_more && (blocks == run.blocks || expected <= self.by_chance_max) {
            let own = Run { first: run.first + first, offset: run.offset + first, blocks, ..*run };
            self.best.insert(place, (blocks, Part::of(self.page, self.excerpt, &own, expected)));
        }
    }
}

fn put_keys(ids: &[HostId], digests: &[Fingerprint], keys: &mut Vec<Fingerprint>) {
    keys.clear();
    ids.iter().for_each(|&id| Digester::append_for_host(digests, id, keys));
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
