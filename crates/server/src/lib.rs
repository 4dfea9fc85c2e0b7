//! The daemon: listeners for five languages, one request path, limits, rights, configuration and metrics.
//!
//! ```text
//!   razor (TCP) ─┐                                        ┌─► engine (read lock): checks
//!   http  (TCP) ─┤                                        │
//!   dcc   (UDP) ─┼─► decode ─► limits, rights ─► Service ─┤
//!   pyzor (UDP) ─┤                                        │
//!   fuzzy (UDP) ─┘                                        └─► store: reports, answered when they are on disk
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`config`], `units` | one TOML file, checked |
//! | `service` | what all listeners share |
//! | `sources`, [`rights`], [`limits`], `connections`, `duplicates`, `replays` | who asks, what they may, how often, and whether they have already |
//! | `udp`, `tcp`, `unix` | threads that take datagrams by the batch; tasks for connections |
//! | `admin_token`, `certificate` | the proof that administrators show, and that the server shows |
//! | `dcc`, `fuzzy`, `http`, `pyzor`, `razor` | the ends of the request path, one for each language |
//! | `federation`, `node_key` | what other servers ask for, and by which key they know this one |
//! | `accounts`, `policy`, `last_claims` | what the file says of accounts and of trust, and when accounts were last used |
//! | `health`, `watch`, `refusals`, `fatal` | the table of degraded states, the code that fills it, and the end of the process |
//! | `metrics`, `log`, `audit` | what is counted; a line for each request at debug; who changed what |
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod accounts;
mod admin_token;
mod audit;
mod certificate;
mod clock;
pub mod config;
mod connections;
mod dcc;
mod descriptors;
mod duplicates;
mod fatal;
mod federation;
mod fuzzy;
mod fuzzy_keys;
mod health;
mod http;
mod last_claims;
mod learning;
pub mod limits;
mod log;
mod metrics;
mod node_key;
mod policy;
mod pyzor;
mod razor;
mod refusals;
mod replays;
pub mod rights;
mod server;
mod service;
mod signals;
mod sources;
mod tcp;
mod ticker;
mod udp;
mod units;
mod unix;
mod watch;

pub use accounts::AccountError;
pub use admin_token::AdminTokenError;
pub use certificate::Certificate;
pub use config::{Config, ConfigError};
pub use federation::FederationError;
pub use fuzzy_keys::KeyFileError;
pub use policy::PolicyChangeError;
pub use server::{Listening, ServeError, Server};
pub use signals::{Signal, Signals};
