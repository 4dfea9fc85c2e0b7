//! rspamd's fuzzy storage: the recorded datagrams, and what holds for any.

mod any;
mod recorded;
mod transcript;
