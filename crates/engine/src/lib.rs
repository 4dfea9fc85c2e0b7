//! What a clearinghouse knows and decides.
//!
//! A state machine without sockets, clock or randomness of its own. So far it holds [`replicas`]: which reports a message is
//! a near replica of.

pub mod replicas;
