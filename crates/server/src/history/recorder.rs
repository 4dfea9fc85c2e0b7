//! The thread that reads the counters every second, adds them to the history, and writes the file every minute. It also
//! computes the figures that open dashboards show.

use std::io;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bruit_engine::Engine;

use super::file::{HistoryFile, changes};
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

/// The history of a running server.
#[derive(Debug, Default)]
pub(crate) struct Recording(Mutex<History>);

impl Recording {
    /// Locks the history. Ignores poisoning, because no panic can leave a slot unusable.
    pub(crate) fn lock(&self) -> MutexGuard<'_, History> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The running thread.
pub(crate) struct Recorder {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Recorder {
    /// Reads the file in `directory` and starts the thread. If the file cannot be used, the history is kept in memory
    /// only, and health reports it.
    pub(crate) fn start(service: Arc<Service>, directory: &Path) -> io::Result<Self> {
        let file = match HistoryFile::open(directory) {
            Ok((file, history)) => {
                *service.history.lock() = history;
                Some(file)
            }
            Err(error) => {
                report(&service, Some(&error));
                None
            }
        };
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let _vital = Vital::new(&service, "the recorder of the history");
            let mut run = Run { last: read(&service.metrics), gauges: Gauges::default(), readings: 0, file };
            while stopped.recv_timeout(SECOND) == Err(RecvTimeoutError::Timeout) {
                run.record(&service);
                publish_live(&service);
            }
            run.record(&service);
            run.write(&service);
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
    file: Option<HistoryFile>,
}

impl Run {
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
            self.write(service);
        }
    }

    fn write(&self, service: &Service) {
        let Some(file) = &self.file else { return };
        let changes = changes(&mut service.history.lock());
        let result = file.write(&changes);
        if result.is_err() {
            service.history.lock().change_all();
        }
        report(service, result.as_ref().err());
    }
}

/// Begins or ends the condition in health.
fn report(service: &Service, error: Option<&io::Error>) {
    let text = error.map(|error| {
        format!("failed to write history.bruit ({error}): the charts have a gap; check the disk and its free space")
    });
    service.health.set(State::HistoryFails, "", text, service.now());
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
    use super::*;

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
