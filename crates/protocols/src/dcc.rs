//! DCC, as spoken by `dccproc`, `dccifd` and `cdcc`.
//!
//! A frame is one datagram. It consists of a 24-byte header, a body that depends on the operation, and a 16-byte
//! signature. All numbers are big-endian, except the transaction numbers, which a server only copies. A [`Request`]
//! borrows from its frame and does not allocate. A [`Reply`] is appended to the caller's buffer. A callback signs the
//! reply, because this module has no access to passwords. [`whitelist`] parses the file that assigns fixed counts to
//! checksums.
//!
//! Malformed requests get no reply: [`Request::decode`] returns `None`. Versions 6 to 12 are supported. A NOP of an
//! older or newer version is also answered, because clients negotiate the version with NOPs. Greylisting is not
//! supported.

mod counts;
mod frame;
mod items;
mod reply;
mod request;
pub mod whitelist;

pub use counts::{Count, TARGETS_MAX, Targets, Totals};
pub use frame::{ANONYMOUS, CLIENT_IDS, Header, Numbers, SERVER_IDS, SIGNATURE_BYTES};
pub use items::{ITEM_BYTES, ITEMS_MAX, Item, Items, Kind, Sum};
pub use reply::{BRAND_BYTES_MAX, Brand, ERROR_BYTES_MAX, Reply, TEXT_BYTES_MAX};
pub use request::{Admin, AdminOperation, Ask, FRAME_BYTES_MAX, Request};

use std::ops::RangeInclusive;

/// The newest version, spoken by all current clients.
pub const VERSION_MAX: u8 = 12;
/// The oldest version used in a reply.
const VERSION_MIN: u8 = 4;
/// Versions in which all operations are supported.
pub const VERSIONS: RangeInclusive<u8> = 6..=VERSION_MAX;
