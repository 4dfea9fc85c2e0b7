//! A response: its header, and its body with limits of size and time.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_RANGE, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::time::timeout;

use super::super::TransportError;
use super::connection::{Connector, Sender, unreachable};

/// Maximum pause within a body.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(20);

/// Timeout of a whole body.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum length of an unneeded body that is read to reuse the connection.
const UNWANTED_BYTES_MAX: usize = 4 << 10;

/// A response whose header has arrived.
pub(super) struct OpenResponse<'c> {
    connector: &'c Connector,
    sender: Sender,
    response: Response<Incoming>,
}

/// The treatment of a body that is longer than the limit.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Overlong {
    /// The response is invalid.
    Refuse,
    /// The rest is not read.
    Leave,
}

impl<'c> OpenResponse<'c> {
    pub(super) const fn new(connector: &'c Connector, sender: Sender, response: Response<Incoming>) -> Self {
        Self { connector, sender, response }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(super) fn header(&self, name: HeaderName) -> Option<&HeaderValue> {
        self.response.headers().get(name)
    }

    /// Returns an error if a partial response does not begin at the requested offset.
    pub(super) fn ensure_range_begins_at(&self, offset: u64) -> Result<(), TransportError> {
        let text = self.header(CONTENT_RANGE).and_then(|range| range.to_str().ok()).unwrap_or_default();
        let begin = text.strip_prefix("bytes ").and_then(|range| range.split_once('-')).map(|(begin, _)| begin);
        if begin.and_then(|begin| begin.parse().ok()) == Some(offset) {
            return Ok(());
        }
        Err(TransportError::Malformed(format!("expected bytes from {offset} on, received range {text:?}")))
    }

    /// Reads at most `bytes_max` bytes of the body, after its first `skip` bytes.
    pub(super) async fn read(self, skip: u64, bytes_max: usize, beyond: Overlong) -> Result<Vec<u8>, TransportError> {
        let Self { connector, sender, response } = self;
        let mut reading = BodyReader { skip, bytes_max, read: Vec::new() };
        let whole = timeout(BODY_TIMEOUT, reading.take(response.into_body()));
        if whole.await.map_err(unreachable)?? {
            connector.keep(sender);
        } else if beyond == Overlong::Refuse {
            return Err(TransportError::TooLarge { max: bytes_max });
        }
        Ok(reading.read)
    }

    /// Drains a short body, so that the connection can be reused.
    pub(super) async fn drain(self) -> Result<(), TransportError> {
        self.read(0, UNWANTED_BYTES_MAX, Overlong::Leave).await.map(|_| ())
    }
}

/// The state of reading a body.
struct BodyReader {
    skip: u64,
    bytes_max: usize,
    read: Vec<u8>,
}

impl BodyReader {
    /// Reads to the end or to the limit. Returns true at the end.
    async fn take(&mut self, mut body: Incoming) -> Result<bool, TransportError> {
        loop {
            let Some(frame) = timeout(PAUSE_MAX, body.frame()).await.map_err(unreachable)? else { return Ok(true) };
            let Ok(bytes) = frame.map_err(unreachable)?.into_data() else { continue };
            if !self.add(&bytes) {
                return Ok(false);
            }
        }
    }

    /// Adds bytes up to the limit. Returns true if all bytes fit.
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
    fn a_body_is_read_up_to_its_limit() {
        let mut reading = BodyReader { skip: 3, bytes_max: 4, read: Vec::new() };
        assert!(reading.add(&Bytes::from_static(b"ab")));
        assert!(reading.add(&Bytes::from_static(b"cde")));
        assert_eq!(reading.read, b"de");
        assert!(reading.add(&Bytes::from_static(b"fg")));
        assert!(reading.add(&Bytes::new()));
        assert!(!reading.add(&Bytes::from_static(b"h")));
        assert_eq!(reading.read, b"defg");
    }
}
