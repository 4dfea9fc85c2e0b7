//! NATS JetStream as a courier: for nodes of one operator that outgrow one machine.
//!
//! Promises: what [`Sink::publish`] acknowledged is in the realm's stream, unless the broker loses it, and brokers do. So nothing
//! rests on it: the origin's own log is the truth, and [`NatsBroker::published_up_to`] says from where it has to be published
//! again. What the stream does not have is asked of the other nodes. Refuses to know what a segment means.
//!
//! ```text
//! bruit.1.<realm>.<key>.<incarnation>.<book>.<generation>   segments, in stream bruit-<realm>
//! bruit.1.<realm>.<key>.<incarnation>.heads                 heads, in stream bruit-<realm>-heads, the last of each origin
//! bruit.1.<realm>.ask                                       questions to all nodes; answers come to the asker's inbox
//! ```
//!
//! Realm and key are hexadecimal. A segment's header `Bruit-Offset` says where it begins in the log of its chain.
//!
//! Nothing here waits for ever: without a broker everything fails at once, and the connection comes back by itself.

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
pub use heads::{INCARNATIONS_MAX, SERVERS_MAX};
pub use settings::{Login, NatsError, NatsSettings, REPLICAS_MAX};

use super::{ARCHIVED_BYTES_MAX, FETCH_BYTES_MAX, Offer, Sink, Source, TransportError};
use crate::epochs::Epochs;
use crate::heads::{HEADS_BYTES_MAX, UnverifiedHeads};
use crate::segment::SEGMENT_BYTES_MAX;
use follower::Follower;
use heads::Heads;
use log::{Messages, OFFSET_HEADER, Piece, Places};
use streams::Streams;
use subjects::Subjects;

/// An answer of the broker that does not come by then is not waited for any longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a segment is offered to the broker before that fails. A new leader of a stream is found within this.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(8);
/// How long a log is read from the stream before others are asked for it.
const FETCH_TIMEOUT: Duration = Duration::from_secs(8);
/// The pause after a failure.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// How often streams and heads are looked at when nothing seems to happen: news may be lost.
const REFRESH_INTERVAL: Duration = Duration::from_secs(30);
/// How many messages of a subscription may wait; more are lost, and asked for again.
const SUBSCRIPTION_CAPACITY: usize = 256;

/// A connection to the broker, for one realm and one node.
///
/// What the caller owes it: segments of a chain are published in order, one after the other (chains do not wait for each
/// other), and after every failure, and once at the start, from [`published_up_to`](Self::published_up_to) on. Heads are
/// announced when the segments that they speak of are published, and again from time to time.
pub struct NatsBroker {
    client: Client,
    context: Context,
    subjects: Subjects,
    streams: Streams,
    key: [u8; 32],
    heads: Arc<Heads>,
    places: Places,
    connects: watch::Sender<u64>,
    /// They end with this.
    tasks: JoinSet<()>,
    /// The task that receives heads; without it none would ever arrive.
    follower: Option<AbortHandle>,
}

impl NatsBroker {
    /// Begins to connect, for the node of `realm` whose public key is `key`; returns before that is done. Heads are followed of the servers
    /// with the keys `servers` and of the node itself: the broker may remember more of its log than it does. `read_log` answers
    /// the questions of other nodes.
    ///
    /// # Errors
    /// If there is nothing to try: addresses that are none, secrets that cannot be read.
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
        let heads = Arc::new(Heads::new(realm, epochs));
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
        let follower = Follower {
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

    /// Follows the heads of the servers with these keys from now on, and of the node itself.
    pub fn follow(&self, servers: impl IntoIterator<Item = [u8; 32]>) {
        self.heads.follow(std::iter::once(self.key).chain(servers));
        self.connects.send_modify(|_| {});
    }

    /// Whether the broker is there.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Where the log of `chain` ends that the stream has; nothing if it has none of it. What the origin's own log has beyond it
    /// was not published, or lost.
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

    /// The log of a chain as another node has it, from `offset` on: at most [`ANSWER_BYTES_MAX`] bytes of it. [`Source::fetch`]
    /// does this by itself where the stream has nothing; it is of use where the stream has nonsense.
    ///
    /// # Errors
    /// [`TransportError::Missing`] if nobody answers.
    pub async fn ask(&self, chain: &Chain, offset: u64) -> Result<Vec<u8>, TransportError> {
        self.connected()?;
        ask::ask(&self.client, &self.subjects, chain, offset).await
    }

    /// Fails at once where waiting would be of no use.
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

    /// Reads from the stream; nothing if it does not have it.
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

    /// Publishes until the broker says that it has it, or time is up.
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
                // Somebody took it away. If it cannot be made, the next attempt fails, too.
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
            // Nodes may answer while the stream has no leader.
            Err(error) => self.ask_or_look_up(chain, offset).await.map_err(|_| error),
        }
    }
}

impl NatsBroker {
    /// What the stream does not have, from a node or from what was archived.
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
        // The broker drops a second attempt of this call if the first one arrived after all. A later call has another name: the
        // broker remembers names of what it lost.
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

/// The streams of the domain that is asked for, with a bound on every answer.
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

/// Counts connections, so that what depends on a new one is woken.
fn counting(
    connects: &watch::Sender<u64>,
    broker: String,
) -> impl Fn(Event) -> std::future::Ready<()> + Send + Sync + 'static {
    let connects = connects.clone();
    move |event| {
        match event {
            Event::Connected => {
                tracing::info!(broker, "connected to the broker");
                connects.send_modify(|count| *count += 1);
            }
            Event::Disconnected => tracing::warn!(broker, "lost the connection to the broker"),
            event => tracing::debug!(broker, %event, "broker"),
        }
        std::future::ready(())
    }
}
