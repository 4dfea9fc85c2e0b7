use super::*;
use crate::spam::ClaimCounts;

const LETTER: Outline = Outline { words: 80, own_words: 60, files: 0, pictures: 0, links: 1 };
const WITH_FILE: Outline = Outline { words: 12, own_words: 12, files: 1, pictures: 0, links: 0 };
const REPLY: Outline = Outline { words: 200, own_words: 3, files: 0, pictures: 0, links: 0 };
const PHRASE: Outline = Outline { words: 2, own_words: 2, files: 0, pictures: 0, links: 0 };

fn verdict(kind: Kind, reason: Reason, confidence: u8) -> Verdict {
    let counts = ClaimCounts { report_count: 1, revoke_count: 0 };
    Verdict { kind, reason, confidence, voices: 1, counts, ..Verdict::default() }
}

fn spam() -> Verdict {
    verdict(Kind::Spam, Reason::OwnReports, 80)
}

fn revoked() -> Verdict {
    verdict(Kind::Ham, Reason::Revoked, 0)
}

fn of(scheme: Scheme, piece: Piece, verdict: Verdict) -> Evidence {
    Evidence { source: EvidenceSource::Signature(scheme, piece), verdict, is_empty: false }
}

fn exact(verdict: Verdict) -> Evidence {
    of(Scheme::Exact, Piece::Message, verdict)
}

fn file(verdict: Verdict) -> Evidence {
    of(Scheme::Attachment, Piece::File, verdict)
}

/// Returns evidence for a text that overlaps with a claimed text. The overlap is `share` per cent of each text.
fn text(share: u8, verdict: Verdict) -> Evidence {
    let overlap = Overlap { of_report: share, of_message: share, is_even: true };
    let text = TextEvidence { overlap, is_close: share >= 70, ..TextEvidence::default() };
    Evidence { source: EvidenceSource::Text(text), verdict, is_empty: false }
}

fn changed(evidence: Evidence, change: impl FnOnce(&mut TextEvidence)) -> Evidence {
    let EvidenceSource::Text(mut text) = evidence.source else { panic!("no text") };
    change(&mut text);
    Evidence { source: EvidenceSource::Text(text), ..evidence }
}

fn judged(outline: Outline, evidence: &[Evidence]) -> MessageVerdict {
    judge(evidence, &MessageContext { outline: Some(outline), bulk_threshold: 10, ..MessageContext::default() })
}

/// Returns the kind, reason and role for a message with a single piece of evidence.
fn limited(outline: Outline, evidence: Evidence) -> (Kind, MessageReason, Role) {
    let verdict = judged(outline, &[evidence]);
    (verdict.kind, verdict.reason, verdict.roles[0])
}

fn suspected(limit: Limit) -> (Kind, MessageReason, Role) {
    (Kind::Unknown, MessageReason::Suspected, Role::Supports(limit))
}

#[test]
fn the_whole_text_decides_before_anything_else() {
    let found = judged(LETTER, &[exact(spam()), text(100, revoked())]);
    assert_eq!((found.kind, found.decided_by, found.coverage), (Kind::Spam, Some(0), 100));
    let found = judged(LETTER, &[exact(revoked()), text(95, spam())]);
    assert_eq!((found.kind, found.reason), (Kind::Ham, MessageReason::Evidence(Reason::Revoked)));
    assert_eq!(limited(PHRASE, exact(spam())), suspected(Limit::ShortText));
    assert_eq!(limited(WITH_FILE, exact(spam())), suspected(Limit::ShortText), "a sentence beside a file");
    let picture = Outline { files: 0, pictures: 1, ..WITH_FILE };
    assert_eq!(limited(picture, exact(spam())), suspected(Limit::ShortText), "a sentence beside a picture");
    assert_eq!(judged(REPLY, &[exact(spam())]).kind, Kind::Spam, "few own words, but the same thread");
}

#[test]
fn a_close_text_decides_and_a_resemblance_does_not() {
    let found = judged(LETTER, &[exact(Verdict::default()), text(90, spam())]);
    assert_eq!((found.kind, found.decided_by, found.coverage), (Kind::Spam, Some(1), 90));
    assert_eq!(limited(LETTER, text(60, spam())), suspected(Limit::Resemblance));
    let agreed = Verdict { voices: 5, ..spam() };
    assert_eq!(
        limited(LETTER, text(60, agreed)),
        suspected(Limit::Resemblance),
        "no matter how many people reported the other text"
    );
    assert_eq!(limited(PHRASE, text(100, spam())), suspected(Limit::ShortText));
    assert_eq!(limited(LETTER, changed(text(100, spam()), |text| text.is_quoted = true)), suspected(Limit::Quoted));
}

