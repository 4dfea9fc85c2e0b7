//! Deltas: changes from a base to a target, encoded in little more than their information content.
//!
//! Base + delta is exactly the target. Applying a delta to any other base fails and changes nothing. No input causes a
//! panic, an endless loop, or the use of more memory than the filter already has. A delta never contains a key.
//! `docs/design/filter-files.md` specifies the bytes.
//!
//! The changes are encoded in one of three ways, whichever is shortest:
//!
//! - **Gaps.** In a membership filter, only zeros of the base can change. The encoder counts the unchanged zeros
//!   between two changed zeros and writes these gaps as Golomb codes. The result is within 1 % of the entropy of the
//!   change. In a counting filter, it writes the gaps between the cells that change, and the difference of each such
//!   cell.
//! - **Fingerprints.** Each new key changes up to k positions. If few keys are new, the leading bits of their
//!   fingerprints, sorted and Golomb-coded, are shorter than any list of positions. They need as little as three
//!   quarters of the entropy of the changed positions.
//! - **Whole.** If too much has changed, the encoder writes the target itself.
//!
//! Deltas of files with a [history](crate::file::History) are steps of one origin: they contain the origin and the
//! revision that they build on, and [`advance`] applies each exactly once. For classical counts, such deltas use a
//! fourth encoding, **growth**: the increase of each cell. It can be added to the origin's filter or to any merged
//! filter that includes the base.
//!
//! The encoder chooses between gaps and whole separately for each block of 32 KiB. Comparing two files, or applying a
//! delta to a file, therefore needs memory for only a few blocks.
//!
//! ```
//! use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
//! use bruit_filters::{FingerprintKey, delta};
//!
//! let key = FingerprintKey::new([1; 16]);
//! let mut base = OneLineFilter::new(2000, 6, 40, key.id()).unwrap();
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
mod changes;
mod error;
mod files;
mod fingerprints;
mod header;
mod memory;
mod transform;

pub use error::{ApplyError, DiffError};
pub use files::{advance, apply_between, diff};
pub use header::{DELTA_HEADER_BYTES, DeltaHeader, Encoding, read_header, verify};
pub use memory::{apply, encode};
