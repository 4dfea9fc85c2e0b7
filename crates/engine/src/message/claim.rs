//! The events of a claim about a message: the signatures and the text that it covers.
//!
//! A report covers only the main content of the message. Other programs ask about single signatures, so a signature
//! that good mail may share with the message must not be claimed at all. A revocation covers the whole message. If it
//! is made by an own user, it also makes the features of the text good.
//!
//! A text has a name in the books, like a signature. A message that is close to a text reported earlier is claimed
//! under the name of that text. A new text is kept and gets its own name.

use bruit_filters::Fingerprint;
use bruit_signatures::bruit::Features;
use bruit_signatures::outline::{Main, Outline, Piece};
use bruit_signatures::{Scheme, Signature, Signed};

use super::files;
use crate::engine::{CheckScratch, Engine, FoundText};
use crate::event::{By, Event, FINGERPRINTS_MAX};
use crate::signature::fingerprint_of;
use crate::trust::{Claim, Standing};

/// Returns the events of a claim about a message, given the current books. There are none if nothing can be claimed.
#[must_use]
pub fn claim_events(engine: &Engine, signed: &Signed, claim: Claim, by: By) -> Vec<Event> {
    let key = engine.realm().key();
    let Signed { signatures, features, outline, .. } = signed;
    // A report covers the main content of the message, a revocation all of it.
    let reported = outline.as_ref().filter(|_| claim == Claim::Report);
    let files = match (reported, claim) {
        (Some(outline), _) => files::report_fingerprints(engine, signatures, outline),
        (None, Claim::Revoke) => files::revocation_fingerprints(engine, signatures),
        (None, Claim::Report) => Vec::new(),
    };
    // Razor's signature of a file is claimed if the file is.
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

/// Returns the event by which a revocation by an own user teaches the text and files of the message: their features
/// no longer count in any message that copies them. `None` if all of them are known already, so that a second
/// revocation uses no room.
fn learnt_by_revocation(engine: &Engine, signed: &Signed, by: By) -> Option<Event> {
    if by.reporter.standing != Standing::Own {
        return None;
    }
    let mut features = engine.replicas().good_features_of(&files::good_features(signed)?);
    engine.replicas().retain_unlearnt(&mut features);
    if features.is_empty() { None } else { Some(Event::GoodFeatures { by, features }) }
}

/// Returns the name of the text in the books, if it has or gets one, and adds the events that store the text.
fn text(engine: &Engine, features: &Features, claim: Claim, by: By, events: &mut Vec<Event>) -> Option<Fingerprint> {
    let standing = by.reporter.standing;
    let mut keep = |fingerprint, text| events.push(Event::Text { by, fingerprint, text });
    if let Some(found) = engine.find_text(features, &mut CheckScratch::default()) {
        // A text that is still sent must not age out. Only own users may store a text under the name of another one.
        if claim == Claim::Report && !found.is_current && standing == Standing::Own {
            keep(found.fingerprint, engine.replicas().text(features));
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

/// Whether a revocation also revokes the claimed text that the message is close to. If the two differ, the claimed text
/// may still be spam that copied the message; the features that an own user teaches by the revocation keep them apart.
fn revokes_text(engine: &Engine, features: &Features, found: &FoundText, standing: Standing) -> bool {
    let teaches = standing == Standing::Own && engine.replicas().ensure_room_for_good().is_ok();
    !features.is_quoted && (found.is_same || !teaches)
}

/// Whether a report of a message claims this signature: whether the signature covers the main content.
///
/// Other programs ask about single signatures. So a signature that good mail may share with the message must not be
/// claimed at all.
#[must_use]
pub fn is_claimed(scheme: Scheme, piece: Piece, outline: &Outline) -> bool {
    match (scheme, outline.main()) {
        (Scheme::Exact, _) => outline.is_identified_by_text(),
        (Scheme::Pyzor | Scheme::Pyzor11, main) => main == Main::Text,
        (Scheme::RazorE4, Main::Text | Main::Links) => piece == Piece::MainText,
        // No single one of several files identifies the message; see `files`.
        (Scheme::RazorE4, Main::Files) => piece == Piece::File && outline.files == 1,
        _ => false,
    }
}

/// Whether a report of a message claims its text.
#[must_use]
pub fn is_text_claimed(features: &Features, outline: &Outline) -> bool {
    !features.is_quoted && matches!(outline.main(), Main::Text | Main::Links)
}
