//! The precision of reporters over time, as pure data: one sample for each account and day.
//!
//! At most [`SERIES_MAX`] accounts have a series. If all are in use, an account that the operator added replaces one
//! that registered itself, and an account with weight replaces one without. So strangers who register accounts take no
//! place from anyone whom the operator knows.

use std::collections::{BTreeSet, HashMap};

/// Maximum number of accounts with a series.
pub(crate) const SERIES_MAX: usize = 256;

/// Number of days in a series.
pub(crate) const DAYS: usize = 2 * 366;

/// Number of days without a sample after which any other account may take over a series.
const ABANDONED_DAYS: u32 = 7;

/// Number of seconds in a day.
pub(crate) const DAY_SECONDS: u64 = 86_400;

/// The record of an account at the end of a day, or its last value on the current day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// The day, counted from 1970.
    pub(crate) day: u32,
    /// Precision in ten-thousandths.
    pub(crate) precision: u16,
    /// Weight in units of 1/1024.
    pub(crate) weight: u16,
    /// Number of confirmed claims so far.
    pub(crate) confirmed: u32,
    /// Number of refuted claims so far.
    pub(crate) refuted: u32,
    /// Number of claims so far that were neither confirmed nor refuted.
    pub(crate) unconfirmed: u32,
}

/// The current sample of an account: its reporter ID, its rank and the sample.
pub(crate) type Record = (u64, Rank, Sample);

/// The rank of an account that has or wants a series. An account can take over the series of one of a lower rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// No sample for [`ABANDONED_DAYS`] days.
    Abandoned,
    /// The account registered itself, and its claims have no weight.
    Registered,
    /// The account registered itself, and its claims have weight.
    Weighted,
    /// The operator added the account or assigned its standing.
    Known,
}

/// The samples of one account.
#[derive(Clone, Debug)]
struct Series {
    id: u64,
    rank: Rank,
    /// In the order of days. No two samples have the same place.
    samples: Vec<Sample>,
}

impl Series {
    fn rank_on(&self, day: u32) -> Rank {
        if self.last_day(day).saturating_add(ABANDONED_DAYS) < day { Rank::Abandoned } else { self.rank }
    }

    /// Returns the day of the last sample up to `today`. Later samples are from a wrong clock.
    fn last_day(&self, today: u32) -> u32 {
        self.samples.iter().rev().map(|sample| sample.day).find(|day| *day <= today).unwrap_or(0)
    }

    /// Inserts a sample, and removes the one that had its place. Returns false if nothing changed.
    fn insert(&mut self, sample: Sample) -> bool {
        if self.samples.contains(&sample) {
            return false;
        }
        self.samples.retain(|other| place(other.day) != place(sample.day));
        let at = self.samples.partition_point(|other| other.day < sample.day);
        self.samples.insert(at, sample);
        true
    }
}

/// A part of the file that must be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dirty {
    /// All cells of a series, because they belong to an account that lost it.
    Series(usize),
    /// The cell at this place of a series.
    Cell(usize, usize),
}

/// The series of all accounts.
#[derive(Debug, Default)]
pub(crate) struct PrecisionHistory {
    series: Vec<Series>,
    by_id: HashMap<u64, usize>,
    dirty: BTreeSet<Dirty>,
}

impl PrecisionHistory {
    /// Adds the current samples of all accounts, first those of the accounts that already have a series. So even after
    /// the server was off for days, a series is abandoned only if its account has no current sample.
    pub(super) fn add_all(&mut self, records: &[Record]) {
        let (present, new): (Vec<Record>, Vec<Record>) =
            records.iter().partition(|(id, ..)| self.by_id.contains_key(id));
        present.into_iter().chain(new).for_each(|(id, rank, sample)| self.add(id, rank, sample));
    }

    /// Adds the sample of an account. Ignores it if all series belong to accounts of the same or a higher rank.
    pub(super) fn add(&mut self, id: u64, rank: Rank, sample: Sample) {
        let Some(number) = self.by_id.get(&id).copied().or_else(|| self.assign(id, rank, sample.day)) else { return };
        let Some(series) = self.series.get_mut(number) else { return };
        series.rank = rank;
        if series.insert(sample) {
            self.dirty.insert(Dirty::Cell(number, place(sample.day)));
        }
    }

    /// Assigns a series to an account.
    fn assign(&mut self, id: u64, rank: Rank, day: u32) -> Option<usize> {
        let new = Series { id, rank, samples: Vec::new() };
        let number = if self.series.len() < SERIES_MAX {
            self.series.push(new);
            self.series.len() - 1
        } else {
            let lowest =
                self.series.iter().enumerate().min_by_key(|(_, series)| (series.rank_on(day), series.last_day(day)));
            let (number, _) = lowest.filter(|(_, series)| series.rank_on(day) < rank)?;
            let lost = std::mem::replace(self.series.get_mut(number)?, new);
            self.by_id.remove(&lost.id);
            self.dirty.retain(|dirty| !matches!(dirty, Dirty::Cell(of, _) if *of == number));
            self.dirty.insert(Dirty::Series(number));
            number
        };
        self.by_id.insert(id, number);
        Some(number)
    }

