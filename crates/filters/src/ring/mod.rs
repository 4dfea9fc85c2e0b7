//! Ageing: temporally ordered generations, the paper's answer to "a filter cannot forget".
//!
//! Eight generations lie side by side in the same lines, one lane each, so a check over the whole window costs the two
//! lines of a key and not eight times one. The current generation takes what is inserted. Before the next epoch begins
//! the oldest one is cleared, in steps as small as one likes, for the new one takes over its lane; it leaves all answers
//! with the first step. So a key is found for seven epochs at least and eight at most.
//!
//! ```text
//! lane     0    1    2    3    4    5    6    7        epoch 13 is current
//! epoch    8    9   10   11   12   13    6    7        lane 6 will be cleared, and then hold epoch 14
//! ```
//!
//! | type | a check returns |
//! |---|---|
//! | [`MembershipRing`] | the set of generations that hold the key |
//! | [`StagedRing`] | the same, with fewer bits where false positives must be rare: 40 a key, not 92, at one in a million |
//! | [`CountsRing`] | the sum of the key's counts over the live generations |
//!
//! A single generation can be sent to another ring of the same size, in parts: [`LaneParts`]. The lines of a membership ring
//! can lie in a file and be asked there: [`RingShape`].
//!
//! None reads a clock: an epoch ends when [`advance`](MembershipRing::advance) is called.

mod counts;
mod counts_merge;
mod lanes;
pub(crate) mod membership;
mod parts;
mod record_parts;
mod records;
mod shape;
mod snapshot;
mod staged;

pub use counts::{CountsRing, Needs};
pub use lanes::{GENERATIONS, Generations, NotLive};
pub use membership::MembershipRing;
pub use parts::{LANE_PART_BYTES_MAX, LaneError, LaneParts};
pub use shape::{RING_EPOCH_MAX, RING_LINE_BYTES, RingShape};
pub use staged::{StagedRing, StagedScratch};
