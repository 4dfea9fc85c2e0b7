//! Deltas: what turns a base into a target, in about as few bytes as the change holds information.
//!
//! Promises that base + delta = target, exactly; that a delta is refused by any other base before anything changes; and
//! that no input causes a panic, an endless loop or more memory than the filter takes already. A delta holds no key.
//! The bytes are described in `docs/design/filter-files.md`.
//!
//! Three encodings, of which the encoder takes the smallest:
//!
//! - **Gaps.** The receiver has the base, so only its zeros can change: the gaps between those that do, counted in
//!   zeros, Golomb-coded, come within 1 % of the entropy of the change. For counts: gaps between the cells that change, and
//!   how much they do.
//! - **Fingerprints.** k positions tell of one key k times. Where the new keys are few, the leading bits of their
//!   fingerprints, sorted and Golomb-coded, are shorter than any list of positions: down to three quarters of that entropy.
//! - **Whole.** The target as it is, where too much has changed.
//!
//! Deltas of files with a [history](crate::file::History) are steps of one origin: they say whose counts they are and which
//! revision they build on, and [`advance`] applies each once. Those of classical counts are in a form of their own, **growth**:
//! how much each cell grew, to be added to the origin's filter or to any merged filter that has the base.
//!
//! Gaps and whole are chosen per block of 32 KiB, so that two files are compared, and a delta is applied to a file, in
//! the memory of a few blocks.
//!
//! ```
//! use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
//! use bruit_filters::{FingerprintKey, delta};
//!
//! let key = FingerprintKey::new([1; 16]);
//! let mut base = OneLineFilter::new(2000, 6, 40, key.id());
//! base.insert(&key.fingerprint(b"known before"));
//! let mut target = base.clone();
//! let news = [key.fingerprint(b"new"), key.fingerprint(b"newer")];
//! target.insert_batch(&news);
//!
//! let bytes = delta::encode(&base, &target, 0, Some(&news))?;
//! assert!(bytes.len() < 120, "two fingerprints and a header");
//! delta::apply(&mut base, 0, &bytes)?;
//! assert_eq!(base, target);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod bits;
pub(crate) mod block;
mod cells;
mod error;
mod fingerprints;
mod growth;
mod header;
mod memory;
mod spill;
mod stream;
mod transform;
mod zeros;

pub use error::{ApplyError, DiffError};
pub use growth::advance;
pub use header::{DELTA_HEADER_BYTES, DeltaHeader, Encoding, read_header, verify};
pub use memory::{apply, encode};
pub use stream::{apply_between, diff};
