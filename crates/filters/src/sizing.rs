//! Sizes and error rates of filters.
//!
//! All functions are pure functions of numbers. Finite arguments never cause a panic. If there is no solution (a rate
//! of 0, less memory than one line), the result is a [`SizingError`]. Nothing here hashes or allocates cells, so a plan
//! can describe a filter larger than the memory of this machine.
//!
//! The letters are those of the literature: n keys, m cells, k positions per key, a false-positive rate f and a
//! threshold t.
//!
//! | topic | functions |
//! |---|---|
//! | equation (1), the optimal k, Table 1 | [`classical_rate`], [`best_hashes`], [`table_1`] |
//! | the rate of a filter with all positions of a key in one 512-bit line | [`one_line_rate`] |
//! | equations (3) and (4), and their equivalents for the one-line counting layout | [`ln_cell_probability`], [`bulk_rate`], [`counting_line_rate`] |
//! | the error rate of refined counts | [`refined_error`], an estimate with a confidence band |
//! | a ring of eight generations, in one or two stages | [`ring_rate`], [`ring_lines_for_rate`], [`staged_ring_rate`] |
//! | the error rate of a ring of counts | [`counts_ring_rate`], [`counts_ring_lines_for_rate`] |
//! | the size of an owner table, and its rate of false votes | [`owner_table_bytes`], [`false_votes`] |
//! | the size for n and a rate, or for n and a memory limit | [`MembershipPlan`], [`CountingPlan`] |
//! | the number of leading fingerprint bits to use | [`fingerprint_bits`] |
//!
//! "The paper" is J. Yan and P. L. Cho, *Enhancing Collaborative Spam Detection with Bloom Filters* (ACSAC 2006).
//! Equation numbers refer to the paper.
//!
//! ```
//! use bruit_filters::sizing::{Goal, Layout, MembershipPlan};
//!
//! let plan = MembershipPlan::new(Layout::OneLine, 1_000_000, Goal::Rate(0.01))?;
//! assert_eq!(plan.hashes, 6);
//! assert!(plan.false_positive_rate <= 0.01 && plan.bits_per_key < 9.91);
//! # Ok::<(), bruit_filters::sizing::SizingError>(())
//! ```

mod bloom;
mod counting;
mod error;
mod fingerprint_bits;
mod one_line;
mod owners;
mod plan;
mod probability;
mod refined;
pub(crate) mod ring;

pub use bloom::{
    HASHES_MAX, Table1Row, best_hashes, classical_cells_for_rate, classical_rate, classical_rate_exponential,
    compression_rate, lowest_rate, optimal_hashes, table_1,
};
pub use counting::{bulk_rate, counting_line_rate, counting_lines_for_rate, ln_bulk_rate, ln_cell_probability};
pub use error::SizingError;
pub use fingerprint_bits::fingerprint_bits;
pub use one_line::{LINE_BYTES, LineSize, half_line_rate, one_line_best_hashes, one_line_for_rate, one_line_rate};
pub use owners::{OWNER_LOAD, false_votes, owner_table_bytes};
pub use plan::{BYTES_MAX, CELL_BITS, CountingPlan, Goal, Layout, MembershipPlan};
pub use refined::{Counts, Estimate, Order, intuitive_error, refined_error};
pub use ring::{
    RING_GENERATIONS, RingRate, counts_ring_lines_for_rate, counts_ring_rate, ring_lines_for_rate, ring_rate,
    staged_ring_lines_for_rate, staged_ring_rate,
};
