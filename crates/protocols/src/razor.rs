//! Razor 2, as `razor-agents` and SpamAssassin's plug-in speak it.
//!
//! A server makes a [`Conversation`] per connection, feeds it the bytes that come in, and does what it is asked for:
//! look signatures up, put a claim on disk, write a reply. A conversation reads no socket and no clock, draws no
//! challenge and knows no account; it knows what may be said when, within bounds that are constants of this module.
//!
//! ```text
//! bytes ──► frame ──► sis, request ──► Conversation ──► Action: check, report, … , reply, close
//!                                          ▲                       │
//!                                          └──── one Reply each ───┘
//! ```
//!
//! # What a reply must be
//!
//! The client takes for a reply what one read of 1,024 bytes gives it. So a reply is one buffer of at most
//! [`REPLY_BYTES_MAX`], to be written in one go on a connection that does not delay small segments; what a reply may
//! hold is bounded where it comes from (50 lines in a batch, names, server lists).
//!
//! # What is not believed
//!
//! Lines that have another form than clients' lines are of another protocol: a browser that was made to post a form, for
//! one. They end the connection before anything behind them is looked at, and a greeting is accepted once, as the first line.
//!
//! A mail can carry line ends that make the client end a report's blob early and send the rest of the header as
//! requests, in the name of whoever reports it. The client never sends before it has the reply, so what follows a blob
//! unasked is not run, and closes the connection; so that late segments are seen, a reply to a blob waits for
//! [`BLOB_PAUSE`]. After a blob there are only more blobs. Of a blob only those parts count whose e4 signature was
//! announced before: parts that the mail itself has put into its header were not.

mod blob;
pub mod client;
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

/// A signature of a part, of one of the two engines that clients compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signature {
    /// Of the text.
    E4(E4Signature),
    /// Of a domain it links to.
    E8(E8Signature),
}

impl Signature {
    /// The scheme it is of.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        match self {
            Self::E4(_) => Scheme::RazorE4,
            Self::E8(_) => Scheme::RazorE8,
        }
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8] {
        match self {
            Self::E4(E4Signature(bytes)) => bytes,
            Self::E8(E8Signature(bytes)) => bytes,
        }
    }
}
