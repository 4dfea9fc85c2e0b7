//! Talks to a clearinghouse over HTTP, without ever holding up mail for longer than it was told to.
//!
//! **What leaves the machine** is what a [`Signer`] makes of a message: signatures and the features of its text, from which
//! the text cannot be read, and for checks and counts the sender's address and the mailing list's name, so that the whitelist
//! of senders and lists can apply. No word of a message is sent, nor its recipients or any other field.
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

mod client;
mod error;
mod signer;

pub use bruit_protocols::http;
pub use client::{ANSWER_BYTES_MAX, CheckOptions, Client};
pub use error::ClientError;
pub use signer::{Purpose, Schemes, Signer};