#[test]
fn a_known_template_needs_a_second_reporter() {
    let template = |voices| changed(text(90, Verdict { voices, ..spam() }), |text| text.is_template = true);
    assert_eq!(limited(LETTER, template(1)), suspected(Limit::Template));
    assert_eq!(judged(LETTER, &[template(PEOPLE_AGREEING)]).kind, Kind::Spam);
}

#[test]
fn parts_only_support() {
    for (scheme, piece, limit) in [
        (Scheme::RazorE4, Piece::OtherText, Limit::OnePart),
        (Scheme::RazorE4, Piece::MainText, Limit::OnePart),
        (Scheme::Pyzor, Piece::Message, Limit::OnePart),
        (Scheme::Url, Piece::Message, Limit::OnePart),
        (Scheme::Attachment, Piece::Picture, Limit::Picture),
        (Scheme::Attachment, Piece::Accessory, Limit::Accessory),
        (Scheme::Attachment, Piece::File, Limit::BesideText),
    ] {
        assert_eq!(limited(LETTER, of(scheme, piece, spam())), suspected(limit), "{scheme} of {piece:?}");
    }
    let found = judged(LETTER, &[of(Scheme::RazorE4, Piece::OtherText, spam())]);
    assert!(found.confidence <= CONFIDENCE_SUSPECTED_MAX && found.confidence > 0);
}

#[test]
fn files_decide_together_where_there_is_little_else() {
    assert_eq!(judged(WITH_FILE, &[file(spam())]).kind, Kind::Spam);
    let found = judged(Outline { files: 2, ..WITH_FILE }, &[file(spam()), file(Verdict::default())]);
    assert_eq!((found.kind, found.roles[0]), (Kind::Unknown, Role::Supports(Limit::OtherFile)));
    let picture = of(Scheme::Attachment, Piece::Picture, Verdict::default());
    assert_eq!(judged(WITH_FILE, &[file(spam()), picture]).kind, Kind::Spam, "an additional logo changes nothing");
}

#[test]
fn without_an_outline_every_signature_decides_for_itself() {
    for scheme in [Scheme::Exact, Scheme::Pyzor, Scheme::RazorE4, Scheme::Attachment] {
        let evidence = [of(scheme, Piece::Message, spam())];
        assert_eq!(judge(&evidence, &MessageContext::default()).kind, Kind::Spam, "{scheme}");
    }
    let supports = [of(Scheme::RazorE8, Piece::Message, spam()), of(Scheme::Url, Piece::Message, spam())];
    assert_eq!(
        judge(&supports, &MessageContext { bulk_threshold: 1, ..MessageContext::default() }).kind,
        Kind::Unknown
    );
}

#[test]
fn senders_come_first_and_recipients_late() {
    let context = MessageContext {
        outline: Some(LETTER),
        is_sender_whitelisted: true,
        bulk_threshold: 10,
        ..MessageContext::default()
    };
    assert_eq!(judge(&[exact(spam())], &context).reason, MessageReason::SenderWhitelisted);
    let sent_to = |bulk_count| of(Scheme::DccBody, Piece::Message, Verdict { bulk_count, ..Verdict::default() });
    assert_eq!(judged(LETTER, &[sent_to(10), exact(revoked())]).kind, Kind::Ham);
    assert_eq!(judged(LETTER, &[sent_to(10), text(60, spam())]).kind, Kind::Bulk);
    assert_eq!(judged(LETTER, &[sent_to(9), text(60, spam())]).reason, MessageReason::Suspected);
    assert_eq!(judged(LETTER, &[]).reason, MessageReason::NotReported);
    assert_eq!(judged(LETTER, &[of(Scheme::DccBody, Piece::Message, spam())]).reason, MessageReason::NotReported);
}

