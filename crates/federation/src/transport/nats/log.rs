//! The log of a chain, assembled from the stream's messages.
//!
//! A message is a piece of the log with its offset. Messages of a chain arrive in order, but pieces may be missing (the
//! broker lost them) or duplicated (they were published again). The returned bytes are always contiguous.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{DirectGetError, DirectGetErrorKind, Stream};
use bruit_engine::exchange::Chain;
use tokio::time::{Instant, timeout_at};

use crate::transport::FETCH_BYTES_MAX;

/// The header with a message's offset in its chain's log.
pub(super) const OFFSET_HEADER: &str = "Bruit-Offset";
/// Maximum number of messages that one fetch reads, so that it ends in time even if segments are small.
pub(super) const FETCH_MESSAGES_MAX: usize = 256;
/// Maximum number of chains whose position in the stream is cached.
const PLACES_MAX: usize = 4096;

/// A message of the stream, and its offset in the log.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    sequence: u64,
    begin: u64,
    bytes: Vec<u8>,
}

impl Piece {
    /// Creates a piece. A message without an offset counts as empty, so that none of its bytes are used.
    pub(super) fn new(message: &StreamMessage) -> Self {
        let begin = message.headers.get(OFFSET_HEADER).and_then(|value| value.as_str().parse::<u64>().ok());
        let length = u64::try_from(message.payload.len()).unwrap_or(u64::MAX);
        let begin = begin.filter(|begin| begin.checked_add(length).is_some());
        let bytes = begin.map(|_| message.payload.to_vec()).unwrap_or_default();
        Self { sequence: message.sequence, begin: begin.unwrap_or(0), bytes }
    }

    /// Returns the offset of the next piece.
    pub(super) fn end(&self) -> u64 {
        self.begin.saturating_add(u64::try_from(self.bytes.len()).unwrap_or(u64::MAX))
    }

    fn has(&self, offset: u64) -> bool {
        self.begin <= offset && offset < self.end()
    }
}

/// A log under assembly, starting at some offset.
struct Assembly {
    end: u64,
    bytes: Vec<u8>,
}

impl Assembly {
    /// Appends the new bytes of `piece`. Returns true if the next piece may have more.
    fn take(&mut self, piece: &Piece) -> bool {
        if piece.end() <= self.end {
            return true;
        }
        let Some(skipped) = self.end.checked_sub(piece.begin) else { return false };
        let news = usize::try_from(skipped).ok().and_then(|skipped| piece.bytes.get(skipped..)).unwrap_or_default();
        let room = FETCH_BYTES_MAX - self.bytes.len();
        let taken = news.get(..room).unwrap_or(news);
        self.bytes.extend_from_slice(taken);
        self.end = self.end.saturating_add(u64::try_from(taken.len()).unwrap_or(u64::MAX));
        self.bytes.len() < FETCH_BYTES_MAX
    }
}

/// A reader of the stream's messages, from any of its replicas.
pub(super) struct Messages<'a> {
    pub(super) stream: &'a Stream<()>,
    pub(super) subject: String,
}

impl Messages<'_> {
    /// Returns the first piece at `sequence` or later.
    async fn next(&self, sequence: u64) -> Result<Option<Piece>, DirectGetError> {
        found(self.stream.direct_get_next_for_subject(&self.subject, Some(sequence)).await)
    }

    /// Returns the last piece.
    pub(super) async fn last(&self) -> Result<Option<Piece>, DirectGetError> {
        found(self.stream.direct_get_last_for_subject(&self.subject).await)
    }

    /// Reads the log, starting at `offset`: the contiguous part that arrives before `deadline`, or nothing if the
    /// stream does not have that offset. `place` is the probable sequence of that offset in the stream. Also returns
    /// the sequence at which the next fetch should begin.
    pub(super) async fn read(
        &self,
        offset: u64,
        place: Option<u64>,
        deadline: Instant,
    ) -> Result<(Vec<u8>, u64), DirectGetError> {
        let found = timeout_at(deadline, self.find(offset, place)).await;
        let mut piece = found.map_err(|_| DirectGetError::new(DirectGetErrorKind::TimedOut))??;
        let mut log = Assembly { end: offset, bytes: Vec::new() };
        let mut next = 0;
        for _ in 0..FETCH_MESSAGES_MAX {
            let Some(current) = piece else { break };
            next = current.sequence + 1;
            if !log.take(&current) || Instant::now() >= deadline {
                break;
            }
            piece = match self.next(next).await {
                Ok(piece) => piece,
                // Returns the part read so far.
                Err(_) if !log.bytes.is_empty() => break,
                Err(error) => return Err(error),
            };
        }
        Ok((log.bytes, next))
    }

    /// Finds the piece that contains `offset`.
    async fn find(&self, offset: u64, place: Option<u64>) -> Result<Option<Piece>, DirectGetError> {
        if let Some(place) = place
            && let Some(piece) = self.next(place).await?
            && piece.has(offset)
        {
            return Ok(Some(piece));
        }
        self.search(offset).await
    }

    /// Searches the stream by bisection for the first piece that ends after `offset`. Duplicated pieces may hide that
    /// piece from the search; then it is requested elsewhere.
    async fn search(&self, offset: u64) -> Result<Option<Piece>, DirectGetError> {
        let Some(mut best) = self.last().await?.filter(|last| last.end() > offset) else { return Ok(None) };
        let (mut low, mut high) = (1, best.sequence);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.next(middle).await? {
                Some(piece) if piece.end() <= offset => low = piece.sequence + 1,
                Some(piece) => (best, high) = (piece, middle),
                None => high = middle,
            }
        }
        Ok(Some(best).filter(|piece| piece.has(offset)))
    }
}

