//! rspamd's fuzzy storage: recorded datagrams, and properties of arbitrary ones.

mod any;
mod recorded;
mod transcript;
