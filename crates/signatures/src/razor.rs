//! The signatures of Vipul's Razor, version 2, as computed by the client in Debian's package `razor`.
//!
//! This module computes from a raw message what the client sends to a server. The message is split into parts. Each
//! part has one *e4* signature ("ephemeral"), which covers two sections of the text. The server's [`Ep4`] parameters
//! select the sections. A part also has one *e8* signature ("whiplash") for each domain that it links to. An e8
//! signature covers the domain and the size of the part. A report contains e4 signatures, followed by the parts
//! themselves. The server computes e8 from these parts with [`sign_part`].
//!
//! Servers compare signatures byte by byte, so every quirk of the client is reproduced exactly. The quirks are
//! described where they occur, and tests compare with the client itself.
//!
//! ```text
//! message ── parts ──► part ── preprocess ──┬── html ──► text ── ephemeral ──► e4
//!                                           └──────────► text ── hosts, domains, whiplash ──► e8 …
//! ```
//!
//! # Differences from the client
//!
//! - A message may nest at most [`NESTING_MAX`] multiparts and yield at most [`PARTS_MAX`] parts. A multipart that is
//!   nested deeper is a single part. Parts beyond the limit are dropped. The client has neither limit.
//! - If the host of a link contains a character above 255, for example one written as `&#300;`, the client crashes
//!   without signing the message. This module skips such a host and signs the others.
//!
//! # Input
//!
//! [`sign`] expects the message unchanged, as SpamAssassin passes it to the client's library. The command-line tools
//! change a file as they read it. For example, `razor-check` signs `From the heart` at the start of a line as `>From
//! the heart`. To get the signatures of the command-line tools, pass the file through [`command_line_messages`] first.

mod common_hosts;
mod domains;
mod entities;
mod ep4;
mod ephemeral;
mod hosts;
mod html;
mod mailbox;
mod mime;
mod parts;
mod preprocess;
#[cfg(test)]
mod primitives;
mod razor64;
mod sign;
mod signature;
mod text;
mod whiplash;

pub use ep4::{Ep4, Ep4Error, SEPARATOR_BYTES_MAX};
pub use mailbox::command_line_messages;
pub use mime::{NESTING_MAX, PARTS_MAX};
pub use parts::{BODY_BYTES_MAX, HEADER_BYTES_MAX, Part, parts};
pub use sign::{PartSignatures, SignedPart, sign, sign_part};
pub use signature::{E4Signature, E8Signature, SignatureError};
