//! The task that maintains the streams and receives new heads.

use std::sync::Arc;

use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::jetstream::stream::{RawMessageErrorKind, Stream};
use async_nats::{Client, Subscriber};
use futures_util::StreamExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::heads::WatchedHeads;
use super::streams::Streams;
use super::subjects::Subjects;
use super::{REFRESH_INTERVAL, RETRY_PAUSE};

/// Maximum number of stored messages with heads of one server to read at once. There is one for each incarnation; the
/// table of heads keeps only the latest incarnations.
const READ_MAX: usize = 64;

/// The task's state. The task subscribes to heads. It also reads the stored heads after each connection, and at regular
/// intervals.
pub(super) struct HeadsFollower {
    pub(super) client: Client,
    pub(super) context: Context,
    pub(super) subjects: Subjects,
    pub(super) streams: Streams,
    pub(super) heads: Arc<WatchedHeads>,
    /// Changes with each connection, and when other origins are followed.
    pub(super) connects: watch::Receiver<u64>,
}

impl HeadsFollower {
    /// Runs as long as the client exists.
    pub(super) async fn run(mut self) {
        let Ok(mut news) = self.client.subscribe(self.subjects.all_heads()).await else { return };
        let mut was_well = None;
        loop {
            self.connects.mark_unchanged();
            let mut pause = RETRY_PAUSE;
            // Without a connection there is nothing to read, and its loss was already logged.
            if self.client.connection_state() == State::Connected {
                let outcome = self.refresh().await;
                self.log_change(was_well, &outcome);
                was_well = Some(outcome.is_ok());
                pause = if outcome.is_ok() { REFRESH_INTERVAL } else { RETRY_PAUSE };
            }
            if !self.listen(&mut news, Instant::now() + pause).await {
                return;
            }
        }
    }

    /// Receives heads until the next refresh is due. Returns false if the subscription ended.
    async fn listen(&mut self, news: &mut Subscriber, until: Instant) -> bool {
        loop {
            tokio::select! {
                message = news.next() => match message {
                    Some(message) => self.heads.put(&message.payload),
                    None => return false,
                },
                changed = self.connects.changed() => return changed.is_ok(),
                () = sleep_until(until) => return true,
            }
        }
    }

    /// Ensures that the streams exist, and reads the last heads of every origin from the stream's leader, because its
    /// other replicas may be behind.
    async fn refresh(&self) -> Result<(), async_nats::Error> {
        self.streams.ensure(&self.context).await?;
        let stream = self.context.get_stream_no_info(self.subjects.heads_stream()).await?;
        for key in self.heads.servers() {
            self.read(&stream, &self.subjects.heads_of(&key)).await?;
        }
        Ok(())
    }

    /// Reads all messages at `subject`: the last heads of each incarnation.
    async fn read(&self, stream: &Stream<()>, subject: &str) -> Result<(), async_nats::Error> {
        let mut sequence = 1;
        for _ in 0..READ_MAX {
            match stream.get_first_raw_message_by_subject(subject, sequence).await {
                Ok(message) => {
                    self.heads.put(&message.payload);
                    sequence = message.sequence + 1;
                }
                Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => break,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Logs one line when the broker begins to refuse and one when it works again, regardless of the number of attempts
    /// in between.
    fn log_change(&self, was_well: Option<bool>, outcome: &Result<(), async_nats::Error>) {
        let stream = self.subjects.segments_stream();
        match outcome {
            Ok(()) if was_well != Some(true) => tracing::info!(stream, "broker streams ready"),
            Err(error) if was_well != Some(false) => {
                tracing::warn!(stream, error = error.as_ref(), "broker streams unavailable");
            }
            _ => {}
        }
    }
}
