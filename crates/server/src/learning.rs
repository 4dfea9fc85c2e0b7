//! Learning from checks. If the operator enables it, text that recurs in unreported mail is learned as good.
//!
//! A check queues the features of its message and does not wait. The queue holds [`WAITING_MAX`] messages. When it is
//! full, further messages are dropped and counted. One thread records the features in a [`RecentFeatures`], and submits
//! the features seen on enough days as [`Event::GoodFeatures`]. Learned features are in the journal, but the days on
//! which a feature was seen are lost when the server stops.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bruit_engine::Outcome;
use bruit_engine::event::{By, Event};
use bruit_engine::recurring::RecentFeatures;
use bruit_engine::replicas::GOOD_FEATURES;
use bruit_engine::time::Time;
use bruit_engine::trust::{Reporter, Standing};
use bruit_signatures::bruit::Features;

use crate::fatal::Vital;
use crate::service::Service;

/// Maximum number of messages waiting to be recorded.
const WAITING_MAX: usize = 256;

/// Maximum number of features of a message. Longer messages are dropped. This limits the queue to 8 MiB.
const FEATURES_MAX: usize = 4_096;

/// Interval between two submissions.
const INTERVAL: Duration = Duration::from_secs(10);

/// Maximum number of events in one submission. This allows twelve events a minute.
const EVENTS_MAX: usize = 2;

/// Maximum number of features waiting to be submitted. Further features are submitted with a later message that has
/// them.
const PENDING_MAX: usize = EVENTS_MAX * GOOD_FEATURES as usize;

/// The part of the capacity for good mail that learning from checks may fill. The rest is reserved for mail that people
/// teach.
const ROOM_PERCENT: u64 = 50;

/// The reporter to whom everything learned from checks is attributed.
const REPORTER: &[u8] = b"learning from checks";

/// The queue of messages from checks, and its counters.
#[derive(Debug)]
pub(crate) struct Learning {
    items: SyncSender<Item>,
    /// The receiving end of the queue, until the thread starts.
    receiver: Mutex<Option<Receiver<Item>>>,
    /// Number of recorded messages.
    noted: AtomicU64,
    /// Number of messages dropped because they were too long, the queue was full, or no more features could be recorded
    /// on that day.
    dropped: AtomicU64,
    /// Number of learned features.
    learnt: AtomicU64,
}

#[derive(Debug)]
enum Item {
    Message(Features),
    Stop,
}

/// Counters of learning from checks since the server started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LearningCounts {
    pub(crate) noted: u64,
    pub(crate) dropped: u64,
    pub(crate) features: u64,
}

impl Default for Learning {
    fn default() -> Self {
        let (items, receiver) = sync_channel(WAITING_MAX);
        let zero = AtomicU64::default;
        Self { items, receiver: Mutex::new(Some(receiver)), noted: zero(), dropped: zero(), learnt: zero() }
    }
}

impl Learning {
    /// Queues the features of a message for learning. Never waits.
    pub(crate) fn offer(&self, features: Features) {
        if features.is_empty() {
            return;
        }
        let is_dropped = features.len() > FEATURES_MAX || self.items.try_send(Item::Message(features)).is_err();
        self.dropped.fetch_add(u64::from(is_dropped), Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> LearningCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LearningCounts { noted: of(&self.noted), dropped: of(&self.dropped), features: of(&self.learnt) }
    }
}

/// The thread that learns from checks.
pub(crate) struct Learner {
    service: Arc<Service>,
    thread: JoinHandle<()>,
}

impl Learner {
    pub(crate) fn start(service: Arc<Service>) -> io::Result<Self> {
        let receiver = service.learning.receiver.lock().unwrap_or_else(PoisonError::into_inner).take();
        let receiver = receiver.ok_or_else(|| io::Error::other("the learner is already running"))?;
        let of_thread = Arc::clone(&service);
        let run = move || {
            let _vital = Vital::new(&of_thread, "the learner");
            learn(&of_thread, &receiver);
        };
        Ok(Self { service, thread: thread::Builder::new().name("bruit-learner".into()).spawn(run)? })
    }

