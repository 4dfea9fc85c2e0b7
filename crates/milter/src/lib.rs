//! A milter: checks the mail of a Postfix or Sendmail site with a clearinghouse, while the SMTP client waits.
//!
//! For each message, the milter computes the signatures and sends one request, which checks the message and counts its
//! recipients. The policy for the verdict decides whether the message is tagged, held, refused or deferred. If the
//! server does not answer in time, mail passes unchecked: the milter never delays or refuses mail because of a fault of
//! its own.
//!
//! **Threads.** One thread serves each connection; an MTA opens one for each SMTP session. The number of connections,
//! the memory for messages, and all times are bounded ([`Limits`](config::Limits)).
//!
//! | module | contents |
//! |---|---|
//! | [`config`] | the configuration file |
//! | `service` | start, reload and stop; the listeners |
//! | `connection` | the socket of one MTA, with its time limits |
//! | `session` | the protocol: commands to answers |
//! | `message` | a message as it arrives: its bytes and recipients |
//! | `filter` | what happens to a message |
//! | `identity` | IDs of messages, the same for a retry |
//! | `server` | requests to the clearinghouse, and outages |
//! | `spool` | the state of the folder for reports of traps |
//! | `metrics` | counters, and their HTTP endpoint |
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod config;
mod connection;
mod filter;
mod greylist;
mod identity;
mod listener;
mod memory;
mod message;
mod metrics;
mod outcome;
mod policy;
mod recipients;
mod server;
mod service;
mod session;
mod signals;
mod spool;

pub use config::Config;
pub use policy::{Action, Policy};
pub use server::Listings;
pub use service::{Milter, Parts, StartError};
pub use signals::{Signal, Signals};
