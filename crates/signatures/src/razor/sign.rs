//! All signatures of a message, or of a part that a report brought.

use super::ep4::Ep4;
use super::parts::parts;
use super::signature::{E4Signature, E8Signature};
use super::{ephemeral, html, preprocess, whiplash};

/// What one part is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartSignatures {
    /// What the text is, under the server's parameters.
    pub e4: E4Signature,
    /// Where it links to, in the client's order; the same signature may occur twice.
    pub e8: Vec<E8Signature>,
}

/// The signatures of one part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedPart {
    /// The place of the part among [`parts`], which is the client's number for it.
    pub index: u32,
    /// What it is known by.
    pub signatures: PartSignatures,
}

/// The signatures of `message`, in the order in which the client sends them. Parts in which it finds nothing to sign are
/// not among them.
///
/// ```
/// use bruit_signatures::razor::{Ep4, sign};
///
/// let message = b"Subject: hello\n\nsee http://www.example.com/\n";
/// let signed = sign(message, &Ep4::default());
/// assert_eq!(signed.len(), 1);
/// assert_eq!(signed[0].signatures.e8.len(), 1);
/// ```
#[must_use]
pub fn sign(message: &[u8], ep4: &Ep4) -> Vec<SignedPart> {
    let signed = |(index, signatures): (u32, Option<_>)| signatures.map(|signatures| SignedPart { index, signatures });
    let signatures = parts(message).into_iter().map(|part| sign_part(part.as_bytes(), ep4));
    (0..).zip(signatures).filter_map(signed).collect()
}

/// The signatures of one part as a report carries it: header lines, a blank line, a body. Nothing if the client would
/// find nothing in it to sign.
///
/// The client has cut its parts to size; this takes any length.
#[must_use]
pub fn sign_part(part: &[u8], ep4: &Ep4) -> Option<PartSignatures> {
    let decoded = preprocess::decode(part);
    let text = preprocess::signed_text(&decoded)?;
    // For e8, HTML stays.
    let stripped = html::is_html(&decoded).then(|| html::strip(&decoded));
    let ephemeral_text = stripped.as_deref().map_or(text, preprocess::body_text);
    Some(PartSignatures { e4: ephemeral::sign(ephemeral_text, ep4), e8: whiplash::sign(text) })
}