#[test]
fn the_total_of_a_message_is_that_of_one_signature_and_never_a_sum() {
    let sent = |scheme, bulk_count| of(scheme, Piece::Message, Verdict { bulk_count, ..Verdict::default() });
    let total = |evidence: &[Evidence]| judged(LETTER, evidence).bulk_count;
    assert_eq!(total(&[]), 0);
    assert_eq!(total(&[sent(Scheme::DccBody, 5), sent(Scheme::DccFuz1, 7), sent(Scheme::Pyzor, 6)]), 7);
    let parts = [sent(Scheme::RazorE4, 3), sent(Scheme::RazorE4, 900)];
    assert_eq!(total(&parts), 3, "a common logo does not identify the message");
    assert_eq!(total(&[&parts[..], &[sent(Scheme::DccBody, 5)]].concat()), 5);
}

#[test]
fn whitelisted_lists_and_messages_are_not_bulk_and_may_be_spam() {
    let sent_to = |bulk_count| of(Scheme::DccFuz1, Piece::Message, Verdict { bulk_count, ..Verdict::default() });
    let context = MessageContext { outline: Some(LETTER), bulk_threshold: 10, ..MessageContext::default() };
    let of_list = MessageContext { is_list_whitelisted: true, ..context };
    assert_eq!(judge(&[sent_to(10)], &context).kind, Kind::Bulk);
    assert_eq!(judge(&[sent_to(10)], &of_list).kind, Kind::Unknown);
    assert_eq!(judge(&[sent_to(10), exact(spam())], &of_list).kind, Kind::Spam, "a list can be abused");
    let body = of(Scheme::DccBody, Piece::Message, verdict(Kind::Ham, Reason::Whitelisted, 0));
    assert_eq!(judge(&[sent_to(10), body], &context).kind, Kind::Unknown, "one checksum is enough");
    assert_eq!(judge(&[sent_to(10), Evidence { is_empty: true, ..body }], &context).kind, Kind::Bulk);
    let part = of(Scheme::RazorE4, Piece::Message, verdict(Kind::Ham, Reason::Whitelisted, 0));
    assert_eq!(judge(&[sent_to(10), part], &context).kind, Kind::Bulk, "a logo does not identify the message");
}

#[test]
fn signatures_of_empty_messages_are_no_evidence() {
    let empty = Evidence { is_empty: true, ..exact(spam()) };
    assert_eq!(judged(LETTER, &[empty]).reason, MessageReason::NotReported);
}

#[test]
fn confidence_grows_with_people_and_with_coverage() {
    use crate::verdict::confidence_of_own;
    let of_people =
        |people| judged(LETTER, &[exact(verdict(Kind::Spam, Reason::OwnReports, confidence_of_own(people)))]);
    assert_eq!([1, 2, 3, 4, 50].map(|people| of_people(people).confidence), [80, 90, 95, 98, 99]);
    assert_eq!(judged(LETTER, &[text(100, spam())]).confidence, 80);
    assert_eq!(judged(LETTER, &[text(70, spam())]).confidence, 74);
}

#[test]
fn a_report_claims_the_main_content() {
    let claimed = |outline: &Outline| -> Vec<&str> {
        let all = [
            ("exact", Scheme::Exact, Piece::Message),
            ("pyzor", Scheme::Pyzor, Piece::Message),
            ("main", Scheme::RazorE4, Piece::MainText),
            ("footer", Scheme::RazorE4, Piece::OtherText),
            ("file's part", Scheme::RazorE4, Piece::File),
            ("picture", Scheme::Attachment, Piece::Picture),
            ("card", Scheme::Attachment, Piece::Accessory),
            ("link", Scheme::Url, Piece::Message),
            ("host", Scheme::RazorE8, Piece::Message),
        ];
        all.iter().filter(|(_, scheme, piece)| is_claimed(*scheme, *piece, outline)).map(|(name, ..)| *name).collect()
    };
    assert_eq!(claimed(&LETTER), ["exact", "pyzor", "main"]);
    assert_eq!(claimed(&WITH_FILE), ["file's part"]);
    assert_eq!(claimed(&Outline { files: 2, ..WITH_FILE }), [""; 0], "neither file identifies the message");
    assert_eq!(claimed(&REPLY), ["exact"]);
    assert_eq!(claimed(&PHRASE), [""; 0]);
    assert_eq!(claimed(&Outline { links: 1, ..PHRASE }), ["main"]);
}
