//! An HTTP client for a clearinghouse. No request takes longer than the client's timeout.
//!
//! **Data sent.** A request contains what a [`Signer`] computes from a message: signatures, and features of its text.
//! The text cannot be reconstructed from the features. Checks and counts also contain the sender's address and the
//! mailing list's name, which the server looks up in its whitelist. The text, the recipients and all other header
//! fields stay on this machine. Only [`Rspamd`] sends whole messages, to the site's own rspamd.
//!
//! ```no_run
//! use std::time::Duration;
//! use bruit_client::{Client, Purpose, Signer};
//!
//! let client = Client::new("http://127.0.0.1:8625", None, Duration::from_secs(5))?;
//! let signer = Signer::new(Purpose::Check);
//! let answer = client.check(&signer.subject(b"Subject: watches\n\nBuy them here"))?;
//! println!("{}, because {}", answer.verdict, answer.reason);
//! # Ok::<(), bruit_client::ClientError>(())
//! ```
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod agent;
mod client;
mod error;
mod rspamd;
mod signer;
pub mod spool;

pub use bruit_protocols::http;
pub use client::{ANSWER_BYTES_MAX, CheckOptions, Client};
pub use error::ClientError;
pub use rspamd::{Lesson, MESSAGE_BYTES_MAX as LESSON_MESSAGE_BYTES_MAX, Rspamd, RspamdError};
pub use signer::{Purpose, Schemes, Signer};
