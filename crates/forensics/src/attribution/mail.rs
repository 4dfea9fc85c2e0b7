//! Mail as something that was carried: from the sender to each recipient, one payload for each part.
//!
//! A part is recorded as a reader gets it, with its transfer encoding undone; of text, line ends are LF whatever was sent,
//! so that copies which went through different systems agree, and an excerpt can be typed. Who sent it is what the field `From`
//! claims. Anybody can write anything there, and into `To` and `Cc`; `Delivered-To` and `X-Original-To` are the mail
//! system's own.

use std::borrow::Cow;

use bruit_signatures::message::{Fields, Message};
use bruit_signatures::sender;
use mail_parser::parsers::MessageStream;
use mail_parser::{Address, HeaderValue};

use super::{Host, Pair};
use crate::mail::{bounded, seconds};
use crate::traceback::received_at;

/// Most recipients of one message that are recorded; those beyond are one that is unknown.
pub const RECIPIENTS_MAX: usize = 64;

const RECIPIENT_FIELDS: [&str; 4] = ["delivered-to", "x-original-to", "to", "cc"];

/// One message, ready to be recorded.
#[derive(Debug)]
pub struct Carried<'m> {
    /// When: as the last server that received it says, or else its sender; none if neither says.
    pub time: Option<u64>,
    /// From whom, to whom.
    pub pairs: Vec<Pair>,
    /// What, part by part.
    pub payloads: Vec<Cow<'m, [u8]>>,
}

/// What there is to record of a message.
#[must_use]
pub fn read(raw: &[u8]) -> Carried<'_> {
    let message = Message::read(raw);
    let source = sender::of(raw).map_or(Host::Unknown, |sender| Host::named(&sender.to_ascii_lowercase()));
    let recipients = recipients(&message.fields);
    let pair = |destination| Pair { source: source.clone(), destination };
    Carried {
        time: received_at(raw).or_else(|| message.fields.get("date").and_then(seconds)),
        pairs: recipients.into_iter().map(pair).collect(),
        payloads: message.parts().iter().map(|part| payload(part.bytes(), part.media.is("text", None))).collect(),
    }
}

/// What a part is recorded as.
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

/// Everybody whom the header names as a recipient, once; an unknown one if it names nobody, and for those beyond the most.
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

/// The addresses in a field, in lower case.
fn addresses(value: &[u8]) -> Vec<Host> {
    // The parser stops at the end of the field, so it has to have one.
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
