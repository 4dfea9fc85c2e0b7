//! Space-code filters: estimates of how often a key was inserted, from bits that are only ever set.
//!
//! The method is that of Kumar, Xu, Wang, Spatscheck and Li (INFOCOM 2004). A [`SpaceCodeFilter`] has l groups of k
//! hash functions. An insertion selects one group at random and sets the bits of that group's functions. A query counts
//! the groups in which the key is found; these are called *hits*. The number of hits grows with the number of
//! insertions. All groups are hit after about l ln l insertions ([`coupon_collector`]), so a single filter can estimate
//! only small numbers. A [`MultiResolutionFilter`] has several filters. The i-th filter receives a packet with
//! probability 4^-(i−1), and a query uses the filter that is most relevant for the key
//! ([`relative_incremental_inaccuracy`]).
//!
//! An [`Estimator`] has the tables that convert hits to an [`Estimate`]: the most likely count, the mean, and an
//! interval with a confidence of [`CONFIDENCE`]. The model takes the filter's false positives into account.
//!
//! The library does not generate random numbers: the caller passes one with each insertion ([`Arrival::draw`]).
//!
//! This method needs no addition: bits are only ever set. If the hardware can add,
//! [`OneLineCounts`](bruit_filters::counting::OneLineCounts) is more accurate with fewer bits. `docs/survey/flows.md`
//! compares the two.

mod estimate;
mod formulas;
mod multi;
mod single;
mod tables;

pub use estimate::{CONFIDENCE, Estimate, Estimator};
pub use formulas::{coupon_collector, expected_hits, expected_insertions, relative_incremental_inaccuracy};
pub use multi::{MultiResolutionFilter, RESOLUTIONS_MAX, Shape};
pub use single::{Arrival, GROUPS_MAX, SpaceCodeFilter};
