//! Who carried this excerpt, and when: payload attribution, without keeping what was carried.
//!
//! A [`Recorder`] takes payloads with their (source, destination) pairs and their times, and writes a page for each span of
//! time ([`pages`](crate::pages)), which is a [`Draft`] until then. A [`Page`] has two filters and a list:
//!
//! | part | holds | answers |
//! |---|---|---|
//! | offset digests, hierarchical | content ‖ offset of every block | was this excerpt there at all, and where in a payload? |
//! | payload digests, of single blocks | content ‖ offset ‖ pair | was it this pair that carried it? |
//! | the pairs | source, destination, first and last time | which pairs to ask for |
//!
//! Payload digests leave doubled blocks out, so that each has twice the bits. That the blocks of an excerpt were neighbours in some
//! payload the offset digests say; so a pair that carried them all, but in different payloads, is named beside the one that carried
//! them together, and no rate tells.
//!
//! A page is sized by the disk that an hour may take, and folded when it is written to what its contents need. When traffic
//! is more than it was made for, nothing is left out: rates grow, and the answer, which is computed from the filters as
//! full as they are, says so.
//!
//! Packets are taken one by one, streams are not reassembled. So an excerpt that went in several packets is found in the
//! parts that lie within one each; the answer says which part. What is shorter than two blocks is not found.

mod asked;
mod bytes;
mod draft;
mod filler;
mod host;
pub mod mail;
mod page;
mod pairs;
mod query;
mod recorder;
mod settings;

pub use bytes::{PAGE_BYTES_MAX, PageBytesError};
pub use draft::Draft;
pub use host::{Host, NAME_BYTES_MAX, Pair};
pub use page::{Counts, Page};
pub use pairs::{Listed, PAIRS_MAX};
pub use query::{
    Answer, Attribution, BLOCKS_MIN, BY_CHANCE_MAX, DIGESTS_ASKED_MAX, Finding, Part, Question, bytes_to_tell, query,
};
pub use recorder::{RecordError, Recorder, Summary};
pub use settings::{PAGE_SHARE_BYTES_MIN, Settings, SettingsError};

/// The kind of the pages, as their directory's marker names it.
pub const KIND: &str = "attribution";