    pub(crate) fn stop(self) {
        // Sending fails if the thread has already ended.
        let _ = self.service.learning.items.send(Item::Stop);
        if self.thread.join().is_err() {
            tracing::error!("the learner panicked");
        }
    }
}

fn learn(service: &Service, receiver: &Receiver<Item>) {
    let (mut notes, mut submitted) = (Notes::default(), Instant::now());
    loop {
        match receiver.recv_timeout(INTERVAL.saturating_sub(submitted.elapsed())) {
            Ok(Item::Message(features)) => notes.note(service, &features, service.now()),
            Ok(Item::Stop) | Err(RecvTimeoutError::Disconnected) => return notes.submit(service, service.now()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if submitted.elapsed() >= INTERVAL {
            notes.submit(service, service.now());
            submitted = Instant::now();
        }
    }
}

/// The features seen, and the features waiting to be submitted.
#[derive(Default)]
struct Notes {
    /// Created with the first message, because most servers never need it.
    seen: Option<RecentFeatures>,
    pending: BTreeSet<u64>,
}

impl Notes {
    fn note(&mut self, service: &Service, features: &Features, now: Time) {
        let days = service.settings().learning.days;
        let Some(seen) = self.seen(service, now) else { return };
        let mut common = seen.note(features, days, now);
        let Learning { noted, dropped, .. } = &service.learning;
        let became = if seen.is_full() { dropped } else { noted };
        became.fetch_add(1, Ordering::Relaxed);
        if !common.is_empty() {
            service.store.check(|engine| engine.replicas().retain_unlearnt(&mut common));
        }
        let room = PENDING_MAX.saturating_sub(self.pending.len());
        self.pending.extend(common.into_iter().take(room));
    }

    fn seen(&mut self, service: &Service, now: Time) -> Option<&mut RecentFeatures> {
        if self.seen.is_none() {
            let made = RecentFeatures::try_new(service.key.clone(), now);
            self.seen = made.inspect_err(|error| tracing::warn!(%error, "failed to start learning from checks")).ok();
        }
        self.seen.as_mut()
    }

    /// Submits the waiting features, or discards everything if the operator has turned learning off.
    fn submit(&mut self, service: &Service, now: Time) {
        if !service.settings().learning.checks {
            *self = Self::default();
        }
        let features: Vec<u64> = std::mem::take(&mut self.pending).into_iter().collect();
        if features.is_empty() || !service.store.check(|engine| has_room(engine.replicas().good_fill())) {
            return;
        }
        let id = service.key.fingerprint(REPORTER).high();
        let by = By { now, reporter: Reporter { id, standing: Standing::Own, group: id } };
        let event = |features: &[u64]| Event::GoodFeatures { by, features: features.to_vec() };
        let chunks = features.chunks(GOOD_FEATURES as usize);
        let result = service.store.submit(chunks.clone().map(event).collect());
        service.note(&result);
        let outcomes = result.unwrap_or_default();
        let done = chunks.zip(&outcomes).filter(|(_, outcome)| **outcome == Outcome::Done);
        let learnt: usize = done.map(|(features, _)| features.len()).sum();
        if learnt > 0 {
            service.learning.learnt.fetch_add(learnt as u64, Ordering::Relaxed);
            tracing::info!(features = learnt, "learned text that recurs in unreported mail");
        }
    }
}

/// Returns true if learning from checks may use more of the capacity. `used` and `capacity` are numbers of good
/// messages.
const fn has_room((used, capacity): (u64, u64)) -> bool {
    used.saturating_mul(100) < capacity.saturating_mul(ROOM_PERCENT)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use bruit_engine::budget::BUDGET_MIN;
    use bruit_engine::trust::Policy;
    use bruit_store::{Clearinghouse, Founding, Options};

    use super::*;
    use crate::config::Config;
    use crate::health::State;
    use crate::watch;

    const NOW: Time = Time(1_800_000_000);

    fn service(folder: &Path, config: &str) -> Service {
        let found = || Founding::new([7; 16], BUDGET_MIN, Policy::default(), NOW).unwrap();
        let store = Clearinghouse::open_or_found(folder, &Options::default(), found, &mut |_| {}).unwrap();
        Service::new(store, Config::parse(config).unwrap().settings)
    }

    fn after(days: u64) -> Time {
        Time(NOW.0 + days * Time::DAY)
    }

    /// Returns an issue of a newsletter: 50 features of the template and 50 of the issue.
    fn issue(number: u64) -> Features {
        Features { pairs: (0..50).chain(1_000 * number..1_000 * number + 50).collect(), ..Features::default() }
    }

    /// Returns a long message that differs in one feature from day to day.
    fn long(first: u64, day: u64) -> Features {
        Features { pairs: (first..first + 511).chain([1 << 40 | day]).collect(), ..Features::default() }
    }

    /// Counts the features of a newsletter's template that have not been learned.
    fn unlearnt(service: &Service) -> usize {
        let mut template: Vec<u64> = (0..50).collect();
        service.store.check(|engine| engine.replicas().retain_unlearnt(&mut template));
        template.len()
    }

    #[test]
    fn what_comes_back_for_days_is_learnt_once_and_stays_learnt_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let service = service(folder.path(), "[learning]\nchecks = true\ndays = 3");
        let mut notes = Notes::default();
        for day in 0..2 {
            (1..5).for_each(|number| notes.note(&service, &issue(10 * day + number), after(day)));
            notes.submit(&service, after(day));
        }
        assert_eq!(unlearnt(&service), 50, "two days are not enough");
        notes.note(&service, &issue(100), after(2));
        notes.submit(&service, after(2));
        assert_eq!(unlearnt(&service), 0);
        notes.note(&service, &issue(101), after(3));
        assert!(notes.pending.is_empty(), "it is already learned");
        assert_eq!(service.learning.counts(), LearningCounts { noted: 10, dropped: 0, features: 50 });
        let _ = service.store.close();
        assert_eq!(unlearnt(&self::service(folder.path(), "")), 0);
    }

    #[test]
    fn checks_leave_half_of_the_room_to_people() {
        let folder = tempfile::tempdir().unwrap();
        let service = service(folder.path(), "[learning]\nchecks = true\ndays = 2");
        let mut notes = Notes::default();
        for round in 0..200 {
            (0..2).for_each(|day| notes.note(&service, &long(round * 1_000, day), after(2 * round + day)));
            notes.submit(&service, after(2 * round + 1));
        }
        let (used, capacity) = service.store.check(|engine| engine.replicas().good_fill());
        assert!(used <= capacity / 2 + EVENTS_MAX as u64 && used >= capacity / 2, "{used} of {capacity}");
    }

    #[test]
    fn what_waits_to_be_submitted_is_bounded_and_forgotten_when_learning_is_turned_off() {
        let folder = tempfile::tempdir().unwrap();
        let service = service(folder.path(), "");
        let mut notes = Notes::default();
        for day in 0..3 {
            for start in 0..10 {
                notes.note(&service, &long(start * 1_000, day), after(day));
            }
        }
        assert_eq!(notes.pending.len(), PENDING_MAX);
        notes.submit(&service, after(3));
        assert!(notes.pending.is_empty() && notes.seen.is_none());
        assert_eq!(service.learning.counts().features, 0);
    }

    #[test]
    fn room_for_good_mail_that_runs_out_shows_in_the_table_of_health() {
        let folder = tempfile::tempdir().unwrap();
        let service = service(folder.path(), "");
        let by = By { now: NOW, reporter: Reporter { id: 1, standing: Standing::Own, group: 1 } };
        let (_, capacity) = service.store.check(|engine| engine.replicas().good_fill());
        for first in (0..capacity).map(|message| message * GOOD_FEATURES) {
            let features = (first..first + GOOD_FEATURES).collect();
            service.store.submit(vec![Event::GoodFeatures { by, features }]).unwrap();
        }
        watch::look(&service, NOW);
        let conditions = service.health.conditions();
        let filling = conditions.iter().find(|condition| condition.state == State::TableFills.name()).unwrap();
        let expected = format!("{capacity} of {capacity} good messages are used");
        assert!(filling.subject == "good messages" && filling.text.starts_with(&expected), "{filling:?}");
    }

    #[test]
    fn a_check_never_waits_for_the_learner() {
        let learning = Learning::default();
        learning.offer(Features::default());
        (0..WAITING_MAX as u64 + 5).for_each(|number| learning.offer(issue(number)));
        learning.offer(Features { pairs: (0..5_000).collect(), ..Features::default() });
        assert_eq!(learning.counts().dropped, 6);
    }
}
