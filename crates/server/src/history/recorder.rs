//! The thread that reads the counters every second, adds them to the history, and writes the files every minute. It also
//! reads the records of reporters, and computes the figures that open dashboards show.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bruit_engine::Engine;
use bruit_engine::accounts::{Account, Registration};
use bruit_engine::trust::{ReporterView, Standing};
use bruit_store::{HISTORY_FILE, PRECISION_FILE};

use super::file::{HistoryFile, changes};
use super::precision::{self, PrecisionHistory, Rank, Record, day_of};
use super::precision_file::{PrecisionFile, PrecisionWrites};
use super::series::{COUNTERS, Gauges, History, Sample, counter};
use crate::fatal::Vital;
use crate::health::State;
use crate::http::publish_live;
use crate::metrics::{BUCKETS, Disposition, Interface, Metrics};
use crate::resources::Resources;
use crate::service::Service;

/// Interval between two readings.
const SECOND: Duration = Duration::from_secs(1);

/// The gauges are read only once in this number of readings of the counters, because they are expensive to read.
const GAUGES_EVERY: u32 = 60;

/// Number of readings after which the file is written even if no minute has ended.
const WRITE_EVERY: u32 = 60;

/// Number of accounts that are read at once, so that the engine is not locked for long.
const ACCOUNTS_AT_ONCE: usize = 1_000;

/// The history of a running server.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    counters: Mutex<History>,
    precision: Mutex<PrecisionHistory>,
}

impl Recording {
    /// Locks the history of the counters. Ignores poisoning, because no panic can leave a slot unusable.
    pub(crate) fn lock(&self) -> MutexGuard<'_, History> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the history of the reporters' precision. Ignores poisoning, because no panic can leave a sample unusable.
    pub(crate) fn precision(&self) -> MutexGuard<'_, PrecisionHistory> {
        self.precision.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The running thread.
pub(crate) struct Recorder {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Recorder {
    /// Reads the files in `directory` and starts the thread. If a file cannot be opened, health reports that, and its
    /// history is kept in memory until the file can be opened.
    pub(crate) fn start(service: Arc<Service>, directory: &Path) -> io::Result<Self> {
        let mut run = Run::new(&service, directory);
        run.open_files(&service);
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let _vital = Vital::new(&service, "the recorder of the history");
            while stopped.recv_timeout(SECOND) == Err(RecvTimeoutError::Timeout) {
                run.record(&service);
                publish_live(&service);
            }
            run.record(&service);
            run.write(&service);
            run.write_precision(&service);
        };
        Ok(Self { stop, thread: thread::Builder::new().name("bruit-recorder".into()).spawn(run)? })
    }

    pub(crate) fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the recorder of the history panicked");
        }
    }
}

/// The state of the thread.
struct Run {
    /// The counters at the last reading.
    last: Counters,
    gauges: Gauges,
    readings: u32,
    directory: PathBuf,
    /// The file of the counters, or `None` if it could not be opened yet.
    file: Option<HistoryFile>,
    /// The number of the account to read next, or `None` if all were read and the next minute has not begun.
    next_account: Option<usize>,
    /// The records of the accounts before `next_account`.
    records: Vec<Record>,
    /// The file of the precision, or `None` if it could not be opened yet.
    precision: Option<PrecisionFile>,
}

impl Run {
    fn new(service: &Service, directory: &Path) -> Self {
        Self {
            last: read(&service.metrics),
            gauges: Gauges::default(),
            readings: 0,
            directory: directory.to_owned(),
            file: None,
            next_account: Some(0),
            records: Vec::new(),
            precision: None,
        }
    }

    /// Opens the files that are not open yet.
    fn open_files(&mut self, service: &Service) {
        if self.file.is_none() {
            match HistoryFile::open(&self.directory) {
                Ok((file, history)) => {
                    service.history.lock().resume(history);
                    self.file = Some(file);
                }
                Err(error) => report(service, HISTORY_FILE, Some(&error)),
            }
        }
        if self.precision.is_none() {
            match PrecisionFile::open(&self.directory) {
                Ok((file, history)) => {
                    service.history.precision().resume(history);
                    self.precision = Some(file);
                }
                Err(error) => report(service, PRECISION_FILE, Some(&error)),
            }
        }
    }

