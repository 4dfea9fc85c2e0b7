//! Bytes as lower-case hexadecimal digits.

use std::fmt;

/// Writes two digits per byte.
pub(crate) fn write(out: &mut impl fmt::Write, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}
