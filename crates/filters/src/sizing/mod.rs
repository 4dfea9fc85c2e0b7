//! How large a filter must be, and how wrong it will be.
//!
//! Promises: pure functions of numbers; every finite input gets an answer without a panic; a question that has no answer
//! (a rate of 0, a budget smaller than one line) gets a [`SizingError`]. It knows no filter: nothing here hashes or
//! allocates cells, so a plan can be made for sizes this machine could never hold.
//!
//! The letters are the literature's: n keys, m cells, k positions per key, f the false-positive rate, t a threshold.
//!
//! | question | answer |
//! |---|---|
//! | equation (1), the optimal k, Table 1 | [`classical_rate`], [`best_hashes`], [`table_1`] |
//! | the rate of a filter whose keys keep to one 512-bit line | [`one_line_rate`] |
//! | equations (3) and (4), and their like for the one-line counting layout | [`ln_cell_probability`], [`bulk_rate`], [`counting_line_rate`] |
//! | how often a refined count is wrong | [`refined_error`], an estimate with its band |
//! | a ring of eight generations | [`ring_rate`], [`ring_lines_for_rate`], and the same for two stages: [`staged_ring_rate`] |
//! | how often a ring of counts counts what never came | [`counts_ring_rate`], [`counts_ring_lines_for_rate`] |
//! | a table of owners, and how many of its votes are false | [`owner_table_bytes`], [`false_votes`] |
//! | the inverse: n and a rate, or n and a memory budget | [`MembershipPlan`], [`CountingPlan`] |
//! | how many leading bits of a fingerprint to look at | [`fingerprint_bits`] |
//!
//! "The paper" is J. Yan and P. L. Cho, *Enhancing Collaborative Spam Detection with Bloom Filters* (ACSAC 2006), whose
//! equations are numbered as there.
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
    HASHES_MAX, SIGNATURE_BITS, Table1Row, best_hashes, classical_cells_for_rate, classical_rate,
    classical_rate_exponential, compression_rate, lowest_rate, optimal_hashes, table_1,
};
pub use counting::{
    COUNTING_THRESHOLD_MAX, bulk_rate, counting_line_rate, counting_lines_for_rate, ln_bulk_rate, ln_cell_probability,
};
pub use error::SizingError;
pub use fingerprint_bits::{fingerprint_bits, shared_fingerprint_rate};
pub use one_line::{
    LINE_BITS, LINE_BYTES, LineSize, half_line_rate, one_line_best_hashes, one_line_for_rate, one_line_rate,
};
pub use owners::{OWNER_LOAD, false_votes, owner_table_bytes};
pub use plan::{BYTES_MAX, CELL_BITS, COUNTING_BITS_PER_KEY, CountingPlan, Goal, Layout, MembershipPlan};
pub use probability::ln_binomial;
pub use refined::{Counts, Estimate, Order, intuitive_error, refined_error};
pub use ring::{
    RING_GENERATIONS, RING_POSITIONS_PER_LINE, RingRate, counts_ring_lines_for_rate, counts_ring_rate,
    ring_lines_for_rate, ring_rate, staged_ring_lines_for_rate, staged_ring_rate,
};
