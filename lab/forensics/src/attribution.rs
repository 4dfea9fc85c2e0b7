//! Payload attribution: finds out who sent an excerpt to whom and when, without storing the traffic.
//!
//! A [`Recorder`] accepts payloads with their (source, destination) pairs and times, and writes a page for each span of
//! time ([`pages`](crate::pages)); unfinished pages are [`Draft`]s. A [`Page`] has two filters and a list:
//!
//! | part | contents | question that it answers |
//! |---|---|---|
//! | offset digests, hierarchical | content ‖ offset of every block | Was the excerpt carried, and at which offset? |
//! | payload digests, of single blocks | content ‖ offset ‖ pair of every block | Did this pair carry the excerpt? |
//! | list of pairs | source, destination, first and last time | Which pairs can be queried? |
//!
//! The payload digests cover only single blocks, not the doubled blocks of the hierarchy
//! ([`bruit_structures::blocks`]); this leaves twice as many bits for each digest. So only the offset digests show that
//! the blocks of an excerpt were adjacent in some payload. A pair is therefore also named if it carried all the blocks,
//! but in different payloads. The computed rates do not include such errors.
//!
//! The maximum size of a page follows from the disk limit per hour. When a page is written, it is folded to the size
//! that its contents need. If there is more traffic than planned, all of it is still recorded, but the false-positive
//! rates rise. The rates in answers are computed from the actual fill of the filters, so they include this effect.
//!
//! Packets are recorded one by one; streams are not reassembled. If an excerpt was split across packets, only the parts
//! within single packets are found, and the answer says which. An excerpt shorter than two blocks cannot be searched
//! for.

mod bytes;
mod draft;
mod filler;
mod host;
pub mod mail;
mod page;
mod pair_search;
mod pairs;
mod query;
mod recorder;
mod settings;

pub use bytes::{PAGE_BYTES_MAX, PageBytesError};
pub use draft::Draft;
pub use host::{Host, NAME_BYTES_MAX, Pair};
pub use page::{Counts, Page};
pub use pairs::{ListedPair, PAIRS_MAX};
pub use query::{
    Answer, Attribution, BLOCKS_MIN, BY_CHANCE_MAX, DIGESTS_ASKED_MAX, Finding, Part, Question, bytes_to_tell, query,
};
pub use recorder::{RecordError, Recorder, Summary};
pub use settings::{PAGE_SHARE_BYTES_MIN, Settings, SettingsError};

/// The kind of pages, as written to the marker of their directory.
pub const KIND: &str = "attribution";
