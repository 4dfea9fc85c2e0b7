//! Live updates: one stream of server-sent events for all views.
//!
//! Once a second, the history recorder (`history/recorder.rs`) has the figures computed for all viewers together, but only
//! while a page is open. A viewer costs one connection and one place in [`STREAMS_MAX`].

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{Stream, unfold};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::super::fault::Fault;
use super::super::{Http, stats};
use super::failure::Failure;
use super::format::{duration, rate};
use super::overview::{Enabled, figures, problems, response_time};
use super::viewer::Viewer;
use crate::federation::Stop;
use crate::resources::Resources;
use crate::service::Service;

/// Maximum number of open streams.
pub(super) const STREAMS_MAX: usize = 128;

/// Maximum number of open streams of one session.
const STREAMS_PER_SESSION_MAX: usize = 8;

/// The time over which the rate of checks is an average.
const RATE_OVER: Duration = Duration::from_secs(60);

/// Maximum number of readings for the rate. There is one each second, and fewer if the machine is busy.
const READINGS_MAX: usize = 70;

/// Interval between two comments, which show a browser that the connection works.
const ALIVE: Duration = Duration::from_secs(15);

/// The figures that all viewers get.
#[derive(Debug)]
pub(crate) struct Live {
    figures: watch::Sender<Arc<str>>,
    streams: Arc<Semaphore>,
    /// The form tokens of the sessions with open streams, one for each stream.
    sessions: Arc<Mutex<Vec<String>>>,
    /// The uptimes and numbers of checks of the last minute's readings, and of the last one before.
    readings: Mutex<VecDeque<(Duration, u64)>>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            figures: watch::Sender::new("{}".into()),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            sessions: Arc::default(),
            readings: Mutex::default(),
        }
    }
}

/// Counts the checks, and computes the figures if a page is open. Called once a second.
pub(crate) fn publish(service: &Service) {
    let live = &service.live;
    live.read(service.uptime(), super::overview::checks(&service.metrics));
    if live.figures.receiver_count() == 0 {
        return;
    }
    let stats = stats::stats(service);
    let figures = figures(&stats, &Resources::read(None), &Enabled::of(service));
    let mut values: BTreeMap<String, String> = figures.into_iter().collect();
    values.insert("rate".to_owned(), rate(live.rate()));
    values.insert("response-time".to_owned(), response_time(service));
    values.insert("uptime".to_owned(), duration(stats.uptime_seconds));
    values.insert("problems".to_owned(), problems(&stats.health));
    let text = serde_json::to_string(&values).unwrap_or_default();
    live.figures.send_replace(text.into());
}

impl Live {
    fn read(&self, now: Duration, checks: u64) {
        let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        readings.push_back((now, checks));
        // The first reading is the last one that is at least a minute old.
        let is_old = |reading: Option<&(Duration, u64)>| reading.is_some_and(|(at, _)| *at + RATE_OVER <= now);
        while is_old(readings.get(1)) || readings.len() > READINGS_MAX {
            readings.pop_front();
        }
    }

    /// Returns the checks per second in the last minute. Before the server started, there were none.
    pub(super) fn rate(&self) -> f64 {
        let readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((now, checks)) = readings.back() else { return 0.0 };
        let is_young = *now < RATE_OVER;
        let (at, before) = readings.front().filter(|_| !is_young).copied().unwrap_or_default();
        let seconds = now.saturating_sub(at).max(RATE_OVER).as_secs_f64();
        checks.saturating_sub(before) as f64 / seconds
    }
}

/// A place in the list of streams, given back when the stream ends.
struct Place {
    sessions: Arc<Mutex<Vec<String>>>,
    session: String,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    /// Takes a place. Returns `None` if all places, or those of the session, are taken.
    fn take(live: &Live, session: &str) -> Option<Self> {
        let permit = Arc::clone(&live.streams).try_acquire_owned().ok()?;
        let mut sessions = live.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.iter().filter(|open| *open == session).count() >= STREAMS_PER_SESSION_MAX {
            return None;
        }
        sessions.push(session.to_owned());
        Some(Self { sessions: Arc::clone(&live.sessions), session: session.to_owned(), _permit: permit })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = sessions.iter().position(|open| *open == self.session) {
            sessions.swap_remove(place);
        }
    }
}

/// The state of one stream.
struct Following {
    figures: watch::Receiver<Arc<str>>,
    stop: Stop,
    http: Http,
    viewer: Viewer,
    _place: Place,
}

/// Opens a stream.
pub(super) async fn stream(
    State(http): State<Http>,
    viewer: Viewer,
    Extension(stop): Extension<Stop>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Failure> {
    let live = &http.service.live;
    let busy = || Fault::busy("too many dashboards are open: this one does not update by itself");
    let place = Place::take(live, &viewer.form_token).ok_or_else(busy)?;
    let figures = live.figures.subscribe();
    let following = Following { figures, stop, http: http.clone(), viewer, _place: place };
    let events = unfold(following, |mut following| async move {
        let text = following.next().await?;
        Some((Ok(Event::default().data(text)), following))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(ALIVE)))
}

impl Following {
    /// Waits for new figures. Returns `None` when the server stops, or when the session or its token is no longer valid.
    async fn next(&mut self) -> Option<String> {
        let Self { figures, stop: Stop(stop), .. } = self;
        tokio::select! {
            changed = figures.changed() => changed.ok()?,
            _ = stop.wait_for(|stop| *stop) => return None,
        }
        let text = self.figures.borrow_and_update().to_string();
        self.viewer.is_signed_in(&self.http).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_average_of_the_last_minute() {
        let live = Live::default();
        assert_eq!(live.rate(), 0.0);
        let rate_after = |second: u64, checks: u64| {
            live.read(Duration::from_secs(second), checks);
            live.rate()
        };
        assert_eq!(rate_after(5, 30), 0.5, "the minute before the start counts");
        assert_eq!(rate_after(30, 60), 1.0);
        assert_eq!(rate_after(65, 90), 1.0, "the first 30 checks are older than a minute");
        assert_eq!(rate_after(90, 90), 0.5);
        assert_eq!(rate_after(300, 300), 1.0, "210 checks in 210 seconds without a reading");
        for second in 301..500 {
            rate_after(second, 300);
        }
        assert_eq!(live.rate(), 0.0);
        assert!(live.readings.lock().unwrap().len() <= 61);
        for _ in 0..500 {
            rate_after(500, 300);
        }
        assert_eq!(live.readings.lock().unwrap().len(), READINGS_MAX);
    }

    #[test]
    fn streams_are_bounded_in_all_and_for_each_session() {
        let live = Live::default();
        let places: Vec<_> = (0..STREAMS_MAX)
            .map(|number| Place::take(&live, &format!("session {}", number / STREAMS_PER_SESSION_MAX)).unwrap())
            .collect();
        assert!(Place::take(&live, "another").is_none());
        drop(places);
        let own: Vec<_> = (0..STREAMS_PER_SESSION_MAX).map(|_| Place::take(&live, "one").unwrap()).collect();
        assert!(Place::take(&live, "one").is_none() && Place::take(&live, "another").is_some());
        drop(own);
        assert_eq!(live.streams.available_permits(), STREAMS_MAX);
        assert!(live.sessions.lock().unwrap().is_empty());
    }
}
