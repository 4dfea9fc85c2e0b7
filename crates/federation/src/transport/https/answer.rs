//! What comes back: its header, and its body within bounds of size and time.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_RANGE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::time::timeout;

use super::super::TransportError;
use super::connection::{Connector, Sender, unreachable};

/// How long a body may pause.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(20);

/// How long all of a body may take.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(300);

/// The longest body that is read though nobody wants it, to use the connection again.
const UNWANTED_BYTES_MAX: usize = 4 << 10;

/// An answer that begins to come.
pub(super) struct Answer<'c> {
    connector: &'c Connector,
    sender: Sender,
    response: Response<Incoming>,
}

/// What to do with a body that is longer than wanted.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Beyond {
    /// It is not what was asked for.
    Refuse,
    /// The rest is not wanted now.
    Leave,
}

impl<'c> Answer<'c> {
    pub(super) const fn new(connector: &'c Connector, sender: Sender, response: Response<Incoming>) -> Self {
        Self { connector, sender, response }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(super) fn header(&self, name: HeaderName) -> Option<&HeaderValue> {
        self.response.headers().get(name)
    }

    /// Refuses a part of something that is not the part that was asked for.
    pub(super) fn ensure_range_begins_at(&self, offset: u64) -> Result<(), TransportError> {
        let text = self.header(CONTENT_RANGE).and_then(|range| range.to_str().ok()).unwrap_or_default();
        let begin = text.strip_prefix("bytes ").and_then(|range| range.split_once('-')).map(|(begin, _)| begin);
        if begin.and_then(|begin| begin.parse().ok()) == Some(offset) {
            return Ok(());
        }
        Err(TransportError::Malformed(format!("bytes from {offset} on were asked for, and {text:?} came")))
    }

    /// The body without its first `skip` bytes, at most `bytes_max` of it.
    pub(super) async fn read(self, skip: u64, bytes_max: usize, beyond: Beyond) -> Result<Vec<u8>, TransportError> {
        let Self { connector, sender, response } = self;
        let mut reading = Reading { skip, bytes_max, read: Vec::new() };
        let whole = timeout(BODY_TIMEOUT, reading.take(response.into_body()));
        if whole.await.map_err(unreachable)?? {
            connector.keep(sender);
        } else if beyond == Beyond::Refuse {
            return Err(TransportError::TooLarge { max: bytes_max });
        }
        Ok(reading.read)
    }

    /// Makes the connection ready for the next request, if that is little work.
    pub(super) async fn pass_over(self) -> Result<(), TransportError> {
        self.read(0, UNWANTED_BYTES_MAX, Beyond::Leave).await.map(|_| ())
    }
}

/// A body that is being read.
struct Reading {
    skip: u64,
    bytes_max: usize,
    read: Vec<u8>,
}

impl Reading {
    /// Reads to the end, or until there is more than wanted: whether it was the end.
    async fn take(&mut self, mut body: Incoming) -> Result<bool, TransportError> {
        loop {
            let Some(frame) = timeout(PAUSE_MAX, body.frame()).await.map_err(unreachable)? else { return Ok(true) };
            let Ok(bytes) = frame.map_err(unreachable)?.into_data() else { continue };
            if !self.add(&bytes) {
                return Ok(false);
            }
        }
    }

    /// Adds what is wanted of some bytes: whether that was all of them.
    fn add(&mut self, bytes: &Bytes) -> bool {
        let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX).min(bytes.len());
        self.skip -= skipped as u64;
        let wanted = bytes.get(skipped..).unwrap_or_default();
        let room = self.bytes_max - self.read.len();
        self.read.extend_from_slice(wanted.get(..room).unwrap_or(wanted));
        wanted.len() <= room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_read_up_to_its_bound_and_not_a_byte_beyond() {
        let mut reading = Reading { skip: 3, bytes_max: 4, read: Vec::new() };
        assert!(reading.add(&Bytes::from_static(b"ab")));
        assert!(reading.add(&Bytes::from_static(b"cde")));
        assert_eq!(reading.read, b"de");
        assert!(reading.add(&Bytes::from_static(b"fg")));
        assert!(reading.add(&Bytes::new()));
        assert!(!reading.add(&Bytes::from_static(b"h")));
        assert_eq!(reading.read, b"defg");
    }
}
