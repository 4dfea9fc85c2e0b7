//! The answers of a milter.

use super::options::{Options, Stage};

/// An answer of a milter.
///
/// Changes come before the decision that ends a message. Texts must not contain line breaks. NUL is removed from texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The options of the connection.
    Negotiated {
        /// The selected options.
        options: Options,
        /// The macros that the milter requests, separated by blanks.
        macros: &'a [(Stage, &'a str)],
    },
    /// Go on.
    Continue,
    /// Accept the message or, if this is the answer to `Connect`, all messages of the session.
    Accept,
    /// Accept the message and discard it.
    Discard,
    /// Refuse with this SMTP reply, such as `550 5.7.1 message refused`.
    Refuse(&'a str),
    /// Insert a header field.
    InsertHeader {
        /// Position: 0 is above all fields.
        index: u32,
        /// The name.
        name: &'a str,
        /// The value. It begins with a space if both sides keep leading spaces.
        value: &'a str,
    },
    /// Remove the field with this number among the fields of the same name. The first field has the number 1.
    RemoveHeader {
        /// The number.
        number: u32,
        /// The name.
        name: &'a str,
    },
    /// Add a recipient, in angle brackets.
    AddRecipient(&'a [u8]),
    /// Remove a recipient, as the MTA wrote it.
    DeleteRecipient(&'a [u8]),
    /// Hold the message, for this reason.
    Quarantine(&'a str),
    /// The milter is still working, so the MTA should restart its timer.
    Progress,
}

/// Appends an answer.
pub fn write(out: &mut Vec<u8>, reply: &Reply<'_>) {
    match *reply {
        Reply::Negotiated { options, macros } => write_options(out, options, macros),
        Reply::Continue => put(out, b'c', &[]),
        Reply::Accept => put(out, b'a', &[]),
        Reply::Discard => put(out, b'd', &[]),
        Reply::Refuse(text) => put(out, b'y', &[Part::Text(text.as_bytes())]),
        Reply::InsertHeader { index, name, value } => {
            put(out, b'i', &[Part::Number(index), Part::Text(name.as_bytes()), Part::Text(value.as_bytes())]);
        }
        Reply::RemoveHeader { number, name } => {
            put(out, b'm', &[Part::Number(number), Part::Text(name.as_bytes()), Part::Text(b"")]);
        }
        Reply::AddRecipient(address) => put(out, b'+', &[Part::Text(address)]),
        Reply::DeleteRecipient(address) => put(out, b'-', &[Part::Text(address)]),
        Reply::Quarantine(reason) => put(out, b'q', &[Part::Text(reason.as_bytes())]),
        Reply::Progress => put(out, b'p', &[]),
    }
}

/// A part of a frame.
enum Part<'a> {
    Number(u32),
    /// A string, written with a NUL at its end.
    Text(&'a [u8]),
}

fn write_options(out: &mut Vec<u8>, options: Options, macros: &[(Stage, &str)]) {
    let head = [options.version, options.actions.0, options.steps.0].map(Part::Number);
    let requests = macros.iter().flat_map(|(stage, names)| [Part::Number(*stage as u32), Part::Text(names.as_bytes())]);
    let parts: Vec<Part<'_>> = head.into_iter().chain(requests).collect();
    put(out, b'O', &parts);
}

/// Appends a frame.
fn put(out: &mut Vec<u8>, code: u8, parts: &[Part<'_>]) {
    let mut contents = vec![code];
    for part in parts {
        match part {
            Part::Number(number) => contents.extend_from_slice(&number.to_be_bytes()),
            Part::Text(text) => {
                contents.extend(text.iter().filter(|byte| **byte != 0));
                contents.push(0);
            }
        }
    }
    let length = u32::try_from(contents.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.append(&mut contents);
}

#[cfg(test)]
mod tests {
    use super::super::options::{Actions, Steps};
    use super::*;

    fn written(reply: &Reply<'_>) -> String {
        let mut out = Vec::new();
        write(&mut out, reply);
        out.escape_ascii().to_string()
    }

    #[test]
    fn answers_have_the_form_that_mtas_expect() {
        assert_eq!(written(&Reply::Continue), r"\x00\x00\x00\x01c");
        assert_eq!(written(&Reply::Refuse("550 no")), r"\x00\x00\x00\x08y550 no\x00");
        let insert = Reply::InsertHeader { index: 0, name: "X-Bruit", value: " ham" };
        assert_eq!(written(&insert), r"\x00\x00\x00\x12i\x00\x00\x00\x00X-Bruit\x00 ham\x00");
        let remove = Reply::RemoveHeader { number: 2, name: "X-Bruit" };
        assert_eq!(written(&remove), r"\x00\x00\x00\x0em\x00\x00\x00\x02X-Bruit\x00\x00");
        assert_eq!(written(&Reply::DeleteRecipient(b"<a@b>")), r"\x00\x00\x00\x07-<a@b>\x00");
        let options = Options { version: 6, actions: Actions(0x31), steps: Steps(0x80) };
        let negotiated = Reply::Negotiated { options, macros: &[(Stage::EndOfMessage, "i")] };
        let expected = r"\x00\x00\x00\x13O\x00\x00\x00\x06\x00\x00\x001\x00\x00\x00\x80\x00\x00\x00\x05i\x00";
        assert_eq!(written(&negotiated), expected);
    }

    #[test]
    fn a_text_cannot_contain_another_string() {
        assert_eq!(written(&Reply::Quarantine("a\0b")), r"\x00\x00\x00\x04qab\x00");
    }
}
