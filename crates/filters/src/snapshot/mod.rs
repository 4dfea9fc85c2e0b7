//! Snapshots of structures that go on changing while they are written.
//!
//! [`Snapshot::begin_snapshot`] gives the head, [`Snapshot::continue_snapshot`] the lines, a few at a time. Between the
//! calls the structure may be changed in any way: what comes out is what it was at the beginning. Only lines that change
//! before their turn are kept twice, so that a snapshot takes neither a second copy of the memory nor a pause.
//! `docs/design/snapshots.md` has the bytes. They carry no checksum: whoever stores them keeps one.
//!
//! ```
//! use bruit_filters::FingerprintKey;
//! use bruit_filters::ring::MembershipRing;
//! use bruit_filters::snapshot::Snapshot;
//!
//! let key = FingerprintKey::new([1; 16]);
//! let mut ring = MembershipRing::new(1000, 64, key.id(), 0);
//! ring.insert(&key.fingerprint(b"before"));
//! let before = ring.clone();
//!
//! let mut bytes = Vec::new();
//! ring.begin_snapshot(&mut bytes);
//! while !ring.continue_snapshot(100, &mut bytes) {
//!     ring.insert(&key.fingerprint(b"meanwhile"));
//! }
//! assert_eq!(MembershipRing::restore(&mut &bytes[..], 1 << 20)?, before);
//! # Ok::<(), bruit_filters::snapshot::RestoreError>(())
//! ```

mod error;
pub(crate) mod head;

use std::io::Read;

pub use error::RestoreError;

use crate::lines::Lines;

/// A structure that can be written while it changes, and made again from what was written.
pub trait Snapshot: Sized {
    /// Starts a snapshot of the structure as it is now, and appends its head: all but the lines. A snapshot that was
    /// running is given up.
    fn begin_snapshot(&mut self, head: &mut Vec<u8>);

    /// Appends the next lines of the running snapshot, at most `lines` of 64 bytes, as they were at its beginning.
    /// Returns whether it is complete, which it also is if none runs.
    fn continue_snapshot(&mut self, lines: usize, out: &mut Vec<u8>) -> bool;

    /// Gives up a running snapshot and the memory it takes.
    fn cancel_snapshot(&mut self);

    /// Lines that are kept twice at the moment, for the rest of the running snapshot.
    fn logged_lines(&self) -> usize;

    /// Makes a structure from its head and its lines, and reads no further. It equals the one at the beginning of the
    /// snapshot and goes on like it.
    ///
    /// # Errors
    /// [`RestoreError`] if the bytes end early, are no snapshot of this kind or cannot be one, or if the structure would
    /// take more than `limit_bytes` bytes of lines, which is found out before any is allocated.
    fn restore(input: &mut dyn Read, limit_bytes: u64) -> Result<Self, RestoreError>;
}

/// [`Snapshot::continue_snapshot`] of a structure whose lines lie in several arrays.
pub(crate) fn continue_all(arrays: &mut [&mut Lines], mut limit: usize, out: &mut Vec<u8>) -> bool {
    for lines in arrays.iter_mut() {
        limit -= lines.continue_snapshot(limit, out);
    }
    !arrays.iter().any(|lines| lines.has_snapshot())
}