    /// Returns the samples of an account up to a day, oldest first.
    pub(crate) fn samples(&self, id: u64, today: u32) -> Vec<Sample> {
        let series = self.by_id.get(&id).and_then(|number| self.series.get(*number));
        let samples = series.map_or(&[][..], |series| &series.samples);
        let is_shown = |sample: &&Sample| sample.day <= today && today - sample.day < DAYS as u32;
        samples.iter().filter(is_shown).copied().collect()
    }

    /// Adds a series from the file. The latest sample decides to which account it belongs. An account that has another
    /// series already leaves this one empty.
    pub(super) fn restore(&mut self, cells: &[(u64, Sample)]) {
        let owner = cells.iter().max_by_key(|(_, sample)| sample.day).map(|(id, _)| *id);
        let owner = owner.filter(|id| !self.by_id.contains_key(id));
        // The file has no ranks. Until its next sample, an account has the highest rank, so that it keeps its series.
        let mut series = Series { id: owner.unwrap_or_default(), rank: Rank::Known, samples: Vec::new() };
        for (id, sample) in cells {
            if owner == Some(*id) {
                series.insert(*sample);
            }
        }
        self.by_id.extend(owner.map(|id| (id, self.series.len())));
        self.series.push(series);
    }

    /// Replaces this history by the one in the file, and adds the samples that were kept in memory until now.
    pub(super) fn resume(&mut self, file: Self) {
        let memory = std::mem::replace(self, file);
        let records = |series: &Series| {
            let Series { id, rank, samples } = series.clone();
            samples.into_iter().map(move |sample| (id, rank, sample))
        };
        self.add_all(&memory.series.iter().flat_map(records).collect::<Vec<_>>());
    }

    /// Returns the parts that changed since the last call, series before their cells.
    pub(super) fn take_dirty(&mut self) -> Vec<Dirty> {
        std::mem::take(&mut self.dirty).into_iter().collect()
    }

    /// Marks parts as changed again, because they could not be written.
    pub(super) fn mark(&mut self, dirty: Vec<Dirty>) {
        self.dirty.extend(dirty);
    }

    /// Returns the account and the sample at a place of a series.
    pub(super) fn cell(&self, number: usize, at: usize) -> Option<(u64, Sample)> {
        let series = self.series.get(number)?;
        series.samples.iter().find(|sample| place(sample.day) == at).map(|sample| (series.id, *sample))
    }
}

/// Returns the place of a day in a series.
pub(super) const fn place(day: u32) -> usize {
    day as usize % DAYS
}

