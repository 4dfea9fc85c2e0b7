//! Federation requests and responses, common to both listeners.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, RANGE,
};
use axum::http::{Response as Building, StatusCode};
use axum::response::Response;
use bruit_engine::exchange::Chain;
use bruit_federation::shelf::{Reader, Shelf};
use bruit_federation::transport::https::{TAG_BYTES_MAX, WAIT_MAX};
use bruit_federation::transport::{FETCH_BYTES_MAX, Offer, paths};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use super::{Federation, counted_body};
use crate::http::Fault;
use crate::metrics::Disposition;

const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// The query of a request for an offer.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OfferQuery {
    /// The tag of the last offer that the reader has seen, in hexadecimal digits.
    seen: String,
    /// Number of seconds to wait for a newer offer.
    wait: u64,
}

/// A flag that becomes true when the server stops, attached to requests as an extension.
#[derive(Clone)]
pub(crate) struct Stop(pub(crate) watch::Receiver<bool>);

/// A part of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    offset: u64,
    bytes_max: usize,
}

impl Federation {
    /// Returns the offer for a reader. If the reader has already seen it, waits for a newer one.
    pub(crate) async fn offer(
        &self,
        reader: Reader,
        query: &OfferQuery,
        headers: &HeaderMap,
        stop: Stop,
    ) -> Result<Response, Fault> {
        let seen = paths::bytes(&query.seen, TAG_BYTES_MAX).ok_or_else(|| {
            Fault::malformed(format!("seen: expected up to {TAG_BYTES_MAX} bytes in hexadecimal digits"))
        })?;
        let shelf = self.shelf()?;
        let wait = Duration::from_secs(query.wait).min(WAIT_MAX);
        let offer = self.next_offer(&shelf, reader, &seen, wait, stop).await;
        let etag = HeaderValue::try_from(format!("\"{}\"", paths::digits(&offer.tag))).map_err(|_| Fault::broken())?;
        if headers.get(IF_NONE_MATCH) == Some(&etag) {
            return respond(StatusCode::NOT_MODIFIED, &[(ETAG, etag)], axum::body::Body::empty());
        }
        let room = self.room(offer.heads.len())?;
        respond(StatusCode::OK, &[(ETAG, etag)], counted_body::body(offer.heads, room))
    }

    async fn next_offer(
        &self,
        shelf: &Shelf,
        reader: Reader,
        seen: &[u8],
        wait: Duration,
        Stop(mut stop): Stop,
    ) -> Offer {
        let end = Instant::now() + wait;
        let mut changes = shelf.changes();
        // If too many requests are already waiting, respond at once.
        let permit = self.waiting.try_acquire();
        loop {
            changes.borrow_and_update();
            let offer = shelf.offer(reader);
            if offer.tag != seen || permit.is_err() {
                return offer;
            }
            let has_changed = tokio::select! {
                changed = timeout_at(end, changes.changed()) => matches!(changed, Ok(Ok(()))),
                _ = stop.wait_for(|stop| *stop) => false,
            };
            if !has_changed {
                return offer;
            }
        }
    }

    /// Returns the requested part of a log, or the whole log if it is short.
    pub(crate) async fn log(&self, reader: Reader, path: &str, headers: &HeaderMap) -> Result<Response, Fault> {
        let chain = path.strip_prefix(paths::BASE).and_then(|path| paths::chain(path.strip_prefix('/')?));
        let chain = chain.filter(|chain| reader.may_have(chain.book)).ok_or_else(no_log)?;
        match headers.get(RANGE).map(part).transpose()? {
            Some(part) => self.part_of_log(chain, part).await,
            None => self.whole_log(chain).await,
        }
    }

    async fn part_of_log(&self, chain: Chain, part: Part) -> Result<Response, Fault> {
        let (bytes, room) = self.read_log(chain, part).await?;
        if bytes.is_empty() {
            return Err(Fault::new(
                StatusCode::RANGE_NOT_SATISFIABLE,
                Disposition::Other,
                "the log has no data at this offset yet",
            ));
        }
        let last = part.offset + bytes.len() as u64 - 1;
        let range = HeaderValue::try_from(format!("bytes {}-{last}/*", part.offset)).map_err(|_| Fault::broken())?;
        respond(StatusCode::PARTIAL_CONTENT, &[(CONTENT_RANGE, range)], counted_body::body(bytes, room))
    }

