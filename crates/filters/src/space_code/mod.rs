//! Space-code filters: how often a key was inserted, told by bits that are only ever set.
//!
//! After Kumar, Xu, Wang, Spatscheck and Li (INFOCOM 2004). A [`SpaceCodeFilter`] has l groups of k hash functions. An
//! insertion chooses one group at random and is an ordinary insertion under that group's functions; a query counts the
//! groups under which the key is found, and the more there are, the more often it was inserted. All groups are hit after
//! about l ln l insertions ([`coupon_collector`]), so one filter tells small numbers only. A [`MultiResolutionFilter`] has
//! several: the i-th sees a packet with probability 4^-(i−1), and the most relevant one for a key is asked
//! ([`relative_incremental_inaccuracy`]).
//!
//! An [`Estimator`] has the tables that turn hits into an [`Estimate`]: by maximum likelihood, by the mean, and the interval
//! in which the truth lies with a confidence of [`CONFIDENCE`]. False positives of the filter are part of the model.
//!
//! The library draws no randomness: with each insertion comes a number that the caller drew, [`Arrival::draw`].
//!
//! Bits that are only set suit memory that cannot add. Where it can, [`OneLineCounts`](crate::counting::OneLineCounts) tells
//! counts more exactly in fewer bits: `docs/survey/flows.md` has both side by side.

mod estimate;
mod formulas;
mod multi;
mod single;
mod tables;

pub use estimate::{CONFIDENCE, Estimate, Estimator};
pub use formulas::{coupon_collector, expected_hits, expected_insertions, relative_incremental_inaccuracy};
pub use multi::{MultiResolutionFilter, RESOLUTIONS_MAX, Shape};
pub use single::{Arrival, GROUPS_MAX, SpaceCodeFilter};
