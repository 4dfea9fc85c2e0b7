//! The slots of the history, as pure data: the time is an argument.

use bruit_engine::time::Time;

use crate::metrics::{BUCKETS, Disposition, Interface};

/// Number of request counters in a slot.
pub(crate) const COUNTERS: usize = Interface::ALL.len() * Disposition::ALL.len();

/// A series of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    /// A day, by the minute.
    Day,
    /// A month, by the hour.
    Month,
    /// Two years, by the day.
    Years,
}

impl Span {
    pub(crate) const ALL: [Self; 3] = [Self::Day, Self::Month, Self::Years];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Month => "month",
            Self::Years => "years",
        }
    }

    /// Returns the length of a slot in seconds.
    pub(crate) const fn slot_seconds(self) -> u64 {
        match self {
            Self::Day => 60,
            Self::Month => 3_600,
            Self::Years => 86_400,
        }
    }

    /// Returns the number of slots.
    pub(crate) const fn slots(self) -> usize {
        match self {
            Self::Day => 24 * 60,
            Self::Month => 31 * 24,
            Self::Years => 2 * 366,
        }
    }

    /// Returns the start of the slot that contains a time.
    const fn start(self, time: u64) -> u64 {
        time - time % self.slot_seconds()
    }

    /// Returns the place of the slot that contains a time.
    pub(super) const fn place(self, time: u64) -> usize {
        (time / self.slot_seconds()) as usize % self.slots()
    }

    /// Returns the span with the next shorter slots.
    const fn finer(self) -> Option<Self> {
        match self {
            Self::Day => None,
            Self::Month => Some(Self::Day),
            Self::Years => Some(Self::Month),
        }
    }
}

/// The counters of a period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Start of the period, in Unix seconds.
    pub(crate) start: u64,
    /// Requests by protocol and result.
    pub(crate) requests: [u64; COUNTERS],
    /// Requests by duration, in the buckets of the metrics.
    pub(crate) durations: [u64; BUCKETS],
    /// The last values in the period.
    pub(crate) gauges: Gauges,
}

/// Values that replace earlier ones instead of being added to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gauges {
    /// Number of listed signatures.
    pub(crate) listed: u64,
    /// Number of revoked signatures.
    pub(crate) revoked: u64,
    /// Resident memory of the process in bytes.
    pub(crate) resident_bytes: u64,
}

/// The requests since the previous sample, and the current gauges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) requests: [u64; COUNTERS],
    pub(crate) durations: [u64; BUCKETS],
    pub(crate) gauges: Gauges,
}

impl Slot {
    pub(crate) const fn new(start: u64) -> Self {
        Self {
            start,
            requests: [0; COUNTERS],
            durations: [0; BUCKETS],
            gauges: Gauges { listed: 0, revoked: 0, resident_bytes: 0 },
        }
    }

    /// Returns the number of requests to a protocol with this result.
    pub(crate) fn requests(&self, protocol: Interface, answered: Disposition) -> u64 {
        self.requests.get(counter(protocol, answered)).copied().unwrap_or(0)
    }

    /// Returns the number of requests with this result.
    pub(crate) fn total(&self, answered: Disposition) -> u64 {
        Interface::ALL.into_iter().map(|protocol| self.requests(protocol, answered)).sum()
    }

    /// Adds the counters of another slot or sample, and replaces the gauges.
    pub(crate) fn add(&mut self, requests: &[u64; COUNTERS], durations: &[u64; BUCKETS], gauges: Gauges) {
        let sums = self.requests.iter_mut().zip(requests).chain(self.durations.iter_mut().zip(durations));
        sums.for_each(|(sum, more)| *sum = sum.saturating_add(*more));
        self.gauges = gauges;
    }
}

/// Returns the place of a counter in a slot.
pub(crate) const fn counter(protocol: Interface, answered: Disposition) -> usize {
    protocol as usize * Disposition::ALL.len() + answered as usize
}

/// The slots of all spans.
#[derive(Debug)]
pub(crate) struct History {
    series: [Vec<Option<Box<Slot>>>; 3],
    /// The slots that changed since the last call of [`take_changed`](Self::take_changed).
    changed: Vec<(Span, usize)>,
}

impl Default for History {
    fn default() -> Self {
        Self { series: Span::ALL.map(|span| vec![None; span.slots()]), changed: Vec::new() }
    }
}

impl History {
    /// Adds a sample to the slots that contain `now`. Returns true if a minute has ended.
    pub(crate) fn add(&mut self, now: Time, sample: &Sample) -> bool {
        let Sample { requests, durations, gauges } = sample;
        for span in Span::ALL {
            self.slot_at(span, now.0).add(requests, durations, *gauges);
        }
        let minute = Span::Day.place(now.0);
        let has_ended = self.changed.iter().any(|(span, place)| *span == Span::Day && *place != minute);
        for span in Span::ALL {
            self.mark_changed(span, now.0);
        }
        has_ended
    }