    async fn whole_log(&self, chain: Chain) -> Result<Response, Fault> {
        // Read one extra byte to detect whether the log is longer.
        let (bytes, room) = self.read_log(chain, Part { offset: 0, bytes_max: FETCH_BYTES_MAX + 1 }).await?;
        if bytes.len() > FETCH_BYTES_MAX {
            return Err(Fault::malformed(format!(
                "the log is too long for one response: request a range of at most {FETCH_BYTES_MAX} bytes"
            )));
        }
        respond(StatusCode::OK, &[], counted_body::body(bytes, room))
    }

    async fn read_log(&self, chain: Chain, part: Part) -> Result<(Vec<u8>, OwnedSemaphorePermit), Fault> {
        let shelf = self.shelf()?;
        let mut room = self.room(part.bytes_max)?;
        let read = spawn_blocking(move || shelf.log(&chain, part.offset, part.bytes_max)).await;
        let read = read.map_err(|_| Fault::broken())?.map_err(|error| {
            tracing::error!(%error, "failed to read a log");
            Fault::broken()
        })?;
        let bytes = read.ok_or_else(no_log)?;
        // Release the unneeded permits at once.
        drop(room.split(part.bytes_max.saturating_sub(bytes.len())));
        Ok((bytes, room))
    }

    /// Returns the realm file. The caller must check the reader's rights.
    pub(crate) async fn realm(self: &Arc<Self>) -> Result<Response, Fault> {
        let federation = Arc::clone(self);
        let read = spawn_blocking(move || federation.founding()).await.map_err(|_| Fault::broken())?;
        let bytes = read.map_err(|error| {
            tracing::error!(%error, "failed to read the realm file");
            Fault::broken()
        })?;
        let room = self.room(bytes.len())?;
        let secret = (CACHE_CONTROL, HeaderValue::from_static("no-store"));
        respond(StatusCode::OK, &[secret], counted_body::body(bytes, room))
    }

    fn shelf(&self) -> Result<Arc<Shelf>, Fault> {
        let shelf = self.shelf.read().unwrap_or_else(PoisonError::into_inner).clone();
        shelf.ok_or_else(|| {
            Fault::new(StatusCode::NOT_FOUND, Disposition::Refused, "this server does not share its books")
        })
    }

    /// Reserves memory for a response of this length.
    fn room(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Fault> {
        let permits = u32::try_from(bytes).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.answers).try_acquire_many_owned(permits);
        room.map_err(|_| Fault::busy("too many responses are in progress: try again"))
    }
}

fn respond(
    status: StatusCode,
    fields: &[(axum::http::HeaderName, HeaderValue)],
    body: axum::body::Body,
) -> Result<Response, Fault> {
    let mut building = Building::builder().status(status).header(CONTENT_TYPE, BYTES).header(ACCEPT_RANGES, "bytes");
    for (name, value) in fields {
        building = building.header(name, value);
    }
    building.body(body).map_err(|_| Fault::broken())
}

/// Returns the response for a log that does not exist, or that the reader may not read.
fn no_log() -> Fault {
    Fault::new(StatusCode::NOT_FOUND, Disposition::Other, "no such log")
}

