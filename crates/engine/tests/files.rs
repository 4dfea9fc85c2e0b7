//! Tests of files as evidence. The payload decides, a file next to a text only raises suspicion, and a file known from
//! good mail never decides.

mod common;

use bruit_engine::event::Event;
use bruit_engine::message::{MessageContext, MessageReason, MessageVerdict, claim_events, good_features, judge};
use bruit_engine::time::Time;
use bruit_engine::trust::{Claim, Standing};
use bruit_engine::verdict::Kind;
use bruit_engine::{CheckScratch, Engine};
use bruit_signatures::{Context, Signed, Wanted, sign};

use common::{SPAM_EPOCH, START, by, engine, tick};

const LETTER: &str = "The garden committee meets on Thursday in the village hall to choose the roses for the new beds along the \
    church path, so please bring catalogues, prices and your own ideas about colours and scents.";
const PITCH: &str = "Earn thousands every week from your kitchen table with a secret method that bankers never wanted ordinary \
    families to discover, and begin today without paying a single cent before midnight.";

/// Returns a message with a text and PDF files. Each byte of `files` stands for one file's content.
fn message(text: &str, files: &[u8]) -> Signed {
    let file = |&byte: &u8| {
        let content = format!("%PDF-1.4 {}", char::from(byte).to_string().repeat(500));
        format!("--b\nContent-Type: application/pdf\n\n{content}\n")
    };
    let files: String = files.iter().map(file).collect();
    let body = format!("--b\nContent-Type: text/plain\n\n{text}\n{files}--b--\n");
    signed(&format!("Content-Type: multipart/mixed; boundary=b\n\n{body}"))
}

fn signed(message: &str) -> Signed {
    let wanted = Wanted { url: false, pyzor: false, dcc: false, ..Wanted::ALL };
    sign(message.as_bytes(), &wanted, &Context::default())
}

fn claim(engine: &mut Engine, signed: &Signed, claim: Claim, reporter: u64) {
    for event in claim_events(engine, signed, claim, by(START, Standing::Own, reporter)) {
        engine.apply(&event);
    }
}

fn report(engine: &mut Engine, signed: &Signed) {
    claim(engine, signed, Claim::Report, 1);
}

fn judged(engine: &Engine, signed: &Signed) -> MessageVerdict {
    let evidence = engine.check_message(signed, &mut CheckScratch::default());
    judge(&evidence, &MessageContext { outline: signed.outline, bulk_threshold: 10, ..MessageContext::default() })
}

fn kind(engine: &Engine, signed: &Signed) -> (Kind, MessageReason) {
    let verdict = judged(engine, signed);
    (verdict.kind, verdict.reason)
}

const SUSPECTED: (Kind, MessageReason) = (Kind::Unknown, MessageReason::Suspected);
const UNKNOWN: (Kind, MessageReason) = (Kind::Unknown, MessageReason::NotReported);

#[test]
fn a_message_with_one_file_is_identified_by_it() {
    let mut engine = engine();
    report(&mut engine, &message("see attached", b"x"));
    assert_eq!(kind(&engine, &message("your invoice", b"x")).0, Kind::Spam);
    assert_eq!(kind(&engine, &message(LETTER, b"x")), SUSPECTED, "with a text of its own");
    assert_eq!(kind(&engine, &message("see attached", b"y")), UNKNOWN);
}

#[test]
fn a_message_with_several_files_is_identified_by_all_of_them_together() {
    let mut engine = engine();
    report(&mut engine, &message("see attached", b"xt"));
    assert_eq!(kind(&engine, &message("your invoice", b"tx")).0, Kind::Spam);
    assert_eq!(kind(&engine, &message("our terms", b"t")), SUSPECTED, "the shop whose terms were copied");
    assert_eq!(kind(&engine, &message("our terms", b"ty")), SUSPECTED);
}

#[test]
fn a_file_beside_changing_texts_is_suspected() {
    let mut engine = engine();
    report(&mut engine, &message(PITCH, b"x"));
    let verdict = judged(&engine, &message(LETTER, b"x"));
    assert_eq!((verdict.kind, verdict.reason), SUSPECTED);
    assert!((1..=60).contains(&verdict.confidence), "{}", verdict.confidence);
    assert_eq!(kind(&engine, &message("see attached", b"x")), SUSPECTED, "the file alone never makes it spam");
    claim(&mut engine, &message(LETTER, b"x"), Claim::Revoke, 1);
    assert_eq!(kind(&engine, &message("see attached", b"x")).0, Kind::Ham);
}

#[test]
fn a_file_beside_a_link_is_not_the_payload() {
    let mut engine = engine();
    let phish = "Your account is blocked, unlock it: http://evil.example/login.php";
    report(&mut engine, &message(phish, b"t"));
    assert_eq!(kind(&engine, &message("our terms", b"t")), SUSPECTED, "the bank whose terms were copied");
    let found = kind(&engine, &message(phish, b"y"));
    assert_eq!(found.0, Kind::Spam, "the same link with another file");
}

#[test]
fn a_text_that_could_not_be_found_is_not_claimed() {
    let engine = engine();
    let claimed = |text: &str| claim_events(&engine, &signed(text), Claim::Report, by(START, Standing::Own, 1));
    let page = "Content-Type: text/html\n\n<a href='http://evil.example/a'><img src='http://evil.example/i.png'></a>";
    assert_eq!(claimed(page), []);
    assert_ne!(claimed("\nBuy genuine watches here http://evil.example/shop and http://other.example/watches\n"), []);
}

