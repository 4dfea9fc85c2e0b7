//! Whatever decodes as a page of attribution encodes to the same bytes, and can be asked.
//!
//! Filters in a page have checksums and key ids, which random bytes never have; so a page that we wrote ourselves is changed at the
//! places and by the values that the input names, and random bytes are decoded as they are.
#![no_main]

use std::sync::LazyLock;

use bruit_filters::FingerprintKey;
use bruit_filters::blocks::BlockShape;
use bruit_forensics::attribution::{Draft, Host, Page, Pair, Question, Settings, query};
use bruit_forensics::pages::Span;
use libfuzzer_sys::fuzz_target;

const SPAN: Span = Span { from: 0, to: 599 };

/// A page with two pairs in it.
static PAGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let shape = BlockShape::new(32, 3).expect("a usual shape");
    let settings = Settings { shape, bytes_per_hour: 1 << 20, page_seconds: 600, false_positive_rate: 0.01 };
    let mut draft = Draft::new(&settings, SPAN, FingerprintKey::new([1; 16]));
    let pair = |source| Pair { source, destination: Host::Unknown };
    let address = std::net::IpAddr::from([192, 0, 2, 1]);
    draft.record(5, &[pair(Host::named("a@example.org")), pair(address.into())], &[7; 200]);
    draft.finish(0.01).to_bytes().expect("a page can be written")
});

fuzz_target!(|input: &[u8]| {
    work_with(input);
    let mut bytes = PAGE.clone();
    for change in input.as_chunks::<3>().0 {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % bytes.len();
        bytes[place] = change[2];
    }
    work_with(&bytes);
});

fn work_with(bytes: &[u8]) {
    let Ok(page) = Page::from_bytes(SPAN, bytes) else { return };
    let again = page.to_bytes().expect("what was decoded can be encoded");
    assert_eq!(Page::from_bytes(SPAN, &again).expect("it is a page").to_bytes().expect("and again"), again);
    if page.offsets().longest_blocks() <= 1024 {
        let _ = query(&page, &Question::new(&[7; 100], 1));
    }
}
