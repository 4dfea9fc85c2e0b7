//! The daemon: listeners for five protocols, a common request path, limits, rights, configuration and metrics.
//!
//! ```text
//!   razor (TCP) ─┐                                        ┌─► engine (read lock): checks
//!   http  (TCP) ─┤                                        │
//!   dcc   (UDP) ─┼─► decode ─► limits, rights ─► Service ─┤
//!   pyzor (UDP) ─┤                                        │
//!   fuzzy (UDP) ─┘                                        └─► store: reports, acknowledged once on disk
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`config`], `units` | the TOML file and its checked form |
//! | `service` | state shared by all listeners |
//! | `sources`, [`rights`] | callers and their rights |
//! | [`limits`], `connections` | token buckets for the rate of requests; limits on the number of connections |
//! | `duplicates`, `replays` | detection of repeated requests |
//! | `udp`, `tcp`, `unix` | threads that receive batches of datagrams; tasks that serve connections |
//! | `admin_token`, `certificate` | the credentials of the administrator and of the server |
//! | `dcc`, `fuzzy`, `http`, `pyzor`, `razor` | the protocols: decoding of requests, and replies |
//! | `federation`, `node_key` | the exchange with other servers, and this server's identity key |
//! | `accounts`, `policy` | the accounts and the trust policy in the configuration |
//! | `last_claims` | the time of each account's last claim |
//! | `sites` | milters and other programs of mail sites that made requests |
//! | `health`, `watch`, `refusal_counts`, `disk_space` | the table of conditions, and the code that updates it |
//! | `clock`, `ticker` | the time, guarded against jumps, and the ticks that age the books |
//! | `learning` | automatic learning of good mail from checks |
//! | `server`, `signals`, `descriptor_limit` | start, reload and stop |
//! | `fuzzy_keys` | the keys of rspamd's protocol |
//! | `fatal` | ends the process after a fatal error |
//! | `history`, `resources` | counters and the precision of reporters over time; memory and disk space |
//! | `metrics`, `log`, `audit` | counters, log lines of requests, and the audit trail |
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
mod descriptor_limit;
mod disk_space;
mod duplicates;
mod fatal;
mod federation;
mod fuzzy;
mod fuzzy_keys;
mod health;
mod history;
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
mod refusal_counts;
mod replays;
mod resources;
pub mod rights;
mod server;
mod service;
mod signals;
mod sites;
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
pub use federation::{AddedPeersError, FederationError};
pub use fuzzy_keys::KeyFileError;
pub use policy::PolicyChangeError;
pub use server::{LINK_MINUTES, Listening, ServeError, Server};
pub use signals::{Signal, Signals};
