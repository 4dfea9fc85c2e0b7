//! NATS JetStream as a transport, for clusters of one operator that outgrow one machine.
//!
//! When [`Sink::publish`] succeeds, the segment is in the realm's stream. The broker can still lose this segment, so
//! nothing relies on the stream. The origin's own log is authoritative; [`NatsBroker::published_up_to`] returns the
//! offset from which the log has to be published again. Parts missing from the stream are requested from the other
//! nodes. This module does not interpret segments.
//!
//! ```text
//! bruit.1.<realm>.<key>.<incarnation>.<book>.<generation>   segments, in stream bruit-<realm>
//! bruit.1.<realm>.<key>.<incarnation>.heads                 heads, in stream bruit-<realm>-heads, one per origin
//! bruit.1.<realm>.ask                                       questions to all nodes; answers come to the asker's inbox
//! ```
//!
//! Realm and key are hexadecimal. A segment's header `Bruit-Offset` is its offset in the log of its chain.
//!
//! No operation waits forever: without a broker everything fails at once, and the client reconnects automatically.

mod ask;
mod follower;
mod heads;
mod log;
mod settings;
mod snapshots;
mod streams;
mod subjects;

use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::context::{ContextBuilder, PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use async_nats::jetstream::{Context, ErrorCode};
use async_nats::{Client, Event};
use bruit_engine::exchange::Chain;
use bruit_engine::realm::RealmId;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};

pub use ask::{ANSWER_BYTES_MAX, ReadLog};
pub use settings::{Login, NatsError, NatsSettings, REPLICAS_MAX};

use super::{ARCHIVED_BYTES_MAX, FETCH_BYTES_MAX, Offer, Sink, Source, TransportError};
use crate::coordinator::heads_table::HeadsTable;
use crate::epochs::Epochs;
use crate::heads::{HEADS_BYTES_MAX, UnverifiedHeads};
use crate::segment::SEGMENT_BYTES_MAX;
use follower::HeadsFollower;
use heads::WatchedHeads;
use log::{Messages, OFFSET_HEADER, Piece, Places};
use streams::Streams;
use subjects::Subjects;

/// Timeout of a request to the broker.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// Time for which publishing a segment is retried. A stream elects a new leader within this time.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(8);
/// Time for which a log is read from the stream before other nodes are asked for it.
const FETCH_TIMEOUT: Duration = Duration::from_secs(8);
/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Interval at which streams and heads are read without any notification, because notifications can be lost.
const REFRESH_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum number of queued messages of a subscription; more are dropped, and requested again later.
const SUBSCRIPTION_CAPACITY: usize = 256;

/// A connection to the broker, for one realm and one node.
///
/// The caller must publish the segments of a chain in order, one after the other; chains are independent. After every
/// failure, and once at the start, the caller must continue from [`published_up_to`](Self::published_up_to). Heads must
/// be announced after the segments that they name are published, and again from time to time.
pub struct NatsBroker {
    client: Client,
    context: Context,
    subjects: Subjects,
    streams: Streams,
    key: [u8; 32],
    heads: Arc<WatchedHeads>,
    places: Places,
    connects: watch::Sender<u64>,
    /// The background tasks, which are stopped on drop.
    tasks: JoinSet<()>,
    /// The task that receives heads. Without it, no heads would arrive.
    follower: Option<AbortHandle>,
}

impl NatsBroker {
    /// Starts connecting as the node of `realm` with the public key `key`, and returns at once. Follows the heads of
    /// the servers with the keys `servers`. Also follows this node's own heads, because the broker may have segments
    /// that the node has lost. `read_log` answers the questions of other nodes.
    ///
    /// # Errors
    /// [`NatsError`] if the settings are invalid: malformed addresses, or secrets that cannot be read.
    pub async fn start(
        settings: &NatsSettings,
        (realm, epochs): (RealmId, Epochs),
        key: [u8; 32],
        servers: impl IntoIterator<Item = [u8; 32]>,
        read_log: ReadLog,
    ) -> Result<Self, NatsError> {
        settings.check()?;
        let connects = watch::Sender::new(0);
        let options = settings.options()?.subscription_capacity(SUBSCRIPTION_CAPACITY);
        let options =
            options.request_timeout(Some(REQUEST_TIMEOUT)).event_callback(counting(&connects, settings.name()));
        let client = options.connect(settings.addresses()?).await.map_err(NatsError::Connect)?;
        let context = context(settings, client.clone());
        let subjects = Subjects::new(realm);
        let streams = Streams::new(&subjects, settings);
        let heads = Arc::new(WatchedHeads::new(HeadsTable::new(realm, epochs)));
        let tasks = JoinSet::new();
        let mut broker = Self {
            client,
            context,
            subjects,
            streams,
            key,
            heads,
            places: Places::default(),
            connects,
            tasks,
            follower: None,
        };
        broker.follow(servers);
        broker.spawn_tasks(read_log);
        Ok(broker)
    }

