//! Which reports share features with a message: a bounded multimap from features to short owner tags.
//!
//! An *owner* is whatever stored a set of features under one number, usually a report: 48 pairs of words, or 32 shingles.
//! [`OwnerTable::add`] stores them; [`OwnerTable::votes`] looks up every feature of a message, and each one votes for the
//! owners that hold it. An owner with m votes of n stored features covers about m/n of the message's ancestor, whatever
//! else the message says. What share makes a match, and what is known of the owner, is the caller's business.
//!
//! No text and no fingerprint is stored, only 28 bits per feature: 20 of the owner's number and 8 of the feature. So a
//! feature that was never stored votes too, for 0.13 owners on average in a table that is 95 % full
//! ([`crate::sizing::false_votes`]). They are random ones: ask for several votes, never for one.
//!
//! ```text
//! line     64 bytes, 18 slots of a check (8 bits) and a tag (20 bits, 0 = empty)
//! feature  its line, and another that follows from the first and the check; the slot lies in either
//! insert   into the emptier of the two; if both are full, slots move to their other lines (cuckoo hashing)
//! age      numbers are handed out in order; the slots of the expired are free, and swept before their tags return
//! ```
//!
//! A feature that already has [`OWNERS_PER_FEATURE_MAX`] owners is refused, for what everybody says tells nothing about
//! its owner. Memory never grows: when the table is too full to move anything, the oldest slot at hand is lost.
//! Tables neither merge nor have a file format.

mod line;
mod numbering;
mod place;
mod table;
#[cfg(test)]
mod tests;
mod votes;

pub(crate) use line::SLOTS;
pub use numbering::{OWNERS_LIVE_MAX, Owner};
pub use table::{Added, OWNERS_PER_FEATURE_MAX, OwnerTable};
pub use votes::Votes;
