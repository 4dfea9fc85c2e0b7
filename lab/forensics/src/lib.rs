//! Tools for analysing captures and mailboxes.
//!
//! | question | module |
//! |---|---|
//! | What is in a capture? | [`capture`], [`packet`] |
//! | Who carried an excerpt, and when? | [`attribution`] |
//! | How many packets does each flow have? | [`flows`] |
//! | Where did a packet come from, and where was a message seen? | [`traceback`] |
//! | How are results stored per span of time? | [`pages`] |
//!
//! The functions of this crate receive bytes and times and return answers. They do not read a clock or draw random
//! numbers.

pub mod attribution;
pub mod capture;
pub mod flows;
// Only tests, benches and examples generate traffic. The module is public for those of other crates. It is here because
// it shares the random numbers and the capture format of this crate.
#[doc(hidden)]
pub mod generate;
mod mail;
pub mod packet;
pub mod pages;
mod random;
pub mod traceback;
