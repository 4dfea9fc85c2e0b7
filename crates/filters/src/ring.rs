//! Filters whose keys expire: rings of generations in chronological order. Keys cannot be removed from a plain Bloom
//! filter, but a ring drops them one generation at a time.
//!
//! Eight generations share the same lines, with one lane for each. A check of all eight therefore reads the two lines
//! of a key once instead of eight times. Keys are inserted into the current generation. The lane of the oldest
//! generation is cleared, in steps of any size, and reused in the next epoch. From the first step on, no answer
//! includes the oldest generation. A key is therefore found for at least seven epochs and at most eight.
//!
//! ```text
//! lane     0    1    2    3    4    5    6    7        epoch 13 is current
//! epoch    8    9   10   11   12   13    6    7        lane 6 will be cleared, and then hold epoch 14
//! ```
//!
//! | type | a check returns |
//! |---|---|
//! | [`MembershipRing`] | the set of generations that contain the key |
//! | [`StagedRing`] | the same, with fewer bits at low rates: at a rate of one in a million, 40 bits per key instead of 92 |
//! | [`CountsRing`] | the sum of the key's counts over the live generations |
//!
//! The lines of a membership ring can be stored in a file and checked there: [`RingShape`].
//!
//! No ring reads a clock: an epoch ends when [`advance`](MembershipRing::advance) is called.

mod counts;
mod lanes;
pub(crate) mod membership;
mod records;
mod shape;
mod snapshot;
mod staged;

pub use counts::{CountsRing, Needs};
pub use lanes::{GENERATIONS, Generations, NotLive};
pub use membership::MembershipRing;
pub use shape::{RING_EPOCH_MAX, RING_LINE_BYTES, RingShape};
pub use staged::{StagedRing, StagedScratch};
