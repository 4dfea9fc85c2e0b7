//! Decoded attribution pages encode to the same bytes, and can be queried.
//!
//! The filters in a page have checksums and key IDs, which random bytes never match. The target therefore changes bytes
//! of a valid page, at positions that depend on the input. It also decodes the input itself.

use std::sync::LazyLock;

use bruit_filters::FingerprintKey;
use bruit_forensics::attribution::{Draft, Host, Page, Pair, Question, Settings, query};
use bruit_forensics::pages::Span;
use bruit_structures::blocks::BlockShape;

const SPAN: Span = Span { from: 0, to: 599 };

/// A page with two pairs.
static PAGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let shape = BlockShape::new(32, 3).expect("the shape is valid");
    let settings = Settings { shape, bytes_per_hour: 1 << 20, page_seconds: 600, false_positive_rate: 0.01 };
    let mut draft = Draft::new(&settings, SPAN, FingerprintKey::new([1; 16]));
    let pair = |source| Pair { source, destination: Host::Unknown };
    let address = std::net::IpAddr::from([192, 0, 2, 1]);
    draft.record(5, &[pair(Host::named("a@example.org")), pair(address.into())], &[7; 200]);
    draft.finish(0.01).to_bytes().expect("a page can be written")
});

pub(crate) fn fuzz(input: &[u8]) {
    work_with(input);
    let mut bytes = PAGE.clone();
    for change in input.as_chunks::<3>().0 {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len();
        bytes[place] = change[2];
    }
    work_with(&bytes);
}

fn work_with(bytes: &[u8]) {
    let Ok(page) = Page::from_bytes(SPAN, bytes) else { return };
    let again = page.to_bytes().expect("a decoded page can be encoded");
    assert_eq!(Page::from_bytes(SPAN, &again).expect("the page is valid").to_bytes().expect("and again"), again);
    if page.offsets().longest_blocks() <= 1024 {
        let _ = query(&page, &Question::new(&[7; 100], 1));
    }
}
