//! The encoding of filters: one documented format for files, snapshots in a store and messages to peers.
//!
//! Decoding an encoded filter returns the same filter, and equal contents have equal encodings. No input causes a panic
//! or needs more memory than the caller allows. `docs/design/filter-files.md` specifies the bytes. For deltas see
//! [`crate::delta`].
//!
//! ```
//! use bruit_filters::bloom::{MembershipFilter, OneLineFilter};
//! use bruit_filters::{FingerprintKey, file};
//!
//! let key = FingerprintKey::new([1; 16]);
//! let mut filter = OneLineFilter::new(20, 6, 40, key.id()).unwrap();
//! filter.insert(&key.fingerprint(b"known spam"));
//!
//! let mut bytes = Vec::new();
//! file::encode(&filter, &file::Label::default(), &mut bytes)?;
//! let decoded = file::decode(&mut bytes.as_slice(), 1 << 20)?;
//! assert_eq!(decoded.header.key_id, key.id());
//! assert_eq!(OneLineFilter::try_from(decoded.filter)?, filter);
//! # Ok::<(), file::FileError>(())
//! ```

mod check;
pub(crate) mod codec;
mod error;
mod estimate;
pub(crate) mod header;
mod history;
mod merge;
mod spill;
mod stored;
pub(crate) mod words;

pub(crate) use check::WordCheck;
pub use codec::{FilterFile, Label, decode, encode, read_header};
pub(crate) use codec::{Source, header_of, restore_spill, spill_bytes, with_history, write_front};
pub use error::{FileError, Part};
pub use estimate::Estimates;
pub use header::{DELTA_MAGIC, FILTER_MAGIC, FilterKind, HASHES_MAX, HEADER_BYTES, Header, KEY_BYTES, VERSION};
pub(crate) use header::{FieldReader, FieldWriter, VERSION_PLAIN, read_fields, write_fields};
pub use history::{
    HISTORY_ENTRY_BYTES, HISTORY_FRAME_BYTES, History, HistoryError, ORIGINS_MAX, Origin, Reached, STEP_BYTES, Step,
};
pub use merge::merge_from;
pub use spill::SPILL_ENTRY_BYTES;
pub(crate) use spill::{SpillEntry, read_entries, write_entry};
pub(crate) use stored::parts::Parts;
pub(crate) use stored::spill_entries;
pub use stored::{Stored, StoredFilter};
pub(crate) use words::{Checksum, InputWords, OutputWords, expect_checksum, expect_end, read_exactly, read_start};
