//! Durable storage for a clearinghouse: every confirmed event survives a crash and is applied exactly once.
//!
//! A [`Store`] contains a [`Machine`], which is any deterministic state that is changed by events. The store writes
//! every accepted event to a journal and waits for the disk *before* it applies the event and answers. Snapshots are
//! written while the machine runs. Opening restores the newest intact snapshot and replays the journal after it. The
//! store does not know the meaning of events.
//!
//! ```text
//!   submit ──► queue ──► writer thread: admit, one record, one fdatasync ──► applier thread: apply, answer
//!   check  ──► machine (read lock)              │ between batches: a slice of a snapshot
//!                                               └──► snapshot thread: blocks, fsync, rename
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`machine`] | the trait of a stored state |
//! | [`clearinghouse`], [`founding`] | the engine as a machine, and the initial settings of a clearinghouse |
//! | `store`, `queue`, `writer`, `applier`, `background` | the running store, its queue of submitted events, and its three threads |
//! | `gate` | the lock on the machine, whose writer lets readers in between slices |
//! | `header`, `record`, `journal_file`, `snapshot` | the formats of headers, records of a journal file, and blocks of a snapshot |
//! | `journal`, `recover` | writing journal files; recovering a machine from a directory |
//! | [`mod@survey`], [`findings`] | checking a directory without changing it, and advice on its faults |
//! | [`mod@repair`] | cutting the journal before a damaged record |
//! | [`disk`], `directory`, [`modes`] | write operations, which tests can make fail; file names and the lock; file permissions |
//!
//! `docs/design/store.md` specifies the bytes and the order of every `fsync`.
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod applier;
mod background;
pub mod clearinghouse;
mod directory;
pub mod disk;
pub mod findings;
pub mod founding;
mod gate;
mod header;
mod journal;
mod journal_file;
pub mod machine;
pub mod modes;
mod queue;
mod record;
mod recover;
pub mod repair;
mod snapshot;
mod store;
pub mod survey;
mod writer;

pub use clearinghouse::Clearinghouse;
pub use directory::{
    ADMIN_TOKEN_FILE, DAMAGED_HISTORY_FILE, DAMAGED_PRECISION_FILE, FUZZY_KEY_FILE, HISTORY_FILE, LockError,
    NODE_KEY_FILE, PEERS_FILE, PRECISION_FILE, SHELF_FOLDER, quoted,
};
pub use findings::{Advice, Finding};
pub use founding::{FOUNDING_FILE, Founding, FoundingError, RELEASED, UnfitFounding};
pub use header::HEADER_BYTES;
pub use journal::JOURNAL_FILE_BYTES;
pub use machine::{Machine, RestoreError};
pub use queue::{QUEUE_BYTES_MAX, QUEUE_EVENTS_MAX, SnapshotError, SubmitError};
pub use record::{EVENT_BYTES_MAX, RECORD_BYTES_MAX, RECORD_OVERHEAD_BYTES};
pub use recover::{DamagedSnapshot, OpenError, PEEKS_MAX, Recovery, peek};
pub use repair::{RepairError, RepairReport, repair};
pub use snapshot::BLOCK_BYTES_MAX;
pub use store::{Durability, Options, SNAPSHOT_AFTER_BYTES, Status, Store};
pub use survey::{Observer, Survey, SurveyError, survey};
