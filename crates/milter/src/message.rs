//! A message as it arrives: the envelope, and the bytes to sign.
//!
//! The bytes are those of the delivered message, without the fields that the MTA adds itself (`Received`,
//! `Return-Path`) and without forged `X-Bruit` fields. Lines end in LF, as in a mailbox. So the signatures equal those
//! of the delivered message, even if the mail is malformed and its raw bytes are signed.

use std::sync::Arc;

use crate::filter::Filter;
use crate::identity::Identity;
use crate::memory::Reservation;
use crate::recipients::{Recipients, address};

/// Name of the header field with the verdict.
pub(crate) const FIELD: &str = "X-Bruit";

/// Maximum number of forged fields. A message with more is refused, unless it is exempt from checks.
pub(crate) const FORGED_MAX: u32 = 100;

/// Maximum number of forged fields that are removed. The longest header that Postfix accepts has room for that many.
pub(crate) const REMOVED_MAX: u32 = 10_000;

/// Maximum length of an envelope sender that is kept (RFC 5321).
const SENDER_BYTES_MAX: usize = 64 + 1 + 255;

/// Maximum length of a queue ID that is kept, for the log.
const QUEUE_ID_BYTES_MAX: usize = 64;

/// The reason why a message is not checked, although nothing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Skip {
    OwnNetwork,
    Authenticated,
    Whitelisted,
    OptedOut,
}

/// The reason why the bytes of a message are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lost {
    TooLong,
    Busy,
}

/// A message that is being received.
pub(crate) struct Draft {
    /// The settings and the server for this message. A reload does not change them.
    pub(crate) filter: Arc<Filter>,
    /// The envelope sender, without brackets.
    pub(crate) sender: Vec<u8>,
    /// The recipients.
    pub(crate) recipients: Recipients,
    /// The MTA's ID for the message.
    pub(crate) queue_id: String,
    /// The reason why the message is not checked.
    pub(crate) skip: Option<Skip>,
    /// Number of `X-Bruit` fields.
    pub(crate) forged: u32,
    /// The header and the body.
    bytes: Vec<u8>,
    lost: Option<Lost>,
    has_body: bool,
    memory: Reservation,
}

impl Skip {
    pub(crate) const ALL: [Self; 4] = [Self::OwnNetwork, Self::Authenticated, Self::Whitelisted, Self::OptedOut];

    /// Returns the name in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OwnNetwork => "own_network",
            Self::Authenticated => "authenticated",
            Self::Whitelisted => "whitelisted",
            Self::OptedOut => "opted_out",
        }
    }
}

impl Draft {
    /// Starts a message.
    pub(crate) fn new(filter: Arc<Filter>, sender: &[u8], skip: Option<Skip>) -> Self {
        let sender = address(sender);
        let is_listed = filter.settings.whitelist.has_sender(sender);
        Self {
            sender: sender.get(..SENDER_BYTES_MAX).unwrap_or(sender).to_vec(),
            recipients: Recipients::default(),
            queue_id: String::new(),
            skip: skip.or_else(|| is_listed.then_some(Skip::Whitelisted)),
            forged: 0,
            bytes: Vec::new(),
            lost: None,
            has_body: false,
            memory: Reservation::new(Arc::clone(&filter.shared.memory)),
            filter,
        }
    }

    /// Adds a recipient.
    pub(crate) fn add_recipient(&mut self, written: &[u8], is_refused: bool) {
        let filter = &self.filter;
        self.recipients.add(written, is_refused, &filter.settings, &filter.shared.identity_key);
        let held = (self.recipients.held_bytes() + self.bytes.capacity()) as u64;
        if !self.memory.grow_to(held, filter.settings.limits.memory_bytes) {
            self.recipients.forget_names();
        }
    }

    /// Notes the MTA's ID for the message.
    pub(crate) fn set_queue_id(&mut self, id: &[u8]) {
        let id = id.get(..QUEUE_ID_BYTES_MAX).unwrap_or(id);
        self.queue_id = id.escape_ascii().to_string();
    }