#[test]
fn a_file_of_good_mail_is_not_claimed_and_decides_nothing() {
    let mut engine = engine();
    report(&mut engine, &message("your invoice", b"t"));
    assert_eq!(kind(&engine, &message("our terms", b"t")).0, Kind::Spam);
    learn(&mut engine, &message(LETTER, b"t"));
    assert_eq!(kind(&engine, &message("our terms", b"t")), SUSPECTED, "the file was learnt after the report");
    let claimed = claim_events(&engine, &message("your invoice", b"t"), Claim::Report, by(START, Standing::Own, 2));
    assert_eq!(claimed, [], "the file was learnt before the next report");
}

#[test]
fn a_forward_of_a_file_is_suspected_and_teaches_nothing() {
    let mut engine = engine();
    let spam = format!("Content-Type: application/pdf\n\n%PDF-1.4 {}", "x".repeat(500));
    report(&mut engine, &signed(&spam));
    assert_eq!(kind(&engine, &signed(&spam)).0, Kind::Spam);
    let forward = format!(
        "Content-Type: multipart/mixed; boundary=b\n\n--b\n\nIs this one genuine?\n--b\n\
         Content-Type: message/rfc822\n\nSubject: spam\n{spam}\n--b--\n"
    );
    assert_eq!(kind(&engine, &signed(&forward)), SUSPECTED);
    claim(&mut engine, &signed(PITCH), Claim::Report, 1);
    let bare = format!(
        "\n---------- Forwarded message ---------\nFrom: Eve <eve@spam.example>\nDate: Mon, 2 Nov 2026\n\
        Subject: method\nTo: you@example.org\n\n{PITCH}\n"
    );
    assert_eq!(good_features(&signed(&bare)), None);
}

#[test]
fn a_revocation_lasts_as_long_as_the_listing() {
    let mut engine = engine();
    let issue = |own: &str| signed(&format!("\n{LETTER} {own}\n"));
    let (first, second) =
        (issue("Tea is served at four by the scouts."), issue("Cake follows at five from the bakers."));
    report(&mut engine, &first);
    assert_eq!(kind(&engine, &second).0, Kind::Spam, "a message from the same template");
    claim(&mut engine, &second, Claim::Revoke, 2);
    let third = issue("Songs end the day at six in the barn.");
    for epoch in 0..8 {
        tick(&mut engine, Time(START.0 + epoch * SPAM_EPOCH));
        assert_ne!(kind(&engine, &third).0, Kind::Spam, "epoch {epoch}");
    }
}

/// After some days, the nursery no longer knows the reporters. The counts of reports do not show how many people made
/// them.
#[test]
fn one_person_never_counts_as_several() {
    let mut engine = engine();
    let spam = signed(&format!("\n{LETTER} {PITCH}\n"));
    // Much of the text is known from good mail. So reports by one person make only the exact text spam. Reports by two
    // people make its near replicas spam as well.
    claim(&mut engine, &signed(&format!("\n{LETTER}\n")), Claim::Revoke, 9);
    let replica = signed(&format!("\n{LETTER} Hurry, {PITCH}\n"));
    for _ in 0..3 {
        claim(&mut engine, &spam, Claim::Report, 1);
    }
    for epoch in 1..5 {
        assert_eq!(kind(&engine, &spam).0, Kind::Spam, "epoch {epoch}");
        assert_eq!(kind(&engine, &replica), SUSPECTED, "epoch {epoch}");
        tick(&mut engine, Time(START.0 + epoch * SPAM_EPOCH));
    }
    for reporter in [1, 2] {
        claim(&mut engine, &spam, Claim::Report, reporter);
    }
    assert_eq!(kind(&engine, &replica).0, Kind::Spam, "a second person agrees");
}

fn learn(engine: &mut Engine, good: &Signed) {
    let features = engine.replicas().good_features_of(&good_features(good).unwrap());
    engine.apply(&Event::GoodFeatures { by: by(START, Standing::Own, 1), features });
}

#[test]
fn files_of_good_mail_decide_nothing_together_either() {
    let mut engine = engine();
    report(&mut engine, &message("see attached", b"st"));
    learn(&mut engine, &message(LETTER, b"s"));
    assert_eq!(kind(&engine, &message("see attached", b"st")).0, Kind::Spam, "one of the files is only in spam");
    learn(&mut engine, &message(LETTER, b"t"));
    assert_eq!(kind(&engine, &message("see attached", b"st")), SUSPECTED);
}

#[test]
fn a_long_good_message_teaches_its_file_too() {
    let mut engine = engine();
    let long: String = (0..1_000).map(|number| format!("word{number} ")).collect();
    learn(&mut engine, &message(&long, b"t"));
    report(&mut engine, &message("your invoice", b"t"));
    assert_eq!(kind(&engine, &message("our terms", b"t")), UNKNOWN);
}

#[test]
fn a_link_in_the_greeting_counts() {
    let mut engine = engine();
    let page = "Content-Type: text/html\n\n<p>Dear customer <a href='http://evil.example/login'>unlock account</a></p>";
    let file = format!("Content-Type: application/pdf\n\n%PDF-1.4 {}", "t".repeat(500));
    let phish = format!("Content-Type: multipart/mixed; boundary=b\n\n--b\n{page}\n--b\n{file}\n--b--\n");
    report(&mut engine, &signed(&phish));
    assert_eq!(kind(&engine, &message("our terms", b"t")), SUSPECTED, "the bank whose terms were copied");
}
