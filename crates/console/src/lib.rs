//! Command-line code shared by `bruit` and `bruit-lab`: arguments, input files, mailboxes, progress bars and exit
//! codes.
//!
//! This crate contains no code that talks to a server, and no verbs except `man` and `completions`. [`Failure`] is an
//! error with its exit code.

pub mod completions;
pub mod date;
pub mod failure;
pub mod files;
pub mod keys;
pub mod mailbox;
pub mod man;
pub mod program;
pub mod progress;
pub mod quantity;
pub mod terminal;
mod version;

pub use failure::Failure;
pub use version::version;
