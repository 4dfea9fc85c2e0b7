//! DCC, as `dccproc`, `dccifd` and `cdcc` speak it.
//!
//! A frame is one datagram: 24 bytes of header, a body by operation, and 16 bytes of signature; all numbers are big-endian
//! but the transaction numbers, which a server only copies. A [`Request`] borrows from its frame and allocates nothing; a
//! [`Reply`] is appended to the caller's buffer and signed by a function of the caller's, as passwords are not known here.
//! [`client`] is the other side, for tests and load, and [`whitelist`] reads the file of what a server counts never or
//! always.
//!
//! Silence is the answer to what does not follow the rules: [`Request::decode`] then gives nothing. Versions 6 to 12 are
//! spoken; a NOP of an older or newer one is answered, as clients learn the version that way. Greylisting is not spoken.

pub mod client;
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
pub use request::{Admin, AdminOperation, Ask, FRAME_BYTES_MAX, Request, VERSIONS};

/// The newest version, which all current clients speak.
pub const VERSION_MAX: u8 = 12;
