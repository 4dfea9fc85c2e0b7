//! What a clearinghouse knows and decides.
//!
//! A state machine without sockets, clock or randomness of its own: time and events come in, answers come out.
//!
//! | module | what it is |
//! |---|---|
//! | [`realm`] | what servers must have in common |
//! | [`trust`] | whose claims to believe, and what they do to the books |
//! | [`accounts`] | who may claim, and how a claim proves who makes it |
//! | [`passwords`] | which passwords are too common |
//! | [`replicas`] | which reports a message is a near replica of |
//! | [`signature`] | fingerprints of signatures |
//! | [`whitelist`] | signatures that do not count, and senders beyond suspicion |
//! | [`codec`], [`time`] | numbers in bytes, and time as an argument |

pub mod accounts;
pub mod codec;
pub mod realm;
pub mod passwords;
pub mod replicas;
pub mod signature;
pub mod time;
pub mod trust;
pub mod whitelist;
