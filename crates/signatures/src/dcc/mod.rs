//! The checksums that clients of the Distributed Checksum Clearinghouse send for a message.
//!
//! Each is an MD5 of some trait of the message: where it came from, three of its header fields, its body, and (*Fuz1*) the
//! letters of its text, by which messages that differ in greetings, digits, punctuation and paths of links are the same.
//!
//! # What is not here
//!
//! - **Fuz2** counts only words of dictionaries that come with the original program and may not be used here. The real
//!   client computes it; a server only compares it.
//! - Greylisting and reputation checksums, which need the configuration of a client or its server. For that of a substitute
//!   header there is [`substitute_sum`], but no message is asked for one.
//! - Guessing the client's address from the topmost `Received` field, as `dccproc -R` does: [`Envelope::client`] is what the
//!   caller knows.
//!
//! # How far the results agree with the original
//!
//! The rules are those its clients were observed to follow (release 2.3.167); no original program is there to compare with
//! in a test. Address, header and body checksums of ordinary messages agree. Fuz1 agrees in plain cases and is not
//! claimed to agree to the bit: the original works in a buffer of 317 bytes and what falls on its ends shows in the
//! result. It even differs between its own programs: a greeting on the very first line of a body is dropped by `dccifd` and
//! kept by `dccproc`. Here it is dropped.
//!
//! Where the observations leave a choice, it is this:
//!
//! - Of several fields of one name the last in the text counts. For `Received` that is what the original says of itself; as
//!   every relay puts its field on top, it is the one of the first relay.
//! - A field that is there but empty has the checksum of nothing; one that is not there has none.
//! - Body covers everything behind the message's header, boundaries and headers of parts too. Fuz1 covers what is in the
//!   parts only, of any type.
//! - A link ends at white space, quotes or angle brackets.

mod body;
mod content;
mod fields;
mod fuzzy;
mod links;
mod punycode;
mod sift;
mod sign;
mod transfer;

pub use content::NESTING_MAX;
pub use sign::{Checksum, Envelope, Kind, address_sum, field_sum, sign, substitute_sum};
