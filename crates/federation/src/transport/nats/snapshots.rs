//! Complete logs as objects in the broker's store, for new nodes.

use std::time::Duration;

use async_nats::jetstream::object_store::{GetErrorKind, Object};
use bruit_engine::exchange::Chain;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::NatsBroker;
use super::subjects::object;
use crate::transport::TransportError;

/// Timeout between two parts of an object.
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of bytes of an object read at once.
const READ_BYTES: usize = 128 << 10;

impl NatsBroker {
    /// Stores the complete log of a chain in the broker's object store, replacing an older one.
    ///
    /// # Errors
    /// If the broker cannot be reached, is full, or `log` cannot be read.
    pub async fn put_snapshot(&self, chain: &Chain, log: impl AsyncRead + Send + Unpin) -> Result<(), TransportError> {
        self.connected()?;
        let bucket = self.streams.bucket(&self.context).await.map_err(TransportError::unreachable)?;
        let name = object(chain);
        // Join small reads, because the store sends each read as one message.
        let mut log = tokio::io::BufReader::with_capacity(READ_BYTES, log);
        bucket.put(name.as_str(), &mut log).await.map(drop).map_err(TransportError::unreachable)
    }

    /// Copies the log that was stored with [`put_snapshot`](Self::put_snapshot) into `into`, and returns its length.
    ///
    /// # Errors
    /// [`TransportError::Missing`] if no log is stored. [`TransportError::TooLarge`] if the log has more than
    /// `bytes_max` bytes; nothing is written then. Other errors if the log cannot be read; bytes that were already
    /// written may then be wrong.
    pub async fn get_snapshot(
        &self,
        chain: &Chain,
        bytes_max: u64,
        into: impl AsyncWrite + Send + Unpin,
    ) -> Result<u64, TransportError> {
        self.connected()?;
        let bucket = self.streams.bucket(&self.context).await.map_err(TransportError::unreachable)?;
        let object = bucket.get(object(chain)).await.map_err(|error| match error.kind() {
            GetErrorKind::NotFound => TransportError::Missing,
            _ => TransportError::unreachable(error),
        })?;
        let size = u64::try_from(object.info().size).unwrap_or(u64::MAX);
        if size > bytes_max {
            return Err(TransportError::TooLarge { max: usize::try_from(bytes_max).unwrap_or(usize::MAX) });
        }
        copy(object, size, into).await
    }
}

/// Copies exactly `size` bytes. The store verifies the digest when the last byte is read.
async fn copy(mut object: Object, size: u64, mut into: impl AsyncWrite + Send + Unpin) -> Result<u64, TransportError> {
    let mut buffer = vec![0; READ_BYTES];
    let mut copied = 0;
    while copied < size {
        let read = tokio::time::timeout(STALL_TIMEOUT, object.read(&mut buffer)).await;
        let length = read.map_err(TransportError::unreachable)?.map_err(TransportError::unreachable)?;
        let bytes = buffer.get(..length).filter(|bytes| !bytes.is_empty());
        let bytes = bytes.ok_or_else(|| TransportError::Malformed("the snapshot is truncated".to_owned()))?;
        into.write_all(bytes).await.map_err(TransportError::unreachable)?;
        copied = copied.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
    }
    into.flush().await.map_err(TransportError::unreachable)?;
    Ok(copied)
}
