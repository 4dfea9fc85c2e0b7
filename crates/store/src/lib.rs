//! What a clearinghouse was told survives whatever happens to the process, and is applied exactly once.
//!
//! A [`Store`] holds a [`Machine`], any deterministic state fed by events. It writes every accepted event to a journal
//! and waits for the disk *before* it applies and answers; it takes snapshots beside the running machine, and on opening
//! restores the newest sound one and replays what the journal has behind it. It does not know what events mean.
//!
//! ```text
//!   submit ──► queue ──► writer thread: admit, one record, one fdatasync ──► applier thread: apply, answer
//!   check  ──► machine (read lock)              │ between batches: a slice of a snapshot
//!                                               └──► snapshot thread: blocks, fsync, rename
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`machine`] | the trait of what is kept |
//! | [`clearinghouse`], [`founding`] | the engine as such a machine, and what it was founded as |
//! | `store`, `queue`, `writer`, `applier`, `background` | the running store, its waiting submits, its three threads |
//! | `gate` | the lock on the machine, whose writer lets readers in between slices |
//! | `format`, `record`, `segment`, `snapshot` | bytes: headers, records of a journal segment, blocks of a snapshot |
//! | `journal`, `recover` | writing segments; from a directory to a machine |
//! | [`mod@survey`], [`findings`] | a directory looked at without touching it; what is wrong with it, and what to do |
//! | [`mod@repair`] | the journal cut behind a damaged place |
//! | [`disk`], `directory`, [`modes`] | the operations on files that can fail; names and the lock; who may read the files |
//!
//! `docs/design/store.md` has the bytes and the order of every `fsync`.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod applier;
mod background;
pub mod clearinghouse;
mod directory;
pub mod disk;
pub mod findings;
mod format;
pub mod founding;
mod gate;
mod journal;
pub mod machine;
pub mod modes;
mod queue;
mod record;
mod recover;
pub mod repair;
mod segment;
mod snapshot;
mod store;
pub mod survey;
mod writer;

pub use clearinghouse::Clearinghouse;
pub use directory::{ADMIN_TOKEN_FILE, FUZZY_KEY_FILE, LockError, NODE_KEY_FILE, SHELF_FOLDER, quoted};
pub use findings::{Advice, Finding};
pub use format::HEADER_BYTES;
pub use founding::{FOUNDING_FILE, Founding, FoundingError, RELEASED, UnfitFounding};
pub use journal::SEGMENT_BYTES;
pub use machine::{Machine, RestoreError};
pub use queue::{QUEUE_BYTES_MAX, QUEUE_EVENTS_MAX, SnapshotError, SubmitError};
pub use record::{EVENT_BYTES_MAX, RECORD_BYTES_MAX, RECORD_OVERHEAD_BYTES};
pub use recover::{DamagedSnapshot, OpenError, PEEKS_MAX, Recovery, peek};
pub use repair::{RepairError, Repaired, repair};
pub use snapshot::BLOCK_BYTES_MAX;
pub use store::{Durability, Options, SNAPSHOT_AFTER_BYTES, Status, Store};
pub use survey::{Observer, Survey, SurveyError, survey};
