//! Tests of rspamd's fuzzy storage protocol with recorded datagrams, and tests of properties that hold for any
//! datagram.

mod any;
mod recorded;
mod transcript;