    /// Adds a header field. If `keeps_space` is true, the value has its leading space. Otherwise, the MTA has removed
    /// one leading space.
    pub(crate) fn add_field(&mut self, name: &[u8], value: &[u8], keeps_space: bool) {
        if name.trim_ascii_end().eq_ignore_ascii_case(FIELD.as_bytes()) {
            self.forged = self.forged.saturating_add(1);
            return;
        }
        if !self.has_room(name.len() + value.len() + 3) {
            return;
        }
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(if keeps_space { b":" } else { b": " });
        self.push_lines(value);
        self.push_lines(b"\n");
    }

    /// Adds a piece of the body.
    ///
    /// The empty line above the body belongs to it: a message without a body is delivered without that line.
    pub(crate) fn add_body(&mut self, piece: &[u8]) {
        if piece.is_empty() || !self.has_room(piece.len() + 1) {
            return;
        }
        if !self.has_body {
            self.bytes.push(b'\n');
            self.has_body = true;
        }
        self.push_lines(piece);
    }

    /// Appends bytes, with every CRLF converted to LF, even if a piece ends between CR and LF.
    fn push_lines(&mut self, piece: &[u8]) {
        if piece.starts_with(b"\n") && self.bytes.ends_with(b"\r") {
            self.bytes.pop();
        }
        for line in piece.split_inclusive(|byte| *byte == b'\n') {
            match line.strip_suffix(b"\r\n") {
                Some(bare) => {
                    self.bytes.extend_from_slice(bare);
                    self.bytes.push(b'\n');
                }
                None => self.bytes.extend_from_slice(line),
            }
        }
    }

    /// Returns the bytes of the message, or the reason why they were not kept.
    pub(crate) fn bytes(&self) -> Result<&[u8], Lost> {
        self.lost.map_or(Ok(&self.bytes), Err)
    }

    /// Returns the ID of this message. A retry has the same ID, because it has the same sender, recipients and bytes.
    pub(crate) fn identity(&self) -> Identity {
        self.filter.shared.identity_key.identity(&self.sender, self.recipients.hash(), &self.bytes)
    }

    /// Makes room for more bytes. Returns false if the bytes will not be kept.
    fn has_room(&mut self, more: usize) -> bool {
        if self.lost.is_some() || self.skip.is_some() {
            return false;
        }
        let needed = self.bytes.len() + more;
        let lost = if needed as u64 > self.filter.settings.limits.message_bytes {
            Some(Lost::TooLong)
        } else if !self.reserve(needed) {
            Some(Lost::Busy)
        } else {
            None
        };
        if lost.is_some() {
            self.lost = lost;
            self.bytes = Vec::new();
            self.memory.release();
        }
        self.lost.is_none()
    }

