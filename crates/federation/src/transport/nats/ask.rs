//! Questions between nodes, for data missing from the stream: it expired, or the broker lost it.
//!
//! A question goes to every node of the realm; those that have the data answer, and the first answer is used. Answers
//! are signed segments like everything else.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, HeaderMap, Message};
use bruit_engine::exchange::Chain;
use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::log::OFFSET_HEADER;
use super::subjects::{Subjects, parse_question, question};
use crate::transport::TransportError;

/// Time to wait for answers.
pub(super) const ASK_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of bytes of a log in one answer. Every node that has the log sends up to this many, and a NATS
/// message has at most 1 MiB.
pub const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Maximum number of bytes of a question.
const QUESTION_BYTES_MAX: usize = 256;

/// A function that reads the log of a chain. Its arguments are the chain, the offset to start at, and the maximum
/// number of bytes. It returns `None` if this node does not have the log.
pub type ReadLog = Arc<dyn Fn(&Chain, u64, usize) -> Option<Vec<u8>> + Send + Sync>;

/// Asks all nodes for the log of a chain starting at `offset`.
pub(super) async fn ask(
    client: &Client,
    subjects: &Subjects,
    chain: &Chain,
    offset: u64,
) -> Result<Vec<u8>, TransportError> {
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await.map_err(TransportError::unreachable)?;
    let question = question(chain, offset);
    client.publish_with_reply(subjects.ask(), inbox, question.into()).await.map_err(TransportError::unreachable)?;
    let deadline = Instant::now() + ASK_TIMEOUT;
    while let Ok(Some(answer)) = tokio::time::timeout_at(deadline, answers.next()).await {
        // An answer with a status comes from the broker itself: no node is subscribed to questions.
        if answer.status.is_some() {
            break;
        }
        if is_good(&answer, offset) {
            return Ok(answer.payload.into());
        }
    }
    Err(TransportError::Missing)
}

fn is_good(answer: &Message, offset: u64) -> bool {
    let header = answer.headers.as_ref().and_then(|headers| headers.get(OFFSET_HEADER));
    header.is_some_and(|value| value.as_str() == offset.to_string())
        && !answer.payload.is_empty()
        && answer.payload.len() <= ANSWER_BYTES_MAX
}

/// Answers questions of other nodes, one at a time, as long as the client exists.
pub(super) async fn answer_all(client: Client, subjects: Subjects, read_log: ReadLog) {
    let Ok(mut questions) = client.subscribe(subjects.ask()).await else { return };
    while let Some(question) = questions.next().await {
        answer(&client, question, &read_log).await;
    }
}

async fn answer(client: &Client, message: Message, read_log: &ReadLog) {
    let Some(inbox) = message.reply else { return };
    let Some((chain, offset)) = read_question(&message.payload) else { return };
    let read_log = Arc::clone(read_log);
    let log = tokio::task::spawn_blocking(move || read_log(&chain, offset, ANSWER_BYTES_MAX)).await;
    let Ok(Some(log)) = log else { return };
    if log.is_empty() {
        return;
    }
    let mut headers = HeaderMap::new();
    headers.insert(OFFSET_HEADER, offset.to_string());
    // If the answer is lost, the asking node asks again.
    let _ = client.publish_with_headers(inbox, headers, log.into()).await;
}

fn read_question(payload: &[u8]) -> Option<(Chain, u64)> {
    let payload = Some(payload).filter(|payload| payload.len() <= QUESTION_BYTES_MAX)?;
    parse_question(str::from_utf8(payload).ok()?)
}