    fn record(&mut self, service: &Service) {
        if self.readings.is_multiple_of(GAUGES_EVERY) {
            self.gauges = gauges(service);
        }
        self.readings = self.readings.wrapping_add(1);
        let counters = read(&service.metrics);
        let sample = counters.since(&self.last, self.gauges);
        self.last = counters;
        // Also write while time stands still, for example after the clock was set back.
        if service.history.lock().add(service.now(), &sample) || self.readings.is_multiple_of(WRITE_EVERY) {
            self.open_files(service);
            self.write(service);
            self.next_account.get_or_insert(0);
        }
        self.read_accounts(service);
    }

    /// Reads the records of the next accounts. Once all were read, adds them to the history of precision, and writes the
    /// file.
    fn read_accounts(&mut self, service: &Service) {
        let Some(first) = self.next_account else { return };
        let (records, is_last) = records(service, first);
        self.records.extend(records);
        self.next_account = (!is_last).then_some(first + ACCOUNTS_AT_ONCE);
        if is_last {
            service.history.precision().add_all(&std::mem::take(&mut self.records));
            self.write_precision(service);
        }
    }

    fn write_precision(&self, service: &Service) {
        let Some(file) = &self.precision else { return };
        let writes = PrecisionWrites::of(&mut service.history.precision());
        let result = file.write(&writes);
        if result.is_err() {
            writes.undo(&mut service.history.precision());
        }
        report(service, PRECISION_FILE, result.as_ref().err());
    }

    fn write(&self, service: &Service) {
        let Some(file) = &self.file else { return };
        let changes = changes(&mut service.history.lock());
        let result = file.write(&changes);
        if result.is_err() {
            service.history.lock().change_all();
        }
        report(service, HISTORY_FILE, result.as_ref().err());
    }
}

/// Returns the records of accounts from number `first` on, and true if there are no more accounts after them.
fn records(service: &Service, first: usize) -> (Vec<Record>, bool) {
    let now = service.now();
    service.store.check(|engine| {
        let accounts = engine.accounts().iter().skip(first).take(ACCOUNTS_AT_ONCE);
        let of = |(name, account): (&[u8], &Account)| {
            let id = account.reporter_id(name, &service.key);
            let record = engine.trust().reporter(now, id)?;
            Some((id, rank(account, &record), sample(day_of(now.0), &record)))
        };
        (accounts.filter_map(of).collect(), engine.accounts().len() <= first + ACCOUNTS_AT_ONCE)
    })
}

fn rank(account: &Account, record: &ReporterView) -> Rank {
    match (account.registration, account.standing) {
        (Registration::Itself, Standing::Account | Standing::Stranger) if record.weight > 0.0 => Rank::Weighted,
        (Registration::Itself, Standing::Account | Standing::Stranger) => Rank::Registered,
        _ => Rank::Known,
    }
}

fn sample(day: u32, record: &ReporterView) -> precision::Sample {
    let &ReporterView { precision, weight, confirmed, refuted, unconfirmed, .. } = record;
    let (precision, weight) = ((precision * 1e4).round() as u16, (weight * 1024.0).round() as u16);
    precision::Sample { day, precision, weight, confirmed, refuted, unconfirmed }
}

/// Begins or ends the condition of a file in health.
fn report(service: &Service, file: &str, error: Option<&io::Error>) {
    let text = error.map(|error| {
        format!("failed to write {file} ({error}): the charts have a gap; check the disk and its free space")
    });
    service.health.set(State::HistoryFails, file, text, service.now());
}

/// All counters at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Counters {
    requests: [u64; COUNTERS],
    durations: [u64; BUCKETS],
}

