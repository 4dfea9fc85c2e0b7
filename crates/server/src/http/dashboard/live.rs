//! Live updates: one stream of server-sent events for all views.
//!
//! Once a second, the history recorder (`history/recorder.rs`) has the figures computed for all viewers together, but only
//! while a page is open. A viewer costs one connection and one place in [`STREAMS_MAX`].

use std::collections::BTreeMap;
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
use super::format::{duration, grouped, rate};
use super::overview::figures;
use super::viewer::Viewer;
use crate::federation::Stop;
use crate::resources::Resources;
use crate::service::Service;

/// Maximum number of open streams.
pub(super) const STREAMS_MAX: usize = 128;

/// Maximum number of open streams of one session.
const STREAMS_PER_SESSION_MAX: usize = 8;

/// Interval between two comments, which show a browser that the connection works.
const ALIVE: Duration = Duration::from_secs(15);

/// The figures that all viewers get.
#[derive(Debug)]
pub(crate) struct Live {
    figures: watch::Sender<Arc<str>>,
    streams: Arc<Semaphore>,
    /// The form tokens of the sessions with open streams, one for each stream.
    sessions: Arc<Mutex<Vec<String>>>,
    /// The uptime and the number of checks at the last computation.
    last: Mutex<Option<(Duration, u64)>>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            figures: watch::Sender::new("{}".into()),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            sessions: Arc::default(),
            last: Mutex::new(None),
        }
    }
}

/// Computes the figures if a page is open.
pub(crate) fn publish(service: &Service) {
    let live = &service.live;
    if live.figures.receiver_count() == 0 {
        *live.last.lock().unwrap_or_else(PoisonError::into_inner) = None;
        return;
    }
    let stats = stats::stats(service);
    let mut values: BTreeMap<String, String> = figures(&stats, &Resources::read(None)).into_iter().collect();
    let checks = super::overview::checks(&stats);
    if let Some(per_second) = live.rate(service.uptime(), checks) {
        values.insert("rate".to_owned(), rate(per_second));
    }
    values.insert("uptime".to_owned(), duration(stats.uptime_seconds));
    values.insert("problems".to_owned(), grouped(stats.health.len() as u64));
    let text = serde_json::to_string(&values).unwrap_or_default();
    live.figures.send_replace(text.into());
}

impl Live {
    /// Returns the checks per second since the last computation.
    fn rate(&self, now: Duration, checks: u64) -> Option<f64> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, before) = last.replace((now, checks))?;
        let seconds = now.saturating_sub(at).as_secs_f64();
        (seconds > 0.0).then(|| checks.saturating_sub(before) as f64 / seconds)
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
    fn a_rate_is_that_since_the_last_computation() {
        let live = Live::default();
        assert_eq!(live.rate(Duration::from_secs(10), 100), None);
        assert_eq!(live.rate(Duration::from_secs(12), 150), Some(25.0));
        assert_eq!(live.rate(Duration::from_secs(12), 150), None);
        assert_eq!(live.rate(Duration::from_secs(13), 0), Some(0.0));
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
