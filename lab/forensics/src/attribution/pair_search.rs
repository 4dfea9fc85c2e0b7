//! Finds the pairs that carried an excerpt. It checks every pair of a page for the parts that were found in the offset
//! digests.

use std::cmp::Reverse;
use std::collections::HashMap;

use bruit_filters::Fingerprint;
use bruit_filters::bloom::MembershipFilter as _;
use bruit_structures::blocks::{Digester, HostId, Run};

use super::{Attribution, BLOCKS_MIN, Page, Part};

/// Number of pairs queried in one batch.
const BATCH_PAIRS: usize = 1024;

/// The pairs of a page that match the runs found in its offset digests.
pub(super) struct PairSearch<'q> {
    page: &'q Page,
    excerpt: &'q [u8],
    rate: f64,
    by_chance_max: f64,
    /// `places[n]` is the number of places, in all runs together, where a pair could match n blocks by chance.
    places: Vec<usize>,
    /// Longest match of each pair, with its number of blocks. The key is the pair's index in the list.
    best: HashMap<usize, (usize, Part)>,
}

impl<'q> PairSearch<'q> {
    /// Searches every pair for all `runs`. A match of a whole run is always kept, even if it is likely by chance. A
    /// match of a part is kept if fewer than `by_chance_max` pairs are expected to match it by chance.
    pub(super) fn new(page: &'q Page, excerpt: &'q [u8], runs: &[Run], by_chance_max: f64) -> Self {
        let rate = page.payloads.estimated_false_positive_rate();
        let mut search =
            Self { page, excerpt, rate, by_chance_max, places: places_by_blocks(runs), best: HashMap::new() };
        runs.iter().for_each(|run| search.query(run));
        search
    }

    /// Returns the pairs with a match, the longest first.
    pub(super) fn into_attributions(self) -> Vec<Attribution> {
        let mut best: Vec<_> = self.best.into_iter().collect();
        best.sort_by_key(|(place, (blocks, _))| (Reverse(*blocks), *place));
        let pairs = self.page.pairs();
        best.into_iter().map(|(place, (_, part))| Attribution { listed: pairs[place].clone(), part }).collect()
    }

    /// Queries every pair for the blocks of `run`.
    fn query(&mut self, run: &Run) {
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

    /// Stores the match of a pair if it is the longest match of the pair so far.
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

/// Returns, for each n, the number of places where n consecutive blocks fit, in all runs together.
fn places_by_blocks(runs: &[Run]) -> Vec<usize> {
    let mut places = vec![0; runs.iter().map(|run| run.blocks).max().unwrap_or(0) + 1];
    runs.iter().for_each(|run| places[run.blocks] += 1);
    // The first cumulative sum, from the longest runs down, counts the runs of at least n blocks. The second counts the
    // places: each further block of a run adds a place.
    for _ in 0..2 {
        for blocks in (1..places.len()).rev() {
            places[blocks - 1] += places[blocks];
        }
    }
    places
}

/// Returns the start and length of the longest sequence of found blocks; of several with the same length, the first.
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
