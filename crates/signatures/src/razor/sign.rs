//! All signatures of a message, or of a reported part.

use super::ep4::Ep4;
use super::parts::parts;
use super::signature::{E4Signature, E8Signature};
use super::{ephemeral, html, preprocess, whiplash};

/// The signatures of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartSignatures {
    /// Signature of the text, with the server's parameters.
    pub e4: E4Signature,
    /// Signatures of link targets, in the client's order. They may repeat.
    pub e8: Vec<E8Signature>,
}

/// A part of a message and its signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedPart {
    /// Index of the part in [`parts`]. The client uses the same number.
    pub index: u32,
    /// Its signatures.
    pub signatures: PartSignatures,
}

/// Computes the signatures of `message`, in the order in which the client sends them. Parts that the client would not
/// sign are omitted.
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

/// Computes the signatures of one part as it is reported: header lines, a blank line and a body. Returns `None` if the
/// client would not sign the part.
///
/// The client truncates parts before it reports them, but this function accepts parts of any length.
#[must_use]
pub fn sign_part(part: &[u8], ep4: &Ep4) -> Option<PartSignatures> {
    let decoded = preprocess::decode(part);
    let text = preprocess::signed_text(&decoded)?;
    // HTML is stripped for e4, but not for e8.
    let stripped = html::is_html(&decoded).then(|| html::strip(&decoded));
    let ephemeral_text = stripped.as_deref().map_or(text, preprocess::body_text);
    Some(PartSignatures { e4: ephemeral::sign(ephemeral_text, ep4), e8: whiplash::sign(text) })
}
