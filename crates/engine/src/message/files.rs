//! Files of a message.
//!
//! A file decides only if it is the payload: the message has little else. So reports claim it in one of three ways:
//!
//! - A message that consists of one file is known by that file.
//! - A message that consists of several files is known by all of them together. One of them may be a shop's terms.
//! - A file beside a text of the sender's own is claimed as *carried*, under another fingerprint. Other messages that carry
//!   it are suspected, never spam.
//!
//! A file that is known from good mail is not claimed, and does not decide. Pictures, accessories and files of attached
//! messages count in none of these ways.

use bruit_filters::Fingerprint;
use bruit_signatures::bruit::Features;
use bruit_signatures::outline::{Main, Outline, Piece};
use bruit_signatures::{Scheme, Signature, Signed};

use super::CONFIDENCE_SUSPECTED_MAX;
use crate::engine::Engine;
use crate::signature::{fingerprint_of, fingerprint_of_carried, fingerprint_of_files};
use crate::verdict::{Kind, Reason, Verdict};

/// The files of a message that may be its payload.
fn payloads(signatures: &[Signature]) -> impl Iterator<Item = &Signature> {
    signatures.iter().filter(|one| one.scheme() == Scheme::Attachment && one.piece() == Piece::File)
}

/// The fingerprints under which a report claims the files of a message.
pub(super) fn reported(engine: &Engine, signatures: &[Signature], outline: &Outline) -> Vec<Fingerprint> {
    let key = engine.realm().key();
    let files: Vec<&Signature> = payloads(signatures).filter(|file| !is_good(engine, file)).collect();
    let is_main = outline.main() == Main::Files;
    if is_main && outline.files == 1 {
        return files.into_iter().map(|file| fingerprint_of(key, file)).collect();
    }
    let together = (is_main && !files.is_empty()).then(|| fingerprint_of_files(key, payloads(signatures)));
    files.into_iter().map(|file| fingerprint_of_carried(key, file)).chain(together).collect()
}

/// The fingerprints of the files of a message that a revocation claims besides their signatures: those that were claimed.
pub(super) fn revoked(engine: &Engine, signatures: &[Signature]) -> Vec<Fingerprint> {
    let key = engine.realm().key();
    let together = fingerprint_of_files(key, payloads(signatures));
    let carried = payloads(signatures).map(|file| fingerprint_of_carried(key, file));
    let is_known = |fingerprint: &Fingerprint| engine.check(fingerprint, 0).reason != Reason::NotReported;
    carried.chain([together]).filter(is_known).collect()
}

/// Completes the verdicts on the signatures of a message by what is known of its files otherwise.
pub(crate) fn complete(engine: &Engine, signed: &Signed, verdicts: &mut [Verdict]) {
    let key = engine.realm().key();
    let Signed { signatures, outline, .. } = signed;
    let several = |outline: &Outline| outline.main() == Main::Files && outline.files > 1;
    let together = outline.as_ref().filter(|outline| several(outline)).map(|_| {
        let together = fingerprint_of_files(key, payloads(signatures));
        engine.check(&together, 0)
    });
    let is_payload = |one: &Signature| one.scheme() == Scheme::Attachment && one.piece() == Piece::File;
    for (file, verdict) in signatures.iter().zip(verdicts).filter(|(one, _)| is_payload(one)) {
        if let Some(together) = together.filter(|together| together.kind == Kind::Spam && verdict.kind != Kind::Ham) {
            *verdict = together;
        } else if verdict.kind == Kind::Spam && is_good(engine, file) {
            *verdict = suspected(*verdict);
        } else if verdict.reason == Reason::NotReported {
            let carried = engine.check(&fingerprint_of_carried(key, file), 0);
            if carried.kind == Kind::Spam || carried.reason == Reason::Suspected {
                *verdict = suspected(carried);
            }
        }
    }
}

const fn suspected(verdict: Verdict) -> Verdict {
    let confidence =
        if verdict.confidence < CONFIDENCE_SUSPECTED_MAX { verdict.confidence } else { CONFIDENCE_SUSPECTED_MAX };
    Verdict { kind: Kind::Unknown, reason: Reason::Suspected, confidence, ..verdict }
}

/// Whether a file is known from good mail.
fn is_good(engine: &Engine, file: &Signature) -> bool {
    engine.replicas().is_good(feature(file))
}

/// The feature by which a file is kept among those of good mail.
fn feature(file: &Signature) -> u64 {
    let mut feature = [0; 8];
    feature.iter_mut().zip(file.bytes()).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(feature)
}

/// What a message teaches if it is good: the features of its text and its files. `None` if it only quotes or forwards, as
/// a forward of spam is good mail and its text is not.
#[must_use]
pub fn good_features(signed: &Signed) -> Option<Features> {
    let mut features = signed.features.clone().unwrap_or_default();
    if features.is_quoted {
        return None;
    }
    features.appended.extend(payloads(&signed.signatures).map(feature));
    (!features.is_empty()).then_some(features)
}
