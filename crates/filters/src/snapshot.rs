//! Snapshots of structures that may change while they are being written.
//!
//! [`Snapshot::begin_snapshot`] writes the head, and [`Snapshot::continue_snapshot`] writes the lines, a few at a time.
//! The structure may change between the calls, but the snapshot contains the state at its beginning. Only lines that
//! change before they are written are copied. So a snapshot needs neither a second copy of the memory nor a pause.
//! `docs/design/snapshots.md` specifies the bytes. They have no checksum: the caller that stores them must add one.
//!
//! ```
//! use bruit_filters::FingerprintKey;
//! use bruit_filters::ring::MembershipRing;
//! use bruit_filters::snapshot::Snapshot;
//!
//! let key = FingerprintKey::new([1; 16]);
//! let mut ring = MembershipRing::new(1000, 64, key.id(), 0).unwrap();
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

/// A structure that can be written while it changes, and restored from the result.
pub trait Snapshot: Sized {
    /// Starts a snapshot of the current state and appends its head, which is everything except the lines. Cancels a
    /// snapshot that is running.
    fn begin_snapshot(&mut self, head: &mut Vec<u8>);

    /// Appends up to `lines` further lines (64 bytes each) of the running snapshot, as they were at its beginning.
    /// Returns true if the snapshot is complete or none is running.
    fn continue_snapshot(&mut self, lines: usize, out: &mut Vec<u8>) -> bool;

    /// Cancels a running snapshot and frees its memory.
    fn cancel_snapshot(&mut self);

    /// Returns the number of lines that are currently copied for the running snapshot.
    fn logged_lines(&self) -> usize;

    /// Restores a structure from its head and lines. Reads no bytes beyond the last line. The result equals the
    /// structure at the beginning of the snapshot.
    ///
    /// # Errors
    /// [`RestoreError`] if the bytes end early or are not a valid snapshot of this kind, or if the lines of the
    /// structure would need more than `limit_bytes` bytes. This is checked before memory is allocated.
    fn restore(input: &mut dyn Read, limit_bytes: u64) -> Result<Self, RestoreError>;
}

/// Runs [`Snapshot::continue_snapshot`] for a structure with several arrays of lines.
pub(crate) fn continue_all(arrays: &mut [&mut Lines], mut limit: usize, out: &mut Vec<u8>) -> bool {
    for lines in arrays.iter_mut() {
        limit -= lines.continue_snapshot(limit, out);
    }
    !arrays.iter().any(|lines| lines.has_snapshot())
}
