//! What a clearinghouse knows and decides.
//!
//! A state machine without sockets, clock or randomness of its own: time and events come in, answers come out.
//!
//! | module | what it is |
//! |---|---|
//! | [`accounts`] | who may claim, and how a claim proves who makes it |
//! | [`passwords`] | which passwords are too common |
//! | [`replicas`] | which reports a message is a near replica of |
//! | [`shingles`] | texts known by rspamd's digests and shingles |
//! | [`signature`] | fingerprints of signatures |
//! | [`whitelist`] | signatures that do not count, and senders beyond suspicion |
//! | [`codec`], [`time`] | numbers in bytes, and time as an argument |

pub mod accounts;
pub mod codec;
pub mod passwords;
pub mod replicas;
pub mod shingles;
pub mod signature;
pub mod time;
pub mod whitelist;
