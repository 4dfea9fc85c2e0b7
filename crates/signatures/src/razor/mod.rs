//! The signatures of Vipul's Razor, version 2, as the client of Debian's package `razor` computes them.
//!
//! From the raw bytes of a message this gives what the client sends to a server: the message falls into parts, and each
//! part has one *e4* signature ("ephemeral": two sections of the text, chosen by the server's [`Ep4`] parameters) and any
//! number of *e8* signatures ("whiplash": one for each domain the part links to, with the size of the part). A report
//! carries e4 only, so a server computes e8 itself from the parts that follow: [`sign_part`].
//!
//! Servers compare signatures, not meaning, so every oddity of the client is kept, to the byte. They are described where
//! they occur, and the tests compare with the client itself.
//!
//! ```text
//! message ── parts ──► part ── preprocess ──┬── html ──► text ── ephemeral ──► e4
//!                                           └──────────► text ── hosts, domains, whiplash ──► e8 …
//! ```
//!
//! # Where the results differ from the client's
//!
//! - A message may nest at most [`NESTING_MAX`] multiparts and yield at most [`PARTS_MAX`] parts. What is nested deeper is
//!   one part; parts beyond the bound are left out. The client knows neither bound.
//! - The client dies, and signs nothing of the message, when a link's host has a character above 255 (by `&#300;`). Here
//!   such a host is left out, and the others are signed.
//!
//! # Which bytes are the message
//!
//! [`sign`] takes the message as it is, as SpamAssassin hands it to the client's library. The command-line tools change a
//! file as they read it: `razor-check` signs `From the heart` at the start of a line as `>From the heart`. To agree with
//! them, pass a file through [`command_line_messages`] first.

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
