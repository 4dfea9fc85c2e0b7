//! Response bodies whose memory is counted until they are sent, because slow readers occupy memory for a long time.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use http_body_util::Full;
use hyper::body::{Bytes, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

/// A body and the permit for its memory.
struct CountedBody {
    bytes: Full<Bytes>,
    _room: OwnedSemaphorePermit,
}

/// Creates a body that holds the memory permit `room` until it is sent or dropped.
pub(super) fn body(bytes: Vec<u8>, room: OwnedSemaphorePermit) -> Body {
    Body::new(CountedBody { bytes: Full::from(bytes), _room: room })
}

impl hyper::body::Body for CountedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.bytes).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.bytes.size_hint()
    }
}
