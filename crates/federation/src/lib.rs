//! Servers that share what they learned, exactly once.
//!
//! | module | what it is |
//! |---|---|
//! | [`keys`] | who a server is to others |
//! | [`segment`], [`heads`] | what servers say, signed, byte for byte |
//! | [`export`] | what this server tells others |
//! | [`judge`] | what to ask for, and what to believe of the answers |
//! | [`rejected`] | why something is not taken |
//! | [`stock`] | what a server has for others, as its listeners ask for it |
//! | [`transport`] | where segments come from and go to, whatever carries them |
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod export;
pub mod heads;
pub mod judge;
pub mod keys;
pub mod rejected;
pub mod segment;
mod signed;
pub mod stock;
pub mod transport;