/// Returns the day that contains a time.
pub(crate) fn day_of(time: u64) -> u32 {
    u32::try_from(time / DAY_SECONDS).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TODAY: u32 = 20_833;

    fn sample(day: u32, confirmed: u32) -> Sample {
        Sample { day, precision: 5_000, weight: 1_024, confirmed, refuted: 1, unconfirmed: 2 }
    }

    #[test]
    fn a_day_has_one_sample_and_a_series_has_no_more_than_its_days() {
        let mut history = PrecisionHistory::default();
        for day in 0..3 * DAYS as u32 {
            history.add(7, Rank::Known, sample(day, 1));
            history.add(7, Rank::Known, sample(day, 2));
        }
        let last = 3 * DAYS as u32 - 1;
        let samples = history.samples(7, last);
        assert_eq!((samples.len(), samples[0].day, samples[DAYS - 1]), (DAYS, last - DAYS as u32 + 1, sample(last, 2)));
        assert_eq!(history.samples(8, last), []);
    }

    #[test]
    fn a_full_history_has_no_room_for_accounts_of_the_same_rank() {
        let mut history = PrecisionHistory::default();
        for id in 0..10 * SERIES_MAX as u64 {
            history.add(id, Rank::Registered, sample(TODAY, 1));
        }
        assert_eq!(history.series.len(), SERIES_MAX);
        assert_eq!(history.samples(0, TODAY).len(), 1, "the first ones stay");
        assert_eq!(history.samples(SERIES_MAX as u64, TODAY), []);
        history.add(5_000_000, Rank::Weighted, sample(TODAY, 1));
        history.add(6_000_000, Rank::Known, sample(TODAY, 1));
        assert_eq!(history.series.len(), SERIES_MAX);
        for id in [5_000_000, 6_000_000] {
            assert_eq!(history.samples(id, TODAY).len(), 1, "a higher rank has room");
        }
        for id in 7_000_000..7_001_000 {
            history.add(id, Rank::Weighted, sample(TODAY, 1));
        }
        assert_eq!(history.samples(6_000_000, TODAY).len(), 1, "no stranger replaces an account of the operator");
    }

    #[test]
    fn an_abandoned_series_goes_to_anyone_and_its_samples_are_erased() {
        let mut history = PrecisionHistory::default();
        (0..SERIES_MAX as u64).for_each(|id| history.add(id, Rank::Known, sample(TODAY, 1)));
        history.take_dirty();
        (1..SERIES_MAX as u64).for_each(|id| history.add(id, Rank::Known, sample(TODAY + 8, 1)));
        history.add(9_999, Rank::Registered, sample(TODAY + 8, 3));
        assert_eq!(history.samples(0, TODAY + 8), []);
        assert_eq!(history.samples(9_999, TODAY + 8), [sample(TODAY + 8, 3)]);
        let dirty = history.take_dirty();
        assert_eq!(dirty[0], Dirty::Series(0), "the old samples are erased before new ones are written");
        assert!(dirty.contains(&Dirty::Cell(0, place(TODAY + 8))));
    }

    #[test]
    fn no_series_changes_hands_because_the_server_was_off_for_days() {
        // A self-registered account that was read first took the series of an account that was not read yet. That one
        // took the series of the next account, and so on.
        let mut history = PrecisionHistory::default();
        let known = |day| (1..=SERIES_MAX as u64).map(move |id| (id, Rank::Known, sample(day, 1)));
        history.add_all(&known(TODAY).collect::<Vec<_>>());
        let stranger = (9_999, Rank::Registered, sample(TODAY + 10, 1));
        history.add_all(&std::iter::once(stranger).chain(known(TODAY + 10)).collect::<Vec<_>>());
        assert_eq!(history.samples(9_999, TODAY + 10), []);
        for id in 1..=SERIES_MAX as u64 {
            assert_eq!(history.samples(id, TODAY + 10), [sample(TODAY, 1), sample(TODAY + 10, 1)]);
        }
    }

    #[test]
    fn a_sample_from_the_future_does_not_keep_an_abandoned_series() {
        let mut history = PrecisionHistory::default();
        let known = |day| (1..=SERIES_MAX as u64).map(move |id| (id, Rank::Known, sample(day, 1)));
        history.add_all(&known(TODAY).collect::<Vec<_>>());
        history.add_all(&known(TODAY + 1_000).collect::<Vec<_>>());
        let stranger = (9_999, Rank::Registered, sample(TODAY + 10, 1));
        history.add_all(&known(TODAY + 10).skip(1).chain([stranger]).collect::<Vec<_>>());
        assert_eq!(history.samples(1, TODAY + 10), [], "the account was removed");
        assert_eq!(history.samples(9_999, TODAY + 10), [sample(TODAY + 10, 1)]);
    }

    #[test]
    fn samples_in_memory_are_added_to_those_of_the_file() {
        let (mut history, mut file) = (PrecisionHistory::default(), PrecisionHistory::default());
        file.add(7, Rank::Known, sample(TODAY, 1));
        file.take_dirty();
        history.add(8, Rank::Known, sample(TODAY + 1, 1));
        history.add(7, Rank::Known, sample(TODAY + 1, 1));
        history.resume(file);
        assert_eq!(history.samples(7, TODAY + 1), [sample(TODAY, 1), sample(TODAY + 1, 1)]);
        assert_eq!(history.samples(8, TODAY + 1), [sample(TODAY + 1, 1)]);
        let places = [0, 1].map(|number| Dirty::Cell(number, place(TODAY + 1)));
        assert_eq!(history.take_dirty(), places, "they are written");
    }

    #[test]
    fn a_wrong_clock_hides_nothing_once_it_is_right_again() {
        let mut history = PrecisionHistory::default();
        history.add(7, Rank::Known, sample(TODAY, 1));
        history.add(7, Rank::Known, sample(u32::MAX, 9));
        history.add(7, Rank::Known, sample(TODAY + 1, 2));
        let days: Vec<u32> = history.samples(7, TODAY + 1).iter().map(|sample| sample.day).collect();
        assert_eq!(days, [TODAY, TODAY + 1]);
        assert_eq!((day_of(0), day_of(u64::MAX)), (0, u32::MAX));
    }

    #[test]
    fn only_changes_are_written() {
        let mut history = PrecisionHistory::default();
        history.add(7, Rank::Known, sample(TODAY, 1));
        assert_eq!(history.take_dirty(), [Dirty::Cell(0, place(TODAY))]);
        history.add(7, Rank::Known, sample(TODAY, 1));
        assert_eq!(history.take_dirty(), []);
    }
}
