//! Bodies that are counted until they are sent: whoever reads slowly holds room that others may need.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use http_body_util::Full;
use hyper::body::{Bytes, Frame, SizeHint};
use tokio::sync::OwnedSemaphorePermit;

/// A body, and the room it takes.
struct Held {
    bytes: Full<Bytes>,
    _room: OwnedSemaphorePermit,
}

/// A body of these bytes, which keeps `room` until it is sent, or nobody wants it any more.
pub(super) fn body(bytes: Vec<u8>, room: OwnedSemaphorePermit) -> Body {
    Body::new(Held { bytes: Full::from(bytes), _room: room })
}

impl hyper::body::Body for Held {
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