    /// Returns the slot that contains a time. Drops a slot of another time at the same place.
    fn slot_at(&mut self, span: Span, time: u64) -> &mut Slot {
        let start = span.start(time);
        let place = self.slot_place(span, span.place(time)).expect("places are below the number of slots");
        if place.as_ref().is_none_or(|slot| slot.start != start) {
            *place = None;
        }
        place.get_or_insert_with(|| Box::new(Slot::new(start)))
    }

    fn slots(&self, span: Span) -> &[Option<Box<Slot>>] {
        let [day, month, years] = &self.series;
        match span {
            Span::Day => day,
            Span::Month => month,
            Span::Years => years,
        }
    }

    /// Returns the slot at a place.
    pub(super) fn get(&self, span: Span, place: usize) -> Option<&Slot> {
        self.slots(span).get(place)?.as_deref()
    }

    /// Marks all slots as changed, because the file may lack some of them.
    pub(super) fn change_all(&mut self) {
        let places = Span::ALL.into_iter().flat_map(|span| (0..span.slots()).map(move |place| (span, place)));
        self.changed = places.filter(|(span, place)| self.get(*span, *place).is_some()).collect();
    }

    /// Returns each slot that changed since the last call, once.
    pub(super) fn take_changed(&mut self) -> Vec<(Span, usize)> {
        std::mem::take(&mut self.changed)
    }

    /// Inserts a slot that was read from the file. A slot at the wrong place is ignored.
    pub(super) fn restore(&mut self, span: Span, place: usize, slot: Slot) {
        let is_right = slot.start > 0 && slot.start == span.start(slot.start) && place == span.place(slot.start);
        if let Some(to) = self.slot_place(span, place).filter(|_| is_right) {
            *to = Some(Box::new(slot));
        }
    }

    /// Replaces this history by the one in the file, and adds the slots that were kept in memory until now.
    pub(super) fn resume(&mut self, file: Self) {
        let memory = std::mem::replace(self, file);
        for span in Span::ALL {
            for slot in memory.slots(span).iter().flatten() {
                self.slot_at(span, slot.start).add(&slot.requests, &slot.durations, slot.gauges);
                self.mark_changed(span, slot.start);
            }
        }
    }

    /// Marks the slot that contains a time as changed.
    fn mark_changed(&mut self, span: Span, time: u64) {
        let changed = (span, span.place(time));
        if !self.changed.contains(&changed) {
            self.changed.push(changed);
        }
    }

    fn slot_place(&mut self, span: Span, place: usize) -> Option<&mut Option<Box<Slot>>> {
        let [day, month, years] = &mut self.series;
        let slots = match span {
            Span::Day => day,
            Span::Month => month,
            Span::Years => years,
        };
        slots.get_mut(place)
    }

    /// Recomputes the longer slots that are missing, or that count fewer requests than the shorter slots of the same
    /// period. There are such slots if the process was killed between two writes, or if a slot in the file was damaged.
    pub(super) fn complete(&mut self) {
        for span in [Span::Month, Span::Years] {
            let Some(finer) = span.finer() else { continue };
            let mut starts: Vec<u64> = self.slots(finer).iter().flatten().map(|slot| span.start(slot.start)).collect();
            starts.sort_unstable();
            starts.dedup();
            starts.into_iter().for_each(|start| self.complete_slot(span, finer, start));
        }
    }

    fn complete_slot(&mut self, span: Span, finer: Span, start: u64) {
        let mut sum = Slot::new(start);
        let mut parts: Vec<&Slot> = self
            .slots(finer)
            .iter()
            .flatten()
            .map(|slot| &**slot)
            .filter(|slot| span.start(slot.start) == start)
            .collect();
        parts.sort_by_key(|slot| slot.start);
        parts.iter().for_each(|slot| sum.add(&slot.requests, &slot.durations, slot.gauges));
        let total = |slot: &Slot| slot.requests.iter().fold(0_u64, |total, count| total.saturating_add(*count));
        let place = span.place(start);
        let is_complete = match self.get(span, place) {
            Some(slot) if slot.start == start => total(slot) >= total(&sum),
            // A slot of a later time may have replaced this one.
            Some(slot) => slot.start > start,
            None => false,
        };
        if !is_complete {
            self.restore(span, place, sum);
            self.changed.push((span, place));
        }
    }

