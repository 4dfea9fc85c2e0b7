//! One suite of behaviours for all transports between servers: over HTTPS, from static files, over a real broker, and in
//! the simulated network.
//!
//! An origin with an engine, an exporter and a shelf makes its data available over the transport. A reader with an engine
//! and a receiver follows it. To add a transport, add a file that implements [`Carrier`], and a line at the end of this
//! file.
//!
//! | module | contents |
//! |---|---|
//! | `origin`, `reader` | the two servers |
//! | `https`, `files`, `nats`, `simulated` | the transports |

#[path = "../../../federation/tests/brokers/mod.rs"]
mod brokers;
#[path = "../common/mod.rs"]
mod common;
mod files;
mod https;
mod nats;
mod origin;
mod reader;
mod simulated;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bruit_engine::exchange::{Book, Chain};
use bruit_engine::generations::LIVE_GENERATIONS;
use bruit_federation::shelf::Shelf;
use bruit_federation::transport::{FETCH_BYTES_MAX, Source, TransportError};
use origin::{EPOCH, Origin};
use reader::Reader;

/// Time limit for events that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// Time for which a reader waits for data that must not arrive.
const SHORT: Duration = Duration::from_millis(400);

/// A transport between an origin and a reader.
trait Carrier: Sized {
    /// The reader's side.
    type Source: Source;

    /// Starts the transport for the shelf of an origin.
    fn start(runtime: &tokio::runtime::Runtime, shelf: &Arc<Shelf>) -> Self;

    /// Returns the reader's side.
    fn source(&self) -> &Self::Source;

    /// Makes everything on the shelf available.
    async fn publish(&self, shelf: &Shelf);

    /// Publishes signed heads as they are, if the transport stores heads.
    async fn announce(&self, _heads: &[u8]) {}

    /// Publishes all segments again, if the transport stores segments.
    async fn repeat(&self, _shelf: &Shelf) {}
}

