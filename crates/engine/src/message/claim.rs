//! What a claim about a message says of its signatures and its text.
//!
//! A report is about what makes the message what it is. Other programs are answered what is known of a signature, so what
//! innocent mail may share with the message must not be claimed in the first place. A revocation is about all of it, and one
//! by an own user makes the features of its text good.
//!
//! A text has a name in the books, like a signature. A message that is close to a text that was reported before is claimed
//! under that text's name; a text that is new is kept and gets a name of its own.

use bruit_filters::Fingerprint;
use bruit_signatures::bruit::Features;
use bruit_signatures::outline::{Main, Outline, Piece};
use bruit_signatures::{Scheme, Signature, Signed};

use crate::engine::{CheckScratch, Engine, FoundText};
use crate::event::{By, Event, FINGERPRINTS_MAX};
use crate::signature::fingerprint_of;
use crate::trust::{Claim, Standing};

/// The events of a claim about a message, as the books are now. There are none if nothing of the message can be claimed.
#[must_use]
pub fn claim_events(engine: &Engine, signed: &Signed, claim: Claim, by: By) -> Vec<Event> {
    let key = engine.realm().key();
    let Signed { signatures, features, outline, .. } = signed;
    // A report is about what makes the message what it is. A revocation is about all of it.
    let reported = outline.as_ref().filter(|_| claim == Claim::Report);
    let is_claimed = |one: &&Signature| reported.is_none_or(|outline| is_claimed(one.scheme(), one.piece(), outline));
    let claimed = signatures.iter().filter(is_claimed);
    let mut fingerprints: Vec<Fingerprint> = claimed.map(|signature| fingerprint_of(key, signature)).collect();
    let mut events = Vec::new();
    let claims_text = |features: &&Features| reported.is_none_or(|outline| is_text_claimed(features, outline));
    if let Some(features) = features.as_ref().filter(claims_text) {
        fingerprints.extend(text(engine, features, claim, by, &mut events));
    }
    // Parts may be the same, and count once.
    fingerprints.sort_unstable();
    fingerprints.dedup();
    let claimed = |some: &[Fingerprint]| Event::Claim { by, claim, flag: 0, fingerprints: some.to_vec() };
    events.extend(fingerprints.chunks(FINGERPRINTS_MAX).map(claimed));
    if claim == Claim::Revoke {
        events.extend(features.as_ref().and_then(|features| good_features(engine, features, by)));
    }
    events
}

/// What a revocation by an own user teaches: the text of the message does not count any more, in whatever copied it. Nothing if
/// all of it is known, so that revoking again takes no room.
fn good_features(engine: &Engine, features: &Features, by: By) -> Option<Event> {
    if by.reporter.standing != Standing::Own {
        return None;
    }
    let mut features = engine.replicas().good_features_of(features);
    engine.replicas().retain_unlearnt(&mut features);
    if features.is_empty() { None } else { Some(Event::GoodFeatures { by, features }) }
}

/// What the text is called in the books, if it is there or shall be, and what has to be kept of it.
fn text(engine: &Engine, features: &Features, claim: Claim, by: By, events: &mut Vec<Event>) -> Option<Fingerprint> {
    let standing = by.reporter.standing;
    let mut keep = |fingerprint, text| events.push(Event::Text { by, fingerprint, text });
    if let Some(found) = engine.find_text(features, &mut CheckScratch::default()) {
        // So that what is still sent does not age. Only own users may say that a text goes by another's name.
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

/// Whether a revocation takes back the claimed text that the message is close to. If they differ, the claimed text may still be
/// spam that copied the message: what an own user teaches by the revocation keeps the two apart.
fn revokes_text(engine: &Engine, features: &Features, found: &FoundText, standing: Standing) -> bool {
    let teaches = standing == Standing::Own && engine.replicas().ensure_room_for_good().is_ok();
    !features.is_quoted && (found.is_same || !teaches)
}

/// Whether a report of a message is about this signature of it: whether it makes the message what it is.
///
/// What other programs are answered is what is known of a signature. So what innocent mail may share with the message must
/// not be claimed in the first place.
#[must_use]
pub fn is_claimed(scheme: Scheme, piece: Piece, outline: &Outline) -> bool {
    match (scheme, outline.main()) {
        (Scheme::Exact, _) => outline.is_told_by_text(),
        (Scheme::Pyzor | Scheme::Pyzor11, main) => main == Main::Text,
        (Scheme::RazorE4, Main::Text | Main::Links) => piece == Piece::MainText,
        (Scheme::RazorE4 | Scheme::Attachment, Main::Files) => piece == Piece::File,
        _ => false,
    }
}

/// Whether a report of a message is about its text.
#[must_use]
pub fn is_text_claimed(features: &Features, outline: &Outline) -> bool {
    !features.is_quoted && matches!(outline.main(), Main::Text | Main::Links)
}