    /// Returns the slots of a span up to `now`, oldest first. Periods in which the server did not run are missing.
    pub(crate) fn rows(&self, span: Span, now: Time) -> Vec<&Slot> {
        let last = span.start(now.0);
        let first = last.saturating_sub((span.slots() as u64 - 1) * span.slot_seconds());
        let mut rows: Vec<&Slot> = self.slots(span).iter().flatten().map(|slot| &**slot).collect();
        rows.retain(|slot| (first..=last).contains(&slot.start));
        rows.sort_by_key(|slot| slot.start);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 1_800_014_400;
    const DAY: u64 = 86_400;

    fn sample(spam: u64) -> Sample {
        let mut requests = [0; COUNTERS];
        requests[counter(Interface::Pyzor, Disposition::Spam)] = spam;
        Sample { requests, durations: [0; BUCKETS], gauges: Gauges { listed: spam, ..Gauges::default() } }
    }

    fn spam(history: &History, span: Span, now: u64) -> Vec<(u64, u64)> {
        let rows = history.rows(span, Time(now)).into_iter();
        rows.map(|slot| (slot.start, slot.total(Disposition::Spam))).collect()
    }

    #[test]
    fn a_sample_is_counted_in_every_span() {
        let mut history = History::default();
        assert!(!history.add(Time(NOON), &sample(1)));
        assert!(!history.add(Time(NOON + 59), &sample(2)));
        assert!(history.add(Time(NOON + 60), &sample(4)), "the first minute ended");
        assert_eq!(spam(&history, Span::Day, NOON + 60), [(NOON, 3), (NOON + 60, 4)]);
        assert_eq!(spam(&history, Span::Month, NOON + 60), [(NOON, 7)]);
        assert_eq!(spam(&history, Span::Years, NOON + 60), [(NOON - NOON % DAY, 7)]);
        assert_eq!(history.rows(Span::Month, Time(NOON)).first().unwrap().gauges.listed, 4, "the last value");
        assert_eq!(history.take_changed().len(), 4);
        assert!(history.take_changed().is_empty());
    }

    #[test]
    fn a_span_has_no_more_than_its_slots_and_the_oldest_are_replaced() {
        let mut history = History::default();
        for minute in 0..3 * 24 * 60 {
            history.add(Time(NOON + minute * 60), &sample(1));
            if minute % 100 == 0 {
                assert!(history.take_changed().len() <= 110);
            }
        }
        let now = NOON + 3 * DAY - 60;
        let minutes = spam(&history, Span::Day, now);
        assert_eq!((minutes.len(), minutes[0].0), (Span::Day.slots(), now - DAY + 60));
        assert_eq!(spam(&history, Span::Month, now).len(), 72);
        assert_eq!(spam(&history, Span::Years, now).iter().map(|(_, count)| count).sum::<u64>(), 3 * 24 * 60);
    }

    #[test]
    fn a_year_later_only_the_days_are_left() {
        let mut history = History::default();
        history.add(Time(NOON), &sample(1));
        let later = NOON + 365 * DAY;
        history.add(Time(later), &sample(2));
        assert_eq!(spam(&history, Span::Day, later), [(later, 2)]);
        assert_eq!(spam(&history, Span::Month, later).len(), 1);
        assert_eq!(spam(&history, Span::Years, later).len(), 2);
        assert_eq!(spam(&history, Span::Years, later + 800 * DAY).len(), 0);
    }

    #[test]
    fn a_wrong_clock_replaces_only_the_slots_of_the_times_it_showed() {
        let mut history = History::default();
        for minute in 0..60 {
            history.add(Time(NOON + minute * 60), &sample(1));
        }
        let wrong = NOON + 20 * 365 * DAY + 7 * 3_600;
        history.add(Time(wrong), &sample(5));
        let now = NOON + 3_600;
        history.add(Time(now), &sample(1));
        let seen = spam(&history, Span::Day, now);
        assert!(seen.len() >= 60 && seen.iter().all(|(start, count)| *start <= now && *count == 1), "{seen:?}");
        // The clock is set back by an hour: the same minutes are counted again, and none is lost.
        history.add(Time(NOON), &sample(1));
        assert_eq!(spam(&history, Span::Day, NOON).last(), Some(&(NOON, 2)));
        history.add(Time(0), &sample(1));
        history.add(Time(u64::MAX), &sample(1));
    }

    #[test]
    fn longer_slots_are_computed_again_from_shorter_ones() {
        let mut history = History::default();
        for minute in 0..3 {
            history.add(Time(NOON + minute * 60), &sample(2));
        }
        let mut restored = History::default();
        for place in 0..Span::Day.slots() {
            if let Some(slot) = history.get(Span::Day, place) {
                restored.restore(Span::Day, place, slot.clone());
            }
        }
        restored.complete();
        for span in Span::ALL {
            assert_eq!(spam(&restored, span, NOON + 120), spam(&history, span, NOON + 120), "{span:?}");
        }
        let before = spam(&restored, Span::Month, NOON + 120);
        restored.add(Time(NOON + 120), &sample(1));
        restored.complete();
        assert_eq!(spam(&restored, Span::Month, NOON + 120)[0].1, before[0].1 + 1, "complete slots stay");
    }

    #[test]
    fn a_slot_at_the_wrong_place_is_not_restored() {
        let mut history = History::default();
        history.restore(Span::Day, Span::Day.place(NOON) + 1, Slot::new(NOON));
        history.restore(Span::Day, Span::Day.place(NOON), Slot::new(NOON + 1));
        history.restore(Span::Day, usize::MAX, Slot::new(NOON));
        history.restore(Span::Day, 0, Slot::new(0));
        assert!(history.rows(Span::Day, Time(NOON + 60)).is_empty());
    }
}
