//! Recipients of a message: the signatures that count them, and the total of a message.
//!
//! Recipients are counted under [`Scheme::DccBody`] and [`Scheme::DccFuz1`], two checksums of the text that DCC clients
//! send, too. So a message has the same total in all protocols that count under these schemes. Checks by Pyzor and
//! Razor clients, if they are counted at all, are counted under the signatures that these clients send. A request
//! counts each signature once, and the total of a message is the total of one of its signatures, never a sum. So no
//! recipient is counted twice.

use bruit_filters::Fingerprint;
use bruit_signatures::{Scheme, Signature, Signed};

use super::{Evidence, EvidenceSource};
use crate::engine::Engine;
use crate::event::{By, Event};
use crate::signature::fingerprint_of;
use crate::verdict::Reason;
use crate::whitelist::WhitelistReason;

/// Schemes whose signatures count the recipients of a message.
const COUNTED: [Scheme; 2] = [Scheme::DccBody, Scheme::DccFuz1];

/// Whitelist entries that match the source of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WhitelistedSource {
    /// True if the sender is whitelisted.
    pub sender: bool,
    /// True if the mailing list is whitelisted.
    pub list: bool,
}

/// Reason for not counting the recipients of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotCounted {
    /// The message has no signature of a scheme that counts recipients.
    #[error("recipients are counted under dcc_body or dcc_fuz1, but the request contains neither")]
    NoSignature,
    /// The request has more signatures than one message can have.
    #[error("a message has at most one dcc_body and one dcc_fuz1 signature, but the request contains more")]
    TooManySignatures,
    /// The sender is whitelisted.
    #[error("the sender is whitelisted, so its mail is not counted")]
    Sender,
    /// The mailing list is whitelisted.
    #[error("the mailing list is whitelisted, so its mail is not counted")]
    List,
    /// A signature is whitelisted.
    #[error("the message is whitelisted or has no text, so it is not counted")]
    Signature,
}

/// Returns the event that counts `recipients` of a message.
///
/// # Errors
/// [`NotCounted`] if the recipients must not be counted. As in DCC, whitelisted mail is not counted at all.
pub fn count_event(
    engine: &Engine,
    signed: &Signed,
    source: WhitelistedSource,
    recipients: u32,
    by: By,
) -> Result<Event, NotCounted> {
    if source.sender {
        return Err(NotCounted::Sender);
    }
    if source.list {
        return Err(NotCounted::List);
    }
    let of = |scheme: Scheme| signed.signatures.iter().filter(move |signature| signature.scheme() == scheme);
    if COUNTED.iter().any(|scheme| of(*scheme).count() > 1) {
        return Err(NotCounted::TooManySignatures);
    }
    let counted: Vec<&Signature> = COUNTED.iter().flat_map(|scheme| of(*scheme)).collect();
    if counted.is_empty() {
        return Err(NotCounted::NoSignature);
    }
    let key = engine.realm().key();
    let fingerprints: Vec<Fingerprint> = counted.into_iter().map(|signature| fingerprint_of(key, signature)).collect();
    let whitelisted = |fingerprint: &Fingerprint| engine.whitelist().contains(fingerprint);
    let is_listed =
        fingerprints.iter().any(|fingerprint| matches!(whitelisted(fingerprint), Some(WhitelistReason::Listed(_))));
    if is_listed || fingerprints.iter().all(|fingerprint| whitelisted(fingerprint).is_some()) {
        return Err(NotCounted::Signature);
    }
    Ok(Event::Bulk { by, targets: recipients, fingerprints })
}

/// Returns true if there may be recipient counts for signatures of this scheme.
pub(crate) const fn is_counted(scheme: Scheme) -> bool {
    scheme.is_dcc() || matches!(scheme, Scheme::Pyzor | Scheme::Pyzor11 | Scheme::RazorE4)
}

/// Returns the number of recipients of a message: the highest count of any of its signatures. Of Razor's signatures,
/// only the one with the lowest count is considered, because each covers a part that other messages may share.
#[must_use]
pub(super) fn recipients(evidence: &[Evidence]) -> u32 {
    let of = |is_part: bool| {
        let is_wanted = move |one: &&Evidence| is_of_part(one) == is_part;
        evidence.iter().filter(is_wanted).map(|one| one.verdict.bulk_count)
    };
    of(false).max().unwrap_or(0).max(of(true).min().unwrap_or(0))
}

const fn is_of_part(evidence: &Evidence) -> bool {
    matches!(evidence.source, EvidenceSource::Signature(Scheme::RazorE4, _))
}

/// Returns true if a whitelisted signature of the whole message counts its recipients. Such a message is never bulk.
pub(super) fn is_whitelisted(evidence: &[Evidence]) -> bool {
    let is_counted = |one: &Evidence| matches!(one.source, EvidenceSource::Signature(scheme, _) if is_counted(scheme));
    let is_of_message = |one: &&Evidence| is_counted(one) && !is_of_part(one) && !one.is_empty;
    evidence.iter().filter(is_of_message).any(|one| one.verdict.reason == Reason::Whitelisted)
}
