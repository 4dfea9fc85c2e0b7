//! For the analyst who has a capture or a mailbox and a question.

pub mod pages;
