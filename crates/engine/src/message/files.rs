//! Files as evidence.
//!
//! A file decides only if it is the payload of a message that has hardly any text and no link. A report claims
//! files in one of three ways:
//!
//! - A single payload identifies the message. It is claimed by its own fingerprint.
//! - Several payloads identify the message only together. They are claimed by one fingerprint for all of them, because
//!   each alone may be harmless (a shop's terms, for example). Each file is also claimed as *carried*.
//! - A file that accompanies a text or a link is only claimed as *carried*, by a separate fingerprint. Because of this
//!   claim, other messages with that file are suspected, but never spam.
//!
//! A file known from good mail is never claimed alone, and never decides alone. Pictures, accessories and files inside
//! attached messages are never payloads.

use bruit_filters::Fingerprint;
use bruit_signatures::bruit::Features;
use bruit_signatures::outline::{Main, Outline, Piece};
use bruit_signatures::{Scheme, Signature, Signed};

use super::CONFIDENCE_SUSPECTED_MAX;
use crate::engine::Engine;
use crate::signature::{fingerprint_of, fingerprint_of_carried, fingerprint_of_files};
use crate::verdict::{Kind, Reason, Verdict};

/// Iterates over the files that may be the payload of a message.
fn payloads(signatures: &[Signature]) -> impl Iterator<Item = &Signature> {
    signatures.iter().filter(|one| is_payload(one))
}

fn is_payload(signature: &Signature) -> bool {
    signature.scheme() == Scheme::Attachment && signature.piece() == Piece::File
}

/// Returns the fingerprints under which a report claims the files of a message.
pub(super) fn report_fingerprints(engine: &Engine, signatures: &[Signature], outline: &Outline) -> Vec<Fingerprint> {
    let key = engine.realm().key();
    let files: Vec<&Signature> = payloads(signatures).filter(|file| !is_good(engine, file)).collect();
    let is_main = outline.main() == Main::Files;
    if is_main && outline.files == 1 {
        return files.into_iter().map(|file| fingerprint_of(key, file)).collect();
    }
    let together = (is_main && !files.is_empty()).then(|| fingerprint_of_files(key, payloads(signatures)));
    files.into_iter().map(|file| fingerprint_of_carried(key, file)).chain(together).collect()
}

/// Returns the fingerprints that a revocation claims in addition to the signatures. They are the fingerprint of each
/// file as *carried*, and the one for all files together. Fingerprints without claims are left out.
pub(super) fn revocation_fingerprints(engine: &Engine, signatures: &[Signature]) -> Vec<Fingerprint> {
    let key = engine.realm().key();
    let together = fingerprint_of_files(key, payloads(signatures));
    let carried = payloads(signatures).map(|file| fingerprint_of_carried(key, file));
    let is_known = |fingerprint: &Fingerprint| engine.check(fingerprint, 0).reason != Reason::NotReported;
    carried.chain([together]).filter(is_known).collect()
}

/// Adjusts the verdicts on the files of a message. Takes into account claims about all files together, claims about
/// carried files, and good mail with the same files.
pub(crate) fn adjust_verdicts(engine: &Engine, signed: &Signed, verdicts: &mut [Verdict]) {
    let key = engine.realm().key();
    let Signed { signatures, outline, .. } = signed;
    let several = |outline: &Outline| outline.main() == Main::Files && outline.files > 1;
    let together = outline.as_ref().filter(|outline| several(outline)).map(|_| {
        let together = fingerprint_of_files(key, payloads(signatures));
        engine.check(&together, 0)
    });
    let all_good = payloads(signatures).all(|file| is_good(engine, file));
    for (file, verdict) in signatures.iter().zip(verdicts).filter(|(one, _)| is_payload(one)) {
        if let Some(together) = together.filter(|together| together.kind == Kind::Spam && verdict.kind != Kind::Ham) {
            *verdict = if all_good { as_suspected(together) } else { together };
        } else if verdict.kind == Kind::Spam && is_good(engine, file) {
            *verdict = as_suspected(*verdict);
        } else if verdict.reason == Reason::NotReported {
            let carried = engine.check(&fingerprint_of_carried(key, file), 0);
            if carried.kind == Kind::Spam || carried.reason == Reason::Suspected {
                *verdict = as_suspected(carried);
            }
        }
    }
}

const fn as_suspected(verdict: Verdict) -> Verdict {
    let confidence =
        if verdict.confidence < CONFIDENCE_SUSPECTED_MAX { verdict.confidence } else { CONFIDENCE_SUSPECTED_MAX };
    Verdict { kind: Kind::Unknown, reason: Reason::Suspected, confidence, ..verdict }
}

fn is_good(engine: &Engine, file: &Signature) -> bool {
    is_good_file(engine, file.bytes())
}

/// Returns true if a file with this signature is known from good mail.
#[must_use]
pub fn is_good_file(engine: &Engine, signature: &[u8]) -> bool {
    engine.replicas().is_good(feature(signature))
}

/// Returns the feature that represents a file among the features of good mail: the first 8 bytes of its signature.
fn feature(signature: &[u8]) -> u64 {
    let mut feature = [0; 8];
    feature.iter_mut().zip(signature).for_each(|(to, from)| *to = *from);
    u64::from_le_bytes(feature)
}

/// Returns the features to learn from a good message: those of its text and its files. Returns `None` if the message
/// only quotes or forwards another one. Someone who forwards spam sends good mail, but the forwarded text must not be
/// learnt as good.
#[must_use]
pub fn good_features(signed: &Signed) -> Option<Features> {
    let mut features = signed.features.clone().unwrap_or_default();
    if features.is_quoted {
        return None;
    }
    features.files = payloads(&signed.signatures).map(|file| feature(file.bytes())).collect();
    (!features.is_empty() || !features.files.is_empty()).then_some(features)
}
