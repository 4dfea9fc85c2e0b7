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
// Only tests, benches and examples generate traffic. The module is public because other crates' tests and benches use
// it. It is in this crate because it uses the crate's random numbers and capture format.
#[doc(hidden)]
pub mod generate;
mod mail;
pub mod packet;
pub mod pages;
mod random;
pub mod traceback;
