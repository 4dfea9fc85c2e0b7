//! Which reports share features with a message: a bounded multimap from features to short owner tags.
//!
//! An *owner* is whatever stored a set of features under one number, usually a report: 48 pairs of words, or 32 shingles.
//! [`OwnerTable::add`] stores them; [`OwnerTable::votes`] looks up every feature of a message, and each one votes for the
//! owners that hold it. An owner with m votes of n stored features covers about m/n of the message's ancestor, whatever
//! else the message says. What share makes a match, and what is known of the owner, is the caller's business.
//!
//! Votes are counted for each quarter of the owner's text ([`Part`]), which is stored with the feature; the message need not
//! know its own. For a replica that was altered word by word keeps features of all four, while two issues of one newsletter
//! share whole quarters and nothing of the others.
//!
//! No text and no fingerprint is stored, only 30 bits per feature: 20 of the owner's number, 8 of the feature and 2 of its
//! part. So a feature that was never stored votes too, for 0.13 owners on average in a table that is 95 % full
//! ([`crate::sizing::false_votes`]). They are random ones, in any part: ask for several votes, never for one.
//!
//! ```text
//! line     64 bytes, 17 slots of a check (8 bits), a tag (20 bits, 0 = empty) and a part (2 bits)
//! feature  its line, and another that follows from the first and the check; the slot lies in either
//! insert   into the emptier of the two; if both are full, slots move to their other lines (cuckoo hashing)
//! age      numbers are handed out in order; the slots of the expired are free, and swept before their tags return
//! ```
//!
//! A feature that already has [`OWNERS_PER_FEATURE_MAX`] owners is refused, for what everybody says tells nothing about
//! its owner. Memory never grows: when the table is too full to move anything, the oldest slot at hand is lost.
//! Tables neither merge nor have a file format, but snapshots.
//!
//! Who stores features without parts, as shingles are, has two more bits for the owner's number
//! ([`OwnerTable::without_parts`]): four million owners can then be told apart, and not one.

mod feature;
mod line;
mod numbering;
mod place;
mod snapshot;
mod table;
#[cfg(test)]
mod tests;
mod votes;

pub use feature::{Feature, PARTS, Part};
pub(crate) use line::SLOTS;
pub use numbering::{OWNERS_LIVE_MAX, OWNERS_WITHOUT_PARTS_LIVE_MAX, Owner};
pub use table::{Added, OWNERS_PER_FEATURE_MAX, OwnerTable};
pub use votes::Votes;
