//! Claims about messages: the events that report or revoke the signatures and the text of a message.
//!
//! A report covers only the main content of the message. Other programs check single signatures, so a report must not
//! include a signature that good mail may share. A revocation covers the whole message. A revocation by an own user
//! also marks the features of the message's text and files as good.
//!
//! A text has a fingerprint in the books, like a signature. If a message is close to a text reported earlier, its text
//! is claimed under the earlier text's fingerprint. A new text is stored under its own fingerprint.

use bruit_filters::Fingerprint;
use bruit_signatures::bruit::Features;
use bruit_signatures::outline::{Main, Outline, Piece};
use bruit_signatures::{Scheme, Signature, Signed};

use super::files;
use crate::engine::{CheckScratch, Engine, FoundText};
use crate::event::{By, Event, FINGERPRINTS_MAX};
use crate::signature::fingerprint_of;
use crate::trust::{Claim, Standing};

/// Returns the events for a claim about a message, given the current books. Returns no events if there is nothing to
/// claim.
#[must_use]
pub fn claim_events(engine: &Engine, signed: &Signed, claim: Claim, by: By) -> Vec<Event> {
    let key = engine.realm().key();
    let Signed { signatures, features, outline, .. } = signed;
    // A report covers the main content of the message; a revocation covers all of it.
    let reported = outline.as_ref().filter(|_| claim == Claim::Report);
    let files = match (reported, claim) {
        (Some(outline), _) => files::report_fingerprints(engine, signatures, outline),
        (None, Claim::Revoke) => files::revocation_fingerprints(engine, signatures),
        (None, Claim::Report) => Vec::new(),
    };
    // Razor's signature of a file is claimed together with the file.
    let is_file_claimed = |one: &Signature| one.piece() != Piece::File || !files.is_empty();
    let is_claimed = |one: &&Signature| {
        reported.is_none_or(|outline| is_claimed(one.scheme(), one.piece(), outline) && is_file_claimed(one))
    };
    let claimed = signatures.iter().filter(is_claimed);
    let mut fingerprints: Vec<Fingerprint> = claimed.map(|signature| fingerprint_of(key, signature)).collect();
    fingerprints.extend(files);
    let mut events = Vec::new();
    let claims_text = |features: &&Features| reported.is_none_or(|outline| is_text_claimed(features, outline));
    if let Some(features) = features.as_ref().filter(claims_text) {
        fingerprints.extend(text(engine, features, claim, by, &mut events));
    }
    // Identical parts count once.
    fingerprints.sort_unstable();
    fingerprints.dedup();
    let claimed = |some: &[Fingerprint]| Event::Claim { by, claim, flag: 0, fingerprints: some.to_vec() };
    events.extend(fingerprints.chunks(FINGERPRINTS_MAX).map(claimed));
    if claim == Claim::Revoke {
        events.extend(learnt_by_revocation(engine, signed, by));
    }
    events
}

/// Returns the event that marks the features of a message's text and files as good, if an own user revokes the message.
/// Good features do not count in any message. Returns `None` if all features are already good, so that a repeated
/// revocation uses no capacity.
fn learnt_by_revocation(engine: &Engine, signed: &Signed, by: By) -> Option<Event> {
    if by.reporter.standing != Standing::Own {
        return None;
    }
    let mut features = engine.replicas().good_features_of(&files::good_features(signed)?);
    engine.replicas().retain_unlearnt(&mut features);
    if features.is_empty() { None } else { Some(Event::GoodFeatures { by, features }) }
}

/// Returns the fingerprint under which the text is claimed, if any, and adds the events that store the text.
fn text(engine: &Engine, features: &Features, claim: Claim, by: By, events: &mut Vec<Event>) -> Option<Fingerprint> {
    let standing = by.reporter.standing;
    let mut keep = |fingerprint, text| events.push(Event::Text { by, fingerprint, text });
    if let Some(found) = engine.find_text(features, &mut CheckScratch::default()) {
        // Store the text again. A text that is still in circulation must not expire, and later copies may be closer to
        // this version than to the older one. Only own users may store a text under another text's fingerprint.
        if claim == Claim::Report && !found.is_current && standing == Standing::Own {
            let text = engine.replicas().text(features);
            if !text.is_empty() {
                keep(found.fingerprint, text);
            }
        }
        let is_claimed = claim == Claim::Report || revokes_text(engine, features, &found, standing);
        return is_claimed.then_some(found.fingerprint);
    }
    let text = engine.replicas().text(features);
    if claim == Claim::Revoke || standing == Standing::Stranger || text.is_empty() {
        return None;
    }
    let name = text.fingerprint(engine.realm().key());
    keep(name, text);
    Some(name)
}

/// Returns true if a revocation of the message also revokes the claimed text that the message is close to. If the texts
/// differ, the claimed text may be spam that copied parts of this good message. A revocation by an own user can teach
/// the features of the good message, which then distinguish the two texts. In that case, the claimed text is not
/// revoked.
fn revokes_text(engine: &Engine, features: &Features, found: &FoundText, standing: Standing) -> bool {
    let teaches = standing == Standing::Own && engine.replicas().ensure_room_for_good().is_ok();
    !features.is_quoted && (found.is_same || !teaches)
}

/// Returns true if a report of a message claims this signature, because it covers the main content.
///
/// Other programs check single signatures, so a report must not include a signature that good mail may share.
#[must_use]
pub fn is_claimed(scheme: Scheme, piece: Piece, outline: &Outline) -> bool {
    match (scheme, outline.main()) {
        (Scheme::Exact, _) => outline.is_identified_by_text(),
        (Scheme::Pyzor | Scheme::Pyzor11, main) => main == Main::Text,
        (Scheme::RazorE4, Main::Text | Main::Links) => piece == Piece::MainText,
        // One of several files does not identify the message; see `files`.
        (Scheme::RazorE4, Main::Files) => piece == Piece::File && outline.files == 1,
        _ => false,
    }
}

/// Returns true if a report of a message claims its text.
#[must_use]
pub fn is_text_claimed(features: &Features, outline: &Outline) -> bool {
    !features.is_quoted && matches!(outline.main(), Main::Text | Main::Links)
}
