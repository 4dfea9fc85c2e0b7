//! Servers that share what they learned, exactly once.
//!
//! | module | what it is |
//! |---|---|
//! | [`keys`] | who a server is to others |
//! | [`stock`] | what a server has for others, as its listeners ask for it |
//! | [`transport`] | where segments come from and go to, whatever carries them |
#![deny(clippy::unwrap_used, clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

pub mod keys;
pub mod stock;
pub mod transport;
