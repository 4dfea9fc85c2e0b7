//! No message makes a scheme panic, and the size of every result is bounded.

use bruit_signatures::bruit::{Explanation, Features, PAIR_DISTANCE_MAX};
use bruit_signatures::message::{ATTACHED_MAX, Attached, Message, PARTS_MAX};
use bruit_signatures::pyzor::{Version, digest, predigest};
use bruit_signatures::razor::{self, Ep4};
use bruit_signatures::reading::{LINKS_MAX, Reading, TEXT_BYTES_MAX};
use bruit_signatures::url::Link;
use bruit_signatures::{Context, Scheme, Signed, Wanted, dcc, sign};

pub(crate) fn fuzz(bytes: &[u8]) {
    let envelope = dcc::Envelope { client: Some([192, 0, 2, 1].into()), sender: Some(bytes) };
    let signed = sign(bytes, &Wanted::ALL, &Context { ep4: Ep4::default(), envelope });
    check_bounds(&signed);
    check_pyzor(bytes, &signed);
    read(bytes, &signed);
    let other = Ep4::new(9911, b"\r\n").expect("the separator is valid");
    let razor = Wanted { razor: true, ..Wanted::NONE };
    sign(bytes, &razor, &Context { ep4: other.clone(), ..Context::default() });
    // Also compute the signatures of the input as a part, because reports submit parts separately.
    let _ = razor::sign_part(bytes, &Ep4::default());
    let _ = razor::sign_part(bytes, &other);
    Link::read(&String::from_utf8_lossy(bytes));
}

fn check_bounds(signed: &Signed) {
    let count = |scheme: Scheme| signed.signatures.iter().filter(|signature| signature.scheme() == scheme).count();
    assert!(count(Scheme::Url) <= LINKS_MAX && count(Scheme::Attachment) <= PARTS_MAX + 1);
    assert!(signed.signatures.iter().all(|signature| !signature.to_string().is_empty()));
}

/// Checks that `sign`, which computes both versions at once, agrees with separate computations of each version.
fn check_pyzor(bytes: &[u8], signed: &Signed) {
    let of = |scheme: Scheme| signed.signatures.iter().find(|signature| signature.scheme() == scheme);
    let older = of(Scheme::Pyzor).expect("every message has a Pyzor signature");
    let newer = of(Scheme::Pyzor11).unwrap_or(older);
    assert_eq!(newer.bytes(), digest(bytes, Version::V1_1).0);
    predigest(bytes, Version::V1_0);
    predigest(bytes, Version::V1_1);
}

fn read(bytes: &[u8], signed: &Signed) {
    let message = Message::read(bytes);
    assert!(Attached::of(bytes).messages.len() <= ATTACHED_MAX);
    let reading = Reading::of(&message);
    assert!(reading.text.len() <= TEXT_BYTES_MAX && reading.links.len() <= LINKS_MAX);
    let features = Features::of(&reading);
    assert_eq!(signed.features.as_ref(), Some(&features));
    let explanation = Explanation::of(&reading);
    let counted = explanation.lines.iter().filter(|line| explanation.counts(line)).map(|line| line.words.len());
    assert!(features.pairs.len() <= counted.sum::<usize>() * PAIR_DISTANCE_MAX);
    assert_eq!(features.own().len(), features.own().count());
}
