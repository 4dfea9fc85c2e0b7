//! The answer to the MTA about a message.

use bruit_client::http::{Checked, Subject};
use bruit_protocols::milter::{Actions, Reply, write};

use crate::message::{FIELD, REMOVED_MAX};

/// Maximum length of an SMTP reply, without its line end (RFC 5321, 4.5.3.1.5).
const REPLY_BYTES_MAX: usize = 510;

/// The result of filtering a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) decision: Decision,
    /// The value of the field `X-Bruit`.
    pub(crate) field: Option<String>,
    /// True if the MTA must hold the message.
    pub(crate) hold: bool,
    /// Recipients to remove, as the MTA wrote them.
    pub(crate) remove: Vec<Box<[u8]>>,
    /// The recipient to add.
    pub(crate) add: Option<String>,
}

/// The decision that ends a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Accept,
    Discard,
    /// An SMTP reply: 4xx or 5xx.
    Refuse(String),
}

impl Outcome {
    /// Accepts a message, and adds this field.
    pub(crate) const fn accept(field: Option<String>) -> Self {
        Self { decision: Decision::Accept, field, hold: false, remove: Vec::new(), add: None }
    }

    /// Refuses a message with an SMTP reply.
    pub(crate) fn refuse(reply: &str) -> Self {
        let reply = reply.get(..REPLY_BYTES_MAX).unwrap_or(reply).to_owned();
        Self { decision: Decision::Refuse(reply), ..Self::accept(None) }
    }

    /// Accepts a message that was left unchecked because of `reason`.
    pub(crate) fn unchecked(reason: &str) -> Self {
        Self::accept(Some(format!("unchecked; reason={reason}")))
    }

    /// Appends the answers to the MTA's end-of-message command. Changes that the MTA does not allow are left out.
    pub(crate) fn write(&self, out: &mut Vec<u8>, forged: u32, allowed: Actions, keeps_space: bool) {
        match &self.decision {
            Decision::Refuse(reply) => return write(out, &Reply::Refuse(reply)),
            Decision::Discard => return write(out, &Reply::Discard),
            Decision::Accept => {}
        }
        if allowed.has(Actions::CHANGE_HEADERS) {
            // Remove the last field first, because removing a field renumbers those after it.
            (1..=forged.min(REMOVED_MAX))
                .rev()
                .for_each(|number| write(out, &Reply::RemoveHeader { number, name: FIELD }));
        }
        if let Some(value) = self.field.as_ref().filter(|_| allowed.has(Actions::ADD_HEADERS)) {
            let value = if keeps_space { format!(" {value}") } else { value.clone() };
            write(out, &Reply::InsertHeader { index: 0, name: FIELD, value: &value });
        }
        if let Some(added) = &self.add
            && allowed.has(Actions::ADD_RECIPIENTS | Actions::DELETE_RECIPIENTS)
        {
            self.remove.iter().for_each(|address| write(out, &Reply::DeleteRecipient(address)));
            write(out, &Reply::AddRecipient(format!("<{added}>").as_bytes()));
        }
        if self.hold && allowed.has(Actions::QUARANTINE) {
            write(out, &Reply::Quarantine(self.field.as_deref().unwrap_or(FIELD)));
        }
        write(out, &Reply::Accept);
    }
}

/// Returns the value of the field for a checked message, in the form of `bruit check --header`.
pub(crate) fn field(checked: &Checked) -> String {
    format!(
        "{}; confidence={}; reason={}",
        checked.verdict,
        checked.confidence.min(100),
        machine_word(checked.reason.as_str())
    )
}

/// Returns the text of a refusal.
pub(crate) fn refusal(template: &str, checked: &Checked, subject: &Subject) -> String {
    let signature = signature(checked, subject).unwrap_or_else(|| "no signature".to_owned());
    template.replace("{verdict}", checked.verdict.name()).replace("{signature}", &signature)
}

