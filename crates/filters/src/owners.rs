//! A bounded multimap from features to owners. It finds the reports that share features with a message.
//!
//! An *owner* is a set of features stored under one number. Usually it is a report, with 48 pairs of words or 32
//! shingles. [`OwnerTable::add`] stores the features of an owner. [`OwnerTable::votes`] looks up every feature of a
//! message, and each feature votes for the owners that have it. If an owner with n stored features gets m votes, it
//! shares about m/n of its features with the message, regardless of the rest of the message. The caller decides which
//! share counts as a match, and stores all other data of owners.
//!
//! Each feature is stored with the quarter of the owner's text in which it occurs ([`Part`]), and votes are counted per
//! quarter. The position of a feature in the message does not matter. The counts per quarter distinguish two cases. A
//! replica altered word by word keeps some features of all four quarters. Two issues of a newsletter have all features
//! of some quarters in common, and no features of the other quarters.
//!
//! The table stores neither text nor fingerprints, only 30 bits per feature: 20 for the owner's number, 8 for the
//! feature and 2 for the part. Features that were never stored therefore cast false votes for random owners and parts.
//! In a table that is 95 % full, such a feature casts 0.13 false votes on average ([`crate::sizing::false_votes`]).
//! Never accept a single vote as a match.
//!
//! ```text
//! line     64 bytes: 17 slots, each with a check (8 bits), a tag (20 bits, 0 = empty) and a part (2 bits)
//! feature  has two lines, the second computed from the first and the check; its slot lies in one of them
//! insert   into the emptier of the two; if both are full, slots move to their other lines (cuckoo hashing)
//! age      numbers are allocated in order; slots of expired owners are free, and swept before their tags are reused
//! ```
//!
//! A feature that already has [`OWNERS_PER_FEATURE_MAX`] owners is refused, because a common feature does not identify
//! its owner. Memory never grows. If the table is too full for a slot to be freed by moving others, the oldest of the
//! examined slots is evicted. Tables have snapshots, but cannot be merged and have no file format.
//!
//! Features without parts, such as shingles, leave two more bits for the owner's number
//! ([`OwnerTable::without_parts`]), enough for four million owners instead of one million.

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
pub use table::{Added, OWNERS_PER_FEATURE_MAX, OwnerTable, OwnerTableWithoutParts};
pub use votes::Votes;