    fn spawn_tasks(&mut self, read_log: ReadLog) {
        let Self { client, context, subjects, streams, heads, connects, .. } = self;
        let follower = HeadsFollower {
            client: client.clone(),
            context: context.clone(),
            subjects: subjects.clone(),
            streams: streams.clone(),
            heads: Arc::clone(heads),
            connects: connects.subscribe(),
        };
        self.follower = Some(self.tasks.spawn(follower.run()));
        self.tasks.spawn(ask::answer_all(client.clone(), subjects.clone(), read_log));
    }

    /// Sets the servers whose heads are followed, in addition to the node itself.
    pub fn follow(&self, servers: impl IntoIterator<Item = [u8; 32]>) {
        self.heads.follow(std::iter::once(self.key).chain(servers));
        self.connects.send_modify(|_| {});
    }

    /// Returns true if the broker is connected.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Returns the end of the log of `chain` in the stream; `None` if the stream has no part of it. Anything in the
    /// origin's own log beyond that end was not published, or was lost.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn published_up_to(&self, chain: &Chain) -> Result<Option<u64>, TransportError> {
        self.connected()?;
        let stream = self.segments().await?;
        match stream.get_last_raw_message_by_subject(&self.subjects.chain(chain)).await {
            Ok(message) => Ok(Some(Piece::new(&message).end())),
            Err(error) if is_absent(&error.kind()) => Ok(None),
            Err(error) => Err(TransportError::unreachable(error)),
        }
    }

    /// Returns the log of a chain from another node, starting at `offset`, at most [`ANSWER_BYTES_MAX`] bytes.
    /// [`Source::fetch`] calls this if the stream does not have the data. Other callers need it only if the data in the
    /// stream is invalid.
    ///
    /// # Errors
    /// [`TransportError::Missing`] if no node answers.
    pub async fn ask(&self, chain: &Chain, offset: u64) -> Result<Vec<u8>, TransportError> {
        self.connected()?;
        ask::ask(&self.client, &self.subjects, chain, offset).await
    }

    /// Returns an error at once if there is no connection, instead of waiting for a timeout.
    fn connected(&self) -> Result<(), TransportError> {
        match self.is_connected() {
            true => Ok(()),
            false => Err(TransportError::unreachable("no connection to the broker")),
        }
    }

    async fn segments(&self) -> Result<Stream<()>, TransportError> {
        let name = self.subjects.segments_stream();
        self.context.get_stream_no_info(name).await.map_err(TransportError::unreachable)
    }

    /// Reads a log from the stream. Returns no bytes if the stream does not have them.
    async fn read(&self, chain: &Chain, offset: u64) -> Result<Vec<u8>, TransportError> {
        let stream = self.segments().await?;
        let messages = Messages { stream: &stream, subject: self.subjects.chain(chain) };
        let deadline = Instant::now() + FETCH_TIMEOUT;
        let (log, next) = messages
            .read(offset, self.places.get(chain, offset), deadline)
            .await
            .map_err(TransportError::unreachable)?;
        if !log.is_empty() {
            let end = offset.saturating_add(u64::try_from(log.len()).unwrap_or(u64::MAX));
            self.places.put(chain, end, next);
        }
        Ok(log)
    }

    /// Publishes repeatedly until the broker acknowledges, or time is up.
    async fn publish_until_acknowledged(&self, subject: String, message: PublishMessage) -> Result<(), TransportError> {
        let deadline = Instant::now() + PUBLISH_TIMEOUT;
        loop {
            self.connected()?;
            let error = match self.try_publish(subject.clone(), message.clone()).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            match error.kind() {
                PublishErrorKind::MaxPayloadExceeded => {
                    return Err(TransportError::TooLarge { max: self.client.max_payload() });
                }
                _ if Instant::now() >= deadline => return Err(TransportError::unreachable(error)),
                // The stream was deleted. If it cannot be created, the next attempt fails, too.
                PublishErrorKind::StreamNotFound => drop(self.streams.ensure(&self.context).await),
                _ => {}
            }
            sleep(RETRY_PAUSE).await;
        }
    }

    async fn try_publish(&self, subject: String, message: PublishMessage) -> Result<(), PublishError> {
        self.context.send_publish(subject, message).await?.await.map(drop)
    }
}

