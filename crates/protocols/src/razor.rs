//! Razor 2, as spoken by `razor-agents` and SpamAssassin's plug-in.
//!
//! A server creates a [`Conversation`] for each connection, passes the received bytes to it, and performs the actions
//! that it returns: look up signatures, write a claim to disk, send a reply. A conversation uses no socket and no
//! clock, creates no challenges and has no access to accounts. It enforces the order of requests and the limits that
//! this module defines as constants.
//!
//! ```text
//! bytes ──► frame ──► sis, request ──► Conversation ──► Action: check, report, … , reply, close
//!                                          ▲                       │
//!                                          └──── one Reply each ───┘
//! ```
//!
//! # Size of a reply
//!
//! The client makes a single read of up to 1,024 bytes, and treats the result as the whole reply. So a reply is one
//! buffer of at most [`REPLY_BYTES_MAX`], sent with one write on a connection that does not delay small segments.
//! Limits on the contents keep replies within that size: 50 lines in a batch, and maximum lengths of names and server
//! lists.
//!
//! # Untrusted input
//!
//! A line that no Razor client would send belongs to another protocol. For example, it may be part of a form posted by
//! a browser. Such a line ends the connection, and everything after it is ignored. A greeting is accepted only as the
//! first line.
//!
//! If a mail's header has certain line endings, the client ends a report's blob early. It then sends the rest of the
//! header as requests, in the name of the reporter. Apart from such requests, a client sends nothing after a blob until
//! it has received the reply. Therefore, anything that directly follows a blob is ignored and closes the connection.
//! The reply to a blob waits for [`BLOB_PAUSE`] to detect late TCP segments, and only further blobs may follow a blob.
//! A part of a blob counts only if its e4 signature was announced before. The client announces no parts that the author
//! of the mail inserted into the header.

mod blob;
mod conversation;
mod frame;
mod grammar;
mod reply;
mod request;
mod sis;
mod terms;

use bruit_signatures::Scheme;
use bruit_signatures::razor::{E4Signature, E8Signature};

pub use blob::{ANNOUNCED_MAX, PART_SIGNATURES_MAX, ReportedPart, ReportedParts};
pub use conversation::{Action, BLOB_PAUSE, Conversation};
pub use frame::{BATCH_BYTES_MAX, BATCH_LINES_MAX, BLOB_BYTES_MAX, LINE_BYTES_MAX, RECEIVE_BYTES_MAX};
pub use reply::{ErrorCode, REPLY_BYTES_MAX, Reply};
pub use request::USER_BYTES_MAX;
pub use terms::{EPOCHS_MAX, SERVERS_MAX, ServerList, Terms, TermsError};

/// A signature of a part, from one of the two engines that clients use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signature {
    /// Signature of the text.
    E4(E4Signature),
    /// Signature of the domain of a link.
    E8(E8Signature),
}

impl Signature {
    /// Returns the scheme of the signature.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        match self {
            Self::E4(_) => Scheme::RazorE4,
            Self::E8(_) => Scheme::RazorE8,
        }
    }

    /// Returns the bytes of the signature.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        match self {
            Self::E4(E4Signature(bytes)) => bytes,
            Self::E8(E8Signature(bytes)) => bytes,
        }
    }
}
