//! Building blocks for the structures of the laboratory (`lab/structures`), which use the memory, the kernels and the
//! file format of this crate. They are not part of the public interface and may change without notice.

pub use crate::file::codec::read_key;
pub use crate::file::header::{FieldReader, FieldWriter};
pub use crate::file::words::{Checksum, InputWords, OutputWords, expect_end, read_start};
pub use crate::hash::keyed::{MULTIPLIER_A, finalise, mix};
pub use crate::kernels::{IN_FLIGHT, Path, Step, is_cached, look_ahead, prefetch_line};
pub use crate::lines::{LINE_WORDS, Line, Lines};
pub use crate::mismatch::ensure_equal;