/// Returns the signature that decided the verdict, as `bruit explain --signature` expects it. If the decision rests on
/// a near replica, which has no signature, returns the signature of the message's own text.
fn signature(checked: &Checked, subject: &Subject) -> Option<String> {
    let written = |scheme: &str, value: &str| {
        let is_plain = value.len() <= 128 && value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'%');
        is_plain.then(|| format!("{}:{value}", machine_word(scheme)))
    };
    let decided = checked.signatures.iter().filter(|signature| signature.decided);
    let decided = decided.filter_map(|signature| written(&signature.scheme, signature.value.as_deref()?)).next();
    let own = || subject.signatures.iter().find(|own| own.scheme == "exact");
    decided.or_else(|| own().and_then(|own| written(&own.scheme, &own.value)))
}

/// Returns a word from the server if it is safe in a header field, otherwise "other".
fn machine_word(word: &str) -> &str {
    let is_word = !word.is_empty() && word.len() <= 32;
    let is_plain = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if is_word && is_plain { word } else { "other" }
}

#[cfg(test)]
mod tests {
    use bruit_client::http::{CheckedSignature, NamedSignature, Verdict};
    use bruit_testing::milter::Answer;

    use super::*;

    fn answers(outcome: &Outcome, forged: u32, allowed: u32) -> Vec<Answer> {
        let mut out = Vec::new();
        outcome.write(&mut out, forged, Actions(allowed), true);
        let mut rest = &out[..];
        let mut found = Vec::new();
        while let Some((length, behind)) = rest.split_first_chunk::<4>() {
            let (frame, behind) = behind.split_at(u32::from_be_bytes(*length) as usize);
            found.push(Answer::decode(frame).unwrap());
            rest = behind;
        }
        found
    }

    #[test]
    fn forged_fields_go_from_the_last_to_the_first_and_ours_comes_on_top() {
        let change = |number| Answer::ChangeHeader(number, "X-Bruit".into(), String::new());
        let insert = Answer::InsertHeader(0, "X-Bruit".into(), " unchecked; reason=timed_out".into());
        let outcome = Outcome::unchecked("timed_out");
        assert_eq!(answers(&outcome, 2, 0x1ff), [change(2), change(1), insert, Answer::Accept]);
        assert_eq!(answers(&outcome, 2, 0), [Answer::Accept], "nothing that the MTA does not allow");
        assert_eq!(answers(&outcome, u32::MAX, 0x1ff).len(), REMOVED_MAX as usize + 2);
    }

    #[test]
    fn a_split_message_changes_recipients_only_if_both_changes_are_allowed() {
        let held: Vec<Box<[u8]>> = vec![b"<held@b>"[..].into()];
        let outcome = Outcome { remove: held, add: Some("q@b".into()), ..Outcome::accept(None) };
        let expected =
            [Answer::DeleteRecipient("<held@b>".into()), Answer::AddRecipient("<q@b>".into()), Answer::Accept];
        assert_eq!(answers(&outcome, 0, 0x1ff), expected);
        assert_eq!(answers(&outcome, 0, 0x08), [Answer::Accept]);
    }

    #[test]
    fn refusals_name_a_signature_that_can_be_explained() {
        let decided = |scheme: &str, value: Option<&str>| CheckedSignature {
            scheme: scheme.into(),
            value: value.map(str::to_owned),
            decided: true,
            ..CheckedSignature::default()
        };
        let own = NamedSignature { scheme: "exact".into(), value: "aa".into(), piece: None };
        let subject = Subject { signatures: vec![own], ..Subject::default() };
        let text = |signatures| {
            let checked = Checked { verdict: Verdict::Spam, signatures, ..Checked::default() };
            refusal("{verdict} ({signature})", &checked, &subject)
        };
        assert_eq!(text(vec![decided("razor_e4", Some("bb"))]), "spam (razor_e4:bb)");
        assert_eq!(text(vec![decided("bruit", None)]), "spam (exact:aa)");
        assert_eq!(text(vec![decided("exact", Some("a\r\nb"))]), "spam (exact:aa)");
    }

    #[test]
    fn nothing_but_words_goes_into_the_field() {
        let checked = Checked { reason: "a\r\nX-Spam: no".into(), confidence: 255, ..Checked::default() };
        assert_eq!(field(&checked), "unknown; confidence=100; reason=other");
    }
}
