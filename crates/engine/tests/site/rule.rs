//! Processing of messages as in a server: signing, judging and claiming.

use bruit_engine::event::{By, Event};
use bruit_engine::message::{EvidenceSource, MessageContext, MessageReason, claim_events, judge};
use bruit_engine::signature::fingerprint_of;
use bruit_engine::trust::Claim;
use bruit_engine::verdict::Kind;
use bruit_engine::{CheckScratch, Engine};
use bruit_filters::Fingerprint;
use bruit_signatures::{Context, Scheme, Signed, Wanted, sign};

/// Bulk threshold. It has no effect, because this test does not count recipients.
const BULK_THRESHOLD: u32 = 100;

/// The verdict on a message.
pub(crate) struct Judged {
    pub(crate) is_spam: bool,
    pub(crate) is_suspected: bool,
    pub(crate) confidence: u8,
    /// The deciding evidence: its scheme's name and its claimed fingerprint.
    pub(crate) decided: Option<(&'static str, Fingerprint)>,
}

/// Returns the verdict on a message.
pub(crate) fn check(engine: &Engine, message: &[u8], scratch: &mut CheckScratch) -> Judged {
    let wanted = Wanted { url: false, razor_pieces: false, ..Wanted::ALL };
    let signed = signed(message, &wanted);
    let evidence = engine.check_message(&signed, scratch);
    let context =
        MessageContext { outline: signed.outline, bulk_threshold: BULK_THRESHOLD, ..MessageContext::default() };
    let verdict = judge(&evidence, &context);
    let name = |at: usize| match evidence[at].source {
        EvidenceSource::Signature(scheme, _) => {
            Some((scheme.name(), fingerprint_of(engine.realm().key(), &signed.signatures[at])))
        }
        EvidenceSource::Text(text) => text.name.map(|name| ("bruit", name)),
    };
    Judged {
        is_spam: verdict.kind == Kind::Spam,
        is_suspected: verdict.reason == MessageReason::Suspected,
        confidence: verdict.confidence,
        decided: verdict.decided_by.and_then(name),
    }
}

/// Returns the events for a claim about a message.
pub(crate) fn claim(engine: &Engine, message: &[u8], claim: Claim, by: By) -> Vec<Event> {
    let wanted = Wanted { url: false, dcc: false, ..Wanted::ALL };
    let mut signed = signed(message, &wanted);
    signed.signatures.retain(|signature| signature.scheme() != Scheme::RazorE8);
    claim_events(engine, &signed, claim, by)
}

fn signed(message: &[u8], wanted: &Wanted) -> Signed {
    let mut signed = sign(message, wanted, &Context::default());
    let is_personal = |scheme| matches!(scheme, Scheme::DccFrom | Scheme::DccMessageId | Scheme::DccReceived);
    signed.signatures.retain(|signature| !is_personal(signature.scheme()));
    signed
}