impl Source for NatsBroker {
    async fn offer(&self, seen: &[u8], wait: Duration) -> Result<Offer, TransportError> {
        self.connected()?;
        if self.follower.as_ref().is_some_and(AbortHandle::is_finished) {
            return Err(TransportError::unreachable("the task that follows the broker ended: restart the server"));
        }
        Ok(self.heads.offer(seen, wait).await)
    }

    async fn fetch(&self, chain: &Chain, offset: u64) -> Result<Vec<u8>, TransportError> {
        self.connected()?;
        match self.read(chain, offset).await {
            Ok(log) if !log.is_empty() => Ok(log),
            Ok(_) => self.ask_or_look_up(chain, offset).await,
            // Nodes can answer even while the stream has no leader.
            Err(error) => self.ask_or_look_up(chain, offset).await.map_err(|_| error),
        }
    }
}

impl NatsBroker {
    /// Fetches data missing from the stream, from a node or from the archive.
    async fn ask_or_look_up(&self, chain: &Chain, offset: u64) -> Result<Vec<u8>, TransportError> {
        match self.ask(chain, offset).await {
            Ok(log) if !log.is_empty() => return Ok(log),
            _ => {}
        }
        let mut log = Vec::new();
        self.get_snapshot(chain, ARCHIVED_BYTES_MAX as u64, &mut log).await?;
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = log.get(from..).ok_or(TransportError::Missing)?;
        Ok(rest.iter().take(FETCH_BYTES_MAX).copied().collect())
    }
}

impl Sink for NatsBroker {
    async fn publish(&self, chain: &Chain, offset: u64, segment: &[u8]) -> Result<(), TransportError> {
        if segment.len() > SEGMENT_BYTES_MAX {
            return Err(TransportError::TooLarge { max: SEGMENT_BYTES_MAX });
        }
        let subject = self.subjects.chain(chain);
        // The broker drops a retry of this call if the first attempt arrived after all. A later call uses another
        // message id, because the broker remembers the ids of messages that it lost.
        let name = format!("{subject}.{offset}.{}", self.client.new_inbox());
        let message = PublishMessage::build()
            .message_id(name)
            .header(OFFSET_HEADER, offset.to_string())
            .payload(segment.to_vec().into());
        self.publish_until_acknowledged(subject, message).await
    }

    async fn archive(&self, chain: &Chain, log: &[u8]) -> Result<(), TransportError> {
        self.put_snapshot(chain, log).await
    }

    async fn published(&self, chain: &Chain) -> Result<u64, TransportError> {
        Ok(self.published_up_to(chain).await?.unwrap_or(0))
    }

    async fn announce(&self, heads: &[u8]) -> Result<(), TransportError> {
        if heads.len() > HEADS_BYTES_MAX {
            return Err(TransportError::TooLarge { max: HEADS_BYTES_MAX });
        }
        let read = UnverifiedHeads::decode(heads).map_err(|error| TransportError::Malformed(error.to_string()))?;
        let message = PublishMessage::build().payload(heads.to_vec().into());
        self.publish_until_acknowledged(self.subjects.heads(&read.origin()), message).await
    }
}

impl TransportError {
    fn unreachable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Unreachable(error.into())
    }
}

/// Returns the JetStream context of the configured domain, with a timeout for requests.
fn context(settings: &NatsSettings, client: Client) -> Context {
    let builder = ContextBuilder::new().timeout(REQUEST_TIMEOUT);
    match &settings.domain {
        Some(domain) => builder.domain(domain).build(client),
        None => builder.build(client),
    }
}

fn is_absent(error: &LastRawMessageErrorKind) -> bool {
    match error {
        LastRawMessageErrorKind::NoMessageFound => true,
        LastRawMessageErrorKind::JetStream(error) => error.error_code() == ErrorCode::STREAM_NOT_FOUND,
        _ => false,
    }
}

/// Counts connections, to wake tasks that wait for a new connection.
fn counting(
    connects: &watch::Sender<u64>,
    broker: String,
) -> impl Fn(Event) -> std::future::Ready<()> + Send + Sync + 'static {
    let connects = connects.clone();
    move |event| {
        match event {
            Event::Connected => {
                tracing::info!(broker, "broker connected");
                connects.send_modify(|count| *count += 1);
            }
            Event::Disconnected => tracing::warn!(broker, "broker disconnected"),
            event => tracing::debug!(broker, %event, "broker event"),
        }
        std::future::ready(())
    }
}