/// Retries until `attempt` returns a value.
async fn until<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(value) = attempt().await {
            return value;
        }
        assert!(Instant::now() < deadline, "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Reads the offer until it contains these heads. An offer of a server also contains heads that cover only the public
/// books.
async fn until_offered<S: Source>(source: &S, heads: &[u8]) {
    let contains = |offered: &[u8]| offered.windows(heads.len()).any(|part| part == heads);
    let offered = async || source.offer(&[], SHORT).await.ok().filter(|offer| contains(&offer.heads));
    until("heads are offered", offered).await;
}

async fn offers_are_the_latest_heads<C: Carrier>(carrier: &C, mut origin: Origin) {
    carrier.publish(&origin.shelf).await;
    until_offered(carrier.source(), &origin.heads()).await;
    origin.list(1);
    carrier.publish(&origin.shelf).await;
    until_offered(carrier.source(), &origin.heads()).await;
}

async fn a_reader_waits_for_news_and_no_longer_than_asked<C: Carrier>(carrier: &C, mut origin: Origin) {
    carrier.publish(&origin.shelf).await;
    until_offered(carrier.source(), &origin.heads()).await;
    let seen = carrier.source().offer(&[], SHORT).await.unwrap();
    let began = Instant::now();
    assert_eq!(carrier.source().offer(&seen.tag, SHORT).await.unwrap(), seen);
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    origin.list(1);
    let news = carrier.source().offer(&seen.tag, PATIENCE);
    let (news, ()) = tokio::join!(news, carrier.publish(&origin.shelf));
    assert!(news.unwrap().tag != seen.tag && began.elapsed() < PATIENCE);
}

async fn logs_are_fetched_from_any_segment_on<C: Carrier>(carrier: &C, mut origin: Origin) {
    (0..5).for_each(|number| origin.list(number));
    carrier.publish(&origin.shelf).await;
    let chain = origin.chain(Book::Listed);
    let log = origin.log(&chain);
    for offset in origin.offsets(&chain) {
        let rest = until("the log is there", async || carrier.source().fetch(&chain, offset).await.ok()).await;
        assert!(!rest.is_empty() && log[offset as usize..].starts_with(&rest), "from {offset}");
    }
}

async fn what_is_missing_is_an_error_or_nothing<C: Carrier>(carrier: &C, mut origin: Origin) {
    origin.list(1);
    carrier.publish(&origin.shelf).await;
    let (here, absent) = (origin.chain(Book::Listed), Chain { generation: 7, ..origin.chain(Book::Listed) });
    until("the log is there", async || carrier.source().fetch(&here, 0).await.ok()).await;
    let is_missing = |log: Result<Vec<u8>, TransportError>| match log {
        Ok(log) => log.is_empty(),
        Err(error) => matches!(error, TransportError::Missing),
    };
    assert!(is_missing(carrier.source().fetch(&absent, 0).await));
    assert!(is_missing(carrier.source().fetch(&here, origin.log(&here).len() as u64).await));
}

async fn everything_arrives_once_although_published_twice<C: Carrier>(carrier: &C, mut origin: Origin) {
    let mut reader = Reader::of(&origin);
    for number in 0..4 {
        origin.list(number);
        carrier.publish(&origin.shelf).await;
        carrier.repeat(&origin.shelf).await;
        reader.follow_until_like(carrier.source(), &origin).await;
    }
    assert_eq!(reader.segments(), origin.segments());
}

async fn old_heads_change_nothing<C: Carrier>(carrier: &C, mut origin: Origin) {
    let mut reader = Reader::of(&origin);
    origin.list(1);
    carrier.publish(&origin.shelf).await;
    reader.follow_until_like(carrier.source(), &origin).await;
    let old = origin.heads();
    origin.advance(1);
    origin.list(2);
    carrier.publish(&origin.shelf).await;
    reader.follow_until_like(carrier.source(), &origin).await;
    carrier.announce(&old).await;
    reader.follow_for(carrier.source(), SHORT).await;
    assert_eq!(reader.segments(), origin.segments());
    origin.advance(1);
    origin.list(3);
    carrier.publish(&origin.shelf).await;
    reader.follow_until_like(carrier.source(), &origin).await;
    assert_eq!(reader.refusals(), 0);
}

async fn heads_before_their_segments_do_no_harm<C: Carrier>(carrier: &C, mut origin: Origin) {
    let mut reader = Reader::of(&origin);
    carrier.publish(&origin.shelf).await;
    origin.list(1);
    carrier.announce(&origin.heads()).await;
    reader.follow_for(carrier.source(), SHORT).await;
    carrier.publish(&origin.shelf).await;
    reader.follow_until_like(carrier.source(), &origin).await;
    assert_eq!(reader.segments(), origin.segments());
}

async fn heads_are_accepted_when_generations_end<C: Carrier>(carrier: &C, mut origin: Origin) {
    let mut reader = Reader::of(&origin);
    for number in 0..LIVE_GENERATIONS as u32 + 3 {
        origin.list(number);
        reader.advance_to(&origin);
        carrier.publish(&origin.shelf).await;
        reader.follow_until_like(carrier.source(), &origin).await;
        origin.advance(EPOCH);
    }
    assert_eq!(reader.refusals(), 0);
}

async fn a_reborn_origin_is_followed<C: Carrier>(carrier: &C, mut origin: Origin) {
    let mut reader = Reader::of(&origin);
    origin.list(1);
    carrier.publish(&origin.shelf).await;
    reader.follow_until_like(carrier.source(), &origin).await;
    let before = reader.segments();
    origin.be_reborn();
    origin.list(2);
    carrier.publish(&origin.shelf).await;
    reader.follow_until_like(carrier.source(), &origin).await;
    assert!(reader.segments() > before && reader.refusals() == 0);
}

async fn huge_logs_arrive_in_parts<C: Carrier>(carrier: &C, mut origin: Origin) {
    let mut reader = Reader::of(&origin);
    let length = origin.fill(FETCH_BYTES_MAX + (1 << 20));
    assert!(length > FETCH_BYTES_MAX);
    carrier.publish(&origin.shelf).await;
    reader.follow_until_like(carrier.source(), &origin).await;
}

async fn forged_segments_are_refused_and_honest_ones_applied<C: Carrier>(carrier: &C, mut origin: Origin) {
    let mut reader = Reader::of(&origin);
    origin.list(1);
    origin.forge(Book::Votes);
    carrier.publish(&origin.shelf).await;
    let listed = origin.chain(Book::Listed);
    reader.follow_until(carrier.source(), |reader| reader.at(&listed) == origin.at(&listed)).await;
    reader.follow_until(carrier.source(), |reader| reader.refusals() > 0).await;
    assert_eq!(reader.at(&origin.chain(Book::Votes)).sequence, 0);
    assert!(reader.charged() > 0, "the origin is charged");
}

async fn forged_heads_are_not_believed<C: Carrier>(carrier: &C, mut origin: Origin) {
    let mut reader = Reader::of(&origin);
    origin.list(1);
    carrier.publish(&origin.shelf).await;
    reader.follow_until_like(carrier.source(), &origin).await;
    let mut forged = origin.heads();
    *forged.last_mut().unwrap() ^= 1;
    carrier.announce(&forged).await;
    reader.follow_for(carrier.source(), SHORT).await;
    assert_eq!(reader.segments(), origin.segments());
    origin.advance(1);
    origin.list(2);
    carrier.publish(&origin.shelf).await;
    reader.follow_until_like(carrier.source(), &origin).await;
}

/// Defines the tests of a transport.
macro_rules! battery {
    ($module:ident, $carrier:ty: $($behaviour:ident)*) => {
        mod $module {
            $(#[test]
            fn $behaviour() {
                let origin = crate::Origin::new();
                let runtime = tokio::runtime::Runtime::new().unwrap();
                let carrier = <$carrier as crate::Carrier>::start(&runtime, &origin.shelf);
                runtime.block_on(super::$behaviour(&carrier, origin));
                // A server must not be dropped within a runtime.
                drop(carrier);
            })*
        }
    };
    ($module:ident, $carrier:ty) => {
        battery!($module, $carrier:
            offers_are_the_latest_heads
            a_reader_waits_for_news_and_no_longer_than_asked
            logs_are_fetched_from_any_segment_on
            what_is_missing_is_an_error_or_nothing
            everything_arrives_once_although_published_twice
            old_heads_change_nothing
            heads_before_their_segments_do_no_harm
            heads_are_accepted_when_generations_end
            a_reborn_origin_is_followed
            huge_logs_arrive_in_parts
            forged_segments_are_refused_and_honest_ones_applied
            forged_heads_are_not_believed
        );
    };
}

battery!(over_https, crate::https::Https);
battery!(from_files, crate::files::Files);
battery!(over_nats, crate::nats::Nats);
battery!(simulated_network, crate::simulated::Simulated);
