//! For the analyst who has a capture or a mailbox and a question.
//!
//! | to know | use |
//! |---|---|
//! | what is in a capture | [`capture`], [`packet`] |
//! | who carried an excerpt, and when | [`attribution`] |
//! | how many packets each flow has | [`flows`] |
//! | where a packet came from, where a message was seen | [`traceback`] |
//! | how to keep what is learned of each span of time | [`pages`] |
//! | whether any of this works, on traffic whose truth is known | [`generate`] |
//!
//! Bytes and times come in, answers go out: nothing here reads a clock or draws randomness.

pub mod attribution;
pub mod capture;
pub mod flows;
pub mod generate;
mod mail;
pub mod packet;
pub mod pages;
mod random;
pub mod traceback;
