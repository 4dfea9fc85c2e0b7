//! Mail as payloads: every part of a message is a payload that the sender sends to each recipient.
//!
//! A part is recorded with its transfer encoding removed. Line endings of text are normalised to LF, so that copies
//! from different systems match and an excerpt can be typed. The sender is the address claimed in the `From` field.
//! Recipients are read from `To`, `Cc`, `Delivered-To` and `X-Original-To`. The sender of a message can write any
//! address into `From`, `To` and `Cc`; the receiving mail system adds `Delivered-To` and `X-Original-To`.

use std::borrow::Cow;

use bruit_signatures::message::{Fields, Message};
use bruit_signatures::sender;
use mail_parser::parsers::MessageStream;
use mail_parser::{Address, HeaderValue};

use super::{Host, Pair};
use crate::mail::{bounded, seconds};
use crate::traceback::received_at;

/// Maximum number of recipients recorded per message. All further recipients are recorded as one unknown recipient.
pub const RECIPIENTS_MAX: usize = 64;

const RECIPIENT_FIELDS: [&str; 4] = ["delivered-to", "x-original-to", "to", "cc"];

/// A message ready to be recorded.
#[derive(Debug)]
pub struct MailPayloads<'m> {
    /// The time when the last server received the message, or else the sender's date. `None` if the message has
    /// neither.
    pub time: Option<u64>,
    /// A pair of sender and recipient for each recipient.
    pub pairs: Vec<Pair>,
    /// Content of each part.
    pub payloads: Vec<Cow<'m, [u8]>>,
}

/// Extracts the parts of a message to record.
#[must_use]
pub fn read(raw: &[u8]) -> MailPayloads<'_> {
    let message = Message::read(raw);
    let source = sender::of(raw).map_or(Host::Unknown, |sender| Host::named(&sender.to_ascii_lowercase()));
    let recipients = recipients(&message.fields);
    let pair = |destination| Pair { source: source.clone(), destination };
    MailPayloads {
        time: received_at(raw).or_else(|| message.fields.get("date").and_then(seconds)),
        pairs: recipients.into_iter().map(pair).collect(),
        payloads: message.parts().iter().map(|part| payload(part.bytes(), part.media.is("text", None))).collect(),
    }
}

/// Returns a part in the form in which it is recorded.
fn payload(bytes: Cow<'_, [u8]>, is_text: bool) -> Cow<'_, [u8]> {
    if !is_text || !bytes.windows(2).any(|two| two == b"\r\n") {
        return bytes;
    }
    let mut plain = Vec::with_capacity(bytes.len());
    for (at, &byte) in bytes.iter().enumerate() {
        if byte != b'\r' || bytes.get(at + 1) != Some(&b'\n') {
            plain.push(byte);
        }
    }
    Cow::Owned(plain)
}

/// Returns every recipient in the header once. If there are none, returns one unknown host. If there are more than
/// [`RECIPIENTS_MAX`], one unknown host stands for the rest.
fn recipients(fields: &Fields<'_>) -> Vec<Host> {
    let of_name =
        |name: &'static str| fields.iter().filter(move |(field, _)| field.eq_ignore_ascii_case(name.as_bytes()));
    let mut found = Vec::new();
    for host in RECIPIENT_FIELDS.into_iter().flat_map(of_name).flat_map(|(_, value)| addresses(value)) {
        if found.contains(&host) {
            continue;
        }
        if found.len() == RECIPIENTS_MAX {
            found.push(Host::Unknown);
            return found;
        }
        found.push(host);
    }
    if found.is_empty() {
        found.push(Host::Unknown);
    }
    found
}

/// Parses the addresses in a field, and converts them to lower case.
fn addresses(value: &[u8]) -> Vec<Host> {
    // The parser needs the line end that terminates a field.
    let line = [bounded(value).trim_ascii_end(), b"\n"].concat();
    let HeaderValue::Address(found) = MessageStream::new(&line).parse_address() else { return Vec::new() };
    let all = match found {
        Address::List(list) => list,
        Address::Group(groups) => groups.into_iter().flat_map(|group| group.addresses).collect(),
    };
    let host = |address: Cow<'_, str>| Host::named(&address.trim().to_ascii_lowercase());
    let named = all.into_iter().filter_map(|address| address.address).map(host);
    named.filter(|host| *host != Host::Unknown).collect()
}
