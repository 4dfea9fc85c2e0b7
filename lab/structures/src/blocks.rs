//! Block-based and hierarchical filters, which find out whether an excerpt was part of a recorded payload, and where.
//!
//! A payload is split into blocks of equal size. Each block is recorded with its offset, counted in blocks
//! (Shanmugasundaram, Brönnimann, Memon, *Payload attribution via hierarchical Bloom filters*, CCS 2004). A filter with
//! one level of blocks is the paper's BBF. A filter with more levels (HBF) also records blocks of twice the size, four
//! times the size, and so on. These doubled blocks show whether two blocks were next to each other in a payload:
//!
//! ```text
//! level 2   S0S1S2S3 ‖ 0
//! level 1   S0S1 ‖ 0        S2S3 ‖ 1
//! level 0   S0 ‖ 0   S1 ‖ 1   S2 ‖ 2   S3 ‖ 3   S4 ‖ 4
//! ```
//!
//! A search tries every alignment of the excerpt to the blocks, and every offset. Each result is a [`Run`] of blocks,
//! with the number of digests that were found. [`Chance`] returns the number of such runs to expect, at the same fill,
//! for an excerpt that was never recorded.
//!
//! Limits: if the last block of a payload is incomplete, it is not recorded. Blocks of different payloads can be
//! reported as neighbours if no doubled block covers both, for instance two blocks that begin at an odd offset. The
//! computed rates do not include such errors.
//!
//! ```
//! use bruit_filters::FingerprintKey;
//! use bruit_structures::blocks::{BlockFilter, BlockShape, Digester, Label};
//! use bruit_filters::bloom::OneLineFilter;
//!
//! let key = FingerprintKey::new([7; 16]); // use 16 random bytes in production
//! let shape = BlockShape::new(16, 4)?;
//! let mut filter = BlockFilter::new(Digester::new(&key, shape), OneLineFilter::new(100, 6, 64, key.id()).unwrap());
//! filter.insert(b"It was the best of times, it was the worst of times, it was the age of wisdom", Label::Offset);
//!
//! let runs = filter.search(b"of times, it was the worst of times, it was", Label::Offset, 2)?;
//! assert_eq!((runs[0].offset, runs[0].blocks), (1, 2)); // bytes 16 to 48 of the payload
//! assert!(filter.search(b"no time like the present, and no other time", Label::Offset, 2)?.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chance;
mod content;
mod digest;
mod filter;
mod search;
mod shape;

pub use chance::Chance;
pub use digest::{Digester, HostId, Label};
pub use filter::BlockFilter;
pub use search::{EXCERPT_BYTES_MAX, RUNS_MAX, Run, SearchError};
pub use shape::{BLOCK_BYTES_MAX, BlockShape, LEVELS_MAX, PAYLOAD_BYTES_MAX, ShapeError};
