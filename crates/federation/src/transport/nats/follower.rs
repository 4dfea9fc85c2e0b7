//! The task that keeps the streams in being and learns new heads.

use std::sync::Arc;

use async_nats::jetstream::Context;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use async_nats::{Client, Message, Subscriber};
use futures_util::StreamExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::heads::Heads;
use super::streams::Streams;
use super::subjects::Subjects;
use super::{REFRESH_INTERVAL, RETRY_PAUSE};

/// Subscribed to heads, it looks at those that the broker keeps after each connection, and from time to time.
pub(super) struct Follower {
    pub(super) client: Client,
    pub(super) context: Context,
    pub(super) subjects: Subjects,
    pub(super) streams: Streams,
    pub(super) heads: Arc<Heads>,
    /// Changes with each connection, and when other origins are followed.
    pub(super) connects: watch::Receiver<u64>,
}

impl Follower {
    /// For as long as there is a client.
    pub(super) async fn run(mut self) {
        let Ok(mut news) = self.client.subscribe(self.subjects.all_heads()).await else { return };
        loop {
            self.connects.mark_unchanged();
            let pause = match self.refresh().await {
                Ok(()) => REFRESH_INTERVAL,
                Err(error) => {
                    tracing::debug!(%error, "the broker is not ready");
                    RETRY_PAUSE
                }
            };
            if !self.listen(&mut news, Instant::now() + pause).await {
                return;
            }
        }
    }

    /// Takes heads as they come, until it is time to refresh; whether there will be more.
    async fn listen(&mut self, news: &mut Subscriber, until: Instant) -> bool {
        loop {
            tokio::select! {
                message = news.next() => match message {
                    Some(message) => self.take(&message),
                    None => return false,
                },
                changed = self.connects.changed() => return changed.is_ok(),
                () = sleep_until(until) => return true,
            }
        }
    }

    fn take(&self, message: &Message) {
        if let Some(key) = self.subjects.key_of_heads(&message.subject) {
            self.heads.put(key, &message.payload);
        }
    }

    /// Makes sure of the streams, and reads the last heads of every origin from their leader: other replicas may be behind.
    async fn refresh(&self) -> Result<(), async_nats::Error> {
        self.streams.ensure(&self.context).await?;
        let stream = self.context.get_stream_no_info(self.subjects.heads_stream()).await?;
        for key in self.heads.origins() {
            self.read(&stream, key).await?;
        }
        Ok(())
    }

    async fn read(&self, stream: &Stream<()>, key: [u8; 32]) -> Result<(), async_nats::Error> {
        match stream.get_last_raw_message_by_subject(&self.subjects.heads(&key)).await {
            Ok(message) => self.heads.put(key, &message.payload),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