impl Counters {
    /// Returns the difference from an earlier reading.
    fn since(&self, earlier: &Self, gauges: Gauges) -> Sample {
        fn difference<const N: usize>(now: &[u64; N], before: &[u64; N]) -> [u64; N] {
            let mut difference = *now;
            difference.iter_mut().zip(before).for_each(|(now, before)| *now = now.saturating_sub(*before));
            difference
        }
        Sample {
            requests: difference(&self.requests, &earlier.requests),
            durations: difference(&self.durations, &earlier.durations),
            gauges,
        }
    }
}

fn read(metrics: &Metrics) -> Counters {
    let mut counters = Counters { requests: [0; COUNTERS], durations: [0; BUCKETS] };
    for protocol in Interface::ALL {
        let of = metrics.of(protocol);
        for answered in Disposition::ALL {
            if let Some(count) = counters.requests.get_mut(counter(protocol, answered)) {
                *count = of.total(answered);
            }
        }
        // Peers wait for new data on purpose, so the durations of their requests mean nothing.
        if protocol != Interface::Federation {
            counters.durations.iter_mut().zip(of.durations()).for_each(|(sum, count)| *sum += count);
        }
    }
    counters
}

fn gauges(service: &Service) -> Gauges {
    let rings = service.store.check(Engine::status).rings;
    let of = |name: &str| {
        let ring = rings.iter().find(|ring| ring.name == name);
        ring.map_or(0, |ring| ring.generations.iter().map(|(_, signatures)| signatures).sum())
    };
    Gauges {
        listed: of("listed signatures"),
        revoked: of("revoked signatures"),
        resident_bytes: Resources::read(None).resident_bytes.unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use bruit_engine::budget::BUDGET_MIN;
    use bruit_engine::time::Time;
    use bruit_engine::trust::Policy;
    use bruit_store::{Clearinghouse, Founding, Options};

    use super::*;
    use crate::config::Config;

    #[test]
    fn files_that_could_not_be_opened_at_the_start_are_opened_later() {
        // Such files were given up for good, and the condition in health never ended.
        let folder = tempfile::tempdir().unwrap();
        let found = || Founding::new([7; 16], BUDGET_MIN, Policy::default(), Time(1_800_000_000)).unwrap();
        let data = folder.path().join("data");
        let store = Clearinghouse::open_or_found(&data, &Options::default(), found, &mut |_| {}).unwrap();
        let service = Service::new(store, Config::parse("").unwrap().settings);
        let files = [HISTORY_FILE, PRECISION_FILE].map(|name| folder.path().join(name));
        files.iter().for_each(|file| fs::create_dir(file).unwrap());
        let mut run = Run::new(&service, folder.path());
        run.open_files(&service);
        run.write(&service);
        run.write_precision(&service);
        assert_eq!(service.health.count(State::HistoryFails), 2);
        files.iter().for_each(|file| fs::remove_dir(file).unwrap());
        run.record(&service);
        run.readings = WRITE_EVERY - 1;
        run.record(&service);
        assert_eq!(service.health.count(State::HistoryFails), 0);
        assert!(files.iter().all(|file| file.is_file()));
    }

    #[test]
    fn only_what_was_counted_since_the_last_reading_is_added() {
        let metrics = Metrics::new();
        metrics.of(Interface::Dcc).record(Disposition::Bulk, Duration::from_micros(5));
        let first = read(&metrics);
        metrics.of(Interface::Dcc).record(Disposition::Bulk, Duration::from_micros(5));
        metrics.of(Interface::Federation).record(Disposition::Other, Duration::from_secs(9));
        let sample = read(&metrics).since(&first, Gauges::default());
        assert_eq!(sample.requests[counter(Interface::Dcc, Disposition::Bulk)], 1);
        assert_eq!(sample.requests.iter().sum::<u64>(), 2);
        assert_eq!((sample.durations[0], sample.durations.iter().sum::<u64>()), (1, 1));
        assert_eq!(first.since(&read(&metrics), Gauges::default()).requests, [0; COUNTERS], "never below zero");
    }
}
