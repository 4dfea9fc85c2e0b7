//! Pyzor, as spoken by its own client and by SpamAssassin's.
//!
//! A frame is a block of mail-like header lines, followed by an empty line. Request and reply are one datagram each. A
//! [`Request`] borrows from its frame and does not allocate. A [`Reply`] is appended to the caller's buffer. The caller
//! handles permissions, keys and counts.
//!
//! Real clients differ in line endings, blank lines and letter case, and SpamAssassin's Perl client sends no user. All
//! these variants are accepted. A datagram without an `Op` line is not a request and gets no reply. Otherwise,
//! attackers could use replies to flood others.
//!
//! ```
//! use bruit_protocols::pyzor::{Body, Code, Op, Reply, Request};
//!
//! let frame = b"Op: check\nOp-Digest: eb2a0e84c910ecae205eba635c8e442e85f5ee9a\nThread: 42586\nPV: 2.1\n\n";
//! let request = Request::decode(frame).expect("the frame has an Op line");
//! assert_eq!((request.op(), request.fault()), (Some(Op::Check), None));
//!
//! let mut reply = Vec::new();
//! let body = Body::Counts { reports: 7, revokes: 0 };
//! Reply { code: Code::Ok, thread: request.thread(), body }.encode(&mut reply);
//! assert_eq!(reply, b"Code: 200\nDiag: OK\nPV: 2.1\nThread: 42586\nCount: 7\nWL-Count: 0\n\n");
//! ```

mod digest;
mod fields;
mod reply;
mod request;

pub use digest::{DIGEST_BYTES, Digest};
pub use reply::{Body, Code, Reply, Times};
pub use request::{Op, Request};

/// Maximum number of bytes read from a datagram, as in the original server. A line that may extend beyond them is
/// ignored.
pub const FRAME_BYTES_MAX: usize = 8192;

/// Maximum number of digests in a request. More do not fit, even if every digest has the shortest possible line.
pub const DIGESTS_MAX: usize = FRAME_BYTES_MAX / "Op-Digest:\n".len().saturating_add(2 * DIGEST_BYTES);

/// Maximum length of a `Thread` value that the reply repeats. Real values are numbers of up to five digits.
pub const THREAD_BYTES_MAX: usize = 16;

/// The count in the reply to a `pong`, which is also the maximum count.
pub const COUNT_MAX: u64 = i64::MAX as u64;