fn found(answer: Result<StreamMessage, DirectGetError>) -> Result<Option<Piece>, DirectGetError> {
    match answer {
        Ok(message) => Ok(Some(Piece::new(&message))),
        Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// For each chain, the probable position in the stream at which its next fetch begins. This is only a cache: a search
/// can find every position again.
#[derive(Debug, Default)]
pub(super) struct Places(Mutex<HashMap<Chain, LogPosition>>);

#[derive(Clone, Copy, Debug)]
struct LogPosition {
    offset: u64,
    sequence: u64,
}

impl Places {
    /// Returns the probable sequence of the message at `offset`, if the last fetch ended at that offset.
    pub(super) fn get(&self, chain: &Chain, offset: u64) -> Option<u64> {
        let places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        places.get(chain).filter(|place| place.offset == offset).map(|place| place.sequence)
    }

    /// Stores one position per chain. When there are too many, all are removed, which costs each chain one search.
    pub(super) fn put(&self, chain: &Chain, offset: u64, sequence: u64) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if places.len() >= PLACES_MAX && !places.contains_key(chain) {
            places.clear();
        }
        places.insert(*chain, LogPosition { offset, sequence });
    }
}

#[cfg(test)]
mod tests {
    use bruit_engine::exchange::{Book, Origin};

    use super::*;

    fn piece(begin: u64, bytes: &[u8]) -> Piece {
        Piece { sequence: 1, begin, bytes: bytes.to_vec() }
    }

    fn assembled(offset: u64, pieces: &[Piece]) -> Vec<u8> {
        let mut log = Assembly { end: offset, bytes: Vec::new() };
        let _ = pieces.iter().all(|piece| log.take(piece));
        log.bytes
    }

    #[test]
    fn pieces_join_from_an_offset_whether_once_or_twice() {
        let pieces = [piece(0, b"abc"), piece(3, b"de"), piece(0, b"abc"), piece(3, b"de"), piece(5, b"f")];
        assert_eq!(assembled(0, &pieces), b"abcdef");
        assert_eq!(assembled(1, &pieces), b"bcdef");
        assert_eq!(assembled(5, &pieces), b"f");
        assert_eq!(assembled(6, &pieces), b"");
    }

    #[test]
    fn nothing_after_a_gap_is_returned() {
        assert_eq!(assembled(0, &[piece(0, b"abc"), piece(4, b"e")]), b"abc");
        assert_eq!(assembled(0, &[piece(1, b"bc")]), b"");
        assert_eq!(assembled(9, &[piece(u64::MAX - 1, b"z")]), b"");
    }

    #[test]
    fn a_log_is_cut_off_at_the_most_that_one_fetch_returns() {
        let half = vec![7; FETCH_BYTES_MAX / 2 + 1];
        let (first, second) = (piece(0, &half), piece(half.len() as u64, &half));
        assert_eq!(assembled(0, &[first, second]).len(), FETCH_BYTES_MAX);
    }

    #[test]
    fn places_are_remembered_up_to_a_number_of_chains() {
        let places = Places::default();
        let origin = Origin { key: [0; 32], incarnation: 1 };
        let chain = |generation| Chain { origin, book: Book::Listed, generation };
        for generation in 0..PLACES_MAX as u64 {
            places.put(&chain(generation), 10, generation);
        }
        assert_eq!(places.get(&chain(5), 10), Some(5));
        assert_eq!(places.get(&chain(5), 11), None);
        places.put(&chain(5), 20, 6);
        assert_eq!(places.get(&chain(5), 20), Some(6));
        places.put(&chain(PLACES_MAX as u64), 10, 1);
        assert_eq!(places.get(&chain(5), 20), None);
        assert_eq!(places.0.lock().unwrap().len(), 1);
    }
}
