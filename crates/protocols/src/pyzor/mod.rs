//! Pyzor, as its client and the one in SpamAssassin speak it.
//!
//! A frame is a block of mail-like header lines and an empty line, in one datagram each way. A [`Request`] borrows from its
//! frame and allocates nothing; a [`Reply`] is appended to the caller's buffer. [`client`] is the other side, for tests and
//! load. Who may do what, whose key signs and what is counted are not known here.
//!
//! Real clients differ in line ends, blank lines and letter case, and the Perl client of SpamAssassin names no user: all
//! that is read. What has no line `Op` is no request and is not answered, so that nobody can be flooded with our replies.
//!
//! ```
//! use bruit_protocols::pyzor::{Body, Code, Op, Reply, Request};
//!
//! let frame = b"Op: check\nOp-Digest: eb2a0e84c910ecae205eba635c8e442e85f5ee9a\nThread: 42586\nPV: 2.1\n\n";
//! let request = Request::decode(frame).expect("it has an Op");
//! assert_eq!((request.op(), request.fault()), (Some(Op::Check), None));
//!
//! let mut reply = Vec::new();
//! let body = Body::Counts { reports: 7, revokes: 0 };
//! Reply { code: Code::Ok, thread: request.thread(), body }.encode(&mut reply);
//! assert_eq!(reply, b"Code: 200\nDiag: OK\nPV: 2.1\nThread: 42586\nCount: 7\nWL-Count: 0\n\n");
//! ```

pub mod client;
mod digest;
mod fields;
mod reply;
mod request;

pub use digest::{DIGEST_BYTES, Digest};
pub use reply::{Body, Code, Reply, Times};
pub use request::{Op, Request};

/// How much of a datagram is looked at, as in the original server. A line that is not known to end there does not count.
pub const FRAME_BYTES_MAX: usize = 8192;

/// Most digests of one request: what fits, in the shortest spelling of their lines.
pub const DIGESTS_MAX: usize = FRAME_BYTES_MAX / "Op-Digest:\n".len().saturating_add(2 * DIGEST_BYTES);

/// The longest `Thread` that is echoed. Real ones are numbers of up to five digits.
pub const THREAD_BYTES_MAX: usize = 16;

/// The count in the reply to a `pong`, and the highest there is.
pub const COUNT_MAX: u64 = i64::MAX as u64;