/// Parses `bytes=3-5` or `bytes=3-`, limited to the length of one response.
fn part(range: &HeaderValue) -> Result<Part, Fault> {
    let parse = || {
        let (offset, last) = range.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
        let offset: u64 = offset.parse().ok()?;
        let last: u64 = if last.is_empty() { u64::MAX } else { last.parse().ok()? };
        let bytes = last.checked_sub(offset)?.min(FETCH_BYTES_MAX as u64 - 1) as usize + 1;
        Some(Part { offset, bytes_max: bytes })
    };
    parse().ok_or_else(|| Fault::malformed("Range: expected bytes=FIRST-LAST or bytes=FIRST-"))
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use bruit_engine::budget::BUDGET_MIN;
    use bruit_engine::exchange::{Book, Origin};
    use bruit_engine::time::Time;
    use bruit_engine::trust::Policy;
    use bruit_federation::keys::NodeKey;
    use bruit_federation::shelf::MemoryLogs;
    use bruit_store::Founding;

    use super::super::{ANSWERS_BYTES_MAX, WAITING_MAX};
    use super::*;

    const CHAIN: Chain = Chain { origin: Origin { key: [7; 32], incarnation: 1 }, book: Book::Listed, generation: 9 };

    /// Returns a federation with an empty offer that never changes, and a long log.
    fn still() -> Federation {
        let shelf = common_shelf();
        shelf.keep_segment(&CHAIN, 0, &vec![0; FETCH_BYTES_MAX]).unwrap();
        let federation = Federation::default();
        federation.share(Arc::new(shelf));
        federation
    }

    fn common_shelf() -> Shelf {
        let founding = Founding::new([5; 16], BUDGET_MIN, Policy::default(), Time(1_700_000_000)).unwrap();
        Shelf::closed(MemoryLogs::default(), NodeKey::generate([1; 32]), &founding.engine().unwrap())
    }

    async fn wait(federation: &Federation, stop: &watch::Sender<bool>) -> Duration {
        let tag = federation.shelf().unwrap().offer(Reader::Peer).tag;
        let (query, begin) = (OfferQuery { seen: paths::digits(&tag), wait: 3_600 }, Instant::now());
        let offer = federation.offer(Reader::Peer, &query, &HeaderMap::new(), Stop(stop.subscribe())).await;
        assert_eq!(offer.unwrap().status(), StatusCode::OK);
        begin.elapsed()
    }

    fn status(result: Result<Response, Fault>) -> StatusCode {
        result.unwrap_or_else(IntoResponse::into_response).status()
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_longer_than_the_longest_wait() {
        let waited = wait(&still(), &watch::Sender::new(false)).await;
        assert!((WAIT_MAX..WAIT_MAX + Duration::from_secs(1)).contains(&waited), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_finds_no_place_to_wait_is_answered_at_once() {
        let (federation, stop) = (still(), watch::Sender::new(false));
        let others = federation.waiting.try_acquire_many(WAITING_MAX as u32 - 1).unwrap();
        let last = async { tokio::join!(wait(&federation, &stop), wait(&federation, &stop)) };
        let (first, second) = last.await;
        assert!(first >= WAIT_MAX && second.is_zero(), "{first:?} {second:?}");
        drop(others);
        assert!(wait(&federation, &stop).await >= WAIT_MAX, "permits are returned");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_on_a_server_that_stops() {
        let stop = watch::Sender::new(true);
        assert!(wait(&still(), &stop).await.is_zero());
    }

    #[tokio::test]
    async fn answers_that_are_not_sent_yet_leave_no_room_for_more() {
        let federation = still();
        let fetch = || federation.part_of_log(CHAIN, Part { offset: 0, bytes_max: FETCH_BYTES_MAX });
        let mut held = Vec::new();
        for _ in 0..ANSWERS_BYTES_MAX / FETCH_BYTES_MAX {
            held.push(fetch().await.unwrap());
        }
        assert_eq!(status(fetch().await), StatusCode::SERVICE_UNAVAILABLE);
        held.pop();
        assert_eq!(status(fetch().await), StatusCode::PARTIAL_CONTENT);
        held.clear();
        assert_eq!(federation.answers.available_permits(), ANSWERS_BYTES_MAX);
    }

    #[test]
    fn a_part_is_what_is_asked_for_up_to_what_one_answer_holds() {
        let of = |text: &'static str| part(&HeaderValue::from_static(text)).ok();
        assert_eq!(of("bytes=3-5"), Some(Part { offset: 3, bytes_max: 3 }));
        assert_eq!(of("bytes=3-3"), Some(Part { offset: 3, bytes_max: 1 }));
        assert_eq!(of("bytes=0-4194303"), Some(Part { offset: 0, bytes_max: FETCH_BYTES_MAX }));
        for longer in ["bytes=0-4194304", "bytes=0-", "bytes=0-18446744073709551615"] {
            assert_eq!(of(longer), Some(Part { offset: 0, bytes_max: FETCH_BYTES_MAX }), "{longer}");
        }
        let end = "bytes=18446744073709551615-18446744073709551615";
        assert_eq!(of(end), Some(Part { offset: u64::MAX, bytes_max: 1 }));
        for text in ["", "bytes", "bytes=", "bytes=-5", "bytes=5-3", "bytes=a-", "bytes=0-1,3-4", "lines=0-1"] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
