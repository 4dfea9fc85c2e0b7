//! The checksums that clients of the Distributed Checksum Clearinghouse send for a message.
//!
//! Each checksum is an MD5 of one trait of the message. The traits are the client's IP address, the envelope sender,
//! three header fields, the body, and the letters of the text (*Fuz1*). Fuz1 is equal for messages that differ only in
//! greetings, digits, punctuation and the paths of links.
//!
//! # Omissions
//!
//! - **Fuz2** covers only words in dictionaries that come with the original program and may not be used here. The
//!   original client computes Fuz2, and a server only compares it.
//! - **Greylisting and reputation checksums** depend on the configuration of a client or its server. [`substitute_sum`]
//!   computes the checksum of a substitute header, but [`sign()`] does not use it.
//! - **The client's address** is provided by the caller, in [`Envelope::client`]. This module does not guess it from
//!   the topmost `Received` field, although `dccproc -R` does.
//!
//! # Agreement with the original
//!
//! The rules were derived by observing the original clients (release 2.3.167). The tests cannot run the original
//! program. Address, header and body checksums of ordinary messages agree. Fuz1 agrees in simple cases, but not always,
//! because the original works in a buffer of 317 bytes, and the boundaries of the buffer affect the result. Even the
//! original programs differ from each other: `dccifd` drops a greeting on the very first line of a body, but `dccproc`
//! keeps it. This module drops it.
//!
//! In some places, the observations fit more than one rule. This module uses the following rules:
//!
//! - If a field is repeated, the last one in the text counts. For `Received`, the original documents this rule. Every
//!   relay adds its field at the top, so the first relay added the last field.
//! - An empty field has the checksum of the empty string. A missing field has no checksum.
//! - Body covers everything after the message header, including boundaries and headers of parts. Fuz1 covers only the
//!   contents of parts, of any type.
//! - A link ends at white space, quotes or angle brackets.

mod body;
mod content;
mod fields;
mod fuzzy;
mod links;
mod sign;
mod transfer;

pub use content::NESTING_MAX;
pub use sign::{Checksum, Envelope, Kind, address_sum, field_sum, sign, substitute_sum};
