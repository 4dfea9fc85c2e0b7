//! Block-based and hierarchical filters: was this excerpt part of something that was recorded, and where in it?
//!
//! A payload is cut into blocks of equal size, and each is recorded with its offset, counted in blocks (Shanmugasundaram,
//! Brönnimann, Memon, *Payload attribution via hierarchical Bloom filters*, CCS 2004). One level of blocks is the paper's
//! BBF; with more, blocks of twice, four times, … the size are recorded as well (HBF), so that blocks which were recorded, but
//! never one behind the other, are told from those that were:
//!
//! ```text
//! level 2   S0S1S2S3 ‖ 0
//! level 1   S0S1 ‖ 0        S2S3 ‖ 1
//! level 0   S0 ‖ 0   S1 ‖ 1   S2 ‖ 2   S3 ‖ 3   S4 ‖ 4
//! ```
//!
//! An excerpt is asked for at every alignment to the blocks and at every offset. What is found is a [`Run`] of blocks, with
//! the number of digests that all had to be there; [`Chance`] says how many such runs a filter so full would show if nothing
//! of the excerpt had ever been recorded.
//!
//! What is not known here: bytes that do not fill a last block are not recorded, and blocks that were recorded in different
//! payloads can still pass for neighbours where no doubled block covers both: two of them at an odd offset, for instance.
//! No rate accounts for that.
//!
//! ```
//! use bruit_filters::FingerprintKey;
//! use bruit_filters::blocks::{BlockFilter, BlockShape, Digester, Label};
//! use bruit_filters::bloom::OneLineFilter;
//!
//! let key = FingerprintKey::new([7; 16]); // 16 random bytes, in earnest
//! let shape = BlockShape::new(16, 4)?;
//! let mut filter = BlockFilter::new(Digester::new(&key, shape), OneLineFilter::new(100, 6, 64, key.id()));
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