    /// Makes room for `needed` bytes in all, and for more pieces if there is enough memory. The buffer never exceeds
    /// the reserved memory.
    fn reserve(&mut self, needed: usize) -> bool {
        if needed <= self.bytes.capacity() {
            return true;
        }
        let limits = &self.filter.settings.limits;
        let ample = usize::try_from(limits.message_bytes).unwrap_or(needed).min(needed + needed / 4);
        let held = self.recipients.held_bytes();
        let can_have = |bytes: &usize| self.memory.grow_to((bytes + held) as u64, limits.memory_bytes);
        let Some(granted) = [ample.max(needed), needed].into_iter().find(can_have) else { return false };
        self.bytes.reserve_exact(granted - self.bytes.len());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::tests::filter;

    fn draft(text: &str) -> Draft {
        Draft::new(filter(text), b"<a@b.example>", None)
    }

    #[test]
    fn a_message_is_rebuilt_as_it_was_sent() {
        let mut message = draft("");
        message.add_field(b"Subject", b" one\n\ttwo", true);
        message.add_field(b"X-Raw", b"\xff\xfe", true);
        message.add_body(b"line\r\nbare\rcr\r");
        message.add_body(b"\n.x");
        assert_eq!(message.bytes().unwrap(), b"Subject: one\n\ttwo\nX-Raw:\xff\xfe\n\nline\nbare\rcr\n.x");
        let mut without_space = draft("");
        without_space.add_field(b"Subject", b"one\r\n two", false);
        without_space.add_body(b"");
        assert_eq!(without_space.bytes().unwrap(), b"Subject: one\n two\n");
    }

    #[test]
    fn forged_fields_are_counted_and_not_signed() {
        let mut message = draft("");
        for name in [&b"X-Bruit"[..], b"x-bruit", b"X-BRUIT "] {
            message.add_field(name, b" ham", true);
        }
        message.add_field(b"X-Bruited", b" x", true);
        assert_eq!((message.forged, message.bytes().unwrap()), (3, &b"X-Bruited: x\n"[..]));
    }

    #[test]
    fn long_messages_are_given_up_at_their_bound() {
        let text = "[limits]\nmessage = \"1KiB\"\nmemory = \"128KiB\"";
        let mut message = draft(text);
        message.add_body(&[b'x'; 1022]);
        assert!(message.bytes().is_ok());
        message.add_body(b"x");
        assert_eq!(message.bytes(), Err(Lost::TooLong));
        message.add_body(b"more");
        assert_eq!((message.bytes.capacity(), message.memory_used()), (0, 0));
    }

    #[test]
    fn all_messages_share_the_memory() {
        let filter = filter("[limits]\nmessage = \"64KiB\"\nmemory = \"128KiB\"");
        let mut drafts: Vec<Draft> = (0..3).map(|_| Draft::new(Arc::clone(&filter), b"<>", None)).collect();
        drafts.iter_mut().for_each(|draft| draft.add_body(b"text"));
        let lost: Vec<_> = drafts.iter().map(|draft| draft.bytes().err()).collect();
        assert_eq!(lost, [None, None, Some(Lost::Busy)]);
        drop(drafts);
        assert_eq!(filter.shared.memory.used_bytes(), 0);
    }

    #[test]
    fn the_buffer_of_a_message_stays_within_the_reserved_memory() {
        let mut message = draft("[limits]\nmessage = \"1MiB\"\nmemory = \"1MiB\"");
        for _ in 0..(1 << 20) / 1_000 - 1 {
            message.add_body(&[b'x'; 1_000]);
            assert!(message.bytes.capacity() as u64 <= message.memory_used(), "{}", message.bytes.capacity());
        }
        assert!(message.bytes().is_ok());
    }

    #[test]
    fn addresses_count_towards_the_memory_and_are_given_up_first() {
        let split = "[recipients]\ndisagreement = \"split\"\nsplit_to = \"q@b.example\"\n";
        let filter = filter(&format!("{split}[limits]\nmessage = \"64KiB\"\nmemory = \"128KiB\""));
        let mut message = Draft::new(Arc::clone(&filter), b"<a@b.example>", None);
        let address = |number: usize| format!("<{number:0400}@b.example>");
        (0..100).for_each(|number| message.add_recipient(address(number).as_bytes(), false));
        assert!(message.recipients.held_bytes() > 40_000 && message.memory_used() >= 64 << 10);
        let mut other = Draft::new(Arc::clone(&filter), b"<a@b.example>", None);
        other.add_body(b"text");
        (100..300).for_each(|number| message.add_recipient(address(number).as_bytes(), false));
        assert_eq!(message.recipients.held_bytes(), 0);
        assert_eq!(message.memory_used(), 128 << 10, "both hold a step");
    }

    #[test]
    fn a_retry_has_the_same_identity_and_other_recipients_do_not() {
        let filter = filter("");
        let identity = |recipient: &[u8], body: &[u8]| {
            let mut draft = Draft::new(Arc::clone(&filter), b"<a@b.example>", None);
            draft.add_recipient(recipient, false);
            draft.add_body(body);
            draft.identity()
        };
        let own = |recipient| identity(recipient, b"text");
        assert_eq!(own(b"<c@d.example>"), own(b"<c@d.example>"));
        assert_ne!(own(b"<c@d.example>"), own(b"<e@d.example>"));
        assert_ne!(identity(b"<c@d.example>", b"text"), identity(b"<c@d.example>", b"other"));
    }

    impl Draft {
        fn memory_used(&self) -> u64 {
            self.filter.shared.memory.used_bytes()
        }
    }
}
